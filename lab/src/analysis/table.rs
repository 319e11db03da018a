//! Records laid out for comparison: tests, in each the variants, client counts and rounds.
//!
//! One factor is compared: the one that the baseline is a value of, else the first that varies of heap, server, config,
//! engine, cpus. What else varies is the setting of a comparison and parts tests (InnoDB and TidesDB are not compared when
//! heaps are). Where heaps, servers and configs were not all crossed with each other, that would leave a test with nothing
//! to compare: there they make up the variant together.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Metric, Question};
use crate::record::{Cell, Direction, Factor, Outcome, Record};

pub(super) struct Table<'a> {
    pub baseline: String,
    pub groups: Vec<Group<'a>>,
    /// (trial, cell in words, why).
    pub not_counted: Vec<(String, String, String)>,
    pub counted: usize,
    pub notes: Vec<String>,
}

/// One test in one setting.
pub(super) struct Group<'a> {
    pub name: String,
    /// The baseline first.
    pub variants: Vec<String>,
    /// Rising.
    pub clients: Vec<u32>,
    /// The records of a variant (outer) at a client count (inner).
    cells: Vec<Vec<Vec<&'a Record>>>,
}

/// The values of one metric: variant, client count, round.
pub(super) type Values = Vec<Vec<BTreeMap<u32, f64>>>;

/// How cells are named: which factors make the variant, which the setting.
pub struct Naming {
    variant: Vec<Factor>,
    setting: Vec<Factor>,
}

impl Naming {
    pub fn of(records: &[&Record], baseline: Option<&str>) -> Naming {
        let cells = records.iter().map(|r| &r.cell);
        let varying = Factor::varying(cells.clone());
        let compared = Factor::compared(cells, baseline).unwrap_or(Factor::Heap);
        let setting: Vec<Factor> = varying.iter().copied().filter(|f| *f != compared).collect();
        let crossed = Naming { variant: vec![compared], setting };
        let mut variants: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for r in records {
            variants.entry(crossed.test(&r.cell)).or_default().insert(crossed.variant(&r.cell));
        }
        if variants.values().all(|v| v.len() > 1) {
            return crossed;
        }
        let is_chosen = |f: &Factor| *f == compared || !matches!(f, Factor::Engine | Factor::Cpus);
        let (mut variant, setting): (Vec<Factor>, Vec<Factor>) = varying.into_iter().partition(is_chosen);
        if variant.is_empty() {
            variant.push(compared);
        }
        Naming { variant, setting }
    }

    /// Whether variants differ in their heaps and in nothing else.
    pub fn is_heap_alone(&self) -> bool {
        self.variant == [Factor::Heap]
    }

    pub fn variant(&self, cell: &Cell) -> String {
        self.variant.iter().map(|f| f.in_words(f.of(cell))).collect::<Vec<_>>().join(", ")
    }

