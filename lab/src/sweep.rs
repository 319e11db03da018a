//! A sweep: runs a plan on this host, life by life, and appends a record for every trial.
//!
//! - What a trial left is on the disk before the next begins. Whatever goes wrong with a server is a record, and the sweep goes on with
//!   a new life; only what concerns the sweep itself (a full disk, a person's Ctrl-C) ends it, in a state that can be resumed.
//! - While it runs, the file `scratch` names the folder of its servers, so that a resumed sweep can end what outlived a killed lab.

use crate::bundle::{Bundle, RAW, STACKS};
use crate::heaps::Heap;
use crate::observe;
use crate::placement;
use crate::plan::{Life, Plan, Trial};
use crate::profile::collect::{Collector, Perf, Profiled};
use crate::proof;
use crate::record::{Cell, Figures, Outcome, Proof, Record, SCHEMA};
use crate::target::{Ask, Measured, Server, Setting, Target};
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Who is told how far it is.
pub trait Progress {
    fn starts(&mut self, life: &Life);
    fn runs(&mut self, life: &Life, trial: &Trial);
    fn done(&mut self, record: &Record);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Whole,
    /// Someone asked for it; `--resume` goes on.
    Stopped,
}

pub fn run(
    plan: &Plan,
    target: &dyn Target,
    bundle: &mut Bundle,
    done: &HashSet<String>,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn Progress,
) -> Result<End> {
    end_what_outlived(&bundle.path, plan)?;
    let scratch = Scratch::make(&bundle.path)?;
    let perf = plan.phases.map(|_| Perf::find()).transpose()?;
    let mut sweep =
        Sweep { plan, target, bundle, scratch: &scratch.path, stop, perf, bound: BTreeMap::new(), lives: 0 };
    for life in &plan.lives {
        let mut left: Vec<&Trial> = life.trials.iter().filter(|t| !done.contains(&t.id)).collect();
        // A server that dies takes one trial with it; the others get a new one.
        while !left.is_empty() {
            if stop.load(SeqCst) {
                return Ok(End::Stopped);
            }
            progress.starts(life);
            let went = sweep.live(life, &left, progress)?;
            left.drain(..went);
        }
    }
    if stop.load(SeqCst) {
        return Ok(End::Stopped);
    }
    drop(scratch);
    bundle.seal()?;
    Ok(End::Whole)
}

struct Sweep<'a> {
    plan: &'a Plan,
    target: &'a dyn Target,
    bundle: &'a mut Bundle,
    scratch: &'a Path,
    stop: &'a Arc<AtomicBool>,
    /// For a plan of profiles.
    perf: Option<Perf>,
    /// Proofs of probe starts, by what they depend on.
    bound: BTreeMap<Cell, Vec<Proof>>,
    lives: u32,
}

