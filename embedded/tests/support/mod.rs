//! The real binary in the lab's form, for each test program.

use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_evenkeel-embedded");
/// No answer takes this long on any machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A path for the test of this name; nothing is there.
pub fn dir(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The program in the lab's form. Killed when dropped.
pub struct Lab {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub events: Receiver<Value>,
    pub ready: Value,
}

impl Lab {
    pub fn of(mut command: Command) -> Lab {
        command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (send, events) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
                if send.send(event).is_err() {
                    return;
                }
            }
        });
        let mut lab = Lab { stdin: child.stdin.take(), child, events, ready: Value::Null };
        lab.ready = lab.event("ready");
        lab
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub fn line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn event(&self, name: &str) -> Value {
        let event = self.events.recv_timeout(LIMIT).unwrap_or_else(|e| panic!("no '{name}' came: {e}"));
        assert_eq!(event["event"], name, "{event}");
        event
    }

    /// A run's seconds and its result; `at_each` sees the process at each second's report.
    pub fn run(&mut self, clients: u32, seconds: f64, mut at_each: impl FnMut(&Lab)) -> (Vec<Value>, Value) {
        self.line(
            &json!({"do": "run", "clients": clients, "warmup_s": 0.1, "seconds": seconds, "seed": 7}).to_string(),
        );
        let mut parts = Vec::new();
        for _ in 0..seconds.ceil() as usize {
            parts.push(self.event("second"));
            at_each(self);
        }
        (parts, self.event("result"))
    }

    pub fn check(&mut self) -> Value {
        self.line(r#"{"do":"check"}"#);
        self.event("checked")
    }

    /// Ends stdin and waits for the process.
    pub fn end(mut self) -> ExitStatus {
        self.stdin = None;
        self.wait()
    }

    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status,
                None if start.elapsed() > LIMIT => panic!("the program does not end"),
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    pub fn threads(&self) -> u32 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("no number '{name}' in {value}"))
}
