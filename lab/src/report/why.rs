//! The tables of why, for a terminal and for the page alike: what they hold, not how it looks.

use crate::analysis::words::{clients, percent, two_digits};
use crate::profile::cause::Cause;
use crate::profile::table::{self, Row, Share, View};
use crate::profile::tree::{self, Step};
use crate::profile::{Kind, Profile};
use crate::why::{Against, Answer, Sheet, Spot, Why, causes as causes_in};
use std::collections::BTreeMap;

/// A table: its first column names the rows.
pub struct Table {
    pub title: String,
    pub note: String,
    pub head: Vec<String>,
    pub rows: Vec<Line>,
}

pub struct Line {
    pub name: String,
    pub cells: Vec<String>,
    /// What it shows lies within its error, or belongs to nobody.
    pub quiet: bool,
}

/// Shares below this are left out of tables of causes.
const SMALL: f64 = 0.01;
/// A difference that is worth a row, in points.
pub const THRESHOLD: f64 = 0.01;

/// The spots of an answer: where the loss is, what it is compared with.
pub struct Views<'a> {
    pub here: &'a Spot,
    /// Beside it at the same clients; and itself where it had not lost.
    pub others: Vec<&'a Spot>,
}

pub fn views<'a>(why: &'a Why, answer: &Answer) -> Option<Views<'a>> {
    let of_test: Vec<&Spot> =
        why.spots.iter().filter(|s| s.test == answer.test && s.taken(Kind::Cpu).is_some()).collect();
    let Some(loss) = &answer.loss else {
        let (here, others) = of_test.split_last()?;
        return Some(Views { here, others: others.to_vec() });
    };
    let find =
        |variant: &str, clients: u32| of_test.iter().find(|s| s.variant == variant && s.clients == clients).copied();
    let here = find(&loss.variant, loss.clients)?;
    let beside = loss.beside.as_ref().and_then(|v| find(v, loss.clients));
    let before = match loss.against {
        Against::Cliff(from) | Against::Peak(from) => find(&loss.variant, from),
        Against::Level => None,
    };
    Some(Views { here, others: beside.into_iter().chain(before).collect() })
}

pub fn name(spot: &Spot) -> String {
    format!("{}, {}", spot.variant, clients(spot.clients))
}

/// The head of a column of figures: a profile that lost too much says so beside each of them.
fn head(spot: &Spot, kind: Kind) -> String {
    // Times away come from the same recording as switches.
    let recorded = if kind == Kind::OffCpu { Kind::Switches } else { kind };
    match spot.taken(recorded).filter(|t| t.lost_too_much()) {
        Some(taken) => format!("{} (lost {})", name(spot), percent(taken.lost_share())),
        None => name(spot),
    }
}

/// What each cause costs a transaction, for every spot of a test along the clients.
pub fn causes(why: &Why, test: &str, kind: Kind) -> Option<Table> {
    let mut spots: Vec<&Spot> = why.spots.iter().filter(|s| s.test == test && s.taken(kind).is_some()).collect();
    spots.sort_by_key(|s| (s.clients, s.variant.clone()));
    let costs: Vec<_> = spots.iter().map(|s| s.costs(kind)).collect();
    if costs.is_empty() {
        return None;
    }
    let all = |i: usize| costs[i].values().map(|c| c.value).sum::<f64>();
    let unit = two_digits;
    let mut rows = Vec::new();
    for cause in Cause::ALL {
        let shown = (0..costs.len()).any(|i| costs[i].get(&cause).is_some_and(|c| c.value >= SMALL * all(i)));
        if !shown {
            continue;
        }
        let cells = costs
            .iter()
            .map(|c| c.get(&cause).map_or("–".into(), |c| format!("{} ±{}", unit(c.value), unit(c.error))))
            .collect();
        rows.push(Line { name: cause.name().into(), cells, quiet: cause.is_idle() });
    }
    let sums = (0..costs.len()).map(|i| unit(all(i))).collect();
    rows.push(Line { name: "all".into(), cells: sums, quiet: false });
    let (title, note) = match kind {
        Kind::Cpu => ("CPU a transaction, by cause", "microseconds, with the error of sampling"),
        Kind::Switches => ("switches off the CPU a transaction, by cause", "with the error of sampling"),
        Kind::OffCpu => ("time off the CPU a transaction, by cause", "microseconds of all threads together"),
    };
    Some(Table {
        title: title.into(),
        note: note.into(),
        head: std::iter::once("cause".to_string()).chain(spots.iter().map(|s| head(s, kind))).collect(),
        rows,
    })
}

