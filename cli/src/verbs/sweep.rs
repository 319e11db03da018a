//! `evenkeel sweep`: runs an experiment, and ends with the verdict.

use super::report::{FailOn, fails};
use super::why;
use crate::Ended;
use crate::screen::{self, Bar};
use anyhow::{Context, Result};
use lab::bundle::{self, Bundle, Planned};
use lab::experiment::{Changes, Experiment};
use lab::plan::Plan;
use lab::profile::collect::Perf;
use lab::sweep::End;
use lab::wrong::wrong;
use lab::{environment, judge, report, target};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

/// Run an experiment: every cell in every round, with proofs, and a verdict at the end
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel sweep experiments/try.toml
  evenkeel sweep experiments/mariadb-quick.toml --dry-run
  evenkeel sweep experiments/segment-heap.toml --scale 0.05 --out results/small
  evenkeel sweep --resume results/try-20261121-101500

Ctrl-C ends the trial under way and keeps all others; --resume goes on. A killed sweep loses at most the trial under way.")]
pub struct Args {
    /// The experiment's TOML file
    #[arg(value_name = "FILE", required_unless_present = "resume", conflicts_with = "resume")]
    experiment: Option<PathBuf>,

    /// Go on with the sweep in this folder
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,

    /// Folder for the results [default: results/NAME-DATE-TIME]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,

    /// Print the plan, its trials and how long it will take; run nothing
    #[arg(long)]
    dry_run: bool,

    /// Multiply rows and seconds, for machines smaller than the published ones; the report says so
    #[arg(long, value_name = "FACTOR", conflicts_with = "resume")]
    scale: Option<f64>,

    /// Rounds instead of the experiment's
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    rounds: Option<u32>,

    /// Seed of the order instead of the experiment's
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    seed: Option<u64>,

    /// Heaps instead of the experiment's: names, paths of libraries, or all
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with = "resume")]
    heap: Vec<String>,

    /// Client counts instead of the experiment's
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "resume")]
    clients: Vec<u32>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    /// End with exit code 1 on such a verdict
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    fail_on: Vec<FailOn>,
}

pub fn run(args: &Args) -> Result<Ended> {
    match (&args.resume, &args.experiment) {
        (Some(folder), _) => resume(args, folder),
        (None, Some(file)) => begin(args, file),
        (None, None) => Err(wrong("name an experiment, or a folder with --resume")),
    }
}

fn begin(args: &Args, file: &Path) -> Result<Ended> {
    let there = file.display();
    let text = fs::read_to_string(file).map_err(|e| {
        wrong(if file.join(bundle::PLAN).is_file() {
            format!("{there} is the folder of a sweep; go on with `evenkeel sweep --resume {there}`")
        } else {
            format!("{there}: {e}; name an experiment's TOML file, as experiments/try.toml")
        })
    })?;
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let changes = Changes {
        scale: args.scale,
        rounds: args.rounds,
        seed: args.seed,
        heaps: args.heap.clone(),
        clients: args.clients.clone(),
    };
    let (plan, target) = plan(&file.display().to_string(), &text, &changes, &folder)?;
    let out = args.out.clone().unwrap_or_else(|| {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        PathBuf::from(format!("results/{stem}-{}", stamp()))
    });
    let outlook = outlook(&plan, out.parent().unwrap_or(Path::new(".")));
    if args.dry_run {
        screen::say(&format!("{}\n{outlook}\n", words(&plan)))?;
        return Ok(Ended::Fine);
    }
    if !args.quiet {
        screen::note(&outlook);
    }
    let planned = Planned {
        question: plan.question.clone(),
        notes: plan.notes.clone(),
        folder,
        changes,
        trials: plan.trials().map(|(_, t)| t.id.clone()).collect(),
    };
    let environment = environment::of(&plan.programs, plan.heaps.values());
    if plan.experiment.profile.is_some() {
        // Not after an hour of trials.
        Perf::find()?;
    }
    let bundle = Bundle::create(&out, &text, &environment, &planned)?;
    bundle.keep(&planned.folder, &plan.experiment.files())?;
    sweep(args, &plan, target.as_ref(), bundle, &HashSet::new())
}

/// The plan of a folder again, on this machine; an error if the machine is not what it was.
pub fn plan_again(folder: &Path) -> Result<(Plan, Box<dyn target::Target>)> {
    let planned = bundle::planned(folder)?;
    let text = bundle::experiment(folder)?;
    let name = folder.join(bundle::EXPERIMENT).display().to_string();
    let (plan, target) = plan(&name, &text, &planned.changes, &planned.folder)?;
    let names: Vec<String> = plan.trials().map(|(_, t)| t.id.clone()).collect();
    if names != planned.trials {
        let before = bundle::environment(folder);
        let changed: Vec<String> = plan
            .programs
            .iter()
            .filter(|(p, hash)| {
                let path = p.path.display().to_string();
                before["programs"]
                    .as_array()
                    .is_some_and(|all| !all.iter().any(|b| b["path"] == path.as_str() && b["sha256"] == hash.as_str()))
            })
            .map(|(p, _)| p.path.display().to_string())
            .collect();
        let changed = if changed.is_empty() { "heaps came or went".to_string() } else { changed.join(", ") };
        return Err(wrong(format!(
            "{}: the machine is not what it was when this sweep began ({changed}); begin a new one",
            folder.display()
        )));
    }
    Ok((plan, target))
}

