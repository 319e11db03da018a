//! The embedded target: an OLTP load on TidesDB in its own process, so that any heap can be preloaded into it.
//!
//! Everything in the process, TidesDB's C and this program's Rust, allocates with the process's malloc: no global allocator
//! is set here, and the `tidesdb` crate's heap features are off. `LD_PRELOAD` therefore decides for all of it.
//!
//! There are two tests: `oltp`, one table of rows, and `tpcc`, the same TPC-C that the driver does in SQL. In both a client
//! is a thread in a closed loop, under snapshot isolation and without waiting for the disk. Top to bottom, a file uses only
//! what stands below it:
//!
//! `serve`, `once` (the lab's form, a person's form) -> `run` (the clients, the window) -> `client` (a transaction) ->
//! `database` (the table, prepare, check) -> `store` (TidesDB) -> `directory`, `keep`. `tpc` stands beside `client` with the same
//! floors of its own. `event`, `keys`, `mix`, `row` are leaves. The crate `harness` has what the driver needs as well.

#![forbid(unsafe_code)]

mod args;
mod client;
mod database;
mod directory;
mod event;
mod keep;
mod keys;
mod mix;
mod once;
mod row;
mod run;
mod serve;
mod store;
mod tpc;

use args::Test;
use harness::inbox::Inbox;
use std::process::ExitCode;

pub use harness::Failure;

fn main() -> ExitCode {
    let args = args::parse();
    let ended = Inbox::open().and_then(|inbox| match (args.test, args.serve) {
        (Test::Oltp, true) => serve::serve(&args, inbox),
        (Test::Oltp, false) => once::once(&args, inbox),
        (Test::Tpcc, true) => tpc::serve(&args, inbox),
        (Test::Tpcc, false) => tpc::once(&args, inbox),
    });
    let (code, why) = match ended {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Use(why)) => (2, why),
        Err(Failure::Run(why) | Failure::Broken(why)) => (3, why),
    };
    eprintln!("evenkeel-embedded: {why}");
    ExitCode::from(code)
}
