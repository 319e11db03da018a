//! The report of a sweep in all its forms: what is in it, that it stands alone, and that nothing from a record becomes
//! markup or a command to a terminal.

mod invented;

use invented::Sweep;
use lab::analysis::{Analysis, Question, analyse};
use lab::record::{Outcome, Proof, Record};
use lab::report::{self, Page};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use unicode_width::UnicodeWidthStr;

struct Report {
    records: Vec<Record>,
    analysis: Analysis,
    environment: serde_json::Value,
    redo: Vec<String>,
}

impl Report {
    fn of(records: Vec<Record>) -> Self {
        let question = Question { title: invented::TITLE.into(), baseline: None, margin: None, twins: vec![] };
        let analysis = analyse(&question, &records);
        let redo = vec!["evenkeel report results/synthetic".into()];
        Self { records, analysis, environment: invented::environment(), redo }
    }

    fn page(&self) -> Page<'_> {
        Page {
            analysis: &self.analysis,
            why: None,
            records: &self.records,
            experiment_toml: invented::EXPERIMENT,
            environment: &self.environment,
            folder: "results/synthetic",
            redo: &self.redo,
        }
    }
}

static USUAL: LazyLock<Report> = LazyLock::new(|| Report::of(Sweep::default().records()));

/// A start tag with its attributes, as they are written.
struct Tag<'a> {
    name: &'a str,
    attributes: BTreeMap<&'a str, &'a str>,
}

/// Walks over the page as a strict reader would: every element is closed in its place, every attribute is quoted, and `<`
/// stands nowhere else. What is in style and script elements is skipped.
fn tags(html: &str) -> Vec<Tag<'_>> {
    const VOID: [&str; 2] = ["meta", "input"];
    let mut tags: Vec<Tag> = vec![];
    let mut open: Vec<&str> = vec![];
    let mut rest = html.strip_prefix("<!doctype html>\n").expect("a doctype");
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a > in text: {}", &rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a closed tag");
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut list) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric()), "not an element: <{tag}>");
        let mut attributes = BTreeMap::new();
        while !list.is_empty() {
            let (key, value) = list.split_once("=\"").unwrap_or_else(|| panic!("an attribute without a value: {list}"));
            let (value, others) = value.split_once('"').expect("a quoted value");
            assert!(key.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_alphanumeric()), "{key}");
            assert!(attributes.insert(key, value).is_none(), "{key} twice in <{tag}>");
            list = others.trim_start();
        }
        tags.push(Tag { name, attributes });
        if closed || VOID.contains(&name) {
            continue;
        }
        open.push(name);
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}>")).expect("an end of it")..];
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    tags
}

/// The elements of a name within the part of the page that begins with `from`, up to `to`.
fn part<'a>(html: &'a str, from: &str, to: &str) -> &'a str {
    let begin = html.find(from).unwrap_or_else(|| panic!("no {from}"));
    let end = html[begin + from.len()..].find(to).map_or(html.len(), |at| begin + from.len() + at);
    &html[begin..end]
}

#[test]
fn the_page_is_well_formed_and_its_references_lead_somewhere() {
    let report = &*USUAL;
    let html = report::html(&report.page());
    let tags = tags(&html);
    let mut ids = BTreeSet::new();
    for id in tags.iter().filter_map(|t| t.attributes.get("id")) {
        assert!(ids.insert(*id), "two elements are called {id}");
    }
    for tag in &tags {
        let labels = tag.attributes.get("aria-labelledby").map(|v| v.split(' ')).into_iter().flatten();
        let link = tag.attributes.get("href").and_then(|v| v.strip_prefix('#'));
        for id in labels.chain(link).chain(tag.attributes.get("for").copied()) {
            assert!(ids.contains(id), "nothing is called {id}");
        }
        let named = tag.attributes.contains_key("aria-labelledby") || tag.attributes.contains_key("class");
        assert!(tag.name != "svg" || tag.attributes.contains_key("aria-hidden") || named);
    }
    let count = |name: &str| tags.iter().filter(|t| t.name == name).count();
    assert_eq!(count("h1"), 1);
    assert_eq!(count("table"), count("caption"), "every table has a caption");
    for picture in tags.iter().filter(|t| t.name == "svg" && !t.attributes.contains_key("aria-hidden")) {
        assert_eq!(picture.attributes.get("role"), Some(&"img"));
    }
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let report = &*USUAL;
    let html = report::html(&report.page()).replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "//cdn", " src=", "@import", "url(", "<link", "<iframe"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(report::html(&report.page()), report::html(&report.page()));
}

