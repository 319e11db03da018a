//! Functions that only changed their name between two versions, or were inlined: without pairing, one function's rename is the two
//! largest rows of a difference.
//!
//! A function that went and one that came are a pair if they lie in the same object, weigh about the same, and are called by the same
//! functions, call the same, or have names made of the same words. Each is paired once, the surest first.

use super::table::{Counts, View};
use super::{Profile, parts};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    pub before: String,
    pub now: String,
    pub how: How,
    /// From 0 to 1.
    pub sure: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    Renamed,
    /// It became a part of the one that called it.
    Inlined,
}

/// What is known of a function that is in one profile only.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub share: f64,
    /// Weight by name. Empty where nothing but the name is known.
    pub callers: BTreeMap<String, f64>,
    pub callees: BTreeMap<String, f64>,
}

/// Nothing smaller is worth a pair.
const LEAST: f64 = 0.002;
/// Both were in both, if one of them is so much smaller than the other.
const GONE: f64 = 0.1;
const SURE: f64 = 0.5;
/// How much two of a pair may differ in weight.
const ALIKE: f64 = 3.0;

pub fn pairs(before: &[&Profile], now: &[&Profile], a: &Counts, b: &Counts) -> Vec<Pair> {
    let share = |table: &Counts, f: &str| table.share(f, View::Inclusive).map_or(0.0, |s| s.share);
    let gone = |from: &Counts, to: &Counts| -> BTreeSet<String> {
        let left = |f: &&str| share(from, f) >= LEAST && share(to, f) <= GONE * share(from, f);
        from.functions().filter(left).map(str::to_string).collect()
    };
    let (went, came) = (gone(a, b), gone(b, a));
    if went.is_empty() {
        return Vec::new();
    }
    let known = |rounds: &[&Profile], names: &BTreeSet<String>, table: &Counts| {
        let mut known = neighbours(rounds, names, table.total as f64);
        known.iter_mut().for_each(|(name, k)| k.share = share(table, name));
        known
    };
    let (went, came) = (known(before, &went, a), known(now, &came, b));
    let mut found = match_up(&went, &came);
    let taken: BTreeSet<&String> = found.iter().map(|p| &p.before).collect();
    let inlined: Vec<Pair> =
        went.iter().filter(|(name, _)| !taken.contains(name)).filter_map(|(n, k)| inlined(n, k, a, b)).collect();
    // An inlined function has no name of its own now: there is nothing to rename.
    found.retain(|p| p.how == How::Renamed);
    found.extend(inlined);
    found
}

/// The surest pairs of functions that went and came.
pub fn match_up(went: &BTreeMap<String, Known>, came: &BTreeMap<String, Known>) -> Vec<Pair> {
    let mut all: Vec<Pair> = went
        .iter()
        .flat_map(|(before, a)| {
            came.iter().filter_map(move |(now, b)| {
                let sure = sureness(before, a, now, b)?;
                Some(Pair { before: before.clone(), now: now.clone(), how: How::Renamed, sure })
            })
        })
        .collect();
    all.sort_by(|x, y| y.sure.total_cmp(&x.sure).then_with(|| (&x.before, &x.now).cmp(&(&y.before, &y.now))));
    let (mut left, mut right) = (BTreeSet::new(), BTreeSet::new());
    let mut kept = Vec::new();
    for pair in all {
        if !left.contains(&pair.before) && !right.contains(&pair.now) {
            left.insert(pair.before.clone());
            right.insert(pair.now.clone());
            kept.push(pair);
        }
    }
    kept
}

/// How sure it is that two are one; None if they are not.
fn sureness(before: &str, a: &Known, now: &str, b: &Known) -> Option<f64> {
    let (object_a, name_a) = parts(before);
    let (object_b, name_b) = parts(now);
    if object_a.zip(object_b).is_some_and(|(x, y)| stem(x) != stem(y)) {
        return None;
    }
    if a.share > ALIKE * b.share || b.share > ALIKE * a.share {
        return None;
    }
    let names = alike(&words(name_a), &words(name_b));
    let sure = if a.callers.is_empty() || b.callers.is_empty() {
        names
    } else {
        // A leaf calls nothing: two leaves are alike in that, which says little.
        let callees = if a.callees.is_empty() && b.callees.is_empty() { 0.5 } else { overlap(&a.callees, &b.callees) };
        0.4 * overlap(&a.callers, &b.callers) + 0.3 * callees + 0.3 * names
    };
    (sure >= SURE).then_some(sure)
}

/// It is gone; its only caller stayed and is heavier by itself.
fn inlined(name: &str, known: &Known, a: &Counts, b: &Counts) -> Option<Pair> {
    let all: f64 = known.callers.values().sum();
    let (caller, weight) = known.callers.iter().max_by(|x, y| x.1.total_cmp(y.1))?;
    let own = |t: &Counts, f: &str| t.share(f, View::Exclusive).map_or(0.0, |s| s.share);
    let grew = own(b, caller) - own(a, caller);
    let was = own(a, name);
    let sure = weight / all;
    let fits = was >= LEAST && grew >= was / 2.0 && grew <= was * 2.0;
    (sure >= 0.8 && fits).then(|| Pair { before: name.into(), now: caller.clone(), how: How::Inlined, sure })
}

