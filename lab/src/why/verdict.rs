//! The three legs, and the sentence that stands on them.

use super::loss::{Against, Asked, Loss, losses};
use super::sheet::Sheet;
use super::spot::{Cost, Spot, counts, sum};
use crate::analysis::{
    Test,
    words::{clients, list, percent, two_digits},
};
use crate::profile::Kind;
use crate::profile::cause::Cause;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    Heap,
    NotTheHeap,
    /// There is nothing to blame anything for.
    NoLoss,
    /// A leg is not known: no profile of it, or one whose error is larger than what it shows.
    Open,
}

impl Blame {
    pub fn words(self) -> &'static str {
        match self {
            Blame::Heap => "the heap is to blame",
            Blame::NotTheHeap => "not the heap",
            Blame::NoLoss => "no loss",
            Blame::Open => "open",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// None: it is not known.
    pub holds: Option<bool>,
    pub words: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub test: String,
    pub blame: Blame,
    pub loss: Option<Loss>,
    pub legs: Vec<Leg>,
    /// The heap's share, where it is to blame.
    pub share: Option<f64>,
    /// What grew most, where it is not.
    pub cause: Option<Cause>,
    pub sentence: String,
}

/// One answer a test.
pub fn answers(tests: &[Test], spots: &[Spot], sheet: Option<&Sheet>, asked: Asked) -> Vec<Answer> {
    tests.iter().map(|test| answer(test, spots, sheet, asked)).collect()
}

fn answer(test: &Test, spots: &[Spot], sheet: Option<&Sheet>, asked: Asked) -> Answer {
    let found = losses(test, asked);
    // Profiles were taken for the largest loss; a sheet speaks for all.
    let known = |loss: &&Loss| sheet.is_some() || spot(spots, test, &loss.variant, loss.clients).is_some();
    let Some(loss) = found.iter().find(known).or(found.first()) else {
        let words = "No cliff: no variant loses so much throughput, along the clients or against another, that it asks for a cause";
        return Answer {
            test: test.test.clone(),
            blame: Blame::NoLoss,
            loss: None,
            legs: vec![Leg { holds: Some(false), words: format!("{words}.") }],
            share: None,
            cause: None,
            sentence: format!("{words}."),
        };
    };
    let one = Leg { holds: Some(true), words: in_words(test, loss) };
    let two = if asked.heap_alone { moved(loss) } else { not_isolated() };
    let seen = Seen::of(test, loss, spots);
    let three = match (sheet, &seen) {
        (Some(sheet), _) => of_sheet(loss, sheet),
        (None, Some(seen)) => seen.leg(),
        (None, None) => {
            Leg { holds: None, words: "the profiles that would tell are not there: evenkeel why takes them".into() }
        }
    };
    let blame = match (two.holds, three.holds) {
        (Some(true), Some(true)) => Blame::Heap,
        (Some(false), _) | (_, Some(false)) => Blame::NotTheHeap,
        _ => Blame::Open,
    };
    let grew = seen.as_ref().and_then(|s| s.grew());
    let share = match sheet {
        Some(sheet) => sheet.heap_share(&loss.variant),
        None => seen.as_ref().and_then(|s| s.here.heap_share(s.kind)),
    };
    let sentence = match blame {
        Blame::Heap => format!("The heap is to blame: {}; {}; {}.", one.words, two.words, three.words),
        Blame::NotTheHeap => {
            let what = match (&grew, &seen) {
                (Some(grew), _) => format!("; {}", grew.words),
                (None, Some(_)) => {
                    "; nothing in the server grew beyond its error: the time goes to the load or to the host".into()
                }
                (None, None) => String::new(),
            };
            let why = if two.holds == Some(false) { &two.words } else { &three.words };
            format!("Not the heap: {}; {why}{what}.", one.words)
        }
        _ => format!("Open: {}; {}; {}.", one.words, two.words, three.words),
    };
    Answer {
        test: test.test.clone(),
        blame,
        loss: Some(loss.clone()),
        legs: vec![one, two, three],
        share: share.filter(|_| blame == Blame::Heap),
        cause: grew.map(|g| g.cause).filter(|_| blame == Blame::NotTheHeap),
        sentence,
    }
}

fn in_words(test: &Test, loss: &Loss) -> String {
    let (variant, lost) = (&loss.variant, percent(1.0 - loss.left));
    match loss.against {
        Against::Cliff(from) => {
            format!("{variant} falls off a cliff from {} to {}, by {lost}", clients(from), clients(loss.clients))
        }
        Against::Peak(from) => {
            format!("{variant} falls by {lost} from its peak at {} to {}", clients(from), clients(loss.clients))
        }
        Against::Level => {
            let place = if test.clients.len() > 1 { format!(" at {}", clients(loss.clients)) } else { String::new() };
            format!("{variant} runs {lost} below {}{place}", loss.free.as_deref().unwrap_or(&test.baseline))
        }
    }
}

fn moved(loss: &Loss) -> Leg {
    match (&loss.free, &loss.beside, loss.against) {
        (Some(free), _, Against::Level) => {
            Leg { holds: Some(true), words: format!("only the heap differs between it and {free}") }
        }
        (Some(free), _, _) => Leg { holds: Some(true), words: format!("{free}, on the same server, does not") },
        (None, Some(beside), _) => {
            Leg { holds: Some(false), words: format!("{beside} falls alike on the same server") }
        }
        (None, None, _) => Leg { holds: None, words: "no other heap was measured at these clients".into() },
    }
}

/// Engines, servers or configurations were compared.
fn not_isolated() -> Leg {
    Leg { holds: None, words: "the variants of this sweep differ in more than the heap, or not in it".into() }
}

fn of_sheet(loss: &Loss, sheet: &Sheet) -> Leg {
    let of = |v: &str| sheet.heap_share(v);
    let (Some(here), Some((free, there))) = (of(&loss.variant), loss.beside.as_deref().and_then(|f| Some((f, of(f)?))))
    else {
        return Leg { holds: None, words: "the table of frames does not name these variants".into() };
    };
    Leg {
        holds: Some(here > there),
        words: format!(
            "the heap's frames hold {} of {}'s stacks and {} of {free}'s",
            percent(here),
            loss.variant,
            percent(there)
        ),
    }
}

fn spot<'a>(spots: &'a [Spot], test: &Test, variant: &str, clients: u32) -> Option<&'a Spot> {
    let is = |s: &&Spot| s.test == test.test && s.variant == variant && s.clients == clients;
    spots.iter().find(is).filter(|s| s.taken(Kind::Cpu).is_some())
}

