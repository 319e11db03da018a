//! Loads: programs that act as the clients of a SQL server. The lab knows them by what all of them do: make a test's tables, run it for a
//! while with so many clients, say when all of these work, and report what only the client knows.

pub mod own;
mod sysbench;

use crate::experiment::{self, Load};
use crate::placement;
use crate::record::{Figures, Proof};
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

pub trait Driver {
    fn name(&self) -> &'static str;

    fn program(&self) -> &Path;

    /// The database in which a test has its tables.
    fn database(&self, test: &str) -> &'static str;

    /// Makes the test's tables and rows.
    fn prepare(&self, test: &Test) -> Result<()>;

    /// Starts a run that lasts warm-up, window and `slack`; its words go to `output`.
    fn run(&self, test: &Test, run: &Run, output: &Path) -> Result<Running>;

    /// Whether its words so far say that every client is connected, has prepared its statements, and works.
    fn started(&self, said: &str) -> bool;

    /// What its words say at the end.
    fn report(&self, said: &str) -> Report;

    /// How much longer than the run it may take to end: to count, to check the tables.
    fn to_end(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// The one that an experiment asks for.
pub fn find(load: &Load) -> Result<Box<dyn Driver>> {
    Ok(match load.driver() {
        experiment::Driver::Sysbench => Box::new(sysbench::Sysbench::find()?),
        experiment::Driver::Evenkeel => Box::new(own::Own::find()?),
    })
}

/// What only the client knows of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub figures: Figures,
    pub reconnects: Option<f64>,
    pub proofs: Vec<Proof>,
    pub marks: Vec<String>,
}

/// What a test is told, whether it prepares or runs.
pub struct Test<'a> {
    pub name: &'a str,
    pub load: &'a Load,
    /// As SQL calls it.
    pub engine: &'a str,
    pub socket: &'a Path,
}

/// What one run is told.
pub struct Run<'a> {
    pub clients: u32,
    pub warmup: Duration,
    pub window: Duration,
    /// How much longer than the window: the lab sees later than the load that all clients are there.
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
    /// Starts a command whose words go to `output`.
    fn start(command: &mut Command, cpus: Option<&[usize]>, output: &Path) -> Result<Running> {
        let file = File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
        let copy = file.try_clone().context("cannot share a file")?;
        command.process_group(0).stdin(Stdio::null()).stdout(copy).stderr(file);
        Ok(Running { child: placement::spawn(command, cpus)?, output: output.to_path_buf() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// An error once it is gone: it should run longer.
    pub fn alive(&mut self) -> Result<()> {
        match self.child.try_wait().context("cannot wait for the load")? {
            None => Ok(()),
            Some(status) => bail!("the load ended too early ({status}): {}", last_error(&self.said())),
        }
    }

    /// Waits for its end; after that time it is killed, and None says so.
    pub fn end(&mut self, at_most: Duration) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + at_most;
        loop {
            let status = self.child.try_wait().context("cannot wait for the load")?;
            if status.is_some() {
                return Ok(status);
            }
            if Instant::now() >= end {
                // SIGKILL: sysbench does nothing at SIGTERM but end, and has given its figures or never will.
                let _ = kill(Pid::from_raw(self.pid() as i32), Signal::SIGKILL);
                self.child.wait().context("cannot wait for the load")?;
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

/// What a load says last of what went wrong.
pub fn last_error(text: &str) -> String {
    let lines = || text.lines().rev().map(str::trim).filter(|l| !l.is_empty());
    let marked = |l: &&str| l.starts_with("FATAL:") || l.contains("error");
    lines().find(marked).or_else(|| lines().next()).unwrap_or("it said nothing").to_string()
}

/// A program in PATH, or where Debian puts what only root runs.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|d| d.join(name))
        .find(|p| p.is_file())
}
