//! What the answer rests on: proofs, trials that do not count, every trial, how to redo it, its limits.

use super::super::Page;
use super::super::markup::Markup;
use super::super::words;
use super::{header, scroll, seconds};
use crate::analysis::Metric;
use crate::record::{Direction, Outcome, Record};
use std::collections::BTreeMap;

/// Each distinct proof once: what did not hold first.
pub(super) fn proofs(m: &mut Markup, records: &[Record]) {
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

pub(super) fn left_out(m: &mut Markup, page: &Page) {
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
pub(super) fn trials(m: &mut Markup, page: &Page, places: &[&str]) {
    if page.records.is_empty() {
        return;
    }
    m.leaf("h2", "Trials");
    host(m, page.records);
    let names = page.names();
    if page.records.iter().any(|r| r.series.len() > 1) {
        m.el("details").class("seconds").with(|m| {
            m.leaf("summary", "Second by second");
            m.el("p").text(
                "Each line is one trial. Above: transactions per second; below: resident memory of the server. Each row has \
                 one scale from zero. A thin upright line marks where the measured window begins.",
            );
            seconds::seconds(m, page.records, &names, places);
        });
    }
    m.el("details").class("every").with(|m| {
        m.leaf("summary", format!("Every trial ({})", page.records.len()));
        scroll(m, |m| {
            m.el("table").class("text").with(|m| {
                m.el("caption").text("In the order in which they ran.");
                header(
                    m,
                    &[
                        "order", "test", "variant", "way", "outcome", "clients", "round", "tps", "peak MB", "host",
                        "files",
                    ],
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

/// What the machine did beside the load: whether its speed changed while the sweep ran, and what watching cost.
fn host(m: &mut Markup, records: &[Record]) {
    let figure = |f: fn(&Record) -> Option<f64>| records.iter().filter_map(f).filter(|v| v.is_finite());
    let slowest = figure(|r| r.figures.host_speed).reduce(f64::min);
    let fastest = figure(|r| r.figures.host_speed).reduce(f64::max);
    if let (Some(slowest), Some(fastest)) = (slowest, fastest) {
        m.el("p").text(format!(
            "A fixed loop beside each trial ran at {} of its fastest or more: the machine's own speed varied by that much.",
            words::percent(slowest / fastest)
        ));
    }
    let share = |r: &Record| Some(r.figures.watcher_cpu_s? / r.figures.seconds.filter(|s| *s > 0.0)?);
    if let Some(most) = records.iter().filter_map(share).reduce(f64::max) {
        m.el("p").text(format!("Watching took at most {} of one CPU in any trial.", words::percent(most)));
    }
}

fn trial(m: &mut Markup, r: &Record, name: &str) {
    let number = |v: Option<f64>| v.map_or("–".to_string(), words::number);
    m.leaf("td", r.order);
    m.leaf("td", &r.cell.test);
    m.leaf("td", name);
    m.leaf("td", if r.direction == Direction::Up { "up" } else { "down" });
    match &r.outcome {
        Outcome::Valid => m.leaf("td", "valid"),
        Outcome::Invalid(_) => m.el("td").class("worse").text("invalid"),
        Outcome::Failed(_) => m.el("td").class("worse").text("failed"),
    }
    m.leaf("td", words::whole(f64::from(r.cell.clients)));
    m.leaf("td", r.round);
    m.leaf("td", number(r.figures.tps));
    m.leaf("td", r.figures.rss_peak.map_or("–".into(), |v| words::value(Metric::MemoryPeak, v)));
    m.leaf("td", number(r.figures.host_speed));
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

pub(super) fn redo(m: &mut Markup, page: &Page) {
    m.leaf("h2", "How to redo it");
    if !page.redo.is_empty() {
        m.el("pre").with(|m| m.leaf("code", page.redo.join("\n")));
    }
    m.leaf("p", "The experiment:");
    m.el("pre").with(|m| m.leaf("code", page.experiment_toml));
}

pub(super) fn limits(m: &mut Markup, page: &Page) {
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
}
