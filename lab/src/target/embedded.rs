//! The embedded target: `evenkeel-embedded`, a program of this project that runs an OLTP load on TidesDB in its own process. It is
//! told what to do on its stdin, and answers with one JSON object a line (`docs/embedded.md`). Server and clients are one
//! process, so there is no client CPU of its own; the window's counters come from the program itself, which knows its edges.

use super::{Ask, Measured, Program, Server, Setting};
use crate::experiment::{Embedded as Wish, Load, TPCC};
use crate::load::own;
use crate::observe::{self, Depth, Watch};
use crate::placement;
use crate::proof;
use crate::record::{Cell, Figures, Proof, Second};
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = "evenkeel-embedded";
/// How long the program may take to prepare its rows.
const PREPARE: Duration = Duration::from_secs(600);
/// How long an answer may take beyond the time that was asked for.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct Embedded {
    program: PathBuf,
    options: Vec<String>,
    load: Load,
}

impl Embedded {
    pub fn new(wish: &Wish, load: &Load) -> Result<Embedded> {
        let options = [
            ("--rows", wish.rows.map(|v| v.to_string())),
            ("--value-bytes", wish.value_bytes.map(|v| v.to_string())),
            ("--range-rows", wish.range_rows.map(|v| v.to_string())),
            ("--result", wish.result_kib.map(|v| v.to_string())),
            ("--distribution", wish.distribution.clone()),
            ("--writes", wish.writes.clone()),
            ("--mix", wish.mix.clone()),
            ("--write-buffer", wish.write_buffer_mib.map(|v| v.to_string())),
            ("--cache", wish.cache_mib.map(|v| v.to_string())),
        ];
        let options =
            options.into_iter().filter_map(|(name, value)| Some([name.to_string(), value?])).flatten().collect();
        Ok(Embedded { program: find()?, options, load: load.clone() })
    }

    fn command(&self, setting: &Setting) -> Command {
        let mut command = Command::new(&self.program);
        setting.heap.put_under(&mut command);
        command
            .arg("--serve")
            .arg("--dir")
            .arg(setting.dir.join("data"))
            .args(["--seed", &setting.seed.to_string()])
            .args(&self.options)
            .args(self.of_test(setting))
            // Ctrl-C is for the lab, which ends its servers in order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    /// What only TPC-C is told. Its tables are loaded once for the sweep, and copied for each life.
    fn of_test(&self, setting: &Setting) -> Vec<String> {
        if setting.cell.test != TPCC {
            return Vec::new();
        }
        let mut words: Vec<String> = ["--test", TPCC, "--checks", self.load.checks.word()].map(String::from).into();
        words.extend(["--warehouses".into(), self.load.warehouses.to_string()]);
        words.extend(["--keep".into(), setting.store.join("tpcc").display().to_string()]);
        if self.load.paced {
            words.push("--paced".into());
        }
        words
    }
}

/// Beside this program, or where a test's program lies below it.
fn find() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program lies")?;
    let near = own.ancestors().skip(1).take(2).map(|d| d.join(PROGRAM)).find(|p| p.is_file());
    near.ok_or_else(|| {
        wrong(format!("{PROGRAM} is not beside {}; build it: cargo build --release -p {PROGRAM}", own.display()))
    })
}

impl super::Target for Embedded {
    fn programs(&self, _: &Cell) -> Result<Vec<Program>> {
        Ok(vec![Program { what: "server".into(), path: self.program.clone() }])
    }

    fn bindings(&self, setting: &Setting) -> Result<Vec<Proof>> {
        let log = setting.dir.join("bindings");
        let mut command = Command::new(&self.program);
        setting.heap.put_under(&mut command);
        command.arg("--version").envs(proof::log_bindings(&log));
        let out = command.output().with_context(|| format!("cannot start {}", self.program.display()))?;
        if !out.status.success() {
            bail!(
                "{PROGRAM} does not start under {}: {}",
                setting.heap.name,
                String::from_utf8_lossy(&out.stderr).trim()
            );
        }
        Ok(vec![proof::of_bindings(setting.heap, &proof::read_bindings(&log)?)])
    }

    fn start(&self, setting: &Setting) -> Result<Box<dyn Server>> {
        let said = setting.dir.join("stderr.log");
        let mut command = self.command(setting);
        command.stderr(File::create(&said).with_context(|| format!("cannot write {}", said.display()))?);
        let mut child = placement::spawn(&mut command, setting.cpus)?;
        let stdin = child.stdin.take().context("the server has no stdin")?;
        let stdout = child.stdout.take().context("the server has no stdout")?;
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut life = Life { child, stdin, lines, said, ready: Value::Null, used: false };
        life.ready = life.expect("ready", PREPARE, &mut |_| {})?;
        Ok(Box::new(life))
    }

    fn seconds_to_start(&self) -> f64 {
        1.0
    }
}

struct Life {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    said: PathBuf,
    ready: Value,
    /// A trial has written to the table.
    used: bool,
}

impl Life {
    fn tell(&mut self, command: &Value) -> Result<()> {
        writeln!(self.stdin, "{command}").and_then(|()| self.stdin.flush()).map_err(|_| self.gone())
    }

