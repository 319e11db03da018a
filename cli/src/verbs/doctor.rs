//! `evenkeel doctor PID`: looks at a server that runs. `evenkeel doctor --machine`: what this machine can and cannot measure, and why.

use super::sweep;
use crate::{Ended, screen};
use anyhow::Result;
use lab::wrong::wrong;
use lab::{doctor, machine, report};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Look at a server that runs, and say which heap it has, what that costs it, and what could be tried
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel doctor 1234                      a process; pidof mariadbd says its number
  evenkeel doctor mariadb                   a service of systemd
  evenkeel doctor 1234 --seconds 60         a longer profile: smaller errors
  evenkeel doctor 1234 --seconds 0          no profile
  evenkeel doctor 1234 --defaults-file ~/.my.cnf   log in as the [client] of this file
  evenkeel doctor 1234 --json               everything as data
  evenkeel doctor --machine                 what this machine can measure

Nothing of the process is changed, and it is neither stopped nor attached to. As root it sees most; what it could not see it says,
with what would let it. Profiles need perf. docs/doctor.md explains every line.")]
pub struct Args {
    /// A process by its number, or a service by its name
    #[arg(value_name = "PID|SERVICE", required_unless_present = "machine", conflicts_with = "machine")]
    process: Option<String>,

    /// Seconds of the profile, half for CPU and half for waits; 0: none
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,

    /// Log in to a MariaDB or MySQL server with what this file of options says under [client]
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,

    /// Look at the machine instead
    #[arg(long)]
    machine: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<Ended> {
    match &args.process {
        Some(process) => of_process(args, process),
        None => of_machine(args),
    }
}

fn of_process(args: &Args, process: &str) -> Result<Ended> {
    if args.seconds != 0.0 && !(0.2..=600.0).contains(&args.seconds) {
        return Err(wrong(format!("--seconds {}: say 0, or 0.2 to 600", args.seconds)));
    }
    let ask =
        doctor::Ask { pid: doctor::find(process)?, seconds: args.seconds, defaults_file: args.defaults_file.clone() };
    // Taken, so that what perf wrote goes with us: stacks of a database hold its data.
    let stop = sweep::stopped_by_signals()?;
    let checkup = doctor::look(&ask)?;
    if stop.load(Ordering::Relaxed) {
        anyhow::bail!("stopped");
    }
    let text = if args.json {
        serde_json::to_string_pretty(&checkup)? + "\n"
    } else {
        report::doctor(&checkup, screen::width(), screen::color())
    };
    screen::say(&text)?;
    Ok(Ended::Fine)
}

fn of_machine(args: &Args) -> Result<Ended> {
    let findings = machine::findings();
    if args.json {
        screen::say(&(serde_json::to_string_pretty(&findings)? + "\n"))?;
        return Ok(Ended::Fine);
    }
    let lines = findings.iter().map(|f| format!("{:<5} {}: {}\n", f.grade.word(), f.what, f.means));
    screen::say(&lines.collect::<String>())?;
    Ok(Ended::Fine)
}
