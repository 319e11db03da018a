//! Where less is allowed than usual: limits on memory, few CPUs, sandboxes that refuse system calls, no restartable
//! sequences, valgrind, closed descriptors. The heap starts and works in each.

use std::path::Path;

use crate::harness::{
    Check, List, Mode, Program, Scratch, Stop, ensure, fail, figure, installed, is_root, library, lines_of, skip,
};

const WORK: [&str; 4] = ["threads=4", "ops=60000", "max=200000", "touch=1"];

pub fn add(list: &mut List) {
    // ulimit -v 524288, which counts address space, reserved or not.
    list.both("limits::address_space_512MiB", |mode| {
        let limited = |p: Program| p.under(mode).rlimit(libc::RLIMIT_AS, 512 << 20);
        limited(Program::c("workload.c")?.args(WORK)).succeed()?;
        limited(Program::c("limits.c")?.args(["least=100"])).succeed().map(drop)
    });
    list.both("limits::address_space_64MiB", |mode| {
        let program = Program::c("workload.c")?.args(["threads=2", "ops=50000", "max=20000", "null_ok=1"]);
        program.under(mode).rlimit(libc::RLIMIT_AS, 64 << 20).succeed().map(drop)
    });
    list.both("limits::data_256MiB", |mode| {
        let limited = |p: Program| p.under(mode).rlimit(libc::RLIMIT_DATA, 256 << 20);
        limited(Program::c("workload.c")?.args(WORK)).succeed()?;
        limited(Program::c("limits.c")?.args(["least=80"])).succeed().map(drop)
    });
    // Each size on its own, in a fresh process: the limit is met, reported, and everything goes on after.
    list.both("limits::data_workload_at_the_wall", |mode| {
        let program =
            Program::c("workload.c")?.args(["threads=8", "ops=60000", "max=3000000", "null_ok=1", "stack=256"]);
        program.under(mode).rlimit(libc::RLIMIT_DATA, 100 << 20).succeed().map(drop)
    });
    list.both("limits::one_cpu", |mode| {
        let cpus = allowed_cpus();
        Program::c("workload.c")?.args(WORK).under(mode).cpus(&cpus[..1]).succeed().map(drop)
    });
    list.both("limits::two_cpus", |mode| {
        let cpus = allowed_cpus();
        if cpus.len() < 2 {
            return skip("only one CPU is allowed here");
        }
        Program::c("workload.c")?.args(WORK).under(mode).cpus(&cpus[cpus.len() - 2..]).succeed().map(drop)
    });
    list.both("limits::changing_cpus", |mode| {
        let program = Program::c("workload.c")?.args(["threads=8", "ops=200000", "masks=1"]);
        program.under(mode).limit(120).succeed().map(drop)
    });
    list.both("limits::strict_overcommit", strict_overcommit);
    list.both("limits::tiny_address_space", |mode| {
        // Less than any program of today has, but glibc starts in it.
        Program::c("hello.c")?.under(mode).rlimit(libc::RLIMIT_AS, 8 << 20).succeed().map(drop)
    });
    list.both("limits::closed_descriptors", closed_descriptors);
    list.both("limits::surroundings", surroundings);
    list.once("limits::rseq_tunable_off", || {
        let program = Program::c("workload.c")?.args(WORK).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        in_mode(&program.under(Mode::Default), "cas")
    });
    list.once("limits::mode_by_itself", || {
        let expected = if restartable_sequences_usable() { "rseq" } else { "cas" };
        in_mode(&Program::c("workload.c")?.args(WORK).under(Mode::Default), expected)
    });
    list.once("limits::mode_forced", || in_mode(&Program::c("workload.c")?.args(WORK).under(Mode::Fallback), "cas"));
    list.once("limits::valgrind", || {
        let valgrind = installed("valgrind", "valgrind")?;
        let path = crate::harness::compile("workload.c", &[])?;
        // --tool=none leaves malloc alone, so the preloaded one runs, on a machine without restartable sequences.
        let program = Program::at(valgrind).args(["--tool=none", "-q", "--error-exitcode=9"]).args([path]);
        let program = program.args(["threads=3", "ops=4000", "touch=1"]).under(Mode::Default).limit(180);
        in_mode(&program, "cas")
    });
    for (name, error, calls) in [
        ("rseq_ENOSYS", "ENOSYS", "rseq"),
        ("rseq_EPERM", "EPERM", "rseq"),
        ("membarrier_ENOSYS", "ENOSYS", "membarrier"),
        ("membarrier_EPERM", "EPERM", "membarrier"),
        ("madvise_ENOSYS", "ENOSYS", "madvise"),
        ("madvise_EPERM", "EPERM", "madvise"),
        ("madvise_ENOMEM", "ENOMEM", "madvise"),
        ("mremap_ENOSYS", "ENOSYS", "mremap"),
        ("munmap_ENOMEM", "ENOMEM", "munmap"),
        ("asking_EPERM", "EPERM", "getcpu,getrandom,sched_getaffinity,sysinfo,prlimit64,prctl,sched_yield"),
        ("all_ENOSYS", "ENOSYS", "rseq,membarrier,madvise,mremap,getcpu,getrandom,sched_getaffinity,prlimit64"),
    ] {
        list.both(&format!("limits::seccomp::{name}"), move |mode| sandboxed(mode, error, calls, &WORK));
    }
    for error in ["EPERM", "ENOSYS", "ENOMEM"] {
        // No thread can be made: neither the program's own nor one of the heap's.
        list.both(&format!("limits::seccomp::clone_{error}"), move |mode| {
            sandboxed(mode, error, "clone,clone3", &["threads=0", "ops=400000", "max=200000"])
        });
    }
}

