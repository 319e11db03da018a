//! The command target: any server that a command starts, and any load that a command runs against it. The experiment says both, how to
//! know that the server is ready, and where in the load's words the rate stands.
//!
//! `start` must become the server itself (a shell script ends with `exec`): its process is the one that is watched and ended. The load
//! runs twice, once for the warm-up and once for the window, and the window is the second run from its start to its end.

use super::process::{Process, last_words};
use super::{Ask, Measured, Program, Server, Setting};
use crate::experiment::CommandTarget as Wish;
use crate::load::in_path;
use crate::observe::{self, Depth, Watch};
use crate::placement;
use crate::proof;
use crate::record::{Cell, Figures, Proof};
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use regex_lite::Regex;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const STOP: Duration = Duration::from_secs(30);
/// How much longer than asked a load may run.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct CommandTarget {
    wish: Wish,
    rate: Regex,
    p99_ms: Option<Regex>,
}

impl CommandTarget {
    pub fn new(wish: &Wish) -> Result<CommandTarget> {
        let pattern = |what: &str, text: &str| {
            let regex = Regex::new(text).map_err(|e| wrong(format!("target.command.{what}: {e}")))?;
            if regex.captures_len() < 2 {
                return Err(wrong(format!("target.command.{what}: put the number into a group, as 'rate: ([0-9.]+)'")));
            }
            Ok(regex)
        };
        for (what, list) in [("start", &wish.start), ("ready", &wish.ready), ("load", &wish.load)] {
            if list.is_empty() {
                return Err(wrong(format!("target.command.{what} is empty: name a program and its arguments")));
            }
        }
        let p99_ms = wish.p99_ms.as_deref().map(|text| pattern("p99_ms", text)).transpose()?;
        Ok(CommandTarget { rate: pattern("rate", &wish.rate)?, p99_ms, wish: wish.clone() })
    }

    /// Starts the server and waits until it is ready.
    fn up(&self, setting: &Setting, dir: &Path, env: &[(&str, String)]) -> Result<Life> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let words = Words {
            dir: dir.display().to_string(),
            port: free_port()?.to_string(),
            most_clients: setting.most_clients.to_string(),
            test: setting.cell.test.clone(),
        };
        let start = words.fill(&self.wish.start, &[("{clients}", &words.most_clients)]);
        let mut command = Command::new(program(&start[0])?);
        setting.heap.put_under(&mut command);
        command.args(&start[1..]).current_dir(dir).envs(env.to_vec());
        let process = Process::start(&mut command, setting.cpus, &dir.join("server.log"))?;
        let mut life = Life {
            process,
            ready: words.fill(&self.wish.ready, &[("{clients}", &words.most_clients)]),
            load: self.wish.load.clone(),
            rate: self.rate.clone(),
            p99_ms: self.p99_ms.clone(),
            client_cpus: setting.client_cpus.map(<[usize]>::to_vec),
            words,
        };
        life.wait_until_ready(Duration::from_secs_f64(self.wish.start_s))?;
        Ok(life)
    }
}

/// What stands for what in the experiment's commands.
struct Words {
    dir: String,
    port: String,
    most_clients: String,
    test: String,
}

impl Words {
    fn fill(&self, command: &[String], more: &[(&str, &str)]) -> Vec<String> {
        let own = [("{dir}", self.dir.as_str()), ("{port}", &self.port), ("{test}", &self.test)];
        let all = || own.iter().chain(more);
        command.iter().map(|part| all().fold(part.clone(), |part, (name, value)| part.replace(name, value))).collect()
    }
}

/// A port of the loopback that nobody uses at this moment.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on the loopback")?;
    Ok(listener.local_addr()?.port())
}

fn program(name: &str) -> Result<PathBuf> {
    let found = if name.contains('/') { Some(PathBuf::from(name)).filter(|p| p.is_file()) } else { in_path(name) };
    found.ok_or_else(|| wrong(format!("target.command: {name} is not on this machine; install it or name its path")))
}

impl super::Target for CommandTarget {
    fn programs(&self, _: &Cell) -> Result<Vec<Program>> {
        program(&self.wish.ready[0])?;
        Ok(vec![
            Program { what: "server".into(), path: program(&self.wish.start[0])? },
            Program { what: "load".into(), path: program(&self.wish.load[0])? },
        ])
    }

