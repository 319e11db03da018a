//! The table: for every row each heap's median, the best peer, ours against it, and whether the bar is reached.
//! A pure function of the records, so a stored CSV file gives the same table on another machine.

use crate::heaps;
use crate::record::{self, Record, Results};
use crate::stats;
use crate::work;
use std::io::IsTerminal;

/// What a row asks of the subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    None,
    /// At most so many times the best peer's figure.
    OfBest(f64),
    /// At most this, whatever the peers do.
    AtMost(f64),
}

struct Row {
    title: String,
    work: String,
    figure: Figure,
    bar: Bar,
}

/// How the figure of a trial is found, and in which unit it is shown.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    CpuNs,
    RssMib,
    /// The 99.99th percentile of a call's time.
    TailNs,
    LateMib,
    DeltaUs,
    Failures,
    /// CPU time per operation against the same heap's at the least number of threads.
    Growth,
}

impl Figure {
    fn of(self, record: &Record) -> Option<f64> {
        match self {
            Figure::CpuNs => record.figure("cpu_ns_per_op"),
            Figure::RssMib => Some(record.figure("rss_kib")? / 1024.0),
            Figure::TailNs => record.figure("p9999_ns"),
            Figure::LateMib => Some(record.figure("late_kib")? / 1024.0),
            Figure::DeltaUs => record.figure("delta_us"),
            Figure::Failures => Some(record.figure("hangs")? + record.figure("crashes")?),
            Figure::Growth => None,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Figure::CpuNs => "ns",
            Figure::RssMib | Figure::LateMib => "MiB",
            Figure::TailNs => "ns",
            Figure::DeltaUs => "us",
            Figure::Failures => "",
            Figure::Growth => "x",
        }
    }
}

fn rows() -> Vec<Row> {
    let row = |title: &str, work: &str, figure, bar| Row { title: title.into(), work: work.into(), figure, bar };
    let mut rows = vec![row("pair", "pair", Figure::CpuNs, Bar::OfBest(0.65))];
    for w in work::ALL.iter().filter(|w| w.in_mean()) {
        rows.push(row(w.row, w.row, Figure::CpuNs, Bar::OfBest(1.15)));
    }
    let counts = ["2", "64", "1024", "4096"];
    for n in counts {
        let bar = match n {
            "4096" => Bar::OfBest(0.75),
            _ => Bar::None,
        };
        let name = format!("cliff-{n}");
        rows.push(row(&name, &name, Figure::CpuNs, bar));
    }
    let last = "cliff-4096";
    rows.push(row("cliff 4096 : 2", last, Figure::Growth, Bar::AtMost(1.15)));
    for n in counts {
        let title = format!("cliff-{n} RSS");
        let name = format!("cliff-{n}");
        rows.push(row(&title, &name, Figure::RssMib, Bar::OfBest(1.0)));
    }
    rows.push(row("tail p99.99", "tail", Figure::TailNs, Bar::OfBest(1.0)));
    rows.push(row("fill, after 2 s", "fill", Figure::LateMib, Bar::AtMost(40.0)));
    rows.push(row("5 % survive", "fill-survivors", Figure::LateMib, Bar::AtMost(150.0)));
    rows.push(row("empty program RSS", "hello", Figure::RssMib, Bar::AtMost(1.9)));
    rows.push(row("start - glibc's", "startup", Figure::DeltaUs, Bar::AtMost(300.0)));
    rows.push(row("forks: hung, died", "forks", Figure::Failures, Bar::AtMost(0.0)));
    rows
}

/// One heap's figure in one row.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    /// Not measured at all.
    Empty,
    /// The median; `marred` when not every trial gave a figure.
    Value { median: f64, spread: f64, marred: bool },
    /// No trial gave a figure: the first one's status.
    Failed(String),
}

impl Cell {
    fn value(&self) -> Option<f64> {
        match self {
            Cell::Value { median, .. } => Some(*median),
            _ => None,
        }
    }

    fn shown(&self) -> String {
        match self {
            Cell::Empty => "-".into(),
            Cell::Failed(status) => status.clone(),
            Cell::Value { median, marred, .. } => {
                format!("{}{}", figure(*median), if *marred { "!" } else { "" })
            }
        }
    }
}

