//! The command target against a real server: redis under redis-benchmark. Debian's redis takes its heap from libjemalloc, so under
//! "glibc" the proof must fail.

use lab::experiment::Experiment;
use lab::heaps::{self, Heap};
use lab::record::{Cell, Proof};
use lab::target::{self, Ask, Setting, Target};
use std::fs;
use std::path::Path;
use std::time::Duration;

const REDIS: &str = r#"
title = "redis"
[target.command]
start = ["redis-server", "--port", "{port}", "--bind", "127.0.0.1", "--dir", "{dir}", "--save", ""]
ready = ["redis-cli", "-p", "{port}", "ping"]
load = ["redis-benchmark", "-p", "{port}", "-c", "{clients}", "-n", "40000", "-t", "{test}", "-q"]
rate = 'SET: ([0-9.]+) requests per second'
[load]
tests = ["set"]
warmup = 0
seconds = 1
[factors]
heap = ["glibc"]
clients = [8]
"#;

fn setting<'a>(cell: &'a Cell, heap: &'a Heap, dir: &'a Path) -> Setting<'a> {
    Setting { cell, heap, cpus: None, client_cpus: None, dir, store: dir, most_clients: 8, seed: 1 }
}

fn target(text: &str) -> Box<dyn Target> {
    target::of(&Experiment::read("redis.toml", text).unwrap()).unwrap()
}

#[test]
fn redis_lives_is_measured_and_its_heap_is_seen() {
    if !Path::new("/usr/bin/redis-server").exists() || !Path::new("/usr/bin/redis-benchmark").exists() {
        println!("skipped: redis_lives_is_measured_and_its_heap_is_seen: apt-get install redis-server redis-tools");
        return;
    }
    let dir = std::env::temp_dir().join(format!("evenkeel-command-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let cell = Cell { test: "set".into(), heap: "glibc".into(), clients: 8, ..Cell::default() };
    let glibc = heaps::glibc();
    let setting = setting(&cell, &glibc, &dir);
    let target = target(REDIS);
    let programs = target.programs(&cell).unwrap();
    assert_eq!(programs.iter().map(|p| p.what.as_str()).collect::<Vec<_>>(), ["server", "load"]);
    let bound = target.bindings(&setting).unwrap();
    assert!(!bound[0].holds && bound[0].found.contains("libjemalloc"), "{bound:?}");

    let mut server = target.start(&setting).unwrap();
    let pid = server.pid();
    assert!(server.settle(Duration::from_secs(10)).unwrap());
    assert!(server.proofs().unwrap().iter().all(|p| p.holds));
    let raw = dir.join("raw");
    let ask =
        Ask { clients: 8, warmup: Duration::ZERO, window: Duration::from_secs(1), seed: 1, raw: &raw, opened: &|| {} };
    let measured = server.measure(&ask).unwrap();
    let figures = &measured.figures;
    assert!(figures.tps.unwrap() > 100.0 && figures.client_cpu_s.unwrap() > 0.0, "{figures:?}");
    assert!(figures.server_cpu_s.unwrap() > 0.0 && figures.rss_loaded.unwrap() > 1e6, "{figures:?}");
    assert!(measured.raw.iter().all(|f| f.is_file()));
    let ends: Vec<Proof> = server.stop().unwrap();
    assert!(ends.iter().all(|p| p.holds), "{ends:?}");
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_cannot_be_run_is_said() {
    let said = |from: &str, to: &str| {
        let text = REDIS.replace(from, to);
        let target = Experiment::read("redis.toml", &text).and_then(|e| target::of(&e));
        match target {
            Err(why) => why.to_string(),
            Ok(target) => target.programs(&Cell::default()).unwrap_err().to_string(),
        }
    };
    assert!(said("redis-server", "no-such-server").contains("no-such-server is not on this machine"));
    assert!(said("redis-cli", "no-such-probe").contains("no-such-probe is not on this machine"));
    assert!(said("([0-9.]+)", "[0-9.]+").contains("into a group"));
}

#[test]
fn a_server_that_never_gets_ready_is_given_up() {
    let dir = std::env::temp_dir().join(format!("evenkeel-command-deaf-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let text = REDIS
        .replace(
            r#"["redis-server", "--port", "{port}", "--bind", "127.0.0.1", "--dir", "{dir}", "--save", ""]"#,
            r#"["sleep", "1000"]"#,
        )
        .replace(r#"["redis-cli", "-p", "{port}", "ping"]"#, r#"["false"]"#)
        .replace("rate =", "start_s = 0.3\nrate =");
    let cell = Cell { test: "set".into(), heap: "glibc".into(), ..Cell::default() };
    let glibc = heaps::glibc();
    let setting = setting(&cell, &glibc, &dir);
    let why = target(&text).start(&setting).err().expect("an error").to_string();
    assert!(why.contains("not ready after") && why.contains("false did not succeed"), "{why}");
    fs::remove_dir_all(dir).unwrap();
}
