//! `evenkeel why`: profiles the cells in which a sweep lost throughput, and says whether the heap is to blame. Also judges folded stacks
//! and published tables of frames from elsewhere.

use super::sweep;
use crate::Ended;
use crate::screen::{self, Bar};
use anyhow::{Context, Result};
use lab::bundle::Bundle;
use lab::experiment::{PHASE, Profile};
use lab::judge::{self, Judged};
use lab::plan::Plan;
use lab::profile::collect::{Perf, Phases};
use lab::report;
use lab::sweep::End;
use lab::target::Target;
use lab::wrong::wrong;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Say why throughput is lost: profile the cells of a sweep, and judge whether the heap is to blame
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel why results/try-20261121-101500             profiles where it loses, in rounds of their own, and judges
  evenkeel why results/try-20261121-101500 --dry-run   which cells, and how long it takes
  evenkeel why before.folded after.folded              folded stacks of any tool: what differs, and what the heap takes
  perf script -F comm,pid,tid,time,event,ip,sym,dso > out.txt; evenkeel why out.txt --svg flames.svg
  evenkeel why frames.csv                              a published table of shares by function

Profiles need perf, as root or with kernel.perf_event_paranoid below 1. They are kept in the folder; without --again they are only
judged again.")]
pub struct Args {
    /// A sweep's folder; or one to three files of folded stacks, or of what perf script printed; or a CSV table of frames
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,

    /// Rounds of profiled trials
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Seconds of each phase of a profiled trial: CPU, quiet, switches, quiet, twice over
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,

    /// Only these variants, as the report names them
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    heap: Vec<String>,

    /// Only these client counts
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    clients: Vec<u32>,

    /// Take the profiles anew
    #[arg(long)]
    again: bool,

    /// Print which cells would be profiled and how long it will take; run nothing
    #[arg(long)]
    dry_run: bool,

    /// Percentage points by which a function must differ to be shown
    #[arg(long, value_name = "POINTS", default_value_t = 1.0)]
    threshold: f64,

    /// For files of stacks: write a flamegraph here, of two files one that shows what changed
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &Args) -> Result<Ended> {
    if !PHASE.contains(&args.seconds) {
        return Err(wrong(format!("--seconds {}: say {} to {}", args.seconds, PHASE.start(), PHASE.end())));
    }
    match args.paths.as_slice() {
        [folder] if folder.is_dir() => of_sweep(args, folder),
        [table] if table.extension().is_some_and(|e| e == "csv") => of_table(args, table),
        files if files.len() <= 3 => of_stacks(args, files),
        _ => Err(wrong("more than three files cannot be compared")),
    }
}

fn of_sweep(args: &Args, folder: &Path) -> Result<Ended> {
    let judged = judge::judge(folder)?;
    if judged.why.is_none() || args.again || args.dry_run {
        let wish = Profile {
            rounds: args.rounds,
            seconds: args.seconds,
            variants: args.heap.clone(),
            clients: args.clients.clone(),
        };
        let (plan, target) = sweep::plan_again(folder)?;
        let plan = profiled(plan, &judged, &wish)?;
        if args.dry_run {
            let mut text = String::new();
            for life in plan.lives.iter().filter(|l| l.round == 1) {
                let counts: Vec<String> = life.trials.iter().map(|t| t.cell.clients.to_string()).collect();
                text += &format!("{}: clients {}\n", screen::variant(life), counts.join(" "));
            }
            screen::say(&format!("{text}{}\n", extent(&plan)))?;
            return Ok(Ended::Fine);
        }
        profile(folder, &plan, target.as_ref(), &sweep::stopped_by_signals()?, args.quiet)?;
    }
    let judged = judge::judge(folder)?;
    let page = folder.join("report.html");
    fs::write(&page, report::html(&judged.page())).with_context(|| format!("cannot write {}", page.display()))?;
    screen::say(&report::why(&judged.page(), screen::width(), screen::color()))?;
    screen::say(&format!("Report: {}\n", page.display()))?;
    Ok(Ended::Fine)
}

fn extent(plan: &Plan) -> String {
    let n = plan.trials().count();
    format!("{n} profiled {}, about {}", if n == 1 { "trial" } else { "trials" }, screen::span(plan.seconds()))
}

/// The plan of the profiles that a sweep's losses ask for.
pub fn profiled(plan: Plan, judged: &Judged, wish: &Profile) -> Result<Plan> {
    let cells = judged.to_profile(&wish.variants, &wish.clients);
    if cells.is_empty() {
        return Err(wrong("no cell of this sweep is so; the report names its variants and client counts"));
    }
    Ok(plan.profiled(&cells, wish.rounds, Phases { seconds: wish.seconds, cycles: 2 }))
}

/// Takes profiles anew; the folder is sealed whether it came to the end or not, since what was measured before is whole.
pub fn profile(folder: &Path, plan: &Plan, target: &dyn Target, stop: &Arc<AtomicBool>, quiet: bool) -> Result<()> {
    Perf::find()?;
    if !quiet {
        screen::note(&extent(plan));
    }
    let mut bundle = Bundle::open_profiles(folder, true)?;
    let mut bar = Bar::new(plan, 0, quiet);
    let ended = lab::sweep::run(plan, target, &mut bundle, &HashSet::new(), stop, &mut bar);
    bar.end();
    bundle.seal()?;
    let again = format!("evenkeel why {} --again", folder.display());
    match ended.with_context(|| format!("the profiles broke off; take them anew with `{again}`"))? {
        End::Whole => Ok(()),
        End::Stopped => anyhow::bail!("stopped; take the profiles anew with `{again}`"),
    }
}

fn of_table(args: &Args, table: &Path) -> Result<Ended> {
    let text = fs::read_to_string(table).map_err(|e| wrong(format!("{}: {e}", table.display())))?;
    let sheet = lab::why::read_sheet(&table.display().to_string(), &text)?;
    screen::say(&report::frames(&sheet, args.threshold / 100.0, screen::width(), screen::color()))?;
    Ok(Ended::Fine)
}

fn of_stacks(args: &Args, files: &[PathBuf]) -> Result<Ended> {
    let read = |file: &PathBuf| -> Result<(String, lab::profile::Profile)> {
        let name = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|e| wrong(format!("{name}: {e}")))?;
        let short = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((short, lab::profile::read(&name, &text)?))
    };
    let profiles = files.iter().map(read).collect::<Result<Vec<_>>>()?;
    if let Some(file) = &args.svg {
        let svg = report::flame_svg(&profiles).context("there is nothing to draw")?;
        fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))?;
    }
    screen::say(&report::stacks(&profiles, args.threshold / 100.0, screen::width(), screen::color()))?;
    Ok(Ended::Fine)
}