/// The workload, which must end well and say that the heap ran in the mode.
fn in_mode(program: &Program, mode: &str) -> Check {
    let done = program.succeed()?;
    ensure(done.out.replace(' ', "").contains(&format!("\"mode\":\"{mode}\"")), || done.tell(&format!("mode {mode}")))
}

fn allowed_cpus() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain data; the call fills it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Whether this kernel and this glibc offer what the first mode needs: the field mm_cid, and a registration.
fn restartable_sequences_usable() -> bool {
    const AT_RSEQ_FEATURE_SIZE: u64 = 27;
    // SAFETY: getauxval has no preconditions; the symbol, if it is there, is a constant unsigned int of glibc.
    unsafe {
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        libc::getauxval(AT_RSEQ_FEATURE_SIZE) >= 28 && !size.is_null() && *size != 0
    }
}

fn sandboxed(mode: Mode, error: &str, calls: &str, work: &[&str]) -> Check {
    let path = crate::harness::compile("workload.c", &[])?;
    let program = Program::c("sandbox.c")?.args([error, calls]).args([path]).args(work);
    let done = program.under(mode).without_preload().env("SANDBOX_PRELOAD", library()?).limit(120).run()?;
    if done.code == Some(77) {
        return skip("seccomp filters are not allowed here");
    }
    done.succeeded()?;
    ensure(done.out.ends_with("done\n"), || done.tell("the work done"))
}

/// vm.overcommit_memory=2, where every writable private page is charged and MAP_NORESERVE is ignored. The setting is
/// the whole machine's, so only on request.
fn strict_overcommit(mode: Mode) -> Check {
    const SETTING: &str = "/proc/sys/vm/overcommit_memory";
    if !is_root() || std::env::var_os("CHECKS_MACHINE").is_none() {
        return skip("changes vm.overcommit_memory for the whole machine: as root, CHECKS_MACHINE=1 allows it");
    }
    struct Restore(String);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = std::fs::write(SETTING, &self.0);
        }
    }
    // One mode at a time: the other must not put the setting back meanwhile.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let work = Program::c("workload.c")?.args(WORK).under(mode);
    let burst = Program::c("memory.c")?.args(["what=burst", "low=20000"]).under(mode);
    let restore = Restore(std::fs::read_to_string(SETTING)?);
    std::fs::write(SETTING, "2")?;
    let (worked, burst) = (work.succeed(), burst.succeed());
    drop(restore);
    worked?;
    let burst = burst?;
    ensure(figure(&burst.out, "rss")? <= 20_000, || burst.tell("memory that went back"))
}

fn surroundings_into(file: &Path, mode: Mode, closed: bool) -> Check<String> {
    let mut program = Program::c("surroundings.c")?.args([file]).under(mode);
    if closed {
        // A wrong option as well: its report has nowhere to go, least of all into the program's own file.
        program = program.close_standard().env("EVENKEEL_ABORT", "perhaps");
    }
    program.succeed()?;
    Ok(std::fs::read_to_string(file)?)
}

/// The heap takes no descriptor, no signal, no child, and leaves the process and its other mappings as they are.
fn surroundings(mode: Mode) -> Check {
    same_surroundings(mode, false)
}
/// The same with 0, 1 and 2 closed: the program's first files get these numbers, and nothing writes to them.
fn closed_descriptors(mode: Mode) -> Check {
    same_surroundings(mode, true)
}
fn same_surroundings(mode: Mode, closed: bool) -> Check {
    let scratch = Scratch::new("surroundings")?;
    let wanted = surroundings_into(&scratch.join("glibc"), Mode::Glibc, closed)?;
    let got = surroundings_into(&scratch.join("ours"), mode, closed)?;
    if !wanted.ends_with("end=1\n") {
        return Err(Stop::Fail(format!("the reference run ended early:\n{wanted}")));
    }
    let (wanted, got) = (lines_of(&wanted), lines_of(&got));
    let different: Vec<String> = wanted
        .iter()
        .zip(got.iter().chain(std::iter::repeat(&("", "(missing)"))))
        .filter(|(w, g)| w != g)
        .map(|(w, g)| format!("{}={} instead of {}={}", g.0, g.1, w.0, w.1))
        .collect();
    if different.is_empty() && got.len() == wanted.len() { Ok(()) } else { fail(different.join("\n")) }
}
