//! What the program tells: one JSON object a line, named by `event`, as the embedded load does; `docs/driver.md` says what
//! each figure means.

use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    Ready(Box<Ready>),
    Second(Box<Second>),
    Result(Box<Figures>),
    Settled(Settled),
    Renewed(Renewed),
    Checked(Checked),
    Error { message: String },
}

#[derive(Debug, Serialize)]
pub struct Ready {
    pub driver: &'static str,
    /// What the server answers to `SELECT VERSION()`.
    pub server: String,
    pub pid: u32,
    pub test: String,
    /// Engine of the tables.
    pub engine: String,
    pub isolation: String,
    /// Rows of all tables together.
    pub rows: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warehouses: Option<u32>,
    /// Whether the tables have the standard's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procedures: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paced: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// Threads that the clients share.
    pub threads: u32,
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
    pub p99_ms: f64,
    pub errors: BTreeMap<String, u64>,
    pub retries: u64,
    /// CPU time of this process.
    pub cpu_s: f64,
    pub kinds: BTreeMap<&'static str, KindSecond>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nopm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpmc: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct KindSecond {
    pub count: u64,
    pub mean_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

/// What was counted from the start of the window to its end.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub clients: u32,
    pub seconds: f64,
    /// From the start of the clients until each was connected and had its statements prepared.
    pub connect_s: f64,
    pub transactions: u64,
    pub tps: f64,
    pub latency_ms: Latency,
    /// Transactions given up, by the server's code.
    pub errors: BTreeMap<String, u64>,
    /// Attempts that a deadlock or its like ended; the transaction was tried again.
    pub retries: u64,
    pub retries_by_code: BTreeMap<String, u64>,
    pub kinds: BTreeMap<&'static str, KindFigures>,
    /// Statements answered, those of retries too.
    pub statements: u64,
    pub rows_read: u64,
    /// Transactions for each second that were asked for; none in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nopm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpmc: Option<f64>,
    /// Of this process, the driver; the server's is not in it.
    pub cpu_s: f64,
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
    pub minor_faults: i64,
    pub major_faults: i64,
    /// Rank of the clients' threads: below 0 they come before the server's.
    pub nice: i32,
    /// The most memory the driver has had so far.
    pub peak_rss_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct KindFigures {
    pub count: u64,
    /// Of these, those that the test itself takes back (one New-Order in a hundred).
    pub rolled_back: u64,
    pub latency_ms: Latency,
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
