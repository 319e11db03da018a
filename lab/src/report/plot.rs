//! Curves over client counts. A chart is a pure picture of its series: each has a colour, a dash pattern and its name at the
//! end of its line, so that it can be told from the others without colour. Nothing is drawn at a place where nothing was
//! measured.

use super::markup::{Markup, Px};
use super::scale::{Kind, Scale, spread};
use super::words;
use crate::analysis::{Estimate, Metric};
use std::fmt::Write as _;

/// Colours and lines of curves: part of the page, and all the style of a picture that stands alone.
pub const CSS: &str = include_str!("plot.css");

const NAMESPACE: &str = "http://www.w3.org/2000/svg";

/// Width of a letter over its height, generously.
const LETTER: f64 = 0.6;

/// There are that many colours; a variant beyond them has a colour again, with another dash pattern.
pub const COLOURS: usize = 9;

/// The class that gives a variant its colour and dash pattern, by its place among all variants of the report.
pub fn look(place: usize) -> String {
    match place / COLOURS {
        0 => format!("k{place}"),
        _ => format!("k{} again", place % COLOURS),
    }
}

pub struct Fall {
    pub after: u32,
    /// What the points before the fall predict at `after`, and what was measured over it.
    pub predicted: f64,
    pub factor: f64,
}

pub struct Series<'a> {
    pub name: &'a str,
    /// Among all variants of the report.
    pub place: usize,
    /// Ascending by clients.
    pub points: Vec<(u32, Estimate)>,
    pub fall: Option<Fall>,
}

pub struct Chart<'a> {
    pub metric: Metric,
    /// For readers who cannot see it.
    pub title: String,
    pub clients: &'a [u32],
    pub series: Vec<Series<'a>>,
}

/// Paper and type. `text` is the size of the letters, `label` the room for the names at the ends of the lines.
#[derive(Clone, Copy)]
pub struct Size {
    pub class: &'static str,
    pub width: f64,
    pub height: f64,
    pub text: f64,
    pub label: (f64, f64),
    pub dot: f64,
    /// Whether the last value stands beside the name.
    pub values: bool,
}

pub const WIDE: Size =
    Size { class: "wide", width: 960.0, height: 440.0, text: 13.0, label: (90.0, 240.0), dot: 3.0, values: true };
pub const NARROW: Size =
    Size { class: "narrow", width: 380.0, height: 330.0, text: 12.0, label: (50.0, 110.0), dot: 2.4, values: false };
pub const SMALL: Size =
    Size { class: "small", width: 340.0, height: 220.0, text: 11.0, label: (46.0, 104.0), dot: 1.9, values: false };

