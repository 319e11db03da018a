//! The profiles of one cell, added up over its rounds: what each cause costs a transaction.

use crate::analysis::{Naming, Spread};
use crate::profile::cause::{Cause, Causes};
use crate::profile::collect::{LOST, Stacks};
use crate::profile::table::Counts;
use crate::profile::{Kind, Profile};
use crate::record::{Outcome, Record};
use std::collections::{BTreeMap, HashMap};

/// One variant at one client count of one test.
#[derive(Clone, Debug, Default)]
pub struct Spot {
    pub test: String,
    pub variant: String,
    pub clients: u32,
    pub views: BTreeMap<Kind, Taken>,
    /// CPU of the load in each round, in microseconds a transaction: what it takes, a server on the same CPUs lacks.
    pub load: Vec<f64>,
    /// Why trials of this cell do not count.
    pub not_counted: Vec<String>,
}

/// All rounds of one kind of profile.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub rounds: Vec<Profile>,
    pub stacks: Vec<Stacks>,
    /// Transactions that ended while it was taken, by round.
    pub transactions: Vec<f64>,
}

/// What something costs a transaction, with a 95 % error: microseconds of CPU, switches, or microseconds away.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub value: f64,
    pub error: f64,
}

/// Rounds of microseconds differ by more than their number of samples knows.
const MOST_SPREAD: f64 = 5.0;

impl Taken {
    pub fn profiles(&self) -> Vec<&Profile> {
        self.rounds.iter().collect()
    }

    pub fn samples(&self) -> u64 {
        self.stacks.iter().map(|s| s.samples).sum()
    }

    pub fn lost_share(&self) -> f64 {
        let lost: u64 = self.stacks.iter().map(|s| s.lost).sum();
        lost as f64 / (lost + self.samples()).max(1) as f64
    }

    pub fn lost_too_much(&self) -> bool {
        self.lost_share() > LOST
    }

    pub fn nowhere_share(&self) -> f64 {
        let nowhere: u64 = self.stacks.iter().map(|s| s.nowhere).sum();
        nowhere as f64 / self.samples().max(1) as f64
    }

    /// Weight by cause, all rounds together.
    pub fn causes(&self) -> BTreeMap<Cause, u64> {
        let mut sums = BTreeMap::new();
        for profile in &self.rounds {
            for (cause, weight) in causes(profile) {
                *sums.entry(cause).or_default() += weight;
            }
        }
        sums
    }

    /// What each cause costs a transaction. `scale` makes a unit of the stacks' weights one of the cost; `events` says how many events are
    /// behind a weight, where it is not their number itself.
    fn costs(&self, scale: f64, events: Option<&BTreeMap<Cause, u64>>) -> BTreeMap<Cause, Cost> {
        let each: Vec<BTreeMap<Cause, u64>> = self.rounds.iter().map(causes).collect();
        let spread = Counts::of(&self.profiles(), &HashMap::new()).spread.min(MOST_SPREAD);
        let transactions: f64 = self.transactions.iter().sum();
        let mut costs = BTreeMap::new();
        for cause in Cause::ALL {
            let mut weight = 0.0;
            let mut samples = 0.0;
            for (by_cause, stacks) in each.iter().zip(&self.stacks) {
                let own = by_cause.get(&cause).copied().unwrap_or(0) as f64;
                weight += own * stacks.each * scale;
                samples += own;
            }
            if samples == 0.0 || transactions <= 0.0 {
                continue;
            }
            let value = weight / transactions;
            // Times away scatter about as much as they are long: their sum is as uncertain as half as many events.
            let samples = events.map_or(samples, |e| e.get(&cause).copied().unwrap_or(1) as f64 / 2.0);
            costs.insert(cause, Cost { value, error: 1.96 * spread * value / samples.sqrt() });
        }
        costs
    }
}

/// Weight by cause.
pub fn causes(profile: &Profile) -> BTreeMap<Cause, u64> {
    let causes = Causes::of(profile);
    let mut sums = BTreeMap::new();
    for (stack, weight) in profile.stacks() {
        *sums.entry(causes.cause(stack)).or_default() += weight;
    }
    sums
}

