//! A running server and its trials.
//!
//! The **window** opens when sysbench says that all its threads work and the server counts as many connections, after the warm-up.
//! At both edges the server's counters are read with the time of the answer; the rate is their difference over that time.

use super::count::{self, Count};
use super::engine::Engine;
use super::sql::Status;
use super::{Kit, Up};
use crate::experiment::Load;
use crate::load::sysbench::{self, DATABASE, Report, Run, Running, Sysbench, Test};
use crate::observe::{self, Depth, Watch};
use crate::placement;
use crate::record::{Figures, Proof, Second};
use crate::target::{Ask, Measured, Server, Setting};
use anyhow::{Context, Result, bail};
use procfs::process::Process as Seen;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub struct Life {
    up: Up,
    version: String,
    engine: Engine,
    sysbench: Sysbench,
    load: Load,
    test: String,
    count: Count,
    cpus: Vec<usize>,
    client_cpus: Option<Vec<usize>>,
    /// How much of the log belongs to earlier trials.
    logged: u64,
}

impl Life {
    pub fn new(up: Up, kit: Kit, test: String, load: &Load, setting: &Setting) -> Result<Life> {
        Ok(Life {
            up,
            version: kit.prefix.version,
            engine: kit.engine,
            sysbench: Sysbench::find()?,
            count: count::of(&test, &load.extra),
            load: load.clone(),
            test,
            cpus: setting.cpus.map_or_else(placement::allowed, <[usize]>::to_vec),
            client_cpus: setting.client_cpus.map(<[usize]>::to_vec),
            logged: 0,
        })
    }

    fn poll(&mut self) -> Result<Status> {
        let names = ["Threads_connected", "Connections", "Memory_used"];
        self.up.sql.status(&[self.count.names, &names].concat())
    }

    fn transactions(&self, from: &Status, to: &Status) -> f64 {
        let sum = |s: &Status| self.count.names.iter().filter_map(|n| s.get(n)).sum::<f64>();
        sum(to) - sum(from)
    }

