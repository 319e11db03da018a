//! The doctor: looks at a process that already runs, changes nothing of it, and says what its heap costs it and what could be tried.
//!
//! Facts are read first, each kind by a module of its own: `who` (the process), `binding` (which heap is in use, from `areas` and
//! `objects`), `memory`, `arenas` (glibc's), `server` (what a database says of itself), `limits`, `activity` and `share` (a profile).
//! `advice` then judges them, and is a pure function. What may not be seen is among the facts, with what would let it be seen.

pub mod advice;
mod areas;
mod arenas;
mod binding;
pub mod facts;
mod limits;
mod memory;
mod objects;
mod reach;
mod server;
mod share;
mod who;

pub use binding::short;
pub use who::find;

use crate::heaps::Kind;
use crate::observe::{self, Depth};
use crate::profile::collect::{self, Perf};
use advice::Advice;
use anyhow::{Context, Result};
use facts::{Activity, Facts, Lacking, Profiled};
use reach::Reach;
use serde::Serialize;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// What to look at, and for how long.
#[derive(Clone, Debug)]
pub struct Ask {
    pub pid: u32,
    /// Of the profile; 0: none.
    pub seconds: f64,
    /// A file of options with a login for the server.
    pub defaults_file: Option<PathBuf>,
}

/// The facts and what follows from them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checkup {
    pub facts: Facts,
    pub advice: Vec<Advice>,
}

/// Without a profile the counters are still watched for a moment.
const GLANCE: f64 = 1.0;

pub fn look(ask: &Ask) -> Result<Checkup> {
    let login = server::login(ask.defaults_file.as_deref())?;
    let reach = Reach::new(ask.pid);
    let status = reach.text("status").with_context(|| format!("process {} has ended", ask.pid))?;
    let mut facts = Facts::default();
    facts.process = who::look(&reach, &status, &mut facts.lacking)?;
    facts.limits = limits::look(&reach, &status, &mut facts.lacking);
    if server::is_one(&facts.process.name) || ask.defaults_file.is_some() {
        facts.server = server::look(&reach, facts.process.age, &login, &mut facts.lacking);
    }
    memory_and_heap(&reach, &status, &mut facts);
    watch(ask, &mut facts)?;
    let advice = advice::of(&facts);
    Ok(Checkup { facts, advice })
}

fn memory_and_heap(reach: &Reach, status: &str, facts: &mut Facts) {
    let rollup = reach.text("smaps_rollup").ok().filter(|t| !t.is_empty());
    facts.memory = memory::read(status, rollup.as_deref());
    let mut lack = |what: &str, why: String| {
        facts.lacking.push(Lacking { what: what.into(), why, remedy: reach.remedy() });
    };
    let maps = match reach.text("smaps").or_else(|_| reach.text("maps")) {
        Ok(maps) if !maps.is_empty() => maps,
        Ok(_) => return lack("its heap", "it has no memory of its own (a thread of the kernel?)".into()),
        Err(e) => return lack("its heap, its arenas, PSS and huge pages", reach::plain(&e)),
    };
    let areas = areas::read(&maps);
    let environment = reach.text("environ").ok();
    let heaps = binding::look(reach, &areas, environment.as_deref());
    if !reach.reads_memory() {
        let why =
            "its memory may not be read; which malloc is bound is reckoned by the order in which the loader searches";
        lack("proof of the heap, and what is free in it", why.into());
    }
    if heaps.uses(Kind::Glibc) {
        let cpus = facts.limits.cpus.len();
        let ways = arenas::Ways { read: &|at| reach.word(at), resident: &|from, to| reach.resident(from, to) };
        facts.arenas = Some(arenas::look(&areas, cpus, &heaps.settings, &ways));
    }
    facts.heap = Some(heaps);
}

/// Profiles the process, and sees what its counters do meanwhile.
fn watch(ask: &Ask, facts: &mut Facts) -> Result<()> {
    let before = observe::snapshot(ask.pid, None, Depth::COUNTERS)?;
    let (pid, begun, length) = (ask.pid, Instant::now(), Duration::from_secs_f64(ask.seconds.max(GLANCE)));
    // By itself: reading a profile takes longer than taking it, and is not the process's doing.
    let after = thread::spawn(move || {
        thread::sleep(length);
        (observe::snapshot(pid, None, Depth::COUNTERS), begun.elapsed().as_secs_f64())
    });
    if ask.seconds > 0.0 {
        facts.profile = profile(ask, facts);
    }
    // It may have ended: what was seen before stands.
    let Ok((Ok(after), seconds)) = after.join() else {
        facts.lacking.push(Lacking {
            what: "what it did meanwhile".into(),
            why: "it ended while it was watched".into(),
            remedy: "look at its log".into(),
        });
        return Ok(());
    };
    let rate = |a: f64, b: f64| ((b - a) / seconds).max(0.0);
    let switches = before.switches.zip(after.switches);
    facts.activity = Some(Activity {
        seconds,
        cpus: rate(before.cpu_s, after.cpu_s),
        voluntary_switches: switches.map(|(a, b)| rate(a.voluntary, b.voluntary)),
        involuntary_switches: switches.map(|(a, b)| rate(a.involuntary, b.involuntary)),
        page_faults: rate(before.minor_faults + before.major_faults, after.minor_faults + after.major_faults),
    });
    Ok(())
}

/// None: what is lacking is said.
fn profile(ask: &Ask, facts: &mut Facts) -> Option<Profiled> {
    let remedy = match facts.process.user.as_str() {
        "root" => format!("run as root: sudo evenkeel doctor {}", ask.pid),
        user => format!("run as root (sudo evenkeel doctor {}), or as {user}", ask.pid),
    };
    let mut lack = |what: &str, why: String, remedy: String| {
        facts.lacking.push(Lacking { what: what.into(), why, remedy });
    };
    let perf = match Perf::find() {
        Ok(perf) => perf,
        Err(e) => {
            let text = e.to_string();
            let (why, how) = text.split_once("; ").unwrap_or((&text, &remedy));
            lack("a profile", why.into(), how.into());
            return None;
        }
    };
    if !perf.sees_switches() {
        let why = "switches may not be seen: the profile knows CPU, but not what threads wait for";
        lack("waits", why.into(), "run as root, or: sysctl kernel.perf_event_paranoid=-1".into());
    }
    // Stacks of a database's threads hold its data: nobody else may read them.
    let folder = std::env::temp_dir().join(format!("evenkeel-doctor-{}-{}", ask.pid, std::process::id()));
    if let Err(e) = DirBuilder::new().mode(0o700).create(&folder) {
        lack("a profile", format!("cannot make {}: {e}", folder.display()), "set TMPDIR to a folder with room".into());
        return None;
    }
    let (begun, switched) = (Instant::now(), machine_switches());
    let script = collect::live(&perf, ask.pid, Duration::from_secs_f64(ask.seconds), &folder);
    let switches = (machine_switches() - switched) / begun.elapsed().as_secs_f64();
    let _ = std::fs::remove_dir_all(&folder);
    match script {
        Ok(script) => Some(share::of(&script, ask.seconds, if perf.sees_switches() { 2 } else { 1 }, switches)),
        Err(e) => {
            lack("a profile", format!("{e:#}"), remedy);
            None
        }
    }
}

/// Switches of the whole machine since its start.
fn machine_switches() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().find_map(|l| l.strip_prefix("ctxt ")?.trim().parse().ok()).unwrap_or(0.0)
}
