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
use std::thread;
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
        Ask {
            clients,
            warmup: Duration::from_secs(1),
            window: Duration::from_millis(1500),
            seed: 1,
            raw,
            opened: &|| {},
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// With a line more of the target's table and one of the load's.
fn target(of_server: &str, of_load: &str) -> Box<dyn Target> {
    let text = format!(
        "title = \"t\"\n[target.mariadb]\n{of_server}\n[load]\ntests = [\"oltp_read_only\"]\nseconds = 1.5\ntables = 2\n\
         rows = 1000\n{of_load}\n[factors]\nheap = [\"glibc\"]\nclients = [4, 32]\n"
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
    let target = target("", "");
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

#[test]
fn a_life_under_another_heap() {
    let found = heaps::find();
    let Some(heap) = found.iter().find(|h| h.path.is_some()) else {
        println!("skipped: a_life_under_another_heap: no other heap is installed; apt-get install libjemalloc2");
        return;
    };
    whole_life("another", heap);
}

/// Starts a life of `target`, prepared in its way, and gives back what it proved.
fn proofs_of(name: &str, target: &dyn Target, cell: &Cell) -> Option<Vec<Proof>> {
    let bench = Bench::new(name)?;
    let (dirs, heap) = (bench.dirs(), heaps::glibc());
    let setting = bench.setting(&dirs, cell, &heap);
    let mut server = target.start(&setting).unwrap();
    let proofs = server.proofs().unwrap();
    let raw = bench.dir.join("raw/1");
    sane(&server.measure(&bench.ask(4, &raw)).unwrap(), 4.0);
    hold(&server.stop().unwrap());
    Some(proofs)
}

#[test]
fn another_engine_prepared_anew() {
    let target = target("", "prepare = \"fresh\"");
    let cell = Cell { engine: "Aria".into(), ..cell("oltp_update_non_index") };
    let Some(proofs) = proofs_of("aria", target.as_ref(), &cell) else { return };
    hold(&proofs);
    assert_eq!(proof(&proofs, "engine of the test's tables").found, "Aria: 2");
}

#[test]
fn myrocks_is_loaded_as_a_plugin() {
    let target = target("", "");
    let cell = Cell { engine: "MyRocks".into(), ..cell("oltp_point_select") };
    if let Err(why) = target.programs(&cell) {
        assert!(why.to_string().contains("apt-get install mariadb-plugin-rocksdb"), "{why}");
        println!("skipped: myrocks_is_loaded_as_a_plugin: {why}");
        return;
    }
    let Some(proofs) = proofs_of("myrocks", target.as_ref(), &cell) else { return };
    hold(&proofs);
    assert_eq!(proof(&proofs, "engine of the test's tables").found, "ROCKSDB: 2");
}

#[test]
fn a_wish_that_the_server_changed_is_seen() {
    // The server rounds it to a multiple of its own.
    let target = target("options = { innodb_buffer_pool_size = \"33M\", max_connections = 200 }", "");
    let Some(proofs) = proofs_of("wishes", target.as_ref(), &cell("oltp_read_only")) else { return };
    hold(&[proof(&proofs, "variable max_connections").clone()]);
    let size = proof(&proofs, "variable innodb_buffer_pool_size");
    let rounded = size.found.parse::<u64>().unwrap() != 33 << 20;
    assert_eq!(size.holds, !rounded, "{size:?}");
}

#[test]
fn what_a_fragment_says_twice_is_seen() {
    let Some(bench) = Bench::new("twice") else { return };
    let fragment = bench.dir.join("twice.cnf");
    fs::write(&fragment, "sort_buffer_size = 1M\nsort-buffer-size = 2M\n").unwrap();
    let target = target("", "");
    let cell = Cell { config: fragment.display().to_string(), ..cell("oltp_read_only") };
    let (dirs, heap) = (bench.dirs(), heaps::glibc());
    let mut server = target.start(&bench.setting(&dirs, &cell, &heap)).unwrap();
    let proofs = server.proofs().unwrap();
    let twice = proof(&proofs, "configuration says something twice");
    assert!(
        !twice.holds && twice.found.contains("sort_buffer_size is 1M in twice.cnf:1 and 2M in twice.cnf:2"),
        "{twice:?}"
    );
    assert_eq!(proof(&proofs, "variable sort_buffer_size").found, "2097152");
}

#[test]
fn an_option_that_no_server_knows_says_so() {
    let Some(bench) = Bench::new("unknown") else { return };
    let target = target("options = { no_such_option = 1 }", "");
    let (dirs, heap, cell) = (bench.dirs(), heaps::glibc(), cell("oltp_read_only"));
    let why = target.start(&bench.setting(&dirs, &cell, &heap)).err().expect("an error");
    assert!(format!("{why:#}").contains("no_such_option") || format!("{why:#}").contains("no-such-option"), "{why:#}");
}

#[test]
fn a_server_that_dies_says_how() {
    let Some(bench) = Bench::new("dies") else { return };
    let target = target("", "");
    let (dirs, heap, cell) = (bench.dirs(), heaps::glibc(), cell("oltp_read_only"));
    let mut server = target.start(&bench.setting(&dirs, &cell, &heap)).unwrap();
    let pid = server.pid().to_string();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1800));
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    });
    let raw = bench.dir.join("raw/1");
    let why = server.measure(&bench.ask(4, &raw)).unwrap_err();
    killer.join().unwrap();
    assert!(format!("{why:#}").contains("the server died (signal: 9"), "{why:#}");
}

