//! Which of the server's counters is a transaction.

/// Counters whose sum is the number of transactions of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    pub names: &'static [&'static str],
}

const STATEMENTS: Count = Count { names: &["Questions"] };

/// The tests that come with sysbench: what commits is counted by its commits, what is one statement by its statements of that
/// kind. A test of one's own is counted by commits and rollbacks, or if it has none by statements.
pub fn of(test: &str, extra: &[String]) -> Count {
    // Without transactions a test of many statements has no counter of its own.
    let bare = extra.iter().any(|e| {
        let e = e.trim_start_matches('-').replace('-', "_");
        let (key, value) = e.split_once('=').unwrap_or((&e, "on"));
        key == "skip_trx" && !["off", "false", "0"].contains(&value)
    });
    let names: &'static [&'static str] = match test {
        "oltp_point_select" | "select_random_ranges" | "select_random_points" => &["Com_select"],
        "oltp_update_non_index" | "oltp_update_index" => &["Com_update"],
        "oltp_insert" => &["Com_insert"],
        "oltp_delete" => &["Com_delete"],
        _ if bare => return STATEMENTS,
        "oltp_read_only" | "oltp_read_write" | "oltp_write_only" => &["Com_commit"],
        _ => &["Com_commit", "Com_rollback"],
    };
    Count { names }
}
