//! The real binary, started as a person and as the lab start it. No check depends on how fast the machine is, beyond
//! limits far above what is needed.

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use support::{LIMIT, Lab, PROGRAM, dir, number, text};

const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

fn program(dir: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("--dir").arg(dir).args(["--rows", "2000"]).args(options);
    command
}

fn output(dir: &Path, options: &[&str]) -> Output {
    program(dir, options).output().unwrap()
}

fn start(dir: &Path, options: &[&str]) -> Lab {
    Lab::of(program(dir, options))
}

/// The rows that a check found.
fn rows(checked: &Value) -> u64 {
    assert_eq!(checked["holds"], true, "{checked}");
    checked["what"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_person_sees_a_row_for_each_client_count() {
    let dir = dir("once");
    let out = output(&dir, &["--clients", "1,8,64", "--seconds", "0.3", "--warmup", "0.1"]);
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{said}{}", text(&out.stderr));
    let table: Vec<Vec<f64>> = said
        .lines()
        .filter(|line| line.starts_with(' '))
        .map(|line| line.split_whitespace().map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert_eq!(table.iter().map(|row| row[0]).collect::<Vec<_>>(), [1.0, 8.0, 64.0], "{said}");
    assert!(table.iter().all(|row| row[1] > 0.0 && row[7] == 0.0), "{said}");
    assert!(said.contains("The check holds: 2000 rows"), "{said}");
    assert!(!dir.exists());
}

#[test]
fn the_figures_of_a_run_agree_with_each_other() {
    let dir = dir("figures");
    let mut lab = start(&dir, &["--mix", "point=3,range=1,update=2,insert=1,delete=1", "--range-rows", "10"]);
    assert!(lab.ready["tidesdb"].as_str().unwrap().starts_with("10."));
    assert_eq!((number(&lab.ready, "rows"), number(&lab.ready, "pid")), (2000.0, f64::from(lab.child.id())));
    assert!(number(&lab.ready, "prepare_s") > 0.0);
    let before = lab.threads();
    for (clients, seconds) in [(1, 0.3), (8, 0.5), (64, 1.2)] {
        // With every report, the last included, all clients are there.
        let (parts, result) = lab.run(clients, seconds, |lab| assert!(lab.threads() >= before + clients));
        assert_eq!(number(&result, "clients"), f64::from(clients));
        let (window, transactions) = (number(&result, "seconds"), number(&result, "transactions"));
        assert!(window >= seconds && transactions > 0.0, "{result}");
        assert!((number(&result, "tps") * window - transactions).abs() < 0.5, "{result}");

        let in_parts: f64 = parts.iter().map(|part| number(part, "tps") * number(part, "seconds")).sum();
        let length: f64 = parts.iter().map(|part| number(part, "seconds")).sum();
        // A client may complete a transaction between the look at its count and the edge of the window.
        assert!((in_parts - transactions).abs() <= 2.0 * f64::from(clients) + 0.5, "{in_parts} in {parts:?}; {result}");
        assert!((length - window).abs() < 1e-6 && number(parts.last().unwrap(), "at") == window, "{parts:?} {result}");

        for (kind, times) in [("point", 3.0), ("range", 1.0), ("update", 2.0), ("insert", 1.0), ("delete", 1.0)] {
            assert_eq!(number(&result["operations"], kind), times * transactions, "{result}");
        }
        // 3 points and up to 10 rows of a range; a few rows are deleted at any time.
        let read = number(&result, "rows_read") / transactions;
        assert!((11.0..=13.0).contains(&read), "{result}");
        let latency = ["p50", "p95", "p99", "p999", "max"].map(|name| number(&result["latency_ms"], name));
        assert!(latency[0] > 0.0 && latency.is_sorted(), "{result}");
        assert!(number(&result["latency_ms"], "mean") <= latency[4], "{result}");
        assert_eq!(result["errors"], json!({}));
        let stalls = result["stalls_s"].as_object().unwrap();
        assert!(stalls.len() == 5 && stalls.values().all(|s| s.as_f64().unwrap() >= 0.0), "{result}");
        assert!(number(&result, "cpu_s") > 0.0, "{result}");
        for name in
            ["retries", "not_found", "voluntary_switches", "involuntary_switches", "minor_faults", "major_faults"]
        {
            assert!(number(&result, name) >= 0.0, "{result}");
        }
        // The clients are gone: connections closed, as in a server. The kernel may list a thread a moment longer than it lives.
        let end = Instant::now() + Duration::from_secs(10);
        while lab.threads() > before {
            assert!(Instant::now() < end, "{} threads, {before} before", lab.threads());
            thread::sleep(Duration::from_millis(5));
        }
    }
    lab.line(r#"{"do":"settle","timeout_s":60}"#);
    let settled = lab.event("settled");
    assert!(settled["quiet"] == true && number(&settled, "waited_s") < 60.0, "{settled}");
    assert_eq!(rows(&lab.check()), 2000);
    lab.line(r#"{"do":"quit"}"#);
    assert_eq!(lab.wait().code(), Some(0));
    assert!(!dir.exists());
}

#[test]
fn every_distribution_and_mix_keeps_the_account() {
    for (name, options, at_least, at_most) in [
        ("zipf", &["--distribution", "zipf", "--rows", "500"][..], 500, 500),
        ("pareto", &["--distribution", "pareto", "--value-bytes", "2000"], 2000, 2000),
        ("reads", &["--mix", "point=1,range=1"], 2000, 2000),
        ("inserts", &["--mix", "insert=2"], 2002, u64::MAX),
        ("deletes", &["--mix", "delete=1,point=1", "--value-bytes", "33"], 0, 1999),
        ("one-row", &["--rows", "1", "--mix", "update=1,point=1,range=1,delete=1"], 0, 0),
    ] {
        let dir = dir(name);
        let mut command = Command::new(PROGRAM);
        command.arg("--dir").arg(&dir);
        if !options.contains(&"--rows") {
            command.args(["--rows", "2000"]);
        }
        command.args(options);
        let mut lab = Lab::of(command);
        for clients in [64, 2] {
            let (_, result) = lab.run(clients, 0.3, |_| {});
            assert_eq!(result["errors"], json!({}), "{name}");
            assert!(number(&result, "transactions") > 0.0, "{name}: {result}");
        }
        let found = rows(&lab.check());
        assert!((at_least..=at_most).contains(&found), "{name}: {found} rows");
        assert_eq!(lab.end().code(), Some(0));
        assert!(!dir.exists());
    }
}

#[test]
fn a_malformed_command_is_answered_and_work_goes_on() {
    let mut lab = start(&dir("malformed"), &[]);
    for (line, word) in [
        ("nonsense", "not a command"),
        (r#"{"do":"dance"}"#, "dance"),
        (r#"{"do":"run","clients":0,"seconds":1}"#, "clients"),
        (r#"{"do":"run","clients":1,"seconds":1e9}"#, "seconds"),
        ("\u{1}\u{fffd}", "not a command"),
    ] {
        lab.line(line);
        let error = lab.event("error");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    lab.stdin.as_mut().unwrap().write_all(b"\xff\xfe\n\n").unwrap();
    lab.event("error");
    assert_eq!(rows(&lab.check()), 2000);
    assert_eq!(lab.end().code(), Some(0));
}

#[test]
fn commands_are_done_in_order_before_the_end_of_stdin_counts() {
    let dir = dir("order");
    let mut lab = start(&dir, &[]);
    lab.line(r#"{"do":"run","clients":4,"seconds":0.3}"#);
    lab.line(r#"{"do":"check"}"#);
    lab.stdin = None;
    lab.event("second");
    lab.event("result");
    assert_eq!(rows(&lab.event("checked")), 2000);
    assert_eq!(lab.wait().code(), Some(0));
    assert!(!dir.exists());
}

#[test]
fn a_signal_ends_a_run_at_once_and_cleans_up() {
    for (name, signal) in [("term", Signal::SIGTERM), ("int", Signal::SIGINT)] {
        let dir = dir(name);
        let mut lab = start(&dir, &[]);
        lab.line(r#"{"do":"run","clients":64,"seconds":3600}"#);
        lab.event("second");
        kill(lab.pid(), signal).unwrap();
        assert_eq!(lab.wait().code(), Some(0));
        assert!(!dir.exists());
    }
}

#[test]
fn a_person_s_run_that_is_interrupted_says_so() {
    let dir = dir("interrupted");
    let mut child =
        program(&dir, &["--seconds", "3600"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The heading is printed when the run begins.
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(3));
    assert!(text(&out.stderr).contains("stopped by a signal"), "{}", text(&out.stderr));
    assert!(!dir.exists());
}

#[test]
fn a_run_ends_when_nobody_reads_any_more() {
    let dir = dir("unread");
    let mut child = program(&dir, &["--serve"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut ready).unwrap();
    writeln!(child.stdin.as_mut().unwrap(), r#"{{"do":"run","clients":4,"seconds":3600}}"#).unwrap();
    drop(stdout);
    let start = Instant::now();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(3));
    assert!(text(&out.stderr).contains("cannot write to stdout"), "{}", text(&out.stderr));
    assert!(start.elapsed() < LIMIT && !dir.exists());
}

#[test]
fn wrong_use_is_told_apart_and_touches_nothing() {
    let dir = dir("wrong");
    let parts = ["--mix point", "--mix point=0", "--rows 0", "--value-bytes 8", "--seconds 0", "--serve --clients 2"];
    for part in parts.map(|part| part.split(' ').collect::<Vec<_>>()) {
        let out = Command::new(PROGRAM).arg("--dir").arg(&dir).args(&part).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{part:?}");
        assert!(!dir.exists());
    }
    let out = output(&dir.join("below"), &[]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("create that one first"), "{}", text(&out.stderr));

    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("precious"), "mine").unwrap();
    let out = output(&dir, &[]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("name a directory that does not exist"), "{}", text(&out.stderr));
    assert_eq!(fs::read_to_string(dir.join("precious")).unwrap(), "mine");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_empty_directory_is_left_empty() {
    let dir = dir("empty");
    fs::create_dir(&dir).unwrap();
    assert_eq!(start(&dir, &[]).end().code(), Some(0));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::remove_dir(&dir).unwrap();
}

#[test]
fn a_directory_serves_one_process_and_what_a_killed_one_left_is_cleared() {
    let dir = dir("killed");
    let mut first = start(&dir, &[]);
    let out = output(&dir, &["--seconds", "0.1"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("another evenkeel-embedded uses"), "{}", text(&out.stderr));
    first.run(4, 0.2, |_| {});
    kill(first.pid(), Signal::SIGKILL).unwrap();
    first.wait();
    assert!(dir.exists());

    let mut second = start(&dir, &[]);
    assert_eq!(rows(&second.check()), 2000);
    assert_eq!(second.end().code(), Some(0));
    assert!(!dir.exists());
}

#[test]
fn a_preloaded_heap_serves_the_whole_process() {
    if !Path::new(JEMALLOC).exists() {
        println!("skipped: {JEMALLOC} is not there (Debian: libjemalloc2)");
        return;
    }
    let dir = dir("jemalloc");
    let mut command = program(&dir, &[]);
    command.env("LD_PRELOAD", JEMALLOC);
    let mut lab = Lab::of(command);
    let maps = fs::read_to_string(format!("/proc/{}/maps", lab.child.id())).unwrap();
    assert!(maps.contains("libjemalloc"), "{maps}");
    // glibc's heap is never asked: it would have grown from the break.
    assert!(!maps.contains("[heap]"), "{maps}");
    let (_, result) = lab.run(64, 0.5, |_| {});
    assert!(number(&result, "transactions") > 0.0 && result["errors"] == json!({}), "{result}");
    assert_eq!(rows(&lab.check()), 2000);
    assert_eq!(lab.end().code(), Some(0));
    assert!(!dir.exists());
}
