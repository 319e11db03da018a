//! The report: an analysis and its records, drawn for a reader, in the form the reader asked for. Pure functions: no clock,
//! no file, no network; the same page gives the same text. What comes from records is data and never becomes markup
//! (`markup`) or a command to a terminal (`terminal`).

mod facts;
mod flame;
mod html;
mod markdown;
mod markup;
mod plot;
mod scale;
mod table;
mod terminal;
mod why;
mod words;

pub use html::html;
pub use markdown::markdown;
pub use table::{csv, json};
pub use terminal::{doctor, frames, stacks, terminal, why};

use crate::analysis::{Analysis, Test};
use crate::profile::Profile;
use crate::profile::table::Counts;
use crate::record::{Cell, Outcome, Record};
use crate::why::Why;
use std::collections::{BTreeMap, HashMap};

/// Everything a report is made of.
pub struct Page<'a> {
    pub analysis: &'a Analysis,
    /// Where there are profiles.
    pub why: Option<&'a Why>,
    pub records: &'a [Record],
    /// As it was written.
    pub experiment_toml: &'a str,
    /// What `environment.json` holds.
    pub environment: &'a serde_json::Value,
    /// Name of the sweep's folder.
    pub folder: &'a str,
    /// Commands that give this report again, from the records and from nothing.
    pub redo: &'a [String],
}

/// The main curve of a test as a picture that stands alone, for a README: it has its own paper, which follows the reader's
/// light or dark mode. None if there is nothing to draw.
pub fn curve_svg(test: &Test, title: &str) -> Option<String> {
    let names: Vec<&str> = test.curves.iter().map(|c| c.variant.as_str()).collect();
    let chart = facts::Facts::new(test).main_chart(&names)?;
    let chart = plot::Chart { title: title.into(), ..chart };
    Some(chart.alone(&plot::WIDE, scale::Kind::Linear).finish())
}

/// A flamegraph that stands alone: of the last profile, against the first if there are two.
pub fn flame_svg(profiles: &[(String, Profile)]) -> Option<String> {
    let (name, last) = profiles.last()?;
    let none = HashMap::new();
    let first = profiles.first().filter(|_| profiles.len() > 1);
    let counts = first.map(|(_, p)| Counts::of(&[p], &none));
    let against = first.zip(counts.as_ref()).map(|((name, _), counts)| flame::Against { name, counts, call: &none });
    flame::alone(name, last, against.as_ref())
}

impl<'a> Page<'a> {
    /// The variants of all tests, in the order in which they first appear; a variant's place gives its look.
    fn variants(&self) -> Vec<&'a str> {
        let mut all: Vec<&str> = vec![];
        for curve in self.analysis.tests.iter().flat_map(|t| &t.curves) {
            if !all.contains(&curve.variant.as_str()) {
                all.push(&curve.variant);
            }
        }
        all
    }

    /// What each record's cell is called beside its test and clients: the values of all factors that vary.
    fn names(&self) -> Vec<String> {
        let factors = |c: &'a Cell| [&c.heap, &c.server, &c.engine, &c.config, &c.cpus];
        let Some(first) = self.records.first().map(|r| factors(&r.cell)) else { return vec![] };
        let varies = |i: usize| self.records.iter().any(|r| factors(&r.cell)[i] != first[i]);
        let varying: Vec<usize> = (0..first.len()).filter(|i| varies(*i)).collect();
        let varying = if varying.is_empty() { vec![0] } else { varying };
        let name = |r: &'a Record| {
            let values = varying.iter().map(|i| factors(&r.cell)[*i].as_str()).filter(|v| !v.is_empty());
            values.collect::<Vec<_>>().join(", ")
        };
        self.records.iter().map(name).collect()
    }

    /// How much was measured, and when.
    fn extent(&self) -> String {
        let a = self.analysis;
        let mut out = format!(
            "{} in {}, compared with {}",
            words::counted(a.trials as usize, "trial", "trials"),
            words::counted(a.rounds as usize, "round", "rounds"),
            a.baseline
        );
        let minute = |t: &str| t.get(..16).map(|t| t.replace('T', " "));
        let began = self.records.iter().map(|r| r.started.as_str()).filter(|t| !t.is_empty());
        if let (Some(first), Some(last)) = (began.clone().min().and_then(minute), began.max().and_then(minute)) {
            let until = match first.get(..10) == last.get(..10) {
                true => last.get(11..).unwrap_or(&last),
                false => &last,
            };
            out.push_str(&format!("; begun between {first} and {until} UTC"));
        }
        out + "."
    }

    /// Trials that do not count: for each reason the cells, and how many trials of each.
    fn left_out(&self) -> BTreeMap<&'a str, BTreeMap<String, usize>> {
        let mut groups: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
        for (_, cell, why) in &self.analysis.not_counted {
            *groups.entry(why).or_default().entry(cell.clone()).or_default() += 1;
        }
        groups
    }

    /// Marks of trials that count, likewise.
    fn marks(&self) -> BTreeMap<&'a str, BTreeMap<String, usize>> {
        let mut groups: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
        for (record, name) in self.records.iter().zip(self.names()).filter(|(r, _)| r.outcome == Outcome::Valid) {
            let cell = format!("{}, {name}, {} clients", record.cell.test, record.cell.clients);
            for mark in &record.marks {
                *groups.entry(mark).or_default().entry(cell.clone()).or_default() += 1;
            }
        }
        groups
    }
}
