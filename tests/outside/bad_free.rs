//! Wrong frees, each in a process of its own: exactly one line on stderr that names the pointer, the block and what
//! is wrong, and then an abort; or, with EVENKEEL_ABORT=0, the line, and a program that goes on unharmed.

use crate::harness::{Check, List, Mode, Program, ensure, fail, figure, soak};

const DOUBLE: &[&str] = &["double free"];
/// A block inside a page run that was free as a whole has left no trace of its own.
const DOUBLE_LARGE: &[&str] = &["double free", "not the start of a block"];
const INSIDE: &[&str] = &["not the start of a block"];
const MISALIGNED: &[&str] = &["misaligned", "not the start of a block"];
const FOREIGN: &[&str] = &["not from this heap"];
const FOREIGN_ODD: &[&str] = &["not from this heap", "misaligned"];
/// Address space of the heap in which nothing lies.
const NOTHING: &[&str] = &["not from this heap", "not the start of a block", "double free"];

/// The case, the words of which one must appear, and whether the block's size or bucket must.
const CASES: &[(&str, &[&str], bool)] = &[
    ("double_small", DOUBLE, true),
    ("double_tiny", DOUBLE, true),
    ("double_4000", DOUBLE, true),
    ("double_20KiB", DOUBLE, true),
    ("double_300KiB", DOUBLE_LARGE, false),
    ("double_20MiB", DOUBLE_LARGE, false),
    ("double_with_others_between", DOUBLE, true),
    ("double_after_flush", DOUBLE, false),
    ("double_after_purge", DOUBLE_LARGE, false),
    ("double_aligned", DOUBLE, true),
    ("double_from_another_thread", DOUBLE, true),
    ("double_after_another_thread", DOUBLE, true),
    ("double_after_write", DOUBLE, true),
    ("double_after_partial_purge", DOUBLE, true),
    ("double_on_another_cpu", DOUBLE, true),
    ("double_after_reuse", DOUBLE, true),
    ("double_after_realloc_zero", DOUBLE, true),
    ("double_after_realloc_moved", DOUBLE, true),
    ("inside_small_1", MISALIGNED, true),
    ("inside_small_8", MISALIGNED, true),
    ("inside_small_16", INSIDE, true),
    ("inside_4000_middle", INSIDE, true),
    ("inside_4000_second_16", INSIDE, true),
    ("inside_20KiB_middle", INSIDE, true),
    ("inside_20KiB_page", INSIDE, true),
    ("inside_200KiB_middle", INSIDE, true),
    ("inside_300KiB_16", INSIDE, true),
    ("inside_300KiB_page", INSIDE, true),
    ("inside_20MiB_middle", INSIDE, true),
    ("inside_20MiB_16", INSIDE, true),
    // The neighbour was never handed out: to the heap that is a free block.
    ("one_past", NOTHING, false),
    ("of_stack", FOREIGN, false),
    ("of_static", FOREIGN, false),
    ("of_mmap", FOREIGN, false),
    ("of_mmap_inside", FOREIGN, false),
    ("of_unreadable", FOREIGN, false),
    ("of_brk", FOREIGN, false),
    ("of_code", FOREIGN, false),
    ("of_libc", FOREIGN, false),
    ("wild_low", FOREIGN, false),
    ("wild_page", FOREIGN, false),
    ("wild_32bit", FOREIGN, false),
    ("wild_high_user", FOREIGN, false),
    ("wild_not_canonical", FOREIGN, false),
    ("wild_kernel", FOREIGN, false),
    ("wild_top", FOREIGN, false),
    ("wild_misaligned", FOREIGN_ODD, false),
    ("wild_near_heap", NOTHING, false),
    ("realloc_of_stack", FOREIGN, false),
    ("realloc_of_freed", &["free"], true),
    ("realloc_of_freed_large", &["free"], false),
    ("realloc_of_inside", INSIDE, true),
    ("realloc_of_wild", FOREIGN, false),
];
/// malloc_usable_size may report, or answer 0.
const USABLE: &[(&str, &[&str])] = &[
    ("usable_of_stack", FOREIGN),
    ("usable_of_wild", FOREIGN),
    ("usable_of_not_canonical", FOREIGN),
    ("usable_of_inside", INSIDE),
];

