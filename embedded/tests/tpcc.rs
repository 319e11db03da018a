//! TPC-C through the real binary, on tables cut down so that they load at once. No timing is asserted.

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};
use support::{Lab, PROGRAM, dir, number, text};

const KINDS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];

fn program(dir: &Path, options: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("--dir").arg(dir).args(["--test", "tpcc", "--cut", "50"]).args(options.split_whitespace());
    command
}

fn start(dir: &Path, options: &str) -> Lab {
    Lab::of(program(dir, options))
}

fn output(dir: &Path, options: &str) -> Output {
    program(dir, options).output().unwrap()
}

/// What a check that holds says.
fn holds(lab: &mut Lab) -> String {
    let checked = lab.check();
    assert_eq!(checked["holds"], true, "{checked}");
    checked["what"].as_str().unwrap().to_owned()
}

/// Orders that were added since the load or the last renewal, by the check's word.
fn added(said: &str) -> u64 {
    let (_, account) = said.split_once("; ").unwrap_or_else(|| panic!("{said}"));
    account.split(' ').next().unwrap().parse().unwrap()
}

fn committed(result: &Value) -> u64 {
    let orders = &result["kinds"]["new_order"];
    orders["count"].as_u64().unwrap() - orders["rolled_back"].as_u64().unwrap()
}

