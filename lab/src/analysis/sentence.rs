//! The answer in one sentence, read off the verdicts: nothing here computes what they do not say. In this order: cliffs,
//! slides, who loses or gains against the baseline, memory, who is level with the best.

use super::words::{bytes, clients, count, list, percent, two_digits};
use super::{Cliff, Comparison, Curve, Metric, Question, Test, Verdict};

/// More groups of variants than this are counted, not told.
const TOLD: usize = 4;
/// An end this far under the peak is told.
const SLIDE: f64 = 0.67;

/// About one test, or about all of a sweep's.
pub(super) fn sentence(tests: &[&Test], question: &Question) -> String {
    let told = Told { tests, question };
    let variants = told.variants();
    let mut clauses = told.cliffs(&variants);
    clauses.extend(told.slides(&variants));
    match variants.as_slice() {
        [] => return "No trial counts.".into(),
        [only] => clauses.push(told.alone(only)),
        _ => {
            let (changes, attached) = told.changes(&variants);
            if changes.is_empty() {
                clauses.push(told.no_difference(&variants));
            }
            clauses.extend(changes);
            let left: Vec<&String> = variants.iter().filter(|v| !attached.contains(*v)).collect();
            clauses.extend(told.memory_of(&left));
            clauses.extend(told.best(&variants));
        }
    }
    let sentence = clauses.join("; ");
    // A name at the start keeps its case: "jemalloc" is how it is written.
    let starts_with_name = variants.iter().any(|v| sentence.starts_with(v.as_str()));
    match sentence.chars().next() {
        Some(first) if !starts_with_name => format!("{}{}.", first.to_uppercase(), &sentence[first.len_utf8()..]),
        _ => format!("{sentence}."),
    }
}

struct Told<'a> {
    tests: &'a [&'a Test],
    question: &'a Question,
}

/// What variants do alike: lose or gain, in the same places.
struct Change {
    loses: bool,
    place: String,
    variants: Vec<String>,
    low: f64,
    high: f64,
    /// 95 % interval, where there is but one comparison.
    interval: Option<(f64, f64)>,
}

/// What a variant takes of memory where most clients are, against the baseline.
struct Memory {
    ratio: f64,
    own: f64,
    baseline: f64,
    clients: u32,
}

impl<'a> Told<'a> {
    fn baseline(&self) -> &str {
        &self.tests[0].baseline
    }

    /// In order of first appearance; twins answer no question of their own.
    fn variants(&self) -> Vec<String> {
        let mut variants: Vec<String> = Vec::new();
        for curve in self.tests.iter().flat_map(|t| &t.curves) {
            let twin = self.question.twins.iter().any(|(_, twin)| *twin == curve.variant);
            if !twin && !variants.contains(&curve.variant) {
                variants.push(curve.variant.clone());
            }
        }
        variants
    }

    /// Every curve of a variant, with the test's name in words: " in oltp_read_only", or nothing if there is but one test.
    fn curves(&self, variant: &'a str) -> impl Iterator<Item = (&'a Test, &'a Curve, String)> {
        let of = move |t: &&'a Test| t.curves.iter().find(|c| c.variant == variant).map(|c| (*t, c));
        self.tests.iter().filter_map(of).map(|(t, c)| (t, c, self.in_test(t)))
    }

    fn in_test(&self, test: &Test) -> String {
        if self.tests.len() > 1 { format!(" in {}", self.short(test)) } else { String::new() }
    }

    /// A test's name without what stands in brackets, if that leaves it the only one.
    fn short(&self, test: &Test) -> String {
        let cut = |name: &str| name.split(" (").next().unwrap_or(name).to_string();
        let same = self.tests.iter().filter(|t| cut(&t.test) == cut(&test.test)).count();
        if same == 1 { cut(&test.test) } else { test.test.clone() }
    }