#[test]
fn the_page_shows_the_answer_and_a_line_per_variant() {
    let report = &*USUAL;
    let html = report::html(&report.page());
    let h1 = part(&html, "<h1", "</h1>");
    for clause in report.analysis.sentence.split("; ") {
        let plain = h1.replace('\u{a0}', " ").replace("&#39;", "'");
        assert!(plain.contains(clause), "{clause} in {plain}");
    }
    for (i, test) in report.analysis.tests.iter().enumerate() {
        let section = part(&html, &format!("id=\"test-{i}\""), "</section>");
        let main = part(section, "<figure class=\"main\"", "</figure>");
        // Wide and narrow, linear and log.
        assert_eq!(main.matches("<polyline").count(), 4 * test.curves.len());
        for place in 0..test.curves.len() {
            let curve = format!("<g class=\"curve k{place}\" data-v=\"{place}\">");
            assert_eq!(main.matches(&curve).count(), 4);
        }
        let points: usize = test.curves.iter().map(|c| c.points.len()).sum();
        assert_eq!(main.matches("<circle").count(), 4 * points);
        // One small picture and one table for each metric.
        let metrics: BTreeSet<_> =
            test.curves.iter().flat_map(|c| &c.points).flat_map(|p| &p.figures).map(|f| f.0).collect();
        assert_eq!(section.matches("class=\"chart small\"").count(), metrics.len() - 1);
        assert_eq!(section.matches("<table class=\"figures\"").count(), metrics.len());
    }
    // The cliff of the one heap that falls, in the one test where it does.
    assert_eq!(html.matches("class=\"drop\"").count(), 4);
    assert!(part(&html, "id=\"test-0\"", "</section>").contains("cliff ×0.3"));
}

#[test]
fn every_comparison_is_in_the_tables() {
    let report = &*USUAL;
    let html = report::html(&report.page());
    let comparisons: usize = report.analysis.tests.iter().map(|t| t.comparisons.len()).sum();
    assert_eq!(html.matches("<span class=\"verdict ").count(), comparisons);
    assert!(comparisons > 500);
}

#[test]
fn what_does_not_count_is_told() {
    let report = &*USUAL;
    let html = report::html(&report.page());
    let section = part(&html, "id=\"left-out\"", "</section>");
    assert!(section.contains("failed: the server died of signal 9</td><td class=\"right\">1</td>"), "{section}");
    assert!(section.contains("malloc is libc.so.6&#39;s</td><td class=\"right\">2</td>"));
    assert!(section.contains("the client used all of its CPU</td><td class=\"right\">10</td>"));
    let proofs = part(&html, "id=\"proofs\"", "</section>");
    // Five heaps that bound, one that did not, one version, one mask.
    assert_eq!(proofs.matches("<tr><td").count(), 5 + 1 + 1 + 1);
    assert!(proofs.find("fails").expect("a proof that fails") < proofs.find("holds").expect("one that holds"));
    for text in [report::terminal(&report.page(), 80, false), report::markdown(&report.page())] {
        assert!(text.contains("the server died of signal 9"), "{text}");
    }
}