fn resume(args: &Args, folder: &Path) -> Result<Ended> {
    let (plan, target) = plan_again(folder)?;
    if args.dry_run {
        screen::say(&words(&plan))?;
        return Ok(Ended::Fine);
    }
    let bundle = Bundle::open(folder)?;
    let done = bundle::records(folder)?.into_iter().map(|r| r.trial).collect();
    sweep(args, &plan, target.as_ref(), bundle, &done)
}

fn plan(name: &str, text: &str, changes: &Changes, folder: &Path) -> Result<(Plan, Box<dyn target::Target>)> {
    let (experiment, notes) = Experiment::read(name, text)?.within(folder).changed(changes)?;
    let target = target::of(&experiment)?;
    let mut plan = Plan::make(text, experiment, target.as_ref())?;
    plan.notes.splice(0..0, notes);
    Ok((plan, target))
}

fn sweep(
    args: &Args,
    plan: &Plan,
    target: &dyn target::Target,
    mut bundle: Bundle,
    done: &HashSet<String>,
) -> Result<Ended> {
    let stop = stopped_by_signals()?;
    let folder = bundle.path.clone();
    if !args.quiet {
        screen::note(&format!(
            "{} trials, about {}; results in {}",
            plan.trials().count(),
            screen::span(plan.seconds()),
            folder.display()
        ));
    }
    let mut bar = Bar::new(plan, done.len(), args.quiet);
    let ended = lab::sweep::run(plan, target, &mut bundle, done, &stop, &mut bar);
    bar.end();
    match ended
        .with_context(|| format!("the sweep broke off; go on with `evenkeel sweep --resume {}`", folder.display()))?
    {
        End::Stopped => {
            anyhow::bail!("stopped; go on with `evenkeel sweep --resume {}`", folder.display())
        }
        End::Whole => {}
    }
    drop(bundle);
    let mut judged = judge::judge(&folder)?;
    if let Some(wish) = &plan.experiment.profile {
        let (again, target) = plan_again(&folder)?;
        why::profile(&folder, &why::profiled(again, &judged, wish)?, target.as_ref(), &stop, args.quiet)?;
        judged = judge::judge(&folder)?;
    }
    let page = folder.join("report.html");
    fs::write(&page, report::html(&judged.page())).with_context(|| format!("cannot write {}", page.display()))?;
    screen::say(&report::terminal(&judged.page(), screen::width(), screen::color()))?;
    screen::say(&format!("Report: {}\n", page.display()))?;
    Ok(fails(&args.fail_on, &judged))
}

/// A flag that Ctrl-C and its like set.
pub fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A second one does not wait.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .context("cannot take signals")?;
    }
    Ok(stop)
}

/// What this plan can tell apart on this machine, as far as earlier sweeps in `results` know it.
fn outlook(plan: &Plan, results: &Path) -> String {
    /// A difference that most people care for.
    const MATTERS: f64 = 0.05;
    match judge::known_noise(results, &plan.experiment) {
        Some((folder, noise)) => {
            format!("By {} on this machine: {}", folder.display(), plan.sweep(noise).outlook(MATTERS))
        }
        None => {
            let found = |noise: f64| plan.sweep(noise).detectable();
            let cases: Vec<String> = [0.02, 0.05, 0.10]
                .into_iter()
                .filter_map(|noise| Some(format!("at {:.0} % {:.0} %", 100.0 * noise, 100.0 * found(noise)?)))
                .collect();
            match cases.as_slice() {
                [] => "One round finds no loss with known certainty; ask for more with --rounds.".into(),
                cases => format!(
                    "How far measurements scatter here is not known yet. The smallest loss that {} rounds find: {}.",
                    plan.rounds(),
                    cases.join(", ")
                ),
            }
        }
    }
}

/// The plan in words, for `--dry-run`.
fn words(plan: &Plan) -> String {
    let mut text = format!("{}\n\n", plan.experiment.title);
    text += "heaps\n";
    for (name, heap) in &plan.heaps {
        let path = heap.path.as_ref().map_or_else(|| "no preload".to_string(), |p| p.display().to_string());
        let env: Vec<String> = heap.env.iter().map(|(k, v)| format!(" {k}={v}")).collect();
        text += &format!("  {name:<16} {:<14} {path}{}\n", heap.version, env.concat());
    }
    text += "\nprograms\n";
    for (program, hash) in plan.programs.iter().filter(|(p, _)| !p.what.starts_with("heap ")) {
        text += &format!("  {:<16} {} {}\n", program.what, &hash[..12], program.path.display());
    }
    text += &format!("\ntrials, in order (seed {})\n", plan.experiment.plan.seed);
    for life in &plan.lives {
        let counts: Vec<String> = life.trials.iter().map(|t| t.cell.clients.to_string()).collect();
        let cell = &life.cell;
        let parts = [&cell.test, &cell.heap, &cell.server, &cell.engine, &cell.config, &cell.cpus];
        let variant: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).map(String::as_str).collect();
        text += &format!("  round {}: {}: clients {}\n", life.round, variant.join(", "), counts.join(" "));
    }
    let trials = plan.trials().count();
    text += &format!(
        "\n{trials} trials in {} lives of a server, about {}\n",
        plan.lives.len(),
        screen::span(plan.seconds())
    );
    for note in &plan.notes {
        text += &format!("{note}\n");
    }
    text
}

/// `20261121-101500`, UTC.
fn stamp() -> String {
    let text = lab::time::rfc3339(SystemTime::now());
    text.chars().filter(|c| c.is_ascii_digit() || *c == 'T').map(|c| if c == 'T' { '-' } else { c }).take(15).collect()
}
