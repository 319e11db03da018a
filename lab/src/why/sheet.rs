//! Tables of frames as people publish them: shares of a profile by function and variant, without stacks.
//!
//! ```text
//! frame,nt-heap_pct,segment-heap_pct        kind,frame,delta,10.2.14_pct,10.3.7_pct
//! my_malloc,51.53,2.37                      exclusive,ut_delay,4.02,16.05,20.07
//! ```
//! An empty field is a frame that was not seen.

use crate::profile::cause;
use crate::profile::pair::{self, Known, Pair};
use crate::profile::table::{Row, Share, View};
use crate::wrong::wrong;
use anyhow::Result;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    pub variants: Vec<String>,
    /// Without a column for it, shares are inclusive.
    pub rows: Vec<(View, Row)>,
}

const PERCENT: &str = "_pct";

pub fn read(name: &str, text: &str) -> Result<Sheet> {
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let bad = |line: usize, what: String| wrong(format!("{name}:{}: {what}", line + 1));
    let (at, head) = lines.next().ok_or_else(|| bad(0, "it is empty".into()))?;
    let columns: Vec<&str> = head.split(',').map(str::trim).collect();
    let column = |wanted: &str| columns.iter().position(|c| *c == wanted);
    let frame = column("frame").ok_or_else(|| bad(at, "no column is called frame".into()))?;
    let kind = column("kind");
    let shares: Vec<(usize, &str)> =
        columns.iter().enumerate().filter_map(|(i, c)| Some((i, c.strip_suffix(PERCENT)?))).collect();
    if shares.is_empty() {
        return Err(bad(at, format!("no column of shares: call it VARIANT{PERCENT}")));
    }
    let mut rows = Vec::new();
    for (at, line) in lines {
        let fields = fields(line);
        if fields.len() != columns.len() {
            return Err(bad(at, format!("{} fields, and {} columns", fields.len(), columns.len())));
        }
        let view = match kind.map(|k| fields[k].as_str()) {
            None | Some("inclusive") => View::Inclusive,
            Some("exclusive") => View::Exclusive,
            Some(other) => return Err(bad(at, format!("{other:?}: say inclusive or exclusive"))),
        };
        let share = |i: usize| -> Result<Option<Share>> {
            let text = fields[i].as_str();
            if text.is_empty() {
                return Ok(None);
            }
            let percent: f64 = text.parse().map_err(|_| bad(at, format!("{text:?} is no number")))?;
            Ok((percent > 0.0).then_some(Share { weight: 0, share: percent / 100.0, error: 0.0 }))
        };
        let shares = shares.iter().map(|(i, _)| share(*i)).collect::<Result<Vec<_>>>()?;
        rows.push((view, row(fields[frame].clone(), Vec::new(), shares)));
    }
    Ok(Sheet { variants: shares.into_iter().map(|(_, v)| v.to_string()).collect(), rows })
}

fn row(function: String, also: Vec<String>, shares: Vec<Option<Share>>) -> Row {
    let of = |s: Option<&Option<Share>>| s.copied().flatten().map_or(0.0, |s| s.share);
    let change = of(shares.last()) - of(shares.first());
    Row { function, also, shares, change, error: 0.0 }
}

/// Fields between commas; in quotes a field may hold commas.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().expect("never empty").push(c),
        }
    }
    fields.iter().map(|f| f.trim().to_string()).collect()
}

impl Sheet {
    /// The share of the heap in a variant: of its heaviest frame, since inclusive shares must not be added.
    pub fn heap_share(&self, variant: &str) -> Option<f64> {
        let at = self.variants.iter().position(|v| v == variant)?;
        let heap = self.rows.iter().filter(|(view, r)| *view == View::Inclusive && cause::is_heap(&r.function));
        heap.map(|(_, r)| r.shares[at].map_or(0.0, |s| s.share)).reduce(f64::max)
    }

    /// The rows of one view between the first and the last variant, a renamed function as one row, the largest change first.
    pub fn paired(&self, view: View) -> (Vec<Row>, Vec<Pair>) {
        let rows: Vec<&Row> = self.rows.iter().filter(|(v, _)| *v == view).map(|(_, r)| r).collect();
        let last = self.variants.len() - 1;
        let share = |row: &Row, at: usize| row.shares[at].map_or(0.0, |s| s.share);
        // Gone: less than a tenth is left.
        let only = |from: usize, to: usize| -> BTreeMap<String, Known> {
            let gone = rows.iter().filter(|r| share(r, to) <= 0.1 * share(r, from));
            gone.map(|r| (r.function.clone(), Known { share: share(r, from), ..Known::default() })).collect()
        };
        let pairs = pair::match_up(&only(0, last), &only(last, 0));
        let find = |name: &str| rows.iter().find(|r| r.function == name).expect("it came from these rows");
        let is_second = |name: &str| pairs.iter().any(|p| p.now == name);
        let mut merged: Vec<Row> = rows
            .iter()
            .filter(|r| !is_second(&r.function))
            .map(|r| match pairs.iter().find(|p| p.before == r.function) {
                None => (*r).clone(),
                Some(pair) => {
                    let both = |at: usize| {
                        let share = share(r, at) + share(find(&pair.now), at);
                        (share > 0.0).then_some(Share { weight: 0, share, error: 0.0 })
                    };
                    row(r.function.clone(), vec![pair.now.clone()], (0..=last).map(both).collect())
                }
            })
            .collect();
        merged.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
        (merged, pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_and_wrong_lines_are_named() {
        let sheet = read("t", "frame,a_pct,b_pct\nmalloc,51.5,2.4\n\"f(int, int)\",3,\n").unwrap();
        assert_eq!(sheet.variants, ["a", "b"]);
        assert_eq!(sheet.rows[1].1.function, "f(int, int)");
        assert_eq!(sheet.rows[1].1.shares[1], None);
        assert_eq!((sheet.heap_share("a"), sheet.heap_share("c")), (Some(0.515), None));
        for (text, says) in [
            ("", "t:1: it is empty"),
            ("x,a_pct\n", "no column is called frame"),
            ("frame,a\n", "no column of shares"),
            ("frame,a_pct\nf,1,2\n", "t:2: 3 fields"),
            ("frame,a_pct\nf,x\n", "t:2: \"x\" is no number"),
            ("kind,frame,a_pct\nall,f,1\n", "say inclusive or exclusive"),
        ] {
            let error = read("t", text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
