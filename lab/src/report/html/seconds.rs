//! What each trial did second by second, as small lines: a row for each client count, a column for each variant.

use super::super::markup::Markup;
use super::super::plot::look;
use super::super::words;
use super::{note, place, scroll};
use crate::analysis::Metric;
use crate::record::{Record, Second};
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(super) fn seconds(m: &mut Markup, records: &[Record], names: &[String], places: &[&str]) {
    let mut tests: Vec<&str> = vec![];
    for r in records {
        if !tests.contains(&r.cell.test.as_str()) {
            tests.push(&r.cell.test);
        }
    }
    for test in tests {
        // Rows are client counts, columns variants in the order of their first trial.
        let mut columns: Vec<&str> = vec![];
        let mut cells: BTreeMap<u32, BTreeMap<usize, Vec<&Record>>> = BTreeMap::new();
        for (r, name) in records.iter().zip(names).filter(|(r, _)| r.cell.test == test) {
            let column = columns.iter().position(|c| c == name).unwrap_or_else(|| {
                columns.push(name);
                columns.len() - 1
            });
            cells.entry(r.cell.clients).or_default().entry(column).or_default().push(r);
        }
        scroll(m, |m| {
            m.el("table").class("sparks").with(|m| {
                m.leaf("caption", test);
                m.el("thead").with(|m| {
                    m.el("tr").with(|m| {
                        m.el("th").at("scope", "col").text("clients");
                        for name in &columns {
                            m.el("th").at("scope", "col").text(name);
                        }
                    });
                });
                m.el("tbody").with(|m| {
                    for (n, row) in &cells {
                        let scale = Scale::of(row.values().flatten().copied());
                        m.el("tr").with(|m| {
                            m.el("th").at("scope", "row").with(|m| {
                                m.text(words::whole(f64::from(*n)));
                                note(m, Some(format!("to {} tps", words::number(scale.tps))));
                                note(m, Some(format!("to {} MB", words::value(Metric::MemoryPeak, scale.rss))));
                            });
                            for (i, name) in columns.iter().enumerate() {
                                m.el("td").at("data-v", place(places, name)).with(|m| {
                                    let Some(trials) = row.get(&i) else { return };
                                    scale.draw(m, trials, place(places, name), &format!("{name}, {n} clients"));
                                });
                            }
                        });
                    }
                });
            });
        });
    }
}

/// Keeps at most `most` points, those that shape the line: the largest triangle with the neighbours that were kept.
fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most || most < 3 {
        return points.to_vec();
    }
    let mut kept = vec![points[0]];
    let width = (points.len() - 2) as f64 / (most - 2) as f64;
    let edge = |i: usize| 1 + (i as f64 * width) as usize;
    for i in 0..most - 2 {
        let next = &points[edge(i + 1).min(points.len() - 1)..edge(i + 2).min(points.len())];
        let next = if next.is_empty() { &points[points.len() - 1..] } else { next };
        let mean = |f: fn(&(f64, f64)) -> f64| next.iter().map(f).sum::<f64>() / next.len() as f64;
        let (ahead, a) = ((mean(|p| p.0), mean(|p| p.1)), kept[kept.len() - 1]);
        let area = |p: &(f64, f64)| ((a.0 - ahead.0) * (p.1 - a.1) - (a.0 - p.0) * (ahead.1 - a.1)).abs();
        let bucket = &points[edge(i)..edge(i + 1).min(points.len() - 1)];
        kept.extend(bucket.iter().max_by(|p, q| area(p).total_cmp(&area(q))));
    }
    kept.push(points[points.len() - 1]);
    kept
}

/// Of one row of the table: from zero to the most, on one time.
struct Scale {
    first: f64,
    last: f64,
    tps: f64,
    rss: f64,
}

type What = fn(&Second) -> Option<f64>;

/// A picture is that many units wide and high; throughput ends where memory begins.
const WIDTH: f64 = 160.0;
const HEIGHT: f64 = 64.0;
const MIDDLE: f64 = 40.0;
/// More points than this cannot be told apart in it.
const MOST: usize = 60;

