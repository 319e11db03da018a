//! `evenkeel sweep` and `evenkeel report`: real sweeps on the embedded target, of few rows and tiny windows. How fast anything was is
//! never asked.

mod common;

use common::{EVENKEEL, Folder, Said, embedded, published, short};
use nix::pty::{OpenptyResult, Winsize, openpty};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;

#[test]
fn a_dry_run_prints_the_plan_and_runs_nothing() {
    embedded();
    let folder = Folder::new("dry");
    folder.write("x.toml", &short(&[]));
    let plan = |more: &[&str]| folder.run(&[&["sweep", "x.toml", "--dry-run"], more].concat()).fine().out;
    let text = plan(&[]);
    for line in ["short", "heaps", "programs", "trials, in order (seed 1)"] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    assert!(text.contains("evenkeel-embedded\n") && text.contains("8 trials in 4 lives of a server, about "), "{text}");
    let lives: Vec<&str> = text.lines().filter(|l| l.starts_with("  round ")).collect();
    assert_eq!(lives.len(), 4);
    // Client counts go up in odd rounds, down in even ones.
    for life in lives {
        assert!(life.ends_with(if life.starts_with("  round 1") { "clients 1 4" } else { "clients 4 1" }), "{life}");
    }
    assert_eq!(plan(&[]), text);
    let orders: Vec<String> = (1..=8).map(|seed| plan(&["--rounds", "6", "--seed", &seed.to_string()])).collect();
    assert!(orders.iter().any(|o| o.split_once(')').map(|x| x.1) != orders[0].split_once(')').map(|x| x.1)));
    assert!(plan(&["--clients", "2,3,5", "--rounds", "1"]).contains("6 trials in 2 lives"));
    let scaled = plan(&["--scale", "0.5"]);
    assert!(scaled.contains("Scaled by 0.5 for this machine"), "{scaled}");
    let left: Vec<String> =
        fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(left.len(), 2, "the experiment and the TMPDIR: {left:?}");
    folder.assert_clean();
}

#[test]
fn a_sweep_from_start_to_report() {
    embedded();
    let folder = Folder::new("sweep");
    let arenas = "[heaps.one-arena]\nheap = \"glibc\"\nenv = { GLIBC_TUNABLES = \"glibc.malloc.arena_max=1\" }\n[plan]";
    folder.write("x.toml", &short(&[("heap = [\"glibc\"]", "heap = [\"glibc\", \"one-arena\"]"), ("[plan]", arenas)]));
    let said = folder.run(&["sweep", "x.toml"]).fine();
    for word in ["How far measurements scatter here is not known yet.", "\n12 trials, about ", "\nround 2/2: "] {
        assert!(said.err.contains(word), "{}", said.err);
    }
    // Results lie in a folder named after the experiment and the moment.
    let results: Vec<_> = fs::read_dir(folder.path("results")).unwrap().flatten().collect();
    assert_eq!(results.len(), 1);
    let name = results[0].file_name().into_string().unwrap();
    let digits = name.strip_prefix("x-").unwrap();
    assert!(digits.len() == 15 && digits.bytes().all(|b| b.is_ascii_digit() || b == b'-'), "{name}");
    let sweep = format!("results/{name}");
    assert!(said.out.ends_with(&format!("Report: {sweep}/report.html\n")), "{}", said.out);
    folder.assert_clean();

    let records = folder.assert_whole(&sweep);
    for record in &records {
        assert_eq!(record["outcome"]["is"], "valid", "{record}");
        let proofs = record["proofs"].as_array().unwrap();
        assert!(proofs.len() >= 5 && proofs.iter().all(|p| p["holds"] == true), "{proofs:?}");
        let figures = &record["figures"];
        for figure in ["tps", "latency_p99_ms", "rss_loaded", "rss_peak", "rss_idle", "server_cpu_s", "watcher_cpu_s"] {
            assert!(figures[figure].as_f64().is_some_and(|v| v > 0.0), "{figure} in {figures}");
        }
        let raw = record["raw"][0].as_str().unwrap();
        assert!(folder.path(&sweep).join(raw).is_file(), "{raw}");
    }
    // The next one knows this machine.
    let again = folder.run(&["sweep", "x.toml", "--dry-run"]).fine();
    assert!(again.out.contains(&format!("By {sweep} on this machine: 2 rounds")), "{}", again.out);
    let environment = fs::read_to_string(folder.path(&sweep).join("environment.json")).unwrap();
    let environment: Value = serde_json::from_str(&environment).unwrap();
    assert_eq!(environment["programs"][0]["sha256"].as_str().unwrap().len(), 64);

    reports(&folder, &sweep, &said.out);
}