/// Two profiles: where the loss is, and what it is compared with.
struct Seen<'a> {
    loss: &'a Loss,
    here: &'a Spot,
    /// The variant beside it at the same clients.
    there: Option<&'a Spot>,
    /// The same variant where it had not lost yet.
    before: Option<&'a Spot>,
    /// Whether the loss is CPU that was burnt, or time that was waited.
    kind: Kind,
}

/// What grew most, and by how much of all that grew.
struct Grew {
    cause: Cause,
    words: String,
}

impl<'a> Seen<'a> {
    fn of(test: &'a Test, loss: &'a Loss, spots: &'a [Spot]) -> Option<Seen<'a>> {
        let here = spot(spots, test, &loss.variant, loss.clients)?;
        let there = loss.beside.as_ref().and_then(|v| spot(spots, test, v, loss.clients));
        let before = match loss.against {
            Against::Cliff(from) | Against::Peak(from) => spot(spots, test, &loss.variant, from),
            Against::Level => None,
        };
        let mut seen = Seen { loss, here, there, before, kind: Kind::Cpu };
        seen.kind = seen.limit();
        Some(seen)
    }

    fn reference(&self) -> Option<&'a Spot> {
        // What the heap does is seen beside another heap; what grew along the clients, beside fewer.
        match self.loss.free {
            Some(_) => self.there.or(self.before),
            None => self.before.or(self.there),
        }
    }

    /// CPU, if a transaction costs so much more of it that this alone is half of the loss; else waiting.
    fn limit(&self) -> Kind {
        let Some(reference) = self.reference() else { return Kind::Cpu };
        let (here, there) = (self.here.total(Kind::Cpu).value, reference.total(Kind::Cpu).value);
        let burnt = (here / there.max(f64::MIN_POSITIVE)).ln();
        let waits = self.here.taken(Kind::OffCpu).is_some() && reference.taken(Kind::OffCpu).is_some();
        if burnt >= -self.loss.left.ln() / 2.0 || !waits { Kind::Cpu } else { Kind::OffCpu }
    }