/// The heap's frames across the variants at the clients of the loss.
pub fn heap_frames(views: &Views, kind: Kind, least: f64, most: usize) -> Option<Table> {
    let (profiles, names) = columns(&beside(views, kind), kind);
    of_heap(&profiles, &names, weight(kind), least, most)
}

pub fn heap_frames_of(profiles: &[(String, Profile)], least: f64) -> Option<Table> {
    let (rounds, names) = columns_of(profiles);
    of_heap(&rounds, &names, "the weight", least, usize::MAX)
}

fn of_heap(profiles: &[Vec<&Profile>], names: &[String], what: &str, least: f64, most: usize) -> Option<Table> {
    let rows = table::heap_frames(profiles, least);
    if rows.is_empty() {
        return None;
    }
    Some(Table {
        title: format!("The heap's frames, inclusive shares of {what}"),
        note: "inclusive shares overlap and must not be added".into(),
        head: std::iter::once("frame".to_string()).chain(names.iter().cloned()).collect(),
        rows: rows.iter().take(most).map(|r| line(r, false)).collect(),
    })
}

/// Functions whose share differs by the threshold, between the reference and the loss.
pub fn differences(views: &Views, kind: Kind, view: View, threshold: f64, most: usize) -> Option<Table> {
    let mut spots = beside(views, kind);
    // From the reference to the loss, as a reader asks: what grew.
    spots.reverse();
    let (profiles, names) = columns(&spots, kind);
    compared(&profiles, &names, weight(kind), view, threshold, most)
}

pub fn of_profiles(profiles: &[(String, Profile)], view: View, threshold: f64, most: usize) -> Option<Table> {
    let (rounds, names) = columns_of(profiles);
    compared(&rounds, &names, "the weight", view, threshold, most)
}

fn compared(
    profiles: &[Vec<&Profile>],
    names: &[String],
    what: &str,
    view: View,
    threshold: f64,
    most: usize,
) -> Option<Table> {
    let (rows, pairs) = table::compare(profiles, view, threshold);
    if rows.is_empty() {
        return None;
    }
    let left = rows.len().saturating_sub(most);
    let points = two_digits(threshold * 100.0);
    let (differ, title) = match profiles.len() {
        1 => ("hold", format!("{} shares of {what}", word(view))),
        _ => ("differ by", format!("{} shares of {what}, and what differs", word(view))),
    };
    let mut note = format!("rows that {differ} {points} points or more");
    if left > 0 {
        note += &format!("; {left} more are left out");
    }
    if !pairs.is_empty() {
        note += "; → is one function under two names, or inlined into the other";
    }
    let last = if profiles.len() == 1 { "error" } else { "points" };
    Some(Table {
        title,
        note,
        head: ["function".to_string()].into_iter().chain(names.iter().cloned()).chain([last.to_string()]).collect(),
        rows: rows.iter().take(most).map(|r| line(r, true)).collect(),
    })
}

/// The rounds and the names of some spots.
fn columns<'a>(spots: &[&'a Spot], kind: Kind) -> (Vec<Vec<&'a Profile>>, Vec<String>) {
    let rounds = |s: &&'a Spot| s.taken(kind).map(|t| t.profiles()).unwrap_or_default();
    (spots.iter().map(rounds).collect(), spots.iter().map(|s| head(s, kind)).collect())
}

fn columns_of(profiles: &[(String, Profile)]) -> (Vec<Vec<&Profile>>, Vec<String>) {
    (profiles.iter().map(|(_, p)| vec![p]).collect(), profiles.iter().map(|(n, _)| n.clone()).collect())
}

/// The shares of each cause in profiles from anywhere.
pub fn causes_of(profiles: &[(String, Profile)]) -> Table {
    let sums: Vec<BTreeMap<Cause, u64>> = profiles.iter().map(|(_, p)| causes_in(p)).collect();
    let share = |i: usize, cause: Cause| sums[i].get(&cause).map(|w| *w as f64 / profiles[i].1.total() as f64);
    let rows = Cause::ALL
        .into_iter()
        .filter(|c| (0..sums.len()).any(|i| share(i, *c).is_some_and(|s| s >= SMALL / 2.0)))
        .map(|c| Line {
            name: c.name().into(),
            cells: (0..sums.len()).map(|i| share(i, c).map_or("–".into(), percent_of)).collect(),
            quiet: c.is_idle(),
        })
        .collect();
    let total = |(name, p): &(String, Profile)| format!("{name}: {}", p.total());
    Table {
        title: "Shares by cause".into(),
        note: format!("weights in all: {}", profiles.iter().map(total).collect::<Vec<_>>().join(", ")),
        head: std::iter::once("cause".to_string()).chain(profiles.iter().map(|(n, _)| n.clone())).collect(),
        rows,
    }
}

