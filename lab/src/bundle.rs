//! A sweep's folder: all that is needed to judge it again, on another machine, years later.
//!
//! ```text
//! experiment.toml   as it was written           records.jsonl     a line for each trial, appended and synced
//! ...               files that it names           profiles.jsonl    the same of profiled trials, if there were any
//! plan.json         question, notes, scale      raw/              what servers and loads wrote
//! environment.json  machine, versions, hashes   profiles/         their folded stacks
//!                                               manifest.sha256   of all these; `sha256sum -c` reads it too
//! ```
//!
//! - A record is on the disk before the next trial begins. What is learnt of a trial later (that its server's data were not whole) is
//!   a second record of it: the last one counts.
//! - A torn last line, left by a power cut, is cut off when the folder is opened.
//! - `plan.json` is written last of the first files, and the manifest last of all; reports are not in it, since they can be made again.
//!   Each of these files is whole or not there, and a folder without `plan.json` is one whose sweep never began.
//! - One process at a time writes in a folder: it holds a lock on the records.

use crate::analysis::Question;
use crate::digest;
use crate::experiment::Changes;
use crate::record::Record;
use crate::wrong::wrong;
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

pub const RECORDS: &str = "records.jsonl";
/// Records of profiled trials, and the folder of their stacks.
pub const PROFILES: &str = "profiles.jsonl";
pub const STACKS: &str = "profiles";
pub const EXPERIMENT: &str = "experiment.toml";
pub const ENVIRONMENT: &str = "environment.json";
pub const PLAN: &str = "plan.json";
pub const MANIFEST: &str = "manifest.sha256";
pub const RAW: &str = "raw";

/// What the analysis and a resumed sweep need of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    pub question: Question,
    pub notes: Vec<String>,
    /// The folder in which the experiment's file lay; its configs are relative to it.
    pub folder: PathBuf,
    pub changes: Changes,
    /// Names of all trials.
    pub trials: Vec<String>,
}

pub struct Bundle {
    pub path: PathBuf,
    /// What records are appended to.
    records: File,
    /// None where the file system knows no locks.
    _lock: Option<Flock<File>>,
}

impl Bundle {
    /// A new folder. Refuses one that holds anything but what a sweep left that was killed before it began.
    pub fn create(path: &Path, experiment: &str, environment: &serde_json::Value, planned: &Planned) -> Result<Bundle> {
        let there = path.display();
        if path.join(PLAN).exists() {
            return Err(wrong(format!(
                "{there} holds a sweep; give another folder, or go on with `evenkeel sweep --resume {there}`"
            )));
        }
        let ours = |name: &str| [RAW, EXPERIMENT, ENVIRONMENT, RECORDS].contains(&name) || name.ends_with(HALF);
        if let Ok(entries) = path.read_dir()
            && entries.flatten().any(|e| !ours(&e.file_name().to_string_lossy()))
        {
            return Err(wrong(format!("{there} is not empty; give another folder")));
        }
        fs::create_dir_all(path.join(RAW)).with_context(|| format!("cannot make {there}"))?;
        let bundle = Bundle::lock(path)?;
        if bundle.records.metadata().is_ok_and(|m| m.len() > 0) {
            return Err(wrong(format!("{there} holds records already; give another folder")));
        }
        write(&path.join(EXPERIMENT), experiment)?;
        write(&path.join(ENVIRONMENT), &(serde_json::to_string_pretty(environment)? + "\n"))?;
        write(&path.join(PLAN), &(serde_json::to_string_pretty(planned)? + "\n"))?;
        Ok(bundle)
    }

    /// Takes copies of files that the experiment names, relative to `folder`, so that it can be redone from here.
    pub fn keep(&self, folder: &Path, files: &[&str]) -> Result<()> {
        for file in files {
            let (from, to) = (folder.join(file), self.path.join(file));
            let copied = fs::create_dir_all(to.parent().unwrap_or(&self.path)).and_then(|()| fs::copy(&from, &to));
            copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        }
        Ok(())
    }

    /// A folder that a sweep left, to go on.
    pub fn open(path: &Path) -> Result<Bundle> {
        if !path.join(PLAN).is_file() {
            return Err(no_folder(path));
        }
        let bundle = Bundle::lock(path)?;
        cut(&path.join(RECORDS), &bundle.records)?;
        // The manifest is of a whole that now grows.
        let _ = fs::remove_file(path.join(MANIFEST));
        Ok(bundle)
    }

    /// The same folder, for records of profiled trials. Those that are there are kept, unless `anew`.
    pub fn open_profiles(path: &Path, anew: bool) -> Result<Bundle> {
        let mut bundle = Bundle::open(path)?;
        let file = path.join(PROFILES);
        if anew {
            let _ = fs::remove_file(&file);
            let _ = fs::remove_dir_all(path.join(STACKS));
        }
        let cannot = || format!("cannot write {}", file.display());
        fs::create_dir_all(path.join(STACKS)).with_context(cannot)?;
        bundle.records = OpenOptions::new().create(true).append(true).open(&file).with_context(cannot)?;
        cut(&file, &bundle.records)?;
        Ok(bundle)
    }

