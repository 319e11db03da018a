//! Profiles a live process with perf: phases of samples on the CPU, phases of switches off it, and quiet phases between them, in which
//! the cost of the others can be seen.
//!
//! - perf outranks the load where it may, or it loses samples; what it lost is counted.
//! - Reading stacks out of what perf wrote waits until the trial is over.
//! - Stacks come from frame pointers only where program, heap and libc all keep them; else from the tables for unwinding (dwarf).

use super::script::{self, Script};
use super::symbols::{Symbols, keeps_frame_pointers};
use super::{Kind, folded};
use crate::load::in_path;
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Samples a second of each CPU: not a divisor of anything that comes round.
const RATE: u32 = 199;
/// Switches are sampled so that about so many come a second.
const SWITCHES: f64 = 1500.0;
/// Bytes of a thread's stack that are kept for unwinding.
const DUMP: u32 = 16_384;
/// A profile that lost more says so beside every figure.
pub const LOST: f64 = 0.05;

/// How a profiled trial is spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    /// Each phase, quiet ones included.
    pub seconds: f64,
    /// How often all four phases come: CPU, quiet, switches, quiet.
    pub cycles: u32,
}

impl Phases {
    pub fn window(&self) -> f64 {
        // perf needs a moment to begin and to end.
        f64::from(self.cycles) * (4.0 * self.seconds + 1.0) + 0.5
    }
}

/// What a profiled trial left besides its figures: a part of its record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    pub stacks: Vec<Stacks>,
    pub phases: Vec<Phase>,
}

/// One file of folded stacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stacks {
    pub kind: Kind,
    /// Relative to the sweep's folder.
    pub file: String,
    pub samples: u64,
    pub lost: u64,
    /// Of the samples: those whose stack does not reach the start of a thread.
    pub nowhere: u64,
    /// What one unit of weight stands for: seconds of CPU, switches, microseconds away.
    pub each: f64,
    /// Seconds in which it was taken.
    pub seconds: f64,
    /// `dwarf` or `frame pointers`.
    pub unwound: String,
}

impl Stacks {
    pub fn lost_share(&self) -> f64 {
        self.lost as f64 / (self.samples + self.lost).max(1) as f64
    }
}

/// From when to when, in seconds from the start of the window, something was profiled; `kind` is None in a quiet phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    pub kind: Option<Kind>,
    pub from: f64,
    pub to: f64,
}

/// perf, and what it may do here.
#[derive(Clone, Debug)]
pub struct Perf {
    program: PathBuf,
    /// It may see the whole machine; else only this process, thread by thread.
    whole: bool,
    nice: bool,
}

impl Perf {
    pub fn find() -> Result<Perf> {
        let program = in_path("perf")
            .ok_or_else(|| wrong("perf is not installed; apt-get install linux-perf (Ubuntu: linux-tools-generic)"))?;
        let root = nix::unistd::geteuid().is_root();
        let paranoid = paranoid();
        if !root && paranoid > 2 {
            return Err(wrong(format!(
                "perf may not look at other processes here (kernel.perf_event_paranoid is {paranoid}); \
                 run as root, or: sysctl kernel.perf_event_paranoid=1"
            )));
        }
        Ok(Perf { program, whole: root || paranoid < 1, nice: root })
    }

    /// Whether switches can be seen at all.
    pub fn sees_switches(&self) -> bool {
        self.whole && Path::new("/sys/kernel/tracing/events/sched/sched_switch").exists()
            || Path::new("/sys/kernel/debug/tracing/events/sched/sched_switch").exists()
            // tracefs comes when perf first asks for it.
            || nix::unistd::geteuid().is_root()
    }

