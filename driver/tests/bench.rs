//! What the driver costs, beside sysbench on the same server and the same tables: ignored, for it takes minutes.
//!
//!     cargo test --release -p evenkeel-driver --test bench -- --ignored --nocapture
//!
//! Every round runs each test under each tool, in turns; medians go to the terminal, every run to
//! `driver/bench/results/NAME.csv` (NAME from BENCH_NAME, `last` otherwise). A share is client / (client + server) in CPU
//! time, both over the whole life of the client program. ROUNDS and SECONDS say how much.

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use support::{Server, server_with};

const SHAPE: &str = "--tables=4 --table-size=25000";

struct Run {
    tps: f64,
    p99_ms: f64,
    client_s: f64,
    server_s: f64,
    rss_mb: f64,
    invalid: bool,
}

impl Run {
    fn share(&self) -> f64 {
        self.client_s / (self.client_s + self.server_s)
    }
}

#[test]
#[ignore = "takes minutes; it measures"]
fn beside_sysbench() {
    let number = |name: &str, or: u32| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (rounds, seconds) = (number("ROUNDS", 5), number("SECONDS", 5));
    let options = [
        "--innodb-buffer-pool-size=1G",
        "--innodb-log-file-size=512M",
        "--max-connections=5000",
        "--performance-schema=OFF",
    ];
    let Some(server) = server_with(&options) else { return };
    if !Path::new("/usr/bin/sysbench").is_file() {
        println!("skipped: sysbench is not installed; apt-get install sysbench");
        return;
    }
    server.drive_well("prepare", &format!("--test oltp_read_write {SHAPE}"));
    server.drive_well("prepare", "--test tpcc --warehouses 2");

    let mut cells: Vec<(String, u32, &str)> = Vec::new();
    for test in ["oltp_point_select", "oltp_read_only", "oltp_read_write"] {
        for clients in [1, 8, 64] {
            cells.push((test.into(), clients, "driver"));
            cells.push((test.into(), clients, "sysbench"));
        }
    }
    for clients in [8, 64] {
        cells.push(("tpcc".into(), clients, "driver"));
        cells.push(("tpcc --procedures".into(), clients, "driver"));
    }
    let mut csv =
        String::from("round,test,clients,tool,tps,p99_ms,client_cpu_s,server_cpu_s,share,client_rss_mb,valid\n");
    let mut all: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
    for round in 1..=rounds {
        // Every other round goes backwards: what comes first in a round is not always the same.
        let mut order: Vec<usize> = (0..cells.len()).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for at in order {
            let (test, clients, tool) = &cells[at];
            let run = match *tool {
                "sysbench" => sysbench(&server, test, *clients, seconds),
                _ => driver(&server, test, *clients, seconds),
            };
            let _ = writeln!(
                csv,
                "{round},{test},{clients},{tool},{:.1},{:.3},{:.2},{:.2},{:.4},{:.1},{}",
                run.tps,
                run.p99_ms,
                run.client_s,
                run.server_s,
                run.share(),
                run.rss_mb,
                !run.invalid
            );
            all.entry(at).or_default().push(run);
        }
    }
    println!("{:<20}{:>8}{:>10}{:>11}{:>10}{:>9}{:>10}", "test", "clients", "tool", "tps", "p99 ms", "share", "RSS MB");
    for (at, runs) in &all {
        let (test, clients, tool) = &cells[*at];
        let middle = |figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
        println!(
            "{test:<20}{clients:>8}{tool:>10}{:>11.0}{:>10.3}{:>8.1}%{:>10.1}",
            middle(|r| r.tps),
            middle(|r| r.p99_ms),
            middle(Run::share) * 100.0,
            middle(|r| r.rss_mb)
        );
    }
    let name = std::env::var("BENCH_NAME").unwrap_or_else(|_| "last".into());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/results").join(format!("{name}.csv"));
    std::fs::write(&file, csv).unwrap();
    println!("every run: {}", file.display());
}

fn driver(server: &Server, test: &str, clients: u32, seconds: u32) -> Run {
    let shape = if test.starts_with("tpcc") { "" } else { SHAPE };
    let options =
        format!("--test {test} {shape} --clients {clients} --seconds {seconds} --warmup 0 --checks none --json");
    let ((text, server_s), client_s) = children(|| {
        let before = cpu_of(server.pid());
        let out = server.drive_well("run", &options);
        (out, cpu_of(server.pid()) - before)
    });
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let result = events.into_iter().find(|event| event["event"] == "result").unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    Run {
        tps: number(&result["tps"]),
        p99_ms: number(&result["latency_ms"]["p99"]),
        client_s,
        server_s,
        rss_mb: number(&result["peak_rss_bytes"]) / 1e6,
        invalid: !result["errors"].as_object().unwrap().is_empty(),
    }
}

fn sysbench(server: &Server, test: &str, clients: u32, seconds: u32) -> Run {
    let ((text, server_s), client_s) = children(|| {
        let before = cpu_of(server.pid());
        let mut command = Command::new("/usr/bin/sysbench");
        command.arg(test).args(SHAPE.split(' ')).arg(format!("--mysql-socket={}", server.socket().display()));
        command.args(["--mysql-user=root", "--mysql-db=sbtest", "--percentile=99"]);
        command.args([format!("--threads={clients}"), format!("--time={seconds}"), "run".into()]);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{out:?}");
        (String::from_utf8(out.stdout).unwrap(), cpu_of(server.pid()) - before)
    });
    let after = |mark: &str| -> f64 {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(mark)).unwrap_or_else(|| panic!("{text}"));
        let number: String = line
            .trim()
            .trim_start_matches(|c: char| c == ':' || c.is_whitespace())
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        number.parse().unwrap()
    };
    let rate = text.lines().find(|line| line.trim().starts_with("transactions:")).unwrap();
    let rate = rate.split_once('(').unwrap().1.split_whitespace().next().unwrap();
    Run {
        tps: rate.parse().unwrap(),
        p99_ms: after("99th percentile"),
        client_s,
        server_s,
        rss_mb: f64::NAN,
        invalid: false,
    }
}

/// CPU time of the children that end while `work` runs.
fn children<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let now = || {
        let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        seconds(used.user_time()) + seconds(used.system_time())
    };
    let before = now();
    let value = work();
    (value, now() - before)
}

/// CPU time of a process, its threads that are gone included.
fn cpu_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