    /// Waits until all clients are there and work.
    fn connected(&mut self, load: &mut Running, clients: u32, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        loop {
            load.alive()?;
            self.up.process.alive()?;
            if load.started() && self.poll()?.clients() == f64::from(clients) {
                return Ok(());
            }
            if Instant::now() >= end {
                let there = self.poll()?.clients();
                let said = sysbench::last_error(&load.said());
                bail!("{there} of {clients} clients were connected after {} s: {said}", patience.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks each second until `end`.
    fn polls(&mut self, load: &mut Running, end: Instant, into: &mut Vec<Status>) -> Result<()> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            thread::sleep(left.min(Duration::from_secs(1)));
            if left <= Duration::from_secs(1) {
                return Ok(());
            }
            load.alive()?;
            into.push(self.poll()?);
        }
    }

    fn trial(&mut self, ask: &Ask, raw: &Path) -> Result<Measured> {
        let clients = f64::from(ask.clients);
        let patience = Duration::from_secs_f64(60.0 + clients / 20.0);
        // The lab may see later than sysbench that all are there.
        let slack = Duration::from_secs_f64(1.0 + clients / 400.0);
        let client_cpus = self.client_cpus.clone();
        let test = Test { name: &self.test, load: &self.load, engine: &self.engine.sql, socket: &self.up.socket.path };
        let run = Run {
            clients: ask.clients,
            warmup: ask.warmup,
            window: ask.window,
            slack,
            patience,
            seed: ask.seed,
            cpus: client_cpus.as_deref(),
        };
        let mut load = self.sysbench.run(&test, &run, raw)?;
        let (pid, client) = (self.pid(), Some(load.pid()));
        let watch = Watch::start(pid, client);
        self.connected(&mut load, ask.clients, patience)?;

        let mut polls = vec![self.poll()?];
        let open = Instant::now() + ask.warmup;
        self.polls(&mut load, open, &mut polls)?;
        let first = self.poll()?;
        let before = observe::snapshot(pid, client, Depth::COUNTERS)?;
        let zero = watch.now() - first.at.elapsed().as_secs_f64();
        polls.push(first.clone());
        (ask.opened)();
        self.polls(&mut load, first.at + ask.window, &mut polls)?;
        let last = self.poll()?;
        let after = observe::snapshot(pid, client, Depth::ALL)?;
        polls.push(last.clone());
        load.alive()?;
        let mask = placement::mask_of(load.pid());

        let mut marks = Vec::new();
        if load.end(slack + Duration::from_secs(60))?.is_none() {
            marks.push("sysbench did not end and was killed".to_string());
        }
        let (samples, cost) = watch.end();
        let report = sysbench::report(&load.said());
        self.all_gone(&mut marks)?;

        let seconds = (last.at - first.at).as_secs_f64();
        let transactions = self.transactions(&first, &last);
        let mut figures = Figures {
            tps: Some(transactions / seconds),
            seconds: Some(seconds),
            transactions: Some(transactions),
            tps_reported: report.tps,
            latency_mean_ms: report.mean_ms,
            latency_p50_ms: report.percentile(0.5),
            latency_p95_ms: report.percentile(0.95),
            latency_p99_ms: report.percentile(0.99),
            latency_p999_ms: report.percentile(0.999),
            retries: report.ignored,
            watcher_cpu_s: Some(cost * seconds),
            server_says_used: last.get("Memory_used"),
            ..Figures::default()
        };
        observe::window(&before, &after, &mut figures);
        marks.extend(self.marks(&figures, &report, (first.took + last.took).as_secs_f64() / 2.0));

        let mut series = observe::series(&samples, zero);
        for pair in polls.windows(2) {
            let elapsed = (pair[1].at - pair[0].at).as_secs_f64();
            let at = if pair[1].at >= first.at {
                (pair[1].at - first.at).as_secs_f64()
            } else {
                -(first.at - pair[1].at).as_secs_f64()
            };
            series.push(Second {
                at,
                tps: Some(self.transactions(&pair[0], &pair[1]) / elapsed),
                connections: Some(pair[1].clients()),
                server_says_used: pair[1].get("Memory_used"),
                ..Second::default()
            });
        }
        series.sort_by(|a, b| a.at.total_cmp(&b.at));

        let window: Vec<&Status> = polls.iter().filter(|p| p.at >= first.at).collect();
        let mut proofs = vec![of_connections(ask.clients, &window), of_reconnects(&first, &last, &report)];
        proofs.extend(self.client_cpus.as_deref().map(|cpus| {
            let wanted = placement::write(cpus);
            let found = mask.map_or_else(|| "unknown".into(), |m| placement::write(&m));
            Proof { what: "CPUs of the load".into(), holds: wanted == found, wanted, found }
        }));
        Ok(Measured { figures, series, marks, raw: vec![raw.to_path_buf()], proofs })
    }

    /// Waits until the server has let go of every client.
    fn all_gone(&mut self, marks: &mut Vec<String>) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let left = self.poll()?.clients();
            if left <= 0.0 {
                return Ok(());
            }
            if Instant::now() >= end {
                marks.push(format!("{left} connections were left 30 s after the load's end"));
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn marks(&self, figures: &Figures, report: &Report, took: f64) -> Vec<String> {
        let mut marks = Vec::new();
        let seconds = figures.seconds.unwrap_or(0.0);
        if report.histogram.is_empty() {
            marks.push("sysbench gave no latencies".to_string());
        }
        if took > 0.02 * seconds {
            let percent = 100.0 * took / seconds;
            marks.push(format!(
                "the server took long to answer at the window's edges: the rate may be off by {percent:.0} %"
            ));
        }
        if let (Some(client), Some(server)) = (figures.client_cpu_s, figures.server_cpu_s) {
            let cpus = self.client_cpus.clone().unwrap_or_else(placement::allowed);
            let share = client / (seconds * cpus.len().max(1) as f64);
            let apart = cpus.iter().all(|c| !self.cpus.contains(c));
            if share > 0.9 {
                marks.push(format!("the client was saturated: it used {:.0} % of its CPUs", 100.0 * share));
            } else if !apart && client > server {
                let percent = 100.0 * client / (client + server);
                marks.push(format!("the client was saturated: it took {percent:.0} % of the CPU time on shared CPUs"));
            }
        }
        marks
    }

    /// What the server said since the last trial goes beside the trial's output.
    fn keep_log(&mut self, to: &Path) -> Result<bool> {
        let failed = || format!("cannot copy {}", self.up.log.display());
        let mut file = fs::File::open(&self.up.log).with_context(failed)?;
        file.seek(SeekFrom::Start(self.logged)).with_context(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(failed)?;
        self.logged += bytes.len() as u64;
        if !bytes.is_empty() {
            fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(self.logged > 0 && to.exists())
    }
}

/// The connections at each look into the window.
fn of_connections(clients: u32, window: &[&Status]) -> Proof {
    let counts = || window.iter().map(|s| s.clients());
    let least = counts().fold(f64::INFINITY, f64::min);
    let most = counts().fold(f64::NEG_INFINITY, f64::max);
    Proof {
        what: "clients connected in the window".into(),
        wanted: clients.to_string(),
        found: if least == most { least.to_string() } else { format!("{least} to {most}") },
        holds: least == f64::from(clients) && most == f64::from(clients),
    }
}

/// Nobody came anew: not by the server's count, not by sysbench's.
fn of_reconnects(first: &Status, last: &Status, report: &Report) -> Proof {
    let opened = last.get("Connections").zip(first.get("Connections")).map_or(0.0, |(b, a)| b - a);
    let again = opened.max(report.reconnects.unwrap_or(0.0));
    Proof { what: "reconnects".into(), wanted: "0".into(), found: again.to_string(), holds: again == 0.0 }
}

impl Server for Life {
    fn pid(&self) -> u32 {
        self.up.process.pid()
    }

    fn proofs(&mut self) -> Result<Vec<Proof>> {
        let answered = self.up.sql.one("SELECT VERSION()")?;
        let file = self.up.sql.one("SELECT @@pid_file")?;
        let pid = fs::read_to_string(&file).unwrap_or_default().trim().to_string();
        let own = self.pid().to_string();
        let engines = self.up.sql.rows(&format!(
            "SELECT ENGINE, COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{DATABASE}' GROUP BY ENGINE"
        ))?;
        let engines: Vec<String> = engines.iter().map(|row| row.join(": ")).collect();
        let variables = self.up.sql.variables()?;
        let mut proofs = vec![
            Proof {
                what: "process that answers".into(),
                wanted: own.clone(),
                holds: pid == own,
                found: if pid.is_empty() { "unknown".into() } else { pid },
            },
            Proof {
                what: "server version".into(),
                wanted: self.version.clone(),
                holds: answered.starts_with(&self.version),
                found: answered,
            },
            of_engines(&self.engine, &engines),
            self.up.config.duplicates(),
        ];
        proofs.extend(self.up.config.in_effect(&variables));
        Ok(proofs)
    }

    fn settle(&mut self, at_most: Duration) -> Result<bool> {
        let end = Instant::now() + at_most;
        // Dirty pages are written at once only while none are allowed; afterwards the server's own limits are back.
        let limits = ["innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm"];
        let variables = self.up.sql.variables()?;
        let before: Vec<(&str, &String)> = limits.iter().filter_map(|n| Some((*n, variables.get(*n)?))).collect();
        if !before.is_empty() {
            self.up.sql.run("SET GLOBAL innodb_max_dirty_pages_pct = 0")?;
        }
        let quiet = self.quiet(end);
        for (name, value) in before {
            self.up.sql.run(&format!("SET GLOBAL {name} = {value}"))?;
        }
        quiet
    }

    fn measure(&mut self, ask: &Ask) -> Result<Measured> {
        let beside = |what: &str| PathBuf::from(format!("{}.{what}", ask.raw.display()));
        let result = self.trial(ask, &beside("sysbench.txt"));
        let log = beside("server.log");
        let kept = self.keep_log(&log)?;
        let config = beside("my.cnf");
        fs::write(&config, self.up.config.file()).with_context(|| format!("cannot write {}", config.display()))?;
        match result {
            Ok(mut measured) => {
                measured.raw.extend(kept.then_some(log));
                measured.raw.push(config);
                Ok(measured)
            }
            // A lost connection is what we see of a dying server; it may take a moment to be dead.
            Err(error) => match self.up.process.wait(Duration::from_secs(2))? {
                Some(status) => Err(self.up.process.death(status)),
                None => Err(error),
            },
        }
    }

    fn says_used(&mut self) -> Option<f64> {
        self.up.sql.status(&["Memory_used"]).ok()?.get("Memory_used")
    }

    fn stop(mut self: Box<Self>) -> Result<Vec<Proof>> {
        // Nobody will read these data again: pages need not be written.
        if self.engine.sql == "InnoDB" {
            self.up.sql.run("SET GLOBAL innodb_fast_shutdown = 2")?;
        }
        let status = self.up.down()?;
        Ok(vec![Proof {
            what: "server's end".into(),
            wanted: "in order".into(),
            found: if status.success() { "in order".into() } else { status.to_string() },
            holds: status.success(),
        }])
    }
}

fn of_engines(engine: &Engine, found: &[String]) -> Proof {
    let one = found.len() == 1 && found[0].split(": ").next().is_some_and(|e| e.eq_ignore_ascii_case(&engine.sql));
    Proof {
        what: "engine of the test's tables".into(),
        wanted: engine.sql.clone(),
        found: if found.is_empty() { "no tables".into() } else { found.join(", ") },
        holds: one,
    }
}

/// What still moves in a server without clients.
#[derive(Debug, PartialEq)]
struct Rest {
    dirty: f64,
    pending: f64,
    history: f64,
    io: u64,
}

impl Life {
    /// Looks until three looks in a row found nothing to do.
    fn quiet(&mut self, end: Instant) -> Result<bool> {
        const LOOK: Duration = Duration::from_millis(200);
        let (mut before, mut cpu) = (self.rest()?, observe::cpu(self.pid())?);
        let mut calm = 0;
        while calm < 3 {
            if Instant::now() + LOOK > end {
                return Ok(false);
            }
            thread::sleep(LOOK);
            self.up.process.alive()?;
            let (now, cpu_now) = (self.rest()?, observe::cpu(self.pid())?);
            let working = cpu_now - cpu > 0.1 * LOOK.as_secs_f64();
            let quiet = now.dirty == 0.0 && now.pending == 0.0 && now.history >= before.history && now.io == before.io;
            calm = if quiet && !working { calm + 1 } else { 0 };
            (before, cpu) = (now, cpu_now);
        }
        Ok(true)
    }

    fn rest(&mut self) -> Result<Rest> {
        const PENDING: [&str; 3] =
            ["Innodb_data_pending_reads", "Innodb_data_pending_writes", "Innodb_data_pending_fsyncs"];
        let names = ["Innodb_buffer_pool_pages_dirty", "Innodb_history_list_length"];
        let status = self.up.sql.status(&[&PENDING[..], &names].concat())?;
        let io = Seen::new(self.pid() as i32).and_then(|p| p.io()).map_or(0, |io| io.read_bytes + io.write_bytes);
        let get = |name: &str| status.get(name).unwrap_or(0.0);
        Ok(Rest { dirty: get(names[0]), history: get(names[1]), pending: PENDING.iter().map(|n| get(n)).sum(), io })
    }
}