/// Three digits that matter, and no more.
fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        a if a < 10.0 => format!("{value:.2}"),
        a if a < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn cell(results: &Results, row: &Row, heap: &str) -> Cell {
    if row.figure == Figure::Growth {
        return growth(results, row, heap);
    }
    let trials: Vec<&Record> = results.records.iter().filter(|r| r.work == row.work && r.heap == heap).collect();
    let Some(first) = trials.first() else {
        return Cell::Empty;
    };
    let values = typical(results, &trials, |r| row.figure.of(r));
    match stats::median(&values) {
        Some(median) => Cell::Value {
            median,
            spread: stats::spread(&values).unwrap_or(0.0),
            marred: trials.iter().any(|r| r.status != "ok"),
        },
        None => {
            let bad = trials.iter().find(|r| r.status != "ok").unwrap_or(first);
            Cell::Failed(bad.status.clone())
        }
    }
}

/// The median over the rounds of the ratio within a round, where both ends were measured soon after each other.
fn growth(results: &Results, row: &Row, heap: &str) -> Cell {
    let plain = |work: &str| Row { title: String::new(), work: work.into(), figure: Figure::CpuNs, bar: Bar::None };
    let (least, most) = (plain("cliff-2"), plain(&row.work));
    let ends = (cell(results, &least, heap), cell(results, &most, heap));
    let marred = match &ends {
        (Cell::Empty, _) | (_, Cell::Empty) => return Cell::Empty,
        (failed @ Cell::Failed(_), _) | (_, failed @ Cell::Failed(_)) => return failed.clone(),
        (Cell::Value { marred: a, .. }, Cell::Value { marred: b, .. }) => *a || *b,
    };
    let in_round = |work: &Row, round: u32| {
        let of = |r: &&Record| r.work == work.work && r.heap == heap && r.round == round;
        let trials: Vec<&Record> = results.records.iter().filter(of).collect();
        stats::median(&typical(results, &trials, |r| Figure::CpuNs.of(r)))
    };
    let last = results.records.iter().map(|r| r.round).max().unwrap_or(0);
    let ratios: Vec<f64> =
        (0..=last).filter_map(|round| Some(in_round(&most, round)? / in_round(&least, round)?)).collect();
    match stats::median(&ratios) {
        Some(median) => Cell::Value { median, spread: stats::spread(&ratios).unwrap_or(0.0), marred },
        None => Cell::Empty,
    }
}

/// The figures of the calm trials, when there are more than half as many as rounds; otherwise those of all.
pub fn typical(results: &Results, trials: &[&Record], figure: impl Fn(&Record) -> Option<f64>) -> Vec<f64> {
    let nearest = record::nearest(&results.records);
    let values = |of: &dyn Fn(&Record) -> bool| -> Vec<f64> {
        let measured = trials.iter().filter(|r| r.was_measured() && of(r));
        measured.filter_map(|r| figure(r)).collect()
    };
    let mut rounds: Vec<u32> = trials.iter().map(|r| r.round).collect();
    rounds.sort();
    rounds.dedup();
    let calm = values(&|r| r.was_calm(nearest));
    match calm.len() * 2 > rounds.len() {
        true => calm,
        false => values(&|_| true),
    }
}