    /// Reads events until `wanted` comes; the others go to `each`.
    fn expect(&mut self, wanted: &str, at_most: Duration, each: &mut dyn FnMut(&Value)) -> Result<Value> {
        let end = Instant::now() + at_most;
        loop {
            let line = match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => bail!("no answer within {} s", at_most.as_secs()),
            };
            let event: Value = serde_json::from_str(&line).with_context(|| format!("not an event: {line}"))?;
            match event["event"].as_str() {
                Some(name) if name == wanted => return Ok(event),
                Some("error") => bail!("{}", event["message"].as_str().unwrap_or("unknown error")),
                _ => each(&event),
            }
        }
    }

    /// Why there is no answer any more.
    fn gone(&mut self) -> anyhow::Error {
        let status = self.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
        let text = fs::read_to_string(&self.said).unwrap_or_default();
        let last = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
        anyhow::anyhow!("the server died ({status}): {last}")
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // After a stop there is nothing left to kill; both fail then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server for Life {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn proofs(&mut self) -> Result<Vec<Proof>> {
        let pid = self.ready["pid"].as_u64().unwrap_or(0);
        let version = self.ready["tidesdb"].as_str().unwrap_or("unknown").to_string();
        Ok(vec![
            Proof {
                what: "process that answers".into(),
                wanted: "the one that was started".into(),
                found: if pid == u64::from(self.pid()) { "the one that was started".into() } else { format!("{pid}") },
                holds: pid == u64::from(self.pid()),
            },
            Proof { what: "TidesDB".into(), wanted: "any".into(), holds: version != "unknown", found: version },
            proof::of_durability(self.ready["durability"].as_str().unwrap_or("unknown").to_string()),
        ])
    }

    /// Each trial finds the table as the first one did: what the trials before wrote would slow it, by how much they wrote.
    fn settle(&mut self, at_most: Duration) -> Result<bool> {
        if self.used {
            self.tell(&json!({"do": "renew"}))?;
            self.expect("renewed", PREPARE, &mut |_| {})?;
            self.used = false;
        }
        self.tell(&json!({"do": "settle", "timeout_s": at_most.as_secs_f64()}))?;
        let event = self.expect("settled", at_most + PATIENCE, &mut |_| {})?;
        Ok(event["quiet"].as_bool().unwrap_or(false))
    }

    fn measure(&mut self, ask: &Ask) -> Result<Measured> {
        let pid = self.pid();
        let watch = Watch::start(pid, None);
        self.used = true;
        self.tell(&json!({
            "do": "run",
            "clients": ask.clients,
            "warmup_s": ask.warmup.as_secs_f64(),
            "seconds": ask.window.as_secs_f64(),
            "seed": ask.seed,
        }))?;
        let mut rates = Vec::new();
        // Memory at the end of the window, while every client is still there: the last report of the window comes then.
        let mut memory = Figures::default();
        let length = ask.window.as_secs_f64();
        let mut zero = None;
        let mut open = false;
        let result = self.expect("result", ask.warmup + ask.window + PATIENCE, &mut |event| {
            let at = event["at"].as_f64().unwrap_or(0.0);
            zero.get_or_insert(watch.now() - at);
            if at >= 0.0 && !open {
                open = true;
                (ask.opened)();
            }
            rates.push(Second {
                at,
                tps: event["tps"].as_f64(),
                connections: event["clients"].as_f64(),
                ..Second::default()
            });
            if at >= length - 0.25
                && let Ok(now) = observe::snapshot(pid, None, Depth { switches: false, pages: true })
            {
                observe::window(&now, &now, &mut memory);
            }
        })?;
        let zero = zero.unwrap_or_else(|| watch.now() - length);
        let (samples, cost) = watch.end();
        let mut series = observe::series(&samples, zero);
        series.extend(rates);
        series.sort_by(|a, b| a.at.total_cmp(&b.at));
        let number = |name: &str| result[name].as_f64();
        let told = own::figures(&result);
        let errors = told.errors;
        let figures = Figures {
            tps: number("tps"),
            seconds: number("seconds"),
            transactions: number("transactions"),
            server_cpu_s: number("cpu_s"),
            voluntary_switches: number("voluntary_switches"),
            involuntary_switches: number("involuntary_switches"),
            minor_faults: number("minor_faults"),
            major_faults: number("major_faults"),
            watcher_cpu_s: number("seconds").map(|s| cost * s),
            rss_loaded: memory.rss_loaded,
            pss_loaded: memory.pss_loaded,
            anonymous_loaded: memory.anonymous_loaded,
            lazyfree_loaded: memory.lazyfree_loaded,
            tps_reported: None,
            ..told
        };
        let raw = PathBuf::from(format!("{}.json", ask.raw.display()));
        fs::write(&raw, format!("{result}\n")).with_context(|| format!("cannot write {}", raw.display()))?;
        self.tell(&json!({"do": "check"}))?;
        let checked = self.expect("checked", PATIENCE, &mut |_| {})?;
        let failed = errors.filter(|n| *n > 0.0).unwrap_or(0.0);
        Ok(Measured {
            proofs: vec![
                Proof {
                    what: "transactions that failed for good".into(),
                    wanted: "0".into(),
                    found: failed.to_string(),
                    holds: failed == 0.0,
                },
                Proof {
                    what: "data whole after the trial".into(),
                    wanted: "yes".into(),
                    found: checked["what"].as_str().unwrap_or("no word").to_string(),
                    holds: checked["holds"].as_bool().unwrap_or(false),
                },
            ],
            figures,
            series,
            marks: Vec::new(),
            raw: vec![raw],
        })
    }

    fn stop(mut self: Box<Self>) -> Result<Vec<Proof>> {
        self.tell(&json!({"do": "quit"}))?;
        let end = Instant::now() + PATIENCE;
        let status = loop {
            let status = self.child.try_wait().context("cannot wait for the server")?;
            if status.is_some() || Instant::now() >= end {
                break status;
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ok(vec![Proof {
            what: "server's end".into(),
            wanted: "in order".into(),
            found: status.map_or_else(|| "it did not end".into(), |s| s.to_string()),
            holds: status.is_some_and(|s| s.success()),
        }])
    }
}
