//! Why: the answer of a test on its three legs, the tables, the flamegraphs.

use super::super::flame::{self, Against};
use super::super::markup::Markup;
use super::super::why::{self as tables, THRESHOLD, Table, Views};
use super::{scroll, sentence};
use crate::profile::cause::Causes;
use crate::profile::table::{Counts, View};
use crate::profile::{Kind, Profile};
use crate::why::{Answer, Spot, Why};
use std::collections::HashMap;

/// Rows of a table of functions.
const MOST: usize = 40;

pub(super) fn why(m: &mut Markup, why: &Why, i: usize, answer: &Answer) {
    m.el("h2").with(|m| {
        m.text("Why: ");
        m.text(&answer.test);
    });
    sentence(m, "p", &answer.sentence);
    m.el("ol").class("legs").with(|m| {
        for leg in answer.legs.iter().filter(|_| answer.loss.is_some()) {
            let (class, word) = match leg.holds {
                Some(true) => ("holds", "holds"),
                Some(false) => ("equivalent", "does not hold"),
                None => ("undecided", "open"),
            };
            m.el("li").with(|m| {
                m.el("b").class(class).text(word);
                m.text(": ");
                m.text(&leg.words);
            });
        }
    });
    for kind in Kind::ALL {
        show(m, tables::causes(why, &answer.test, kind), true);
    }
    if let Some(views) = tables::views(why, answer) {
        of_views(m, i, &views);
    }
    m.el("details").at("open", "").with(|m| {
        m.leaf("summary", "How good these profiles are");
        m.el("ul").with(|m| {
            for words in tables::quality(why, &answer.test) {
                m.leaf("li", words);
            }
        });
    });
}

fn of_views(m: &mut Markup, i: usize, views: &Views) {
    show(m, tables::heap_frames(views, Kind::Cpu, 0.002, MOST), true);
    path(m, views.here);
    for kind in [Kind::Cpu, Kind::Switches] {
        for view in [View::Exclusive, View::Inclusive] {
            show(m, tables::differences(views, kind, view, THRESHOLD, MOST), false);
        }
    }
    let here = merged(views.here, Kind::Cpu);
    let other = views.others.first().map(|s| (*s, merged(s, Kind::Cpu)));
    let title = |spot: &Spot, kind: Kind| format!("{}: flamegraph of {}", tables::name(spot), tables::weight(kind));
    flames(m, &format!("{i}-a"), &title(views.here, Kind::Cpu), &here, other.as_ref().map(|(s, p)| (*s, p)), true);
    if let Some((spot, profile)) = &other {
        flames(m, &format!("{i}-b"), &title(spot, Kind::Cpu), profile, Some((views.here, &here)), false);
    }
    for kind in [Kind::Switches, Kind::OffCpu] {
        let all: Vec<&Spot> = std::iter::once(views.here).chain(views.others.first().copied()).collect();
        for (n, spot) in all.into_iter().filter(|s| s.taken(kind).is_some()).enumerate() {
            let id = format!("{i}-{}-{n}", kind.name());
            let title = format!("{}, without threads that rest", title(spot, kind));
            flames(m, &id, &title, &merged(spot, kind), None, false);
        }
    }
}

fn merged(spot: &Spot, kind: Kind) -> Profile {
    let mut all = Profile::default();
    if let Some(taken) = spot.taken(kind) {
        taken.rounds.iter().for_each(|p| all.merge(p));
    }
    all
}

/// The path that most of the heap's weight takes, as a tree.
fn path(m: &mut Markup, spot: &Spot) {
    let steps = tables::heap_path(spot, Kind::Cpu, 0.03);
    if steps.is_empty() {
        return;
    }
    m.el("details").with(|m| {
        m.leaf("summary", format!("The path to the heap: {}", tables::name(spot)));
        m.el("pre").with(|m| {
            for (depth, frame, share) in steps {
                m.text(format!("{:5.1} %  {}{frame}\n", 100.0 * share, "  ".repeat(depth)));
            }
        });
    });
}

fn flames(m: &mut Markup, id: &str, title: &str, profile: &Profile, against: Option<(&Spot, &Profile)>, open: bool) {
    let none = HashMap::new();
    let other = against.map(|(spot, p)| (tables::name(spot), Counts::of(&[p], &none)));
    let against = other.as_ref().map(|(name, counts)| Against { name, counts, call: &none });
    let causes = Causes::of(profile);
    let Some(boxes) = flame::draw(profile, |s| !causes.cause(s).is_idle(), against.as_ref()) else { return };
    let details = m.el("details").class("flames");
    let details = if open { details.at("open", "") } else { details };
    details.with(|m| {
        m.leaf("summary", title);
        // Radio buttons that the style sheet obeys: they work without the script.
        let group = format!("flame-{id}");
        let radio = |m: &mut Markup, class: &'static str, words: String, checked: bool| {
            let id = format!("{class}-{id}");
            let input = m.el("input").at("type", "radio").at("name", &group).at("id", &id).class(class);
            if checked {
                input.at("checked", "").done()
            } else {
                input.done()
            }
            m.el("label").at("for", &id).text(words);
        };
        if let Some(against) = &against {
            radio(m, "by-heap", "the heap's frames".into(), true);
            radio(m, "by-inclusive", format!("against {}, inclusive", against.name), false);
            radio(m, "by-itself", format!("against {}, by itself", against.name), false);
        }
        m.el("input")
            .at("type", "search")
            .class("find")
            .at("placeholder", "find functions")
            .at("aria-label", "find functions")
            .done();
        m.el("span").class("found").at("role", "status").text("");
        m.el("div").class("boxes scroll").with(|m| m.append(&boxes));
    });
}

fn show(m: &mut Markup, table: Option<Table>, open: bool) {
    let Some(table) = table else { return };
    let body = |m: &mut Markup| {
        scroll(m, |m| {
            m.el("table").class("text causes").with(|m| {
                m.el("caption").with(|m| {
                    if open {
                        m.leaf("b", &table.title);
                        m.text(": ");
                    }
                    m.text(&table.note);
                });
                super::header(m, &table.head);
                m.el("tbody").with(|m| {
                    for row in &table.rows {
                        let tr = m.el("tr");
                        let tr = if row.quiet { tr.class("quiet") } else { tr };
                        tr.with(|m| {
                            m.el("th").at("scope", "row").with(|m| m.leaf("code", &row.name));
                            for cell in &row.cells {
                                m.el("td").class("right").text(cell);
                            }
                        });
                    }
                });
            });
        });
    };
    if open {
        body(m);
    } else {
        m.el("details").with(|m| {
            m.leaf("summary", &table.title);
            body(m);
        });
    }
}
