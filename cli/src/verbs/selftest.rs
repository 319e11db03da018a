//! `evenkeel selftest`: whether this lab can be trusted on this machine.

use crate::Ended;
use crate::screen::{self, Bar};
use anyhow::{Context, Result};
use lab::selftest::{self, SEEDS};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Try the lab on this machine: a heap that is bad on purpose must come out worse, glibc against glibc must not differ
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  evenkeel selftest\n  evenkeel selftest --out results/selftest\n\nTakes about a minute. Exit code 1 if a control fails."
)]
pub struct Args {
    /// Keep the records in this new folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &Args) -> Result<Ended> {
    let (plan, target) = selftest::plan()?;
    let kept = std::env::temp_dir().join(format!("evenkeel-selftest-{}", std::process::id()));
    let folder = args.out.as_ref().unwrap_or(&kept);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot take signals")?;
    }
    let mut bar = Bar::new(&plan, 0, args.quiet);
    let outcomes = selftest::run(&plan, target.as_ref(), folder, &stop, &mut bar);
    bar.end();
    if args.out.is_none() {
        let _ = std::fs::remove_dir_all(&kept);
    }
    let outcomes = outcomes?;
    let word = |good: bool| if good { "pass" } else { "FAIL" };
    screen::say(&format!(
        "{}  a bad heap on purpose must be worse: {}\n\
         {}  glibc against itself must not differ: {} of {SEEDS} ways to deal its rounds into two arms raised an alarm\n",
        word(outcomes.bad_is_worse),
        outcomes.bad,
        word(outcomes.false_alarms == 0),
        outcomes.false_alarms
    ))?;
    Ok(if outcomes.pass() { Ended::Fine } else { Ended::Fails })
}
