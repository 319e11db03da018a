//! What the tests of the command share. Each test has a folder of its own, with its own TMPDIR in it, so that it sees what a sweep
//! leaves behind; every process is known by its pid, and servers by that folder in their command line.

// Each test program uses a part of it.
#![allow(dead_code)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
/// Nothing here takes so long on any machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A folder that goes with the test, unless that failed.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("tmp")).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, and says where it is.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The command, as it would be started in this folder.
    pub fn evenkeel(&self, words: &[&str]) -> Command {
        self.program(Path::new(EVENKEEL), words)
    }

    pub fn program(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.0).env("TMPDIR", self.path("tmp")).stdin(Stdio::null());
        for name in ["COLUMNS", "NO_COLOR", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, words: &[&str]) -> Said {
        Said::of(self.evenkeel(words))
    }

    pub fn start(&self, words: &[&str]) -> Running {
        let mut command = self.evenkeel(words);
        Running(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// Pids of servers that work for this test.
    pub fn servers(&self) -> Vec<i32> {
        let inside = self.path("tmp").display().to_string();
        let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            // A process that has ended has an empty command line.
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| String::from_utf8_lossy(&c).contains(&inside))
        })
        .collect()
    }

    /// No server and no scratch folder is left; a server that lost its lab may take a moment to notice.
    pub fn assert_clean(&self) {
        until("the servers to end", || self.servers().is_empty());
        let left: Vec<PathBuf> = fs::read_dir(self.path("tmp")).unwrap().flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Every planned trial has one record; `verify` agrees.
    pub fn assert_whole(&self, sweep: &str) -> Vec<Value> {
        let plan: Value =
            serde_json::from_str(&fs::read_to_string(self.path(sweep).join("plan.json")).unwrap()).unwrap();
        let planned: BTreeMap<String, usize> =
            plan["trials"].as_array().unwrap().iter().map(|t| (t.as_str().unwrap().to_string(), 1)).collect();
        let records = records(&self.path(sweep));
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for record in &records {
            *seen.entry(record["trial"].as_str().unwrap().to_string()).or_default() += 1;
        }
        assert_eq!(seen, planned);
        let said = self.run(&["verify", sweep]);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
        records
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

pub fn records(sweep: &Path) -> Vec<Value> {
    let text = fs::read_to_string(sweep.join("records.jsonl")).unwrap_or_default();
    // The last line may be under way.
    text.split_inclusive('\n').filter(|l| l.ends_with('\n')).map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(mut command: Command) -> Said {
        command.output().unwrap().into()
    }

    /// Ended well.
    pub fn fine(self) -> Said {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Refused with this code, in words that hold each of `words`.
    pub fn refused(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// A command under way; killed if the test fails.
pub struct Running(Option<Child>);

impl Running {
    pub fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id() as i32
    }

    pub fn runs(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    pub fn end(mut self) -> Said {
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something is so.
pub fn until(what: &str, so: impl FnMut() -> bool) {
    assert!(within(LIMIT, so), "waited in vain for {what}");
}

fn within(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !so() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
    true
}

/// The server that real sweeps need.
pub fn embedded() -> PathBuf {
    let path = Path::new(EVENKEEL).with_file_name("evenkeel-embedded");
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    assert!(path.is_file(), "{} is missing; build it: cargo build{release} -p evenkeel-embedded", path.display());
    path
}

/// A short experiment: few rows, tiny windows. What `more` holds is added; `changes` replace text.
pub fn short(changes: &[(&str, &str)]) -> String {
    let text = "\
title = \"short\"
[target.embedded]
rows = 1000
[load]
tests = [\"oltp\"]
warmup = 0
seconds = 0.1
idle = 0
settle_at_most = 0.1
[factors]
heap = [\"glibc\"]
clients = [1, 4]
[plan]
rounds = 2
twin = true
";
    changes.iter().fold(text.to_string(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// A published table of this repository.
pub fn published(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/published").join(name).display().to_string()
}

/// Heaps on this machine that have a library: name and path.
pub fn libraries(folder: &Folder) -> Vec<(String, String)> {
    let said = folder.run(&["heaps", "--json"]).fine();
    let heaps: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let named = |h: &Value| Some((h["name"].as_str()?.to_string(), h["path"].as_str()?.to_string()));
    heaps.iter().filter_map(named).collect()
}

pub fn skipped(name: &str, reason: &str) {
    println!("skipped: {name}: {reason}");
}