    fn lock(path: &Path) -> Result<Bundle> {
        let file = path.join(RECORDS);
        let cannot = || format!("cannot write {}", file.display());
        let records = OpenOptions::new().create(true).append(true).open(&file).with_context(cannot)?;
        let lock = match Flock::lock(records.try_clone().with_context(cannot)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Some(lock),
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(wrong(format!(
                    "another evenkeel works in {}; wait until it ends, or end it with Ctrl-C",
                    path.display()
                )));
            }
            Err(_) => None,
        };
        Ok(Bundle { path: path.to_path_buf(), records, _lock: lock })
    }

    /// Appends a record; it is on the disk when this returns.
    pub fn append(&mut self, record: &Record) -> Result<()> {
        let mut line = serde_json::to_string(record)?;
        line.push('\n');
        let before = self.records.metadata().map(|m| m.len()).ok();
        let written = self.records.write_all(line.as_bytes()).and_then(|()| self.records.sync_data());
        if written.is_err()
            && let Some(before) = before
        {
            // A full disk may have taken a part of the line.
            let _ = self.records.set_len(before);
        }
        written.with_context(|| format!("cannot write to the records in {}", self.path.display()))
    }

    /// Hashes everything and writes the manifest.
    pub fn seal(&self) -> Result<()> {
        let mut lines = String::new();
        for file in files(&self.path)? {
            lines += &format!("{}  {file}\n", digest::of_file(&self.path.join(&file))?);
        }
        write(&self.path.join(MANIFEST), &lines)
    }
}

/// Cuts off a torn last line.
fn cut(path: &Path, file: &File) -> Result<()> {
    let text = fs::read(path).context("cannot read the records")?;
    let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if whole < text.len() {
        file.set_len(whole as u64).context("cannot cut off a torn line")?;
    }
    Ok(())
}

/// How a file is called until it is whole.
const HALF: &str = ".half";

fn write(path: &Path, text: &str) -> Result<()> {
    let mut half = path.as_os_str().to_owned();
    half.push(HALF);
    let made = File::create(&half)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
        .and_then(|()| fs::rename(&half, path));
    if made.is_err() {
        let _ = fs::remove_file(&half);
    }
    made.with_context(|| format!("cannot write {}", path.display()))
}

fn no_folder(path: &Path) -> anyhow::Error {
    let there = path.display();
    wrong(match fs::metadata(path) {
        Err(e) => format!("{there}: {e}"),
        Ok(m) if !m.is_dir() => format!("{there} is a file; name the folder of a sweep"),
        Ok(_) => format!("{there} is no folder of a sweep: it holds no {PLAN}"),
    })
}