    fn cliffs(&self, variants: &'a [String]) -> Vec<String> {
        let place = |(cliff, in_test): &(&Cliff, String)| {
            let place = format!("{in_test} between {} and {} clients", count(cliff.before), count(cliff.after));
            place.trim_start().to_string()
        };
        // Variants that fall in the same places are told together.
        let mut falling: Vec<(Vec<String>, Vec<&String>, Vec<String>)> = Vec::new();
        let mut standing = Vec::new();
        for variant in variants {
            let cliffs: Vec<(&Cliff, String)> =
                self.curves(variant).filter_map(|(_, c, at)| Some((c.shape.cliff.as_ref()?, at))).collect();
            let places: Vec<String> = cliffs.iter().map(place).collect();
            let factors = list(&cliffs.iter().map(|(c, _)| two_digits(c.factor.median)).collect::<Vec<_>>());
            if cliffs.is_empty() {
                standing.push(variant.clone());
            } else if let Some(same) = falling.iter_mut().find(|f| f.0 == places) {
                same.1.push(variant);
                same.2.push(factors);
            } else {
                falling.push((places, vec![variant], vec![factors]));
            }
        }
        let mut clauses: Vec<String> = falling
            .iter()
            .map(|(places, variants, factors)| {
                let names = list(&variants.iter().map(|v| v.to_string()).collect::<Vec<_>>());
                let (fall, curve) = match variants.len() {
                    1 => ("falls", "its own curve predicts"),
                    _ => ("fall", "their own curves predict"),
                };
                let factors = list(factors);
                format!("{names} {fall} off a cliff {} (to {factors} of what {curve})", list(places))
            })
            .collect();
        if !clauses.is_empty() && !standing.is_empty() {
            clauses.push(format!("{} {}", list(&standing), if standing.len() > 1 { "do not" } else { "does not" }));
        }
        clauses
    }

