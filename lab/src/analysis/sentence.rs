//! The answer in one sentence, read off the verdicts: nothing here computes what they do not say.

use super::words::{bytes, count, list, percent, two_digits};
use super::{Cliff, Comparison, Metric, Question, Test, Verdict};

/// More variants than this are counted, not told.
const TOLD: usize = 4;

/// About one test, or about all of a sweep's.
pub(super) fn sentence(tests: &[&Test], question: &Question) -> String {
    let told = Told { tests, question };
    let variants = told.variants();
    let mut clauses = told.cliffs();
    match variants.as_slice() {
        [] => return "No trial counts.".into(),
        [only] => clauses.push(told.alone(only)),
        _ => {
            let differing: Vec<String> = variants.iter().filter_map(|v| told.against_baseline(v)).collect();
            if differing.is_empty() {
                clauses.push(told.no_difference(&variants));
            }
            clauses.extend(told.first_of(differing, clauses.is_empty()));
            clauses.extend(told.best(&variants));
        }
    }
    let sentence = clauses.join("; ");
    let mut letters = sentence.chars();
    // A name at the start keeps its case: "jemalloc" is how it is written.
    let starts_with_name = variants.iter().any(|v| sentence.starts_with(v.as_str()));
    match letters.next() {
        Some(first) if !starts_with_name => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        _ => format!("{sentence}."),
    }
}

struct Told<'a> {
    tests: &'a [&'a Test],
    question: &'a Question,
}