    /// Records one phase into `data`.
    fn record(&self, pid: u32, kind: Kind, length: Duration, stacks: Unwind, data: &Path) -> Result<Recorded> {
        let mut words: Vec<String> = vec!["record".into(), "-q".into(), "-o".into(), data.display().to_string()];
        let mut say = |more: &[&str]| words.extend(more.iter().map(|w| w.to_string()));
        match kind {
            Kind::Cpu => say(&["-e", "cpu-clock", "-F", &RATE.to_string()]),
            _ => {
                let period = (switch_rate() / SWITCHES).round().max(1.0);
                // Without --no-period perf takes every event of a tracepoint, whatever -c says.
                say(&["-e", "sched:sched_switch", "-c", &format!("{period}"), "--no-period", "--switch-events"]);
            }
        }
        match stacks {
            Unwind::Dwarf => say(&["--call-graph", &format!("dwarf,{DUMP}")]),
            Unwind::FramePointers => say(&["--call-graph", "fp"]),
        }
        if self.whole {
            say(&["-a", "-m", "2048"]);
        } else {
            say(&["-p", &pid.to_string()]);
        }
        say(&["--", "sleep", &format!("{:.3}", length.as_secs_f64())]);
        let mut command = if self.nice {
            let mut command = Command::new("nice");
            command.args(["-n", "-10"]).arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        let out = command.args(&words).stdin(Stdio::null()).output().context("cannot start perf")?;
        if !data.is_file() || !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            let line = said.lines().map(str::trim).find(|l| !["", "Error:"].contains(l)).unwrap_or("it said nothing");
            bail!("perf record ended with {}: {line}", out.status);
        }
        Ok(Recorded { kind, data: data.to_path_buf(), seconds: length.as_secs_f64() })
    }

    /// Reads the stacks out of a recording.
    fn read(&self, pid: u32, recorded: &Recorded, symbols: &mut Symbols) -> Result<Script> {
        let fields = match recorded.kind {
            Kind::Cpu => "comm,pid,tid,time,event,ip,sym,dso",
            _ => "comm,pid,tid,time,event,ip,sym,dso,trace",
        };
        let mut command = Command::new(&self.program);
        command.args(["script", "--no-inline", "-F", fields, "--show-lost-events", "--show-switch-events", "-i"]);
        command.arg(&recorded.data).args(["--pid", &pid.to_string()]);
        let out = command.stdin(Stdio::null()).output().context("cannot start perf")?;
        let text = String::from_utf8_lossy(&out.stdout);
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            bail!("perf script ended with {}: {}", out.status, said.lines().last().unwrap_or("it said nothing"));
        }
        Ok(script::read(&text, symbols))
    }
}

struct Recorded {
    kind: Kind,
    data: PathBuf,
    seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwind {
    Dwarf,
    FramePointers,
}

impl Unwind {
    /// By what the objects of a process keep: its program, and whatever may stand between it and the kernel in a stack of the heap.
    pub fn of(pid: u32) -> Unwind {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mut paths: Vec<&str> =
            maps.lines().filter(|l| l.contains(" r-xp ")).filter_map(|l| Some(&l[l.find('/')?..])).collect();
        paths.dedup();
        let keeps = |path: &&str| keeps_frame_pointers(Path::new(path)) == Some(true);
        if !paths.is_empty() && paths.iter().all(keeps) { Unwind::FramePointers } else { Unwind::Dwarf }
    }

    fn name(self) -> &'static str {
        match self {
            Unwind::Dwarf => "dwarf",
            Unwind::FramePointers => "frame pointers",
        }
    }
}

/// Whom the kernel lets look: below 1 everyone at everything, above 2 nobody.
fn paranoid() -> i32 {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    text.trim().parse().unwrap_or(2)
}

/// Switches a second of the whole machine, over a tenth of a second.
fn switch_rate() -> f64 {
    let count = || -> f64 {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        text.lines().find_map(|l| l.strip_prefix("ctxt ")?.parse().ok()).unwrap_or(0.0)
    };
    let (begun, before) = (Instant::now(), count());
    thread::sleep(Duration::from_millis(100));
    (count() - before) / begun.elapsed().as_secs_f64()
}

/// A collection under way in a thread of its own. It begins when told that the window is open.
pub struct Collector {
    open: Sender<Instant>,
    thread: JoinHandle<Result<Raw>>,
    perf: Perf,
    pid: u32,
    unwind: Unwind,
    dir: PathBuf,
}

#[derive(Default)]
struct Raw {
    recorded: Vec<Recorded>,
    phases: Vec<Phase>,
}

impl Collector {
    /// `dir` holds what perf writes until it is read.
    pub fn start(perf: &Perf, pid: u32, phases: Phases, dir: &Path) -> Collector {
        let (open, opened) = mpsc::channel();
        let unwind = Unwind::of(pid);
        let (own, to) = (perf.clone(), dir.to_path_buf());
        let thread = thread::spawn(move || collect(&own, pid, phases, unwind, &to, &opened));
        Collector { open, thread, perf: perf.clone(), pid, unwind, dir: dir.to_path_buf() }
    }