    fn leg(&self) -> Leg {
        let Some(there) = self.there.or(self.before) else {
            return Leg { holds: None, words: "there is no profile to compare with".into() };
        };
        let (here_heap, there_heap) = (self.here.heap(self.kind), there.heap(self.kind));
        let (here_all, there_all) = (self.here.total(self.kind), there.total(self.kind));
        let grew = here_heap.value - there_heap.value;
        let error = here_heap.error.hypot(there_heap.error);
        let all = here_all.value - there_all.value;
        let certain = grew > error;
        let what = if self.kind == Kind::Cpu { "CPU" } else { "waiting" };
        let share = |s: &Spot| s.heap_share(self.kind).map_or("nothing".into(), percent);
        let along = there.variant == self.here.variant;
        let name = |s: &Spot| {
            if along { format!("the {what} at {}", clients(s.clients)) } else { format!("{}'s {what}", s.variant) }
        };
        let words = format!(
            "the heap takes {} of {} and {} of {} ({} and {} a transaction)",
            share(self.here),
            name(self.here),
            share(there),
            name(there),
            micros(here_heap),
            micros(there_heap)
        );
        let part = grew / all.max(f64::MIN_POSITIVE);
        match () {
            () if certain && all > 0.0 && part < LEAST_PART => Leg {
                holds: Some(false),
                words: format!("{words}: only {} of what a transaction costs more", percent(part)),
            },
            () if certain && all > 0.0 => {
                let part = percent(part.min(1.0));
                Leg { holds: Some(true), words: format!("{words}: {part} of what a transaction costs more") }
            }
            () if certain => Leg { holds: Some(true), words },
            () if grew < -error || error < here_all.value * 0.02 => {
                Leg { holds: Some(false), words: format!("{words}: it does not grow") }
            }
            () => Leg { holds: None, words: format!("{words}: the difference lies within the error") },
        }
    }

    /// The cause outside the heap, or the heap, that grew most a transaction: of what limits, else of the other.
    fn grew(&self) -> Option<Grew> {
        let other = if self.kind == Kind::Cpu { Kind::OffCpu } else { Kind::Cpu };
        self.grew_in(self.kind).or_else(|| self.grew_in(other))
    }

    fn grew_in(&self, kind: Kind) -> Option<Grew> {
        let reference = self.reference()?;
        let grouped = |spot: &Spot| -> BTreeMap<Cause, Cost> {
            let mut groups: BTreeMap<Cause, Vec<Cost>> = BTreeMap::new();
            for (cause, cost) in spot.costs(kind).into_iter().filter(|(c, _)| counts(kind, *c)) {
                groups.entry(if cause.is_heap() { Cause::HeapAllocation } else { cause }).or_default().push(cost);
            }
            groups.into_iter().map(|(c, costs)| (c, sum(costs.into_iter()))).collect()
        };
        let (here, there) = (grouped(self.here), grouped(reference));
        let before = |c: &Cause| there.get(c).copied().unwrap_or_default();
        let (cause, cost) =
            here.iter().max_by(|a, b| (a.1.value - before(a.0).value).total_cmp(&(b.1.value - before(b.0).value)))?;
        let was = before(cause);
        if cost.value - was.value <= cost.error.hypot(was.error) {
            return None;
        }
        let name = if cause.is_heap() { "the heap" } else { cause.name() };
        let what = match (kind, cause) {
            (_, Cause::Load) => "",
            (Kind::Cpu, _) => "CPU in ",
            _ => "waiting for ",
        };
        let words = format!(
            "what grew most is {what}{}, from {} to {} a transaction{}",
            plain(name),
            micros(was),
            micros(*cost),
            also(&here, &there, *cause)
        );
        Some(Grew { cause: *cause, words })
    }
}

/// The other causes that grew, as a list of two.
fn also(here: &BTreeMap<Cause, Cost>, there: &BTreeMap<Cause, Cost>, but: Cause) -> String {
    let mut grew: Vec<(f64, Cause)> = here
        .iter()
        .filter(|(c, _)| **c != but)
        .filter_map(|(c, cost)| {
            let was = there.get(c).copied().unwrap_or_default();
            let by = cost.value - was.value;
            (by > cost.error.hypot(was.error)).then_some((by, *c))
        })
        .collect();
    grew.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<String> = grew.iter().take(2).map(|(_, c)| plain(c.name()).to_string()).collect();
    if names.is_empty() { String::new() } else { format!(" (then {})", list(&names)) }
}

/// Below this part of the growth the heap is one cause among others.
const LEAST_PART: f64 = 0.2;

fn plain(name: &str) -> &str {
    match name {
        "unknown" => "what has no name",
        other => other,
    }
}

fn micros(cost: Cost) -> String {
    if cost.value >= 995.0 {
        format!("{} ms", two_digits(cost.value / 1000.0))
    } else {
        format!("{} us", two_digits(cost.value))
    }
}