/// Callers and callees of the named functions, as shares of the whole.
fn neighbours(rounds: &[&Profile], names: &BTreeSet<String>, total: f64) -> BTreeMap<String, Known> {
    let mut known: BTreeMap<String, Known> = names.iter().map(|n| (n.clone(), Known::default())).collect();
    for profile in rounds {
        let wanted: HashMap<u32, &String> =
            profile.names().iter().enumerate().filter_map(|(i, n)| names.get(n).map(|n| (i as u32, n))).collect();
        for (stack, weight) in profile.stacks() {
            let share = weight as f64 / total.max(1.0);
            for (at, frame) in stack.iter().enumerate() {
                let Some(entry) = wanted.get(frame).and_then(|n| known.get_mut(*n)) else { continue };
                let name = |f: &u32| profile.name(*f).to_string();
                if let Some(caller) = at.checked_sub(1).map(|i| &stack[i]) {
                    *entry.callers.entry(name(caller)).or_default() += share;
                }
                if let Some(callee) = stack.get(at + 1) {
                    *entry.callees.entry(name(callee)).or_default() += share;
                }
            }
        }
    }
    known
}

/// Shared weight over all weight, each side taken as 1.
fn overlap(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) -> f64 {
    let (sum_a, sum_b): (f64, f64) = (a.values().sum(), b.values().sum());
    if sum_a <= 0.0 || sum_b <= 0.0 {
        return 0.0;
    }
    a.iter().filter_map(|(name, x)| Some((x / sum_a).min(b.get(name)? / sum_b))).sum()
}

/// Shared words over those of the shorter name.
fn alike(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let least = a.len().min(b.len());
    if least == 0 {
        return 0.0;
    }
    // One word in common is chance, unless it is all of a name.
    let shared = a.intersection(b).count();
    if shared < 2 && least > 1 { 0.0 } else { shared as f64 / least as f64 }
}

/// The words that a name is made of: `PolicyMutex<TTASEventMutex<GenericPolicy> >::enter` is policy, mutex, ttas, ...
fn words(name: &str) -> BTreeSet<String> {
    // Arguments change more often than names.
    let name = name.split('(').next().unwrap_or(name);
    let mut words = BTreeSet::new();
    for part in name.split(|c: char| !c.is_ascii_alphanumeric()) {
        let mut word = String::new();
        let chars: Vec<char> = part.chars().collect();
        for (i, c) in chars.iter().enumerate() {
            let after_small = i > 0 && !chars[i - 1].is_ascii_uppercase();
            let before_small = chars.get(i + 1).is_some_and(char::is_ascii_lowercase);
            if c.is_ascii_uppercase() && i > 0 && (after_small || before_small) {
                words.insert(std::mem::take(&mut word));
            }
            word.push(c.to_ascii_lowercase());
        }
        words.insert(word);
    }
    words.retain(|w| w.len() > 1);
    words
}

/// `mysqld` of one version is `mariadbd` of another; a library's name may carry its version.
fn stem(object: &str) -> &str {
    match object.split(['.', '-']).next().unwrap_or(object) {
        "mysqld" | "mariadbd" => "server",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::folded;

    #[test]
    fn words_of_names() {
        let of = |name: &str| words(name).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(of("PolicyMutex<TTASEventMutex<GenericPolicy> >::enter"), "enter event generic mutex policy ttas");
        assert_eq!(of("row_search_mvcc(unsigned char*, int)"), "mvcc row search");
    }

    #[test]
    fn a_rename_is_one_function_and_two_others_are_two() {
        let a = folded::read(
            "a",
            "srv!main;srv!mysql_update;srv!fill 50\nsrv!main;srv!mysql_update;srv!write 30\nsrv!main;srv!old_part;srv!q 20\n",
        );
        let b = folded::read(
            "b",
            "srv!main;srv!Sql_cmd_update::update_single_table;srv!fill 52\nsrv!main;srv!Sql_cmd_update::update_single_table;srv!write 28\nsrv!other;lib!brand_new;lib!z 20\n",
        );
        let (a, b) = (a.unwrap(), b.unwrap());
        let none = HashMap::new();
        let found = pairs(&[&a], &[&b], &Counts::of(&[&a], &none), &Counts::of(&[&b], &none));
        let found: Vec<(&str, &str)> = found.iter().map(|p| (p.before.as_str(), p.now.as_str())).collect();
        assert_eq!(found, [("srv!mysql_update", "srv!Sql_cmd_update::update_single_table")]);
    }

    #[test]
    fn an_inlined_function_is_found_in_its_caller() {
        let a = folded::read("a", "m;caller 10\nm;caller;small 40\nm;x 50\n").unwrap();
        let b = folded::read("b", "m;caller 52\nm;x 48\n").unwrap();
        let none = HashMap::new();
        let found = pairs(&[&a], &[&b], &Counts::of(&[&a], &none), &Counts::of(&[&b], &none));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].now.as_str(), found[0].how), ("caller", How::Inlined));
    }

    #[test]
    fn names_alone_must_share_words() {
        let known = |share| Known { share, ..Known::default() };
        let went: BTreeMap<String, Known> = [
            ("TTASEventMutex<GenericPolicy>::enter".to_string(), known(0.305)),
            ("btr_cur_search_to_nth_level".into(), known(0.0185)),
        ]
        .into();
        let came: BTreeMap<String, Known> = [
            ("PolicyMutex<TTASEventMutex<GenericPolicy> >::enter".to_string(), known(0.31)),
            ("btr_cur_search_to_nth_level_func".into(), known(0.0312)),
            ("trx_sys_t::clone_oldest_view".into(), known(0.0318)),
        ]
        .into();
        let found = match_up(&went, &came);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|p| p.now.contains("Mutex") == p.before.contains("Mutex")));
    }
}
