//! sysbench 1.0 as the load: its options, its run, its report.
//!
//! sysbench's own rate divides by a time that at many clients includes their coming and going, so rates come from the server's
//! counters and this module gives what only the client knows: latencies, retries, reconnects. A checkpoint at the end of the warm-up
//! makes it forget what it saw until then; what it reports at its end is of the window and of the moment until it stopped.

use super::in_path;
use crate::experiment::Load;
use crate::placement;
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub const DATABASE: &str = "sbtest";

/// How long clients may need for their last transaction before sysbench gives up waiting for them.
const LAST_TRANSACTION_S: u32 = 30;

pub struct Sysbench {
    pub program: PathBuf,
    /// What it answers to `--help`.
    help: String,
}

/// What a test is told, whether it prepares or runs.
pub struct Test<'a> {
    pub name: &'a str,
    pub load: &'a Load,
    /// As SQL calls it.
    pub engine: &'a str,
    pub socket: &'a Path,
}

impl Sysbench {
    pub fn find() -> Result<Sysbench> {
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

    /// Makes the test's tables and rows.
    pub fn prepare(&self, test: &Test) -> Result<()> {
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

    /// Starts a run that lasts warm-up, window and `slack`; its words go to `output`.
    pub fn run(&self, test: &Test, run: &Run, output: &Path) -> Result<Running> {
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
        let file = File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
        command
            .args(self.arguments(test, &more)?)
            .arg("run")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("cannot share a file")?)
            .stderr(file);
        Ok(Running { child: placement::spawn(&mut command, run.cpus)?, output: output.to_path_buf() })
    }
}

/// What one run is told.
pub struct Run<'a> {
    pub clients: u32,
    pub warmup: Duration,
    pub window: Duration,
    /// How much longer than the window: the lab sees later than sysbench that all clients are there.
    pub slack: Duration,
    /// How long all clients may take to come.
    pub patience: Duration,
    pub seed: u64,
    pub cpus: Option<&'a [usize]>,
}

/// A run under way; killed if its owner leaves.
pub struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Whether every thread is connected, has prepared its statements, and works.
    pub fn started(&self) -> bool {
        self.said().contains("Threads started!")
    }

    /// An error once it is gone: it should run longer.
    pub fn alive(&mut self) -> Result<()> {
        match self.child.try_wait().context("cannot wait for sysbench")? {
            None => Ok(()),
            Some(status) => bail!("sysbench ended too early ({status}): {}", last_error(&self.said())),
        }
    }

    /// Waits for its end; after that time it is killed, and None says so.
    pub fn end(&mut self, at_most: Duration) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + at_most;
        loop {
            let status = self.child.try_wait().context("cannot wait for sysbench")?;
            if status.is_some() {
                return Ok(status);
            }
            if Instant::now() >= end {
                // SIGKILL: sysbench does nothing at SIGTERM but end.
                let _ = kill(Pid::from_raw(self.pid() as i32), Signal::SIGKILL);
                self.child.wait().context("cannot wait for sysbench")?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After an end both fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each client is a socket. What the hard limit does not allow shows as an error of sysbench.
fn raise_open_files(least: u64) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < least
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, least.min(hard), hard);
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

/// What sysbench says last of what went wrong.
pub fn last_error(text: &str) -> String {
    let lines = || text.lines().rev().map(str::trim).filter(|l| !l.is_empty());
    let marked = |l: &&str| l.starts_with("FATAL:") || l.contains("error");
    lines().find(marked).or_else(|| lines().next()).unwrap_or("it said nothing").to_string()
}

/// The report at the end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub tps: Option<f64>,
    pub mean_ms: Option<f64>,
    /// Errors after which sysbench tried again: deadlocks, lock waits.
    pub ignored: Option<f64>,
    pub reconnects: Option<f64>,
    /// Latency in ms and how many transactions took it.
    pub histogram: Vec<(f64, u64)>,
}

/// The last report in a run's words; what stands before the last checkpoint belongs to the warm-up.
pub fn report(text: &str) -> Report {
    let mut report = Report::default();
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

impl Report {
    /// The latency that `share` of all transactions did not exceed.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.histogram.iter().map(|(_, n)| n).sum();
        let wanted = (all as f64 * share).ceil();
        let mut seen = 0;
        self.histogram.iter().find_map(|(value, n)| {
            seen += n;
            (seen as f64 >= wanted).then_some(*value)
        })
    }
}