impl Chart<'_> {
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|s| s.points.is_empty())
    }

    /// Whether ratios can be shown: nothing at or below zero.
    pub fn can_be_log(&self) -> bool {
        !self.is_empty() && self.values().all(|v| v > 0.0)
    }

    /// Whether any figure comes from more than one round: only then there are medians and intervals.
    pub fn has_intervals(&self) -> bool {
        self.series.iter().flat_map(|s| &s.points).any(|(_, e)| e.rounds > 1)
    }

    /// Where values lie far apart, equal ratios tell more than equal steps.
    pub fn kind(&self) -> Kind {
        let medians = || self.series.iter().flat_map(|s| s.points.iter().map(|(_, e)| e.median));
        let (least, most) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
        if self.can_be_log() && most > 6.0 * least { Kind::Log } else { Kind::Linear }
    }

    /// Medians, and what points before a fall predict: what has to be seen.
    fn values(&self) -> impl Iterator<Item = f64> {
        let per = words::about(self.metric).per;
        self.series.iter().flat_map(move |s| {
            let predicted = s.fall.iter().map(|f| f.predicted);
            s.points.iter().map(|(_, e)| e.median).chain(predicted).map(move |v| v / per)
        })
    }

    /// Ends of intervals, but for those that would leave the curves no room: their bars are cut.
    fn ends(&self, least: f64, most: f64) -> impl Iterator<Item = f64> {
        let per = words::about(self.metric).per;
        let ends = self.series.iter().flat_map(|s| &s.points).flat_map(|(_, e)| [e.low, e.high]);
        ends.map(move |v| (v / per).clamp(least, most))
    }

    /// A part of a page, which has `CSS`. `id` is unique in it.
    pub fn draw(&self, size: &Size, kind: Kind, id: &str) -> Markup {
        let frame = self.frame(size, kind);
        let xs = self.clients.iter().map(|n| Px(frame.x.at(f64::from(*n))).to_string());
        let mut m = Markup::new();
        m.el("svg")
            .at("xmlns", NAMESPACE)
            .class(format!("chart {}", size.class))
            .at("viewBox", format!("0 0 {} {}", Px(size.width), Px(size.height)))
            .at("role", "img")
            .at("aria-labelledby", format!("{id}t {id}d"))
            .at("font-size", Px(size.text))
            // For the script: which table has the figures, and where the client counts and the paper's edges are.
            .at("data-metric", words::about(self.metric).key)
            .at("data-n", self.clients.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
            .at("data-x", xs.collect::<Vec<_>>().join(" "))
            .at("data-plot", format!("{} {}", Px(frame.top), Px(frame.bottom)))
            .with(|m| self.paint(m, size, &frame, id));
        m
    }

    /// A picture with its title, its style and its own paper.
    pub fn alone(&self, size: &Size, kind: Kind) -> Markup {
        const EDGE: f64 = 22.0;
        const HEAD: f64 = 30.0;
        let (width, height) = (size.width + 2.0 * EDGE, size.height + 2.0 * EDGE + HEAD);
        let mut m = Markup::new();
        m.el("svg")
            .at("xmlns", NAMESPACE)
            .class(format!("chart {}", size.class))
            .at("viewBox", format!("{} {} {} {}", Px(-EDGE), Px(-EDGE - HEAD), Px(width), Px(height)))
            .px("width", width)
            .px("height", height)
            .at("role", "img")
            .at("aria-labelledby", "t d")
            .at("font-size", Px(size.text))
            .with(|m| {
                m.el("style").raw(CSS);
                let paper = m.el("rect").class("paper").px("x", -EDGE).px("y", -EDGE - HEAD);
                paper.px("width", width).px("height", height).done();
                let head = m.el("text").class("head").px("x", 0.0).px("y", -HEAD / 2.0);
                head.at("font-size", Px(size.text * 1.25)).text(&self.title);
                self.paint(m, size, &self.frame(size, kind), "");
            });
        m
    }

    fn paint(&self, m: &mut Markup, size: &Size, frame: &Frame, id: &str) {
        m.el("title").at("id", format!("{id}t")).text(&self.title);
        m.el("desc").at("id", format!("{id}d")).text(self.spoken());
        self.axes(m, size, frame);
        self.lines(m, size, frame);
        self.falls(m, size, frame);
        self.names(m, size, frame);
    }

    fn frame(&self, size: &Size, kind: Kind) -> Frame {
        let digit = size.text * LETTER;
        let (top, bottom) = (size.text * 2.4, size.height - size.text * 2.6);
        let steps = ((bottom - top) / (size.text * 4.2)) as usize;
        let y = match kind {
            Kind::Log => {
                let (least, most) = (self.values().fold(f64::INFINITY, f64::min), self.values().fold(0.0, f64::max));
                Scale::log(self.values().chain(self.ends(least / 2.0, most * 2.0)), steps, bottom, top)
            }
            Kind::Linear => {
                let (least, most) = (self.values().fold(0.0, f64::min), self.values().fold(0.0, f64::max));
                let most = self.ends(least, most * 1.5).fold(most, f64::max);
                Scale::linear(least, most, steps, bottom, top)
            }
        };
        let longest = y.ticks.iter().map(|t| tick(*t).chars().count()).max().unwrap_or(1);
        let left = longest as f64 * digit + 10.0;
        let name = |s: &Series| s.name.chars().count() + if size.values { 8 } else { 0 };
        let wanted = self.series.iter().map(name).max().unwrap_or(0) as f64 * digit + 14.0;
        let right = size.width - wanted.clamp(size.label.0, size.label.1);
        let inset = size.text * 0.8;
        let x = Scale::counts(self.clients, digit * 5.0, left + inset, right - inset);
        Frame { x, y, left, right, top, bottom }
    }

    fn axes(&self, m: &mut Markup, size: &Size, f: &Frame) {
        let about = words::about(self.metric);
        m.el("g").class("axis").with(|m| {
            let unit = if f.y.is_log() { format!("{}, log scale", about.unit) } else { about.unit.into() };
            m.el("text").class("unit").px("x", 0.0).px("y", size.text).text(unit);
            for t in &f.y.ticks {
                let y = f.y.at(*t);
                m.el("path").class("grid").at("d", format!("M{} {}H{}", Px(f.left), Px(y), Px(f.right))).done();
                m.el("text")
                    .at("text-anchor", "end")
                    .px("x", f.left - 6.0)
                    .px("y", y + size.text * 0.34)
                    .text(tick(*t));
            }
            let mut base = format!("M{} {}H{}", Px(f.left), Px(f.bottom), Px(f.right));
            for n in self.clients {
                let _ = write!(base, "M{} {}v4", Px(f.x.at(f64::from(*n))), Px(f.bottom));
            }
            m.el("path").class("base").at("d", base).done();
            for n in &f.x.ticks {
                m.el("text")
                    .at("text-anchor", "middle")
                    .px("x", f.x.at(*n))
                    .px("y", f.bottom + size.text * 1.45)
                    .text(words::whole(*n));
            }
            let last = f.x.ticks.last().map_or(f.right, |n| {
                let half = words::whole(*n).chars().count() as f64 * size.text * LETTER / 2.0;
                f.x.at(*n) + half + size.text * 0.4
            });
            m.el("text")
                .class("unit")
                .px("x", last.max(f.right + 8.0))
                .px("y", f.bottom + size.text * 1.45)
                .text("clients");
        });
    }

    fn lines(&self, m: &mut Markup, size: &Size, f: &Frame) {
        let per = words::about(self.metric).per;
        // The baseline, which is the first, lies on top.
        for s in self.series.iter().rev().filter(|s| !s.points.is_empty()) {
            let (mut line, mut bars) = (String::new(), String::new());
            for (n, e) in &s.points {
                let (x, y) = (Px(f.x.at(f64::from(*n))), Px(f.y.at(e.median / per)));
                let _ = write!(line, "{x},{y} ");
                let (low, high) = (f.y.at(e.low / per), f.y.at(e.high / per));
                if low - high >= 0.5 {
                    let _ = write!(bars, "M{x} {}V{}", Px(low), Px(high));
                }
            }
            m.el("g").class(format!("curve {}", look(s.place))).at("data-v", s.place).with(|m| {
                if !bars.is_empty() {
                    m.el("path").class("bars").at("d", &bars).done();
                }
                m.el("polyline").class("line").at("points", line.trim_end()).done();
                for (n, e) in &s.points {
                    m.el("circle")
                        .at("data-n", n)
                        .px("cx", f.x.at(f64::from(*n)))
                        .px("cy", f.y.at(e.median / per))
                        .px("r", size.dot)
                        .done();
                }
            });
        }
    }

    /// From where the points before the fall predict the curve to where it is.
    fn falls(&self, m: &mut Markup, size: &Size, f: &Frame) {
        let per = words::about(self.metric).per;
        let mut falls = vec![];
        for s in &self.series {
            let Some(fall) = &s.fall else { continue };
            let Some((n, e)) = s.points.iter().find(|(n, _)| *n == fall.after) else { continue };
            let (from, to) = (f.y.at(fall.predicted / per), f.y.at(e.median / per));
            falls.push((s, fall, f.x.at(f64::from(*n)), from, to));
        }
        for (i, (s, fall, x, from, to)) in falls.iter().enumerate() {
            // Falls at the same count stand beside each other, their figures below each other.
            let same = falls.iter().take(i).filter(|other| other.2 == *x).count() as f64;
            let x = x + same * 5.0;
            let mates: Vec<f64> = falls.iter().filter(|o| o.2 == falls[i].2).map(|o| (o.3 + o.4) / 2.0).collect();
            let y = spread(&mates, size.text * 1.3, f.top, f.bottom)[same as usize];
            // After the fall the curve lies low, so that there is room to the right, but for the names at the end.
            let (anchor, beside) = match Some(&fall.after) == self.clients.last() {
                true => ("end", -7.0),
                false => ("start", 7.0),
            };
            m.el("g").class(format!("fall {}", look(s.place))).at("data-v", s.place).with(|m| {
                m.el("path").class("drop").at("d", format!("M{} {}V{}", Px(x), Px(*from), Px(*to))).done();
                m.el("path").class("foreseen").at("d", format!("M{} {}h10", Px(x - 5.0), Px(*from))).done();
                m.el("text")
                    .class("factor")
                    .at("text-anchor", anchor)
                    .px("x", x + beside)
                    .px("y", y + size.text * 0.34)
                    .text(match size.values {
                        true => format!("cliff {}", words::factor(fall.factor)),
                        false => words::factor(fall.factor),
                    });
            });
        }
    }

    fn names(&self, m: &mut Markup, size: &Size, f: &Frame) {
        let about = words::about(self.metric);
        let ends: Vec<(&Series, f64, f64, f64)> = self
            .series
            .iter()
            .filter_map(|s| {
                let (n, e) = s.points.last()?;
                Some((s, f.x.at(f64::from(*n)), f.y.at(e.median / about.per), e.median))
            })
            .collect();
        let wanted: Vec<f64> = ends.iter().map(|e| e.2).collect();
        let places = spread(&wanted, size.text * 1.25, size.text * 0.8, f.bottom);
        let room =
            ((size.width - f.right - 14.0) / (size.text * LETTER)).round() as usize - if size.values { 8 } else { 0 };
        for ((s, x, y, last), place) in ends.into_iter().zip(places) {
            m.el("g").class(format!("name {}", look(s.place))).at("data-v", s.place).with(|m| {
                if (place - y).abs() > 2.0 || f.right - x > size.text * 2.0 {
                    let from = x + size.dot + 2.0;
                    m.el("path")
                        .class("lead")
                        .at("d", format!("M{} {}L{} {}", Px(from), Px(y), Px(f.right + 4.0), Px(place)))
                        .done();
                }
                m.el("text").px("x", f.right + 8.0).px("y", place + size.text * 0.34).with(|m| {
                    m.text(shortened(s.name, room));
                    if size.values {
                        m.el("tspan").class("unit").at("dx", 6).text(words::number(last / about.per));
                    }
                });
            });
        }
    }

    fn spoken(&self) -> String {
        let about = words::about(self.metric);
        let curve = |s: &Series| {
            let points: Vec<String> =
                s.points.iter().map(|(n, e)| format!("{} at {n}", words::number(e.median / about.per))).collect();
            let fall = s.fall.as_ref().map_or(String::new(), |f| {
                format!("; cliff before {} clients, {} of what was to be expected", f.after, words::factor(f.factor))
            });
            format!("{}: {}{fall}", s.name, points.join(", "))
        };
        let curves: Vec<String> = self.series.iter().filter(|s| !s.points.is_empty()).map(curve).collect();
        format!("{}, by clients. {}.", about.unit, curves.join(". "))
    }
}

