//! The controls of `evenkeel why` on a real MariaDB: a heap that is bad on purpose is to blame for its level; what falls alike under every
//! heap is not the heap's. They take ten minutes, and need perf: `make controls`.

mod common;

use common::Folder;
use std::path::PathBuf;

fn sweep(folder: &Folder, heaps: &str, clients: &str, more: &str) -> String {
    folder.write(
        "x.toml",
        &format!(
            "title = \"control\"\n[target.mariadb]\noptions = {{ innodb_buffer_pool_size = \"256M\" }}\n[load]\n\
             tests = [\"oltp_read_only\"]\ntables = 4\nrows = 20000\nwarmup = 2\nseconds = 5\nidle = 0.0\n\
             [factors]\nheap = {heaps}\nclients = {clients}\n{more}[plan]\nrounds = 3\ntwin = false\n"
        ),
    );
    folder.run(&["sweep", "x.toml", "--out", "out"]).fine();
    folder.run(&["why", "out", "--rounds", "2"]).fine().out
}

#[test]
#[ignore = "runs a server for minutes"]
fn a_bad_heap_is_to_blame() {
    let folder = Folder::new("control-bad");
    let control = PathBuf::from(common::EVENKEEL).with_file_name("libevenkeel_control.so");
    let named = format!("[heaps.control]\nheap = \"{}\"\n", control.display());
    let said = sweep(&folder, "[\"glibc\", \"control\"]", "[64]", &named);
    println!("{}", said.split("\n\n").next().unwrap_or_default());
    assert!(said.starts_with("The heap is to blame: control runs "), "{said}");
}

#[test]
#[ignore = "runs a server for minutes"]
fn what_falls_alike_is_not_the_heaps() {
    let folder = Folder::new("control-alike");
    let said = sweep(&folder, "[\"glibc\", \"jemalloc\"]", "[64, 1024]", "");
    println!("{}", said.split("\n\n").next().unwrap_or_default());
    assert!(said.starts_with("Not the heap: "), "{said}");
}
