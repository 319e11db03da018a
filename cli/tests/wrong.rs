//! Wrong use: exit code 2, and words that say where, what, and what to do. Nothing is written and nothing runs.

mod common;

use common::{EVENKEEL, Folder, Said, embedded, short};
use std::fs;

#[test]
fn an_experiment_is_wrong_on_a_line() {
    embedded();
    let folder = Folder::new("lines");
    for (from, to, words) in [
        ("rows = 1000", "rwos = 1000", &["x.toml:3: ", "unknown field `rwos`", "`rows`", "mend the spelling"][..]),
        ("[target.embedded]", "[target.postgres]", &["x.toml:2: ", "unknown variant `postgres`", "mariadb"]),
        ("seconds = 0.1\n", "", &["x.toml:4: ", "missing field `seconds`", "add it"]),
        ("\"oltp\"", "\"oltp_read_only\"", &["x.toml:5: ", "unknown test \"oltp_read_only\"", "knows oltp"]),
        ("clients = [1, 4]", "clients = [1, 0]", &["x.toml:12: ", "0 clients", "say 1 to 65536"]),
        ("clients = [1, 4]", "clients = [1, 1]", &["x.toml:12: ", "1 stands here twice", "plan.rounds"]),
        ("clients = [1, 4]", "clients = [1, -4]", &["x.toml:12: ", "-4"]),
        ("rounds = 2", "rounds = 0", &["plan.rounds is 0", "say 1 to 1000"]),
        ("\"short\"", "\"short", &["x.toml:1: "]),
        ("\"glibc\"", "\"nosuchheap\"", &["heap \"nosuchheap\" is not on this machine", "here: glibc", "path"]),
        ("\"glibc\"", "\"/no/such.so\"", &["/no/such.so", "No such file"]),
        ("\"glibc\"", "\"/etc/passwd\"", &["/etc/passwd is no ELF library"]),
        ("twin = true", "baseline = \"jemaloc\"", &["plan.baseline \"jemaloc\"", "glibc"]),
        ("[plan]", "[placement]\nserver = \"0-x\"\n[plan]", &["\"0-x\" is no list of CPUs", "0-3,8"]),
        ("clients = [1, 4]", "clients = [1]\ncpus = [\"zero\"]", &["x.toml:13: ", "\"zero\" is no list of CPUs"]),
        ("clients = [1, 4]", "clients = [1]\nengine = [\"InnoDB\"]", &["x.toml:13: ", "embedded target"]),
    ] {
        folder.write("x.toml", &short(&[(from, to)]));
        folder.run(&["sweep", "x.toml", "--out", "out"]).refused(2, words);
        assert!(!folder.path("out").exists(), "{to}: a folder was made");
    }
    folder.assert_clean();
}

#[test]
fn options_of_a_sweep() {
    embedded();
    let folder = Folder::new("options");
    folder.write("x.toml", &short(&[]));
    for (words, said) in [
        (&["--clients", "0"][..], &["--clients 0", "say 1 to 65536"][..]),
        (&["--clients", "1,8,1"], &["--clients names 1 twice"]),
        (&["--clients", "1,many"], &["'many'", "--clients"]),
        (&["--clients", "-1"], &["-1"]),
        (&["--clients", "70000"], &["--clients 70000"]),
        (&["--heap", "nosuchheap"], &["\"nosuchheap\" is not on this machine"]),
        (&["--rounds", "0"], &["--rounds 0", "say 1 to 1000"]),
        (&["--scale", "0"], &["--scale 0", "say 0.001 to 1000"]),
        (&["--fail-on", "rain"], &["'rain'", "worse, cliff, invalid"]),
        (&["--resume", "out"], &["cannot be used with"]),
        (&["--no-such"], &["--no-such"]),
    ] {
        let all = [&["sweep", "x.toml", "--out", "out"], words].concat();
        folder.run(&all).refused(2, said);
        assert!(!folder.path("out").exists(), "{words:?}: a folder was made");
    }
}