/// A test of one's own: one row, read in a transaction.
const LUA: &str = r#"
sysbench.cmdline.options = { table_size = {"rows", 10} }
function thread_init()
  driver = sysbench.sql.driver()
  connection = driver:connect()
end
function thread_done() connection:disconnect() end
function prepare()
  local connection = sysbench.sql.driver():connect()
  connection:query("CREATE TABLE own (id INT PRIMARY KEY, v INT) ENGINE = InnoDB")
  for id = 1, sysbench.opt.table_size do
    connection:query(string.format("INSERT INTO own VALUES (%d, %d)", id, id))
  end
end
function event()
  connection:query("BEGIN")
  connection:query("SELECT v FROM own WHERE id = 1")
  connection:query("COMMIT")
end
"#;

#[test]
fn a_lua_file_is_a_test() {
    let Some(bench) = Bench::new("lua") else { return };
    fs::write(bench.dir.join("own.lua"), LUA).unwrap();
    let text = "title = \"t\"\n[target.mariadb]\n[load]\ntests = [\"own.lua\"]\nseconds = 1.5\nrows = 50\n\
                [factors]\nheap = [\"glibc\"]\nclients = [4]\n";
    let experiment = Experiment::read("t.toml", text).unwrap().within(&bench.dir);
    let target = target::of(&experiment).unwrap();
    let cell = cell("own.lua");
    assert!(target.programs(&cell).unwrap().iter().any(|p| p.what == "test own.lua"));
    let (dirs, heap) = (bench.dirs(), heaps::glibc());
    let mut server = target.start(&bench.setting(&dirs, &cell, &heap)).unwrap();
    hold(&server.proofs().unwrap());
    let raw = bench.dir.join("raw/1");
    let measured = server.measure(&bench.ask(4, &raw)).unwrap();
    sane(&measured, 4.0);
    // One statement of three is a commit, and each transaction has one.
    let reported = measured.figures.tps_reported.unwrap();
    assert!(measured.figures.tps.unwrap() < 2.0 * reported && 2.0 * measured.figures.tps.unwrap() > reported);
    hold(&server.stop().unwrap());
}

#[test]
fn tpcc_under_the_labs_own_driver() {
    let name = "tpcc";
    let Some(bench) = Bench::new(name) else { return };
    let own = std::env::current_exe().unwrap();
    if !own.ancestors().skip(1).take(2).any(|d| d.join("evenkeel-driver").is_file()) {
        println!("skipped: {name}: evenkeel-driver is not built; cargo build -p evenkeel-driver");
        return;
    }
    let text = "title = \"t\"\n[target.mariadb]\n[load]\ntests = [\"tpcc\"]\nseconds = 1.5\nprocedures = true\n\
                checks = \"quick\"\n[factors]\nheap = [\"glibc\"]\nclients = [4]\n";
    let target = target::of(&Experiment::read("t.toml", text).unwrap()).unwrap();
    let (cell, heap, dirs) = (cell("tpcc"), heaps::glibc(), bench.dirs());
    let mut server = target.start(&bench.setting(&dirs, &cell, &heap)).unwrap();
    let proofs = server.proofs().unwrap();
    hold(&proofs);
    assert!(proof(&proofs, "durability").found.contains("each commit is on the disk"), "{proofs:?}");
    let raw = bench.dir.join("raw/t");
    let measured = server.measure(&bench.ask(4, &raw)).unwrap();
    hold(&measured.proofs);
    let found = &proof(&measured.proofs, "data whole after the trial").found;
    assert!(found.contains("conditions hold") && found.contains("as many as the clients committed"), "{found}");
    let f = &measured.figures;
    let all = [f.tps, f.nopm, f.tpm, f.latency_p99_ms, f.neworder_p95_ms, f.payment_mean_ms, f.delivery_p95_ms];
    assert!(all.iter().all(|x| x.is_some_and(|x| x > 0.0)), "{f:?}");
    assert!(f.tpm > f.nopm, "all transactions are more than new orders");
    hold(&server.stop().unwrap());
}

#[test]
fn a_plugin_by_its_path() {
    let name = "plugin";
    let Some(bench) = Bench::new(name) else { return };
    let packaged = Path::new("/usr/lib/mysql/plugin/ha_rocksdb.so");
    if !packaged.exists() {
        println!("skipped: {name}: mariadb-plugin-rocksdb is not installed");
        return;
    }
    let own = bench.dir.join("ha_rocksdb.so");
    fs::copy(packaged, &own).unwrap();
    let target = target("", "");
    let cell = Cell { engine: own.display().to_string(), ..cell("oltp_read_only") };
    let programs = target.programs(&cell).unwrap();
    assert!(programs.iter().any(|p| p.path == own.canonicalize().unwrap()), "{programs:?}");
    let (heap, dirs) = (heaps::glibc(), bench.dirs());
    let mut server = target.start(&bench.setting(&dirs, &cell, &heap)).unwrap();
    let proofs = server.proofs().unwrap();
    hold(&proofs);
    assert_eq!(proof(&proofs, "engine of the test's tables").wanted, "ROCKSDB");
    hold(&server.stop().unwrap());
    let missing = Cell { engine: "/none/ha_x.so".into(), ..cell };
    let error = target.programs(&missing).unwrap_err().to_string();
    assert!(error.contains("engine /none/ha_x.so"), "{error}");
}
