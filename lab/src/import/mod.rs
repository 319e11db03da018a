//! Published tables and logs of other tools, read into records, so that anyone can judge them again: CSV tables in long or
//! wide form, HammerDB's result CSVs, logs of sysbench 1.0. What a file does not say is not invented, and what is not read
//! of it is said in `Imported::notes`.

mod csv;
mod figures;
mod sysbench;
mod table;

use std::collections::BTreeMap;
use std::fmt;

use crate::analysis::Question;
use crate::record::{Cell, Direction, Figures, Outcome, Record, SCHEMA};

/// One file, and what its reader knows of it beyond its text.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub path: &'a str,
    pub text: &'a str,
    /// The heap of every run in it, where the file does not name one.
    pub heap: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub title: String,
    pub question: Question,
    pub records: Vec<Record>,
    /// What was not read, and what was understood from words: one sentence each.
    pub notes: Vec<String>,
}

/// Where a file could not be understood, and what was expected there. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub path: String,
    pub line: usize,
    pub column: usize,
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.path, self.line, self.column, self.what)
    }
}

impl std::error::Error for Error {}

/// A run as a file tells it.
struct Run {
    /// Where in the file: it names the record.
    place: String,
    cell: Cell,
    /// As the file counts rounds. None: runs of one cell are numbered as they come, and belong to no round of the others.
    round: Option<u32>,
    outcome: Outcome,
    figures: Figures,
    marks: Vec<String>,
    series: Vec<crate::record::Second>,
}

/// Reads files of one study, in the order in which they were measured.
pub fn import(sources: &[Source]) -> Result<Imported, Error> {
    let mut notes = Vec::new();
    let mut runs: Vec<(&Source, Run)> = Vec::new();
    for source in sources {
        let read = if sysbench::is_log(source.text) { sysbench::read } else { table::read };
        runs.extend(read(source, &mut notes)?.into_iter().map(|run| (source, run)));
    }
    let title = match sources {
        [] => String::new(),
        [one] => stem(one.path).to_string(),
        [first, rest @ ..] => format!("{} and {} more", stem(first.path), rest.len()),
    };
    let rounds = rounds(&runs);
    let records = runs
        .into_iter()
        .zip(rounds)
        .enumerate()
        .map(|(order, ((source, run), round))| Record {
            schema: SCHEMA,
            trial: format!("{}:{}", stem(source.path), run.place),
            cell: run.cell,
            round,
            order: order as u32,
            direction: Direction::Up,
            started: String::new(),
            outcome: run.outcome,
            figures: run.figures,
            proofs: Vec::new(),
            marks: run.marks,
            series: run.series,
            raw: vec![source.path.to_string()],
            profile: None,
        })
        .collect();
    let question = Question { title: title.clone(), baseline: None, margin: None, twins: Vec::new() };
    Ok(Imported { title, question, records, notes })
}

/// Runs that a file does not put into rounds never share one with another variant: nothing says that they were measured
/// in turn. Where each cell was run once there is but one round.
fn rounds(runs: &[(&Source, Run)]) -> Vec<u32> {
    let mut seen: BTreeMap<&Cell, u32> = BTreeMap::new();
    let repeats: Vec<u32> = runs
        .iter()
        .map(|(_, run)| {
            let n = seen.entry(&run.cell).or_default();
            *n += 1;
            *n
        })
        .collect();
    let mut variants: Vec<Cell> = Vec::new();
    let mut of_variant = |cell: &Cell| {
        let variant = Cell { clients: 0, test: String::new(), ..cell.clone() };
        variants.iter().position(|v| *v == variant).unwrap_or_else(|| {
            variants.push(variant);
            variants.len() - 1
        })
    };
    let numbers: Vec<usize> = runs.iter().map(|(_, run)| of_variant(&run.cell)).collect();
    let once = repeats.iter().all(|n| *n == 1);
    let own = |(number, repeat): (&usize, &u32)| {
        if once { 1 } else { (*repeat - 1) * variants.len() as u32 + *number as u32 + 1 }
    };
    runs.iter().zip(numbers.iter().zip(&repeats).map(own)).map(|((_, run), own)| run.round.unwrap_or(own)).collect()
}

fn stem(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}