impl Scale {
    fn of<'a>(trials: impl Iterator<Item = &'a Record> + Clone) -> Self {
        let all = |what: What| trials.clone().flat_map(|r| &r.series).filter_map(what).filter(|v| v.is_finite());
        let first = all(|s| Some(s.at)).fold(0.0, f64::min);
        Self {
            first,
            last: all(|s| Some(s.at)).fold(first + 1.0, f64::max),
            tps: all(|s| s.tps).fold(0.0, f64::max),
            rss: all(|s| s.rss).fold(0.0, f64::max),
        }
    }

    fn x(&self, at: f64) -> i64 {
        ((at - self.first) / (self.last - self.first) * WIDTH).round() as i64
    }

    /// The trials of one cell over each other.
    fn draw(&self, m: &mut Markup, trials: &[&Record], place: usize, title: &str) {
        let size = format!("0 0 {WIDTH} {HEIGHT}");
        m.el("svg").class(format!("spark {}", look(place))).at("viewBox", size).at("role", "img").with(|m| {
            m.leaf("title", title);
            let begin = self.x(0.0);
            let rules = format!("M0 {MIDDLE}H{WIDTH}M0 {HEIGHT}H{WIDTH}M{begin} 0V{HEIGHT}");
            m.el("path").class("base").at("d", rules).done();
            let tps = trials.iter().map(|r| self.line(r, |s| s.tps, self.tps, 2.0, MIDDLE)).collect::<String>();
            let rss =
                trials.iter().map(|r| self.line(r, |s| s.rss, self.rss, MIDDLE + 4.0, HEIGHT)).collect::<String>();
            for (class, path) in [("tps", tps), ("rss", rss)].into_iter().filter(|(_, path)| !path.is_empty()) {
                m.el("path").class(class).at("d", path).done();
            }
        });
    }

    /// One trial as a path of small whole steps, which is the shortest way to write it.
    fn line(&self, trial: &Record, what: What, most: f64, top: f64, bottom: f64) -> String {
        let points = trial.series.iter().filter_map(|s| Some((s.at, what(s)?)));
        let points: Vec<(f64, f64)> = points.filter(|(t, v)| t.is_finite() && v.is_finite()).collect();
        let mut places = thinned(&points, MOST).into_iter().map(|(t, v)| {
            let part = if most > 0.0 { v / most } else { 0.0 };
            (self.x(t), (bottom - part * (bottom - top)).round() as i64)
        });
        let Some(mut at) = places.next() else { return String::new() };
        let mut path = format!("M{} {}l", at.0, at.1);
        for to in places {
            let _ = write!(path, "{} {} ", to.0 - at.0, to.1 - at.1);
            at = to;
        }
        match path.ends_with('l') {
            // A single second is no line.
            true => String::new(),
            false => path.trim_end().replace(" -", "-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_ends_and_peaks() {
        let mut points: Vec<(f64, f64)> = (0..600).map(|i| (f64::from(i), 100.0)).collect();
        points[317].1 = 0.0;
        let kept = thinned(&points, 60);
        assert!(kept.len() <= 60);
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.contains(&(317.0, 0.0)), "a stall of one second must stay");
        assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(thinned(&points[..5], 60), points[..5]);
    }

    #[test]
    fn a_line_ends_where_its_last_second_is() {
        let second = |at: f64, tps: f64| Second { at, tps: Some(tps), ..Second::default() };
        let mut record: Record = serde_json::from_value(serde_json::json!({
            "schema": 1, "trial": "t", "cell": { "test": "t", "heap": "h", "clients": 1 }, "round": 0, "order": 0,
            "direction": "up", "started": "", "outcome": { "is": "valid" }
        }))
        .expect("a record");
        record.series = vec![second(-1.0, 0.0), second(0.0, 100.0), second(1.0, f64::NAN), second(3.0, 50.0)];
        let scale = Scale::of([&record].into_iter());
        assert_eq!((scale.first, scale.last, scale.tps, scale.rss), (-1.0, 3.0, 100.0, 0.0));
        assert_eq!(scale.line(&record, |s| s.tps, scale.tps, 2.0, 40.0), "M0 40l40-38 120 19");
        record.series.truncate(1);
        assert_eq!(scale.line(&record, |s| s.tps, scale.tps, 2.0, 40.0), "");
        assert_eq!(scale.line(&record, |s| s.rss, scale.rss, 2.0, 40.0), "");
    }
}
