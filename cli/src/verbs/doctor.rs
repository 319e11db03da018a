//! `evenkeel doctor --machine`: what this machine can and cannot measure, and why.

use crate::{Ended, screen};
use anyhow::Result;
use lab::machine;

/// Say what this machine can and cannot measure, and why
#[derive(clap::Args)]
#[command(after_help = "Example:\n  evenkeel doctor --machine")]
pub struct Args {
    /// Look at the machine
    #[arg(long, required = true)]
    machine: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<Ended> {
    debug_assert!(args.machine);
    let findings = machine::findings();
    if args.json {
        screen::say(&(serde_json::to_string_pretty(&findings)? + "\n"))?;
        return Ok(Ended::Fine);
    }
    let lines = findings.iter().map(|f| format!("{:<5} {}: {}\n", f.grade.word(), f.what, f.means));
    screen::say(&lines.collect::<String>())?;
    Ok(Ended::Fine)
}
