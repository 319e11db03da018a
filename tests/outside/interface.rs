//! The library as a file and as an interface: what it exports, what it needs, its header, its options, C23's calls.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Check, List, Mode, Program, c_sources, compile, ensure, fail, installed, library, repository};

/// The C library's family, and C23's.
const MALLOC: [&str; 20] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "free_sized",
    "free_aligned_sized",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "malloc_trim",
    "mallopt",
    "mallinfo",
    "mallinfo2",
    "malloc_info",
    "malloc_stats",
    // Not of the family, but exported on purpose: a vfork child has no restartable sequences of its own.
    "vfork",
];
/// operator new and delete, all forms, as the Itanium ABI writes them (`w`/`l` plain, `a` array, `m` sized).
const OPERATORS: [&str; 20] = [
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
];
const CONTROL: [&str; 6] = [
    "evenkeel_version",
    "evenkeel_stats_json",
    "evenkeel_purge",
    "evenkeel_option_get",
    "evenkeel_option_set",
    "evenkeel_option_row",
];

pub fn add(list: &mut List) {
    list.once("interface::exports", exports);
    list.once("interface::elf", elf);
    list.once("interface::calls_itself_directly", calls_itself_directly);
    list.once("interface::header_c", || header("cc", &["-std=c99"]));
    list.once("interface::header_cpp", || header("c++", &["-std=c++11", "-x", "c++"]));
    list.both("interface::c23", |mode| Program::c("c23.c")?.under(mode).succeed().map(drop));
    list.once("interface::options_from_environment", options_from_environment);
    list.once("interface::bad_option_values", bad_option_values);
    list.both("interface::option_calls", |mode| {
        let done = stats("set")?.under(mode).run()?;
        // The program frees what is not the heap's, at the end, to see that it is only reported.
        ensure(done.code == Some(0) && done.err.lines().count() == 1, || done.tell("exit code 0 and one report"))
    });
}

/// tests/c/stats.c, which includes the library's header.
pub fn stats(what: &str) -> Check<Program> {
    let include = format!("-I{}", repository().join("preload").display());
    Ok(Program::at(compile("stats.c", &[&include])?).args([what]))
}