/// Every form of the report, from the folder alone, wherever it lies.
fn reports(folder: &Folder, sweep: &str, table: &str) {
    fs::rename(folder.path(sweep), folder.path("moved")).unwrap();
    fs::remove_file(folder.path("x.toml")).unwrap();
    let page = fs::read_to_string(folder.path("moved/report.html")).unwrap();
    let form = |form: &str| folder.run(&["report", "moved", "--format", form]).fine().out;
    let sentence = table.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");

    let html = form("html");
    assert!(html.starts_with("<!doctype html>") && html.contains("<svg") && page.len() > 1000);
    for reference in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!html.contains(reference), "the page stands alone: {reference}");
    }
    let markdown = form("markdown");
    assert!(markdown.starts_with("# ") && markdown.contains("| clients |"), "{markdown}");
    assert_eq!(words(&form("terminal")), words(table.split("Report: ").next().unwrap()));
    let json: Value = serde_json::from_str(&form("json")).unwrap();
    assert_eq!(words(json["sentence"].as_str().or(json["analysis"]["sentence"].as_str()).unwrap()), sentence);
    let csv = form("csv");
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(columns > 3 && csv.lines().count() > 12, "{csv}");
    assert!(form("svg").starts_with("<svg"));
    assert_eq!(form("csv"), csv, "a report is a function of the records");

    folder.run(&["report", "moved", "--format", "markdown", "--out", "verdict.md"]).fine();
    assert_eq!(fs::read_to_string(folder.path("verdict.md")).unwrap(), markdown);
    folder.assert_whole("moved");
}

#[test]
fn quiet_is_quiet() {
    embedded();
    let folder = Folder::new("quiet");
    folder.write("x.toml", &short(&[("rounds = 2", "rounds = 1"), ("twin = true", "twin = false")]));
    let said = folder.run(&["sweep", "x.toml", "--quiet", "--out", "out"]).fine();
    assert_eq!(said.err, "");
    assert!(said.out.contains("transactions/s"), "{}", said.out);
    folder.assert_whole("out");
}

#[test]
fn a_resumed_sweep_refuses_other_programs() {
    embedded();
    let folder = Folder::new("changed");
    fs::create_dir_all(folder.path("bin")).unwrap();
    let own = folder.path("bin/evenkeel");
    fs::hard_link(EVENKEEL, &own).or_else(|_| fs::copy(EVENKEEL, &own).map(drop)).unwrap();
    let server = folder.path("bin/evenkeel-embedded");
    fs::copy(embedded(), &server).unwrap();
    folder.write("x.toml", &short(&[("rounds = 2", "rounds = 1"), ("clients = [1, 4]", "clients = [1]")]));
    let run = |words: &[&str]| Said::of(folder.program(&own, words));
    run(&["sweep", "x.toml", "--out", "out"]).fine();
    let before = common::records(&folder.path("out"));
    // A sweep that has ended can be resumed: nothing is left to run.
    run(&["sweep", "--resume", "out"]).fine();
    assert_eq!(common::records(&folder.path("out")), before);
    // The same program but for one byte after its end.
    File::options().append(true).open(&server).unwrap().write_all(b"x").unwrap();
    let words = ["out: the machine is not what it was", "bin/evenkeel-embedded", "begin a new one"];
    run(&["sweep", "--resume", "out"]).refused(2, &words);
    assert_eq!(common::records(&folder.path("out")), before);
    run(&["verify", "out"]).fine();
}

