//! A published table. In long form each row is a run: a column of client counts, one of throughput, and columns that name
//! the test, heap, server, engine. In wide form each variant has a column of throughput of its own.

use super::csv::{Field, rows};
use super::figures::{Place, THROUGHPUT, place};
use super::{Error, Run, Source, stem};
use crate::record::{Cell, Figures, Outcome};

const CLIENTS: [&str; 6] = ["clients", "threads", "users", "connections", "virtual_users", "vu"];
/// A column with such a name in a long table holds versions of that heap.
const HEAPS: [&str; 7] = ["glibc", "jemalloc", "tcmalloc", "mimalloc", "snmalloc", "rpmalloc", "evenkeel"];

/// What a column says of a run.
enum Column {
    Clients,
    Test,
    Heap,
    VersionOf(&'static str),
    Server,
    Engine,
    Config,
    Cpus,
    Vcpus,
    Round,
    Remark,
    Figure(Place, f64),
    /// Wide form: the throughput of this variant.
    Variant(String),
    /// Understood by nobody here.
    Other,
}

impl Column {
    fn of(name: &str, wide: bool) -> Column {
        let plain = name.to_ascii_lowercase().replace([' ', '-'], "_");
        match plain.as_str() {
            c if CLIENTS.contains(&c) => Column::Clients,
            "test" | "workload" | "benchmark" => Column::Test,
            "heap" | "allocator" | "malloc" | "variant" => Column::Heap,
            "server" | "version" | "server_version" => Column::Server,
            "engine" => Column::Engine,
            "config" => Column::Config,
            "machine" | "host" | "cpus" => Column::Cpus,
            "vcpu" | "vcpus" | "cores" => Column::Vcpus,
            "round" => Column::Round,
            "note" | "notes" | "remark" | "comment" => Column::Remark,
            c => match (place(c), HEAPS.iter().find(|h| **h == c)) {
                (Some((to, factor)), _) => Column::Figure(to, factor),
                (None, _) if wide => Column::Variant(name.to_string()),
                (None, Some(heap)) => Column::VersionOf(heap),
                (None, None) => Column::Other,
            },
        }
    }
}

pub(super) fn read(source: &Source, notes: &mut Vec<String>) -> Result<Vec<Run>, Error> {
    let rows = rows(source)?;
    let Some((header, rows)) = rows.split_first() else {
        return Err(Error { path: source.path.into(), line: 1, column: 1, what: "the file is empty".into() });
    };
    let is_throughput = |f: &Field| {
        let mut probe = Figures::default();
        place(&f.text.to_ascii_lowercase()).is_some_and(|(to, _)| {
            *to(&mut probe) = Some(1.0);
            probe.tps.is_some() || probe.nopm.is_some()
        })
    };
    let wide = !header.iter().any(is_throughput);
    let columns: Vec<Column> = header.iter().map(|f| Column::of(&f.text, wide)).collect();
    if !columns.iter().any(|c| matches!(c, Column::Clients)) {
        let what = format!("no column of client counts; expected one of {} (or a log of sysbench)", CLIENTS.join(", "));
        return Err(header[0].error(source, what));
    }
    if wide && !columns.iter().any(|c| matches!(c, Column::Variant(_))) {
        let what = format!("no column of throughput; expected {THROUGHPUT}, or a column for each variant");
        return Err(header[0].error(source, what));
    }
    let named = |c: &Column| matches!(c, Column::Heap | Column::VersionOf(_) | Column::Server | Column::Variant(_));
    if source.heap.is_none() && !columns.iter().any(named) {
        return Err(header[0].error(source, "the table does not say which heap ran; name it: HEAP=FILE"));
    }
    let mut runs = Vec::new();
    for row in rows {
        // Empty fields too many at the end of a row are harmless; HammerDB writes one.
        let beyond = row.iter().skip(header.len()).find(|f| !f.text.is_empty());
        if let Some(field) = beyond.or(row.last().filter(|_| row.len() < header.len())) {
            return Err(field.error(source, format!("{} fields; the header has {}", row.len(), header.len())));
        }
        runs.extend(row_runs(source, &columns, row, notes)?);
    }
    not_read(source, header, &columns, notes);
    if runs.is_empty() {
        let why = notes.last().map_or(String::new(), |n| format!(" ({n})"));
        return Err(header[0].error(source, format!("no row that can be read as a run{why}")));
    }
    Ok(runs)
}

/// The runs that a row tells of: one, or one for each variant (wide form, or heaps as "jemalloc|tcmalloc") and client count
/// ("64-128").
fn row_runs(source: &Source, columns: &[Column], row: &[Field], notes: &mut Vec<String>) -> Result<Vec<Run>, Error> {
    let mut cell = Cell { test: stem(source.path).into(), heap: source.heap.unwrap_or("").into(), ..Cell::default() };
    let mut figures = Figures::default();
    let (mut marks, mut round, mut heaps, mut counts) = (Vec::new(), None, Vec::new(), Vec::new());
    let mut variants: Vec<(String, f64)> = Vec::new();
    for (column, field) in columns.iter().zip(row) {
        let text = field.text.clone();
        match column {
            Column::Clients => match clients(&text) {
                Some((read, understood)) => {
                    counts = read;
                    marks.extend(understood.then(|| format!("client count read from '{text}'")));
                }
                None if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() => {
                    return Err(field.error(source, format!("'{text}' clients; expected 1 to {}", u32::MAX)));
                }
                None => {
                    notes.push(format!("{}:{}: not read: '{text}' is no client count.", source.path, field.line));
                    return Ok(Vec::new());
                }
            },
            Column::Heap if text.eq_ignore_ascii_case("all") => {
                notes.push(format!("{}:{}: not read: '{text}' names no heap.", source.path, field.line));
                return Ok(Vec::new());
            }
            Column::Heap => heaps = text.split('|').map(|h| h.trim().to_string()).collect(),
            Column::VersionOf(heap) => heaps = vec![format!("{heap} {text}")],
            Column::Test => cell.test = text,
            Column::Server => cell.server = text,
            Column::Engine => cell.engine = text,
            Column::Config => cell.config = text,
            Column::Cpus => cell.cpus = text,
            Column::Vcpus => cell.cpus = format!("{text} vCPU"),
            Column::Round => round = Some(number(source, field)?.unwrap_or(1.0) as u32),
            Column::Remark => marks.extend((!text.is_empty()).then_some(text)),
            Column::Figure(to, factor) => *to(&mut figures) = number(source, field)?.map(|x| x * factor),
            Column::Variant(name) => variants.extend(number(source, field)?.map(|x| (name.clone(), x))),
            Column::Other => {}
        }
    }
    if figures.neworder_mean_ms.is_some() {
        marks.push("HammerDB's latencies include the ramp-up, its NOPM does not".into());
    }
    let line = row[0].line;
    if variants.is_empty() && figures.tps.is_none() && figures.nopm.is_none() {
        notes.push(format!("{}:{line}: not read: the row holds no throughput ({THROUGHPUT}).", source.path));
        return Ok(Vec::new());
    }
    let cells: Vec<(Cell, Figures)> = if variants.is_empty() {
        let heaps = if heaps.is_empty() { vec![cell.heap.clone()] } else { heaps };
        heaps.into_iter().map(|heap| (Cell { heap, ..cell.clone() }, figures.clone())).collect()
    } else {
        let of = |(name, tps): (String, f64)| {
            let figures = Figures { tps: Some(tps), ..figures.clone() };
            // A version is a server's, any other name a heap's.
            let version = name.starts_with(|c: char| c.is_ascii_digit());
            let cell =
                if version { Cell { server: name, ..cell.clone() } } else { Cell { heap: name, ..cell.clone() } };
            (cell, figures)
        };
        variants.into_iter().map(of).collect()
    };
    let several = cells.len() * counts.len() > 1;
    let run = |(cell, figures): &(Cell, Figures), clients: u32| Run {
        place: if several { format!("{line}:{}{}:{clients}", cell.heap, cell.server) } else { line.to_string() },
        cell: Cell { clients, ..cell.clone() },
        round,
        outcome: Outcome::Valid,
        figures: figures.clone(),
        marks: marks.clone(),
        series: Vec::new(),
    };
    Ok(cells.iter().flat_map(|c| counts.iter().map(|n| run(c, *n)).collect::<Vec<_>>()).collect())
}

/// The client counts that a text names, and whether it took understanding: "64"; both ends of "64-128"; the end of "up to
/// 1024", where the figure is said to hold. "after 16" names none.
fn clients(text: &str) -> Option<(Vec<u32>, bool)> {
    let one = |t: &str| t.trim().replace(',', "").parse::<u32>().ok().filter(|n| *n > 0);
    if let Some(n) = one(text) {
        return Some((vec![n], false));
    }
    if let Some(end) = text.strip_prefix("up to ") {
        return Some((vec![one(end)?], true));
    }
    let (from, to) = text.split_once('-')?;
    Some((vec![one(from)?, one(to)?], true))
}

/// "1,234.5" too. None for an empty field.
fn number(source: &Source, field: &Field) -> Result<Option<f64>, Error> {
    if field.text.is_empty() {
        return Ok(None);
    }
    let groups = field.text.split('.').next().unwrap_or("").split(',');
    let thousands = groups.enumerate().all(|(i, g)| i == 0 || g.len() == 3);
    let plain = if thousands { field.text.replace(',', "") } else { field.text.clone() };
    match plain.parse::<f64>() {
        Ok(x) if x.is_finite() && x >= 0.0 => Ok(Some(x)),
        _ => Err(field.error(source, format!("'{}'; expected a number of 0 or more", field.text))),
    }
}

/// Says which columns nobody read.
fn not_read(source: &Source, header: &[Field], columns: &[Column], notes: &mut Vec<String>) {
    let other = |(_, column): &(&Field, &Column)| matches!(column, Column::Other);
    let said: Vec<&str> = header.iter().zip(columns).filter(other).map(|(field, _)| field.text.as_str()).collect();
    if !said.is_empty() {
        notes.push(format!("{}:{}: columns not read: {}.", source.path, header[0].line, said.join(", ")));
    }
}