#[test]
fn runs_of_any_size_keep_every_condition_and_the_account() {
    let dir = dir("tpcc");
    let mut lab = start(&dir, "--warehouses 3");
    let ready = lab.ready.clone();
    assert_eq!((ready["test"].as_str(), ready["engine"].as_str()), (Some("tpcc"), Some("TidesDB")), "{ready}");
    assert_eq!((ready["isolation"].as_str(), ready["durability"].as_str()), (Some("snapshot"), Some("none")));
    assert_eq!((number(&ready, "warehouses"), ready["standard"].as_bool()), (3.0, Some(false)));
    assert_eq!(ready["paced"], false);
    let said = holds(&mut lab);
    assert!(said.starts_with("12 conditions hold") && added(&said) == 0, "{said}");

    let mut before = 0;
    for (clients, seconds) in [(1, 0.5), (8, 0.7), (64, 1.2)] {
        let (parts, result) = lab.run(clients, seconds, |_| {});
        let kinds = result["kinds"].as_object().unwrap();
        let counts = KINDS.map(|kind| kinds[kind]["count"].as_u64().unwrap());
        assert_eq!(result["errors"], json!({}), "{result}");
        assert_eq!(number(&result, "transactions"), counts.iter().sum::<u64>() as f64);
        assert!(counts[0] > 0 && counts[1] > 0, "{result}");
        // What the seconds say adds up to the window.
        for (kind, count) in KINDS.iter().zip(counts) {
            let parts: u64 = parts.iter().map(|part| part["kinds"][kind]["count"].as_u64().unwrap()).sum();
            assert_eq!(parts, count, "{kind}: {parts:?}");
        }
        let window = number(&result, "seconds");
        assert!((number(&result, "nopm") * window / 60.0 - committed(&result) as f64).abs() < 0.5, "{result}");
        assert!((number(&result, "tpmc") * window / 60.0 - counts[0] as f64).abs() < 0.5, "{result}");
        let retries: u64 = result["retries_by_code"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(number(&result, "retries"), retries as f64);
        let latency = ["p50", "p95", "p99", "p999", "max"].map(|name| number(&result["latency_ms"], name));
        assert!(latency[0] > 0.0 && latency.is_sorted(), "{result}");
        assert!(number(&result, "cpu_s") > 0.0 && number(&result, "rows_read") > 0.0, "{result}");
        assert_eq!(result["stalls_s"].as_object().unwrap().len(), 5, "{result}");

        let said = holds(&mut lab);
        assert!(said.starts_with("11 conditions hold"), "{said}");
        // What came before the window and after it is in the tables and in no figure.
        assert!(added(&said) - before > committed(&result), "{said}, {before} before; {result}");
        before = added(&said);
    }

    lab.line(r#"{"do":"renew"}"#);
    lab.event("renewed");
    let said = holds(&mut lab);
    assert!(said.starts_with("12 conditions hold") && added(&said) == 0, "{said}");
    lab.run(2, 0.3, |_| {});
    holds(&mut lab);
    lab.line(r#"{"do":"settle","timeout_s":60}"#);
    assert_eq!(lab.event("settled")["quiet"], true);
    lab.line(r#"{"do":"quit"}"#);
    assert_eq!(lab.wait().code(), Some(0));
    assert!(!dir.exists());
}

#[test]
fn one_new_order_in_a_hundred_is_taken_back() {
    let mut lab = start(&dir("tpcc-back"), "--warehouses 4 --checks quick");
    let (mut all, mut back) = (0, 0);
    for seed in 1..60 {
        lab.line(&json!({"do": "run", "clients": 4, "seconds": 1, "seed": seed}).to_string());
        lab.event("second");
        let result = lab.event("result");
        all += result["kinds"]["new_order"]["count"].as_u64().unwrap();
        back += result["kinds"]["new_order"]["rolled_back"].as_u64().unwrap();
        if all > 4000 {
            break;
        }
    }
    let share = back as f64 / all as f64;
    assert!((0.004..0.02).contains(&share), "{back} of {all}");
    let said = holds(&mut lab);
    assert!(said.starts_with("6 conditions hold"), "{said}");
    assert_eq!(lab.end().code(), Some(0));
}

#[test]
fn many_clients_come_and_go() {
    let dir = dir("tpcc-many");
    let mut lab = start(&dir, "--warehouses 8 --checks quick");
    let (_, result) = lab.run(512, 1.0, |_| {});
    assert!(number(&result, "transactions") > 0.0 && result["errors"] == json!({}), "{result}");
    holds(&mut lab);
    assert_eq!(lab.end().code(), Some(0));
    assert!(!dir.exists());
}

#[test]
fn paced_terminals_wait_and_end_at_once() {
    let mut lab = start(&dir("tpcc-paced"), "--warehouses 2 --paced");
    let (_, result) = lab.run(100, 3.0, |_| {});
    // Typing takes 2 seconds at least, and most take longer than the run.
    assert!((1.0..200.0).contains(&number(&result, "transactions")), "{result}");
    holds(&mut lab);
    assert_eq!(lab.end().code(), Some(0));
}

#[test]
fn a_signal_ends_a_run_and_cleans_up() {
    for (name, options) in [("tpcc-int", ""), ("tpcc-int-paced", "--paced")] {
        let dir = dir(name);
        let mut lab = start(&dir, options);
        lab.line(r#"{"do":"run","clients":64,"seconds":3600}"#);
        lab.event("second");
        kill(lab.pid(), Signal::SIGINT).unwrap();
        assert_eq!(lab.wait().code(), Some(0));
        assert!(!dir.exists());
    }
}

#[test]
fn a_person_sees_figures_and_checks() {
    let dir = dir("tpcc-once");
    let out = output(&dir, "--clients 1,4 --seconds 0.5 --warmup 0.1");
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{said}{}", text(&out.stderr));
    assert!(said.contains("snapshot, durability none, 1 warehouses cut down: no TPC-C"), "{said}");
    assert_eq!(said.matches("NOPM").count(), 2, "{said}");
    assert_eq!(said.matches("check: 11 conditions hold").count(), 2, "{said}");
    assert!(!dir.exists());
}

#[test]
fn nothing_is_checked_where_nothing_is_to_be() {
    let mut lab = start(&dir("tpcc-none"), "--checks none");
    assert_eq!(lab.ready["checks"], "none");
    assert_eq!(holds(&mut lab), "nothing was checked, as asked");
    assert_eq!(lab.end().code(), Some(0));
}

#[test]
fn an_option_of_the_other_test_is_refused() {
    let dir = dir("tpcc-wrong");
    let out = output(&dir, "--rows 10");
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--rows is for --test oltp"), "{}", text(&out.stderr));
    let out = Command::new(PROGRAM).arg("--dir").arg(&dir).args(["--warehouses", "2"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--warehouses is for --test tpcc"), "{}", text(&out.stderr));
    assert!(!dir.exists());
}

#[test]
fn kept_tables_serve_the_next_process() {
    let (dir, keep) = (dir("tpcc-keep"), support::dir("tpcc-kept"));
    let options = format!("--keep {}", keep.display());
    for (seed, kept) in [(1, false), (1, true), (2, false), (1, true)] {
        let mut lab = start(&dir, &format!("{options} --seed {seed}"));
        assert_eq!(lab.ready["kept"], kept, "{}", lab.ready);
        let said = holds(&mut lab);
        assert!(said.starts_with("12 conditions hold"), "{said}");
        lab.run(4, 0.2, |_| {});
        holds(&mut lab);
        assert_eq!(lab.end().code(), Some(0));
        assert!(!dir.exists() && keep.exists());
    }
    // One that is damaged is not served.
    let databases = std::fs::read_dir(&keep).unwrap().map(|e| e.unwrap().path().join("database"));
    for database in databases.filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(database).unwrap().map(|e| e.unwrap().path()).filter(|path| path.is_file()) {
            std::fs::write(file, "").unwrap();
        }
    }
    let out = output(&dir, &options);
    assert_eq!(out.status.code(), Some(3), "{out:?}");
    assert!(!dir.exists());
    std::fs::remove_dir_all(&keep).unwrap();
}
