//! Profiles a live process with perf: phases of samples on the CPU, phases of switches off it, and quiet phases between them, in which
//! the cost of the others can be seen.
//!
//! - perf outranks the load where it may, or it loses samples; what it lost is counted.
//! - One perf of each kind lives as long as the trial and is told when to record: that it comes and goes is no part of a phase.
//! - Reading stacks out of what perf wrote waits until the trial is over.
//! - Stacks come from frame pointers only where program, heap and libc all keep them; else from the tables for unwinding (dwarf).

use super::script::{self, Script};
use super::symbols::{Symbols, keeps_frame_pointers};
use super::{Kind, folded};
use crate::load::in_path;
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Samples a second of each CPU: not a divisor of anything that comes round.
const RATE: u32 = 199;
/// Switches are sampled so that about so many come a second.
const SWITCHES: f64 = 800.0;
/// Bytes of a thread's stack that are kept for unwinding: one that runs may be deep in a query, one that waits seldom is.
const DUMP: u32 = 32_768;
const DUMP_SWITCH: u32 = 16_384;
/// Of the window, for perf to see the load and to begin.
const TO_START: f64 = 3.0;
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
        f64::from(self.cycles) * 4.0 * self.seconds + TO_START
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

    /// Starts a perf that records nothing yet.
    fn start(&self, pid: u32, kind: Kind, stacks: Unwind, dir: &Path) -> Result<Recorder> {
        let at = |what: &str| dir.join(format!("{}.{what}", kind.name()));
        let (data, tell, answer) = (at("data"), at("tell"), at("answer"));
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
            Unwind::Dwarf => {
                let dump = if kind == Kind::Cpu { DUMP } else { DUMP_SWITCH };
                say(&["--call-graph", &format!("dwarf,{dump}")]);
            }
            Unwind::FramePointers => say(&["--call-graph", "fp"]),
        }
        if self.whole {
            say(&["-a", "-m", "4096"]);
        } else {
            say(&["-p", &pid.to_string()]);
        }
        // Build ids would cost another walk through the data.
        say(&["-B", "-D", "-1", "--control", &format!("fifo:{},{}", tell.display(), answer.display())]);
        let pipe = |path: &Path| -> Result<File> {
            let cannot = || format!("cannot make {}", path.display());
            mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).with_context(cannot)?;
            // Open on both sides, so that it does not wait for perf.
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(OFlag::O_NONBLOCK.bits())
                .open(path)
                .with_context(cannot)
        };
        let (tell, answer) = (pipe(&tell)?, pipe(&answer)?);
        let said = at("txt");
        let log = File::create(&said).with_context(|| format!("cannot write {}", said.display()))?;
        let mut command = if self.nice {
            let mut command = Command::new("nice");
            command.args(["-n", "-10"]).arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        let child = command.args(&words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let child = child.context("cannot start perf")?;
        let mut recorder = Recorder { kind, data, said, child, tell, answer, seconds: 0.0 };
        // Its first answer says that it is ready.
        recorder.ask("ping")?;
        Ok(recorder)
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

/// A perf that waits to be told what to do.
struct Recorder {
    kind: Kind,
    data: PathBuf,
    said: PathBuf,
    child: Child,
    tell: File,
    answer: File,
    /// How long it recorded.
    seconds: f64,
}

/// How long perf may take to answer: with thousands of threads it has much to open.
const PATIENCE: Duration = Duration::from_secs(60);

impl Recorder {
    fn ask(&mut self, word: &str) -> Result<()> {
        self.tell.write_all(format!("{word}\n").as_bytes()).context("cannot speak to perf")?;
        let end = Instant::now() + PATIENCE;
        let mut answer = [0u8; 64];
        loop {
            match self.answer.read(&mut answer) {
                Ok(n) if n > 0 => return Ok(()),
                Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(e).context("cannot hear perf"),
                _ => {}
            }
            if let Some(status) = self.child.try_wait().context("cannot wait for perf")? {
                bail!("perf record ended with {status}: {}", self.words());
            }
            if Instant::now() >= end {
                bail!("perf did not answer within {} s", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn words(&self) -> String {
        let text = fs::read_to_string(&self.said).unwrap_or_default();
        let line = text.lines().map(str::trim).find(|l| !["", "Error:"].contains(l) && !l.starts_with("Events"));
        line.unwrap_or("it said nothing").to_string()
    }

    /// Records for so long, exactly.
    fn record(&mut self, length: Duration) -> Result<()> {
        self.ask("enable")?;
        let begun = Instant::now();
        thread::sleep(length);
        self.ask("disable")?;
        self.seconds += begun.elapsed().as_secs_f64();
        Ok(())
    }

    fn end(mut self) -> Result<Recorded> {
        // As Ctrl-C does: it writes what it has.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        self.child.wait().context("cannot wait for perf")?;
        if !self.data.is_file() {
            bail!("perf record left nothing: {}", self.words());
        }
        Ok(Recorded { kind: self.kind, data: self.data.clone(), seconds: self.seconds })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // After an end both fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    // Not before: how many switches to sample depends on how many there are.
    let mut recorders = recorders(perf, pid, unwind, dir)?;
    let length = Duration::from_secs_f64(phases.seconds);
    let now = || zero.elapsed().as_secs_f64();
    'window: for _ in 0..phases.cycles {
        for recorder in &mut recorders {
            for kind in [Some(recorder.kind), None] {
                let from = now();
                // A phase that the load's end cuts off would say nothing of the load.
                if from + phases.seconds > phases.window() {
                    break 'window;
                }
                match kind {
                    Some(_) => recorder.record(length)?,
                    None => thread::sleep(length),
                }
                raw.phases.push(Phase { kind, from, to: now() });
            }
        }
    }
    for recorder in recorders {
        raw.recorded.push(recorder.end()?);
    }
    Ok(raw)
}

/// One for the CPU, and one for switches where those can be seen.
fn recorders(perf: &Perf, pid: u32, unwind: Unwind, dir: &Path) -> Result<Vec<Recorder>> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let kinds = [Kind::Cpu, Kind::Switches].into_iter().filter(|k| *k == Kind::Cpu || perf.sees_switches());
    kinds.map(|kind| perf.start(pid, kind, unwind, dir)).collect()
}

/// Profiles a process for a while, without a load of ours: CPU for one half, switches for the other.
pub fn live(perf: &Perf, pid: u32, length: Duration, dir: &Path) -> Result<Script> {
    let mut symbols = Symbols::here();
    let mut all = Script::default();
    let mut recorders = recorders(perf, pid, Unwind::of(pid), dir)?;
    let part = length / recorders.len() as u32;
    for recorder in &mut recorders {
        recorder.record(part)?;
    }
    for recorder in recorders {
        all.add(&perf.read(pid, &recorder.end()?, &mut symbols)?);
    }
    let _ = fs::remove_dir_all(dir);
    Ok(all)
}

/// Seconds of CPU that one sample stands for.
pub fn seconds_a_sample() -> f64 {
    1.0 / f64::from(RATE)
}
