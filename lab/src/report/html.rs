//! The page: one file that needs nothing else, reads without its script, prints, and follows the reader's light or dark mode.
//! From top to bottom as a reader asks: the answer, the curves, the figures, then what they rest on.

use super::Page;
use super::facts::Facts;
use super::markup::Markup;
use super::plot::{self, look};
use super::scale::Kind;
use super::words::{self, Aim, about};
use crate::analysis::{Comparison, Estimate, Metric, Verdict};
use crate::record::{Outcome, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PAGE_CSS: &str = include_str!("page.css");
const PAGE_JS: &str = include_str!("page.js");

pub fn html(page: &Page) -> String {
    let places = page.variants();
    let tests: Vec<Facts> = page.analysis.tests.iter().map(Facts::new).collect();
    let mut m = Markup::new();
    m.raw("<!doctype html>\n");
    m.el("html").at("lang", "en").with(|m| {
        m.el("head").with(|m| head(m, page));
        m.el("body").with(|m| {
            m.el("header").with(|m| answer(m, page));
            m.el("main").with(|m| {
                legend(m, &places, page);
                for (i, facts) in tests.iter().enumerate() {
                    m.el("section").class("test").at("id", format!("test-{i}")).with(|m| {
                        test(m, i, facts, &places);
                    });
                }
                m.el("section").at("id", "proofs").with(|m| proofs(m, page.records));
                m.el("section").at("id", "left-out").with(|m| left_out(m, page));
                m.el("section").at("id", "trials").with(|m| trials(m, page, &places));
                m.el("section").at("id", "environment").with(|m| environment(m, page.environment));
                m.el("section").at("id", "redo").with(|m| redo(m, page));
                m.el("section").at("id", "limits").with(|m| limits(m, page));
            });
            for (i, facts) in tests.iter().enumerate() {
                m.data(format!("data-{i}"), &hover(facts));
            }
            m.el("div").at("id", "tip").at("role", "status").at("hidden", "").text("");
            m.el("script").raw(PAGE_JS);
        });
    });
    m.raw("\n");
    m.finish()
}

fn head(m: &mut Markup, page: &Page) {
    m.raw("<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    m.raw("<meta name=\"color-scheme\" content=\"light dark\"><meta name=\"generator\" content=\"evenkeel report\">");
    m.leaf("title", format!("{} – Evenkeel", page.analysis.title));
    m.el("style").with(|m| {
        m.raw(super::CURVE_CSS);
        m.raw(PAGE_CSS);
    });
}

fn answer(m: &mut Markup, page: &Page) {
    let a = page.analysis;
    m.el("p").class("over").with(|m| {
        m.leaf("b", &a.title);
        m.text(format!(" · {}", page.folder));
    });
    m.leaf("h1", &a.sentence);
    m.el("p").class("under").with(|m| {
        m.text(page.extent());
        m.text(" ");
        if !a.not_counted.is_empty() {
            let n = words::counted(a.not_counted.len(), "trial does", "trials do");
            m.el("a").at("href", "#left-out").text(format!("{n} not count."));
            m.text(" ");
        }
        m.text(words::margin(&a.margin));
        if !a.limits.is_empty() {
            m.text(" ");
            let n = words::counted(a.limits.len(), "limit", "limits");
            m.el("a").at("href", "#limits").text(format!("{n} of this answer."));
        }
    });
}

/// Which line is which; with the script, each entry switches its line off and on.
fn legend(m: &mut Markup, places: &[&str], page: &Page) {
    m.el("nav").class("legend").at("aria-label", "variants").with(|m| {
        for (i, name) in places.iter().enumerate() {
            m.el("button")
                .at("type", "button")
                .at("data-v", i)
                .at("data-name", name)
                .at("aria-pressed", "true")
                .class(look(i))
                .with(|m| {
                    key(m);
                    m.text(name);
                    if *name == page.analysis.baseline {
                        m.el("small").text(" baseline");
                    }
                });
        }
    });
}

fn key(m: &mut Markup) {
    m.el("svg").class("key").at("viewBox", "0 0 34 8").at("aria-hidden", "true").with(|m| {
        m.el("path").class("line").at("d", "M0 4H34").done();
    });
}

fn test(m: &mut Markup, i: usize, facts: &Facts, places: &[&str]) {
    let test = facts.test;
    m.leaf("h2", &test.test);
    m.el("p").class("sentence").text(&test.sentence);
    let metric = test.throughput;
    main_figure(m, i, facts, places, metric);
    glance(m, facts, places);
    shapes(m, facts, places);
    let rest: Vec<Metric> = facts.metrics().into_iter().filter(|x| *x != metric).collect();
    if !rest.is_empty() {
        m.el("div").class("multiples").with(|m| {
            for metric in &rest {
                let Some(chart) = facts.chart(*metric, places) else { continue };
                m.el("figure").at("data-test", i).with(|m| {
                    m.el("figcaption").with(|m| {
                        m.leaf("b", capital(about(*metric).name));
                        m.text(aim(*metric));
                    });
                    let kind = chart.kind();
                    m.append(&chart.draw(&plot::SMALL, kind, &format!("t{i}{}", about(*metric).key), None));
                });
            }
        });
    }
    figures(m, facts, places, metric);
    for metric in rest {
        let name = format!("{} in figures", capital(about(metric).name));
        m.el("details").with(|m| {
            m.leaf("summary", name);
            figures(m, facts, places, metric);
        });
    }
}

fn main_figure(m: &mut Markup, i: usize, facts: &Facts, places: &[&str], metric: Metric) {
    let Some(chart) = facts.main_chart(places) else { return };
    m.el("figure").class("main").at("data-test", i).with(|m| {
        let log = chart.can_be_log();
        if log {
            // Radio buttons that the style sheet obeys: they work without the script.
            for (kind, words) in [("linear", "linear"), ("log", "log")] {
                let id = format!("{kind}-{i}");
                let radio = m.el("input").at("type", "radio").at("name", format!("y-{i}")).at("id", &id).class(kind);
                match kind {
                    "linear" => radio.at("checked", "").done(),
                    _ => radio.done(),
                }
                m.el("label").at("for", &id).text(words);
            }
        }
        for (kind, class) in [(Kind::Linear, "linear"), (Kind::Log, "log")] {
            if kind == Kind::Log && !log {
                continue;
            }
            m.el("div").class(format!("scale {class}")).with(|m| {
                for size in [plot::WIDE, plot::NARROW] {
                    m.append(&chart.draw(&size, kind, &format!("t{i}{class}{}", size.class), None));
                }
            });
        }
        m.el("figcaption").with(|m| {
            m.leaf("b", capital(about(metric).name));
            m.text(format!(" against clients{}.", aim(metric)));
            m.text(" Dots are medians of the rounds, bars their 95 % intervals.");
            if chart.series.iter().any(|s| s.fall.is_some()) {
                m.text(
                    " A dotted drop marks a cliff: it begins where the points before it predict the curve; the figure is \
                     measured over predicted.",
                );
            }
        });
    });
}

fn aim(metric: Metric) -> &'static str {
    match about(metric).aim {
        Aim::More => "; more is better",
        Aim::Less => "; less is better",
        Aim::Neither => "",
    }
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// All verdicts of a test in one small table: a mark for each client count, fewest first.
fn glance(m: &mut Markup, facts: &Facts, places: &[&str]) {
    let test = facts.test;
    let metrics: Vec<Metric> = facts.metrics().into_iter().filter(|x| facts.margin(*x).is_some()).collect();
    let others: Vec<&str> = test.curves.iter().map(|c| c.variant.as_str()).filter(|v| *v != test.baseline).collect();
    if metrics.is_empty() || others.is_empty() {
        return;
    }
    scroll(m, |m| {
        m.el("table").class("glance").with(|m| {
            m.el("caption").with(|m| {
                m.leaf("b", "Verdicts at a glance");
                let (first, last) = (test.clients.first(), test.clients.last());
                m.text(format!(
                    ": against {}, a mark for each client count from {} to {}. ",
                    test.baseline,
                    first.unwrap_or(&0),
                    last.unwrap_or(&0)
                ));
                for (i, v) in words::VERDICTS.into_iter().enumerate() {
                    if i > 0 {
                        m.text(", ");
                    }
                    mark(m, v);
                    m.text(format!(" {}", words::word(v)));
                }
                m.text(".");
            });
            m.el("thead").with(|m| {
                m.el("tr").with(|m| {
                    m.el("td").text("");
                    for name in &others {
                        column(m, name, places);
                    }
                });
            });
            m.el("tbody").with(|m| {
                for metric in &metrics {
                    m.el("tr").with(|m| {
                        m.el("th").at("scope", "row").text(capital(about(*metric).name));
                        for name in &others {
                            m.el("td").class("marks").at("data-v", place(places, name)).with(|m| {
                                for n in &test.clients {
                                    match facts.comparison(name, *n, *metric) {
                                        Some(c) => one_mark(m, c),
                                        None => m.el("i").at("title", format!("{n} clients: no figure")).text("·"),
                                    }
                                }
                            });
                        }
                    });
                }
            });
        });
    });
}

fn one_mark(m: &mut Markup, c: &Comparison) {
    let (word, change) = (words::word(c.verdict), words::change(c.change.median));
    m.el("i")
        .class(word)
        .at("title", format!("{} clients: {word}, {change}", c.clients))
        .at("aria-label", format!("{} clients {word},", c.clients))
        .at("role", "img")
        .text(words::mark(c.verdict));
}

fn mark(m: &mut Markup, v: Verdict) {
    m.el("i").class(words::word(v)).at("aria-hidden", "true").text(words::mark(v));
}

fn place(places: &[&str], name: &str) -> usize {
    places.iter().position(|p| *p == name).unwrap_or(0)
}

fn column(m: &mut Markup, name: &str, places: &[&str]) {
    let v = place(places, name);
    m.el("th").at("scope", "col").at("data-v", v).class(look(v)).with(|m| {
        key(m);
        m.text(name);
    });
}

/// Wide tables scroll in themselves, not the page.
fn scroll(m: &mut Markup, inner: impl FnOnce(&mut Markup)) {
    m.el("div").class("scroll").at("tabindex", "0").with(inner);
}

fn shapes(m: &mut Markup, facts: &Facts, places: &[&str]) {
    let metric = facts.test.throughput;
    let summary = [Metric::MemoryPeak, Metric::MemoryIdle].into_iter().filter(|x| facts.metrics().contains(x));
    let summary: Vec<Metric> = summary.collect();
    scroll(m, |m| {
        m.el("table").with(|m| {
            m.el("caption").with(|m| {
                m.leaf("b", "The shape of each curve");
                m.text(
                    ": its peak and at how many clients, what is left of it at the end, its cliff, the model that fits \
                     best, way down against way up, the most memory.",
                );
            });
            m.el("thead").with(|m| {
                m.el("tr").with(|m| {
                    m.el("th").at("scope", "col").class("left").text("");
                    for name in ["peak", "at", "end / peak", "cliff", "model", "down / up"] {
                        m.el("th").at("scope", "col").text(name);
                    }
                    for x in &summary {
                        m.el("th").at("scope", "col").text(about(*x).short);
                    }
                });
            });
            m.el("tbody").with(|m| {
                for curve in &facts.test.curves {
                    let s = &curve.shape;
                    m.el("tr").at("data-v", place(places, &curve.variant)).with(|m| {
                        m.el("th").at("scope", "row").class(look(place(places, &curve.variant))).with(|m| {
                            key(m);
                            m.text(&curve.variant);
                        });
                        m.el("td").with(|m| estimate(m, metric, &s.peak));
                        m.el("td").text(words::whole(f64::from(s.peak_clients)));
                        m.el("td").with(|m| {
                            m.text(words::number(s.end_over_peak.median));
                            note(m, spread(&s.end_over_peak));
                        });
                        m.el("td").with(|m| match &s.cliff {
                            None => m.text("none"),
                            Some(c) => {
                                m.leaf("b", words::factor(c.factor.median));
                                m.text(format!(" from {} to {}", c.before, c.after));
                                note(m, spread(&c.factor));
                            }
                        });
                        m.el("td").class("fit").with(|m| match words::model(&s.fit) {
                            None => m.text("–"),
                            Some((name, parameters)) => {
                                m.text(name);
                                note(m, Some(parameters));
                            }
                        });
                        m.el("td").with(|m| match &s.hysteresis {
                            None => m.text("–"),
                            Some(h) => {
                                m.text(words::change(h.median));
                                note(m, words::change_interval(h));
                            }
                        });
                        for x in &summary {
                            m.el("td").with(|m| match facts.summary(&curve.variant, *x) {
                                None => m.text("–"),
                                Some(e) => estimate(m, *x, e),
                            });
                        }
                    });
                }
            });
        });
    });
}

fn spread(e: &Estimate) -> Option<String> {
    (e.rounds > 1).then(|| format!("{} – {}", words::number(e.low), words::number(e.high)))
}

fn estimate(m: &mut Markup, metric: Metric, e: &Estimate) {
    m.text(words::value(metric, e.median));
    note(m, words::interval(metric, e));
}

/// A second, quieter line in a cell.
fn note(m: &mut Markup, text: Option<String>) {
    if let Some(text) = text {
        m.el("small").text(text);
    }
}

/// The delta table: every client count, every variant against the baseline.
fn figures(m: &mut Markup, facts: &Facts, places: &[&str], metric: Metric) {
    let test = facts.test;
    let about = about(metric);
    scroll(m, |m| {
        m.el("table").class("figures").with(|m| {
            m.el("caption").with(|m| {
                m.leaf("b", format!("{} in figures", capital(about.name)));
                m.text(format!(", {}: median and 95 % interval", about.unit));
                if let Some(margin) = facts.margin(metric) {
                    let margin = words::number(margin * 100.0);
                    m.text(format!(
                        ", then the change against {}, its verdict, interval and p. A change within ±{margin}\u{a0}% counts \
                         as none",
                        test.baseline
                    ));
                }
                m.text(".");
            });
            m.el("thead").with(|m| {
                m.el("tr").with(|m| {
                    m.el("th").at("scope", "col").text("clients");
                    for curve in &test.curves {
                        column(m, &curve.variant, places);
                    }
                });
            });
            m.el("tbody").with(|m| {
                for n in &test.clients {
                    m.el("tr").with(|m| {
                        m.el("th").at("scope", "row").text(words::whole(f64::from(*n)));
                        for curve in &test.curves {
                            m.el("td").at("data-v", place(places, &curve.variant)).with(|m| {
                                match facts.figure(&curve.variant, *n, metric) {
                                    Some(e) => estimate(m, metric, e),
                                    None => m.text("–"),
                                }
                                if let Some(c) = facts.comparison(&curve.variant, *n, metric) {
                                    compared(m, c);
                                }
                            });
                        }
                    });
                }
            });
        });
    });
}

fn compared(m: &mut Markup, c: &Comparison) {
    m.el("span").class(format!("verdict {}", words::word(c.verdict))).with(|m| {
        mark(m, c.verdict);
        m.text(format!(" {} ", words::word(c.verdict)));
        m.leaf("b", words::change(c.change.median));
    });
    note(m, words::change_interval(&c.change));
    let sure: Vec<String> = [c.p.map(words::p_value), words::more_rounds(c)].into_iter().flatten().collect();
    note(m, (!sure.is_empty()).then(|| sure.join(", ")));
}

/// What the script shows at a client count, as words: the script computes nothing.
fn hover(facts: &Facts) -> Value {
    let test = facts.test;
    let names: Vec<&str> = test.curves.iter().map(|c| c.variant.as_str()).collect();
    let mut metrics = serde_json::Map::new();
    for metric in facts.metrics() {
        let at = |n: &u32, name: &&str| {
            let Some(e) = facts.figure(name, *n, metric) else { return Value::Null };
            let change = facts
                .comparison(name, *n, metric)
                .map(|c| format!("{}\u{a0}{}", words::mark(c.verdict), words::change(c.change.median)));
            json!([words::value(metric, e.median), words::interval(metric, e), change, e.median])
        };
        let rows: Vec<Vec<Value>> = test.clients.iter().map(|n| names.iter().map(|v| at(n, v)).collect()).collect();
        let about = about(metric);
        metrics.insert(about.key.into(), json!({ "name": about.name, "unit": about.unit, "rows": rows }));
    }
    json!({ "clients": test.clients, "names": names, "metrics": metrics })
}

/// Each distinct proof once: what did not hold first.
fn proofs(m: &mut Markup, records: &[Record]) {
    m.leaf("h2", "Proofs");
    let mut distinct: BTreeMap<(bool, &str, &str, &str), usize> = BTreeMap::new();
    for p in records.iter().flat_map(|r| &r.proofs) {
        *distinct.entry((p.holds, &p.what, &p.wanted, &p.found)).or_default() += 1;
    }
    if distinct.is_empty() {
        m.leaf("p", "These records carry no proofs: nothing says that they measured what they name.");
        return;
    }
    scroll(m, |m| {
        m.el("table").class("text").with(|m| {
            m.el("caption").text("What had to hold before a trial's figures count, and what was found.");
            header(m, &["", "proof", "wanted", "found", "trials"]);
            m.el("tbody").with(|m| {
                for ((holds, what, wanted, found), n) in &distinct {
                    m.el("tr").with(|m| {
                        let class = if *holds { "holds" } else { "worse" };
                        m.el("td").class(class).text(if *holds { "holds" } else { "fails" });
                        m.leaf("td", what);
                        m.el("td").with(|m| m.leaf("code", wanted));
                        m.el("td").with(|m| m.leaf("code", found));
                        m.el("td").class("right").text(n);
                    });
                }
            });
        });
    });
}

fn header(m: &mut Markup, names: &[&'static str]) {
    m.el("thead").with(|m| {
        m.el("tr").with(|m| {
            for name in names {
                m.el("th").at("scope", "col").text(name);
            }
        });
    });
}

fn left_out(m: &mut Markup, page: &Page) {
    m.leaf("h2", "Trials that do not count");
    let groups = page.left_out();
    if groups.is_empty() {
        m.leaf("p", "None: every trial ran to its end and every proof held.");
    } else {
        scroll(m, |m| {
            m.el("table").class("text").with(|m| {
                m.el("caption")
                    .text("A trial is invalid when a proof failed, and failed when it did not run to its end.");
                header(m, &["why", "trials", "cells"]);
                m.el("tbody").with(|m| {
                    for (why, cells) in groups {
                        m.el("tr").with(|m| {
                            m.leaf("td", why);
                            m.el("td").class("right").text(cells.values().sum::<usize>());
                            m.leaf("td", listed(&cells));
                        });
                    }
                });
            });
        });
    }
    let marks = page.marks();
    if !marks.is_empty() {
        scroll(m, |m| {
            m.el("table").class("text").with(|m| {
                m.el("caption").text("Trials that count, with something the reader should know.");
                header(m, &["mark", "trials", "cells"]);
                m.el("tbody").with(|m| {
                    for (mark, cells) in marks {
                        m.el("tr").with(|m| {
                            m.leaf("td", mark);
                            m.el("td").class("right").text(cells.values().sum::<usize>());
                            m.leaf("td", listed(&cells));
                        });
                    }
                });
            });
        });
    }
}

/// Names, with how often where that is more than once.
fn listed(cells: &BTreeMap<String, usize>) -> String {
    let one = |(cell, n): (&String, &usize)| match n {
        1 => cell.clone(),
        n => format!("{cell} (×{n})"),
    };
    cells.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Every trial, second by second and as a list; collapsed, since only doubt leads here.
fn trials(m: &mut Markup, page: &Page, places: &[&str]) {
    if page.records.is_empty() {
        return;
    }
    m.leaf("h2", "Trials");
    let names = page.names();
    if page.records.iter().any(|r| r.series.len() > 1) {
        m.el("details").class("seconds").with(|m| {
            m.leaf("summary", "Second by second");
            m.el("p").text(
                "Each line is one trial. Above: transactions per second; below: resident memory of the server. Each row has \
                 one scale from zero. A thin upright line marks where the measured window begins.",
            );
            seconds(m, page.records, &names, places);
        });
    }
    m.el("details").class("every").with(|m| {
        m.leaf("summary", format!("Every trial ({})", page.records.len()));
        scroll(m, |m| {
            m.el("table").class("text").with(|m| {
                m.el("caption").text("In the order in which they ran.");
                header(
                    m,
                    &["order", "round", "test", "variant", "clients", "way", "outcome", "tps", "peak MB", "host", ""],
                );
                m.el("tbody").with(|m| {
                    let mut order: Vec<(&Record, &String)> = page.records.iter().zip(&names).collect();
                    order.sort_by_key(|(r, _)| r.order);
                    for (r, name) in order {
                        m.el("tr").with(|m| trial(m, r, name));
                    }
                });
            });
        });
    });
}

fn trial(m: &mut Markup, r: &Record, name: &str) {
    let number = |v: Option<f64>| v.map_or("–".to_string(), words::number);
    m.el("td").class("right").text(r.order);
    m.el("td").class("right").text(r.round);
    m.leaf("td", &r.cell.test);
    m.leaf("td", name);
    m.el("td").class("right").text(r.cell.clients);
    m.leaf("td", if r.direction == crate::record::Direction::Up { "up" } else { "down" });
    match &r.outcome {
        Outcome::Valid => m.leaf("td", "valid"),
        Outcome::Invalid(_) => m.el("td").class("worse").text("invalid"),
        Outcome::Failed(_) => m.el("td").class("worse").text("failed"),
    }
    m.el("td").class("right").text(number(r.figures.tps));
    m.el("td").class("right").text(r.figures.rss_peak.map_or("–".into(), |v| words::value(Metric::MemoryPeak, v)));
    m.el("td").class("right").text(number(r.figures.host_speed));
    m.el("td").with(|m| {
        for (i, path) in r.raw.iter().enumerate() {
            if i > 0 {
                m.text(" ");
            }
            let file = path.rsplit('/').next().unwrap_or(path);
            match address(path) {
                Some(address) => m.el("a").at("href", address).text(file),
                None => m.text(file),
            }
        }
    });
}

/// A path in the sweep's folder as an address relative to the page. None for one that leads out of the folder.
fn address(path: &str) -> Option<String> {
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return None;
    }
    let mut address = String::from("./");
    for b in path.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => address.push(char::from(b)),
            b => address.push_str(&format!("%{b:02X}")),
        }
    }
    Some(address)
}

