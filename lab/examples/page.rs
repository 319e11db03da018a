//! Writes every form of the report of a sweep's folder into another folder, or of synthetic records:
//!
//!     cargo run -p lab --release --example page -- results/DIR out
//!     cargo run -p lab --release --example page -- --synthetic out

#[path = "../tests/invented/mod.rs"]
mod invented;

use lab::analysis::{Question, analyse};
use lab::record::Record;
use lab::report::{self, Page};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else {
        return Err("give a sweep's folder (or --synthetic) and one to write to".into());
    };
    let read =
        |name: &str| std::fs::read_to_string(Path::new(from).join(name)).map_err(|e| format!("{from}/{name}: {e}"));
    let (records, environment, experiment, folder, title) = match from.as_str() {
        "--synthetic" => {
            let sweep = invented::Sweep::default();
            (
                sweep.records(),
                invented::environment(),
                invented::EXPERIMENT.to_string(),
                "results/synthetic",
                invented::TITLE,
            )
        }
        _ => {
            let lines: Result<Vec<Record>, _> = read("records.jsonl")?.lines().map(serde_json::from_str).collect();
            let environment = serde_json::from_str(&read("environment.json")?)?;
            let name = Path::new(from).file_name().and_then(|n| n.to_str()).unwrap_or(from);
            (lines?, environment, read("experiment.toml")?, from.as_str(), name)
        }
    };
    let question = Question { title: title.into(), baseline: None, margin: None, twins: vec![] };
    let began = Instant::now();
    let analysis = analyse(&question, &records);
    println!("{} trials analysed in {:.1?}", records.len(), began.elapsed());
    let redo = [format!("evenkeel report {folder}"), format!("evenkeel sweep {folder}/experiment.toml")];
    let page = Page {
        why: None,
        analysis: &analysis,
        records: &records,
        experiment_toml: &experiment,
        environment: &environment,
        folder,
        redo: &redo,
    };
    std::fs::create_dir_all(to)?;
    let began = Instant::now();
    let html = report::html(&page);
    println!("page of {} kB in {:.1?}", html.len() / 1000, began.elapsed());
    let put = |name: &str, text: &str| std::fs::write(Path::new(to).join(name), text);
    put("report.html", &html)?;
    put("report.md", &report::markdown(&page))?;
    put("report.csv", &report::csv(&page))?;
    put("report.json", &report::json(&page))?;
    for (i, test) in analysis.tests.iter().enumerate() {
        if let Some(svg) = report::curve_svg(test, &test.test) {
            put(&format!("curve-{i}.svg"), &svg)?;
        }
    }
    for width in [60, 80, 120] {
        put(&format!("terminal-{width}.txt"), &report::terminal(&page, width, false))?;
    }
    Ok(())
}
