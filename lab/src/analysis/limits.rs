//! What limits the answer, one sentence each, from the records as they are.

use std::collections::BTreeMap;

use super::fit::POINTS;
use super::table::{Group, Table};
use super::words::{list, percent};
use super::{MarginSource, Question, Test};
use crate::proof::DURABILITY;

/// Fewer rounds show hardly more than one.
const FEW_ROUNDS: usize = 3;
/// The client takes so much of all CPU time that it may be what saturates.
const CLIENT_SHARE: f64 = 0.5;
/// Slower than this part of its fastest, the host changed while it measured.
const HOST_SLOWER: f64 = 0.9;
/// The watcher's share of one CPU.
const WATCHER: f64 = 0.01;

pub(super) fn limits(table: &Table, tests: &[Test], question: &Question) -> Vec<String> {
    let mut limits = table.notes.clone();
    let rounds = table.groups.iter().map(Group::rounds).max().unwrap_or(0);
    match rounds {
        0 => limits.push("No trial counts, so there is no answer.".into()),
        1 if tests.iter().flat_map(|t| &t.comparisons).any(|c| c.p.is_some()) && question.twins.is_empty() => limits.push(
            "One run of each cell: the noise is not measured but taken from how unevenly the curves run from client count to \
             client count."
                .into(),
        ),
        1 => limits.push("One run of each cell.".into()),
        n if n < FEW_ROUNDS => limits.push(format!("Only {n} rounds.")),
        _ => {}
    }
    if rounds > 0 && question.twins.is_empty() {
        let margin = match tests.first().map(|t| t.margin.source) {
            Some(MarginSource::Stated) => "the margin is as stated",
            Some(MarginSource::Repeats) => "the margin comes from what rounds of one cell differ by",
            _ => "the margin is the default",
        };
        limits.push(format!("No variant was run twice under two names (A/A): {margin}."));
    }
    if !table.not_counted.is_empty() {
        limits.push(format!(
            "{} of {} trials do not count.",
            table.not_counted.len(),
            table.not_counted.len() + table.counted
        ));
    }
    for group in &table.groups {
        if (2..=POINTS).contains(&group.clients.len()) {
            limits.push(format!(
                "{}: {} client counts are too few to look for a cliff.",
                group.name,
                group.clients.len()
            ));
        }
        limits.extend(missing(group));
        limits.extend(in_blocks(group));
        limits.extend(durability(group));
        limits.extend(of_records(group));
    }
    limits
}

fn missing(group: &Group) -> Option<String> {
    let empty = |v: usize| (0..group.clients.len()).filter(move |c| group.cell(v, *c).is_empty()).count();
    let lacking: Vec<String> = (0..group.variants.len())
        .filter(|v| empty(*v) > 0)
        .map(|v| format!("{} at {} of {} client counts", group.variants[v], empty(v), group.clients.len()))
        .collect();
    (!lacking.is_empty()).then(|| format!("{}: no trial counts for {}.", group.name, list(&lacking)))
}

/// Variants whose commits are safe at different moments: the faster may only promise less.
fn durability(group: &Group) -> Option<String> {
    let of = |v: usize| {
        let proofs = (0..group.clients.len()).flat_map(|c| group.cell(v, c)).flat_map(|r| &r.proofs);
        proofs.filter(|p| p.what == DURABILITY).map(|p| p.found.as_str()).next()
    };
    let stated: Vec<(&str, &str)> =
        (0..group.variants.len()).filter_map(|v| Some((group.variants[v].as_str(), of(v)?))).collect();
    let differ = stated.windows(2).any(|w| w[0].1 != w[1].1);
    differ.then(|| {
        let each: Vec<String> = stated.iter().map(|(v, d)| format!("{v} ({d})")).collect();
        format!("{}: the variants are not equally durable: {}.", group.name, list(&each))
    })
}

/// Variants that ran one after the other, each in one go: what changed with time cannot be told from what they do.
fn in_blocks(group: &Group) -> Option<String> {
    if group.rounds() < 2 || group.variants.len() < 2 {
        return None;
    }
    let mut spans: Vec<(u32, u32)> = (0..group.variants.len())
        .filter_map(|v| {
            let orders = (0..group.clients.len()).flat_map(|c| group.cell(v, c)).map(|r| r.order);
            Some((orders.clone().min()?, orders.max()?))
        })
        .collect();
    spans.sort_unstable();
    spans.windows(2).all(|w| w[0].1 < w[1].0).then(|| {
        format!(
            "{}: the variants ran one after the other, not in turn, so what changed with time cannot be told from what they do.",
            group.name
        )
    })
}

fn of_records(group: &Group) -> Vec<String> {
    let mut found = Vec::new();
    let mut marks: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut saturated, mut watched, mut all) = (0, 0, 0);
    let mut speeds: Vec<f64> = Vec::new();
    for r in group.records() {
        all += 1;
        r.marks.iter().for_each(|m| *marks.entry(m).or_default() += 1);
        let f = &r.figures;
        saturated += usize::from(super::Metric::ClientShare.of(r).is_some_and(|s| s > CLIENT_SHARE));
        watched += usize::from(f.watcher_cpu_s.zip(f.seconds).is_some_and(|(w, s)| w > WATCHER * s));
        speeds.extend(f.host_speed);
    }
    if !marks.is_empty() {
        let told: Vec<String> = marks.iter().map(|(mark, n)| format!("{mark} ({n})")).collect();
        found.push(format!("{}: marks on its {all} trials: {}.", group.name, told.join("; ")));
    }
    if saturated > 0 {
        found.push(format!(
            "{}: the client took more than half of all CPU time in {saturated} of {all} trials, and may be what saturated.",
            group.name
        ));
    }
    if watched > 0 {
        found.push(format!(
            "{}: watching cost more than {} of a CPU in {watched} of {all} trials.",
            group.name,
            percent(WATCHER)
        ));
    }
    if let Some(slowest) = speeds.iter().copied().reduce(f64::min)
        && slowest < HOST_SLOWER * speeds.iter().copied().fold(0.0, f64::max)
    {
        let fastest = speeds.iter().copied().fold(0.0, f64::max);
        found.push(format!(
            "{}: the host itself was up to {} slower in some trials than in others.",
            group.name,
            percent(1.0 - slowest / fastest)
        ));
    }
    found
}