impl Spot {
    pub fn taken(&self, kind: Kind) -> Option<&Taken> {
        self.views.get(&kind).filter(|t| t.rounds.iter().any(|p| !p.is_empty()))
    }

    /// Microseconds of CPU, switches, or microseconds away a transaction, by cause.
    pub fn costs(&self, kind: Kind) -> BTreeMap<Cause, Cost> {
        let scale = if kind == Kind::Cpu { 1e6 } else { 1.0 };
        let events = if kind == Kind::OffCpu { self.taken(Kind::Switches).map(Taken::causes) } else { None };
        let mut costs = self.taken(kind).map(|t| t.costs(scale, events.as_ref())).unwrap_or_default();
        if kind == Kind::Cpu && !self.load.is_empty() {
            let value = self.load.iter().sum::<f64>() / self.load.len() as f64;
            let error = Spread::of(&self.load).map_or(0.0, |s| s.of_mean(self.load.len()).half(0.975));
            costs.insert(Cause::Load, Cost { value, error });
        }
        costs
    }

    /// The sum over causes that are not idle and not left to the scheduler.
    pub fn total(&self, kind: Kind) -> Cost {
        sum(self.costs(kind).into_iter().filter(|(c, _)| counts(kind, *c)).map(|(_, c)| c))
    }

    pub fn heap(&self, kind: Kind) -> Cost {
        sum(self.costs(kind).into_iter().filter(|(c, _)| c.is_heap()).map(|(_, c)| c))
    }

    /// The heap's share of what counts.
    pub fn heap_share(&self, kind: Kind) -> Option<f64> {
        let causes = self.taken(kind)?.causes();
        let all: u64 = causes.iter().filter(|(c, _)| counts(kind, **c)).map(|(_, w)| w).sum();
        let heap: u64 = causes.iter().filter(|(c, _)| c.is_heap()).map(|(_, w)| w).sum();
        (all > 0).then(|| heap as f64 / all as f64)
    }
}

/// A thread that rests costs nothing, and one that was preempted pays for CPU that others burn.
pub(super) fn counts(kind: Kind, cause: Cause) -> bool {
    kind == Kind::Cpu || !(cause.is_idle() || cause == Cause::Preemption)
}

pub(super) fn sum(costs: impl Iterator<Item = Cost>) -> Cost {
    costs.fold(Cost::default(), |a, b| Cost { value: a.value + b.value, error: a.error.hypot(b.error) })
}

/// From the records of profiled trials; `stacks` gives the folded stacks of a file. Rounds that do not count are named.
pub fn spots(records: &[Record], naming: &Naming, stacks: &dyn Fn(&str) -> Option<Profile>) -> Vec<Spot> {
    let mut spots: Vec<Spot> = Vec::new();
    for record in records {
        let Some(profile) = &record.profile else { continue };
        let (test, variant, clients) = (naming.test(&record.cell), naming.variant(&record.cell), record.cell.clients);
        let same = |s: &Spot| s.test == test && s.variant == variant && s.clients == clients;
        let at = spots.iter().position(same).unwrap_or_else(|| {
            spots.push(Spot { test: test.clone(), variant: variant.clone(), clients, ..Spot::default() });
            spots.len() - 1
        });
        match &record.outcome {
            Outcome::Valid => {}
            Outcome::Invalid(why) => {
                spots[at].not_counted.push(why.join("; "));
                continue;
            }
            Outcome::Failed(why) => {
                spots[at].not_counted.push(why.clone());
                continue;
            }
        }
        let tps = record.figures.tps.unwrap_or(0.0);
        if let (Some(cpu), Some(n)) = (record.figures.client_cpu_s, record.figures.transactions.filter(|n| *n > 0.0)) {
            spots[at].load.push(1e6 * cpu / n);
        }
        for of_kind in &profile.stacks {
            let Some(profile) = stacks(&of_kind.file) else { continue };
            let taken = spots[at].views.entry(of_kind.kind).or_default();
            taken.rounds.push(profile);
            taken.transactions.push(tps * of_kind.seconds);
            taken.stacks.push(of_kind.clone());
        }
    }
    spots.sort_by(|a, b| (&a.test, &a.variant, a.clients).cmp(&(&b.test, &b.variant, b.clients)));
    spots
}