    pub fn test(&self, cell: &Cell) -> String {
        std::iter::once(cell.test.clone())
            .chain(self.setting.iter().map(|f| f.in_words(f.of(cell))))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// A cell as a person would name it.
fn in_words(cell: &Cell) -> String {
    let parts =
        Factor::ALL.into_iter().map(|f| (f, f.of(cell))).filter(|(_, v)| !v.is_empty()).map(|(f, v)| f.in_words(v));
    let mut words: Vec<String> = std::iter::once(cell.test.clone()).chain(parts).collect();
    words.push(if cell.clients == 1 { "1 client".into() } else { format!("{} clients", cell.clients) });
    words.join(", ")
}

impl<'a> Table<'a> {
    pub fn of(question: &Question, records: &'a [Record]) -> Table<'a> {
        let mut seen = HashSet::new();
        let mut counted = Vec::new();
        let mut not_counted = Vec::new();
        for r in records {
            let why = match &r.outcome {
                Outcome::Invalid(reasons) => format!("invalid: {}", reasons.join("; ")),
                Outcome::Failed(reason) => format!("failed: {reason}"),
                Outcome::Valid if !r.trial.is_empty() && !seen.insert(&r.trial) => "the same trial again".into(),
                Outcome::Valid if [Metric::Tps, Metric::NewOrders].iter().all(|m| m.of(r).is_none()) => {
                    "it holds no throughput".into()
                }
                Outcome::Valid => {
                    counted.push(r);
                    continue;
                }
            };
            not_counted.push((r.trial.clone(), in_words(&r.cell), why));
        }
        let mut table = Table {
            baseline: String::new(),
            groups: Vec::new(),
            not_counted,
            counted: counted.len(),
            notes: Vec::new(),
        };
        if counted.is_empty() {
            table.baseline = question.baseline.clone().unwrap_or_default();
            return table;
        }
        let naming = Naming::of(&counted, question.baseline.as_deref());
        let first = naming.variant(&counted[0].cell);
        table.baseline = match &question.baseline {
            Some(b) if counted.iter().any(|r| naming.variant(&r.cell) == *b) => b.clone(),
            Some(b) => {
                table.notes.push(format!("No trial of the baseline {b} counts; compared with {first} instead."));
                first
            }
            None => first,
        };
        let mut names: Vec<String> = Vec::new();
        for r in &counted {
            let name = naming.test(&r.cell);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            let of_test: Vec<&Record> = counted.iter().copied().filter(|r| naming.test(&r.cell) == name).collect();
            let group = Group::of(name, &of_test, &naming, &table.baseline);
            if group.variants[0] != table.baseline {
                table.notes.push(format!(
                    "{}: no trial of {} counts; compared with {} instead.",
                    group.name, table.baseline, group.variants[0]
                ));
            }
            table.groups.push(group);
        }
        table
    }
}

impl<'a> Group<'a> {
    fn of(name: String, records: &[&'a Record], naming: &Naming, baseline: &str) -> Group<'a> {
        let mut variants: Vec<String> = Vec::new();
        for r in records {
            let variant = naming.variant(&r.cell);
            if !variants.contains(&variant) {
                variants.push(variant);
            }
        }
        if let Some(at) = variants.iter().position(|v| v == baseline) {
            let base = variants.remove(at);
            variants.insert(0, base);
        }
        let clients: Vec<u32> = records.iter().map(|r| r.cell.clients).collect::<BTreeSet<_>>().into_iter().collect();
        let mut cells = vec![vec![Vec::new(); clients.len()]; variants.len()];
        for r in records {
            let variant = naming.variant(&r.cell);
            if let (Some(v), Ok(c)) =
                (variants.iter().position(|x| *x == variant), clients.binary_search(&r.cell.clients))
            {
                cells[v][c].push(*r);
            }
        }
        Group { name, variants, clients, cells }
    }

    pub fn records(&self) -> impl Iterator<Item = &'a Record> + '_ {
        self.cells.iter().flatten().flatten().copied()
    }

    pub fn cell(&self, variant: usize, client: usize) -> &[&'a Record] {
        &self.cells[variant][client]
    }

    pub fn throughput(&self) -> Metric {
        if self.records().any(|r| r.figures.nopm.is_some()) { Metric::NewOrders } else { Metric::Tps }
    }

    pub fn rounds(&self) -> usize {
        let rounds = |cell: &Vec<&Record>| cell.iter().map(|r| r.round).collect::<BTreeSet<_>>().len();
        self.cells.iter().flatten().map(rounds).max().unwrap_or(0)
    }

    /// A metric's values as they were measured, 0 included. Several trials of one cell in one round count as one, their mean.
    pub fn values(&self, metric: Metric) -> Values {
        self.each_round(|v, c, r| self.value(metric, v, c, r))
    }

    /// The logarithms of a metric's values. No throughput at all counts as half a transaction in the window, since 0 has no
    /// logarithm and must not be lost; other metrics have no ratio at 0 and are left out there. `way`: only of trials that
    /// walked their client counts so.
    pub fn logs(&self, metric: Metric, way: Option<Direction>) -> Values {
        let floor = |r: &Record| match metric {
            Metric::Tps => Some(0.5 / r.figures.seconds.filter(|s| *s > 0.0).unwrap_or(1.0)),
            _ if metric.is_throughput() => Some(0.5),
            _ => None,
        };
        self.each_round(|v, c, r| {
            if way.is_some_and(|w| w != r.direction) {
                return None;
            }
            let value = self.value(metric, v, c, r)?;
            if value > 0.0 { Some(value.ln()) } else { floor(r).map(f64::ln) }
        })
    }

    fn value(&self, metric: Metric, v: usize, c: usize, r: &Record) -> Option<f64> {
        if metric == Metric::MemoryPerConnection { self.growth(v, c, r) } else { metric.of(r) }
    }

    fn each_round(&self, value: impl Fn(usize, usize, &Record) -> Option<f64>) -> Values {
        let of_cell = |v: usize, c: usize, records: &[&Record]| {
            let mut rounds: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
            for r in records {
                if let Some(x) = value(v, c, r) {
                    let (sum, n) = rounds.entry(r.round).or_default();
                    *sum += x;
                    *n += 1.0;
                }
            }
            rounds.into_iter().map(|(round, (sum, n))| (round, sum / n)).collect()
        };
        let of_variant = |(v, cells): (usize, &Vec<Vec<&Record>>)| {
            cells.iter().enumerate().map(|(c, records)| of_cell(v, c, records)).collect()
        };
        self.cells.iter().enumerate().map(of_variant).collect()
    }

    /// Loaded memory over that at the fewest clients of the same round, for each further client. On the way down the server
    /// still holds what more clients left behind, so only ways up tell.
    fn growth(&self, v: usize, c: usize, r: &Record) -> Option<f64> {
        let fewest = self.cells[v].iter().position(|cell| !cell.is_empty())?;
        let further = self.clients[c].checked_sub(self.clients[fewest]).filter(|n| *n > 0)?;
        let same_life = |o: &&&Record| o.round == r.round && o.direction == Direction::Up;
        if r.direction != Direction::Up {
            return None;
        }
        let before = self.cells[v][fewest].iter().find(same_life)?;
        Some((r.figures.rss_loaded? - before.figures.rss_loaded?) / f64::from(further))
    }
}
