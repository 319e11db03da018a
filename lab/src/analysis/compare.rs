//! A variant against the baseline, client count by client count: better, worse, equivalent or undecided.

use std::collections::BTreeMap;

use super::noise::{Pool, Spread, along_clients, company};
use super::planner::more_rounds;
use super::table::{Group, Values};
use super::{Comparison, DEFAULT_MARGIN, Estimate, Margin, MarginSource, Metric, Question, Verdict};

/// The chance of calling a difference that is none, over all comparisons of one metric and test together.
pub const ALPHA: f64 = 0.05;
/// A margin that comes from noise lies between these: nothing smaller matters to anyone, and no noise excuses calling a
/// larger difference none.
const LEAST_MARGIN: f64 = 0.01;
const MOST_MARGIN: f64 = 0.10;

/// One metric of one test, with all that is known of its noise.
pub(super) struct Judge<'a> {
    pub metric: Metric,
    group: &'a Group<'a>,
    logs: Values,
    noise: Noise,
    pub margin: Margin,
}

struct Noise {
    /// Of differences within a round, by baseline; of single rounds; of single rounds where no cell has two.
    within: Vec<Option<Pool>>,
    between: Option<Pool>,
    once: Option<Spread>,
}

/// The logarithm of variant / baseline, with its standard error.
#[derive(Clone, Copy)]
struct Difference {
    variant: usize,
    client: usize,
    middle: f64,
    rounds: usize,
    /// Of `middle`; None where nothing is known of the noise.
    error: Option<Spread>,
}

impl<'a> Judge<'a> {
    /// None if no record of the group holds the metric.
    pub fn of(group: &'a Group<'a>, metric: Metric, question: &Question) -> Option<Judge<'a>> {
        let logs = group.logs(metric, None);
        if logs.iter().flatten().all(BTreeMap::is_empty) {
            return None;
        }
        let cells: Vec<Spread> = logs.iter().flatten().filter_map(|cell| Spread::of(&rounds_of(cell))).collect();
        let twins = twin_differences(group, &logs, &question.twins);
        let within = |base: usize| {
            let differences = differences_from(&logs, base);
            let spreads = differences.iter().flatten().filter_map(|cell| Spread::of(&rounds_of(cell)));
            Pool::of(&spreads.collect::<Vec<_>>(), logs.len() - 1, company(&differences))
        };
        let within = (0..logs.len()).map(within).collect();
        let once = match twins.len() {
            0..3 => along_clients(&logs, &group.clients),
            n => Some(Spread { variance: mean_square(&twins) / 2.0, df: n as f64 }),
        };
        let noise = Noise { within, between: Pool::of(&cells, 1, company(&logs)), once };
        let margin = margin(metric, question, &twins, &noise);
        Some(Judge { metric, group, logs, noise, margin })
    }

    pub fn logs(&self) -> &Values {
        &self.logs
    }

    /// What is known of the scatter of a cell's rounds.
    pub fn spread(&self, variant: usize, client: usize) -> Option<Spread> {
        Some(self.noise.between?.spread(Spread::of(&rounds_of(&self.logs[variant][client]))))
    }

    /// The scatter of one measurement in a cell like most.
    pub fn one_measurement(&self) -> Option<Spread> {
        self.noise.between.map(|pool| pool.typical())
    }

    /// Every other variant against `base`, wherever both were measured.
    pub fn against(&self, base: usize) -> Vec<Comparison> {
        let mut differences = Vec::new();
        for variant in (0..self.logs.len()).filter(|v| *v != base) {
            differences.extend((0..self.group.clients.len()).filter_map(|c| self.difference(variant, base, c)));
        }
        self.verdicts(&differences)
    }

    /// The variants that no other beats by more than the margin, at any client count. This is one claim made of many tests
    /// that must all hold, which needs no correction for their number.
    pub fn best(&self) -> Vec<String> {
        let margin = self.margin.value.ln_1p();
        let level = |v: usize, other: usize, client: usize| {
            let d = self.difference(v, other, client)?;
            let gain = if self.metric.larger_is_better() { d.middle } else { -d.middle };
            Some(gain - d.error?.half(1.0 - ALPHA) >= -margin)
        };
        let measured = |v: usize, client: usize| !self.logs[v][client].is_empty();
        let everywhere = |v: &usize| {
            (0..self.group.clients.len()).filter(|c| (0..self.logs.len()).any(|o| measured(o, *c))).all(|client| {
                let others = (0..self.logs.len()).filter(|o| o != v && measured(*o, client));
                measured(*v, client) && others.into_iter().all(|o| level(*v, o, client) == Some(true))
            })
        };
        (0..self.logs.len()).filter(everywhere).map(|v| self.group.variants[v].clone()).collect()
    }

    /// Two one-sided tests: it is neither above the margin nor below it.
    fn is_equivalent(&self, d: &Difference) -> bool {
        d.error.is_some_and(|e| d.middle.abs() + e.half(1.0 - ALPHA) <= self.margin.value.ln_1p())
    }

    fn verdicts(&self, differences: &[Difference]) -> Vec<Comparison> {
        let p: Vec<Option<f64>> = differences.iter().map(|d| d.error.map(|e| e.p(d.middle / e.sd()))).collect();
        let corrected = holm(&p);
        let family = p.iter().flatten().count();
        differences.iter().zip(corrected).map(|(d, p)| self.comparison(*d, p, family)).collect()
    }

    fn comparison(&self, d: Difference, p: Option<f64>, family: usize) -> Comparison {
        let half = d.error.map_or(0.0, |e| e.half(0.975));
        let margin = self.margin.value.ln_1p();
        let gain = if self.metric.larger_is_better() { d.middle } else { -d.middle };
        let verdict = match (d.error, p) {
            _ if self.is_equivalent(&d) => Verdict::Equivalent,
            (Some(_), Some(p)) if p < ALPHA => {
                if gain > 0.0 {
                    Verdict::Better
                } else {
                    Verdict::Worse
                }
            }
            _ => Verdict::Undecided,
        };
        let more_rounds = match (verdict, d.error) {
            (Verdict::Undecided, Some(e)) => more_rounds(d.middle, e, d.rounds as u32, margin, family),
            _ => None,
        };
        let change = |log: f64| log.exp_m1();
        Comparison {
            variant: self.group.variants[d.variant].clone(),
            clients: self.group.clients[d.client],
            metric: self.metric,
            change: Estimate {
                median: change(d.middle),
                low: change(d.middle - half),
                high: change(d.middle + half),
                rounds: d.rounds as u32,
            },
            margin: self.margin.value,
            p,
            verdict,
            more_rounds,
        }
    }

    fn difference(&self, variant: usize, base: usize, client: usize) -> Option<Difference> {
        let (a, b) = (&self.logs[variant][client], &self.logs[base][client]);
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let within = within_rounds(a, b);
        // Rounds that hold only one of the two tell nothing of a pair. Where most do (runs that were never interleaved), the
        // two are compared as they stand.
        if let Some(pool) = &self.noise.within[base]
            && 2 * within.len() >= a.len().min(b.len())
        {
            let spread = pool.spread(Spread::of(&within));
            return Some(Difference {
                variant,
                client,
                middle: mean(&within),
                rounds: within.len(),
                error: Some(spread.of_mean(within.len())),
            });
        }
        let (a, b) = (rounds_of(a), rounds_of(b));
        let error = match (&self.noise.between, self.noise.once) {
            (Some(pool), _) => Some(pool.difference((Spread::of(&a), a.len()), (Spread::of(&b), b.len()))),
            (None, Some(once)) => Some(once.scaled(2.0)),
            (None, None) => None,
        };
        Some(Difference { variant, client, middle: mean(&a) - mean(&b), rounds: a.len().min(b.len()), error })
    }
}

