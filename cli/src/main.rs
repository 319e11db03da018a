//! The command `evenkeel`: thin. Each verb is a file in `verbs/` that reads its options, calls the lab and prints.
//!
//! Exit codes, for scripts: 0 fine; 1 a verdict that `--fail-on` asked to fail on, or a folder that does not verify; 2 wrong use;
//! 3 the run could not be done.

#![forbid(unsafe_code)]

mod screen;
mod verbs;

use clap::{CommandFactory, Parser, Subcommand};
use lab::wrong::Wrong;
use std::process::ExitCode;

/// What a verb ends with when nothing went wrong.
pub enum Ended {
    Fine,
    /// The answer is one that the person asked to fail on.
    Fails,
}

#[derive(Parser)]
#[command(name = "evenkeel", version, max_term_width = 100, arg_required_else_help = true)]
/// Runs a real database under every heap on this machine, finds where throughput falls, and says which heap it should run on
#[command(
    after_help = "Exit codes: 0 fine, 1 a verdict that --fail-on asked to fail on (or a folder that does not verify), 2 wrong use, \
3 the run could not be done.\n\nBegin with: evenkeel sweep experiments/try.toml"
)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Sweep(verbs::sweep::Args),
    Report(verbs::report::Args),
    Why(verbs::why::Args),
    Verify(verbs::verify::Args),
    Import(verbs::import::Args),
    Heaps(verbs::heaps::Args),
    FetchServer(verbs::fetch_server::Args),
    Run(verbs::run::Args),
    Doctor(verbs::doctor::Args),
    Selftest(verbs::selftest::Args),
    Completions(verbs::words::CompletionsArgs),
    Man(verbs::words::ManArgs),
}

pub fn command() -> clap::Command {
    Cli::command()
}

fn main() -> ExitCode {
    let ended = match Cli::parse().verb {
        Verb::Sweep(args) => verbs::sweep::run(&args),
        Verb::Report(args) => verbs::report::run(&args),
        Verb::Why(args) => verbs::why::run(&args),
        Verb::Verify(args) => verbs::verify::run(&args),
        Verb::Import(args) => verbs::import::run(&args),
        Verb::FetchServer(args) => verbs::fetch_server::run(&args),
        Verb::Heaps(args) => verbs::heaps::run(&args),
        Verb::Run(args) => verbs::run::run(&args),
        Verb::Doctor(args) => verbs::doctor::run(&args),
        Verb::Selftest(args) => verbs::selftest::run(&args),
        Verb::Completions(args) => verbs::words::completions(&args),
        Verb::Man(args) => verbs::words::man(&args),
    };
    match ended {
        Ok(Ended::Fine) => ExitCode::SUCCESS,
        Ok(Ended::Fails) => ExitCode::from(1),
        Err(error) => {
            screen::note(&format!("evenkeel: {error:#}"));
            ExitCode::from(if error.downcast_ref::<Wrong>().is_some() { 2 } else { 3 })
        }
    }
}
