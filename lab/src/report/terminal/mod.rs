//! The report for a terminal of any width: the answer, a table of client counts by variants for each test, a line for each
//! variant's curve, memory and cost. No line is wider than asked for, down to 40 columns; what comes from records cannot
//! move the cursor or change colours.

mod doctor;
mod out;
mod why;

pub use doctor::doctor;
pub use why::{frames, stacks, why};

use super::Page;
use super::facts::Facts;
use super::words::{self, about};
use crate::analysis::{Curve, Metric};
use out::{Column, GAP, Out, Style, Text, clean};

pub fn terminal(page: &Page, width: usize, color: bool) -> String {
    let mut out = Out::new(width, color);
    let a = page.analysis;
    out.wrap("", &a.sentence, Style::Strong);
    out.line();
    for test in &a.tests {
        let facts = Facts::new(test);
        out.wrap("", &test.test, Style::Strong);
        if test.sentence != a.sentence {
            out.wrap("", &test.sentence, Style::Plain);
        }
        let metric = test.throughput;
        out.line();
        out.wrap("", &format!("{}, medians; {}", about(metric).unit, key(&facts)), Style::Quiet);
        by_clients(&mut out, &facts, metric);
        out.line();
        by_variant(&mut out, &facts, metric);
        out.line();
    }
    if let Some(why) = page.why {
        why::section(&mut out, why);
    }
    out.wrap("", &format!("{} {}", page.extent(), words::margin(&a.margin)), Style::Quiet);
    for (why, cells) in page.left_out() {
        let n = words::counted(cells.values().sum(), "trial does", "trials do");
        out.wrap("", &format!("{n} not count ({}): {why}", words::counted(cells.len(), "cell", "cells")), Style::Bad);
    }
    for (mark, cells) in page.marks() {
        let n = words::counted(cells.values().sum(), "trial is", "trials are");
        out.wrap("", &format!("{n} marked: {mark}"), Style::Quiet);
    }
    for limit in &a.limits {
        out.wrap("- ", limit, Style::Plain);
    }
    out.text
}

fn key(facts: &Facts) -> String {
    let marks = words::VERDICTS.map(|v| format!("{} {}", words::mark(v), words::word(v))).join(", ");
    let cliff = if facts.test.curves.iter().any(|c| c.shape.cliff.is_some()) { "; ↘ cliff" } else { "" };
    format!("against {}: {marks}{cliff}", facts.test.baseline)
}

/// With the change beside each median if that fits; else with the mark alone; else in parts below each other.
fn by_clients(out: &mut Out, facts: &Facts, metric: Metric) {
    let test = facts.test;
    let mut rows = Column::new("clients");
    rows.cells = test.clients.iter().map(|n| Text::of(words::whole(f64::from(*n)), Style::Plain)).collect();
    let columns = |with_change: bool| -> Vec<Column> {
        test.curves.iter().map(|c| variant(facts, c, metric, with_change)).collect()
    };
    let fits = |columns: &[Column]| rows.width + columns.iter().map(|c| c.width + GAP).sum::<usize>() <= out.width;
    let wide = columns(true);
    let columns = if fits(&wide) { wide } else { columns(false) };
    out.in_parts(&rows, &columns);
}

fn variant(facts: &Facts, curve: &Curve, metric: Metric, with_change: bool) -> Column {
    let cell = |n: &u32| {
        let Some(e) = facts.figure(&curve.variant, *n, metric) else { return Text::of("–", Style::Quiet) };
        let fell = curve.shape.cliff.as_ref().is_some_and(|c| c.after == *n);
        let mut text = Text::of(if fell { "↘" } else { "" }, Style::Bad);
        text.push(words::value(metric, e.median), Style::Plain);
        if curve.variant == facts.test.baseline {
            return text;
        }
        let Some(c) = facts.comparison(&curve.variant, *n, metric) else {
            text.push(" ".repeat(if with_change { 10 } else { 2 }), Style::Plain);
            return text;
        };
        let style = Style::of(c.verdict);
        text.push(format!(" {}", words::mark(c.verdict)), style);
        if with_change {
            // Aligned on the sign, so that medians stay aligned too.
            text.push(format!("{:>8}", words::change(c.change.median).replace('\u{a0}', "")), style);
        }
        text
    };
    let mut column = Column::new(&curve.variant);
    column.cells = facts.test.clients.iter().map(cell).collect();
    column.fit();
    column
}

/// One line for each variant. As many columns as fit, the ones that matter most.
fn by_variant(out: &mut Out, facts: &Facts, metric: Metric) {
    let test = facts.test;
    let column = |head: &str, style: Style, cell: &dyn Fn(&Curve) -> Option<String>| {
        let mut column = Column::new(head);
        let text = |c: &Curve| cell(c).map_or(Text::of("–", Style::Quiet), |t| Text::of(t, style));
        column.cells = test.curves.iter().map(text).collect();
        column.fit();
        column
    };
    let most = test.curves.iter().flat_map(|c| test.clients.iter().map(move |n| (c, *n)));
    let most = most.filter_map(|(c, n)| facts.figure(&c.variant, n, metric)).map(|e| e.median).fold(0.0, f64::max);
    let figure = |x: Metric| {
        column(about(x).short, Style::Plain, &|c| Some(words::value(x, facts.summary(&c.variant, x)?.median)))
    };
    let mut name = column("", Style::Plain, &|c| Some(clean(&c.variant)));
    name.left = true;
    let mut curve = column("curve", Style::Plain, &|c| Some(bars(facts, c, metric, most)));
    curve.left = true;
    // In the order in which they stand, with how dear each is: the dearest go last.
    let mut columns = vec![
        (9, name),
        (8, curve),
        (7, column("peak", Style::Plain, &|c| Some(words::value(metric, c.shape.peak.median)))),
        (3, column("at", Style::Plain, &|c| Some(words::whole(f64::from(c.shape.peak_clients))))),
        (2, column("end/peak", Style::Plain, &|c| Some(words::number(c.shape.end_over_peak.median)))),
        (
            6,
            column("cliff", Style::Bad, &|c| {
                let cliff = c.shape.cliff.as_ref()?;
                Some(format!("{} {}→{}", words::factor(cliff.factor.median), cliff.before, cliff.after))
            }),
        ),
        (1, figure(Metric::LatencyP99)),
        (5, figure(Metric::MemoryPeak)),
        (3, figure(Metric::MemoryIdle)),
        (4, figure(Metric::CpuPerTransaction)),
        (1, figure(Metric::SwitchesPerTransaction)),
        (0, figure(Metric::FaultsPerTransaction)),
    ];
    let empty = |c: &Column| c.cells.iter().all(|t| t.shown() == "–");
    columns.retain(|(_, c)| !empty(c));
    let too_wide =
        |columns: &[(i32, Column)]| columns.iter().map(|(_, c)| c.width + GAP).sum::<usize>() > out.width + GAP;
    while too_wide(&columns) && columns.len() > 1 {
        let cheapest = columns.iter().map(|(dear, _)| *dear).min();
        let at = columns.iter().rposition(|(dear, _)| Some(*dear) == cheapest).unwrap_or(0);
        columns.remove(at);
    }
    out.table(&columns.iter().map(|(_, c)| c).collect::<Vec<_>>());
}

/// The curve in one line of text, on one scale from zero for the whole test.
fn bars(facts: &Facts, curve: &Curve, metric: Metric, most: f64) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let step = |n: &u32| match facts.figure(&curve.variant, *n, metric) {
        Some(e) if most > 0.0 => STEPS[((e.median / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    facts.test.clients.iter().map(step).collect()
}