impl Sweep<'_> {
    /// Runs one life over `trials`, and says how many of them have a record now: all, unless the server failed or someone said
    /// stop.
    fn live(&mut self, life: &Life, trials: &[&Trial], progress: &mut dyn Progress) -> Result<usize> {
        self.lives += 1;
        let dir = self.scratch.join(format!("life-{}", self.lives));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let store = self.scratch.join("store");
        fs::create_dir_all(&store).with_context(|| format!("cannot make {}", store.display()))?;
        let wish = &self.plan.experiment.placement;
        let cell = life.cell.plain();
        let sides = placement::sides(wish.server.as_deref(), wish.client.as_deref(), &cell.cpus)?;
        let setting = Setting {
            cell: &cell,
            heap: &self.plan.heaps[&cell.heap],
            cpus: sides.server.as_deref(),
            client_cpus: sides.client.as_deref(),
            dir: &dir,
            store: &store,
            most_clients: life.trials.iter().map(|t| t.cell.clients).max().unwrap_or(1),
            seed: self.plan.experiment.plan.seed,
        };
        let went = self.live_in(&setting, life, trials, progress);
        let _ = fs::remove_dir_all(&dir);
        went
    }

    fn live_in(
        &mut self,
        setting: &Setting,
        life: &Life,
        trials: &[&Trial],
        progress: &mut dyn Progress,
    ) -> Result<usize> {
        let started = self.bindings(setting).and_then(|bound| {
            let mut server = self.target.start(setting)?;
            let mut proofs = bound;
            proofs.extend(server.proofs()?);
            Ok((server, proofs))
        });
        let (server, mut proofs) = match started {
            Ok(started) => started,
            Err(_) if self.stop.load(SeqCst) => return Ok(trials.len()),
            Err(why) if disk_is_full(&why) => return Err(why),
            Err(why) => {
                // Without a server, none of the trials can run.
                for trial in trials {
                    let record = failed(life, trial, now(), &format!("the server did not start: {why:#}"));
                    self.bundle.append(&record)?;
                    progress.done(&record);
                }
                return Ok(trials.len());
            }
        };
        let pid = server.pid();
        proofs.extend(proof::of_cpus("CPUs of the server", setting.cpus, pid));
        let rss_start = observe::snapshot(pid, None, observe::Depth::CHEAP).ok().map(|s| s.rss);
        let mut server = Some(server);
        let mut written: Vec<Record> = Vec::new();
        for (i, trial) in trials.iter().enumerate() {
            if self.stop.load(SeqCst) {
                return Ok(trials.len());
            }
            progress.runs(life, trial);
            let begun = now();
            let Some(running) = server.as_mut() else { break };
            let measured = self.trial(running.as_mut(), trial);
            if self.stop.load(SeqCst) {
                return Ok(trials.len());
            }
            let record = match measured {
                Ok((mut measured, profile)) => {
                    measured.figures.rss_start = rss_start;
                    let mut of_trial = proofs.clone();
                    of_trial.push(proof::of_maps(setting.heap, pid, &self.others()));
                    of_trial.append(&mut measured.proofs);
                    let last = i + 1 == trials.len();
                    if last && let Some(server) = server.take() {
                        let at_end = server.stop().unwrap_or_else(|why| vec![not_in_order(&why)]);
                        self.doubt(&written, &at_end)?;
                        of_trial.extend(at_end);
                    }
                    Record { profile, ..self.record(life, trial, begun, measured, of_trial) }
                }
                Err(why) if disk_is_full(&why) => return Err(why),
                Err(why) => failed(life, trial, begun, &format!("{why:#}")),
            };
            self.bundle.append(&record)?;
            progress.done(&record);
            if matches!(record.outcome, Outcome::Failed(_)) {
                return Ok(i + 1);
            }
            written.push(record);
        }
        Ok(trials.len())
    }

    /// What does not hold at the end of a life (its data are not whole) takes all its trials with it.
    fn doubt(&mut self, written: &[Record], at_end: &[Proof]) -> Result<()> {
        let broken: Vec<&Proof> = at_end.iter().filter(|p| !p.holds).collect();
        for record in written.iter().filter(|_| !broken.is_empty()) {
            let mut reasons = match &record.outcome {
                Outcome::Invalid(reasons) => reasons.clone(),
                _ => Vec::new(),
            };
            reasons.extend(broken.iter().map(|p| in_words(p)));
            let proofs = record.proofs.iter().chain(at_end).cloned().collect();
            self.bundle.append(&Record { outcome: Outcome::Invalid(reasons), proofs, ..record.clone() })?;
        }
        Ok(())
    }

    fn trial(&self, server: &mut dyn Server, trial: &Trial) -> Result<(Measured, Option<Profiled>)> {
        let load = &self.plan.experiment.load;
        let pid = server.pid();
        let stopper = Stopper::watch(self.stop, pid);
        let mut marks = Vec::new();
        if load.settle_at_most > 0.0 && !server.settle(Duration::from_secs_f64(load.settle_at_most))? {
            marks.push(format!("not quiet after {} s", load.settle_at_most));
        }
        let speed = host_speed();
        if !observe::forget_peak(pid) {
            marks.push("peak memory is that of the server's whole life".to_string());
        }
        let raw = self.bundle.path.join(RAW).join(&trial.id);
        let collector = self.perf.as_ref().zip(self.plan.phases).map(|(perf, phases)| {
            Collector::start(perf, pid, phases, &self.scratch.join(format!("perf-{}", trial.order)))
        });
        let opener = collector.as_ref().map(Collector::opener);
        let opened = || {
            if let Some(opener) = &opener {
                // A collector that ended has failed, and says so at its end.
                let _ = opener.send(Instant::now());
            }
        };
        let measured = server.measure(&Ask {
            clients: trial.cell.clients,
            warmup: Duration::from_secs_f64(load.warmup),
            window: Duration::from_secs_f64(load.seconds),
            seed: self.plan.experiment.plan.seed ^ u64::from(trial.order),
            raw: &raw,
            opened: &opened,
        });
        drop(opener);
        let stacks = self.bundle.path.join(STACKS);
        let profile = collector.map(|c| c.finish(&self.bundle.path, &stacks.join(&trial.id)));
        let mut measured = measured?;
        let profile = profile.transpose()?;
        let figures = &mut measured.figures;
        figures.host_speed = Some(speed);
        figures.rss_peak = observe::peak(pid);
        figures.server_says_used = figures.server_says_used.or_else(|| server.says_used());
        self.rest(Duration::from_secs_f64(load.idle));
        figures.rss_idle = observe::snapshot(pid, None, observe::Depth::CHEAP).ok().map(|s| s.rss);
        measured.marks.append(&mut marks);
        drop(stopper);
        Ok((measured, profile))
    }

    /// Sleeps, unless someone says stop.
    fn rest(&self, length: Duration) {
        let end = Instant::now() + length;
        while !self.stop.load(SeqCst) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(GLANCE));
        }
    }

    fn record(&self, life: &Life, trial: &Trial, begun: SystemTime, measured: Measured, proofs: Vec<Proof>) -> Record {
        let broken: Vec<String> = proofs.iter().filter(|p| !p.holds).map(in_words).collect();
        let inside = |p: &PathBuf| p.strip_prefix(&self.bundle.path).unwrap_or(p).display().to_string();
        Record {
            outcome: if broken.is_empty() { Outcome::Valid } else { Outcome::Invalid(broken) },
            figures: measured.figures,
            proofs,
            marks: measured.marks,
            series: measured.series,
            raw: measured.raw.iter().map(inside).collect(),
            ..blank(life, trial, begun)
        }
    }

    /// The proofs of a probe start, made once for what they depend on.
    fn bindings(&mut self, setting: &Setting) -> Result<Vec<Proof>> {
        let key = Cell { test: String::new(), cpus: String::new(), ..setting.cell.clone() };
        if let Some(known) = self.bound.get(&key) {
            return Ok(known.clone());
        }
        let proofs = self.target.bindings(setting)?;
        self.bound.insert(key, proofs.clone());
        Ok(proofs)
    }

    fn others(&self) -> Vec<Heap> {
        self.plan.heaps.values().cloned().collect()
    }
}

