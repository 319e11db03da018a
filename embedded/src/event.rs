//! What the lab's form says on stdout: one JSON object a line, named by `event`. `docs/embedded.md` tells what each figure
//! means.

use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    Ready(Ready),
    Second(Second),
    Result(Box<Figures>),
    Settled(Settled),
    Renewed(Renewed),
    Checked(Checked),
    Error { message: String },
}

#[derive(Debug, Serialize)]
pub struct Ready {
    pub tidesdb: &'static str,
    pub pid: u32,
    pub rows: u64,
    pub value_bytes: u32,
    pub distribution: String,
    pub writes: String,
    pub mix: String,
    pub range_rows: u64,
    pub result_kib: u32,
    pub seed: u64,
    pub write_buffer_mib: u32,
    pub cache_mib: u32,
    pub isolation: &'static str,
    pub durability: &'static str,
    pub prepare_s: f64,
}

/// One second of the window, or the part that is left at its end.
#[derive(Debug, Serialize)]
pub struct Second {
    /// End of this second, from the start of the window.
    pub at: f64,
    pub seconds: f64,
    pub clients: u32,
    pub tps: f64,
}

/// What was counted from the start of the window to its end.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub clients: u32,
    pub seconds: f64,
    /// From the start of the clients until each had completed a transaction.
    pub connect_s: f64,
    pub transactions: u64,
    pub tps: f64,
    pub latency_ms: Latency,
    pub errors: BTreeMap<String, u64>,
    pub retries: u64,
    pub operations: BTreeMap<&'static str, u64>,
    pub rows_read: u64,
    pub not_found: u64,
    /// Seconds of all threads together.
    pub stalls_s: BTreeMap<&'static str, f64>,
    pub cpu_s: f64,
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
    pub minor_faults: i64,
    pub major_faults: i64,
}

#[derive(Debug, Serialize)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

#[derive(Debug, Serialize)]
pub struct Settled {
    pub waited_s: f64,
    /// False when the time ran out first.
    pub quiet: bool,
}

#[derive(Debug, Serialize)]
pub struct Renewed {
    pub prepare_s: f64,
}

#[derive(Debug, Serialize)]
pub struct Checked {
    pub holds: bool,
    pub what: String,
}