    /// No cliff, but an end far under the peak.
    fn slides(&self, variants: &'a [String]) -> Option<String> {
        let of = |v: &'a String| {
            let slides = |c: &Curve| c.shape.cliff.is_none() && c.shape.end_over_peak.high < SLIDE;
            let found: Vec<_> = self.curves(v).filter(|(_, c, _)| slides(c)).map(|(t, c, _)| (v, t, c)).collect();
            (!found.is_empty()).then_some(found)
        };
        let found: Vec<Vec<(&String, &Test, &Curve)>> = variants.iter().filter_map(of).collect();
        let ends = || found.iter().flatten().map(|(_, _, c)| c.shape.end_over_peak.median);
        let (low, high) = (ends().reduce(f64::min)?, ends().reduce(f64::max)?);
        let names: Vec<String> = found.iter().map(|f| f[0].0.clone()).collect();
        let mut tests: Vec<String> = Vec::new();
        for (_, test, _) in found.iter().flatten() {
            if !tests.contains(&self.short(test)) {
                tests.push(self.short(test));
            }
        }
        let (slide, peak) = if names.len() > 1 { ("slide", "their peaks") } else { ("slides", "its peak") };
        let place = if self.tests.len() > 1 { format!(" in {}", list(&tests)) } else { String::new() };
        let most = found.iter().flatten().filter_map(|(_, _, c)| Some(c.points.last()?.clients)).max()?;
        let ends = range(two_digits(low), two_digits(high));
        Some(format!("{} {slide} to {ends} of {peak} by {}{place}", list(&names), clients(most)))
    }

    fn alone(&self, only: &'a str) -> String {
        let peaks: Vec<String> = self
            .curves(only)
            .map(|(t, c, at)| {
                let peak = two_digits(c.shape.peak.median);
                format!("{peak} {} at {}{at}", t.throughput.name(), clients(c.shape.peak_clients))
            })
            .collect();
        format!("only {only} was run, so there is nothing to compare it with; its peak is {}", list(&peaks))
    }

    /// Who loses or gains throughput against the baseline; and whose memory was told along with it.
    fn changes(&self, variants: &'a [String]) -> (Vec<String>, Vec<String>) {
        let mut groups: Vec<Change> = Vec::new();
        for (loses, variant) in [true, false].into_iter().flat_map(|l| variants.iter().map(move |v| (l, v))) {
            let Some(change) = self.change(variant, loses) else { continue };
            match groups.iter_mut().find(|g| g.loses == loses && g.place == change.place) {
                Some(same) => {
                    same.variants.push(variant.clone());
                    (same.low, same.high) = (same.low.min(change.low), same.high.max(change.high));
                    same.interval = None;
                }
                None => groups.push(change),
            }
        }
        groups.sort_by(|a, b| b.loses.cmp(&a.loses).then(extent(b).total_cmp(&extent(a))));
        let (mut clauses, mut attached) = (Vec::new(), Vec::new());
        for group in groups.iter().take(TOLD) {
            let (names, several) = (list(&group.variants), group.variants.len() > 1);
            let memory = match group.variants.as_slice() {
                [one] if !attached.contains(one) => self.memory(one),
                _ => None,
            };
            let memory = memory.map_or(String::new(), |m| {
                attached.push(group.variants[0].clone());
                let figures = format!("{} against {} at {}", bytes(m.own), bytes(m.baseline), clients(m.clients));
                format!(" and takes {} its memory ({figures})", times(m.ratio))
            });
            clauses.push(format!("{names} {} {}{memory}", self.amount(group, several), group.place));
        }
        let told: Vec<&String> = groups.iter().take(TOLD).flat_map(|g| &g.variants).collect();
        let more = groups.iter().skip(TOLD).flat_map(|g| &g.variants).filter(|v| !told.contains(v)).count();
        if more > 0 {
            clauses.push(format!("{more} more differ from {}", self.baseline()));
        }
        (clauses, attached)
    }

    fn change(&self, variant: &str, loses: bool) -> Option<Change> {
        let wanted = if loses { Verdict::Worse } else { Verdict::Better };
        let of = |t: &'a Test| {
            let is = |c: &&Comparison| c.metric == t.throughput && c.variant == variant && c.verdict == wanted;
            (t, t.comparisons.iter().filter(is).collect::<Vec<_>>())
        };
        let found: Vec<(&Test, Vec<&Comparison>)> =
            self.tests.iter().map(|t| of(t)).filter(|(_, c)| !c.is_empty()).collect();
        let changes = || found.iter().flat_map(|(_, c)| c).map(|c| c.change.median);
        let (low, high) = (changes().reduce(f64::min)?, changes().reduce(f64::max)?);
        let place = match found.as_slice() {
            [(test, comparisons)] => {
                let at: Vec<u32> = comparisons.iter().map(|c| c.clients).collect();
                format!("{}{}", places(&at, &test.clients), self.in_test(test))
            }
            all if all.len() == 2 && self.tests.len() == 2 => "in both tests".into(),
            all if all.len() == self.tests.len() => format!("in all {} tests", all.len()),
            some => format!("in {}", list(&some.iter().map(|(t, _)| self.short(t)).collect::<Vec<_>>())),
        };
        let interval = match found.as_slice() {
            [(_, only)] if only.len() == 1 => Some((only[0].change.low, only[0].change.high)),
            _ => None,
        };
        Some(Change { loses, place, variants: vec![variant.to_string()], low, high, interval })
    }

    /// "loses 34 to 51 % against glibc", "runs at 0.14 to 0.4 of glibc's throughput", "runs at 1.1 to 8.8 times glibc's".
    fn amount(&self, change: &Change, several: bool) -> String {
        let base = self.baseline();
        let factors = range(two_digits(1.0 + change.low), two_digits(1.0 + change.high));
        let between = |low: String, high: String| format!(" ({low} to {high})");
        let interval =
            |of: &dyn Fn(f64) -> String| change.interval.map_or(String::new(), |(l, h)| between(of(l), of(h)));
        let run = if several { "run" } else { "runs" };
        let as_factor = interval(&|x| two_digits(1.0 + x));
        if change.high > 1.0 {
            return format!("{run} at {factors} times{as_factor} {base}'s throughput");
        }
        if change.low < -0.67 {
            return format!("{run} at {factors}{as_factor} of {base}'s throughput");
        }
        let (verb, sign) = match (change.loses, several) {
            (true, false) => ("loses", -1.0),
            (true, true) => ("lose", -1.0),
            (false, false) => ("gains", 1.0),
            (false, true) => ("gain", 1.0),
        };
        let bare = |fraction: f64| percent(fraction).trim_end_matches(" %").to_string();
        let (small, large) = (change.low.abs().min(change.high.abs()), change.low.abs().max(change.high.abs()));
        let interval = change.interval.map_or(String::new(), |(l, h)| {
            let (l, h) = ((l * sign).min(h * sign), (l * sign).max(h * sign));
            between(signed(l), bare(h))
        });
        format!("{verb} {} %{interval} against {base}", range(bare(small), bare(large)))
    }

    /// At the most clients, in the test with the largest difference; none where no verdict says that it differs.
    fn memory(&self, variant: &str) -> Option<Memory> {
        let metrics = [Metric::MemoryPeak, Metric::MemoryLoaded, Metric::MemoryIdle];
        metrics.into_iter().find_map(|metric| {
            let of = |t: &&Test| {
                let measured = t.comparisons.iter().filter(|c| c.metric == metric && c.variant == variant);
                let last = measured.max_by_key(|c| c.clients)?;
                let figure = |name: &str| {
                    let curve = t.curves.iter().find(|x| x.variant == name)?;
                    let point = curve.points.iter().find(|p| p.clients == last.clients)?;
                    Some(point.figures.iter().find(|f| f.0 == metric)?.1.median)
                };
                let differs = matches!(last.verdict, Verdict::Better | Verdict::Worse);
                let (own, baseline) = (figure(variant)?, figure(&t.baseline)?);
                differs.then_some(Memory { ratio: 1.0 + last.change.median, own, baseline, clients: last.clients })
            };
            self.tests.iter().filter_map(of).max_by(|a, b| a.ratio.ln().abs().total_cmp(&b.ratio.ln().abs()))
        })
    }

    /// "at 512 clients glibc takes 260 MB, mimalloc 7 times that (1.8 GB) and jemalloc 1.3 times that (340 MB)".
    fn memory_of(&self, variants: &[&String]) -> Option<String> {
        let found: Vec<(&String, Memory)> = variants.iter().filter_map(|v| Some((*v, self.memory(v)?))).collect();
        let first = &found.first()?.1;
        let alike = |m: &Memory| m.clients == first.clients && m.baseline == first.baseline;
        if !found.iter().all(|(_, m)| alike(m)) {
            let each: Vec<String> =
                found.iter().map(|(v, m)| format!("{v} {} (at {})", times(m.ratio), clients(m.clients))).collect();
            return Some(format!("of {}'s memory {}", self.baseline(), list(&each)));
        }
        let each: Vec<String> =
            found.iter().map(|(v, m)| format!("{v} {} that ({})", times(m.ratio), bytes(m.own))).collect();
        let base = format!("{} takes {} of memory", self.baseline(), bytes(first.baseline));
        Some(format!("at {} {base}, {}", clients(first.clients), list(&each)))
    }

    /// Nothing is better or worse than the baseline: because all is level, or because the run cannot tell.
    fn no_difference(&self, variants: &[String]) -> String {
        let own: Vec<&Comparison> = self
            .tests
            .iter()
            .flat_map(|t| t.comparisons.iter().filter(|c| c.metric == t.throughput && variants.contains(&c.variant)))
            .collect();
        let Some(largest) = own.iter().max_by(|a, b| a.change.median.abs().total_cmp(&b.change.median.abs())) else {
            return format!("nothing was measured beside {} at the same client count", self.baseline());
        };
        let undecided: Vec<&Comparison> = own.iter().copied().filter(|c| c.verdict == Verdict::Undecided).collect();
        if undecided.is_empty() {
            let margin = percent(own.iter().map(|c| c.margin).fold(0.0, f64::max));
            let others: Vec<String> = variants.iter().filter(|v| *v != self.baseline()).cloned().collect();
            return format!(
                "no difference that matters: {} {} within {margin} of {}{}",
                list(&others),
                if others.len() > 1 { "stay" } else { "stays" },
                self.baseline(),
                self.everywhere()
            );
        }
        let difference = format!(
            "this run cannot tell them apart: the largest difference is {} ({} against {} at {})",
            percent(largest.change.median),
            largest.variant,
            self.baseline(),
            clients(largest.clients)
        );
        if undecided.iter().any(|c| c.p.is_none()) {
            return format!("{difference}, and nothing shows how far one run lies from the next");
        }
        match undecided.iter().map(|c| c.more_rounds).collect::<Option<Vec<u32>>>() {
            Some(rounds) => match rounds.into_iter().max() {
                Some(1) => format!("{difference}; 1 more round would decide"),
                Some(n) => format!("{difference}; {} more rounds would decide", count(n)),
                None => difference,
            },
            None => format!("{difference}; more rounds would not decide"),
        }
    }

    fn best(&self, variants: &[String]) -> Option<String> {
        let always = |v: &&String| self.tests.iter().all(|t| t.best.contains(v));
        let best: Vec<String> = variants.iter().filter(always).cloned().collect();
        if best.is_empty() || best.len() == variants.len() {
            return None;
        }
        let margin = percent(self.tests.iter().map(|t| t.margin.value).fold(0.0, f64::max));
        let place = self.everywhere();
        Some(match best.as_slice() {
            [one] => format!("{one} is the best or within {margin} of it{place}"),
            several => format!("{} are within {margin} of the best{place}", list(several)),
        })
    }

    fn everywhere(&self) -> String {
        let counts = self.tests.iter().map(|t| t.clients.len()).max().unwrap_or(0);
        match (counts > 1, self.tests.len() > 1) {
            (false, false) => String::new(),
            (true, false) => " at every client count".into(),
            (false, true) => " in every test".into(),
            (true, true) => " at every client count of every test".into(),
        }
    }
}