fn in_words(proof: &Proof) -> String {
    format!("{}: wanted {}, found {}", proof.what, proof.wanted, proof.found)
}

fn not_in_order(why: &anyhow::Error) -> Proof {
    Proof { what: "end of the server".into(), wanted: "in order".into(), found: format!("{why:#}"), holds: false }
}

fn blank(life: &Life, trial: &Trial, begun: SystemTime) -> Record {
    Record {
        schema: SCHEMA,
        trial: trial.id.clone(),
        cell: trial.cell.clone(),
        round: life.round,
        order: trial.order,
        direction: life.direction,
        started: crate::time::rfc3339(begun),
        outcome: Outcome::Valid,
        figures: Figures::default(),
        proofs: Vec::new(),
        marks: Vec::new(),
        series: Vec::new(),
        raw: Vec::new(),
        profile: None,
    }
}

fn failed(life: &Life, trial: &Trial, begun: SystemTime, why: &str) -> Record {
    Record { outcome: Outcome::Failed(why.into()), ..blank(life, trial, begun) }
}

/// The lab's own writing failed for want of room: nothing that could be said of the server, and no trial after this one could be kept.
fn disk_is_full(why: &anyhow::Error) -> bool {
    why.chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

fn now() -> SystemTime {
    SystemTime::now()
}

/// Steps of a fixed computation per microsecond, the best of three: the host's own speed at this moment.
fn host_speed() -> f64 {
    const STEPS: u64 = 1_000_000;
    let once = || {
        let begun = Instant::now();
        let mut rng = crate::rng::Rng::seeded(1);
        let sum = (0..STEPS).fold(0u64, |s, _| s ^ rng.draw());
        std::hint::black_box(sum);
        STEPS as f64 / begun.elapsed().as_secs_f64() / 1e6
    };
    once().max(once()).max(once())
}

/// How often a wait looks whether someone said stop.
const GLANCE: Duration = Duration::from_millis(20);

/// Kills the server of a trial that nobody waits for any more; without this a Ctrl-C would wait for the end of the window.
struct Stopper(Arc<AtomicBool>);

impl Stopper {
    fn watch(stop: &Arc<AtomicBool>, pid: u32) -> Stopper {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, ended) = (stop.clone(), over.clone());
        thread::spawn(move || {
            while !ended.load(SeqCst) {
                if stop.load(SeqCst) {
                    let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
                    return;
                }
                thread::sleep(GLANCE);
            }
        });
        Stopper(over)
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A folder for servers' data, which goes when the sweep ends, and the note of it in the sweep's folder. Its path is short: sockets
/// allow 107 bytes.
struct Scratch {
    path: PathBuf,
    note: PathBuf,
}

const NOTE: &str = "scratch";
const STEM: &str = "evenkeel-";

impl Scratch {
    fn make(folder: &Path) -> Result<Scratch> {
        let note = folder.join(NOTE);
        let mut path = std::env::temp_dir().join(format!("{STEM}{}", std::process::id()));
        let mut n = 0;
        loop {
            // What another process with this number left, or uses in another container, is not ours.
            while path.exists() {
                n += 1;
                path.set_file_name(format!("{STEM}{}-{n}", std::process::id()));
            }
            fs::write(&note, path.display().to_string()).with_context(|| format!("cannot write {}", note.display()))?;
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Scratch { path, note }),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).with_context(|| format!("cannot make {}", path.display())),
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(&self.note);
    }
}

/// A lab that was killed leaves its server and the server's data behind.
fn end_what_outlived(folder: &Path, plan: &Plan) -> Result<()> {
    let note = folder.join(NOTE);
    let Ok(text) = fs::read_to_string(&note) else { return Ok(()) };
    let scratch = PathBuf::from(text);
    // Only what a sweep made.
    let named = scratch.file_name().is_some_and(|n| n.to_string_lossy().starts_with(STEM));
    if named && scratch.parent() == Some(&std::env::temp_dir()) && scratch.is_dir() {
        for process in procfs::process::all_processes().context("cannot list the processes")?.flatten() {
            if works_in(&process, &scratch, plan) {
                end(&process);
            }
        }
        fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    }
    fs::remove_file(&note).with_context(|| format!("cannot remove {}", note.display()))
}

/// Whether it is a program of the plan that was told to work in this folder.
fn works_in(process: &procfs::process::Process, scratch: &Path, plan: &Plan) -> bool {
    let Ok(exe) = process.exe() else { return false };
    let ours = plan.programs.iter().any(|(p, _)| p.path.canonicalize().is_ok_and(|path| path == exe));
    let inside = format!("{}/", scratch.display());
    ours && process.cmdline().is_ok_and(|words| words.iter().any(|w| w.contains(&inside)))
}

/// Kills it and waits until it is gone, or until only its parent can do something about it.
fn end(process: &procfs::process::Process) {
    let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
    for _ in 0..500 {
        if process.stat().map_or(true, |s| s.state == 'Z') {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
