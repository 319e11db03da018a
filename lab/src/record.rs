//! What a trial left: one line of `records.jsonl`. Everything behind it (analysis, report, verify) reads nothing else of
//! a trial, so that a record can be judged on another machine, years later.
//!
//! A figure that was not measured is `None`, never 0. Sizes are in bytes, times in the unit of the name.

use crate::profile::collect::Profiled;
use serde::{Deserialize, Serialize};

pub const SCHEMA: u32 = 1;

/// One combination of variants. A factor that an experiment does not vary has the same value in every record.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cell {
    pub test: String,
    pub heap: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub engine: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpus: String,
    pub clients: u32,
}

/// What tells the name of a variant's second self from its own.
const TWIN: &str = " (twin)";

/// The name of the second self of a variant, which is measured to learn how much two of the same differ.
pub fn twin(value: &str) -> String {
    format!("{value}{TWIN}")
}

fn plain(value: &str) -> &str {
    value.strip_suffix(TWIN).unwrap_or(value)
}

impl Cell {
    /// What the cell asks for: a twin asks for what its original does.
    pub fn plain(&self) -> Cell {
        let mut cell = self.clone();
        for factor in Factor::ALL {
            let value = factor.of_mut(&mut cell);
            value.truncate(plain(value).len());
        }
        cell
    }
}

/// What may be varied besides the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    Heap,
    Server,
    Config,
    Engine,
    Cpus,
}

impl Factor {
    pub const ALL: [Factor; 5] = [Factor::Heap, Factor::Server, Factor::Config, Factor::Engine, Factor::Cpus];

    pub fn of(self, cell: &Cell) -> &str {
        match self {
            Factor::Heap => &cell.heap,
            Factor::Server => &cell.server,
            Factor::Config => &cell.config,
            Factor::Engine => &cell.engine,
            Factor::Cpus => &cell.cpus,
        }
    }

    pub fn of_mut(self, cell: &mut Cell) -> &mut String {
        match self {
            Factor::Heap => &mut cell.heap,
            Factor::Server => &mut cell.server,
            Factor::Config => &mut cell.config,
            Factor::Engine => &mut cell.engine,
            Factor::Cpus => &mut cell.cpus,
        }
    }

    /// Which factors have more than one value.
    pub fn varying<'a>(cells: impl IntoIterator<Item = &'a Cell> + Clone) -> Vec<Factor> {
        let varies = |f: &Factor| {
            let mut values = cells.clone().into_iter().map(|c| f.of(c));
            values.next().is_some_and(|first| values.any(|v| v != first))
        };
        Factor::ALL.into_iter().filter(varies).collect()
    }

    /// Which factor is compared: the one that the baseline is a value of, by its name or in words, else the first that varies.
    pub fn compared<'a>(cells: impl IntoIterator<Item = &'a Cell> + Clone, baseline: Option<&str>) -> Option<Factor> {
        let varying = Factor::varying(cells.clone());
        let named = |f: &&Factor| {
            let value = |c| f.of(c);
            cells.clone().into_iter().map(value).any(|v| baseline.is_some_and(|b| b == v || b == f.in_words(v)))
        };
        varying.iter().find(named).or(varying.first()).copied()
    }

    /// A value as a person would name it.
    pub fn in_words(self, value: &str) -> String {
        match self {
            Factor::Heap if value.is_empty() => "no heap named".into(),
            _ if value.is_empty() => "default".into(),
            Factor::Cpus if plain(value).bytes().all(|b| b.is_ascii_digit() || b",-".contains(&b)) => {
                format!("cpus {value}")
            }
            _ => value.into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub schema: u32,
    /// SHA-256 over what was asked for (cell, load, round, binaries): the same trial asked again has the same name.
    pub trial: String,
    pub cell: Cell,
    pub round: u32,
    /// Place in the order in which the sweep ran its trials.
    pub order: u32,
    pub direction: Direction,
    /// UTC, RFC 3339.
    pub started: String,
    pub outcome: Outcome,
    #[serde(default)]
    pub figures: Figures,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<Proof>,
    /// What the reader should know and what does not make the trial invalid: "the client was saturated".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Second>,
    /// Paths of raw output, relative to the sweep's folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw: Vec<String>,
    /// Of a profiled trial, whose figures count nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profiled>,
}

/// Whether the server's life in which the trial ran walked its client counts up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Up,
    Down,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "is", content = "why")]
pub enum Outcome {
    Valid,
    /// It ran, but a proof failed: the figures do not belong to the cell.
    Invalid(Vec<String>),
    /// It did not run to its end.
    Failed(String),
}

/// What had to hold before the figures count: the heap that bound, the server's version, its variables, the CPU masks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    pub what: String,
    pub wanted: String,
    pub found: String,
    pub holds: bool,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The figures of the measured window (rates, times, counts) and of the memory around it.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Figures {
            $($(#[$doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $name: Option<f64>,)*
        }
    };
}

figures! {
    /// Transactions per second, from the target's own counters inside the window in which every client is connected.
    tps,
    /// Length of that window.
    seconds,
    transactions,
    /// What the load generator itself printed.
    tps_reported,
    latency_mean_ms,
    latency_p50_ms,
    latency_p95_ms,
    latency_p99_ms,
    latency_p999_ms,
    errors,
    retries,
    server_cpu_s,
    client_cpu_s,
    voluntary_switches,
    involuntary_switches,
    minor_faults,
    major_faults,
    /// Before the first client of this life of the server.
    rss_start,
    /// At the end of the window.
    rss_loaded,
    pss_loaded,
    anonymous_loaded,
    lazyfree_loaded,
    /// Highest seen during the trial.
    rss_peak,
    /// A while after the last client left.
    rss_idle,
    /// What the server thinks it uses (MariaDB's `Memory_used`).
    server_says_used,
    /// Steps of a fixed computation per microsecond, next to the trial; compare within a sweep only.
    host_speed,
    /// CPU time that the lab itself took while it watched.
    watcher_cpu_s,
    /// TPROC-C: new orders and all transactions per minute, and the latencies of its three quoted kinds.
    nopm,
    tpm,
    neworder_mean_ms,
    neworder_p95_ms,
    payment_mean_ms,
    payment_p95_ms,
    delivery_mean_ms,
    delivery_p95_ms,
}

/// What was seen in one second of the trial, counted from its start; warm-up has negative times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    pub at: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tps: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lazyfree: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor_faults: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_says_used: Option<f64>,
}