/// Everything that a manifest covers, relative, sorted.
fn files(folder: &Path) -> Result<Vec<String>> {
    fn walk(folder: &Path, inside: &str, out: &mut Vec<String>) -> Result<()> {
        for entry in fs::read_dir(folder.join(inside)).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
            if entry.file_type()?.is_dir() {
                walk(folder, &path, out)?;
            } else if path != MANIFEST && !path.ends_with(HALF) && !(inside.is_empty() && name.starts_with("report.")) {
                out.push(path);
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    walk(folder, "", &mut out)?;
    out.sort();
    Ok(out)
}

/// The records of a folder, or of one file with such lines.
pub fn records(path: &Path) -> Result<Vec<Record>> {
    let file = if path.is_dir() { path.join(RECORDS) } else { path.to_path_buf() };
    records_in(&file)
}

/// Those of its profiled trials; none, if there were none.
pub fn profiles(path: &Path) -> Result<Vec<Record>> {
    let file = path.join(PROFILES);
    if file.is_file() { records_in(&file) } else { Ok(Vec::new()) }
}

fn records_in(file: &Path) -> Result<Vec<Record>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut records: Vec<Record> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((i, line)) = lines.next() {
        match serde_json::from_str::<Record>(line) {
            Ok(record) => match places.get(&record.trial) {
                Some(&at) => records[at] = record,
                None => {
                    places.insert(record.trial.clone(), records.len());
                    records.push(record);
                }
            },
            // The trial under way when the power went.
            Err(_) if lines.peek().is_none() && !text.ends_with('\n') => {}
            Err(e) => return Err(wrong(format!("{}:{}: not a record: {e}", file.display(), i + 1))),
        }
    }
    Ok(records)
}

pub fn planned(path: &Path) -> Result<Planned> {
    let file = path.join(PLAN);
    let text = fs::read_to_string(&file).map_err(|_| no_folder(path))?;
    serde_json::from_str(&text).map_err(|e| wrong(format!("{}: {e}", file.display())))
}

pub fn experiment(path: &Path) -> Result<String> {
    let file = path.join(EXPERIMENT);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

pub fn environment(path: &Path) -> serde_json::Value {
    let text = fs::read_to_string(path.join(ENVIRONMENT)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or(serde_json::Value::Null)
}

/// What `verify` found.
#[derive(Debug, Default, PartialEq)]
pub struct Verified {
    pub files: usize,
    pub changed: Vec<String>,
    pub missing: Vec<String>,
    /// In the folder, but not in the manifest.
    pub added: Vec<String>,
}

impl Verified {
    pub fn holds(&self) -> bool {
        self.changed.is_empty() && self.missing.is_empty() && self.added.is_empty()
    }
}

/// Compares a folder with its manifest.
pub fn verify(path: &Path) -> Result<Verified> {
    let file = path.join(MANIFEST);
    let text = fs::read_to_string(&file).map_err(|_| {
        let there = path.display();
        if path.join(PLAN).is_file() {
            wrong(format!(
                "{there} holds no {MANIFEST}: its sweep has not ended; go on with `evenkeel sweep --resume {there}`"
            ))
        } else {
            no_folder(path)
        }
    })?;
    let mut wanted: BTreeMap<&str, &str> = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let (hash, name) = line
            .split_once("  ")
            .ok_or_else(|| wrong(format!("{}:{}: not a line of a manifest", file.display(), i + 1)))?;
        wanted.insert(name, hash);
    }
    let mut seen = Verified { files: wanted.len(), ..Verified::default() };
    let there: BTreeSet<String> = files(path)?.into_iter().collect();
    for (name, hash) in &wanted {
        if !there.contains(*name) {
            seen.missing.push((*name).to_string());
        } else if digest::of_file(&path.join(name))? != *hash {
            seen.changed.push((*name).to_string());
        }
    }
    seen.added = there.into_iter().filter(|n| !wanted.contains_key(n.as_str())).collect();
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cell, Direction, Figures, Outcome, SCHEMA};

    fn record(n: u32) -> Record {
        Record {
            schema: SCHEMA,
            trial: format!("t{n}"),
            cell: Cell { heap: "glibc".into(), clients: n, ..Cell::default() },
            round: 1,
            order: n,
            direction: Direction::Up,
            started: "2026-01-01T00:00:00Z".into(),
            outcome: Outcome::Valid,
            figures: Figures { tps: Some(0.1 + f64::from(n)), ..Figures::default() },
            proofs: Vec::new(),
            marks: Vec::new(),
            series: Vec::new(),
            raw: Vec::new(),
            profile: None,
        }
    }

    fn planned_nothing() -> Planned {
        let question = Question { title: "t".into(), baseline: None, margin: None, twins: Vec::new() };
        Planned { question, notes: Vec::new(), folder: ".".into(), changes: Changes::default(), trials: Vec::new() }
    }

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("evenkeel-bundle-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn records_come_back_and_a_torn_line_goes() {
        let path = folder("torn");
        let mut bundle = Bundle::create(&path, "x", &serde_json::json!({}), &planned_nothing()).unwrap();
        bundle.append(&record(1)).unwrap();
        bundle.append(&record(2)).unwrap();
        drop(bundle);
        let mut file = OpenOptions::new().append(true).open(path.join(RECORDS)).unwrap();
        file.write_all(b"{\"schema\":1,\"tri").unwrap();
        assert_eq!(records(&path).unwrap(), [record(1), record(2)]);
        let mut bundle = Bundle::open(&path).unwrap();
        bundle.append(&record(3)).unwrap();
        assert_eq!(records(&path).unwrap(), [record(1), record(2), record(3)]);
        assert!(Bundle::create(&path, "x", &serde_json::json!({}), &planned_nothing()).is_err());
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn the_last_record_of_a_trial_counts() {
        let path = folder("twice");
        let mut bundle = Bundle::create(&path, "x", &serde_json::json!({}), &planned_nothing()).unwrap();
        let worse = Record { outcome: Outcome::Invalid(vec!["data".into()]), ..record(1) };
        for r in [&record(1), &record(2), &worse] {
            bundle.append(r).unwrap();
        }
        assert_eq!(records(&path).unwrap(), [worse, record(2)]);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn verify_names_what_changed() {
        let path = folder("verify");
        let mut bundle = Bundle::create(&path, "x", &serde_json::json!({}), &planned_nothing()).unwrap();
        bundle.append(&record(1)).unwrap();
        fs::write(path.join("raw/a.txt"), "a").unwrap();
        assert!(verify(&path).is_err());
        bundle.seal().unwrap();
        fs::write(path.join("report.html"), "made again at will").unwrap();
        assert!(verify(&path).unwrap().holds());
        fs::write(path.join("raw/a.txt"), "b").unwrap();
        fs::write(path.join("raw/b.txt"), "b").unwrap();
        fs::remove_file(path.join(ENVIRONMENT)).unwrap();
        let seen = verify(&path).unwrap();
        assert_eq!(
            (seen.changed, seen.missing, seen.added),
            (vec!["raw/a.txt".to_string()], vec![ENVIRONMENT.to_string()], vec!["raw/b.txt".to_string()])
        );
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let path = folder("bad");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(RECORDS), "{}\n{}\n").unwrap();
        let error = records(&path).unwrap_err().to_string();
        assert!(error.contains("records.jsonl:1: not a record"), "{error}");
        fs::remove_dir_all(&path).unwrap();
    }
}