impl Told<'_> {
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

    fn alone(&self, only: &str) -> String {
        let of = |t: &&Test| {
            let shape = &t.curves.iter().find(|c| c.variant == only)?.shape;
            let end = shape.end_over_peak.median;
            let fall = if end < 0.995 {
                format!(", {} of that at {}", two_digits(end), clients(*t.clients.last()?))
            } else {
                String::new()
            };
            let at = if self.tests.len() > 1 { format!(" in {}", t.test) } else { String::new() };
            Some(format!(
                "{} {} at {}{fall}{at}",
                two_digits(shape.peak.median),
                unit(t.throughput),
                clients(shape.peak_clients)
            ))
        };
        let peaks: Vec<String> = self.tests.iter().filter_map(of).collect();
        format!("only {only} was run, so there is nothing to compare: its peak is {}", list(&peaks))
    }

    fn cliffs(&self) -> Vec<String> {
        let of = |variant: &str| -> Vec<(&str, &Cliff)> {
            let curves = self.tests.iter().flat_map(|t| t.curves.iter().map(|c| (t.test.as_str(), c)));
            curves
                .filter(|(_, c)| c.variant == variant)
                .filter_map(|(t, c)| Some((t, c.shape.cliff.as_ref()?)))
                .collect()
        };
        let (mut falling, mut standing) = (Vec::new(), Vec::new());
        for variant in self.variants() {
            let cliffs = of(&variant);
            if cliffs.is_empty() {
                standing.push(variant);
                continue;
            }
            let place = |(test, c): &(&str, &Cliff)| {
                let test = if self.tests.len() > 1 { format!("in {test} ") } else { String::new() };
                format!(
                    "{test}between {} and {} clients (to {} of what its own curve predicts)",
                    count(c.before),
                    count(c.after),
                    two_digits(c.factor.median)
                )
            };
            falling
                .push(format!("{variant} falls off a cliff {}", list(&cliffs.iter().map(place).collect::<Vec<_>>())));
        }
        if falling.is_empty() {
            return Vec::new();
        }
        if !standing.is_empty() {
            let verb = if standing.len() > 1 { "do not" } else { "does not" };
            falling.push(format!("{} {verb}", list(&standing)));
        }
        falling
    }

    /// What a variant loses or gains against the baseline, in throughput and in memory. None if nothing is shown.
    fn against_baseline(&self, variant: &str) -> Option<String> {
        let losses = self.throughput(variant, Verdict::Worse);
        let gains = self.throughput(variant, Verdict::Better);
        let mut parts = Vec::new();
        parts.extend(self.changes(&losses, "loses"));
        parts.extend(self.changes(&gains, "gains"));
        let base = self.baseline();
        let memory = self.memory(variant);
        match (parts.is_empty(), memory) {
            (true, None) => None,
            (true, Some((memory, figures))) => {
                Some(format!("{variant} takes {}{figures}", memory.replace("its", &format!("{base}'s"))))
            }
            (false, None) => Some(format!("{variant} {}", list(&parts))),
            (false, Some((memory, figures))) => {
                Some(format!("{variant} {} and takes {memory}{figures}", parts.join(", ")))
            }
        }
    }

    fn throughput(&self, variant: &str, verdict: Verdict) -> Vec<(&Test, Vec<&Comparison>)> {
        self.tests
            .iter()
            .map(|t| {
                let of = |c: &&Comparison| c.metric == t.throughput && c.variant == variant && c.verdict == verdict;
                (*t, t.comparisons.iter().filter(of).collect::<Vec<_>>())
            })
            .filter(|(_, c)| !c.is_empty())
            .collect()
    }

    /// "loses 34 to 51 % against glibc from 64 clients on".
    fn changes(&self, found: &[(&Test, Vec<&Comparison>)], verb: &str) -> Option<String> {
        let all: Vec<&Comparison> = found.iter().flat_map(|(_, c)| c.iter().copied()).collect();
        let low = all.iter().map(|c| c.change.median).reduce(f64::min)?;
        let high = all.iter().map(|c| c.change.median).reduce(f64::max)?;
        let place = match found {
            [(test, comparisons)] => {
                let at: Vec<u32> = comparisons.iter().map(|c| c.clients).collect();
                let test_name = if self.tests.len() > 1 { format!(" in {}", test.test) } else { String::new() };
                format!("{}{test_name}", places(&at, &test.clients))
            }
            _ if found.len() == self.tests.len() => format!("in all {} tests", found.len()),
            _ => format!("in {}", list(&found.iter().map(|(t, _)| t.test.clone()).collect::<Vec<_>>())),
        };
        Some(format!("{} {place}", amount(verb, low, high, self.baseline())))
    }

    /// How much memory a variant takes, in words, and the figures behind it: at the most clients, in the test with the
    /// largest difference.
    fn memory(&self, variant: &str) -> Option<(String, String)> {
        let metrics = [Metric::MemoryPeak, Metric::MemoryLoaded, Metric::MemoryIdle];
        let shown = |c: &&Comparison| matches!(c.verdict, Verdict::Better | Verdict::Worse) && c.variant == variant;
        metrics.into_iter().find_map(|metric| {
            let last = |t: &&Test| {
                let of_metric = t.comparisons.iter().filter(|c| c.metric == metric && c.variant == variant);
                of_metric.max_by_key(|c| c.clients).filter(shown).map(|c| (c.clone(), (*t).clone()))
            };
            let (c, test) = self
                .tests
                .iter()
                .filter_map(last)
                .max_by(|a, b| a.0.change.median.ln_1p().abs().total_cmp(&b.0.change.median.ln_1p().abs()))?;
            let of = |name: &str| {
                let curve = test.curves.iter().find(|x| x.variant == name)?;
                let point = curve.points.iter().find(|p| p.clients == c.clients)?;
                Some(point.figures.iter().find(|f| f.0 == metric)?.1.median)
            };
            let figures = match (of(variant), of(&test.baseline)) {
                (Some(own), Some(base)) => {
                    format!(" ({} against {} at {})", bytes(own), bytes(base), clients(c.clients))
                }
                _ => String::new(),
            };
            let ratio = 1.0 + c.change.median;
            let words = match ratio {
                r if r >= 1.95 => format!("{} times its memory", two_digits(r)),
                r if r >= 1.0 => format!("{} more than its memory", percent(r - 1.0)),
                r if r > 0.55 => format!("{} less than its memory", percent(1.0 - r)),
                r => format!("{} of its memory", two_digits(r)),
            };
            Some((words, figures))
        })
    }

    fn first_of(&self, mut clauses: Vec<String>, _alone: bool) -> Vec<String> {
        let more = clauses.len().saturating_sub(TOLD);
        clauses.truncate(TOLD);
        if more > 0 {
            clauses.push(format!("{more} more differ from {} too", self.baseline()));
        }
        clauses
    }

    /// Nothing is better or worse than the baseline: because all is level, or because the run cannot tell.
    fn no_difference(&self, variants: &[String]) -> String {
        let own: Vec<&Comparison> = self
            .tests
            .iter()
            .flat_map(|t| t.comparisons.iter().filter(|c| c.metric == t.throughput && variants.contains(&c.variant)))
            .collect();
        let undecided: Vec<&Comparison> = own.iter().copied().filter(|c| c.verdict == Verdict::Undecided).collect();
        let widest = own.iter().map(|c| c.margin).fold(0.0, f64::max);
        let largest = own.iter().max_by(|a, b| a.change.median.abs().total_cmp(&b.change.median.abs()));
        let Some(largest) = largest else {
            return format!("nothing was measured beside {} at the same client count", self.baseline());
        };
        if undecided.is_empty() {
            return format!(
                "no difference that matters: {} stay within {} of each other",
                list(variants),
                percent(widest)
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
        let counts = self.tests.iter().map(|t| t.clients.len()).max().unwrap_or(0);
        let place = match (counts, self.tests.len()) {
            (0 | 1, 1) => String::new(),
            (_, 1) => " at every client count".into(),
            (0 | 1, _) => " in every test".into(),
            _ => " at every client count of every test".into(),
        };
        Some(match best.as_slice() {
            [one] => format!("{one} is the best or level with it{place}"),
            several => format!("{} are level with the best{place}", list(several)),
        })
    }
}

fn clients(n: u32) -> String {
    if n == 1 { "1 client".into() } else { format!("{} clients", count(n)) }
}

fn unit(throughput: Metric) -> &'static str {
    throughput.name()
}

/// "loses 34 to 51 % against glibc", "runs at 0.14 to 0.4 of glibc's throughput", "runs at 1.1 to 8.8 times glibc's throughput".
fn amount(verb: &str, low: f64, high: f64, base: &str) -> String {
    let range = |a: String, b: String| if a == b { a } else { format!("{a} to {b}") };
    let factor = |x: f64| two_digits(1.0 + x);
    if high > 1.0 {
        return format!("runs at {} times {base}'s throughput", range(factor(low), factor(high)));
    }
    if low < -0.67 {
        return format!("runs at {} of {base}'s throughput", range(factor(low), factor(high)));
    }
    let (small, large) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
    let short = |s: String| s.trim_end_matches(" %").to_string();
    format!("{verb} {} % against {base}", range(short(percent(small)), short(percent(large))))
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
        _ => format!("at {} of {} client counts", at.len(), all.len()),
    }
}