fn seconds(m: &mut Markup, records: &[Record], names: &[String], places: &[&str]) {
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
                        let all = || row.values().flatten().flat_map(|r| &r.series);
                        let most = |f: fn(&crate::record::Second) -> Option<f64>| {
                            all().filter_map(f).filter(|v| v.is_finite()).fold(0.0, f64::max)
                        };
                        let first = all().map(|s| s.at).filter(|t| t.is_finite()).fold(0.0, f64::min);
                        let last = all().map(|s| s.at).filter(|t| t.is_finite()).fold(first + 1.0, f64::max);
                        let scale = plot::Sparks { first, last, tps: most(|s| s.tps), rss: most(|s| s.rss) };
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

/// Whatever the sweep noted of the machine: scalars of one level are a table, a level below is a table of its own.
fn environment(m: &mut Markup, environment: &Value) {
    m.leaf("h2", "Environment");
    let mut groups: Vec<(String, Vec<(String, String)>)> = vec![];
    gather(String::new(), environment, &mut groups);
    groups.retain(|(_, rows)| !rows.is_empty());
    if groups.is_empty() {
        m.leaf("p", "These records come without an environment.");
    }
    m.el("div").class("environment").with(|m| {
        for (name, rows) in groups {
            m.el("table").class("text").with(|m| {
                m.leaf("caption", if name.is_empty() { "machine and sweep".into() } else { name });
                m.el("tbody").with(|m| {
                    for (key, value) in rows {
                        m.el("tr").with(|m| {
                            m.el("th").at("scope", "row").text(key);
                            m.el("td").with(|m| m.leaf("code", value));
                        });
                    }
                });
            });
        }
    });
}

fn gather(name: String, value: &Value, groups: &mut Vec<(String, Vec<(String, String)>)>) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.replace('_', " "), v)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(i, v)| ((i + 1).to_string(), v)).collect(),
        Value::Null => vec![],
        single => vec![("value".into(), single)],
    };
    let at = groups.len();
    groups.push((name.clone(), vec![]));
    for (key, value) in entries {
        match plain(value) {
            Some(text) => groups[at].1.push((key, text)),
            None if name.is_empty() => gather(key, value, groups),
            None => gather(format!("{name}: {key}"), value, groups),
        }
    }
}

