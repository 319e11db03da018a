//! A sweep that never ran: records with known answers, of the shape that a real sweep leaves. One heap falls off a cliff and
//! holds memory, one is the baseline's equal, one is slightly better, one has trials that do not count.

use lab::record::{Cell, Direction, Figures, Outcome, Proof, Record, SCHEMA, Second};

const MIB: f64 = 1024.0 * 1024.0;

pub struct Sweep {
    pub tests: Vec<&'static str>,
    pub heaps: Vec<&'static str>,
    pub clients: Vec<u32>,
    pub rounds: u32,
    /// Length of the measured window.
    pub seconds: u32,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            tests: vec!["oltp_read_write", "oltp_point_select"],
            heaps: vec!["glibc", "jemalloc", "mimalloc", "tcmalloc", "evenkeel"],
            clients: vec![1, 8, 32, 64, 128, 256, 512],
            rounds: 5,
            seconds: 20,
        }
    }
}

/// A linear congruential generator is random enough for noise in a test.
struct Noise(u64);

impl Noise {
    /// About normal, of standard deviation `size`, around 1.
    fn around_one(&mut self, size: f64) -> f64 {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as f64 / (1u64 << 31) as f64
        };
        let sum: f64 = (0..12).map(|_| next()).sum();
        1.0 + (sum - 6.0) * size
    }
}

/// What a heap does: relative speed, clients beyond which it falls and to what, memory in MiB at rest and for each client.
fn nature(heap: &str) -> (f64, Option<(f64, f64)>, f64, f64) {
    match heap {
        "mimalloc" => (1.03, Some((128.0, 0.45)), 210.0, 3.1),
        "jemalloc" => (0.93, None, 240.0, 0.35),
        "tcmalloc" => (1.0, None, 225.0, 0.3),
        "evenkeel" => (1.06, None, 168.0, 0.12),
        _ => (1.0, None, 175.0, 0.22),
    }
}

impl Sweep {
    pub fn records(&self) -> Vec<Record> {
        let mut noise = Noise(20_260_421);
        let mut records = vec![];
        for round in 0..self.rounds {
            for (t, test) in self.tests.iter().enumerate() {
                for i in 0..self.heaps.len() {
                    let heap = self.heaps[(i + round as usize) % self.heaps.len()];
                    let direction = if round % 2 == 0 { Direction::Up } else { Direction::Down };
                    let mut clients = self.clients.clone();
                    if direction == Direction::Down {
                        clients.reverse();
                    }
                    for n in clients {
                        let order = records.len() as u32;
                        let cell = Cell { test: test.to_string(), heap: heap.into(), clients: n, ..Cell::default() };
                        records.push(self.record(cell, round, order, direction, t, &mut noise));
                    }
                }
            }
        }
        records
    }

