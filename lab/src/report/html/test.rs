//! A test's part of the page: the curve, the verdicts at a glance, the shapes, the other curves, the figures.

use super::super::Page;
use super::super::facts::Facts;
use super::super::markup::Markup;
use super::super::plot::{self, look};
use super::super::scale::Kind;
use super::super::words::{self, Aim, about};
use super::{capital, column, key, note, place, scroll, sentence};
use crate::analysis::{Comparison, Estimate, Metric};

pub(super) fn test(m: &mut Markup, page: &Page, i: usize, facts: &Facts, places: &[&str]) {
    let test = facts.test;
    m.leaf("h2", &test.test);
    let metric = test.throughput;
    main_figure(m, i, facts, places, metric);
    if test.sentence != page.analysis.sentence {
        sentence(m, "p", &test.sentence);
    }
    glance(m, facts, places);
    shapes(m, facts, places);
    let rest: Vec<Metric> = facts.metrics().into_iter().filter(|x| *x != metric).collect();
    if !rest.is_empty() {
        m.el("div").class("multiples").with(|m| {
            for metric in &rest {
                let Some(chart) = facts.chart(*metric, places) else { continue };
                m.el("figure").with(|m| {
                    m.el("figcaption").with(|m| {
                        m.leaf("b", capital(about(*metric).name));
                        m.text(aim(*metric));
                    });
                    let kind = chart.kind();
                    m.append(&chart.draw(&plot::SMALL, kind, &format!("t{i}{}", about(*metric).key)));
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
    m.el("figure").class("main").with(|m| {
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
                    m.append(&chart.draw(&size, kind, &format!("t{i}{class}{}", size.class)));
                }
            });
        }
        m.el("figcaption").with(|m| {
            m.leaf("b", capital(about(metric).name));
            m.text(format!(" against clients{}.", aim(metric)));
            m.text(match chart.has_intervals() {
                true => " Dots are medians of the rounds, bars their 95 % intervals.",
                false => " Each dot is one trial: there is no interval.",
            });
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
                    words::whole(first.map_or(0.0, |n| f64::from(*n))),
                    words::whole(last.map_or(0.0, |n| f64::from(*n)))
                ));
                for (i, v) in words::VERDICTS.into_iter().enumerate() {
                    if i > 0 {
                        m.text(", ");
                    }
                    m.el("i").class(words::word(v)).at("aria-hidden", "true").text(words::mark(v));
                    m.text(format!("\u{a0}{}", words::word(v)));
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
                                marks(m, facts, name, *metric);
                            });
                        }
                    });
                }
            });
        });
    });
}

/// Marks for who sees them, and the same in words for who listens.
fn marks(m: &mut Markup, facts: &Facts, variant: &str, metric: Metric) {
    let mut runs: Vec<(&str, u32, u32)> = vec![];
    m.el("span").at("aria-hidden", "true").with(|m| {
        for n in &facts.test.clients {
            let Some(c) = facts.comparison(variant, *n, metric) else {
                m.el("i").text("·");
                continue;
            };
            let (word, change) = (words::word(c.verdict), words::change(c.change.median));
            m.el("i").class(word).at("title", format!("{n}: {change}")).text(words::mark(c.verdict));
            match runs.last_mut() {
                Some((same, _, last)) if *same == word => *last = *n,
                _ => runs.push((word, *n, *n)),
            }
        }
    });
    let told = runs.iter().map(|(word, first, last)| match first == last {
        true => format!("{word} at {first}"),
        false => format!("{word} from {first} to {last}"),
    });
    m.el("span").class("unseen").text(told.collect::<Vec<_>>().join(", "));
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

/// The delta table: every client count, every variant against the baseline.
fn figures(m: &mut Markup, facts: &Facts, places: &[&str], metric: Metric) {
    let test = facts.test;
    let about = about(metric);
    scroll(m, |m| {
        // Named so that the script finds the words to show at a place of a curve.
        m.el("table").class("figures").at("data-metric", about.key).at("data-unit", about.unit).with(|m| {
            m.el("caption").with(|m| {
                m.leaf("b", format!("{} in figures", capital(about.name)));
                m.text(format!(", {}: median and 95 % interval of the rounds", about.unit));
                if let Some(margin) = facts.margin(metric) {
                    let margin = words::percent(margin);
                    m.text(format!(
                        ", then the change against {}, its verdict, interval and p. A change within ±{margin} counts \
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
        m.text(format!("{} ", words::word(c.verdict)));
        m.leaf("b", words::change(c.change.median));
    });
    note(m, words::change_interval(&c.change));
    let sure: Vec<String> = [c.p.map(words::p_value), words::more_rounds(c)].into_iter().flatten().collect();
    note(m, (!sure.is_empty()).then(|| sure.join(", ")));
}
