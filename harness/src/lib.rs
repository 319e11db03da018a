//! What the load programs have in common, so that the lab talks to both in one way and their figures mean one thing: the
//! lab's commands and events, the signals, what is counted in a window and what the process has used.
//!
//! Top to bottom, a file uses only what stands below it: `serve` -> `tally`, `loading` -> `event`,
//! `inbox`, `usage`.

#![forbid(unsafe_code)]

pub mod event;
pub mod inbox;
pub mod loading;
pub mod serve;
pub mod tally;
pub mod usage;

/// Why a program ends early; each kind has its exit code.
#[derive(Debug)]
pub enum Failure {
    /// A check did not hold.
    Broken(String),
    /// The call was wrong.
    Use(String),
    /// The load could not be run.
    Run(String),
}

impl Failure {
    pub fn run(what: impl Into<String>) -> Self {
        Failure::Run(what.into())
    }

    pub fn what(self) -> String {
        let (Failure::Broken(what) | Failure::Use(what) | Failure::Run(what)) = self;
        what
    }
}

/// How much of TPC-C's data is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Depth {
    /// Nothing
    None,
    /// Totals: conditions 1 to 4, 8 and 9
    Quick,
    /// Row by row too: conditions 5 to 7, 10 and 12
    Full,
}
