//! The workloads: which there are, what each row of the table runs, and the bar it has to reach. The programs
//! themselves are the C files in `work/`.

use crate::machine;
use std::path::PathBuf;
use std::process::Command;

pub struct Work {
    /// The name of the row, and of the trials in the CSV file.
    pub row: &'static str,
    pub program: &'static str,
    pub args: &'static str,
    pub part: Part,
    pub in_short: bool,
    pub about: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Part {
    /// One of those whose geometric mean is taken.
    Mean,
    /// A row of its own.
    Alone,
    /// Compares starts: the program itself runs under the C library's heap.
    Starts,
    /// Takes minutes and counts failures, not time: done in the first round only.
    Forks,
}

impl Work {
    pub fn in_mean(&self) -> bool {
        self.part == Part::Mean
    }

    /// How many times the usual limit a trial may last.
    pub fn patience(&self) -> u32 {
        if self.part == Part::Forks { 5 } else { 1 }
    }
}

use Part::{Alone, Forks, Mean, Starts};

const SHORT: bool = true;
const FULL: bool = false;

/// The sizes let a good heap work for a third of a second to a second of CPU time.
#[rustfmt::skip]
pub const ALL: &[Work] = &[
    work("pair", "pair", "100000000", Alone, SHORT, "one thread takes a block of 16..512 bytes and gives it back"),
    work("larson-2", "larson", "2 32000000", Mean, SHORT, "2 workers replace random blocks, hand over to successors"),
    work("larson-8", "larson", "8 32000000", Mean, FULL, "8 workers replace random blocks, hand over to successors"),
    work("sh6", "sh6", "48000000", Mean, FULL, "2 threads, batches freed in different orders"),
    work("sh8", "sh8", "36000000", Mean, FULL, "4 threads, half of each batch freed by the neighbour"),
    work("xmalloc", "xmalloc", "16000000", Mean, SHORT, "2 threads allocate, 2 others free"),
    work("mstress", "mstress", "20000000", Mean, SHORT, "phases of 8 threads with unequal loads; blocks outlive them"),
    work("rptest-2", "rptest", "2 10000000", Mean, FULL, "2 threads, 3,000 blocks of 16..16,000 bytes each"),
    work("rptest-8", "rptest", "8 10000000", Mean, FULL, "8 threads, 3,000 blocks of 16..16,000 bytes each"),
    work("alloctest", "alloctest", "30000000", Mean, FULL, "2 threads visit places as in Pareto's law"),
    work("cache-scratch", "cachelines", "scratch 4000000", Mean, FULL, "blocks of one cache line given to 2 threads"),
    work("cache-thrash", "cachelines", "thrash 4000000", Mean, FULL, "2 threads write to small blocks of their own"),
    work("large", "large", "80000", Mean, SHORT, "2 threads replace blocks of 16 KiB..8 MiB"),
    work("mleak", "mleak", "10000000", Mean, FULL, "threads come, allocate, leave blocks behind, and go"),
    work("cliff-2", "cliff", "2 33554432", Alone, SHORT, "64 blocks per thread, one in eight freed elsewhere"),
    work("cliff-64", "cliff", "64 33554432", Alone, SHORT, "the same total work on 64 threads"),
    work("cliff-1024", "cliff", "1024 33554432", Alone, SHORT, "the same total work on 1,024 threads"),
    work("cliff-4096", "cliff", "4096 33554432", Alone, SHORT, "the same total work on 4,096 threads"),
    work("tail", "tail", "64 8000000", Alone, FULL, "time of single calls on 64 threads"),
    work("fill", "fill", "0", Alone, SHORT, "8 threads fill 64 MiB each, free all, sleep 2 s"),
    work("fill-survivors", "fill", "5", Alone, FULL, "the same, but 5 % of the blocks stay"),
    work("hello", "hello", "", Alone, SHORT, "memory of a program that does next to nothing"),
    work("startup", "startup", "300", Starts, FULL, "time from start to end of such a program"),
    work("forks", "forks", "3000", Forks, FULL, "3,000 forks while 6 threads allocate"),
];

const fn work(
    row: &'static str,
    program: &'static str,
    args: &'static str,
    part: Part,
    in_short: bool,
    about: &'static str,
) -> Work {
    Work { row, program, args, part, in_short, about }
}

/// The rows that a name stands for: its own, those of its program, or those of the mean.
pub fn named<'a>(name: &'a str) -> impl Iterator<Item = &'static Work> + 'a {
    ALL.iter().filter(move |w| w.row == name || w.program == name || (name == "set" && w.in_mean()))
}

pub fn list() {
    println!("{:<16} {:<6} {:<6} what it does", "row", "mean", "short");
    let mark = |yes| if yes { "yes" } else { "-" };
    for w in ALL {
        println!("{:<16} {:<6} {:<6} {}", w.row, mark(w.in_mean()), mark(w.in_short), w.about);
    }
}

pub fn program(name: &str) -> PathBuf {
    machine::target().join("bench").join(name)
}

/// The compiler must neither take calls away nor replace them: what is measured is the calls.
const FLAGS: &[&str] = &[
    "-std=c11",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wno-unused-function",
    "-Wno-format-zero-length",
    "-fno-builtin-malloc",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fno-builtin-free",
    "-pthread",
];

/// Compiles what is missing or older than its source.
pub fn compile_all() -> Result<(), String> {
    let headers = [source("work.h"), source("mailbox.h")];
    let folder = machine::target().join("bench");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut programs: Vec<&str> = ALL.iter().map(|w| w.program).collect();
    programs.extend(["probe", "hop"]);
    programs.sort();
    programs.dedup();
    for name in programs {
        let from = source(&format!("{name}.c"));
        let to = program(name);
        let age = |p: &PathBuf| p.metadata().and_then(|m| m.modified()).ok();
        let newest = headers.iter().chain([&from]).filter_map(age).max();
        if age(&to) > newest {
            continue;
        }
        let done = Command::new("cc")
            .args(FLAGS)
            .arg(&from)
            .arg("-o")
            .arg(&to)
            .status()
            .map_err(|e| format!("cc: {e}; try: apt-get install gcc libc6-dev"))?;
        if !done.success() {
            return Err(format!("cc could not compile {}", machine::shown(&from)));
        }
    }
    Ok(())
}

fn source(file: &str) -> PathBuf {
    machine::bench_dir().join("work").join(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let mut rows: Vec<_> = ALL.iter().map(|w| w.row).collect();
        rows.sort();
        rows.dedup();
        assert_eq!(rows.len(), ALL.len());
    }

    #[test]
    fn a_name_stands_for_its_rows() {
        let rows = |name| named(name).map(|w| w.row).collect::<Vec<_>>();
        assert_eq!(rows("cliff"), ["cliff-2", "cliff-64", "cliff-1024", "cliff-4096"]);
        assert_eq!(rows("cliff-64"), ["cliff-64"]);
        assert!(rows("set").contains(&"larson-8"));
        assert!(rows("nothing").is_empty());
    }
}
