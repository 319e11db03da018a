//! Leg one and leg two: the losses of a test's variants, and whether another variant is free of them.

use crate::analysis::{Curve, Metric, Test, Verdict};

/// What a variant loses, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    pub variant: String,
    /// Where it is seen.
    pub clients: u32,
    /// What it is measured against: fewer clients of the same variant, or another variant.
    pub against: Against,
    /// What is left: 0.22 for a loss of 78 %.
    pub left: f64,
    /// The variant that shows it to be the heap's: without this loss, or with less than half of it.
    pub free: Option<String>,
    /// The variant whose profile is compared: `free`, else the best at these clients.
    pub beside: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// A cliff; these were the clients before it.
    Cliff(u32),
    /// It falls from its peak at these clients by more than a fifth, without a step.
    Peak(u32),
    /// Another variant at the same clients.
    Level,
}

/// What is left after a loss that is worth a question, where nothing but its size speaks for it.
const FALL: f64 = 0.8;
/// So many CPUs show a cliff, if there is one; on fewer only the level does.
const SHOW_CLIFFS: usize = 8;

/// What one must know of a sweep besides its analysis.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Variants that are another measured twice.
    pub is_twin: &'a dyn Fn(&str) -> bool,
    /// Of the machine; None where nobody noted it.
    pub cpus: Option<usize>,
    /// Variants differ in their heaps and in nothing else: without that, none of them shows what the heap does.
    pub heap_alone: bool,
}

/// The largest loss first.
pub fn losses(test: &Test, asked: Asked) -> Vec<Loss> {
    let skip = asked.is_twin;
    // Where a cliff would show, a level is worth the question only if it is as low as a cliff's foot.
    let least = if asked.cpus.is_some_and(|n| n < SHOW_CLIFFS) { 1.0 } else { FALL };
    let curves: Vec<&Curve> = test.curves.iter().filter(|c| !skip(&c.variant)).collect();
    let mut found: Vec<Loss> = Vec::new();
    for curve in &curves {
        let shape = &curve.shape;
        if let Some(cliff) = &shape.cliff {
            let left = ratio(test, curve, cliff.after, curve, cliff.before).unwrap_or(cliff.factor.median);
            found.push(along(test, &curves, curve, cliff.after, Against::Cliff(cliff.before), left));
        } else if shape.end_over_peak.high < FALL
            && let Some(last) = curve.points.last().map(|p| p.clients)
        {
            found.push(along(
                test,
                &curves,
                curve,
                last,
                Against::Peak(shape.peak_clients),
                shape.end_over_peak.median,
            ));
        }
    }
    for c in test.comparisons.iter().filter(|c| c.metric == test.throughput && !skip(&c.variant)) {
        let ratio = 1.0 + c.change.median;
        let (loser, winner, left) = match c.verdict {
            Verdict::Worse => (c.variant.as_str(), test.baseline.as_str(), ratio),
            Verdict::Better => (test.baseline.as_str(), c.variant.as_str(), 1.0 / ratio),
            _ => continue,
        };
        if left > least {
            continue;
        }
        found.push(Loss {
            variant: loser.into(),
            clients: c.clients,
            against: Against::Level,
            left,
            free: Some(winner.into()),
            beside: Some(winner.into()),
        });
    }
    // A cliff comes before a plain loss of the same size: it is what a person asks about.
    let rank = |l: &Loss| l.left.ln() * if matches!(l.against, Against::Cliff(_)) { 2.0 } else { 1.0 };
    found.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    found
}

/// A loss along the clients is gone with another variant that, over the same clients, loses less than half of it (in logarithms).
fn along(test: &Test, curves: &[&Curve], curve: &Curve, at: u32, against: Against, left: f64) -> Loss {
    let (Against::Cliff(from) | Against::Peak(from)) = against else {
        unreachable!("a level is not along the clients")
    };
    let others = curves.iter().filter(|c| c.variant != curve.variant);
    let kept: Vec<(&str, f64, f64)> = others
        .filter_map(|other| {
            let same_walk = ratio(test, other, at, other, from)?;
            let level = ratio(test, other, at, curve, at)?;
            Some((other.variant.as_str(), same_walk, level))
        })
        .collect();
    let best = kept.iter().max_by(|a, b| a.2.total_cmp(&b.2));
    let free = best.filter(|(_, walk, level)| walk.ln() > left.ln() / 2.0 && level.ln() > -left.ln() / 2.0);
    Loss {
        variant: curve.variant.clone(),
        clients: at,
        against,
        left,
        free: free.map(|f| f.0.to_string()),
        beside: best.map(|b| b.0.to_string()),
    }
}

/// Throughput of a curve at some clients over that of another at others.
fn ratio(test: &Test, a: &Curve, at: u32, b: &Curve, other: u32) -> Option<f64> {
    let of = |curve: &Curve, clients| figure(curve, clients, test.throughput).filter(|x| *x > 0.0);
    Some(of(a, at)? / of(b, other)?)
}

pub(super) fn figure(curve: &Curve, clients: u32, metric: Metric) -> Option<f64> {
    let point = curve.points.iter().find(|p| p.clients == clients)?;
    point.figures.iter().find(|(m, _)| *m == metric).map(|(_, e)| e.median)
}
