//! `evenkeel import`: published tables and logs as a folder that can be judged.

use crate::Ended;
use crate::screen;
use anyhow::{Context, Result};
use lab::bundle::{Bundle, Planned};
use lab::experiment::Changes;
use lab::import::{Source, import};
use lab::wrong::wrong;
use lab::{judge, report};
use std::fs;
use std::path::PathBuf;

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
        read.push((heap, path, text));
    }
    let sources: Vec<Source> = read.iter().map(|(heap, path, text)| Source { path, text, heap: *heap }).collect();
    let mut imported = import(&sources).map_err(|e| wrong(e.to_string()))?;
    if args.baseline.is_some() {
        imported.question.baseline.clone_from(&args.baseline);
    }
    if args.margin.is_some() {
        imported.question.margin = args.margin;
    }
    let kept;
    let folder = match &args.out {
        Some(folder) => folder,
        None => {
            kept = std::env::temp_dir().join(format!("evenkeel-import-{}", std::process::id()));
            &kept
        }
    };
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
    let judged = judge::judge(folder)?;
    print!("{}", report::terminal(&judged.page(), screen::width(), screen::color()));
    if args.out.is_some() {
        let page = folder.join("report.html");
        fs::write(&page, report::html(&judged.page())).with_context(|| format!("cannot write {}", page.display()))?;
        println!("Report: {}", page.display());
    } else {
        let _ = fs::remove_dir_all(folder);
    }
    Ok(Ended::Fine)
}
