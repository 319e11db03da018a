//! sysbench 1.0 as the load: its options, its run, its report.
//!
//! sysbench's own rate divides by a time that at many clients includes their coming and going, so rates come from the server's
//! counters and this module gives what only the client knows: latencies, retries, reconnects. A checkpoint at the end of the warm-up
//! makes it forget what it saw until then; what it reports at its end is of the window and of the moment until it stopped.

use super::{Driver, Report, Run, Running, Test, in_path, last_error, raise_open_files};
use crate::placement;
use crate::record::Figures;
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DATABASE: &str = "sbtest";

/// How long clients may need for their last transaction before sysbench gives up waiting for them.
const LAST_TRANSACTION_S: u32 = 30;

pub struct Sysbench {
    program: PathBuf,
    /// What it answers to `--help`.
    help: String,
}

impl Sysbench {
    pub(super) fn find() -> Result<Sysbench> {
        let program =
            in_path("sysbench").ok_or_else(|| wrong("sysbench is not installed; apt-get install sysbench"))?;
        let out = Command::new(&program).arg("--help").output().context("cannot start sysbench")?;
        let help = String::from_utf8_lossy(&out.stdout).into_owned();
        if !help.contains("--mysql-socket") {
            return Err(wrong(format!("{} has no driver for MySQL", program.display())));
        }
        Ok(Sysbench { program, help })
    }

    /// Only options that this sysbench and this test know: another release or a Lua file of one's own may lack some.
    fn arguments(&self, test: &Test, more: &[(&str, String)]) -> Result<Vec<String>> {
        let out = Command::new(&self.program).args([test.name, "help"]).output().context("cannot start sysbench")?;
        let own = String::from_utf8_lossy(&out.stdout).into_owned();
        let load = test.load;
        let common = [
            ("mysql-socket", test.socket.display().to_string()),
            ("mysql-user", "root".into()),
            ("mysql-db", DATABASE.into()),
            ("mysql-storage-engine", test.engine.into()),
            ("tables", load.tables.to_string()),
            ("table-size", load.rows.to_string()),
            ("rand-type", load.rand_type.clone()),
            ("db-ps-mode", load.ps_mode.clone()),
        ];
        let known = |name: &str| knows(&self.help, name) || knows(&own, name);
        let all = common.iter().chain(more).filter(|(name, _)| known(name));
        let mut arguments = vec![test.name.to_string()];
        arguments.extend(all.map(|(name, value)| format!("--{name}={value}")));
        arguments.extend(load.extra.iter().cloned());
        Ok(arguments)
    }
}

impl Driver for Sysbench {
    fn name(&self) -> &'static str {
        "sysbench"
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn database(&self, _: &str) -> &'static str {
        DATABASE
    }

    fn prepare(&self, test: &Test) -> Result<()> {
        let threads = (test.load.tables as usize).min(placement::allowed().len().max(1)).to_string();
        let mut command = Command::new(&self.program);
        command.args(self.arguments(test, &[("threads", threads)])?).arg("prepare").stdin(Stdio::null());
        let out = command.output().context("cannot start sysbench")?;
        if !out.status.success() {
            let text = [out.stdout, out.stderr].concat();
            bail!("sysbench prepare ({}): {}", out.status, last_error(&String::from_utf8_lossy(&text)));
        }
        Ok(())
    }

    fn run(&self, test: &Test, run: &Run, output: &Path) -> Result<Running> {
        raise_open_files(u64::from(run.clients) + 256);
        let seconds = (run.warmup + run.window + run.slack).as_secs_f64().ceil();
        let warmup = run.warmup.as_secs_f64().ceil();
        let mut more = vec![
            ("threads", run.clients.to_string()),
            ("time", seconds.to_string()),
            ("events", "0".into()),
            ("report-interval", "1".into()),
            ("percentile", test.load.percentile.to_string()),
            ("histogram", "on".into()),
            ("forced-shutdown", LAST_TRANSACTION_S.to_string()),
            ("rand-seed", run.seed.to_string()),
            // Threads of 1.1 wait so long for each other; 1.0 has its own 30 seconds.
            ("thread-init-timeout", run.patience.as_secs().to_string()),
        ];
        if warmup >= 1.0 {
            more.push(("report-checkpoints", warmup.to_string()));
        }
        let mut command = Command::new(&self.program);
        command.args(self.arguments(test, &more)?).arg("run");
        Running::start(&mut command, run.cpus, output)
    }

    fn started(&self, said: &str) -> bool {
        said.contains("Threads started!")
    }

    fn report(&self, said: &str) -> Report {
        let words = words(said);
        let mut marks = Vec::new();
        if words.histogram.is_empty() {
            marks.push("sysbench gave no latencies".to_string());
        }
        Report {
            figures: Figures {
                tps_reported: words.tps,
                latency_mean_ms: words.mean_ms,
                latency_p50_ms: words.percentile(0.5),
                latency_p95_ms: words.percentile(0.95),
                latency_p99_ms: words.percentile(0.99),
                latency_p999_ms: words.percentile(0.999),
                retries: words.ignored,
                ..Figures::default()
            },
            reconnects: words.reconnects,
            proofs: Vec::new(),
            marks,
        }
    }
}

/// Whether a help text has an option; sysbench takes `-` and `_` alike.
fn knows(help: &str, name: &str) -> bool {
    help.lines().any(|line| {
        let Some(rest) = line.trim_start().strip_prefix("--") else { return false };
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(rest.len());
        rest[..end].replace('_', "-") == name
    })
}

/// The report at the end of a run, as sysbench words it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Words {
    tps: Option<f64>,
    mean_ms: Option<f64>,
    /// Errors after which sysbench tried again: deadlocks, lock waits.
    ignored: Option<f64>,
    reconnects: Option<f64>,
    /// Latency in ms and how many transactions took it.
    histogram: Vec<(f64, u64)>,
}

/// The last report in a run's words; what stands before the last checkpoint belongs to the warm-up.
fn words(text: &str) -> Words {
    let mut report = Words::default();
    let first = |rest: &str| rest.split_whitespace().next()?.parse::<f64>().ok();
    let mut warming_up = false;
    for line in text.lines().map(str::trim) {
        if line.ends_with("Checkpoint report:") {
            warming_up = true;
        } else if line.starts_with("Threads fairness:") {
            warming_up = false;
        } else if warming_up {
        } else if let Some(rest) = line.strip_prefix("transactions:") {
            report.tps = rest.split_once('(').and_then(|(_, rate)| first(rate));
        } else if let Some(rest) = line.strip_prefix("ignored errors:") {
            report.ignored = first(rest);
        } else if let Some(rest) = line.strip_prefix("reconnects:") {
            report.reconnects = first(rest);
        } else if let Some(rest) = line.strip_prefix("avg:") {
            report.mean_ms = first(rest);
        } else if let Some(bar) = bar(line) {
            report.histogram.push(bar);
        }
    }
    report
}

/// `  2.615 |*****      17`
fn bar(line: &str) -> Option<(f64, u64)> {
    let (value, rest) = line.split_once('|')?;
    let count = rest.trim_start_matches('*').trim();
    Some((value.trim().parse().ok()?, count.parse().ok()?))
}

impl Words {
    /// The latency that `share` of all transactions did not exceed.
    fn percentile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.histogram.iter().map(|(_, n)| n).sum();
        let wanted = (all as f64 * share).ceil();
        let mut seen = 0;
        self.histogram.iter().find_map(|(value, n)| {
            seen += n;
            (seen as f64 >= wanted).then_some(*value)
        })
    }
}
