//! Logs of sysbench 1.0, one run or several after another: the head with the number of threads, a line for each interval,
//! the statistics at the end.
//!
//! Throughput is the mean of the intervals in which all threads ran, since sysbench divides its own rate by a time that at
//! many clients includes their connecting; where the log has no such lines it is sysbench's rate. The first interval is
//! left out if there are ten or more: it holds the start.

use super::{Error, Run, Source};
use crate::record::{Cell, Figures, Outcome, Second};

const HEAD: &str = "Number of threads:";
const ENOUGH: usize = 10;

pub(super) fn is_log(text: &str) -> bool {
    text.lines().any(|l| l.starts_with("sysbench 1.") || l.trim_start().starts_with(HEAD))
}

pub(super) fn read(source: &Source, notes: &mut Vec<String>) -> Result<Vec<Run>, Error> {
    let Some(heap) = source.heap else {
        let what = "a log of sysbench does not say which heap ran; name it: HEAP=FILE";
        return Err(Error { path: source.path.into(), line: 1, column: 1, what: what.into() });
    };
    let test = script(source.text).or_else(|| script(source.path)).unwrap_or("sysbench").to_string();
    let lines: Vec<(usize, &str)> = source.text.lines().enumerate().map(|(i, l)| (i + 1, l.trim_end())).collect();
    let heads: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].1.trim_start().starts_with(HEAD)).collect();
    if heads.is_empty() {
        let what = format!("no line '{HEAD} N': sysbench did not come to its run");
        return Err(Error { path: source.path.into(), line: lines.len().max(1), column: 1, what });
    }
    let ends = heads.iter().skip(1).copied().chain([lines.len()]);
    heads
        .iter()
        .zip(ends)
        .map(|(from, to)| {
            let (line, head) = lines[*from];
            let clients = whole(source, line, head, head.trim_start().strip_prefix(HEAD).unwrap_or(head))?;
            let cell = Cell { test: test.clone(), heap: heap.into(), clients, ..Cell::default() };
            run(source, cell, &lines[*from..to], notes)
        })
        .collect()
}

/// The Lua script's name, if a text holds one.
fn script(text: &str) -> Option<&str> {
    let from = text.find("oltp_")?;
    let name = &text[from..];
    Some(&name[..name.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(name.len())])
}

fn run(source: &Source, cell: Cell, lines: &[(usize, &str)], notes: &mut Vec<String>) -> Result<Run, Error> {
    let mut figures = Figures::default();
    let mut series = Vec::new();
    let mut failure = None;
    let mut ended = false;
    for (line, text) in lines.iter().map(|(line, text)| (*line, text.trim_start())) {
        let number = |rest: &str| number(source, line, lines[line - lines[0].0].1, rest);
        let value = |name: &str| text.strip_prefix(name).map(number).transpose();
        if text.starts_with('[') && text.contains("tps:") {
            series.push(interval(text, number)?);
        } else if let Some(what) = text.strip_prefix("FATAL:") {
            failure.get_or_insert(what.trim().to_string());
        } else if let Some(rest) = text.strip_prefix("transactions:") {
            figures.transactions = Some(number(rest)?);
            let rate = rest.split_once('(').map(|(_, r)| number(r)).transpose()?;
            figures.tps_reported = rate;
        } else if let Some(errors) = value("ignored errors:")? {
            figures.errors = Some(errors);
        } else if let Some(seconds) = value("total time:")? {
            figures.seconds = Some(seconds);
            ended = true;
        } else if let Some(mean) = value("avg:")? {
            figures.latency_mean_ms = Some(mean);
        } else if let Some((which, rest)) = text.split_once("th percentile:") {
            let to = match which {
                "50" => &mut figures.latency_p50_ms,
                "95" => &mut figures.latency_p95_ms,
                "99" => &mut figures.latency_p99_ms,
                "99.9" => &mut figures.latency_p999_ms,
                _ => {
                    notes.push(format!("{}:{line}: not read: the {which}th percentile.", source.path));
                    continue;
                }
            };
            *to = Some(number(rest)?);
        }
    }
    let mut full: Vec<f64> = series
        .iter()
        .filter(|s: &&Second| s.connections == Some(f64::from(cell.clients)))
        .filter_map(|s| s.tps)
        .collect();
    if full.len() >= ENOUGH {
        full.remove(0);
    }
    let (tps, mark) = if full.is_empty() {
        (figures.tps_reported, "throughput is the rate that sysbench printed")
    } else {
        let mean = full.iter().sum::<f64>() / full.len() as f64;
        (Some(mean), "throughput is the mean of sysbench's intervals with all threads")
    };
    figures.tps = tps;
    let outcome = match (failure, ended) {
        (Some(what), _) => Outcome::Failed(what),
        (None, false) => Outcome::Failed("the log ends before its statistics".into()),
        (None, true) => Outcome::Valid,
    };
    let place = lines.first().map_or(1, |l| l.0).to_string();
    Ok(Run { place, cell, round: None, outcome, figures, marks: vec![mark.into()], series })
}

/// `[ 4s ] thds: 8 tps: 2875.10 qps: 46001.60 (r/w/o: ...) lat (ms,99%): 6.79 err/s: 0.00 reconn/s: 0.00`
fn interval(text: &str, number: impl Fn(&str) -> Result<f64, Error>) -> Result<Second, Error> {
    let after = |name: &str| text.split_once(name).map(|(_, rest)| number(rest)).transpose();
    Ok(Second { at: number(&text[1..])?, tps: after(" tps:")?, connections: after("thds:")?, ..Second::default() })
}

/// The number at the start of `rest`, the tail of the line `text`.
fn number(source: &Source, line: usize, text: &str, rest: &str) -> Result<f64, Error> {
    let begin = rest.trim_start();
    let end = begin.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(begin.len());
    begin[..end].parse().map_err(|_| {
        let column = text.len() - begin.len() + 1;
        let found = begin.split_whitespace().next().unwrap_or("the end of the line");
        Error { path: source.path.into(), line, column, what: format!("'{found}'; expected a number") }
    })
}

fn whole(source: &Source, line: usize, text: &str, rest: &str) -> Result<u32, Error> {
    let n = number(source, line, text, rest)?;
    let what = format!("{n} threads; expected a whole number from 1 on");
    let fits = n >= 1.0 && n <= f64::from(u32::MAX) && n.fract() == 0.0;
    if fits { Ok(n as u32) } else { Err(Error { path: source.path.into(), line, column: 1, what }) }
}