/// The peer with the smallest figure, `but` left out.
fn best<'a>(cells: &[(&'a str, Cell)], but: &str) -> Option<(&'a str, f64)> {
    cells
        .iter()
        .filter(|(heap, _)| *heap != but && heaps::is_peer(heap))
        .filter_map(|(heap, cell)| Some((*heap, cell.value()?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// None: nothing to say, because there is no bar, no figure of ours, or no peer.
fn passes(bar: Bar, ours: &Cell, best: Option<f64>) -> Option<bool> {
    match (bar, ours) {
        (Bar::None, _) | (_, Cell::Empty) => None,
        (_, Cell::Failed(_)) | (_, Cell::Value { marred: true, .. }) => Some(false),
        (Bar::AtMost(limit), Cell::Value { median, .. }) => Some(*median <= limit),
        (Bar::OfBest(times), Cell::Value { median, .. }) => best.map(|b| *median <= times * b),
    }
}

fn bar_text(bar: Bar, unit: &str) -> String {
    match bar {
        Bar::None => String::new(),
        Bar::OfBest(times) => format!("<= {times:.2} x best"),
        Bar::AtMost(limit) if unit.is_empty() => format!("<= {limit}"),
        Bar::AtMost(limit) => format!("<= {limit} {unit}"),
    }
}

fn verdict_text(passed: Option<bool>) -> String {
    match passed {
        Some(true) => "pass",
        Some(false) => "FAIL",
        None => "",
    }
    .into()
}

/// The heaps of the file: the subject first, then other libraries, then the peers.
pub fn heaps_in<'a>(results: &'a Results, subject: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = vec![];
    for record in &results.records {
        if !names.contains(&record.heap.as_str()) {
            names.push(&record.heap);
        }
    }
    names.sort_by_key(|name| {
        let rank = match *name {
            n if n == subject => 0,
            n if !heaps::is_peer(n) => 1,
            "glibc" => 2,
            _ => 3,
        };
        (rank, name.to_string())
    });
    names
}

/// The geometric mean over the set of one heap's figure against the best peer of each row. Rows in which nobody of
/// the two has a figure are left out, and counted.
fn mean_of_set(results: &Results, heaps: &[&str], heap: &str) -> Option<(f64, usize)> {
    let mut ratios = vec![];
    for row in rows().iter().filter(|r| in_set(&r.work)) {
        let cells: Vec<(&str, Cell)> = heaps.iter().map(|h| (*h, cell(results, row, h))).collect();
        let own = cells.iter().find(|(h, _)| *h == heap)?.1.value();
        // A peer may be the best one of a row itself.
        let leader = best(&cells, "").map(|(_, value)| value);
        if let (Some(own), Some(leader)) = (own, leader) {
            ratios.push(own / leader);
        }
    }
    Some((stats::geometric_mean(&ratios)?, ratios.len()))
}

fn in_set(row: &str) -> bool {
    work::ALL.iter().any(|w| w.row == row && w.in_mean())
}

pub fn print(results: &Results, subject: &str) {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print!("{}", render(results, subject, colour));
}

fn render(results: &Results, subject: &str, colour: bool) -> String {
    let heaps = heaps_in(results, subject);
    let mut grid = vec![];
    let mut head: Vec<String> = vec!["row".into(), "".into()];
    head.extend(heaps.iter().map(|h| h.to_string()));
    head.extend(["best peer", "ratio", "+-", "bar", ""].map(String::from));
    grid.push(head);

    let mut verdicts = vec![];
    for row in rows() {
        let cells: Vec<(&str, Cell)> = heaps.iter().map(|h| (*h, cell(results, &row, h))).collect();
        if cells.iter().all(|(_, c)| *c == Cell::Empty) {
            continue;
        }
        let ours = cells.iter().find(|(h, _)| *h == subject).map_or(Cell::Empty, |(_, c)| c.clone());
        let leader = best(&cells, subject);
        let ratio = match (ours.value(), leader) {
            (Some(own), Some((_, best))) if best > 0.0 => format!("{:.2}", own / best),
            _ => "-".into(),
        };
        let spread = match ours {
            Cell::Value { spread, .. } => format!("{spread:.0}%"),
            _ => String::new(),
        };
        let passed = passes(row.bar, &ours, leader.map(|(_, value)| value));
        verdicts.extend(passed);
        let mut line = vec![row.title.clone(), row.figure.unit().into()];
        line.extend(cells.iter().map(|(_, c)| c.shown()));
        line.extend([
            leader.map_or("-".into(), |(heap, _)| heap.to_string()),
            ratio,
            spread,
            bar_text(row.bar, row.figure.unit()),
            verdict_text(passed),
        ]);
        grid.push(line);
    }

    let means: Vec<(&str, Option<(f64, usize)>)> =
        heaps.iter().map(|h| (*h, mean_of_set(results, &heaps, h))).collect();
    if means.iter().any(|(_, mean)| mean.is_some()) {
        let best_mean = means
            .iter()
            .filter(|(h, _)| *h != subject && heaps::is_peer(h))
            .filter_map(|(h, m)| Some((*h, m.as_ref()?.0)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let own = means.iter().find(|(h, _)| *h == subject).and_then(|(_, m)| *m);
        let whole = work::ALL.iter().filter(|w| w.in_mean()).count();
        // A part of the set has no verdict; a row that failed is none that is missing.
        let asked = |w: &&work::Work| results.records.iter().any(|r| r.work == w.row);
        let complete = work::ALL.iter().filter(|w| w.in_mean()).all(|w| asked(&w));
        let passed = own.filter(|_| complete).map(|(mean, rows)| mean <= 1.0 && rows == whole);
        verdicts.extend(passed);
        let mut line = vec!["mean of the set".into(), "x".into()];
        line.extend(means.iter().map(|(_, mean)| match mean {
            Some((value, rows)) if *rows == whole => format!("{value:.2}"),
            Some((value, rows)) => format!("{value:.2} ({rows})"),
            None => "-".into(),
        }));
        line.extend([
            best_mean.map_or("-".into(), |(h, _)| h.to_string()),
            own.map_or("-".into(), |(value, _)| format!("{value:.2}")),
            String::new(),
            "<= 1.00 x best of each row".into(),
            verdict_text(passed),
        ]);
        grid.push(line);
    }

    let mut text = format!(
        "{}, Linux {}, rounds: {}, {}; medians, smaller is better\n\n",
        results.fact("machine"),
        results.fact("kernel"),
        results.rounds(),
        results.fact("date"),
    );
    text.push_str(&aligned(&grid, colour));
    if grid.iter().flatten().any(|c| c.ends_with('!')) {
        text.push_str(
            "\n!  not every trial of this heap ended well; see the file; the median is of those with figures\n",
        );
    }
    let nearest = record::nearest(&results.records);
    let measured = || results.records.iter().filter(|r| r.was_measured());
    let disturbed = measured().filter(|r| !r.was_calm(nearest)).count();
    if disturbed > 0 {
        text.push_str(&format!(
            "\n{disturbed} of {} trials were disturbed, by other work or by CPUs that the host had moved apart; they count \
             only where there are too few others.\n",
            measured().count()
        ));
    }
    if !verdicts.is_empty() {
        let passed = verdicts.iter().filter(|v| **v).count();
        text.push_str(&format!("\n{passed} of {} bars reached by {subject}\n", verdicts.len()));
    }
    text
}

/// First column to the left, the others to the right, but bars and verdicts to the left.
fn aligned(grid: &[Vec<String>], colour: bool) -> String {
    let columns = grid.first().map_or(0, Vec::len);
    let width = |c: usize| grid.iter().map(|l| l[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in grid {
        let mut out = String::new();
        for (c, (value, width)) in line.iter().zip(&widths).enumerate() {
            let left = c < 2 || c + 2 >= columns;
            let gap = if c == 0 { "" } else { "  " };
            out += gap;
            out += &match left {
                true => format!("{value:<width$}"),
                false => format!("{value:>width$}"),
            };
        }
        let out = out.trim_end();
        let code = match line.last().map(String::as_str) {
            Some("pass") => "32",
            Some("FAIL") => "31",
            _ => "",
        };
        match colour && !code.is_empty() {
            true => {
                let (body, verdict) = out.split_at(out.len() - 4);
                text += &format!("{body}\x1b[{code}m{verdict}\x1b[0m\n");
            }
            false => text += &format!("{out}\n"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of "work heap status cpu rss".
    fn results(lines: &[&str]) -> Results {
        let mut text = "work,heap,status,cpu_ns_per_op,rss_kib\n".to_string();
        for line in lines {
            text += &format!("{}\n", line.replace(' ', ","));
        }
        record::parse(&text).unwrap()
    }

    fn row(work: &str, figure: Figure) -> Row {
        Row { title: work.into(), work: work.into(), figure, bar: Bar::None }
    }

    #[test]
    fn a_cell_is_the_median_of_what_ended_well() {
        let r = results(&["pair glibc ok 5 1024", "pair glibc ok 7 2048", "pair glibc ok 6 3072"]);
        let cpu = cell(&r, &row("pair", Figure::CpuNs), "glibc");
        assert_eq!(cpu.value(), Some(6.0));
        let rss = cell(&r, &row("pair", Figure::RssMib), "glibc");
        assert_eq!(rss.value(), Some(2.0));
        assert_eq!(cell(&r, &row("pair", Figure::CpuNs), "x"), Cell::Empty);
    }

    #[test]
    fn a_failed_trial_shows() {
        let r = results(&["pair a ok 5 1", "pair a timeout  ", "pair b signal  "]);
        let a = cell(&r, &row("pair", Figure::CpuNs), "a");
        assert_eq!(a.shown(), "5.00!");
        assert_eq!(passes(Bar::AtMost(9.0), &a, None), Some(false));
        let b = cell(&r, &row("pair", Figure::CpuNs), "b");
        assert_eq!(b, Cell::Failed("signal".into()));
    }

    #[test]
    fn bars() {
        let five = Cell::Value { median: 5.0, spread: 0.0, marred: false };
        assert_eq!(passes(Bar::OfBest(0.5), &five, Some(10.0)), Some(true));
        assert_eq!(passes(Bar::OfBest(0.5), &five, Some(9.9)), Some(false));
        assert_eq!(passes(Bar::OfBest(0.5), &five, None), None);
        assert_eq!(passes(Bar::AtMost(5.0), &five, None), Some(true));
        assert_eq!(passes(Bar::None, &five, Some(1.0)), None);
        let failed = Cell::Failed("timeout".into());
        assert_eq!(passes(Bar::AtMost(5.0), &failed, None), Some(false));
    }

    #[test]
    fn the_best_peer_is_neither_ours_nor_another_library() {
        let value = |median| Cell::Value { median, spread: 0.0, marred: false };
        let cells = [
            ("evenkeel", value(1.0)),
            ("evenkeel-cas", value(2.0)),
            ("glibc", value(4.0)),
            ("snmalloc", value(3.0)),
            ("rpmalloc", Cell::Failed("signal 11".into())),
        ];
        assert_eq!(best(&cells, "evenkeel"), Some(("snmalloc", 3.0)));
        assert_eq!(best(&cells, "snmalloc"), Some(("glibc", 4.0)));
    }

    #[test]
    fn growth_is_a_ratio_within_a_round() {
        let r = results(&[
            "cliff-2 glibc ok 20 1",
            "cliff-4096 glibc ok 30 1",
            "cliff-2 jemalloc ok 20 1",
            "cliff-4096 jemalloc timeout  ",
        ]);
        let growth = row("cliff-4096", Figure::Growth);
        assert_eq!(cell(&r, &growth, "glibc").value(), Some(1.5));
        assert_eq!(cell(&r, &growth, "jemalloc"), Cell::Failed("timeout".into()));
    }

    #[test]
    fn the_mean_is_over_the_set_and_against_the_best_of_each_row() {
        let r = results(&[
            "larson-2 evenkeel ok 10 1",
            "larson-2 glibc ok 20 1",
            "larson-2 snmalloc ok 40 1",
            "larson-8 evenkeel ok 40 1",
            "larson-8 glibc ok 20 1",
            "larson-8 snmalloc ok 10 1",
            "pair evenkeel ok 999 1",
            "pair glibc ok 1 1",
        ]);
        let heaps = heaps_in(&r, "evenkeel");
        assert_eq!(heaps, ["evenkeel", "glibc", "snmalloc"]);
        let (ours, rows) = mean_of_set(&r, &heaps, "evenkeel").unwrap();
        assert!((ours - 2f64.sqrt()).abs() < 1e-9, "{ours}");
        assert_eq!(rows, 2);
        let (glibc, _) = mean_of_set(&r, &heaps, "glibc").unwrap();
        assert!((glibc - 2f64.sqrt()).abs() < 1e-9, "{glibc}");
    }

    #[test]
    fn the_whole_table() {
        let r = results(&[
            "pair evenkeel ok 3 1",
            "pair glibc ok 6 1",
            "larson-2 evenkeel ok 50 1",
            "larson-2 glibc ok 10 1",
        ]);
        let text = render(&r, "evenkeel", false);
        let line = |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap();
        assert!(line("pair").contains("0.50") && line("pair").ends_with("pass"));
        assert!(line("larson-2").contains("5.00") && line("larson-2").ends_with("FAIL"));
        assert!(!text.contains('\x1b'));
        assert!(render(&r, "evenkeel", true).contains("\x1b[31mFAIL"));
        assert!(!text.contains("larson-8"));
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(figure(5.678), "5.68");
        assert_eq!(figure(56.78), "56.8");
        assert_eq!(figure(5678.9), "5679");
        assert_eq!(figure(0.0), "0");
    }
}