    fn bindings(&self, setting: &Setting) -> Result<Vec<Proof>> {
        let log = setting.dir.join("bindings");
        let mut life = self.up(setting, &setting.dir.join("probe"), &proof::log_bindings(&log))?;
        life.process.end(STOP)?;
        Ok(vec![proof::of_bindings(setting.heap, &proof::read_bindings(&log)?)])
    }

    fn start(&self, setting: &Setting) -> Result<Box<dyn Server>> {
        Ok(Box::new(self.up(setting, &setting.dir.join("run"), &[])?))
    }

    fn seconds_to_start(&self) -> f64 {
        2.0
    }
}

struct Life {
    process: Process,
    words: Words,
    ready: Vec<String>,
    load: Vec<String>,
    rate: Regex,
    p99_ms: Option<Regex>,
    client_cpus: Option<Vec<usize>>,
}

impl Life {
    fn wait_until_ready(&mut self, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        loop {
            self.process.alive()?;
            let mut probe = Command::new(program(&self.ready[0])?);
            probe.args(&self.ready[1..]).current_dir(&self.words.dir);
            probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if probe.status().with_context(|| format!("cannot start {}", self.ready[0]))?.success() {
                return Ok(());
            }
            if Instant::now() >= end {
                bail!(
                    "the server was not ready after {} s: {} did not succeed",
                    patience.as_secs(),
                    self.ready.join(" ")
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs the load once, its words in `output`; `seen` is called with its pid once it runs.
    fn run<T>(
        &mut self,
        ask: &Ask,
        length: Duration,
        output: &Path,
        seen: impl FnOnce(u32) -> T,
    ) -> Result<(T, String)> {
        let (clients, seconds) = (ask.clients.to_string(), length.as_secs_f64().to_string());
        let seed = ask.seed.to_string();
        let load = self.words.fill(&self.load, &[("{clients}", &clients), ("{seconds}", &seconds), ("{seed}", &seed)]);
        let file = File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
        let mut command = Command::new(program(&load[0])?);
        command.args(&load[1..]).current_dir(&self.words.dir).process_group(0).stdin(Stdio::null());
        command.stdout(file.try_clone().context("cannot share a file")?).stderr(file);
        let mut child = placement::spawn(&mut command, self.client_cpus.as_deref())?;
        let got = seen(child.id());
        let end = Instant::now() + length + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().context("cannot wait for the load")? {
                break status;
            }
            let late = Instant::now() >= end;
            if let Err(why) = self.process.alive().and_then(|()| {
                if late { bail!("the load did not end within {} s", (length + PATIENCE).as_secs()) } else { Ok(()) }
            }) {
                let _ = child.kill();
                let _ = child.wait();
                return Err(why);
            }
            thread::sleep(Duration::from_millis(2));
        };
        let said = String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).into_owned();
        if !status.success() {
            bail!("the load failed ({status}): {}", last_words(&said));
        }
        Ok((got, said))
    }
}

/// The number in the last place where a pattern matches: a load that reports each second reports the whole at its end.
fn last(regex: &Regex, text: &str) -> Option<f64> {
    regex.captures_iter(text).last()?.get(1)?.as_str().replace(',', "").parse().ok()
}

/// CPU seconds of all processes that this one has waited for.
fn children_cpu() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| {
        [usage.user_time(), usage.system_time()].iter().map(|t| t.num_microseconds() as f64 / 1e6).sum()
    })
}

impl Server for Life {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn proofs(&mut self) -> Result<Vec<Proof>> {
        let status = self.process.ended()?;
        Ok(vec![Proof {
            what: "process that was started".into(),
            wanted: "runs".into(),
            found: status.map_or_else(|| "runs".into(), |s| format!("ended ({s}); let start end with exec")),
            holds: status.is_none(),
        }])
    }

