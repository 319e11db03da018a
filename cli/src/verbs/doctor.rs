//! `evenkeel doctor --machine`: what this machine can and cannot measure, and why.

use crate::Ended;
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
        println!("{}", serde_json::to_string_pretty(&findings)?);
        return Ok(Ended::Fine);
    }
    for finding in findings {
        println!("{:<5} {}: {}", finding.grade.word(), finding.what, finding.means);
    }
    Ok(Ended::Fine)
}
