//! Functions and their shares of a profile: inclusive (it or what it calls) and exclusive (it alone), with the sampling error of each;
//! and differences of two or three profiles.
//!
//! - A share is a function's weight over the profile's; both stand in the folded file.
//! - The error is 95 %: of a share of so many samples, widened by how much more the rounds differ than samples of one thing would.
//! - A difference within its error is kept and marked, not dropped.

use super::pair::{self, Pair};
use super::{Frame, Profile, parts};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    Inclusive,
    Exclusive,
}

/// The functions of one variant, added up over its rounds.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub total: u64,
    /// How much wider than that of plain samples an error is: 1 or more.
    pub spread: f64,
    functions: HashMap<String, Weights>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Weights {
    inclusive: u64,
    exclusive: u64,
}

/// A share of a profile and its 95 % error, both as fractions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    pub weight: u64,
    pub share: f64,
    pub error: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub function: String,
    /// What it is called in the others, where that is another name.
    pub also: Vec<String>,
    /// For each profile; None where the function does not occur.
    pub shares: Vec<Option<Share>>,
    /// The last against the first: the difference and its error.
    pub change: f64,
    pub error: f64,
}

impl Row {
    pub fn within_error(&self) -> bool {
        self.change.abs() <= self.error
    }
}

impl Counts {
    /// Adds up the rounds of one variant. `call` gives functions the names that the table is to use.
    pub fn of(rounds: &[&Profile], call: &HashMap<String, String>) -> Counts {
        let mut counts = Counts { spread: 1.0, ..Counts::default() };
        let mut each: Vec<(u64, HashMap<String, u64>)> = Vec::new();
        for profile in rounds {
            let names: Vec<&str> =
                profile.names().iter().map(|n| call.get(n).map_or(n.as_str(), String::as_str)).collect();
            let mut sums = vec![Weights::default(); names.len()];
            let mut seen: Vec<u32> = vec![0; names.len()];
            // Two frames may have got one name: each counts once in a stack.
            let mut first: HashMap<&str, usize> = HashMap::new();
            let canonical: Vec<usize> = names.iter().enumerate().map(|(i, n)| *first.entry(n).or_insert(i)).collect();
            for (number, (stack, weight)) in profile.stacks().enumerate() {
                let mark = number as u32 + 1;
                for frame in stack {
                    let at = canonical[*frame as usize];
                    if seen[at] != mark {
                        seen[at] = mark;
                        sums[at].inclusive += weight;
                    }
                }
                if let Some(leaf) = stack.last() {
                    sums[canonical[*leaf as usize]].exclusive += weight;
                }
            }
            counts.total += profile.total();
            let mut own = HashMap::new();
            for (i, sum) in sums.iter().enumerate().filter(|(_, s)| s.inclusive > 0) {
                let entry = counts.functions.entry(names[i].to_string()).or_default();
                entry.inclusive += sum.inclusive;
                entry.exclusive += sum.exclusive;
                own.insert(names[i].to_string(), sum.exclusive);
            }
            each.push((profile.total(), own));
        }
        counts.spread = spread(&counts, &each);
        counts
    }

    pub fn share(&self, function: &str, view: View) -> Option<Share> {
        let weight = self.weight(function, view)?;
        Some(self.share_of(weight))
    }

    fn weight(&self, function: &str, view: View) -> Option<u64> {
        let weights = self.functions.get(function)?;
        let weight = if view == View::Inclusive { weights.inclusive } else { weights.exclusive };
        (weight > 0).then_some(weight)
    }

    pub fn share_of(&self, weight: u64) -> Share {
        let share = weight as f64 / self.total.max(1) as f64;
        Share { weight, share, error: self.error(share) }
    }

    /// Half of Wilson's interval: it is not 0 for a function that was never seen.
    fn error(&self, share: f64) -> f64 {
        const Z: f64 = 1.96;
        let n = (self.total as f64 / self.spread.powi(2)).max(1.0);
        let z2 = Z * Z / n;
        Z * (share * (1.0 - share) / n + z2 / (4.0 * n)).sqrt() / (1.0 + z2)
    }

    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }
}