fn tool(program: &str, args: &[&str]) -> Check<String> {
    let output = Command::new(installed(program, "binutils")?).args(args).arg(library()?).output()?;
    ensure(output.status.success(), || String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn exports() -> Check {
    let listing = tool("nm", &["-D", "--defined-only"])?;
    let got: BTreeSet<&str> = listing.lines().filter_map(|l| l.split_whitespace().nth(2)).collect();
    let got: BTreeSet<&str> = got.into_iter().map(|name| name.split('@').next().unwrap_or(name)).collect();
    let wanted: BTreeSet<&str> = MALLOC.into_iter().chain(OPERATORS).chain(CONTROL).collect();
    let missing: Vec<_> = wanted.difference(&got).collect();
    let foreign: Vec<_> = got.difference(&wanted).collect();
    ensure(missing.is_empty() && foreign.is_empty(), || format!("missing: {missing:?}; not allowed: {foreign:?}"))
}

/// No thread-local storage, no executable stack, no text relocations, nothing needed but the C library.
fn elf() -> Check {
    let headers = tool("readelf", &["-lW"])?;
    ensure(!headers.lines().any(|l| l.trim_start().starts_with("TLS ")), || "the library has a TLS segment".into())?;
    let stack = headers.lines().find(|l| l.contains("GNU_STACK")).unwrap_or_default();
    ensure(stack.contains("RW ") && !stack.contains("RWE"), || format!("the stack must not be executable: {stack}"))?;
    let dynamic = tool("readelf", &["-dW"])?;
    ensure(!dynamic.contains("TEXTREL"), || "there are text relocations".into())?;
    for line in dynamic.lines().filter(|l| l.contains("(NEEDED)")) {
        let allowed = line.contains("[libc.so.6]") || line.contains("[ld-linux-x86-64.so.2]");
        ensure(allowed, || format!("needs more than the C library: {line}"))?;
    }
    Ok(())
}

/// A call from the library to its own malloc or free must not go through a symbol that another object may define:
/// then a block of this heap would be given to another heap (opened with RTLD_LOCAL, or below a program that brings
/// a malloc of its own).
fn calls_itself_directly() -> Check {
    let relocations = tool("readelf", &["-rW"])?;
    for line in relocations.lines() {
        let symbol = line.split_whitespace().nth(4).unwrap_or_default();
        let symbol = symbol.split('@').next().unwrap_or_default();
        let own = MALLOC.contains(&symbol) || OPERATORS.contains(&symbol) || CONTROL.contains(&symbol);
        ensure(!own, || format!("its own {symbol} is reached through a symbol: {line}"))?;
    }
    Ok(())
}

fn header(compiler: &str, flags: &[&str]) -> Check {
    let scratch = crate::harness::Scratch::new("header")?;
    let path = scratch.join("header");
    let library = library()?;
    let output = Command::new(installed(compiler, "g++")?)
        .args(flags)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-fno-builtin"])
        .arg(format!("-I{}", repository().join("preload").display()))
        .arg(c_sources().join("header.c"))
        .args(["-x", "none"])
        .arg(library)
        .arg("-o")
        .arg(&path)
        .output()?;
    ensure(output.status.success(), || String::from_utf8_lossy(&output.stderr).into_owned())?;
    // Linked, not preloaded; the file has no soname, so the program knows it by its path.
    let directory: PathBuf = library.parent().map(PathBuf::from).unwrap_or_default();
    Program::at(path).env("LD_LIBRARY_PATH", directory).succeed().map(drop)
}

struct Row {
    name: String,
    value: u64,
    default: u64,
    most: u64,
    fixed: bool,
    meaning: String,
}

impl Row {
    fn variable(&self) -> String {
        format!("EVENKEEL_{}", self.name.to_uppercase())
    }
}

fn rows(program: Program) -> Check<Vec<Row>> {
    let done = program.run()?;
    ensure(done.code == Some(0), || done.tell("exit code 0"))?;
    let rows: Option<Vec<Row>> = done
        .out
        .lines()
        .map(|line| {
            let mut parts = line.splitn(6, '|');
            Some(Row {
                name: parts.next()?.to_owned(),
                value: parts.next()?.parse().ok()?,
                default: parts.next()?.parse().ok()?,
                most: parts.next()?.parse().ok()?,
                fixed: parts.next()? == "1",
                meaning: parts.next()?.to_owned(),
            })
        })
        .collect();
    match rows {
        Some(rows) if !rows.is_empty() => Ok(rows),
        _ => fail(done.tell("a table of options")),
    }
}

fn options_from_environment() -> Check {
    for row in rows(stats("options")?.under(Mode::Default))? {
        ensure(row.value == row.default && row.default <= row.most && !row.meaning.is_empty(), || {
            format!("{}: value {}, default {}, most {}, {}", row.name, row.value, row.default, row.most, row.meaning)
        })?;
        for wanted in [0, row.most.min(1), row.most] {
            let program = stats("options")?.under(Mode::Default).env(&row.variable(), wanted.to_string());
            let after = rows(program)?;
            let value = after.iter().find(|r| r.name == row.name).map(|r| r.value);
            ensure(value == Some(wanted), || format!("{}={wanted} gave {value:?}", row.variable()))?;
            let others = after.iter().filter(|r| r.name != row.name).all(|r| r.value == r.default);
            ensure(others, || format!("{}={wanted} changed another option", row.variable()))?;
        }
    }
    let rows = rows(stats("options")?.under(Mode::Default))?;
    ensure(rows.iter().any(|r| r.fixed) && rows.iter().any(|r| !r.fixed), || "both kinds of options".into())
}

/// Reported once, on one line that names the variable and the value; the default is used.
fn bad_option_values() -> Check {
    for row in rows(stats("options")?.under(Mode::Default))? {
        for bad in ["banana", "", "-1", "1e3", "99999999999999999999999999"] {
            let done = stats("options")?.under(Mode::Default).env(&row.variable(), bad).run()?;
            ensure(done.code == Some(0), || done.tell("exit code 0"))?;
            let lines: Vec<&str> = done.err.lines().collect();
            let reported = matches!(lines[..], [line] if line.starts_with("evenkeel: ")
                && line.contains(&row.variable()) && line.contains(bad));
            ensure(reported, || done.tell(&format!("one report that names {}={bad}", row.variable())))?;
            let used = done.out.lines().find_map(|l| l.strip_prefix(&format!("{}|", row.name))).unwrap_or_default();
            ensure(used.starts_with(&format!("{}|", row.default)), || done.tell("the default"))?;
        }
    }
    Ok(())
}
