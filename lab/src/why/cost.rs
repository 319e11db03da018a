//! What profiling itself costs: throughput while perf records beside that of the quiet phases around it, in the same trial.

use crate::analysis::Spread;
use crate::profile::Kind;
use crate::profile::collect::Phase;
use crate::record::{Outcome, Record, Second};
use serde::Serialize;

/// Loss of throughput while a kind of profile was taken: the mean over all phases and its 95 % error, as fractions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Toll {
    pub kind: Kind,
    pub loss: f64,
    pub error: f64,
    pub phases: u32,
}

pub fn tolls(records: &[Record]) -> Vec<Toll> {
    let valid = || records.iter().filter(|r| r.outcome == Outcome::Valid);
    [Kind::Cpu, Kind::Switches]
        .into_iter()
        .filter_map(|kind| {
            let losses: Vec<f64> = valid()
                .filter_map(|r| Some((r, r.profile.as_ref()?)))
                .flat_map(|(r, p)| of(kind, &p.phases, &r.series))
                .collect();
            let n = losses.len() as f64;
            let one = Spread::of(&losses)?;
            let error = one.of_mean(losses.len()).half(0.975);
            let mean = losses.iter().sum::<f64>() / n;
            Some(Toll { kind, loss: -mean.exp_m1(), error, phases: losses.len() as u32 })
        })
        .collect()
}

/// For each phase of a kind: the logarithm of its throughput over that of the quiet phases beside it.
fn of(kind: Kind, phases: &[Phase], series: &[Second]) -> Vec<f64> {
    let rates: Vec<Option<f64>> = phases.iter().map(|p| rate(p, series)).collect();
    let mut losses = Vec::new();
    for (i, _) in phases.iter().enumerate().filter(|(_, p)| p.kind == Some(kind)) {
        let beside = [i.checked_sub(1), Some(i + 1)].into_iter().flatten();
        let quiet: Vec<f64> =
            beside.filter(|j| phases.get(*j).is_some_and(|p| p.kind.is_none())).filter_map(|j| rates[j]).collect();
        if let Some(own) = rates[i]
            && !quiet.is_empty()
        {
            losses.push((own / (quiet.iter().sum::<f64>() / quiet.len() as f64)).ln());
        }
    }
    losses
}

/// The mean rate of the looks that lie wholly in a phase.
fn rate(phase: &Phase, series: &[Second]) -> Option<f64> {
    let looks: Vec<(f64, f64)> = series.iter().filter_map(|s| Some((s.at, s.tps?))).collect();
    let inside = looks.windows(2).filter(|w| w[0].0 >= phase.from && w[1].0 <= phase.to);
    let (mut sum, mut length) = (0.0, 0.0);
    for pair in inside {
        let seconds = pair[1].0 - pair[0].0;
        sum += pair[1].1 * seconds;
        length += seconds;
    }
    (length > 0.0 && sum > 0.0).then(|| sum / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quiet_phases_beside_are_what_counts() {
        let phase = |kind, from: f64| Phase { kind, from, to: from + 2.0 };
        let phases = [phase(None, 0.0), phase(Some(Kind::Cpu), 2.0), phase(None, 4.0)];
        let tps = [100.0, 100.0, 90.0, 90.0, 80.0, 80.0];
        let mut series: Vec<Second> = tps
            .iter()
            .enumerate()
            .map(|(i, tps)| Second { at: i as f64 + 1.0, tps: Some(*tps), ..Second::default() })
            .collect();
        series.insert(0, Second { at: 0.0, tps: Some(1.0), ..Second::default() });
        let losses = of(Kind::Cpu, &phases, &series);
        assert_eq!(losses.len(), 1);
        assert!((losses[0]).abs() < 1e-12, "90 beside 100 and 80: {}", losses[0]);
        assert!(of(Kind::Switches, &phases, &series).is_empty());
    }
}
