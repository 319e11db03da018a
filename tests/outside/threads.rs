//! Threads, fork, vfork, signals, the end of a process, libraries that come and go: in both modes.

use crate::harness::{Check, List, Mode, Program, Stop, compile, ensure, library, soak};

pub fn add(list: &mut List) {
    list.both("threads::workload", |mode| workload(mode, &["threads=8", "ops=150000", "max=400000"]));
    list.both("threads::workload_large_blocks", |mode| {
        workload(mode, &["threads=4", "ops=10000", "max=20000000", "slots=60"])
    });
    list.both("threads::workload_many_threads", |mode| workload(mode, &["threads=200", "ops=4000", "slots=100"]));
    // 16 KiB is the least a thread may have; the loader's own needs come out of it too.
    list.both("threads::small_stacks", |mode| workload(mode, &["threads=8", "ops=50000", "stack=16"]));
    list.both("threads::fork", |mode| forks(mode, if soak() { 3000 } else { 300 }, 0));
    list.both("threads::fork_and_go_on_in_the_child", |mode| forks(mode, if soak() { 500 } else { 60 }, 1));
    list.both("threads::fork_without_threads", |mode| {
        Program::c("forks.c")?.args(["forks=300", "threads=0"]).under(mode).limit(150).succeed().map(drop)
    });
    for (what, rounds) in [("work", "rounds=200"), ("exec", "rounds=200"), ("spawn", "rounds=200")] {
        list.both(&format!("threads::vfork_{what}"), move |mode| {
            let rounds = if soak() { "rounds=3000" } else { rounds };
            let program = Program::c("vforks.c")?.args([format!("what={what}").as_str(), rounds]);
            program.under(mode).limit(120).succeed().map(drop)
        });
    }
    for (name, large) in [("signals", "large=0"), ("signals_over_large_blocks", "large=1")] {
        list.both(&format!("threads::{name}"), move |mode| {
            let seconds = if soak() { "seconds=60" } else { "seconds=4" };
            Program::c("signals.c")?.args([seconds, large]).under(mode).limit(100).succeed().map(drop)
        });
    }
    // What a helper thread of the heap must not change.
    for what in ["last_thread", "last_thread_forked", "setuid", "cancel", "kill"] {
        list.both(&format!("threads::helper::{what}"), move |mode| {
            let program = || Ok::<_, Stop>(Program::c("helper.c")?.args([format!("what={what}")]).limit(45));
            let wanted = program()?.succeed()?;
            let done = program()?.under(mode).succeed()?;
            ensure(done.out == wanted.out, || done.tell(&format!("the output under glibc:\n{}", wanted.out)))
        });
    }
    list.both("threads::exit", |mode| exits(mode, &[]));
    list.both("threads::quick_exit", |mode| exits(mode, &["quick"]));
    list.both("threads::plugins", |mode| {
        let plugin = compile("plugin.c", &["-shared", "-fPIC"])?;
        let plugin = plugin.as_os_str().to_owned();
        Program::c("plugins.c")?.args([plugin, "1000".into()]).under(mode).succeed().map(drop)
    });
    // The library opened by hand: a second time below a preloaded one, and on its own in a glibc program.
    list.both("threads::dlopen_itself_preloaded", |mode| {
        let itself = library()?.as_os_str().to_owned();
        Program::c("plugins.c")?.args(["self".into(), itself]).under(mode).succeed().map(drop)
    });
    list.both("threads::dlopen_itself_alone", |mode| {
        let itself = library()?.as_os_str().to_owned();
        let program = Program::c("plugins.c")?.args(["self".into(), itself]);
        program.under(mode).without_preload().succeed().map(drop)
    });
}

fn workload(mode: Mode, args: &[&str]) -> Check {
    Program::c("workload.c")?.args(args).under(mode).limit(120).succeed().map(drop)
}

fn forks(mode: Mode, count: u32, inside: u32) -> Check {
    let args = [format!("forks={count}"), format!("inside={inside}")];
    Program::c("forks.c")?.args(args).under(mode).limit(90 + u64::from(count)).succeed().map(drop)
}

/// The handlers must run, and in the order in which they run under glibc.
fn exits(mode: Mode, args: &[&str]) -> Check {
    for _ in 0..5 {
        let program = || Ok::<_, Stop>(Program::at(compile("exits.cpp", &[])?).args(args));
        let wanted = program()?.succeed()?;
        let done = program()?.under(mode).succeed()?;
        ensure(done.out == wanted.out, || done.tell(&format!("the order of glibc:\n{}", wanted.out)))?;
    }
    Ok(())
}