    /// Quiet: less than a tenth of a CPU in three looks in a row.
    fn settle(&mut self, at_most: Duration) -> Result<bool> {
        const LOOK: Duration = Duration::from_millis(100);
        let end = Instant::now() + at_most;
        let (mut before, mut calm) = (observe::cpu(self.pid())?, 0);
        while calm < 3 {
            if Instant::now() + LOOK > end {
                return Ok(false);
            }
            thread::sleep(LOOK);
            self.process.alive()?;
            let now = observe::cpu(self.pid())?;
            calm = if now - before <= 0.1 * LOOK.as_secs_f64() { calm + 1 } else { 0 };
            before = now;
        }
        Ok(true)
    }

    fn measure(&mut self, ask: &Ask) -> Result<Measured> {
        let raw = PathBuf::from(format!("{}.load.txt", ask.raw.display()));
        if !ask.warmup.is_zero() {
            self.run(ask, ask.warmup, &raw, |_| ())?;
        }
        let pid = self.pid();
        let before = observe::snapshot(pid, None, Depth::COUNTERS)?;
        let children = children_cpu();
        let begun = Instant::now();
        let ((watch, mask), said) = self.run(ask, ask.window, &raw, |client| {
            (ask.opened)();
            (Watch::start(pid, Some(client)), placement::mask_of(client))
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let after = observe::snapshot(pid, None, Depth::ALL)?;
        let (samples, cost) = watch.end();
        let Some(tps) = last(&self.rate, &said) else {
            bail!("target.command.rate matches nothing in what the load said: {}", raw.display());
        };
        let mut figures = Figures {
            tps: Some(tps),
            tps_reported: Some(tps),
            seconds: Some(seconds),
            transactions: Some(tps * seconds),
            latency_p99_ms: self.p99_ms.as_ref().and_then(|regex| last(regex, &said)),
            watcher_cpu_s: Some(cost * seconds),
            ..Figures::default()
        };
        observe::window(&before, &after, &mut figures);
        // The load was waited for, and nothing else was in between.
        figures.client_cpu_s = Some(children_cpu() - children);
        // Its connections are gone by now: what the watch saw last belongs to them.
        figures.rss_loaded = samples.last().map(|(_, seen)| seen.rss).or(figures.rss_loaded);
        let proofs = self.client_cpus.as_deref().map(|cpus| {
            let wanted = placement::write(cpus);
            let found = mask.map_or_else(|| "unknown".into(), |m| placement::write(&m));
            Proof { what: "CPUs of the load".into(), holds: wanted == found, wanted, found }
        });
        let marks = vec!["the rate is the load's own word, over its whole run".to_string()];
        let series = observe::series(&samples, 0.0);
        Ok(Measured { figures, series, marks, raw: vec![raw], proofs: proofs.into_iter().collect() })
    }

    fn stop(mut self: Box<Self>) -> Result<Vec<Proof>> {
        let status = self.process.end(STOP)?;
        Ok(vec![Proof {
            what: "server's end".into(),
            wanted: "at SIGTERM".into(),
            found: status.map_or_else(|| format!("killed after {} s", STOP.as_secs()), |_| "at SIGTERM".into()),
            holds: status.is_some(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(rate: &str) -> Wish {
        let one = |s: &str| vec![s.to_string()];
        Wish { start: one("sh"), ready: one("true"), load: one("sh"), rate: rate.into(), p99_ms: None, start_s: 1.0 }
    }

    #[test]
    fn words_are_filled_in() {
        let words = Words { dir: "/d".into(), port: "7".into(), most_clients: "9".into(), test: "t".into() };
        let filled = words.fill(&["{dir}/x{port}".into(), "{test}{clients}{port}".into()], &[("{clients}", "3")]);
        assert_eq!(filled, ["/d/x7", "t37"]);
    }

    #[test]
    fn the_last_number_counts() {
        let regex = Regex::new(r"([0-9.,]+) requests per second").unwrap();
        assert_eq!(last(&regex, "1 requests per second\n12,345.5 requests per second\n"), Some(12_345.5));
        assert_eq!(last(&regex, "nothing"), None);
    }

    #[test]
    fn a_pattern_without_a_group_is_wrong() {
        let said = |rate: &str| CommandTarget::new(&wish(rate)).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said("[0-9]+").contains("into a group"));
        assert!(said("([0-9]+").contains("target.command.rate"));
        assert_eq!(said("([0-9]+)"), "");
    }
}
