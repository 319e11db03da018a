//! The embedded target: an OLTP load on TidesDB in its own process, so that any heap can be preloaded into it.
//!
//! Everything in the process, TidesDB's C and this program's Rust, allocates with the process's malloc: no global allocator
//! is set here, and the `tidesdb` crate's heap features are off. `LD_PRELOAD` therefore decides for all of it.
//!
//! A client is a thread in a closed loop; a transaction begins, does its operations on one table of rows, and commits,
//! under snapshot isolation and without waiting for the disk. Top to bottom, a file uses only what stands below it:
//!
//! `serve`, `once` (the lab's form, a person's form) -> `run` (the clients, the window) -> `client` (a transaction) ->
//! `database` (TidesDB, prepare, settle, check) -> `directory`. `event`, `inbox`, `usage`, `keys`, `mix`, `row` are leaves.

#![forbid(unsafe_code)]

mod args;
mod client;
mod database;
mod directory;
mod event;
mod inbox;
mod keys;
mod mix;
mod once;
mod row;
mod run;
mod serve;
mod usage;

use std::process::ExitCode;

/// Why the program ends early; each kind has its exit code.
#[derive(Debug)]
pub enum Failure {
    /// The call was wrong: exit code 2.
    Use(String),
    /// The load could not be run: exit code 3.
    Run(String),
}

impl Failure {
    pub fn run(what: impl Into<String>) -> Self {
        Failure::Run(what.into())
    }
}

fn main() -> ExitCode {
    let args = args::parse();
    let ended = inbox::Inbox::open()
        .and_then(|inbox| if args.serve { serve::serve(&args, inbox) } else { once::once(&args, inbox) });
    let (code, why) = match ended {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Use(why)) => (2, why),
        Err(Failure::Run(why)) => (3, why),
    };
    eprintln!("evenkeel-embedded: {why}");
    ExitCode::from(code)
}
