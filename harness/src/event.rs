//! What the lab's form says on stdout: one JSON object a line, named by `event`. A program has its own `Ready`, and adds to
//! the figures what only it knows.

use crate::Failure;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<Ready, Second, Figures> {
    Ready(Ready),
    Second(Second),
    Result(Figures),
    Settled(Settled),
    Renewed(Renewed),
    Checked(Checked),
    Error { message: String },
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
    #[serde(flatten)]
    pub minutes: Option<Minutes>,
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
    /// From the start of the clients until each was ready, or had completed a transaction.
    pub connect_s: f64,
    pub transactions: u64,
    pub tps: f64,
    pub latency_ms: Latency,
    /// Transactions given up, by the store's code.
    pub errors: BTreeMap<String, u64>,
    /// Attempts that another transaction was in the way of; the transaction was tried again.
    pub retries: u64,
    pub retries_by_code: BTreeMap<String, u64>,
    pub kinds: BTreeMap<&'static str, KindFigures>,
    pub rows_read: u64,
    #[serde(flatten)]
    pub minutes: Option<Minutes>,
}

/// TPC-C's own rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Minutes {
    /// New-Orders committed.
    pub nopm: f64,
    /// Transactions of all kinds.
    pub tpm: f64,
    /// New-Orders completed, rolled back ones included.
    pub tpmc: f64,
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

impl Checked {
    /// What `broken` says, or that `judged` conditions and the clients' account hold.
    pub fn of(judged: usize, broken: &[String], account: String) -> Checked {
        let what = match (broken, judged) {
            ([], 0) => account,
            ([], judged) => format!("{judged} conditions hold; {account}"),
            (broken, _) => {
                let shown = broken[..broken.len().min(3)].join("; ");
                let more = broken.len().saturating_sub(3);
                if more > 0 { format!("{shown}; and {more} more") } else { shown }
            }
        };
        Checked { holds: broken.is_empty(), what }
    }
}

impl Figures {
    /// What a person reads.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let row = |out: &mut String, name: &str, count: u64, l: &Latency| {
            let _ = writeln!(
                out,
                "{name:<14}{count:>10}{:>10.3}{:>10.3}{:>10.3}{:>10.3}{:>10.3}{:>10.3}",
                l.mean, l.p50, l.p95, l.p99, l.p999, l.max
            );
        };
        let _ = writeln!(out, "{} clients, {:.1} s: {:.1} transactions a second", self.clients, self.seconds, self.tps);
        if let Some(Minutes { nopm, tpm, tpmc }) = self.minutes {
            let _ = writeln!(out, "NOPM {nopm:.0}, TPM {tpm:.0}, tpmC {tpmc:.0}");
        }
        let _ = writeln!(
            out,
            "{:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "latency, ms", "count", "mean", "p50", "p95", "p99", "p99.9", "max"
        );
        for (name, kind) in &self.kinds {
            row(&mut out, name, kind.count, &kind.latency_ms);
        }
        if self.kinds.len() > 1 {
            row(&mut out, "all", self.transactions, &self.latency_ms);
        }
        let _ = writeln!(out, "errors {}, retries {}", codes(&self.errors), codes(&self.retries_by_code));
        out
    }
}

fn codes(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "0".into();
    }
    counts.iter().map(|(code, count)| format!("{count} of {code}")).collect::<Vec<_>>().join(", ")
}

/// Says one event. Fails when nobody reads any more; a run then ends within a second.
pub fn tell(event: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(event).map_err(|e| Failure::Run(format!("cannot write an event: {e}")))?;
    print(&(line + "\n"))
}

pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::Run(format!("cannot write to stdout: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_what_is_broken_first() {
        let holds = Checked::of(12, &[], "3 orders".into());
        assert!(holds.holds && holds.what == "12 conditions hold; 3 orders");
        assert_eq!(Checked::of(0, &[], "5 rows".into()).what, "5 rows");
        let broken: Vec<String> = (1..=5).map(|n| n.to_string()).collect();
        let broken = Checked::of(12, &broken, "3 orders".into());
        assert!(!broken.holds && broken.what == "1; 2; 3; and 2 more");
    }
}