/// As percent without its sign; an interval may begin below 0.
fn signed(fraction: f64) -> String {
    let bare = percent(fraction).trim_end_matches(" %").to_string();
    if fraction < 0.0 { format!("-{bare}") } else { bare }
}

/// How far a group goes from no change.
fn extent(change: &Change) -> f64 {
    change.low.ln_1p().abs().max(change.high.ln_1p().abs())
}

fn range(low: String, high: String) -> String {
    if low == high { low } else { format!("{low} to {high}") }
}

fn times(ratio: f64) -> String {
    if ratio < 0.995 { format!("{} of", two_digits(ratio)) } else { format!("{} times", two_digits(ratio)) }
}

/// Where of all client counts these lie: "at every client count", "from 64 clients on", "at 5 of 11 client counts".
fn places(at: &[u32], all: &[u32]) -> String {
    let from = all.iter().position(|c| at.contains(c)).unwrap_or(0);
    let to = all.iter().rposition(|c| at.contains(c)).unwrap_or(0);
    let gapless = to - from + 1 == at.len();
    match at {
        [one] => format!("at {}", clients(*one)),
        _ if at.len() == all.len() => "at every client count".into(),
        _ if gapless && to + 1 == all.len() => format!("from {} on", clients(all[from])),
        _ if gapless && from == 0 => format!("up to {}", clients(all[to])),
        _ if gapless => format!("from {} to {}", count(all[from]), clients(all[to])),
        _ if at.len() <= 3 => format!("at {} clients", list(&at.iter().map(|c| count(*c)).collect::<Vec<_>>())),
        _ => format!("at {} of {} client counts", at.len(), all.len()),
    }
}
