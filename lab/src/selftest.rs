//! The lab on trial, on the user's own machine: a heap that is bad on purpose must come out worse, and a heap against itself must not
//! come out better or worse.

use crate::analysis::{ALPHA, Question, Verdict, analyse};
use crate::bundle::{Bundle, Planned};
use crate::environment;
use crate::experiment::{Changes, Experiment};
use crate::plan::Plan;
use crate::record::{Outcome, Record};
use crate::rng::Rng;
use crate::sweep::{self, End, Progress};
use crate::target;
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const CONTROL: &str = "libevenkeel_control.so";
/// How many ways the records of one heap are dealt into two arms.
pub const SEEDS: u64 = 20;

const EXPERIMENT: &str = r#"title = "selftest: a bad heap on purpose, and glibc against itself"
[target.embedded]
mix = "point=1,range=4"
[load]
tests = ["oltp"]
warmup = 0.2
seconds = 1.0
idle = 0.0
settle_at_most = 1.0
[factors]
heap = ["glibc", "control"]
clients = [8, 64]
[heaps.control]
heap = "CONTROL"
[plan]
rounds = 6
baseline = "glibc"
"#;

/// What the lab made of its controls.
#[derive(Debug)]
pub struct Outcomes {
    /// In words: what the bad heap did.
    pub bad: String,
    pub bad_is_worse: bool,
    /// Of `SEEDS`: how often glibc against itself came out better or worse somewhere.
    pub false_alarms: u64,
    pub folder: PathBuf,
}

impl Outcomes {
    pub fn pass(&self) -> bool {
        self.bad_is_worse && self.false_alarms == 0
    }
}

/// The plan of the selftest, on this machine.
pub fn plan() -> Result<(Plan, Box<dyn target::Target>)> {
    let own = std::env::current_exe().context("cannot tell where this program lies")?;
    let control = own.ancestors().skip(1).take(2).map(|d| d.join(CONTROL)).find(|p| p.is_file());
    let control = control.ok_or_else(|| {
        wrong(format!("{CONTROL} is not beside {}; build it: cargo build --release -p control", own.display()))
    })?;
    let text = EXPERIMENT.replace("CONTROL", &control.display().to_string());
    let experiment = Experiment::read("selftest", &text)?;
    let target = target::of(&experiment)?;
    Ok((Plan::make(&text, experiment, target.as_ref())?, target))
}

pub fn run(
    plan: &Plan,
    target: &dyn target::Target,
    folder: &Path,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn Progress,
) -> Result<Outcomes> {
    let planned = Planned {
        question: plan.question.clone(),
        notes: plan.notes.clone(),
        folder: PathBuf::from("."),
        changes: Changes::default(),
        trials: plan.trials().map(|(_, t)| t.id.clone()).collect(),
    };
    let environment = environment::of(&plan.programs, plan.heaps.values());
    let mut bundle = Bundle::create(folder, &plan.text, &environment, &planned)?;
    if sweep::run(plan, target, &mut bundle, &HashSet::new(), stop, progress)? == End::Stopped {
        bail!("stopped");
    }
    let records = crate::bundle::records(folder)?;
    let (bad_is_worse, bad) = control_is_worse(&plan.question, &records);
    Ok(Outcomes { bad, bad_is_worse, false_alarms: false_alarms(&records, SEEDS), folder: folder.to_path_buf() })
}

/// Whether the control lost throughput at some client count and gained none at any.
pub fn control_is_worse(question: &Question, records: &[Record]) -> (bool, String) {
    let analysis = analyse(question, records);
    let verdicts: Vec<Verdict> = analysis
        .tests
        .iter()
        .flat_map(|t| &t.comparisons)
        .filter(|c| c.variant == "control" && c.metric.is_throughput())
        .map(|c| c.verdict)
        .collect();
    (verdicts.contains(&Verdict::Worse) && !verdicts.contains(&Verdict::Better), analysis.sentence)
}

