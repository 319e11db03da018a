//! What the lab itself may cost, measured and printed; nothing is asserted of time. Ignored, since it is for a release build on a quiet
//! machine: cargo test --release -p cli --test bars -- --ignored --nocapture --test-threads 1
//!
//! Bars: a report of 500 trials in under 1 s, the analysis of 10,000 in under 5 s, 200 MB of memory, 1 % of one core for the watcher.

mod common;

use common::{Folder, embedded, short};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

/// A folder as a sweep leaves it: so many rounds over 5 heaps and 10 client counts, each trial with a series of so many seconds.
fn invented(folder: &Folder, name: &str, rounds: u32, seconds: u32) -> usize {
    let sweep = folder.path(name);
    fs::create_dir_all(sweep.join("raw")).unwrap();
    let mut records = BufWriter::new(File::create(sweep.join("records.jsonl")).unwrap());
    let mut trials: Vec<String> = Vec::new();
    // Noise of a few percent, the same each time.
    let mut state = 1u32;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.97 + 0.06 * f64::from(state >> 8) / f64::from(1 << 24)
    };
    for round in 1..=rounds {
        for (h, heap) in ["glibc", "glibc (twin)", "jemalloc", "mimalloc", "tcmalloc"].into_iter().enumerate() {
            for step in 0..10u32 {
                let clients = 1u32 << step;
                let tps =
                    80_000.0 * f64::from(clients) / (f64::from(clients) + 4.0) * (1.0 - 0.05 * h as f64) * noise();
                let memory = 2e8 * (1.0 + 0.1 * f64::from(step)) * noise();
                let series: Vec<Value> = (1..=seconds)
                    .map(|at| {
                        let (tps, rss) = (tps * noise(), memory * noise());
                        json!({"at": at, "tps": tps, "connections": clients, "rss": rss, "minor_faults": 12.5, "major_faults": 0.0,
                            "voluntary_switches": 900.25, "involuntary_switches": 100.5, "server_cpu_s": 1.98})
                    })
                    .collect();
                let trial = format!("t{}", trials.len());
                let record = json!({
                    "schema": 1, "trial": trial, "cell": {"test": "oltp", "heap": heap, "clients": clients}, "round": round,
                    "order": trials.len() + 1, "direction": if round % 2 == 1 { "up" } else { "down" },
                    "started": "2026-11-21T10:00:00.000Z", "outcome": {"is": "valid"},
                    "figures": {"tps": tps, "seconds": seconds, "transactions": tps * f64::from(seconds), "latency_mean_ms": 1.5 * noise(),
                        "latency_p50_ms": 1.2 * noise(), "latency_p95_ms": 3.0 * noise(), "latency_p99_ms": 5.0 * noise(),
                        "latency_p999_ms": 9.0 * noise(), "server_cpu_s": 1.9 * f64::from(seconds) * noise(), "minor_faults": 1e4 * noise(),
                        "major_faults": 0.0, "voluntary_switches": 1e5 * noise(), "involuntary_switches": 1e4 * noise(),
                        "rss_loaded": memory, "rss_peak": 1.1 * memory, "rss_idle": 0.9 * memory, "host_speed": 500.0 * noise()},
                    "proofs": [{"what": "heap bound at the start", "wanted": heap, "found": heap, "holds": true}],
                    "series": series,
                });
                writeln!(records, "{record}").unwrap();
                trials.push(trial);
            }
        }
    }
    records.flush().unwrap();
    let question =
        json!({"title": "invented", "baseline": "glibc", "margin": null, "twins": [["glibc", "glibc (twin)"]]});
    let plan = json!({"question": question, "notes": [], "folder": ".", "changes": {}, "trials": trials});
    folder.write(&format!("{name}/plan.json"), &plan.to_string());
    trials.len()
}

/// Seconds of the fastest of three, and the most memory that any process of this test has had so far, in MB.
fn measured(folder: &Folder, words: &[&str]) -> (f64, f64) {
    let once = || {
        let begun = Instant::now();
        folder.run(words).fine();
        begun.elapsed().as_secs_f64()
    };
    let seconds = once().min(once()).min(once());
    (seconds, getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() as f64 * 1024.0 / 1e6)
}

#[test]
#[ignore = "measures time; for a release build"]
fn a_report_and_an_analysis() {
    let folder = Folder::new("bars");
    for (name, rounds, seconds) in [("small", 10, 30), ("large", 200, 10)] {
        let trials = invented(&folder, name, rounds, seconds);
        let bytes = fs::metadata(folder.path(name).join("records.jsonl")).unwrap().len() as f64 / 1e6;
        println!("{trials} trials of {seconds} s, records of {bytes:.1} MB:");
        for words in [&["report", name, "--format", "terminal"][..], &["report", name]] {
            let (seconds, memory) = measured(&folder, words);
            println!("  {seconds:.2} s, at most {memory:.0} MB so far: evenkeel {}", words.join(" "));
        }
    }
}

#[test]
#[ignore = "measures time; for a release build"]
fn the_watcher() {
    embedded();
    let folder = Folder::new("watcher");
    let changes = [
        ("clients = [1, 4]", "clients = [8, 64, 512]"),
        ("seconds = 0.1", "seconds = 6"),
        ("rounds = 2", "rounds = 1"),
    ];
    folder.write("x.toml", &short(&changes));
    folder.run(&["sweep", "x.toml", "--out", "out"]).fine();
    for record in folder.assert_whole("out") {
        let figure = |name: &str| record["figures"][name].as_f64().unwrap();
        let share = 100.0 * figure("watcher_cpu_s") / figure("seconds");
        println!("{} clients: the watcher took {share:.2} % of one core", record["cell"]["clients"]);
    }
}

#[test]
#[ignore = "measures time; for a release build"]
fn a_hundred_thousand_samples() {
    let folder = Folder::new("samples");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/tests/recorded/perf/cpu.txt");
    let one = fs::read_to_string(recorded).unwrap();
    let samples = one.matches(": cpu-clock:").count();
    // Forty servers' worth of functions and stacks.
    let server = |i: usize| one.replace("/mariadbd)", &format!("/m{})", i % 40));
    let text: String = (0..100_000usize.div_ceil(samples)).map(server).collect();
    folder.write("one.txt", &text);
    println!(
        "{} samples, {:.0} MB of what perf printed:",
        text.matches(": cpu-clock:").count(),
        text.len() as f64 / 1e6
    );
    let words = ["why", "one.txt", "--svg", "one.svg"];
    let (seconds, memory) = measured(&folder, &words);
    println!("  {seconds:.2} s, at most {memory:.0} MB so far: evenkeel {}", words.join(" "));
}
