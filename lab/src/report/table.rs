//! The report for other programs: CSV, one row for each test, variant, clients and metric; and JSON, the analysis itself.

use super::{Page, words};
use crate::analysis::{Comparison, Estimate};
use std::fmt::Write as _;

/// The shape of what `json` writes.
const SCHEMA: u32 = 1;

const HEADER: &str = "test,variant,clients,metric,unit,median,low,high,rounds,baseline,change,change_low,change_high,margin,\
                      p,verdict,more_rounds";

/// Values are in the unit that the row names, changes are fractions; what there is not is empty.
pub fn csv(page: &Page) -> String {
    let mut out = format!("{HEADER}\n");
    for test in &page.analysis.tests {
        let facts = super::facts::Facts::new(test);
        for curve in &test.curves {
            for n in &test.clients {
                for metric in facts.metrics() {
                    let Some(figure) = facts.figure(&curve.variant, *n, metric) else { continue };
                    let about = words::about(metric);
                    let Estimate { median, low, high, rounds } = figure;
                    let [median, low, high] = [median, low, high].map(|v| plain(v / about.per));
                    let name = [test.test.as_str(), curve.variant.as_str()].map(field).join(",");
                    let unit = field(about.unit);
                    let _ = write!(out, "{name},{n},{},{unit},{median},{low},{high},{rounds},", about.key);
                    let _ = writeln!(out, "{}", compared(&test.baseline, facts.comparison(&curve.variant, *n, metric)));
                }
            }
        }
    }
    out
}

fn compared(baseline: &str, comparison: Option<&Comparison>) -> String {
    let Some(c) = comparison else { return ",,,,,,,".into() };
    let [change, low, high, margin] = [c.change.median, c.change.low, c.change.high, c.margin].map(plain);
    let baseline = field(baseline);
    let p = c.p.map(plain).unwrap_or_default();
    let more = c.more_rounds.map(|n| n.to_string()).unwrap_or_default();
    format!("{baseline},{change},{low},{high},{margin},{p},{},{more}", words::word(c.verdict))
}

/// Six digits that mean something: enough to compute with.
fn plain(v: f64) -> String {
    if !v.is_finite() {
        return String::new();
    }
    let digits = if v == 0.0 { 0 } else { v.abs().log10().floor() as i32 };
    let decimals = (5 - digits).clamp(0, 12) as usize;
    let text = format!("{v:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

pub fn json(page: &Page) -> String {
    let report = serde_json::json!({ "schema": SCHEMA, "folder": page.folder, "analysis": page.analysis });
    format!("{report:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_six_digits() {
        let cases = [(0.0, "0"), (70123.4567, "70123.5"), (1234567.8, "1234568"), (-0.0421, "-0.0421"), (3.0, "3")];
        for (v, shown) in cases {
            assert_eq!(plain(v), shown);
        }
        assert_eq!(plain(f64::NAN), "");
    }

    #[test]
    fn fields_are_quoted_when_they_must() {
        assert_eq!(field("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(field("glibc 2.36"), "glibc 2.36");
    }
}
