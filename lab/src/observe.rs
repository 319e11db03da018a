//! Observers: what the kernel knows of a process, second by second, while a load runs.
//!
//! A `Watch` is a thread that takes a snapshot each second. The window's own deltas come from two further snapshots at its edges. What
//! is dear to read (switches are kept per thread, PSS costs a walk over the page tables) is read as often as the cost allows: the
//! watcher measures its own CPU time and keeps it under a percent of one core.

use crate::record::{Figures, Second};
use anyhow::{Context, Result};
use procfs::process::Process;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Everything at one moment. Counters count from the start of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub cpu_s: f64,
    /// CPU of the load's own process, if it is another one.
    pub client_cpu_s: Option<f64>,
    pub minor_faults: f64,
    pub major_faults: f64,
    pub threads: f64,
    pub rss: f64,
    /// Sum over the threads that live now; None where it was not read this time.
    pub switches: Option<Switches>,
    pub pages: Option<Pages>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switches {
    pub voluntary: f64,
    pub involuntary: f64,
}

/// From `smaps_rollup`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    pub pss: f64,
    pub anonymous: f64,
    pub lazyfree: f64,
}

/// Which parts of a snapshot to read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    pub switches: bool,
    pub pages: bool,
}

impl Depth {
    pub const ALL: Depth = Depth { switches: true, pages: true };
    pub const COUNTERS: Depth = Depth { switches: true, pages: false };
    pub const CHEAP: Depth = Depth { switches: false, pages: false };
}

pub fn snapshot(pid: u32, client: Option<u32>, depth: Depth) -> Result<Snapshot> {
    let process = Process::new(pid as i32).with_context(|| format!("process {pid} is gone"))?;
    let stat = process.stat().with_context(|| format!("process {pid} is gone"))?;
    let page = procfs::page_size() as f64;
    Ok(Snapshot {
        cpu_s: cpu_of(&stat),
        client_cpu_s: client.and_then(|pid| cpu(pid).ok()),
        minor_faults: stat.minflt as f64,
        major_faults: stat.majflt as f64,
        threads: stat.num_threads as f64,
        rss: stat.rss as f64 * page,
        switches: if depth.switches { switches(pid) } else { None },
        pages: if depth.pages { pages(pid) } else { None },
    })
}

/// CPU seconds that a process and its threads have taken.
pub fn cpu(pid: u32) -> Result<f64> {
    let stat = Process::new(pid as i32).and_then(|p| p.stat()).with_context(|| format!("process {pid} is gone"))?;
    Ok(cpu_of(&stat))
}

fn cpu_of(stat: &procfs::process::Stat) -> f64 {
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}

fn switches(pid: u32) -> Option<Switches> {
    let mut sum = Switches { voluntary: 0.0, involuntary: 0.0 };
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread may end while the folder is read.
        let Ok(text) = fs::read_to_string(task.path().join("status")) else { continue };
        for line in text.lines().rev().take(4) {
            let number = |rest: &str| rest.trim().parse::<f64>().unwrap_or(0.0);
            if let Some(rest) = line.strip_prefix("nonvoluntary_ctxt_switches:") {
                sum.involuntary += number(rest);
            } else if let Some(rest) = line.strip_prefix("voluntary_ctxt_switches:") {
                sum.voluntary += number(rest);
            }
        }
    }
    Some(sum)
}

fn pages(pid: u32) -> Option<Pages> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let field = |name: &str| {
        let rest = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kib| kib * 1024.0)
    };
    Some(Pages { pss: field("Pss")?, anonymous: field("Anonymous")?, lazyfree: field("LazyFree")? })
}

/// Forgets the highest RSS so far, so that `peak` tells that of the trial. False where the kernel does not let us.
pub fn forget_peak(pid: u32) -> bool {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok()
}