#[test]
fn nothing_from_a_record_becomes_markup() {
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{1b}[2J|`**";
    let mut records = Sweep { seconds: 3, ..Sweep::default() }.records();
    for r in &mut records {
        if r.cell.heap == "mimalloc" {
            r.cell.heap = evil.into();
        }
        r.cell.test = format!("{}{evil}", r.cell.test);
        r.cell.config = if r.order % 2 == 0 { evil.into() } else { String::new() };
        r.proofs.push(Proof { what: evil.into(), wanted: evil.into(), found: evil.into(), holds: false });
        r.marks.push(evil.into());
        r.raw.extend([evil.into(), "javascript:alert(3)".into(), "../../etc/passwd".into()]);
        r.started = evil.into();
        if r.order % 50 == 7 {
            r.outcome = Outcome::Failed(evil.into());
        }
    }
    let mut report = Report::of(records);
    report.analysis.title = evil.into();
    report.analysis.limits.push(evil.into());
    report.environment = serde_json::json!({ evil: evil, "b": [{ evil: evil }], "c": { "d": { evil: [[evil]] } } });
    report.redo = vec![evil.into()];
    let page = Page { experiment_toml: evil, folder: evil, ..report.page() };

    let html = report::html(&page);
    let tags = tags(&html);
    assert_eq!(tags.iter().filter(|t| t.name == "script").count(), 1);
    assert!(tags.iter().all(|t| t.name != "img" && t.attributes.keys().all(|a| !a.starts_with("on"))));
    for link in tags.iter().filter_map(|t| t.attributes.get("href")) {
        assert!(link.starts_with('#') || link.starts_with("./"), "{link}");
        assert!(!link.contains(".."), "{link}");
    }
    assert!(!html.contains("<script>alert") && !html.contains("<img") && !html.contains('\u{1b}'));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));

    for test in &report.analysis.tests {
        let svg = report::curve_svg(test, evil).expect("a curve");
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{svg}");
    }
    let markdown = report::markdown(&page);
    let outside_code: String = markdown.lines().filter(|l| !l.starts_with("    ")).collect();
    assert!(!outside_code.contains("<script") && !outside_code.contains("<img"));
    assert!(!report::terminal(&page, 80, false).contains('\u{1b}'));
    let colours = report::terminal(&page, 80, true);
    for after in colours.split('\u{1b}').skip(1) {
        let known = ["[0m", "[1m", "[2m", "[31m", "[34m"];
        assert!(known.iter().any(|code| after.starts_with(code)), "{after}");
    }
}

#[test]
fn the_terminal_keeps_to_its_width() {
    let heaps =
        vec!["glibc", "jemalloc 5.3.0-dirty (unpacked, --with-lg-page=16)", "堆堆堆堆堆", "mimalloc", "e", "f", "g"];
    let many = Sweep { heaps, clients: vec![1, 4096], ..Sweep::default() };
    for sweep in [Sweep::default(), many, Sweep { heaps: vec!["glibc"], rounds: 1, ..Sweep::default() }] {
        let report = Report::of(sweep.records());
        for width in [40, 60, 80, 100, 120, 200] {
            let plain = report::terminal(&report.page(), width, false);
            for line in plain.lines() {
                assert!(line.width() <= width, "{} columns of {width}: {line}", line.width());
                assert_eq!(line.trim_end(), line);
            }
            for heap in &sweep.heaps {
                let short: String = heap.chars().take(5).collect();
                assert!(plain.contains(&short), "{heap} at {width}:\n{plain}");
            }
            let mut bare = report::terminal(&report.page(), width, true);
            for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[34m"] {
                bare = bare.replace(code, "");
            }
            assert_eq!(bare, plain);
        }
    }
}

#[test]
fn the_terminal_table_says_what_the_analysis_says() {
    let report = &*USUAL;
    let wide = report::terminal(&report.page(), 120, false);
    let row = wide.lines().find(|l| l.contains("↘31,")).expect("the row of the fall");
    assert!(
        row.trim_start().starts_with("256 ") && row.contains('▼') && row.contains('▲') && row.contains('='),
        "{row}"
    );
    // At 60 columns the change has no room, the mark has.
    let narrow = report::terminal(&report.page(), 60, false);
    let row = narrow.lines().find(|l| l.contains("↘31,")).expect("the row of the fall");
    assert!(row.contains('▼') && !row.contains('%'), "{row}");
}

#[test]
fn csv_and_json_hold_the_analysis() {
    let report = &*USUAL;
    let csv = report::csv(&report.page());
    let mut lines = csv.lines();
    let heads: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let column = |name: &str| heads.iter().position(|h| *h == name).unwrap_or_else(|| panic!("no column {name}"));
    let (mut rows, mut verdicts) = (0, 0);
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), heads.len(), "{line}");
        rows += 1;
        verdicts += usize::from(!cells[column("verdict")].is_empty());
    }
    assert_eq!(verdicts, report.analysis.tests.iter().map(|t| t.comparisons.len()).sum::<usize>());
    let figures = report.analysis.tests.iter().flat_map(|t| &t.curves).flat_map(|c| &c.points).map(|p| p.figures.len());
    assert_eq!(rows, figures.sum::<usize>());
    let fallen = csv.lines().find(|l| l.starts_with("oltp_read_write,mimalloc,512,tps,")).expect("the row of the fall");
    let cells: Vec<&str> = fallen.split(',').collect();
    assert_eq!(cells[column("verdict")], "worse");
    let change: f64 = cells[column("change")].parse().expect("a number");
    assert!((-0.75..-0.6).contains(&change), "{fallen}");

    let json: serde_json::Value = serde_json::from_str(&report::json(&report.page())).expect("JSON");
    assert_eq!(json["schema"], 1);
    let back: Analysis = serde_json::from_value(json["analysis"].clone()).expect("an analysis");
    assert_eq!(back, report.analysis);
}

#[test]
fn sweeps_of_any_size_are_drawn() {
    let none = Sweep { rounds: 0, ..Sweep::default() };
    let one = Sweep { tests: vec!["t"], heaps: vec!["glibc"], clients: vec![64], rounds: 1, seconds: 1 };
    let pair = Sweep { clients: vec![1, 2], rounds: 2, ..Sweep::default() };
    let heaps = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"].to_vec();
    let clients = vec![1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
    let wide = Sweep { tests: vec!["t"], heaps, clients, rounds: 2, seconds: 5 };
    for sweep in [none, one, pair, wide] {
        let report = Report::of(sweep.records());
        let html = report::html(&report.page());
        tags(&html);
        assert!(!html.contains("NaN") && !html.contains("inf\"") && !html.contains("Infinity"));
        report::terminal(&report.page(), 80, false);
        report::markdown(&report.page());
        report::csv(&report.page());
        report::json(&report.page());
    }
}

#[test]
fn only_failures_make_a_report_too() {
    let mut records = Sweep { rounds: 1, ..Sweep::default() }.records();
    for r in &mut records {
        r.outcome = Outcome::Failed("disk full".into());
        r.figures = Default::default();
        r.series.clear();
    }
    let report = Report::of(records);
    let html = report::html(&report.page());
    tags(&html);
    assert!(html.contains("failed: disk full"));
    assert!(report::terminal(&report.page(), 80, false).contains("disk full"));
}

/// Series are thinned: 500 trials of two minutes are a page that can be mailed.
#[test]
fn a_page_of_500_trials_is_under_a_megabyte() {
    let clients = vec![1, 2, 4, 8, 16, 64, 128, 256, 384, 512];
    let sweep = Sweep { tests: vec!["oltp_read_write"], clients, rounds: 10, seconds: 120, ..Sweep::default() };
    let report = Report::of(sweep.records());
    assert_eq!(report.records.len(), 500);
    let html = report::html(&report.page());
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}
