//! What the embedded loads add to the events that every load has. `docs/embedded.md` tells what each figure means.

use harness::event::Latency;
use harness::usage::Usage;
use serde::Serialize;
use std::collections::BTreeMap;

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
    #[serde(flatten)]
    pub usage: Usage,
}

/// TPC-C is ready.
#[derive(Debug, Serialize)]
pub struct TpccReady {
    pub tidesdb: &'static str,
    pub pid: u32,
    pub test: &'static str,
    pub engine: &'static str,
    pub warehouses: u32,
    /// Whether the tables have the standard's size.
    pub standard: bool,
    pub rows: u64,
    pub paced: bool,
    pub checks: &'static str,
    /// Whether an earlier process has loaded the tables.
    pub kept: bool,
    pub seed: u64,
    pub write_buffer_mib: u32,
    pub cache_mib: u32,
    pub isolation: &'static str,
    pub durability: &'static str,
    /// Making and checking the tables.
    pub prepare_s: f64,
}

/// What was counted in a window of TPC-C.
#[derive(Debug, Serialize)]
pub struct TpccFigures {
    #[serde(flatten)]
    pub counted: harness::event::Figures,
    /// Seconds of all threads together.
    pub stalls_s: BTreeMap<&'static str, f64>,
    #[serde(flatten)]
    pub usage: Usage,
    /// The most memory the process has had so far; 0 where /proc does not say.
    pub peak_rss_bytes: u64,
}