/// Deals the rounds of glibc and its twin into two arms, in as many ways as there are seeds, and counts the ways in which the arms are
/// said to differ. One sweep may be wrong in 5 of 100 cases; here that is the chance of any alarm in all the ways together.
pub fn false_alarms(records: &[Record], seeds: u64) -> u64 {
    let of_glibc: Vec<&Record> = records
        .iter()
        .filter(|r| r.outcome == Outcome::Valid && (r.cell.heap == "glibc" || r.cell.heap == "glibc (twin)"))
        .collect();
    let mut rounds: Vec<u32> = of_glibc.iter().map(|r| r.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    let question = Question { title: "A/A".into(), baseline: Some("A".into()), margin: None, twins: Vec::new() };
    let mut alarms = 0;
    for seed in 0..seeds {
        let mut rng = Rng::seeded(seed);
        // In each round, chance says which of the two lives is A.
        let swapped: Vec<bool> = rounds.iter().map(|_| rng.below(2) == 1).collect();
        let dealt: Vec<Record> = of_glibc
            .iter()
            .map(|r| {
                let at = rounds.binary_search(&r.round).unwrap_or(0);
                let first = (r.cell.heap == "glibc") != swapped[at];
                let mut dealt = (*r).clone();
                dealt.cell.heap = if first { "A" } else { "B" }.into();
                dealt
            })
            .collect();
        let analysis = analyse(&question, &dealt);
        let differs = analysis
            .tests
            .iter()
            .flat_map(|t| &t.comparisons)
            .filter(|c| c.metric.is_throughput() && matches!(c.verdict, Verdict::Better | Verdict::Worse))
            .any(|c| c.p.is_some_and(|p| p < ALPHA / seeds as f64));
        alarms += u64::from(differs);
    }
    alarms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cell, Direction, Figures, SCHEMA};

    fn record(heap: &str, round: u32, clients: u32, tps: f64) -> Record {
        Record {
            schema: SCHEMA,
            trial: format!("{heap}-{round}-{clients}"),
            cell: Cell { test: "oltp".into(), heap: heap.into(), clients, ..Cell::default() },
            round,
            order: 0,
            direction: Direction::Up,
            started: "2026-01-01T00:00:00Z".into(),
            outcome: Outcome::Valid,
            figures: Figures { tps: Some(tps), ..Figures::default() },
            proofs: Vec::new(),
            marks: Vec::new(),
            series: Vec::new(),
            raw: Vec::new(),
            profile: None,
        }
    }

    /// 4 % of noise that is the same on every machine.
    fn noisy(rng: &mut Rng, mean: f64) -> f64 {
        let unit = |r: &mut Rng| r.below(1 << 30) as f64 / (1u64 << 30) as f64 - 0.5;
        mean * (1.0 + 0.08 * (unit(rng) + unit(rng) + unit(rng)))
    }

    fn records(twin: f64, control: f64) -> Vec<Record> {
        let mut rng = Rng::seeded(7);
        let mut all = Vec::new();
        for round in 1..=6 {
            for clients in [8, 64] {
                for (heap, factor) in [("glibc", 1.0), ("glibc (twin)", twin), ("control", control)] {
                    all.push(record(heap, round, clients, noisy(&mut rng, 1000.0 * factor)));
                }
            }
        }
        all
    }

    fn question() -> Question {
        Question {
            title: "t".into(),
            baseline: Some("glibc".into()),
            margin: None,
            twins: vec![("glibc".into(), "glibc (twin)".into())],
        }
    }

    #[test]
    fn a_control_that_loses_is_worse_and_one_that_does_not_fails_the_lab() {
        assert!(control_is_worse(&question(), &records(1.0, 0.6)).0);
        assert!(!control_is_worse(&question(), &records(1.0, 1.0)).0);
        assert!(!control_is_worse(&question(), &records(1.0, 1.5)).0);
    }

    #[test]
    fn one_heap_dealt_into_two_arms_raises_no_alarm() {
        assert_eq!(false_alarms(&records(1.0, 1.0), SEEDS), 0);
    }

    #[test]
    fn alarms_can_be_raised() {
        // Two heaps under one name: where chance deals them apart in every round, the arms do differ.
        assert!(false_alarms(&records(0.3, 1.0), 200) > 0);
    }
}
