//! A server's process: started under its CPU mask, its words in a log, ended at the latest with its owner. It is always ended by its
//! pid, or by the group that it leads; never by a name.

use crate::placement;
use anyhow::{Context, Result, anyhow};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it says on stdout and stderr is added to `log`.
    pub fn start(command: &mut Command, cpus: Option<&[usize]>, log: &Path) -> Result<Process> {
        let open = || -> Result<File> {
            let file = OpenOptions::new().create(true).append(true).open(log);
            file.with_context(|| format!("cannot write {}", log.display()))
        };
        // Ctrl-C is for the lab, which ends its servers in order.
        command.process_group(0).stdin(Stdio::null()).stdout(open()?).stderr(open()?);
        Ok(Process { child: placement::spawn(command, cpus)?, log: log.to_path_buf() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot wait for a process")
    }

    /// Waits for its end; None if it still runs at the end of that time.
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + at_most;
        loop {
            let status = self.ended()?;
            if status.is_some() || Instant::now() >= end {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// An error once the process is gone.
    pub fn alive(&mut self) -> Result<()> {
        self.ended()?.map_or(Ok(()), |status| Err(self.death(status)))
    }

    /// Why it is gone, by its own last words.
    pub fn death(&self, status: ExitStatus) -> anyhow::Error {
        anyhow!("the server died ({status}): {}", last_words(&tail(&self.log)))
    }

    pub fn signal(&self, signal: Signal) {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(self.pid() as i32), signal);
    }

    /// SIGTERM, and SIGKILL after a while.
    pub fn end(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        if self.ended()?.is_none() {
            self.signal(Signal::SIGTERM);
        }
        let status = self.wait(patience)?;
        if status.is_none() {
            self.signal(Signal::SIGKILL);
            self.wait(Duration::from_secs(10))?;
        }
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group holds what the server started itself; after an orderly end it is empty, and this fails.
        let _ = killpg(Pid::from_raw(self.pid() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The end of a log, which may be long.
fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(16 << 10)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// The line that says most: the last error if one is marked so, else the last line.
pub fn last_words(text: &str) -> &str {
    let lines = || text.lines().rev().map(str::trim).filter(|l| !l.is_empty());
    let marked = |l: &&str| ["[ERROR]", "FATAL:", "got signal", "Out of memory"].iter().any(|w| l.contains(w));
    // A server's farewell says nothing of why.
    lines()
        .find(|l| marked(l) && !l.ends_with("Aborting"))
        .or_else(|| lines().find(marked))
        .or_else(|| lines().next())
        .unwrap_or("it said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("evenkeel-process-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn it_ends_when_told_and_its_words_are_kept() {
        let dir = folder("words");
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo started; echo '[ERROR] no disk' >&2; echo bye; exit 3"]);
        let mut process = Process::start(&mut shell, None, &dir.join("log")).unwrap();
        let status = process.wait(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(status.code(), Some(3));
        let said = process.alive().unwrap_err().to_string();
        assert!(said.contains("exit status: 3") && said.contains("[ERROR] no disk"), "{said}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn one_that_does_not_listen_is_killed_with_its_children() {
        let dir = folder("deaf");
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' TERM; sleep 1000 & echo $!; wait; wait"]);
        let mut process = Process::start(&mut shell, None, &dir.join("log")).unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        let child = loop {
            let text = std::fs::read_to_string(dir.join("log")).unwrap();
            if let Ok(pid) = text.trim().parse::<i32>() {
                break pid;
            }
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(process.end(Duration::from_millis(200)).unwrap(), None);
        assert!(process.alive().is_err());
        drop(process);
        let end = Instant::now() + Duration::from_secs(10);
        // A killed child of a killed parent is gone, or waits for its new parent to notice.
        let gone = || std::fs::read_to_string(format!("/proc/{child}/stat")).map_or(true, |s| s.contains(") Z "));
        while !gone() {
            assert!(Instant::now() < end, "{child} still runs");
            thread::sleep(Duration::from_millis(10));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn words_that_say_most() {
        assert_eq!(last_words("a\n[ERROR] b\nc\n"), "[ERROR] b");
        assert_eq!(last_words("[ERROR] why\nb\n[ERROR] Aborting\n"), "[ERROR] why");
        assert_eq!(last_words("a\nb\n\n"), "b");
        assert_eq!(last_words(""), "it said nothing");
    }
}
