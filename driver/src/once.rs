//! A person's form: runs each client count once, checks the tables after each, prints a short table.

use crate::Failure;
use crate::bench::Bench;
use crate::event::{Event, Figures, Latency};
use crate::inbox::Inbox;
use crate::run::Wish;
use crate::serve::tell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use tpcc::check::Age;

pub fn once(mut bench: Bench, wishes: Vec<Wish>, json: bool, mut inbox: Inbox) -> Result<(), Failure> {
    if json {
        tell(Event::Ready(Box::new(bench.ready(0.0))))?;
    } else {
        print(&title(&bench))?;
    }
    let mut broken = false;
    for wish in wishes {
        let mut each = |event| if json { tell(event) } else { Ok(()) };
        let figures = bench.run(wish, &mut inbox, &mut each)?.ok_or_else(|| Failure::run("stopped by a signal"))?;
        let checked = bench.check(Age::Used)?;
        broken |= !checked.holds;
        if json {
            tell(Event::Result(Box::new(figures)))?;
            tell(Event::Checked(checked))?;
        } else {
            print(&table(&figures))?;
            print(&format!("check: {}{}\n\n", if checked.holds { "" } else { "DOES NOT HOLD: " }, checked.what))?;
        }
    }
    if broken { Err(Failure::Broken("a run is invalid: the check after it did not hold".into())) } else { Ok(()) }
}

fn title(bench: &Bench) -> String {
    let ready = bench.ready(0.0);
    let mut title = format!("{} on {} {}, {}", ready.test, ready.server, ready.engine, ready.isolation);
    if let Some(warehouses) = ready.warehouses {
        let _ = write!(title, ", {warehouses} warehouses");
        if ready.standard == Some(false) {
            title += " cut down: no TPC-C";
        }
    }
    if let (Some(tables), Some(size), Some(how)) = (ready.tables, ready.table_size, ready.distribution) {
        let _ = write!(title, ", {tables} tables of {size} rows, {how}");
    }
    title + "\n\n"
}

fn table(figures: &Figures) -> String {
    let mut out = String::new();
    let row = |out: &mut String, name: &str, count: u64, l: &Latency| {
        let _ = writeln!(
            out,
            "{name:<14}{count:>10}{:>10.3}{:>10.3}{:>10.3}{:>10.3}{:>10.3}{:>10.3}",
            l.mean, l.p50, l.p95, l.p99, l.p999, l.max
        );
    };
    let _ = writeln!(
        out,
        "{} clients, {:.1} s: {:.1} transactions a second",
        figures.clients, figures.seconds, figures.tps
    );
    if let (Some(nopm), Some(tpm), Some(tpmc)) = (figures.nopm, figures.tpm, figures.tpmc) {
        let _ = writeln!(out, "NOPM {nopm:.0}, TPM {tpm:.0}, tpmC {tpmc:.0}");
    }
    let _ = writeln!(
        out,
        "{:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "latency, ms", "count", "mean", "p50", "p95", "p99", "p99.9", "max"
    );
    for (name, kind) in &figures.kinds {
        row(&mut out, name, kind.count, &kind.latency_ms);
    }
    if figures.kinds.len() > 1 {
        row(&mut out, "all", figures.transactions, &figures.latency_ms);
    }
    let _ = writeln!(out, "errors {}, retries {}", codes(&figures.errors), codes(&figures.retries_by_code));
    let _ = writeln!(
        out,
        "driver: {:.2} s of CPU time, {:.1} MB at most",
        figures.cpu_s,
        figures.peak_rss_bytes as f64 / 1e6
    );
    out
}

fn codes(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "0".into();
    }
    counts.iter().map(|(code, count)| format!("{count} of {code}")).collect::<Vec<_>>().join(", ")
}

pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::Run(format!("cannot write to stdout: {e}")))
}
