//! `evenkeel import`: published tables and logs as a folder that can be judged.

use crate::{Ended, screen};
use anyhow::{Context, Result};
use lab::analysis::{Analysis, analyse};
use lab::bundle::{Bundle, Planned};
use lab::digest;
use lab::experiment::Changes;
use lab::import::{Imported, Source, import};
use lab::judge::{self, Judged};
use lab::report;
use lab::wrong::wrong;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Read a published CSV, sysbench logs or HammerDB results, and judge them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel import experiments/published/segment-heap-sysbench.csv
  evenkeel import glibc=run1.log glibc=run2.log jemalloc=run3.log --out results/mine

NAME=FILE says which heap a file was measured under, where the file does not say it.")]
pub struct Args {
    /// Files, or NAME=FILE
    #[arg(value_name = "[NAME=]FILE", required = true)]
    files: Vec<String>,

    /// Keep the records in this new folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// The variant that the others are compared with
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,

    /// A difference that would not matter, as a fraction
    #[arg(long, value_name = "FRACTION")]
    margin: Option<f64>,
}

pub fn run(args: &Args) -> Result<Ended> {
    let mut read = Vec::new();
    for file in &args.files {
        let (heap, path) = match file.split_once('=') {
            Some((heap, path)) if !heap.contains('/') => (Some(heap), path),
            _ => (None, file.as_str()),
        };
        let text = fs::read_to_string(path).map_err(|e| wrong(format!("{path}: {e}")))?;
        if text.lines().next().is_some_and(|head| head.split(',').any(|c| c.trim() == "frame")) {
            return Err(wrong(format!("{path} is a table of frames, not of a sweep; `evenkeel why {path}` reads it")));
        }
        read.push((heap, path, text));
    }
    let sums = verified(&read.iter().map(|(_, path, _)| Path::new(*path)).collect::<Vec<_>>())?;
    let sources: Vec<Source> = read.iter().map(|(heap, path, text)| Source { path, text, heap: *heap }).collect();
    let mut imported = import(&sources).map_err(|e| wrong(e.to_string()))?;
    if let Some(margin) = args.margin.filter(|m| !(0.0..1.0).contains(m)) {
        return Err(wrong(format!("--margin {margin} is no fraction: 0.05 means 5 %")));
    }
    imported.notes.extend(sums);
    imported.question.margin = args.margin.or(imported.question.margin);
    if let Some(name) = &args.baseline {
        imported.question.baseline = Some(name.clone());
        known(name, &analyse(&imported.question, &imported.records))?;
    }
    match &args.out {
        Some(folder) => {
            let judged = keep(args, imported, folder)?;
            let page = folder.join("report.html");
            fs::write(&page, report::html(&judged.page()))
                .with_context(|| format!("cannot write {}", page.display()))?;
            show(&judged)?;
            screen::say(&format!("Report: {}\n", page.display()))?;
        }
        None => {
            let folder = std::env::temp_dir().join(format!("evenkeel-import-{}", std::process::id()));
            let judged = keep(args, imported, &folder);
            // Nothing is to be kept of it.
            let _ = fs::remove_dir_all(&folder);
            show(&judged?)?;
        }
    }
    Ok(Ended::Fine)
}

/// Where a SHA256SUMS lies beside the files (as `sha256sum` writes it), each must be what it says: a note if so, an error if not.
fn verified(files: &[&Path]) -> Result<Option<String>> {
    let mut found = 0;
    for file in files {
        let sums = file.with_file_name("SHA256SUMS");
        let Ok(text) = fs::read_to_string(&sums) else { continue };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let wanted = text.lines().find_map(|l| l.split_once("  ").filter(|(_, n)| *n == name).map(|(hash, _)| hash));
        let Some(wanted) = wanted else { continue };
        if digest::of_file(file)? != wanted {
            return Err(wrong(format!(
                "{} is not the file that {} names: its SHA-256 differs",
                file.display(),
                sums.display()
            )));
        }
        found += 1;
    }
    let all = if found == files.len() { String::new() } else { format!(" of {}", files.len()) };
    Ok((found > 0).then(|| format!("{found}{all} files have the SHA-256 that the SHA256SUMS beside them says.")))
}

fn show(judged: &Judged) -> Result<()> {
    screen::say(&report::terminal(&judged.page(), screen::width(), screen::color()))
}

/// An error if no test has a variant of this name.
fn known(baseline: &str, analysis: &Analysis) -> Result<()> {
    if analysis.tests.iter().any(|t| t.baseline == baseline) {
        return Ok(());
    }
    let variants: BTreeSet<&str> = analysis.tests.iter().flat_map(|t| &t.curves).map(|c| c.variant.as_str()).collect();
    let variants: Vec<&str> = variants.into_iter().collect();
    Err(wrong(format!("--baseline {baseline:?} is not in these files; they hold {}", variants.join(", "))))
}

/// Writes the records into a folder as a sweep's, and judges that.
fn keep(args: &Args, imported: Imported, folder: &Path) -> Result<Judged> {
    let planned = Planned {
        question: imported.question,
        notes: imported.notes,
        folder: PathBuf::from("."),
        changes: Changes::default(),
        trials: imported.records.iter().map(|r| r.trial.clone()).collect(),
    };
    let from: Vec<&str> = args.files.iter().map(String::as_str).collect();
    let mut bundle = Bundle::create(
        folder,
        &format!("# imported from {}\n", from.join(", ")),
        &serde_json::json!({"imported_from": from}),
        &planned,
    )?;
    for record in &imported.records {
        bundle.append(record)?;
    }
    bundle.seal()?;
    judge::judge(folder)
}
