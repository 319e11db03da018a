//! The MariaDB target against a real server: Debian's mariadbd under sysbench. Without one of them each check says so and is skipped.

use lab::experiment::Experiment;
use lab::heaps::{self, Heap};
use lab::proof;
use lab::record::{Cell, Proof};
use lab::target::{self, Ask, Measured, Setting, Target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A private folder, gone with its owner. One at a time: servers would disturb each other.
struct Bench {
    dir: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    fn new(name: &str) -> Option<Bench> {
        static ALONE: Mutex<()> = Mutex::new(());
        for (program, package) in [("/usr/sbin/mariadbd", "mariadb-server-core"), ("/usr/bin/sysbench", "sysbench")] {
            if !Path::new(program).exists() {
                println!("skipped: {name}: {package} is not installed");
                return None;
            }
        }
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = std::env::temp_dir().join(format!("evenkeel-mariadb-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("life")).unwrap();
        fs::create_dir_all(dir.join("raw")).unwrap();
        Some(Bench { dir, _alone })
    }

    fn setting<'a>(&'a self, dirs: &'a [PathBuf; 2], cell: &'a Cell, heap: &'a Heap) -> Setting<'a> {
        Setting { cell, heap, cpus: None, client_cpus: None, dir: &dirs[0], store: &dirs[1], most_clients: 32, seed: 1 }
    }

    fn dirs(&self) -> [PathBuf; 2] {
        [self.dir.join("life"), self.dir.join("store")]
    }

    fn ask<'a>(&self, clients: u32, raw: &'a Path) -> Ask<'a> {
        Ask { clients, warmup: Duration::from_secs(1), window: Duration::from_millis(1500), seed: 1, raw }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn target(more: &str) -> Box<dyn Target> {
    let text = format!(
        "title = \"t\"\n[target.mariadb]\n{more}\n[load]\ntests = [\"oltp_read_only\"]\nseconds = 1.5\ntables = 2\nrows = 1000\n\
         [factors]\nheap = [\"glibc\"]\nclients = [4, 32]\n"
    );
    target::of(&Experiment::read("t.toml", &text).unwrap()).unwrap()
}

fn cell(test: &str) -> Cell {
    Cell { test: test.into(), heap: "glibc".into(), ..Cell::default() }
}

fn hold(proofs: &[Proof]) {
    for proof in proofs {
        assert!(proof.holds, "{proof:?}");
    }
}

fn proof<'a>(proofs: &'a [Proof], what: &str) -> &'a Proof {
    proofs.iter().find(|p| p.what == what).unwrap_or_else(|| panic!("no proof of {what} in {proofs:#?}"))
}

fn sane(measured: &Measured, clients: f64) {
    let figures = &measured.figures;
    assert!(figures.tps.unwrap() > 0.0 && figures.transactions.unwrap() > 0.0);
    assert!((1.4..4.0).contains(&figures.seconds.unwrap()), "{figures:?}");
    assert!(figures.rss_loaded.unwrap() > 10e6 && figures.anonymous_loaded.unwrap() > 10e6);
    assert!(figures.server_cpu_s.unwrap() > 0.0 && figures.client_cpu_s.unwrap() > 0.0);
    assert!(figures.latency_p50_ms.unwrap() <= figures.latency_p999_ms.unwrap());
    assert!(measured.series.iter().any(|s| s.connections == Some(clients) && s.tps.unwrap() > 0.0));
    assert!(measured.raw.iter().all(|f| f.is_file()), "{:?}", measured.raw);
    hold(&measured.proofs);
}

fn whole_life(name: &str, heap: &Heap) {
    let Some(bench) = Bench::new(name) else { return };
    let (dirs, cell) = (bench.dirs(), cell("oltp_read_only"));
    let setting = bench.setting(&dirs, &cell, heap);
    let target = target("");
    let programs = target.programs(&cell).unwrap();
    assert!(programs.iter().all(|p| p.path.is_file()), "{programs:?}");
    hold(&target.bindings(&setting).unwrap());

    let mut server = target.start(&setting).unwrap();
    let pid = server.pid();
    hold(&server.proofs().unwrap());
    hold(&[proof::of_maps(heap, pid, &heaps::find())]);
    for clients in [4, 32] {
        assert!(server.settle(Duration::from_secs(30)).unwrap());
        let raw = bench.dir.join(format!("raw/{clients}"));
        let measured = server.measure(&bench.ask(clients, &raw)).unwrap();
        println!("{name} {clients}: {:?} {:?}", measured.figures, measured.marks);
        sane(&measured, f64::from(clients));
    }
    assert!(server.says_used().unwrap() > 1e6);
    hold(&server.stop().unwrap());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_life_under_glibc() {
    whole_life("glibc", &heaps::glibc());
}