#[test]
fn scripts_can_fail_on_a_verdict() {
    let folder = Folder::new("fail-on");
    for (table, worse, cliff, invalid) in
        [("mdev-16168-tps.csv", 1, 0, 0), ("segment-heap-sysbench.csv", 1, 1, 0), ("percona-cores.csv", 0, 0, 0)]
    {
        let out = format!("{table}.d");
        folder.run(&["import", &published(table), "--out", &out]).fine();
        for (on, code) in [("worse", worse), ("cliff", cliff), ("invalid", invalid), ("cliff,worse", worse.max(cliff))]
        {
            let said = folder.run(&["report", &out, "--fail-on", on]);
            assert_eq!(said.code, Some(code), "{table}, {on}: {}", said.out);
            assert!(said.out.contains("Report: "), "a verdict is said all the same");
        }
    }
}

/// Starts the command on a terminal of so many columns and reads what it shows there.
fn on_terminal(folder: &Folder, words: &[&str], columns: u16, set: &[(&str, &str)]) -> String {
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
    let mut command = folder.evenkeel(words);
    command.envs(set.iter().copied()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    // The last holders of the slave must be the child's own.
    drop(command);
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        // A terminal whose other side is gone reads as an error.
        let _ = File::from(master).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    assert!(child.wait().unwrap().success());
    reader.join().unwrap()
}

fn widest(text: &str) -> usize {
    text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
}

#[test]
fn the_table_fits_the_terminal_and_keeps_to_its_colours() {
    let folder = Folder::new("terminal");
    folder.run(&["import", &published("mdev-16168-tps.csv"), "--out", "sweep"]).fine();
    let words = ["report", "sweep", "--format", "terminal"];
    let columns = |n: &str| {
        let mut command = folder.evenkeel(&words);
        command.env("COLUMNS", n);
        Said::of(command).fine().out
    };
    for n in [50, 72, 100, 160] {
        let text = columns(&n.to_string());
        assert!(widest(&text) <= n, "{} in {n} columns:\n{text}", widest(&text));
    }
    assert!(columns("60").lines().count() > columns("160").lines().count());
    assert_eq!(columns("none"), columns("100"), "without a word that can be read it is 100");
    assert_eq!(folder.run(&words).fine().out, columns("100"));

    let plain = on_terminal(&folder, &words, 72, &[("NO_COLOR", "1")]);
    assert!(!plain.contains('\u{1b}') && widest(&plain) <= 72, "{plain}");
    assert_eq!(plain.replace("\r\n", "\n"), columns("72"));
    let coloured = on_terminal(&folder, &words, 72, &[]);
    assert!(coloured.contains("\u{1b}["), "{coloured}");
    assert!(on_terminal(&folder, &words, 72, &[("NO_COLOR", "")]).contains("\u{1b}["), "an empty NO_COLOR is none");
    assert!(widest(&on_terminal(&folder, &words, 72, &[("NO_COLOR", "1"), ("COLUMNS", "50")])) <= 50);
}

#[test]
fn a_terminal_sees_the_progress() {
    embedded();
    let folder = Folder::new("progress");
    folder.write("x.toml", &short(&[("rounds = 2", "rounds = 1"), ("seconds = 0.1", "seconds = 0.6")]));
    let words = ["sweep", "x.toml", "--out", "out"];
    let shown = on_terminal(&folder, &words, 90, &[("NO_COLOR", "1"), ("TERM", "xterm")]);
    for word in ["/4", "round 1/1: ", "glibc, oltp", "left", "Report: out/report.html"] {
        assert!(shown.contains(word), "{word:?} is not in {shown:?}");
    }
    assert!(!shown.contains("failed"), "{shown:?}");
    // Nobody reads any more: the sweep ends all the same.
    let mut child = folder
        .evenkeel(&["sweep", "x.toml", "--out", "unread"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    folder.assert_whole("unread");
}
