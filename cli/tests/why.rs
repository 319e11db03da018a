//! `evenkeel why`: real profiles of the embedded target, and stacks and tables from elsewhere. What a profile says of a machine's speed is
//! never asked.

mod common;

use common::{Folder, embedded, published, short};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// perf, and the right to use it; else a reason.
fn no_perf() -> Option<String> {
    let record =
        Command::new("perf").args(["record", "-q", "-a", "-e", "cpu-clock", "-o", "/dev/null", "--", "true"]).output();
    match record {
        Err(_) => Some("perf is not installed".into()),
        Ok(out) if !out.status.success() => Some("perf may not look at the whole machine".into()),
        Ok(_) => None,
    }
}

/// The bad heap on purpose, built beside the command.
fn control() -> PathBuf {
    let path = PathBuf::from(common::EVENKEEL).with_file_name("libevenkeel_control.so");
    assert!(path.is_file(), "{} is missing; build it: cargo build -p control", path.display());
    path
}

fn experiment(profile: &str) -> String {
    let named = format!("[heaps.control]\nheap = \"{}\"\n{profile}[plan]", control().display());
    short(&[
        ("heap = [\"glibc\"]", "heap = [\"glibc\", \"control\"]"),
        ("clients = [1, 4]", "clients = [4]"),
        ("[target.embedded]", "[target.embedded]\nmix = \"point=1,range=4\""),
        ("seconds = 0.1", "seconds = 0.5"),
        ("rounds = 2", "rounds = 3"),
        ("[plan]", &named),
    ])
}

#[test]
fn a_sweep_is_profiled_in_rounds_of_its_own_and_judged() {
    embedded();
    if let Some(why) = no_perf() {
        println!("skipped: a_sweep_is_profiled_in_rounds_of_its_own_and_judged: {why}");
        return;
    }
    let folder = Folder::new("why");
    folder.write("x.toml", &experiment(""));
    folder.run(&["sweep", "x.toml", "--out", "out"]).fine();
    let measured = fs::read(folder.path("out/records.jsonl")).unwrap();
    let plan = folder.run(&["why", "out", "--dry-run", "--rounds", "2", "--seconds", "0.3"]).fine();
    assert!(plan.out.contains(" profiled trials, about "), "{}", plan.out);
    assert!(!folder.path("out/profiles.jsonl").exists());

    let said = folder.run(&["why", "out", "--rounds", "2", "--seconds", "0.3"]).fine();
    assert!(said.out.contains("CPU a transaction, by cause"), "{}", said.out);
    assert_eq!(fs::read(folder.path("out/records.jsonl")).unwrap(), measured, "measured rounds are left alone");
    folder.run(&["verify", "out"]).fine();
    // The bad heap's own frames are seen, and what it does to the kernel.
    let profiles = fs::read_to_string(folder.path("out/profiles.jsonl")).unwrap();
    let records: Vec<serde_json::Value> = profiles.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(records.iter().all(|r| r["outcome"]["is"] == "valid"), "{profiles}");
    let mut of_control = String::new();
    for record in &records {
        for stacks in record["profile"]["stacks"].as_array().unwrap() {
            let text = fs::read_to_string(folder.path("out").join(stacks["file"].as_str().unwrap())).unwrap();
            if stacks["kind"] == "cpu" {
                let sum: u64 = text.lines().map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
                assert_eq!(sum, stacks["samples"].as_u64().unwrap(), "every sample is in the file");
                if record["cell"]["heap"] == "control" {
                    of_control += &text;
                }
            }
        }
    }
    assert!(of_control.contains("libevenkeel_control.so!"), "{of_control}");
    let page = fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(page.contains("id=\"why-0\"") && page.contains("<svg class=\"flame\"") || page.contains("class=\"flame\""));

    // A second time nothing runs.
    let again = folder.run(&["why", "out"]).fine();
    assert!(!again.err.contains("profiled trials"), "{}", again.err);
    assert_eq!(fs::read_to_string(folder.path("out/profiles.jsonl")).unwrap(), profiles);
    // The report holds it too, and a narrow terminal breaks nothing.
    let narrow = folder.evenkeel(&["why", "out"]).env("COLUMNS", "48").output().unwrap();
    let text = String::from_utf8(narrow.stdout).unwrap();
    assert!(text.lines().filter(|l| !l.starts_with("Report: ")).all(|l| l.chars().count() <= 48), "{text}");
    folder.assert_clean();
}

