//! `evenkeel verify`: every file that is no longer what the sweep left is named, and the exit code is 1.

mod common;

use common::{Folder, Said, published, skipped};
use std::fs;
use std::process::Command;

/// A folder with records, made without running anything.
fn bundle(folder: &Folder) {
    folder.run(&["import", &published("mdev-16168-tps.csv"), "--out", "sweep"]).fine();
    folder.write("sweep/raw/output.txt", "as it was\n");
    fs::remove_file(folder.path("sweep/manifest.sha256")).unwrap();
    // Sealed again, with the raw file: an import leaves none.
    let mut hashed = Command::new("sh");
    hashed.args([
        "-c",
        "sha256sum experiment.toml environment.json plan.json raw/output.txt records.jsonl > manifest.sha256",
    ]);
    Said::of({
        hashed.current_dir(folder.path("sweep"));
        hashed
    })
    .fine();
}

#[test]
fn what_changed_is_named() {
    let folder = Folder::new("verify");
    bundle(&folder);
    let verify = || folder.run(&["verify", "sweep"]);
    let said = verify().fine();
    assert_eq!((said.out.as_str(), said.err.as_str()), ("5 files, all as the sweep left them\n", ""));
    // A report is not part of what was measured.
    folder.run(&["report", "sweep"]).fine();
    verify().fine();

    let records = fs::read(folder.path("sweep/records.jsonl")).unwrap();
    let mut flipped = records.clone();
    let at = flipped.windows(5).position(|w| w == b"\"tps\"").unwrap() + 6;
    flipped[at] = if flipped[at] == b'9' { b'8' } else { b'9' };
    fs::write(folder.path("sweep/records.jsonl"), &flipped).unwrap();
    let said = verify();
    assert_eq!((said.code, said.out.as_str()), (Some(1), "changed: records.jsonl\n"));

    fs::remove_file(folder.path("sweep/raw/output.txt")).unwrap();
    folder.write("sweep/raw/other.txt", "new\n");
    let said = verify();
    let all = "changed: records.jsonl\nmissing: raw/output.txt\nadded: raw/other.txt\n";
    assert_eq!((said.code, said.out.as_str()), (Some(1), all));

    fs::write(folder.path("sweep/records.jsonl"), &records).unwrap();
    folder.write("sweep/raw/output.txt", "as it was\n");
    fs::remove_file(folder.path("sweep/raw/other.txt")).unwrap();
    verify().fine();
    folder.run(&["verify", "sweep/records.jsonl"]).refused(2, &["is a file"]);
    fs::remove_file(folder.path("sweep/manifest.sha256")).unwrap();
    verify().refused(2, &["has not ended", "evenkeel sweep --resume sweep"]);
}

/// The manifest is sha256sum's own form: a reader without this program can check a folder.
#[test]
fn sha256sum_agrees() {
    let folder = Folder::new("sha256sum");
    folder.run(&["import", &published("mdev-16168-tps.csv"), "--out", "sweep"]).fine();
    let check = || {
        Command::new("sha256sum").args(["-c", "--strict", "manifest.sha256"]).current_dir(folder.path("sweep")).output()
    };
    let Ok(output) = check() else { return skipped("sha256sum_agrees", "sha256sum is not installed") };
    let said: Said = output.into();
    assert_eq!(said.fine().out.lines().count(), 4);
    folder.write("sweep/plan.json", "{}");
    let said: Said = check().unwrap().into();
    assert!(said.code == Some(1) && said.out.contains("plan.json: FAILED"), "{said:?}");
}
