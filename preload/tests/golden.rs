//! The fast paths, counted: what malloc, free, operator new and operator delete execute when the slot
//! serves them, in the release library as it is. A change of any figure fails, so that none grows unseen.
//!
//! Needs objdump and nm (binutils), and the library of `make`, or of EVENKEEL_LIB. After a change that is
//! meant: EVENKEEL_BLESS=1 cargo test -p preload --test golden, and look at the difference.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const FAST: [&str; 4] = ["malloc", "free", "_Znwm", "_ZdlPv"];

#[test]
fn fast_paths_are_as_in_the_table() {
    let library = library();
    let mut table = String::from("function  instructions  loads  stores  branches  calls  locked\n");
    for name in FAST {
        let path = fast_path(&library, name);
        let count = |is: fn(&str) -> bool| path.iter().filter(|i| is(i)).count();
        let (calls, locked) = (count(is_call), count(is_locked));
        assert_eq!((calls, locked), (0, 0), "{name} calls, or locks the bus:\n{}", path.join("\n"));
        writeln!(
            table,
            "{name:8}  {:12}  {:5}  {:6}  {:8}  {calls:5}  {locked:6}",
            path.len(),
            count(is_load),
            count(is_store),
            count(is_branch),
        )
        .unwrap();
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fast_path.golden");
    if std::env::var_os("EVENKEEL_BLESS").is_some() {
        std::fs::write(&golden, table).unwrap();
        return;
    }
    let want = std::fs::read_to_string(&golden).unwrap();
    assert!(
        want == table,
        "the fast paths have changed. They were\n{want}\nand are\n{table}\n\
         If they had to grow, accept it with EVENKEEL_BLESS=1 cargo test -p preload --test golden"
    );
}

/// The release library, no older than its sources.
fn library() -> PathBuf {
    if let Some(path) = std::env::var_os("EVENKEEL_LIB") {
        return path.into();
    }
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("release").join("libevenkeel.so");
    let built = changed(&library).unwrap_or_else(|| panic!("there is no {library:?}: run make first"));
    for sources in ["src", "../heap/src"] {
        for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(sources)).unwrap() {
            let file = file.unwrap().path();
            assert!(changed(&file) <= Some(built), "{library:?} is older than {file:?}: run make first");
        }
    }
    library
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn output(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program}, of binutils: {e}"));
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The instructions from a function's entry, where no branch is taken, to the first ret.
fn fast_path(library: &Path, name: &str) -> Vec<String> {
    let library = library.to_str().unwrap();
    let symbols = output("nm", &["-D", "--defined-only", library]);
    let line = symbols.lines().find(|line| line.split(' ').next_back() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{library} exports no {name}"));
    let entry = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let (from, to) = (format!("--start-address={entry}"), format!("--stop-address={}", entry + 512));
    let text = output("objdump", &["-d", "-M", "intel", "--no-show-raw-insn", &from, &to, library]);
    let mut path = Vec::new();
    for line in text.lines().filter(|line| line.starts_with(' ')) {
        let instruction = line.split('\t').nth(1).unwrap().split('#').next().unwrap();
        path.push(instruction.split_whitespace().collect::<Vec<_>>().join(" "));
        if instruction.starts_with("ret") {
            return path;
        }
    }
    panic!("{name} has no ret in sight:\n{text}");
}

fn is_call(i: &str) -> bool {
    // An unconditional jump leads out of the fast path as well.
    i.starts_with("call") || i.starts_with("jmp")
}

fn is_branch(i: &str) -> bool {
    i.starts_with('j') && !i.starts_with("jmp")
}

fn is_locked(i: &str) -> bool {
    i.contains("lock ") || (i.starts_with("xchg") && i.contains('['))
}

/// Whether the first operand is memory.
fn to_memory(i: &str) -> bool {
    i.split(',').next().unwrap().contains('[') && !i.starts_with("lea")
}

fn is_store(i: &str) -> bool {
    to_memory(i) && !i.starts_with("cmp") && !i.starts_with("test")
}

fn is_load(i: &str) -> bool {
    i.contains('[') && !i.starts_with("lea") && !(to_memory(i) && i.starts_with("mov"))
}