    /// How to say that the window is open.
    pub fn opener(&self) -> Sender<Instant> {
        self.open.clone()
    }

    /// Waits for the last phase, reads all stacks, and writes them as folded files that begin with `to`, in the bundle `root`.
    pub fn finish(self, root: &Path, to: &Path) -> Result<Profiled> {
        drop(self.open);
        let raw = self.thread.join().map_err(|_| anyhow::anyhow!("the profiler's thread died"))??;
        let mut symbols = Symbols::here();
        let mut profiled = Profiled { stacks: Vec::new(), phases: raw.phases };
        for kind in [Kind::Cpu, Kind::Switches] {
            let mut sum = Script::default();
            let mut seconds = 0.0;
            for recorded in raw.recorded.iter().filter(|r| r.kind == kind) {
                sum.add(&self.perf.read(self.pid, recorded, &mut symbols)?);
                seconds += recorded.seconds;
            }
            if seconds == 0.0 {
                continue;
            }
            let all = sum.left.max(sum.switches.total()) as f64 / sum.switches.total().max(1) as f64;
            let views = match kind {
                Kind::Cpu => vec![(Kind::Cpu, &sum.cpu, 1.0 / f64::from(RATE))],
                _ => vec![(Kind::Switches, &sum.switches, all), (Kind::OffCpu, &sum.off_cpu, all)],
            };
            for (kind, profile, each) in views {
                let file = PathBuf::from(format!("{}.{}.folded", to.display(), kind.name()));
                fs::write(&file, folded::write(profile)).with_context(|| format!("cannot write {}", file.display()))?;
                profiled.stacks.push(Stacks {
                    kind,
                    file: file.strip_prefix(root).unwrap_or(&file).display().to_string(),
                    samples: sum.samples,
                    lost: sum.lost,
                    nowhere: sum.nowhere,
                    each,
                    seconds,
                    unwound: self.unwind.name().into(),
                });
            }
        }
        let _ = fs::remove_dir_all(&self.dir);
        Ok(profiled)
    }
}

fn collect(
    perf: &Perf,
    pid: u32,
    phases: Phases,
    unwind: Unwind,
    dir: &Path,
    opened: &Receiver<Instant>,
) -> Result<Raw> {
    let mut raw = Raw::default();
    // No word means that the trial ended before its window opened.
    let Ok(zero) = opened.recv() else { return Ok(raw) };
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let length = Duration::from_secs_f64(phases.seconds);
    let now = || zero.elapsed().as_secs_f64();
    for cycle in 0..phases.cycles {
        for kind in [Some(Kind::Cpu), None, Some(Kind::Switches), None] {
            let from = now();
            match kind {
                None => thread::sleep(length),
                Some(Kind::Switches) if !perf.sees_switches() => continue,
                Some(kind) => {
                    let data = dir.join(format!("{}-{cycle}.data", kind.name()));
                    raw.recorded.push(perf.record(pid, kind, length, unwind, &data)?);
                }
            }
            raw.phases.push(Phase { kind, from, to: now() });
        }
    }
    Ok(raw)
}

/// Profiles a process for a while, without a load of ours: CPU for one half, switches for the other.
pub fn live(perf: &Perf, pid: u32, length: Duration, dir: &Path) -> Result<Script> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let unwind = Unwind::of(pid);
    let mut recorded = Vec::new();
    for kind in [Kind::Cpu, Kind::Switches] {
        if kind == Kind::Cpu || perf.sees_switches() {
            recorded.push(perf.record(pid, kind, length / 2, unwind, &dir.join(format!("{}.data", kind.name())))?);
        }
    }
    // Reading takes longer than recording, and CPU: it waits until both are there.
    let mut symbols = Symbols::here();
    let mut all = Script::default();
    for recorded in &recorded {
        all.add(&perf.read(pid, recorded, &mut symbols)?);
    }
    let _ = fs::remove_dir_all(dir);
    Ok(all)
}

/// Seconds of CPU that one sample stands for.
pub fn seconds_a_sample() -> f64 {
    1.0 / f64::from(RATE)
}
