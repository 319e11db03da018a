//! `bench`: runs a set of allocator workloads under the heap of this repository and under its peers, in interleaved
//! rounds, keeps every trial in a CSV file, and says for every row how the heap stands against the best peer.

mod args;
mod draw;
mod heaps;
mod machine;
mod peers;
mod record;
mod run;
mod stats;
mod table;
mod trial;
mod work;

use args::{Command, Options};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("bench: {why}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match obey(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn obey(options: &Options) -> Result<(), String> {
    match &options.command {
        Command::Help => {
            println!("{}", args::HELP);
            Ok(())
        }
        Command::List => {
            work::list();
            Ok(())
        }
        Command::Peers => peers::build_all(options.rebuild),
        Command::From(path) => {
            let results = record::read(path)?;
            table::print(&results, &options.subject);
            if options.draw {
                draw::cliff(&results, &options.subject)?;
            }
            Ok(())
        }
        Command::Run => {
            let path = run::run(options)?;
            let results = record::read(&path)?;
            table::print(&results, &options.subject);
            println!("\nraw figures: {}", machine::shown(&path));
            if options.draw {
                draw::cliff(&results, &options.subject)?;
            }
            Ok(())
        }
    }
}
