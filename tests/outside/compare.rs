//! The glibc comparison: tests/c/compare.c prints one line for each behaviour; the lines under Evenkeel must be
//! those under plain glibc 2.36. Figures that may differ (names that begin with `bound.`) are held to bounds.

use std::collections::HashMap;
use std::ffi::CStr;

use crate::harness::{Check, List, Mode, Program, fail, head, lines_of};

const SECTIONS: [&str; 11] =
    ["alignment", "zero", "huge", "overflow", "calloc", "aligned", "usable", "errno", "realloc", "libc", "settings"];

pub fn add(list: &mut List) {
    for section in SECTIONS {
        list.both(&format!("compare::{section}"), move |mode| compare(section, mode));
    }
    list.both("compare::malloc_info_is_xml", malloc_info_is_xml);
    list.both("compare::malloc_stats_to_stderr", malloc_stats_to_stderr);
}

fn compare(section: &str, mode: Mode) -> Check {
    let program = || Program::c("compare.c").map(|p| p.args([section]).limit(120));
    let reference = program()?.succeed()?;
    let ours = program()?.under(mode).succeed()?;
    let mut expected: HashMap<&str, &str> = lines_of(&reference.out).into_iter().collect();
    if glibc_version() != "2.36" {
        // From 2.38 on aligned_alloc refuses odd alignments; in 2.36 it was another name for memalign, and that is
        // the behaviour this heap keeps.
        for (name, value) in lines_of(&reference.out) {
            if let Some(arguments) = name.strip_prefix("memalign.") {
                expected.extend(
                    expected.keys().find(|n| n.strip_prefix("aligned_alloc.") == Some(arguments)).map(|n| (*n, value)),
                );
            }
        }
        expected.insert("table.aligned_alloc(48,96)", "ptr/0");
    }
    let got = lines_of(&ours.out);
    let mut wrong = Vec::new();
    for (name, value) in &got {
        match expected.get(name) {
            None => wrong.push(format!("{name}={value}: glibc printed no such line")),
            Some(wanted) => {
                if let Some(figure) = name.strip_prefix("bound.") {
                    if let Err(why) = within_bounds(figure, value) {
                        wrong.push(format!("{name}={value}: {why} (glibc: {wanted})"));
                    }
                } else if value != wanted {
                    wrong.push(format!("{name}={value} (glibc: {wanted})"));
                }
            }
        }
    }
    if got.len() != expected.len() {
        wrong.push(format!("{} lines instead of {}", got.len(), expected.len()));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    fail(format!("{}: {} of {} lines differ\n{}", ours.what, wrong.len(), got.len(), head(&wrong.join("\n"), 40)))
}

fn glibc_version() -> String {
    // SAFETY: returns a static string.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned()
}

fn within_bounds(figure: &str, value: &str) -> Result<(), String> {
    let value: i64 = value.parse().map_err(|_| "not a number".to_string())?;
    let range = if let Some(size) = figure.strip_prefix("usable.") {
        let size: i64 = size.parse().map_err(|_| "not a size".to_string())?;
        // An eighth is the most a bucket may waste; the rest is the grain of small blocks and of pages.
        let grain = if size <= 16 * 1024 { 16 } else { 4096 };
        size..=size + size / 8 + grain
    } else if figure.starts_with("trim.") {
        0..=1
    } else {
        match figure {
            "mallinfo2.small" | "mallinfo.small" => 4_000_000..=4_500_000 + 64 * 1024,
            "mallinfo2.large" => (20 << 20)..=(20 << 20) + (3 << 20),
            "mallinfo2.left" => -64 * 1024..=64 * 1024,
            _ => return Err("no bounds are known".into()),
        }
    };
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("not in {}..={}", range.start(), range.end()))
}

fn malloc_info_is_xml(mode: Mode) -> Check {
    for wanted in [Mode::Glibc, mode] {
        let done = Program::c("report.c")?.args(["info"]).under(wanted).succeed()?;
        let document = match roxmltree::Document::parse(&done.out) {
            Ok(document) => document,
            Err(error) => return fail(done.tell(&format!("well-formed XML ({error})"))),
        };
        // What programs that read it look for first.
        let root = document.root_element();
        if root.tag_name().name() != "malloc" || root.attribute("version") != Some("1") {
            return fail(done.tell("<malloc version=\"1\">"));
        }
    }
    Ok(())
}

fn malloc_stats_to_stderr(mode: Mode) -> Check {
    for wanted in [Mode::Glibc, mode] {
        let done = Program::c("report.c")?.args(["stats"]).under(wanted).run()?;
        if done.code != Some(0) || done.err.trim().is_empty() || done.out != "between\n" {
            return fail(done.tell("exit code 0, a report on stderr, only \"between\" on stdout"));
        }
    }
    Ok(())
}
