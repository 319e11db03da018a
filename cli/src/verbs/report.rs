//! `evenkeel report`: the report of a folder, in any of its forms.

use crate::{Ended, screen};
use anyhow::{Context, Result};
use lab::judge::{self, Judged};
use lab::report;
use std::fs;
use std::path::PathBuf;

/// Write the report of a sweep again, from its records alone
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel report results/try-20261121-101500                     writes report.html there, prints the table
  evenkeel report results/try-20261121-101500 --format csv        one row a figure, to stdout
  evenkeel report DIR --format markdown --out verdict.md
  evenkeel report DIR --fail-on worse,cliff                       for scripts: exit code 1")]
pub struct Args {
    /// A sweep's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The form; without it, report.html is written into the folder and the table printed
    #[arg(long, value_enum)]
    format: Option<Form>,

    /// File to write instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// End with exit code 1 on such a verdict
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    fail_on: Vec<FailOn>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Form {
    Html,
    Terminal,
    Markdown,
    Csv,
    Json,
    /// The main curve alone
    Svg,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum FailOn {
    /// A heap is worse than the baseline in throughput, at any client count
    Worse,
    /// A curve has a cliff
    Cliff,
    /// A trial is invalid or failed
    Invalid,
}

pub fn run(args: &Args) -> Result<Ended> {
    let judged = judge::judge(&args.folder)?;
    let page = judged.page();
    let width = screen::width();
    let text = match args.format {
        None => {
            let file = args.out.clone().unwrap_or_else(|| args.folder.join("report.html"));
            write(&file, &report::html(&page))?;
            screen::say(&report::terminal(&page, width, screen::color()))?;
            screen::say(&format!("Report: {}\n", file.display()))?;
            return Ok(fails(&args.fail_on, &judged));
        }
        Some(Form::Html) => report::html(&page),
        Some(Form::Terminal) => report::terminal(&page, width, screen::color() && args.out.is_none()),
        Some(Form::Markdown) => report::markdown(&page),
        Some(Form::Csv) => report::csv(&page),
        Some(Form::Json) => report::json(&page),
        Some(Form::Svg) => {
            let test = judged.analysis.tests.first().context("no trial counts: there is nothing to draw")?;
            report::curve_svg(test, &judged.analysis.title).context("there is nothing to draw")?
        }
    };
    match &args.out {
        Some(file) => write(file, &text)?,
        None => screen::say(&text)?,
    }
    Ok(fails(&args.fail_on, &judged))
}

fn write(file: &PathBuf, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

pub fn fails(on: &[FailOn], judged: &Judged) -> Ended {
    let fails = on.iter().any(|f| match f {
        FailOn::Worse => judged.any_worse(),
        FailOn::Cliff => judged.any_cliff(),
        FailOn::Invalid => !judged.analysis.not_counted.is_empty(),
    });
    if fails { Ended::Fails } else { Ended::Fine }
}