    fn record(&self, cell: Cell, round: u32, order: u32, direction: Direction, t: usize, noise: &mut Noise) -> Record {
        let (speed, cliff, rest, each) = nature(&cell.heap);
        let n = f64::from(cell.clients);
        let saturated = [82_000.0, 240_000.0][t % 2] * n / (n + 6.0);
        let left = match cliff {
            Some((from, left)) if n > from && t == 0 => left * (from / n).powf(0.25),
            _ => 1.0,
        };
        let tps = saturated * speed * left * noise.around_one(0.012);
        let seconds = f64::from(self.seconds);
        let loaded = (rest + each * n) * MIB * noise.around_one(0.01);
        let latency = n / tps * 1000.0;
        let transactions = tps * seconds;
        let figures = Figures {
            tps: Some(tps),
            seconds: Some(seconds),
            transactions: Some(transactions),
            latency_mean_ms: Some(latency),
            latency_p95_ms: Some(latency * 2.4 / left * noise.around_one(0.03)),
            latency_p99_ms: Some(latency * 4.1 / left * noise.around_one(0.05)),
            server_cpu_s: Some(transactions * 19e-6 / left * noise.around_one(0.01)),
            client_cpu_s: Some(transactions * 5e-6),
            voluntary_switches: Some(transactions * 0.8),
            involuntary_switches: Some(transactions * 0.1 / left),
            minor_faults: Some(transactions * 0.02 / left.powi(3) * noise.around_one(0.1)),
            major_faults: Some(0.0),
            rss_loaded: Some(loaded),
            rss_peak: Some(loaded * 1.04),
            rss_idle: Some(loaded * if cliff.is_some() { 0.95 } else { 0.6 }),
            host_speed: Some(noise.around_one(0.01).min(1.0)),
            watcher_cpu_s: Some(seconds * 0.004),
            ..Figures::default()
        };
        let series = (-3..self.seconds as i32)
            .map(|s| Second {
                at: f64::from(s),
                tps: Some(tps * noise.around_one(0.05) * if s < 0 { 0.8 } else { 1.0 }),
                rss: Some(loaded * (0.8 + 0.2 * f64::from(s + 3) / (seconds + 3.0))),
                connections: Some(n),
                ..Second::default()
            })
            .collect();
        let lib = format!("/usr/lib/lib{}.so", cell.heap);
        let mut record = Record {
            schema: SCHEMA,
            trial: format!("{order:064x}"),
            round,
            order,
            direction,
            started: format!("2026-11-21T14:{:02}:{:02}Z", order / 60 % 60, order % 60),
            outcome: Outcome::Valid,
            figures,
            proofs: vec![
                Proof { what: "heap bound in the server".into(), wanted: lib.clone(), found: lib, holds: true },
                Proof {
                    what: "server version".into(),
                    wanted: "10.11.14".into(),
                    found: "10.11.14".into(),
                    holds: true,
                },
                Proof { what: "server's CPUs".into(), wanted: "0".into(), found: "0".into(), holds: true },
            ],
            marks: vec![],
            series,
            raw: vec![format!("raw/{order:04}/sysbench.txt"), format!("raw/{order:04}/error.log")],
            profile: None,
            cell,
        };
        if record.cell.heap == "tcmalloc" && round == 2 && t == 0 && n >= 256.0 {
            record.proofs[0].found = "libc.so.6".into();
            record.proofs[0].holds = false;
            record.outcome = Outcome::Invalid(vec!["the heap did not bind: malloc is libc.so.6's".into()]);
        }
        if record.cell.heap == "mimalloc" && round == 3 && t == 0 && n == 512.0 {
            record.outcome = Outcome::Failed("the server died of signal 9".into());
            record.figures = Figures::default();
            record.series.truncate(9);
        }
        if n == 512.0 && round == 1 {
            record.marks.push("the client used all of its CPU".into());
        }
        record
    }
}

pub fn environment() -> serde_json::Value {
    serde_json::json!({
        "os": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0-28-amd64",
        "transparent_huge_pages": "always [madvise] never",
        "governor": null,
        "cpu": { "model": "Synthetic CPU @ 2.90GHz", "logical": 2, "numa_nodes": 1 },
        "mitigations": { "spectre_v2": "Mitigation: Enhanced IBRS", "mds": "Not affected" },
        "limits": { "open_files": 1048576, "threads_max": 62000 },
        "binaries": [
            { "path": "/usr/sbin/mariadbd", "version": "10.11.14",
              "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" },
            { "path": "/usr/lib/libjemalloc.so.2", "version": "5.3.0",
              "sha256": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" }
        ]
    })
}

pub const TITLE: &str = "Heaps under a synthetic load";

pub const EXPERIMENT: &str = r#"# Synthetic: what `evenkeel sweep` would have run
title = "Heaps under a synthetic load"
target = "mariadb"

[factors]
heap = ["glibc", "jemalloc", "mimalloc", "tcmalloc", "evenkeel"]
clients = [1, 8, 32, 64, 128, 256, 512]

[plan]
rounds = 5
"#;
