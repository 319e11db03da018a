//! The tools of the checks: where the library is, how a check program is compiled and run (always in a process
//! group of its own, always with a time limit, always ended), and how a check says that it failed or was skipped.

mod process;

pub use process::{Done, Program, Service, sweep};

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed, Trial};

/// Why a check ended early.
pub enum Stop {
    /// Something the check needs is not on this machine; the reason is printed and the check counted as skipped.
    Skip(String),
    Fail(String),
}
pub type Check<T = ()> = Result<T, Stop>;

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Stop::Fail(format!("{error}"))
    }
}

pub fn fail<T>(what: impl Into<String>) -> Check<T> {
    Err(Stop::Fail(what.into()))
}
pub fn skip<T>(why: impl Into<String>) -> Check<T> {
    Err(Stop::Skip(why.into()))
}
/// `ensure(condition, || message)`: the message is only made when it is needed.
pub fn ensure(condition: bool, what: impl FnOnce() -> String) -> Check {
    if condition { Ok(()) } else { fail(what()) }
}

/// How the allocator runs below a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Plain glibc, for comparison.
    Glibc,
    /// As it chooses itself: restartable sequences where the kernel and glibc have them.
    Default,
    /// Without restartable sequences: slots claimed by compare-and-swap.
    Fallback,
}

impl Mode {
    pub const BOTH: [Mode; 2] = [Mode::Default, Mode::Fallback];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Glibc => "glibc",
            Mode::Default => "default",
            Mode::Fallback => "fallback",
        }
    }
}

static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());
/// Where the time of a run went: the longest checks, for whoever wants the suite to stay short.
pub fn longest(count: usize) -> String {
    let mut times = TIMES.lock().unwrap_or_else(|e| e.into_inner()).clone();
    times.sort_unstable_by(|a, b| b.cmp(a));
    let line = |(time, name): &(Duration, String)| format!("{name} {:.1} s", time.as_secs_f64());
    times.iter().take(count).map(line).collect::<Vec<_>>().join(", ")
}

/// The list of checks, filled by each group.
#[derive(Default)]
pub struct List(Vec<Trial>);

impl List {
    pub fn once(&mut self, name: &str, check: impl FnOnce() -> Check + Send + 'static) {
        let own_name = name.to_owned();
        self.0.push(Trial::ignorable_test(name, move || {
            let begin = Instant::now();
            let result = check();
            TIMES.lock().unwrap_or_else(|e| e.into_inner()).push((begin.elapsed(), own_name));
            match result {
                Ok(()) => Ok(Completion::Completed),
                Err(Stop::Skip(why)) => Ok(Completion::ignored_with(why)),
                Err(Stop::Fail(what)) => Err(Failed::from(what)),
            }
        }));
    }

    /// One check for each of the heap's two modes.
    pub fn both(&mut self, name: &str, check: impl Fn(Mode) -> Check + Send + Sync + 'static) {
        let check = Arc::new(check);
        for mode in Mode::BOTH {
            let check = check.clone();
            self.once(&format!("{name}::{}", mode.name()), move || check(mode));
        }
    }

    pub fn trials(self) -> Vec<Trial> {
        self.0
    }
}

/// `SOAK=1` asks for the long forms.
pub fn soak() -> bool {
    std::env::var_os("SOAK").is_some_and(|v| v != "0")
}

pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository")
}
pub fn c_sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c")
}
/// Where compiled check programs go: beside cargo's own output, so that `cargo clean` takes them too.
fn build_directory() -> PathBuf {
    target_directory().join("checks")
}
fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The library under test: `EVENKEEL_LIB`, or the release build of this repository, built here if there is none.
pub fn library() -> Check<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(find_library) {
        Ok(path) => Ok(path),
        Err(why) => fail(why.clone()),
    }
}
fn find_library() -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os("EVENKEEL_LIB") {
        return std::fs::canonicalize(&given).map_err(|e| format!("EVENKEEL_LIB={}: {e}", given.display()));
    }
    let path = target_directory().join("release/libevenkeel.so");
    if !path.exists() {
        let built = Command::new("cargo")
            .args(["build", "--release", "-p", "preload"])
            .current_dir(repository())
            .output()
            .map_err(|e| format!("cargo build: {e}"))?;
        if !built.status.success() {
            return Err(format!("cargo build --release -p preload: {}", String::from_utf8_lossy(&built.stderr)));
        }
    }
    std::fs::canonicalize(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Compiles tests/c/NAME once per run of the checks and returns the program's path. Warnings are left alone: the
/// programs do on purpose what compilers warn about.
pub fn compile(source: &str, extra: &[&str]) -> Check<PathBuf> {
    type Built = HashMap<String, Result<PathBuf, String>>;
    static BUILT: OnceLock<Mutex<Built>> = OnceLock::new();
    let mut output = source.replace('.', "_");
    for flag in extra {
        output.push_str(&flag.replace(['/', '='], "_"));
    }
    // Held while compiling: a second check that wants the same program waits for it instead of making it twice.
    let mut built = BUILT.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
    let result = built.entry(output.clone()).or_insert_with(|| {
        let directory = build_directory();
        std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let path = directory.join(&output);
        // Another run of the checks may be using the old one: make a new file and move it into place.
        let fresh = directory.join(format!("{output}.{}", std::process::id()));
        let cpp = source.ends_with(".cpp");
        let mut command = if cpp { Command::new("c++") } else { Command::new("cc") };
        if cpp {
            // No new-delete pair is to be optimised away.
            command.args(["-std=c++17", "-fno-allocation-dce"]);
        }
        // -fno-builtin for the same reason: every malloc and free is meant.
        command.args(["-O1", "-g", "-w", "-fno-builtin", "-pthread"]).arg(c_sources().join(source)).args(extra);
        command.arg("-o").arg(&fresh);
        let compiled = command.output().map_err(|e| format!("{command:?}: {e}"))?;
        if !compiled.status.success() {
            return Err(format!("{command:?}:\n{}", String::from_utf8_lossy(&compiled.stderr)));
        }
        std::fs::rename(&fresh, &path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    });
    match result {
        Ok(path) => Ok(path.clone()),
        Err(why) if why.contains("No such file") && why.contains("c++\"") => skip("package g++ is missing"),
        Err(why) => fail(why.clone()),
    }
}

/// A program on the PATH, or the reason to skip, which names the Debian package.
pub fn installed(program: &str, package: &str) -> Check<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers live in sbin, which an ordinary user's PATH leaves out.
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from));
    for place in places {
        let candidate = place.join(program);
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    skip(format!("{program} is missing (package {package})"))
}

pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// A directory for one check, removed when the check is over. Its name is short because Unix sockets live in it.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Check<Scratch> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("keel-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
    pub fn join(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.join(name.as_ref())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `name=value` lines, in order.
pub fn lines_of(output: &str) -> Vec<(&str, &str)> {
    output.lines().filter_map(|line| line.split_once('=')).collect()
}
/// The figure of the last line `name=figure`.
pub fn figure(output: &str, name: &str) -> Check<i64> {
    let found = lines_of(output).into_iter().rev().find(|(n, _)| *n == name).and_then(|(_, v)| v.parse().ok());
    found.map_or_else(|| fail(format!("no figure {name} in:\n{output}")), Ok)
}

/// A text of at most so many lines, for messages: its beginning and its end.
pub fn head(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for (number, line) in all.iter().enumerate() {
        if all.len() <= lines || number < lines / 2 || number >= all.len() - lines / 2 {
            let _ = writeln!(out, "  {line}");
        } else if number == lines / 2 {
            let _ = writeln!(out, "  ... {} lines left out", all.len() - lines / 2 * 2);
        }
    }
    out
}
