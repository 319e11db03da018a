//! What the driver adds to the events that every load has; `docs/driver.md` says what each figure means.

use harness::event::Second;
use harness::usage::Usage;
use serde::Serialize;

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

/// What a run tells before its result.
pub enum Told {
    Begun(Begun),
    Second(Second),
}

/// Every client is connected, has its statements prepared, and begins.
#[derive(Debug, Serialize)]
pub struct Begun {
    pub event: &'static str,
    pub clients: u32,
    pub connect_s: f64,
}

/// What was counted from the start of the window to its end.
#[derive(Debug, Serialize)]
pub struct Figures {
    #[serde(flatten)]
    pub counted: harness::event::Figures,
    /// Statements answered, those of retries too.
    pub statements: u64,
    /// Transactions for each second that were asked for; none in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Of this process, the driver; the server's is not in it.
    #[serde(flatten)]
    pub usage: Usage,
    /// Rank of the clients' threads: below 0 they come before the server's.
    pub nice: i32,
    /// The most memory the driver has had so far; 0 where /proc does not say.
    pub peak_rss_bytes: u64,
}
