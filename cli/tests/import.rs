//! `evenkeel import`: published tables and logs come in and are judged; what the folder holds then is a sweep's. What the verdicts
//! must be is the matter of `lab/tests/published.rs`; here it is that the command says them.

mod common;

use common::{Folder, published};
use std::fs;
use std::path::Path;

fn said(folder: &Folder, words: &[&str]) -> String {
    let text = folder.run(&[&["import"], words].concat()).fine().out;
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn published_tables_are_judged() {
    let folder = Folder::new("tables");
    let of = |name: &str| said(&folder, &[&published(name)]);
    let segment = of("segment-heap-sysbench.csv");
    for cliff in [
        "nt-heap falls off a cliff in oltp_read_only, i9-12900K between 512 and 1,024 clients",
        "oltp_read_write, i9-12900K between 256 and 512 clients",
    ] {
        assert!(segment.contains(cliff), "{cliff}: {segment}");
    }
    assert!(of("mdev-16168-tps.csv").starts_with("10.3.7 loses "), "10.3.7 is the worst");
    assert!(of("percona-jemalloc-versions.csv").contains("jemalloc 3.2.0 and jemalloc 3.3.0 lose "));
    // Single figures, rounded: nothing to judge by.
    assert!(of("percona-cores.csv").starts_with("This run cannot tell them apart"));
    folder.assert_clean();
}

#[test]
fn every_published_file_can_be_read() {
    let folder = Folder::new("every");
    let top = published("");
    let mut tables = 0;
    for entry in fs::read_dir(&top).unwrap().flatten().filter(|e| e.path().extension().is_some_and(|x| x == "csv")) {
        tables += 1;
        let path = entry.path().display().to_string();
        if fs::read_to_string(&path).unwrap().lines().next().unwrap().split(',').any(|c| c == "frame") {
            // Shares of frames are no sweep; another verb reads them.
            folder.run(&["import", &path]).refused(2, &["evenkeel why"]);
            folder.run(&["why", &path]).fine();
            continue;
        }
        assert!(said(&folder, &[&entry.path().display().to_string()]).contains("clients"), "{:?}", entry.path());
    }
    assert!(tables >= 6);
    // HammerDB's files do not say the heap; the reader does.
    let mut files: Vec<_> =
        fs::read_dir(Path::new(&top).join("tidesdb-tprocc")).unwrap().flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|x| x == "csv"));
    files.sort();
    let first = files[0].display().to_string();
    folder.run(&["import", &first]).refused(2, &[":1:1: ", "HEAP=FILE"]);
    let named: Vec<String> = files.iter().map(|f| format!("glibc={}", f.display())).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    assert!(said(&folder, &named).starts_with("TidesDB runs at "), "the engines differ under one heap");
    folder.assert_clean();
}

const LOG: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 8
Initializing random number generator from current time


Initializing worker threads...

Threads started!

SQL statistics:
    queries performed:
        read:                            140000
        write:                           40000
        other:                           20000
        total:                           200000
    transactions:                        10000  (1000.00 per sec.)
    queries:                             200000 (20000.00 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          10.0000s
    total number of events:              10000

Latency (ms):
         min:                                    1.00
         avg:                                    8.00
         max:                                   40.00
         95th percentile:                       16.00
         sum:                                80000.00
";

#[test]
fn logs_of_sysbench_are_kept_as_a_sweep() {
    let folder = Folder::new("logs");
    let mut words = vec!["--out".to_string(), "sweep".into(), "--baseline".into(), "glibc".into()];
    for (heap, rate) in [("glibc", 1000), ("jemalloc", 1200)] {
        for run in 0..3 {
            let text = LOG
                .replace("(1000.00", &format!("({}.00", rate + run))
                .replace("10000 ", &format!("{} ", 10 * (rate + run)));
            let name = format!("{heap}-{run}.log");
            folder.write(&name, &text);
            words.push(format!("{heap}={name}"));
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let text = said(&folder, &words);
    assert!(text.contains("jemalloc") && text.contains("1,001") && text.contains("1,201 ▲"), "{text}");
    assert!(text.ends_with("Report: sweep/report.html"), "{text}");
    let records = folder.assert_whole("sweep");
    assert_eq!(records.len(), 6);
    assert!(records.iter().all(|r| r["cell"]["clients"] == 8 && r["outcome"]["is"] == "valid"));
    // The same again, from the folder alone.
    assert_eq!(folder.run(&["report", "sweep"]).fine().out.split_whitespace().collect::<Vec<_>>().join(" "), text);
}

#[test]
fn sums_beside_the_files_are_checked() {
    let folder = Folder::new("import-sums");
    let from = published("tidesdb-tprocc");
    for file in ["hammerdb_results_20260422_204822.csv", "hammerdb_results_20260422_205525.csv", "SHA256SUMS"] {
        std::fs::copy(format!("{from}/{file}"), folder.path(file)).unwrap();
    }
    let words = ["import", "glibc=hammerdb_results_20260422_204822.csv", "glibc=hammerdb_results_20260422_205525.csv"];
    let said = folder.run(&words).fine();
    assert!(said.out.replace('\n', " ").contains("2 files have the SHA-256 that the SHA256SUMS"), "{}", said.out);
    let path = folder.path("hammerdb_results_20260422_205525.csv");
    let changed = std::fs::read_to_string(&path).unwrap().replace('8', "9");
    std::fs::write(&path, changed).unwrap();
    folder.run(&words).refused(2, &["hammerdb_results_20260422_205525.csv is not the file", "SHA-256 differs"]);
}