/// How much more the rounds differ than samples of one thing: the root of chi square over its degrees, of all functions that come often
/// enough in each round.
fn spread(all: &Counts, rounds: &[(u64, HashMap<String, u64>)]) -> f64 {
    const OFTEN: f64 = 5.0;
    let (mut chi, mut degrees) = (0.0, 0.0);
    for (function, weights) in &all.functions {
        let share = weights.exclusive as f64 / all.total.max(1) as f64;
        if rounds.len() < 2 || rounds.iter().any(|(total, _)| share * (*total as f64) < OFTEN) {
            continue;
        }
        for (total, own) in rounds {
            let expected = share * *total as f64;
            let seen = own.get(function).copied().unwrap_or(0) as f64;
            chi += (seen - expected).powi(2) / (expected * (1.0 - share)).max(f64::MIN_POSITIVE);
        }
        degrees += rounds.len() as f64 - 1.0;
    }
    if degrees < 1.0 { 1.0 } else { (chi / degrees).sqrt().max(1.0) }
}

/// Rows of two or three variants (each with its rounds), and what was paired; the rows whose difference, or in a single profile whose share,
/// reaches `least`. The largest comes first.
pub fn compare(variants: &[Vec<&Profile>], view: View, least: f64) -> (Vec<Row>, Vec<Pair>) {
    let plain = HashMap::new();
    let mut tables: Vec<Counts> = variants.iter().map(|rounds| Counts::of(rounds, &plain)).collect();
    let mut pairs = Vec::new();
    let mut also: BTreeMap<String, BTreeMap<usize, String>> = BTreeMap::new();
    for i in 1..tables.len() {
        let found = pair::pairs(&variants[0], &variants[i], &tables[0], &tables[i]);
        let call: HashMap<String, String> = found.iter().map(|p| (p.now.clone(), p.before.clone())).collect();
        tables[i] = Counts::of(&variants[i], &call);
        for pair in &found {
            also.entry(pair.before.clone()).or_default().insert(i, pair.now.clone());
        }
        pairs.extend(found);
    }
    let names: HashSet<&str> = tables.iter().flat_map(Counts::functions).collect();
    let mut rows: Vec<Row> = names
        .into_iter()
        .map(|function| {
            let shares: Vec<Option<Share>> = tables.iter().map(|t| t.share(function, view)).collect();
            let (first, last) = (&tables[0], &tables[tables.len() - 1]);
            let of =
                |table: &Counts, share: &Option<Share>| share.map_or((0.0, table.error(0.0)), |s| (s.share, s.error));
            let (a, ea) = of(first, &shares[0]);
            let (b, eb) = of(last, &shares[shares.len() - 1]);
            let (change, error) = if tables.len() == 1 { (b, eb) } else { (b - a, ea.hypot(eb)) };
            let also = also.get(function).map(|names| names.values().cloned().collect()).unwrap_or_default();
            Row { function: function.to_string(), also, shares, change, error }
        })
        .filter(|row| row.shares.iter().any(Option::is_some))
        .filter(|row| {
            let between = row.shares.iter().map(|s| s.map_or(0.0, |s| s.share));
            let (low, high) = between.fold((f64::MAX, f64::MIN), |(l, h), s| (l.min(s), h.max(s)));
            if row.shares.len() == 1 { high >= least } else { high - low >= least }
        })
        .collect();
    let size = |r: &Row| r.change.abs();
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.function.cmp(&b.function)));
    (rows, pairs)
}

