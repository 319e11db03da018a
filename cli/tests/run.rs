//! `evenkeel run`: a program on a heap, in the place of this one.

mod common;

use common::{Folder, libraries, skipped};
use std::fs;

#[test]
fn every_heap_is_in_the_memory_of_what_it_starts() {
    let folder = Folder::new("heaps");
    let libraries = libraries(&folder);
    if libraries.is_empty() {
        return skipped("every_heap_is_in_the_memory_of_what_it_starts", "no heap but glibc is on this machine");
    }
    for (name, path) in &libraries {
        let others = libraries.iter().filter(|(_, other)| other != path);
        for wish in [name, path] {
            let maps = folder.run(&["run", "--heap", wish, "--", "cat", "/proc/self/maps"]).fine().out;
            assert!(maps.lines().any(|l| l.ends_with(path)), "{path} is not in:\n{maps}");
            for (_, other) in others.clone() {
                assert!(!maps.contains(other.as_str()), "{other} is in:\n{maps}");
            }
        }
    }
}

#[test]
fn glibc_is_glibc_alone() {
    let folder = Folder::new("glibc");
    let preloaded = libraries(&folder).into_iter().next().map(|(_, path)| path);
    let mut command =
        folder.evenkeel(&["run", "--heap", "glibc", "--", "sh", "-c", "echo \"<$LD_PRELOAD>\"; cat /proc/self/maps"]);
    // A library that every machine has will do: what matters is that the variable goes.
    command.env("LD_PRELOAD", preloaded.as_deref().unwrap_or("libm.so.6"));
    let said = common::Said::of(command).fine().out;
    let (variable, maps) = said.split_once('\n').unwrap();
    assert_eq!(variable, "<>");
    assert!(preloaded.is_none_or(|path| !maps.contains(&path)), "{maps}");
}

#[test]
fn the_program_is_what_it_would_be_without() {
    let folder = Folder::new("program");
    // Its exit code, arguments with dashes, its folder and its pid are its own.
    let said = folder.run(&["run", "--heap", "glibc", "--", "sh", "-c", "echo $1; pwd; exit 7", "sh", "--heap"]);
    let there = folder.0.display();
    assert_eq!((said.code, said.out), (Some(7), format!("--heap\n{there}\n")));
    let running = folder.start(&["run", "--heap", "glibc", "--", "sh", "-c", "echo $$"]);
    let pid = running.pid();
    assert_eq!(running.end().fine().out, format!("{pid}\n"));
}

#[test]
fn a_program_that_cannot_start() {
    let folder = Folder::new("cannot");
    folder
        .run(&["run", "--heap", "glibc", "--", "no-such-program"])
        .refused(3, &["cannot start no-such-program: No such file"]);
    folder.write("text", "no program");
    folder.run(&["run", "--heap", "glibc", "--", "./text"]).refused(3, &["cannot start ./text: Permission denied"]);
    let library = fs::read("/proc/self/exe").map(|_| "/proc/self/exe").unwrap();
    folder.run(&["run", "--heap", library, "--", "true"]).refused(2, &["is no heap: it exports no malloc"]);
}