/// A published table, its renamed functions as one row each.
pub fn of_sheet(sheet: &Sheet, view: View, threshold: f64) -> Option<Table> {
    let (rows, pairs) = sheet.paired(view);
    let rows: Vec<Line> = rows.iter().filter(|r| r.change.abs() >= threshold).map(|r| line(r, true)).collect();
    if rows.is_empty() {
        return None;
    }
    let paired = if pairs.is_empty() { "" } else { "; → is one function under two names" };
    Some(Table {
        title: format!("{} shares, and what differs", word(view)),
        note: format!("rows that differ by {} points or more{paired}", two_digits(threshold * 100.0)),
        head: ["function".to_string()]
            .into_iter()
            .chain(sheet.variants.iter().cloned())
            .chain(["points".to_string()])
            .collect(),
        rows,
    })
}

fn word(view: View) -> &'static str {
    if view == View::Inclusive { "Inclusive" } else { "Exclusive" }
}

/// The path that most of the heap's weight takes: depth, frame, share of the whole.
pub fn heap_path(spot: &Spot, kind: Kind, least: f64) -> Vec<(usize, String, f64)> {
    let Some(taken) = spot.taken(kind) else { return Vec::new() };
    let mut all = Profile::default();
    taken.rounds.iter().for_each(|p| all.merge(p));
    let causes = crate::profile::cause::Causes::of(&all);
    let nodes = tree::roots(&all, |stack| stack.iter().any(|f| causes.is_heap(*f)).then_some(0));
    let steps: Vec<Step> = tree::dominating(&nodes, least);
    let total = all.total() as f64;
    steps.into_iter().map(|(d, f, w)| (d, all.name(f).to_string(), w as f64 / total)).collect()
}

/// How good the profiles are, in a sentence for each spot that has something to confess, and one for the toll.
pub fn quality(why: &Why, test: &str) -> Vec<String> {
    let mut words = Vec::new();
    for spot in why.spots.iter().filter(|s| s.test == test) {
        for (kind, taken) in &spot.views {
            if *kind == Kind::OffCpu {
                continue;
            }
            let lost = if taken.lost_too_much() { "lost too much: " } else { "" };
            words.push(format!(
                "{}: {} samples of {} in {}, by {}; {lost}{} lost; {} of the stacks end nowhere.",
                name(spot),
                taken.samples(),
                weight(*kind),
                super::words::counted(taken.rounds.len(), "round", "rounds"),
                taken.stacks.first().map_or("?", |s| s.unwound.as_str()),
                percent(taken.lost_share()),
                percent(taken.nowhere_share())
            ));
        }
        for why in &spot.not_counted {
            words.push(format!("{}: a profiled trial does not count: {why}", name(spot)));
        }
    }
    for toll in &why.tolls {
        words.push(format!(
            "Profiling {} cost {:.1} % of throughput (± {:.1} points, over {} phases beside quiet ones).",
            weight(toll.kind),
            100.0 * toll.loss,
            100.0 * toll.error,
            toll.phases
        ));
    }
    words
}

pub fn weight(kind: Kind) -> &'static str {
    match kind {
        Kind::Cpu => "CPU",
        Kind::Switches => "switches",
        Kind::OffCpu => "time off the CPU",
    }
}

/// The loss first, then what stands beside it at the same clients (or, without that, at fewer).
fn beside<'a>(views: &Views<'a>, kind: Kind) -> Vec<&'a Spot> {
    let mut spots = vec![views.here];
    spots.extend(views.others.iter().copied().filter(|s| s.taken(kind).is_some()).take(1));
    spots
}

fn line(row: &Row, with_change: bool) -> Line {
    let share = |s: &Option<Share>| s.map_or("not seen".into(), |s| percent_of(s.share));
    let mut cells: Vec<String> = row.shares.iter().map(share).collect();
    if with_change {
        let sign = if row.shares.len() > 1 { format!("{:+.1} ", 100.0 * row.change) } else { String::new() };
        let error = if row.error > 0.0 { format!("±{:.1}", 100.0 * row.error) } else { String::new() };
        cells.push(format!("{sign}{error}").trim_end().to_string());
    }
    let also: String = row.also.iter().map(|a| format!(" → {}", table::short(a))).collect();
    Line { name: format!("{}{also}", row.function), cells, quiet: with_change && row.within_error() }
}

fn percent_of(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