pub fn add(list: &mut List) {
    for &(case, words, size) in CASES {
        list.both(&format!("bad_free::{case}"), move |mode| {
            aborts(case, words, size, mode)?;
            goes_on(case, words, mode)
        });
    }
    for &(case, words) in USABLE {
        list.both(&format!("bad_free::{case}"), move |mode| {
            let done = Program::c("bad_free.c")?.args([case]).under(mode).limit(30).run()?;
            if done.code == Some(0) && done.err.is_empty() {
                return ensure(figure(&done.out, "usable")? == 0, || done.tell("usable=0"));
            }
            aborts(case, words, false, mode)?;
            goes_on(case, words, mode)
        });
    }
    list.both("bad_free::every_case_is_listed", |mode| {
        let done = Program::c("bad_free.c")?.under(mode).succeed()?;
        for name in done.out.lines() {
            let known = CASES.iter().any(|c| c.0 == name) || USABLE.iter().any(|c| c.0 == name);
            ensure(known, || format!("{name} is in bad_free.c but not in bad_free.rs"))?;
        }
        Ok(())
    });
    list.both("bad_free::storm", storm);
    list.both("bad_free::race", race);
    list.both("bad_free::overflow_and_use_after_free", |mode| {
        // What is found to be overwritten is reported and set aside; the option lets the program go on.
        let done = Program::c("overflow.c")?.under(mode).env("EVENKEEL_ABORT", "0").run()?;
        ensure(done.code == Some(0) && done.hung.is_none(), || done.tell("exit code 0"))
    });
}

/// Thousands of wrong frees among right ones: each is counted, and reported on a line of its own.
fn storm(mode: Mode) -> Check {
    for seed in 1..=if soak() { 40 } else { 4 } {
        let program = Program::c("storm.c")?.args([format!("seed={seed}")]).env("EVENKEEL_ABORT", "0");
        let done = program.under(mode).run()?;
        ensure(done.code == Some(0) && done.hung.is_none(), || done.tell("exit code 0"))?;
        let wrong = figure(&done.out, "wrong")?;
        let reports = done.err.lines().filter(|l| l.starts_with("evenkeel: ")).count() as i64;
        ensure(wrong > 1000 && figure(&done.out, "counted")? == wrong, || done.tell("every wrong free counted"))?;
        ensure(reports == wrong, || done.tell(&format!("{wrong} reports (there are {reports})")))?;
    }
    Ok(())
}

/// Two threads free one block at the same moment: no block is given out twice, and all but the few that
/// still lie in a slot at the end are reported.
fn race(mode: Mode) -> Check {
    for size in ["size=100", "size=40000"] {
        let program = Program::c("race.c")?.args([size]).env("EVENKEEL_ABORT", "0").under(mode).limit(120);
        let done = program.run()?;
        ensure(done.code == Some(0) && done.hung.is_none(), || done.tell("exit code 0"))?;
        let (rounds, reports) = (figure(&done.out, "rounds")?, done.err.lines().count() as i64);
        ensure(figure(&done.out, "twice")? == 0, || done.tell("no block given out twice"))?;
        ensure(reports <= rounds && reports >= rounds / 100 * 99, || {
            done.tell(&format!("{rounds} reports (there are {reports})"))
        })?;
    }
    Ok(())
}

fn aborts(case: &str, words: &[&str], size: bool, mode: Mode) -> Check {
    let done = Program::c("bad_free.c")?.args([case]).under(mode).limit(30).run()?;
    ensure(done.signal == Some(libc::SIGABRT) && done.hung.is_none(), || done.tell("SIGABRT"))?;
    // A seal that the program has overwritten is missed by free, and found by the malloc that would give
    // the block away.
    let later = case == "double_after_write";
    ensure(later || !done.out.contains("went on"), || done.tell("the end at the wrong call"))?;
    one_report(&done.out, &done.err, words, size).or_else(|why| fail(done.tell(&why)))
}

fn goes_on(case: &str, words: &[&str], mode: Mode) -> Check {
    let program = Program::c("bad_free.c")?.args([case]).under(mode).env("EVENKEEL_ABORT", "0").limit(30);
    let done = program.run()?;
    ensure(done.code == Some(0) && done.hung.is_none(), || done.tell("exit code 0 after the report"))?;
    ensure(done.out.ends_with("went on\ndone\n"), || done.tell("a program that goes on"))?;
    one_report(&done.out, &done.err, words, false).or_else(|why| fail(done.tell(&why)))
}

/// Err says what was wanted of the report.
fn one_report(out: &str, err: &str, words: &[&str], size: bool) -> Result<(), String> {
    let lines: Vec<&str> = err.lines().collect();
    let [line] = lines[..] else {
        return Err(format!("exactly one line on stderr (there are {})", lines.len()));
    };
    if !err.ends_with('\n') {
        return Err("a line that ends".into());
    }
    if !line.starts_with("evenkeel: ") {
        return Err("a line that begins with `evenkeel: `".into());
    }
    let announced = out.lines().find_map(|l| l.strip_prefix("pointer=")).unwrap_or_default();
    let (pointer, usable) = announced.split_once(" size=").unwrap_or_default();
    let tokens: Vec<&str> = line.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    if pointer.is_empty() || !tokens.contains(&pointer) {
        return Err(format!("the pointer {pointer} in the report"));
    }
    if !words.iter().any(|w| line.contains(w)) {
        return Err(format!("one of {words:?} in the report"));
    }
    if size && !line.contains("bucket") && !tokens.contains(&usable) {
        return Err(format!("the block's size ({usable}) or bucket in the report"));
    }
    Ok(())
}