/// A value that fits in a line: no objects in it.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("not known".into()),
        Value::String(s) => Some(s.clone()),
        Value::Array(list) => {
            let parts: Option<Vec<String>> = list.iter().map(|v| plain(v).filter(|_| !v.is_array())).collect();
            Some(parts?.join(", "))
        }
        Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}

fn redo(m: &mut Markup, page: &Page) {
    m.leaf("h2", "How to redo it");
    if !page.redo.is_empty() {
        m.el("pre").with(|m| m.leaf("code", page.redo.join("\n")));
    }
    m.leaf("p", "The experiment:");
    m.el("pre").with(|m| m.leaf("code", page.experiment_toml));
}

fn limits(m: &mut Markup, page: &Page) {
    m.leaf("h2", "Limits of the answer");
    if page.analysis.limits.is_empty() {
        m.leaf("p", "It holds for this load on this machine; the records show no further reason for doubt.");
        return;
    }
    m.el("ul").with(|m| {
        for limit in &page.analysis.limits {
            m.leaf("li", limit);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_files_are_linked_only_inside_the_folder() {
        assert_eq!(address("raw/1 a.txt").as_deref(), Some("./raw/1%20a.txt"));
        assert_eq!(address("javascript:alert(1)").as_deref(), Some("./javascript%3Aalert%281%29"));
        assert_eq!(address("/etc/passwd"), None);
        assert_eq!(address("raw/../../x"), None);
    }

    #[test]
    fn environments_of_any_shape_are_tables() {
        let value = json!({"kernel": "6.1", "cpu": {"model": "X", "flags": ["a", "b"], "cores": [{"id": 0}, {"id": 1}]},
            "thp": null, "nested": [[1], [2]]});
        let mut groups = vec![];
        gather(String::new(), &value, &mut groups);
        let names: Vec<&str> = groups.iter().filter(|g| !g.1.is_empty()).map(|g| g.0.as_str()).collect();
        assert_eq!(names, ["", "cpu", "cpu: cores: 1", "cpu: cores: 2", "nested"]);
        assert!(groups[0].1.contains(&("thp".into(), "not known".into())));
        assert!(groups.iter().any(|g| g.1.contains(&("flags".into(), "a, b".into()))));
    }
}
