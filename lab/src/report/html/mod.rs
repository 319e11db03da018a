//! The page: one file that needs nothing else, reads without its script, prints, and follows the reader's light or dark mode.
//! From top to bottom as a reader asks: the answer, the curves, the figures, then what they rest on.

mod environment;
mod ground;
mod seconds;
mod test;
mod why;

use super::Page;
use super::facts::Facts;
use super::flame;
use super::markup::Markup;
use super::plot::{self, look};
use super::words;
use environment::environment;
use std::fmt::Display;

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
                        test::test(m, page, i, facts, &places);
                    });
                }
                for (i, answer) in page.why.iter().flat_map(|w| w.answers.iter().enumerate()) {
                    m.el("section").class("why").at("id", format!("why-{i}")).with(|m| {
                        if let Some(why) = page.why {
                            why::why(m, why, i, answer);
                        }
                    });
                }
                m.el("section").at("id", "proofs").with(|m| ground::proofs(m, page.records));
                m.el("section").at("id", "left-out").with(|m| ground::left_out(m, page));
                m.el("section").at("id", "trials").with(|m| ground::trials(m, page, &places));
                m.el("section").at("id", "environment").with(|m| environment(m, page.environment));
                m.el("section").at("id", "redo").with(|m| ground::redo(m, page));
                m.el("section").at("id", "limits").with(|m| ground::limits(m, page));
            });
            m.el("div").at("id", "tip").at("role", "status").at("hidden", "").text("");
            m.el("script").raw(PAGE_JS);
            if page.why.is_some() {
                m.el("script").raw(flame::JS);
            }
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
        m.raw(plot::CSS);
        m.raw(PAGE_CSS);
        if page.why.is_some() {
            m.raw(flame::CSS);
        }
    });
}

fn answer(m: &mut Markup, page: &Page) {
    let a = page.analysis;
    m.el("p").class("over").with(|m| {
        m.leaf("b", &a.title);
        m.text(format!(" · {}", page.folder));
    });
    sentence(m, "h1", &a.sentence);
    for (i, answer) in page.why.iter().flat_map(|w| w.answers.iter().enumerate()) {
        m.el("p").class("under").with(|m| {
            m.el("a").at("href", format!("#why-{i}")).text("Why");
            m.text(format!(": {}", answer.sentence));
        });
    }
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
    contents(m, page);
}

/// Where to find each test, and in which there is a cliff.
fn contents(m: &mut Markup, page: &Page) {
    let tests = &page.analysis.tests;
    if tests.len() < 2 {
        return;
    }
    m.el("nav").class("under contents").at("aria-label", "tests").with(|m| {
        for (i, test) in tests.iter().enumerate() {
            m.el("span").with(|m| {
                m.el("a").at("href", format!("#test-{i}")).text(&test.test);
                if test.curves.iter().any(|c| c.shape.cliff.is_some()) {
                    m.el("span").class("worse").text(" cliff");
                }
            });
        }
    });
}

/// A long sentence has its parts below each other; what joins them is there for who listens or copies.
fn sentence(m: &mut Markup, tag: &'static str, sentence: &str) {
    const LONG: usize = 140;
    if sentence.chars().count() <= LONG {
        m.el(tag).class("sentence").text(words::kept(sentence));
        return;
    }
    m.el(tag).class("sentence long").with(|m| {
        for part in sentence.split_inclusive("; ") {
            m.el("span").with(|m| match part.strip_suffix("; ") {
                None => m.text(words::kept(part)),
                Some(part) => {
                    m.text(words::kept(part));
                    m.el("span").class("unseen").text("; ");
                }
            });
        }
    });
}

/// Which line is which; with the script, each entry switches its line off and on.
fn legend(m: &mut Markup, places: &[&str], page: &Page) {
    m.el("nav").class("legend").at("aria-label", "variants").with(|m| {
        for (i, name) in places.iter().enumerate() {
            m.el("button").at("type", "button").at("data-v", i).at("aria-pressed", "true").class(look(i)).with(|m| {
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

/// A second, quieter line in a cell.
fn note(m: &mut Markup, text: Option<String>) {
    if let Some(text) = text {
        m.el("small").text(text);
    }
}

fn header(m: &mut Markup, names: &[impl Display]) {
    m.el("thead").with(|m| {
        m.el("tr").with(|m| {
            for name in names {
                m.el("th").at("scope", "col").text(name);
            }
        });
    });
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}