/// The highest RSS since `forget_peak`, or since the start.
pub fn peak(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rest = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    rest.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// A snapshot and when it was taken, in seconds since the watch began.
pub type Sample = (f64, Snapshot);

/// A running watcher.
pub struct Watch {
    begun: Instant,
    stop: Sender<()>,
    thread: JoinHandle<(Vec<Sample>, f64)>,
}

/// A watch shorter than this reads nothing dear.
const DEAR_FROM: f64 = 1.5;
/// The share of one core that dear reads may take.
const SHARE: f64 = 0.005;

impl Watch {
    pub fn start(pid: u32, client: Option<u32>) -> Watch {
        let (stop, stopped) = mpsc::channel();
        let begun = Instant::now();
        let thread = thread::spawn(move || {
            let before = own_cpu();
            let mut samples = Vec::new();
            // When each dear read may happen (again): not in a trial of a second, whose edges are read anyway.
            let (mut switches_due, mut pages_due) = (DEAR_FROM, DEAR_FROM);
            for second in 0.. {
                let now = begun.elapsed().as_secs_f64();
                let depth = Depth { switches: now >= switches_due, pages: false };
                let Ok(mut seen) = snapshot(pid, client, depth) else { break };
                let after = begun.elapsed().as_secs_f64();
                if depth.switches {
                    switches_due = now + (after - now) / SHARE;
                }
                if after >= pages_due {
                    seen.pages = pages(pid);
                    pages_due = after + (begun.elapsed().as_secs_f64() - after) / SHARE;
                }
                samples.push((now, seen));
                let next = begun + Duration::from_secs(second + 1);
                match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            (samples, (own_cpu() - before) / begun.elapsed().as_secs_f64())
        });
        Watch { begun, stop, thread }
    }

    /// Seconds since the watch began.
    pub fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Ends the watch: all samples, and the share of one CPU that it took.
    pub fn end(self) -> (Vec<Sample>, f64) {
        // The thread may have ended with the process that it watched.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// What the counters moved by between the edges of the window, and the memory at its end.
pub fn window(before: &Snapshot, after: &Snapshot, figures: &mut Figures) {
    figures.server_cpu_s = Some(after.cpu_s - before.cpu_s);
    figures.client_cpu_s = after.client_cpu_s.zip(before.client_cpu_s).map(|(a, b)| a - b);
    figures.minor_faults = Some(after.minor_faults - before.minor_faults);
    figures.major_faults = Some(after.major_faults - before.major_faults);
    if let (Some(a), Some(b)) = (after.switches, before.switches) {
        figures.voluntary_switches = Some(a.voluntary - b.voluntary);
        figures.involuntary_switches = Some(a.involuntary - b.involuntary);
    }
    figures.rss_loaded = Some(after.rss);
    figures.pss_loaded = after.pages.map(|p| p.pss);
    figures.anonymous_loaded = after.pages.map(|p| p.anonymous);
    figures.lazyfree_loaded = after.pages.map(|p| p.lazyfree);
}

/// Samples as seconds of a record; `zero` is the start of the window in the watch's time.
pub fn series(samples: &[Sample], zero: f64) -> Vec<Second> {
    let mut seconds: Vec<Second> = Vec::new();
    for pair in samples.windows(2) {
        let ((from, before), (to, after)) = (&pair[0], &pair[1]);
        let rate = |a: f64, b: f64| Some((a - b) / (to - from));
        let switches = after.switches.zip(before.switches);
        seconds.push(Second {
            at: to - zero,
            rss: Some(after.rss),
            pss: after.pages.map(|p| p.pss),
            anonymous: after.pages.map(|p| p.anonymous),
            lazyfree: after.pages.map(|p| p.lazyfree),
            minor_faults: rate(after.minor_faults, before.minor_faults),
            major_faults: rate(after.major_faults, before.major_faults),
            voluntary_switches: switches.and_then(|(a, b)| rate(a.voluntary, b.voluntary)),
            involuntary_switches: switches.and_then(|(a, b)| rate(a.involuntary, b.involuntary)),
            server_cpu_s: rate(after.cpu_s, before.cpu_s),
            client_cpu_s: after.client_cpu_s.zip(before.client_cpu_s).and_then(|(a, b)| rate(a, b)),
            ..Second::default()
        });
    }
    seconds
}

/// CPU seconds of this thread.
fn own_cpu() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0.0, |u| {
        let s = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        s(u.user_time()) + s(u.system_time())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let pid = std::process::id();
        let before = snapshot(pid, Some(pid), Depth::ALL).unwrap();
        let kept = vec![1u8; 32 << 20];
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(60) {}
        let after = snapshot(pid, None, Depth::ALL).unwrap();
        assert!(after.cpu_s >= before.cpu_s + 0.03 && before.client_cpu_s.is_some() && after.client_cpu_s.is_none());
        assert!(after.rss > before.rss + (16 << 20) as f64, "{} of {}", after.rss, kept.len());
        assert!(after.minor_faults > before.minor_faults && after.threads >= 1.0);
        let (pages, switches) = (after.pages.unwrap(), after.switches.unwrap());
        assert!(pages.anonymous > (32 << 20) as f64 && pages.pss >= pages.anonymous);
        assert!(switches.voluntary + switches.involuntary > 0.0);
    }

    #[test]
    fn a_watch_ends_when_told_and_when_the_process_is_gone() {
        let watch = Watch::start(std::process::id(), None);
        thread::sleep(Duration::from_millis(2100));
        let (samples, cpu) = watch.end();
        assert!(samples.len() >= 3 && samples[0].1.switches.is_none() && samples[0].1.pages.is_none());
        assert!(samples[2].1.switches.is_some() && samples[2].1.pages.is_some());
        assert!(samples.windows(2).all(|w| w[0].0 < w[1].0) && cpu < 0.5);

        let mut child = std::process::Command::new("sleep").arg("0.2").spawn().unwrap();
        let watch = Watch::start(child.id(), None);
        child.wait().unwrap();
        thread::sleep(Duration::from_millis(1500));
        assert!(!watch.end().0.is_empty());
    }

    #[test]
    fn no_such_process() {
        assert!(snapshot(u32::MAX / 4, None, Depth::CHEAP).is_err());
        assert_eq!(peak(u32::MAX / 4), None);
        assert!(!forget_peak(u32::MAX / 4));
    }
}
