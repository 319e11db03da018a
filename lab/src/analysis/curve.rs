//! One variant's curve: its points, its peak, how far the end lies under it, its cliff, its law, its hysteresis.

use std::collections::BTreeMap;

use super::cliff::{Height, cliff};
use super::compare::Judge;
use super::estimate::{estimate, median, of_median};
use super::fit::chosen;
use super::noise::Spread;
use super::table::{Group, Values};
use super::{Curve, Estimate, Metric, Point, Shape};
use crate::record::Direction;

/// `measured`: every metric of the group that has values, with those values. None if the variant has no throughput.
pub(super) fn curve(group: &Group, variant: usize, measured: &[(Judge, Values)]) -> Option<Curve> {
    let point = |client: usize| {
        let figures: Vec<(Metric, Estimate)> = measured
            .iter()
            .filter_map(|(judge, values)| {
                let values: Vec<f64> = values[variant][client].values().copied().collect();
                Some((judge.metric, estimate(&values, judge.spread(variant, client))?))
            })
            .collect();
        (!figures.is_empty()).then(|| Point { clients: group.clients[client], figures })
    };
    let points: Vec<Point> = (0..group.clients.len()).filter_map(point).collect();
    let throughput = measured.iter().map(|(judge, _)| judge).find(|j| j.metric == group.throughput())?;
    let shape = shape(group, variant, throughput, &points)?;
    Some(Curve { variant: group.variants[variant].clone(), points, shape })
}

/// A measured point of the curve.
struct Top {
    client: usize,
    estimate: Estimate,
}

fn shape(group: &Group, variant: usize, judge: &Judge, points: &[Point]) -> Option<Shape> {
    let logs = &judge.logs()[variant];
    let tops: Vec<Top> = points
        .iter()
        .filter_map(|p| {
            let estimate = p.figures.iter().find(|f| f.0 == judge.metric)?.1;
            Some(Top { client: group.clients.binary_search(&p.clients).ok()?, estimate })
        })
        .collect();
    let peak = tops.iter().reduce(|a, b| if b.estimate.median > a.estimate.median { b } else { a })?;
    let end = tops.last()?;
    let line: Vec<Height> = tops
        .iter()
        .map(|top| {
            let rounds: Vec<f64> = logs[top.client].values().copied().collect();
            Height {
                clients: group.clients[top.client],
                ln: median(&rounds),
                error: judge.spread(variant, top.client).map(|s| of_median(s, rounds.len())),
                rounds: rounds.len() as u32,
            }
        })
        .collect();
    let cliff = cliff(&line);
    let before = cliff.as_ref().map_or(line.len(), |c| c.1);
    let lawful: Vec<(f64, f64)> = line[..before].iter().map(|h| (f64::from(h.clients), h.ln)).collect();
    Some(Shape {
        peak: peak.estimate,
        peak_clients: group.clients[peak.client],
        end_over_peak: match end.client == peak.client {
            true => Estimate { median: 1.0, low: 1.0, high: 1.0, rounds: end.estimate.rounds },
            false => ratio(&logs[end.client], &logs[peak.client], judge.spread(variant, end.client)),
        },
        cliff: cliff.map(|c| c.0),
        fit: chosen(&lawful).into(),
        hysteresis: hysteresis(group, variant, judge.metric),
    })
}

/// One cell over another of the same variant: within rounds where they share some, else as they stand.
fn ratio(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>, noise: Option<Spread>) -> Estimate {
    let mut logs: Vec<f64> = a.iter().filter_map(|(round, x)| Some(x - b.get(round)?)).collect();
    if logs.is_empty() {
        let of = |cell: &BTreeMap<u32, f64>| median(&cell.values().copied().collect::<Vec<_>>());
        logs.push(of(a) - of(b));
    }
    let (middle, n) = (median(&logs), logs.len() as f64);
    let half = match noise {
        Some(s) if logs.len() > 1 => s.half(0.975) * (2.0 / n).sqrt(),
        _ => 0.0,
    };
    Estimate {
        median: middle.exp(),
        low: (middle - half).exp(),
        high: (middle + half).exp(),
        rounds: logs.len() as u32,
    }
}

/// What the way down has over the way up at the same client count: the median over client counts. Its interval comes from
/// whole rounds where there are two of each way, since all trials of a way share a server's life; else from the counts.
fn hysteresis(group: &Group, variant: usize, metric: Metric) -> Option<Estimate> {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let ways = [Direction::Up, Direction::Down].map(|way| group.logs(metric, Some(way)).swap_remove(variant));
    let mut by_count = Vec::new();
    let mut by_round: [BTreeMap<u32, Vec<f64>>; 2] = Default::default();
    for (up, down) in ways[0].iter().zip(&ways[1]) {
        if up.is_empty() || down.is_empty() {
            continue;
        }
        let means = [up, down].map(|cell| mean(&cell.values().copied().collect::<Vec<_>>()));
        by_count.push(means[1] - means[0]);
        let middle = f64::midpoint(means[0], means[1]);
        for (way, cell) in [up, down].into_iter().enumerate() {
            for (round, x) in cell {
                by_round[way].entry(*round).or_default().push(x - middle);
            }
        }
    }
    if by_count.is_empty() {
        return None;
    }
    let [up, down] = by_round.map(|rounds| rounds.values().map(|x| mean(x)).collect::<Vec<f64>>());
    let error = match (Spread::of(&up), Spread::of(&down)) {
        (Some(u), Some(d)) => {
            let pooled = (u.variance * u.df + d.variance * d.df) / (u.df + d.df);
            let variance = pooled * (1.0 / up.len() as f64 + 1.0 / down.len() as f64);
            Some(Spread { variance, df: u.df + d.df })
        }
        _ => Spread::of(&by_count).map(|s| s.of_mean(by_count.len())),
    };
    let middle = median(&by_count);
    let half = error.map_or(0.0, |e| e.half(0.975));
    Some(Estimate {
        median: middle.exp_m1(),
        low: (middle - half).exp_m1(),
        high: (middle + half).exp_m1(),
        rounds: (up.len() + down.len()) as u32,
    })
}