/// The heap's frames by their inclusive shares, across variants: those that reach `least` in any. What the heap calls counts where
/// nine tenths of it are the heap's.
pub fn heap_frames(variants: &[Vec<&Profile>], least: f64) -> Vec<Row> {
    let plain = HashMap::new();
    let tables: Vec<Counts> = variants.iter().map(|rounds| Counts::of(rounds, &plain)).collect();
    // For each function, its weight under the heap and in all.
    let mut weights: HashMap<&str, (u64, u64)> = HashMap::new();
    for profile in variants.iter().flatten() {
        let causes = super::cause::Causes::of(profile);
        let mut sums: Vec<(u64, u64)> = vec![(0, 0); profile.names().len()];
        for (stack, weight) in profile.stacks() {
            let entry = stack.iter().position(|f| causes.is_heap(*f)).unwrap_or(stack.len());
            let frames: HashSet<&Frame> = stack.iter().collect();
            for frame in frames {
                let inside = stack[entry..].contains(frame);
                sums[*frame as usize].0 += if inside { weight } else { 0 };
                sums[*frame as usize].1 += weight;
            }
        }
        for (name, (inside, all)) in profile.names().iter().zip(sums) {
            let entry = weights.entry(name).or_default();
            entry.0 += inside;
            entry.1 += all;
        }
    }
    let mut rows: Vec<Row> = weights
        .into_iter()
        .filter(|(_, (inside, all))| *inside > 0 && inside * 10 >= all * 9)
        .map(|(function, _)| {
            let shares: Vec<Option<Share>> = tables.iter().map(|t| t.share(function, View::Inclusive)).collect();
            Row { function: function.to_string(), also: Vec::new(), shares, change: 0.0, error: 0.0 }
        })
        .filter(|row| row.shares.iter().flatten().any(|s| s.share >= least))
        .collect();
    let size = |r: &Row| r.shares.iter().flatten().map(|s| s.share).fold(0.0, f64::max);
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.function.cmp(&b.function)));
    rows
}

/// Without the object: as a person says it.
pub fn short(function: &str) -> &str {
    parts(function).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::folded;

    fn profile(text: &str) -> Profile {
        folded::read("t", text).unwrap()
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let p = profile("a;b;a;c 6\na 4\n");
        let counts = Counts::of(&[&p], &HashMap::new());
        let weight = |f: &str, view| counts.share(f, view).map(|s| s.weight);
        assert_eq!(weight("a", View::Inclusive), Some(10));
        assert_eq!(weight("a", View::Exclusive), Some(4));
        assert_eq!(weight("c", View::Exclusive), Some(6));
        assert_eq!(weight("b", View::Exclusive), None);
    }

    #[test]
    fn errors_shrink_with_samples_and_grow_with_scatter() {
        let few = profile("a 15\nb 85\n");
        let many = profile("a 1500\nb 8500\n");
        let error =
            |rounds: &[&Profile]| Counts::of(rounds, &HashMap::new()).share("a", View::Inclusive).unwrap().error;
        assert!((error(&[&many]) / 0.007 - 1.0).abs() < 0.02);
        assert!(error(&[&few]) > 9.0 * error(&[&many]));
        let (low, high) = (profile("a 500\nb 9500\n"), profile("a 2500\nb 7500\n"));
        assert!(error(&[&low, &high]) > 10.0 * error(&[&many, &many]));
        // Known to be that of the research: 15 % of 1,700 samples is known to 1.7 points.
        let research = profile("a 255\nb 1445\n");
        assert!((error(&[&research]) - 0.017).abs() < 0.0005);
    }

    #[test]
    fn differences() {
        let (a, b) = (profile("r;x 700\nr;y 300\n"), profile("r;x 400\nr;y 590\nr;z 10\n"));
        let (rows, _) = compare(&[vec![&a], vec![&b]], View::Exclusive, 0.0);
        let row = |f: &str| rows.iter().find(|r| r.function == f).unwrap();
        assert_eq!(rows[0].function, "x");
        assert!((row("x").change + 0.3).abs() < 1e-12 && !row("x").within_error());
        assert_eq!((row("z").shares[0], row("z").shares[1].unwrap().weight), (None, 10));
        let (rows, _) = compare(&[vec![&a], vec![&b]], View::Inclusive, 0.05);
        assert!(rows.iter().all(|r| r.function != "r" && r.function != "z"));
        let near = profile("r;x 690\nr;y 310\n");
        let (rows, _) = compare(&[vec![&a], vec![&near]], View::Exclusive, 0.0);
        assert!(rows.iter().all(Row::within_error));
    }
}
