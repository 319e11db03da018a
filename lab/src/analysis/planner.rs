//! What a number of rounds can tell apart: before a sweep, from the noise of the machine; after it, from what it found.

use serde::{Deserialize, Serialize};
use statrs::distribution::ContinuousCDF;

use super::Question;
use super::compare::{ALPHA, Judge};
use super::noise::{Spread, normal};
use super::table::{Group, Table};
use super::words::{percent, span};
use crate::record::Record;

/// The chance with which a sweep should find what is there.
const POWER: f64 = 0.8;
/// More rounds than this are no advice.
const MOST_ROUNDS: u32 = 1_000;

/// A sweep as far as its power goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// How far one measurement scatters, as a fraction: 0.04 for a coefficient of variation of 4 %.
    pub noise: f64,
    /// Other than the baseline.
    pub variants: u32,
    pub client_counts: u32,
    pub rounds: u32,
    /// Of one trial with all that belongs to it: start, warm-up, window, idle.
    pub seconds_a_trial: f64,
    /// Trials of one round, over all tests.
    pub trials_a_round: u32,
}

impl Sweep {
    /// The smallest loss that is found with a chance of 80 %, as a fraction. None without rounds to compare.
    pub fn detectable(&self) -> Option<f64> {
        let comparisons = f64::from((self.variants * self.client_counts).max(1));
        let spread = Spread { variance: 2.0 * self.noise.powi(2), df: comparisons * (f64::from(self.rounds) - 1.0) };
        if spread.df <= 0.0 {
            return None;
        }
        let quantiles = spread.t(1.0 - ALPHA / 2.0 / comparisons) + spread.t(POWER);
        Some(-(-quantiles * spread.sd() / f64::from(self.rounds).sqrt()).exp_m1())
    }

    /// The fewest rounds that find a loss of `fraction` with a chance of 80 %.
    pub fn rounds_for(&self, fraction: f64) -> Option<u32> {
        let finds = |rounds: u32| Sweep { rounds, ..*self }.detectable().is_some_and(|d| d <= fraction);
        fewest(2, finds)
    }

    pub fn seconds(&self, rounds: u32) -> f64 {
        f64::from(rounds) * f64::from(self.trials_a_round) * self.seconds_a_trial
    }

    /// What a person should know before spending the time. `matters`: a difference that they care for.
    pub fn outlook(&self, matters: f64) -> String {
        let rounds = |n: u32| if n == 1 { "1 round".to_string() } else { format!("{n} rounds") };
        let now = match self.detectable() {
            Some(d) => format!(
                "{} ({}) find a loss of {} or more, at a noise of {}",
                rounds(self.rounds),
                span(self.seconds(self.rounds)),
                percent(d),
                percent(self.noise)
            ),
            None => "One round finds no loss with known certainty".to_string(),
        };
        match self.rounds_for(matters) {
            Some(n) if n <= self.rounds => format!("{now}."),
            Some(n) => format!("{now}; {} needs {} ({}).", percent(matters), rounds(n), span(self.seconds(n))),
            None => format!("{now}; {} cannot be found here in {MOST_ROUNDS} rounds.", percent(matters)),
        }
    }
}

/// How far one measurement of throughput scatters in these records, as a fraction: from A/A pairs, else from rounds.
pub fn noise(question: &Question, records: &[Record]) -> Option<f64> {
    let asked = Question { margin: None, ..question.clone() };
    let table = Table::of(&asked, records);
    let of_group = |g: &Group| Judge::of(g, g.throughput(), &asked)?.one_measurement();
    table.groups.iter().filter_map(of_group).map(Spread::sd).reduce(f64::max)
}

/// How many more rounds decide with a chance of 80 %, if the noise stays: they move the estimate, by as much as its error
/// allows, and shrink the error. `margin` and `middle` are logarithms, `family` the comparisons that share `ALPHA`.
pub(super) fn more_rounds(middle: f64, error: Spread, rounds: u32, margin: f64, family: usize) -> Option<u32> {
    let before = f64::from(rounds);
    let variance = error.variance * before;
    let chance = |more: u32| {
        let after = before + f64::from(more);
        let then = Spread { variance: variance / after, df: error.df * after / before };
        let differs = then.half(1.0 - ALPHA / 2.0 / family as f64);
        let level = margin - then.half(1.0 - ALPHA);
        let moves = (variance * f64::from(more) / (before * after)).sqrt();
        let below = |x: f64| normal().cdf((x - middle) / moves);
        let between = |x: f64| if x > 0.0 { below(x) - below(-x) } else { 0.0 };
        if level >= differs { 1.0 } else { 1.0 - between(differs) + between(level) }
    };
    fewest(1, |more| chance(more) >= POWER)
}

/// The smallest number from `least` on that is enough, where all larger are enough too.
fn fewest(least: u32, enough: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (least, least);
    while !enough(high) {
        if high >= MOST_ROUNDS {
            return None;
        }
        low = high + 1;
        high = (high * 2).min(MOST_ROUNDS);
    }
    while low < high {
        let half = u32::midpoint(low, high);
        if enough(half) { high = half } else { low = half + 1 }
    }
    Some(high)
}