#[test]
fn an_experiment_may_ask_for_profiles() {
    embedded();
    if let Some(why) = no_perf() {
        println!("skipped: an_experiment_may_ask_for_profiles: {why}");
        return;
    }
    let folder = Folder::new("why-asked");
    folder.write("x.toml", &experiment("[profile]\nrounds = 1\nseconds = 0.2\nvariants = [\"glibc\"]\n"));
    let said = folder.run(&["sweep", "x.toml", "--out", "out"]).fine();
    assert!(said.err.contains("1 profiled trial, about "), "{}", said.err);
    let lines = fs::read_to_string(folder.path("out/profiles.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 1);
    folder.run(&["verify", "out"]).fine();

    for (profile, says) in [
        ("[profile]\nrounds = 0\n", "profile.rounds is 0"),
        ("[profile]\nseconds = 0.01\n", "profile.seconds is 0.01"),
        ("[profile]\nclients = [5]\n", "5 is not among factors.clients"),
        ("[profile]\nheaps = [\"glibc\"]\n", "unknown field"),
    ] {
        folder.write("bad.toml", &experiment(profile));
        folder.run(&["sweep", "bad.toml", "--dry-run"]).refused(2, &[says, "bad.toml:"]);
    }
}

#[test]
fn stacks_and_tables_from_elsewhere() {
    let folder = Folder::new("why-files");
    folder.write("a.folded", "srv!main;srv!work 60\nsrv!main;libc.so.6!malloc 40\n");
    folder.write("b.folded", "# ETW\nsrv!main;srv!work 80\nsrv!main;libc.so.6!malloc 20\n");
    let one = folder.run(&["why", "a.folded"]).fine();
    assert!(one.out.contains("heap: allocation") && one.out.contains("40.0 %"), "{}", one.out);
    let two = folder.run(&["why", "a.folded", "b.folded", "--svg", "b.svg"]).fine();
    assert!(two.out.contains("-20.0 ±"), "{}", two.out);
    let svg = fs::read_to_string(folder.path("b.svg")).unwrap();
    assert!(svg.starts_with("<?xml") && svg.contains("<title>libc.so.6!malloc"), "{svg}");
    let table = folder.run(&["why", &published("segment-heap-stacks.csv")]).fine();
    assert!(table.out.contains("51.5 % of nt-heap, 51.3 % of small-blocks, 2.4 % of segment-heap"), "{}", table.out);
    assert!(table.out.contains("not seen"), "{}", table.out);
    let table = folder.run(&["why", &published("mdev-16168-profile.csv")]).fine();
    assert!(table.out.contains("TTASEventMutex<GenericPolicy>::enter → "), "{}", table.out);

    folder.write("bad.folded", "a;b 1\na;b\n");
    folder.write("bad.csv", "name,a_pct\n");
    for (words, says) in [
        (&["why", "bad.folded"][..], "bad.folded:2: no weight"),
        (&["why", "bad.csv"], "no column is called frame"),
        (&["why", "none.folded"], "none.folded: No such file"),
        (&["why", "a.folded", "a.folded", "a.folded", "a.folded"], "more than three"),
        (&["why", "a.folded", "--seconds", "0"], "--seconds 0: say 0.2"),
        (&["why", "tmp"], "is no folder of a sweep"),
    ] {
        folder.run(words).refused(2, &[says]);
    }
}
