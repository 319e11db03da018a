//! What was found out about a process, as plain data. Each part is filled by the module of its name; what could not be seen is None, and
//! `lacking` says why and what would let it be seen. Bytes, seconds and fractions, unless a name says otherwise.

use crate::heaps::Kind;
use crate::profile::cause::Cause;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    pub process: Process,
    pub heap: Option<Heaps>,
    pub memory: Option<Memory>,
    /// Where glibc's heap is in use.
    pub arenas: Option<Arenas>,
    pub server: Option<Server>,
    pub limits: Limits,
    pub activity: Option<Activity>,
    pub profile: Option<Profiled>,
    pub lacking: Vec<Lacking>,
}

/// Something that could not be seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lacking {
    pub what: String,
    pub why: String,
    /// What to do about it, in words; with the command where there is one.
    pub remedy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Process {
    pub pid: u32,
    pub name: String,
    /// None: not ours to see.
    pub program: Option<String>,
    /// The program's file was replaced or removed since it started.
    pub replaced: bool,
    pub user: String,
    pub age: f64,
    pub threads: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heaps {
    /// Every heap in the process, the one that the program uses first.
    pub found: Vec<Heap>,
    /// Objects whose use of malloc is known by what the loader wrote into them; the others by the order in which it searches.
    pub read: usize,
    pub reckoned: usize,
    /// LD_PRELOAD as it was at the start: a hint, no proof.
    pub preload: Option<String>,
    /// Settings of heaps in the environment at the start.
    pub settings: BTreeMap<String, String>,
    /// Libraries whose files were replaced or removed since they were loaded.
    pub replaced: Vec<String>,
    /// Objects that could not be read.
    pub unread: Vec<String>,
}

impl Heaps {
    pub fn of_program(&self) -> Option<&Heap> {
        self.found.iter().find(|h| h.by_program)
    }

    pub fn in_use(&self) -> impl Iterator<Item = &Heap> {
        self.found.iter().filter(|h| h.in_use())
    }

    pub fn uses(&self, kind: Kind) -> bool {
        self.in_use().any(|h| h.kind == kind)
    }
}

/// A heap in a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Heap {
    pub kind: Kind,
    pub name: String,
    pub version: Option<String>,
    /// The object that holds it.
    pub object: String,
    /// How it was recognised.
    pub how: String,
    /// The program itself takes its memory from it.
    pub by_program: bool,
    /// Libraries that do.
    pub users: Vec<String>,
    /// Linked into its object for that object's own use.
    pub linked_in: bool,
}

impl Heap {
    pub fn in_use(&self) -> bool {
        self.by_program || self.linked_in || !self.users.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    pub rss: f64,
    pub peak: Option<f64>,
    pub anonymous: f64,
    pub swap: f64,
    /// The rest needs the right to look into the process.
    pub pss: Option<f64>,
    pub lazy_free: Option<f64>,
    pub huge: Option<f64>,
}

/// glibc's arenas: the main one grows by brk, the others live in heaps of 64 MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Arenas {
    /// With the main one.
    pub count: usize,
    /// Whether the count was read from the arenas themselves; else it is that of their heaps, of which an arena may have several.
    pub exact: bool,
    /// Heaps of the arenas but the main one, and their bytes.
    pub heaps: usize,
    /// Address space that they reserve.
    pub reserved: f64,
    /// Of it, what may be touched.
    pub mapped: f64,
    pub resident: f64,
    /// Of the main arena, as far as it is one piece at the break.
    pub main_mapped: f64,
    pub main_resident: f64,
    /// The most arenas that glibc makes here, and why.
    pub most: Option<u64>,
    pub most_why: String,
    /// Bytes that lie free in the arenas, caches of threads not counted.
    pub free: Option<f64>,
    /// Of it, at the tops of arenas.
    pub top: Option<f64>,
    /// Of it, whole pages that are in memory.
    pub pages: Option<f64>,
    /// Of these, what malloc_trim would give back now: it leaves the tops of all arenas but the main one.
    pub trimmable: Option<f64>,
}

/// What a database server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Server {
    pub version: String,
    pub socket: String,
    pub heap_by_its_word: Option<String>,
    /// What it counts as used: its caches as they are configured, whatever they hold.
    pub memory_used: Option<f64>,
    /// Caches by name: as configured, and what they hold now where that is known.
    pub caches: Vec<Cache>,
    pub connections: Option<f64>,
    pub connections_most: Option<f64>,
    pub connections_limit: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cache {
    pub name: String,
    pub configured: f64,
    pub holds: Option<f64>,
    /// Part of what the server counts as used.
    pub counted: bool,
}

impl Server {
    /// What it would have in memory by its own words: all it counts, but of each cache only what that holds. None where it does not
    /// count.
    pub fn resident(&self) -> Option<f64> {
        let counted: f64 = self.caches.iter().filter(|c| c.counted).map(|c| c.configured).sum();
        let beyond = (self.memory_used? - counted).max(0.0);
        Some(beyond + self.caches.iter().map(|c| c.holds.unwrap_or(c.configured)).sum::<f64>())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    pub files: Option<f64>,
    pub files_most: Option<f64>,
    pub tasks_most: Option<f64>,
    /// Of the tightest group that holds it.
    pub group_memory: Option<f64>,
    pub group_memory_most: Option<f64>,
    /// CPUs' worth of time that its group may take.
    pub group_cpus: Option<f64>,
    pub oom_score: Option<i64>,
    pub oom_score_adjustment: Option<i64>,
    pub cpus: Vec<usize>,
    pub cpus_here: usize,
    pub nodes: usize,
    /// `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// False: the process has none, whatever the machine allows.
    pub huge_pages_of_process: Option<bool>,
    pub sockets: Option<usize>,
}

/// What the process did while it was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Activity {
    pub seconds: f64,
    /// CPUs' worth of time.
    pub cpus: f64,
    /// A second.
    pub voluntary_switches: Option<f64>,
    pub involuntary_switches: Option<f64>,
    pub page_faults: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profiled {
    pub seconds: f64,
    /// CPU and waits one after the other; or CPU alone.
    pub phases: u32,
    pub samples: u64,
    /// Events that perf lost, those of other processes with them, and about how many there were on the whole machine.
    pub lost: u64,
    pub events: f64,
    /// Samples whose stack does not reach the start of a thread.
    pub nowhere: u64,
    pub cpu: Side,
    /// None where switches could not be seen.
    pub waits: Option<Side>,
    /// CPU and waits together.
    pub both: Part,
    /// Page faults that the program takes on memory that it got, as a share of CPU: some of them are the heap's doing.
    pub faults: f64,
}

/// CPU, or waits: threads at rest and threads that only wait for a CPU are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    pub samples: u64,
    /// Of threads, a second.
    pub seconds: f64,
    pub heap: Part,
    /// Shares, the largest first.
    pub causes: Vec<(Cause, f64)>,
}

/// A share and its 95 % error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Part {
    pub share: f64,
    pub error: f64,
}

impl Part {
    /// As much as the samples allow.
    pub fn at_most(self) -> f64 {
        (self.share + self.error).min(1.0)
    }
}