struct Frame {
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A round value with the decimals it has.
fn tick(t: f64) -> String {
    let exact = |decimals: usize| {
        let shown = t * 10f64.powi(decimals as i32);
        (shown - shown.round()).abs() < 1e-6
    };
    match (0..6).find(|decimals| exact(*decimals)).unwrap_or(6) {
        0 => words::whole(t),
        decimals => format!("{t:.decimals$}"),
    }
}

fn shortened(name: &str, room: usize) -> String {
    match name.chars().count() > room.max(4) {
        true => name.chars().take(room.max(4) - 1).chain(['…']).collect(),
        false => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(median: f64) -> Estimate {
        Estimate { median, low: median * 0.9, high: median * 1.1, rounds: 5 }
    }

    fn chart<'a>(clients: &'a [u32], names: &[&'a str]) -> Chart<'a> {
        let series = names.iter().enumerate().map(|(place, name)| Series {
            name,
            place,
            points: clients.iter().map(|n| (*n, estimate(1000.0 * f64::from(*n)))).collect(),
            fall: None,
        });
        Chart { metric: Metric::Tps, title: "T".into(), clients, series: series.collect() }
    }

    #[test]
    fn a_line_per_series_and_nothing_where_nothing_was_measured() {
        let clients = [1, 2, 4, 8];
        let mut c = chart(&clients, &["a", "b", "<c>"]);
        c.series[1].points.truncate(2);
        c.series[2].points.clear();
        let svg = c.draw(&WIDE, Kind::Linear, "x").finish();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 4 + 2);
        assert!(!svg.contains("<c>") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_fall_shows_what_was_foreseen() {
        let clients = [1, 2, 4];
        let mut c = chart(&clients, &["a"]);
        c.series[0].fall = Some(Fall { after: 4, predicted: 9756.0, factor: 0.41 });
        for size in [WIDE, NARROW, SMALL] {
            let svg = c.draw(&size, Kind::Linear, "x").finish();
            assert!(svg.contains("×0.410") && svg.contains("class=\"drop\""), "{svg}");
        }
        c.series[0].points.pop();
        assert!(!c.draw(&WIDE, Kind::Log, "x").finish().contains("drop"));
    }

    #[test]
    fn empty_and_odd_charts_are_drawn() {
        let c = Chart { metric: Metric::LatencyP95, title: String::new(), clients: &[], series: vec![] };
        assert!(c.is_empty() && !c.can_be_log());
        assert!(!c.draw(&SMALL, Kind::Log, "x").finish().contains("NaN"));
        let clients = [0];
        let mut c = chart(&clients, &["only"]);
        c.series[0].points[0].1 = estimate(f64::INFINITY);
        let svg = c.draw(&NARROW, Kind::Linear, "x").finish();
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
    }

    #[test]
    fn ticks_have_the_decimals_they_need() {
        let shown = [0.0, 20_000.0, 1.0, 2.5, 0.05, 0.1 + 0.2].map(tick);
        assert_eq!(shown, ["0", "20,000", "1", "2.5", "0.05", "0.3"]);
    }
}
