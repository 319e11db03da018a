//! The driver: TPC-C and sysbench's OLTP tests over the MySQL protocol, thousands of clients in one process.
//!
//! A client is a future on one socket, not a thread: a few threads with an epoll loop each carry all of them, so that what
//! is measured is the server. Top to bottom, a file uses only what stands below it:
//!
//! `serve`, `once` (the lab's form, a person's form) -> `bench` (a test on a server) -> `run` (the clients, the window) ->
//! `client` (a client's life) -> `oltp`, `tpc` (the tests) -> `control`, `bulk` (asking, loading) -> `wire` (the
//! protocol) -> `reactor` (the loop). `event` is a leaf. The crate `harness` has what the embedded load needs as well.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod bulk;
mod client;
mod control;
mod event;
mod oltp;
mod once;
mod reactor;
mod run;
mod serve;
mod tpc;
mod wire;

use args::{Args, Running, TestName, Verb};
use bench::Bench;
use harness::event::{Checked, print};
use harness::inbox::Inbox;
use run::Wish;
use std::process::ExitCode;
use tpcc::check::Age;

pub use harness::Failure;

fn main() -> ExitCode {
    let args = args::parse();
    let (code, why) = match Inbox::open().and_then(|inbox| act(args, inbox)) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Broken(why)) => (1, why),
        Err(Failure::Use(why)) => (2, why),
        Err(Failure::Run(why)) => (3, why),
    };
    eprintln!("evenkeel-driver: {why}");
    ExitCode::from(code)
}

fn act(args: Args, mut inbox: Inbox) -> Result<(), Failure> {
    let still = Running { procedures: false, paced: false, threads: None };
    match args.verb {
        Verb::Prepare { common, making } => {
            if !bench::prepare(&common, &making, &mut inbox)? {
                return Err(Failure::run("stopped by a signal; the tables are not whole"));
            }
            said(Bench::open(&common, &still)?.check(Age::Fresh)?)
        }
        Verb::Run { common, running, clients, seconds, warmup, rate, most, json } => {
            if running.procedures && common.test != TestName::Tpcc {
                return Err(Failure::Use("--procedures is for --test tpcc".into()));
            }
            let bench = Bench::open(&common, &running)?;
            let wish = |clients| Wish { clients, warmup_s: warmup, seconds, seed: common.seed, rate, most };
            once::once(bench, clients.into_iter().map(wish).collect(), json, inbox)
        }
        Verb::Check { common } => said(Bench::open(&common, &still)?.check(Age::Used)?),
        Verb::Serve { common, running, making, prepare } => serve::serve(&common, &running, &making, prepare, inbox),
    }
}

fn said(checked: Checked) -> Result<(), Failure> {
    if checked.holds { print(&format!("{}\n", checked.what)) } else { Err(Failure::Broken(checked.what)) }
}
