//! From a cell's rounds to one figure with an interval.

use super::Estimate;
use super::noise::Spread;
use crate::rng::Rng;

/// From so many rounds on the bootstrap of the median holds its 95 %; with fewer it promises too much.
const BOOTSTRAP_FROM: usize = 10;
const RESAMPLES: usize = 2_000;
/// The median of a few values scatters this much more than their mean (normal noise, large samples).
const MEDIAN_OVER_MEAN: f64 = 1.2533;

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Median with its interval: a bootstrap of ten rounds or more; below that Student's t in logarithms, with the spread of
/// rounds (`spread`, pooled over the cells of the test). None if there is no value.
pub(super) fn estimate(values: &[f64], spread: Option<Spread>) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    let (m, n) = (median(values), values.len());
    let (low, high) = match spread {
        _ if n >= BOOTSTRAP_FROM => bootstrap(values),
        Some(spread) if n > 1 && m > 0.0 => {
            let half = of_median(spread, n).half(0.975);
            (m * (-half).exp(), m * half.exp())
        }
        _ => (m, m),
    };
    Some(Estimate { median: m, low: low.min(m), high: high.max(m), rounds: n as u32 })
}

/// The error of a median of n values.
pub(super) fn of_median(spread: Spread, n: usize) -> Spread {
    let larger = if n > 2 { MEDIAN_OVER_MEAN } else { 1.0 };
    spread.of_mean(n).scaled(larger * larger)
}

/// The middle 95 % of the medians of resampled rounds.
fn bootstrap(values: &[f64]) -> (f64, f64) {
    let mut rng = Rng::seeded_by(values);
    let mut sample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            sample.fill_with(|| values[rng.below(values.len())]);
            sample.sort_by(f64::total_cmp);
            middle(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[RESAMPLES * 25 / 1000], medians[RESAMPLES * 975 / 1000 - 1])
}