#[test]
fn files_and_folders_that_are_not_there_or_not_ours() {
    let folder = Folder::new("files");
    fs::create_dir(folder.path("empty")).unwrap();
    folder.write("text", "hello\n");
    folder.write("torn.csv", "clients,heap\n1\n");
    for (words, said) in [
        (&["sweep"][..], &["<FILE>"][..]),
        (&["sweep", "none.toml"], &["none.toml: No such file", "experiments/try.toml"]),
        (&["sweep", "empty"], &["empty: Is a directory", "name an experiment's TOML file"]),
        (&["sweep", "--resume", "none"], &["none: No such file"]),
        (&["sweep", "--resume", "empty"], &["empty is no folder of a sweep", "plan.json"]),
        (&["report", "none"], &["none: No such file"]),
        (&["report", "empty"], &["empty is no folder of a sweep"]),
        (&["report", "text"], &["text is a file"]),
        (&["report", "empty", "--format", "pdf"], &["'pdf'", "html, terminal, markdown, csv, json, svg"]),
        (&["verify", "none"], &["none: No such file"]),
        (&["verify", "empty"], &["empty is no folder of a sweep"]),
        (&["verify", "text"], &["text is a file"]),
        (&["import"], &["[NAME=]FILE"]),
        (&["import", "none.csv"], &["none.csv: No such file"]),
        (&["import", "text"], &["text:1:1: ", "expected one of clients"]),
        (&["import", "torn.csv"], &["torn.csv:"]),
        (&["run"], &["<CMD>"]),
        (&["run", "--heap", "nosuchheap", "--", "true"], &["\"nosuchheap\" is not on this machine"]),
        (&["doctor"], &["PID|SERVICE"]),
        (&["completions", "cmd.exe"], &["'cmd.exe'", "bash"]),
        (&["swep"], &["'swep'", "'sweep'"]),
    ] {
        folder.run(words).refused(2, said);
    }
    folder.assert_clean();
}

/// A folder that holds something else is never written into; one that holds a sweep says how to go on with it.
#[test]
fn results_go_into_a_new_folder() {
    embedded();
    let folder = Folder::new("new");
    folder.write("x.toml", &short(&[]));
    fs::create_dir(folder.path("mine")).unwrap();
    folder.write("mine/letter.txt", "dear");
    folder.run(&["sweep", "x.toml", "--out", "mine"]).refused(2, &["mine is not empty", "another folder"]);
    folder.run(&["import", &common::published("mdev-16168-tps.csv"), "--out", "mine"]).refused(2, &["not empty"]);
    assert_eq!(fs::read_dir(folder.path("mine")).unwrap().count(), 1);
    folder.run(&["import", &common::published("mdev-16168-tps.csv"), "--out", "sweep"]).fine();
    let on = "evenkeel sweep --resume sweep";
    folder.run(&["sweep", "x.toml", "--out", "sweep"]).refused(2, &["sweep holds a sweep", on]);
    folder.run(&["sweep", "sweep"]).refused(2, &[on]);
}

#[test]
fn a_missing_program_says_how_to_get_it() {
    let folder = Folder::new("alone");
    folder.write("x.toml", &short(&[]));
    fs::create_dir_all(folder.path("bin/bin")).unwrap();
    let alone = folder.path("bin/bin/evenkeel");
    fs::hard_link(EVENKEEL, &alone).or_else(|_| fs::copy(EVENKEEL, &alone).map(drop)).unwrap();
    for words in [&["sweep", "x.toml"][..], &["sweep", "x.toml", "--dry-run"]] {
        Said::of(folder.program(&alone, words))
            .refused(2, &["evenkeel-embedded is not beside", "cargo build --release -p evenkeel-embedded"]);
    }
    Said::of(folder.program(&alone, &["selftest"])).refused(2, &["libevenkeel_control.so", "cargo build"]);
}

#[test]
fn a_baseline_or_margin_that_means_nothing_is_refused() {
    let folder = Folder::new("baseline");
    let table = common::published("mdev-16168-tps.csv");
    folder.run(&["import", &table, "--baseline", "11.4"]).refused(2, &["--baseline \"11.4\"", "10.2.14", "10.3.7"]);
    folder.run(&["import", &table, "--margin", "5"]).refused(2, &["--margin 5", "0.05 means 5 %"]);
    folder.assert_clean();
}
