//! The corpus of the fuzz targets (heap/fuzz/corpus), replayed without the fuzzer: what once found its way
//! somewhere new is tried at every test.
#![cfg(not(loom))]

mod common;

use std::path::Path;

common::in_both_modes! {
    ops: "";
    json: "";
}

fn ops() {
    each("ops", common::replay::ops);
}

fn json() {
    each("json", common::replay::json);
}

fn each(target: &str, replay: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{folder:?} has {} inputs", files.len());
    for file in files {
        println!("{}", file.display());
        replay(&std::fs::read(&file).unwrap());
    }
}
