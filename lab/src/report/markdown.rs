//! The report in Markdown, as an issue or a README takes it: the answer, a table for each test, then what limits it.

use super::Page;
use super::facts::Facts;
use super::words::{self, about};
use crate::analysis::Metric;
use std::fmt::Write as _;

pub fn markdown(page: &Page) -> String {
    let a = page.analysis;
    let mut out = String::new();
    let mut put = |line: String| {
        let _ = writeln!(out, "{line}");
    };
    put(format!("# {}\n\n**{}**\n\n{}", escaped(&a.title), escaped(&a.sentence), escaped(&page.extent())));
    put(format!("{}\n", words::margin(&a.margin)));
    for test in &a.tests {
        let facts = Facts::new(test);
        put(format!("## {}\n\n{}\n", escaped(&test.test), escaped(&test.sentence)));
        let metric = test.throughput;
        let marks = words::VERDICTS.map(|v| format!("{} {}", words::mark(v), words::word(v))).join(", ");
        put(format!("{} against {}: {marks}.\n", capital(about(metric).unit), escaped(&test.baseline)));
        row(&mut put, "clients", test.curves.iter().map(|c| escaped(&c.variant)));
        put(format!("|--:{}|", "|--:".repeat(test.curves.len())));
        for n in &test.clients {
            let cell = |variant: &str| {
                let Some(e) = facts.figure(variant, *n, metric) else { return "–".into() };
                let value = words::value(metric, e.median);
                match facts.comparison(variant, *n, metric) {
                    None => value,
                    Some(c) => format!("{value} {} {}", words::mark(c.verdict), words::change(c.change.median)),
                }
            };
            row(&mut put, &words::whole(f64::from(*n)), test.curves.iter().map(|c| cell(&c.variant)));
        }
        put(String::new());
        variants(&mut put, &facts, metric);
    }
    let left_out = page.left_out();
    if !left_out.is_empty() {
        put("## Trials that do not count\n".into());
        for (why, cells) in &left_out {
            let n = words::counted(cells.values().sum(), "trial", "trials");
            put(format!(
                "- {n}: {} ({})",
                escaped(why),
                escaped(&cells.keys().cloned().collect::<Vec<_>>().join("; "))
            ));
        }
        put(String::new());
    }
    if !a.limits.is_empty() {
        put("## Limits of the answer\n".into());
        for limit in &a.limits {
            put(format!("- {}", escaped(limit)));
        }
        put(String::new());
    }
    if !page.redo.is_empty() {
        put("## How to redo it\n".into());
        for line in page.redo.iter().flat_map(|c| c.lines()) {
            put(format!("    {line}"));
        }
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn variants(put: &mut impl FnMut(String), facts: &Facts, metric: Metric) {
    let measured = facts.metrics();
    let summary = [Metric::LatencyP99, Metric::MemoryPeak, Metric::MemoryIdle, Metric::CpuPerTransaction];
    let summary: Vec<Metric> = summary.into_iter().filter(|x| measured.contains(x)).collect();
    let heads = ["peak", "at clients", "end / peak", "cliff"].map(String::from).into_iter();
    let units = summary.iter().map(|x| format!("{}, {}", about(*x).name, about(*x).unit));
    row(put, "", heads.chain(units));
    put(format!("|:--|--:|--:|--:|--:{}|", "|--:".repeat(summary.len())));
    for c in &facts.test.curves {
        let s = &c.shape;
        let cliff = s
            .cliff
            .as_ref()
            .map_or("none".into(), |x| format!("{} from {} to {}", words::factor(x.factor.median), x.before, x.after));
        let shape = [
            words::value(metric, s.peak.median),
            words::whole(f64::from(s.peak_clients)),
            words::number(s.end_over_peak.median),
            cliff,
        ];
        let figure = |x: &Metric| facts.summary(&c.variant, *x).map_or("–".into(), |e| words::value(*x, e.median));
        row(put, &escaped(&c.variant), shape.into_iter().chain(summary.iter().map(figure)));
    }
    put(String::new());
}

fn row(put: &mut impl FnMut(String), first: &str, cells: impl Iterator<Item = String>) {
    put(format!("| {first} | {} |", cells.collect::<Vec<_>>().join(" | ")));
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// What comes from records is text: nothing in it is markup, and it stays on its line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(escaped("a|b\n<script>*x*"), "a\\|b &lt;script>\\*x\\*");
    }
}