fn rounds_of(cell: &BTreeMap<u32, f64>) -> Vec<f64> {
    cell.values().copied().collect()
}

fn within_rounds(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> Vec<f64> {
    a.iter().filter_map(|(round, x)| Some(x - b.get(round)?)).collect()
}

/// Within rounds: every other variant less the base.
fn differences_from(logs: &Values, base: usize) -> Values {
    let others = (0..logs.len()).filter(|v| *v != base);
    let of_cell = |(a, b): (&BTreeMap<u32, f64>, &BTreeMap<u32, f64>)| {
        a.iter().filter_map(|(round, x)| Some((*round, x - b.get(round)?))).collect()
    };
    others.map(|v| logs[v].iter().zip(&logs[base]).map(of_cell).collect()).collect()
}

/// The log ratios of twins to their originals, round by round.
fn twin_differences(group: &Group, logs: &Values, twins: &[(String, String)]) -> Vec<f64> {
    let at = |name: &str| group.variants.iter().position(|v| v == name);
    let pairs = twins.iter().filter_map(|(original, twin)| Some((at(original)?, at(twin)?)));
    pairs.flat_map(|(o, t)| logs[t].iter().zip(&logs[o])).flat_map(|(t, o)| within_rounds(t, o)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64
}

/// Stated; else what two single measurements of one thing differ by in 95 of 100 cases.
fn margin(metric: Metric, question: &Question, twins: &[f64], noise: &Noise) -> Margin {
    let seen = twins.iter().map(|d| d.abs().exp_m1()).reduce(f64::max);
    let least = if metric.is_throughput() { LEAST_MARGIN } else { DEFAULT_MARGIN };
    let from = |pair: Spread| (pair.t(0.975) * pair.sd()).exp_m1().clamp(least, MOST_MARGIN);
    let (value, source) = match (question.margin, twins.len(), noise.within.first(), noise.between) {
        (Some(stated), ..) => (stated, MarginSource::Stated),
        (None, n @ 3.., ..) => {
            let spread = Spread { variance: mean_square(twins), df: n as f64 };
            (from(spread), MarginSource::AaPairs)
        }
        (None, _, Some(Some(pool)), _) => (from(pool.typical()), MarginSource::Repeats),
        (None, _, _, Some(pool)) => (from(pool.typical().scaled(2.0)), MarginSource::Repeats),
        (None, ..) => (DEFAULT_MARGIN, MarginSource::Default),
    };
    Margin { value, source, seen }
}

/// Holm's correction: the smallest of m is multiplied by m, the next by m - 1, and none is less than the one before it.
fn holm(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = p.iter().enumerate().filter_map(|(i, p)| Some((i, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut corrected = vec![None; p.len()];
    let mut least = 0.0f64;
    for (rank, (i, p)) in order.iter().enumerate() {
        least = least.max((p * (order.len() - rank) as f64).min(1.0));
        corrected[*i] = Some(least);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_is_as_in_r() {
        // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let corrected = holm(&[Some(0.01), Some(0.04), None, Some(0.03), Some(0.005)]);
        let expected = [Some(0.03), Some(0.06), None, Some(0.06), Some(0.02)];
        for (c, e) in corrected.iter().zip(expected) {
            assert!(c.zip(e).is_none_or(|(c, e)| (c - e).abs() < 1e-12) && c.is_some() == e.is_some());
        }
    }
}
