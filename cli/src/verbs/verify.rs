//! `evenkeel verify`: whether a folder is what the sweep left.

use crate::{Ended, screen};
use anyhow::Result;
use lab::bundle;
use std::path::PathBuf;

/// Compare a sweep's folder with its manifest, and name every file that changed
#[derive(clap::Args)]
#[command(after_help = "Example:\n  evenkeel verify results/try-20261121-101500\n\nExit code 1 if anything changed. \
`sha256sum -c manifest.sha256` in the folder does the same for what is there.")]
pub struct Args {
    /// A sweep's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn run(args: &Args) -> Result<Ended> {
    let seen = bundle::verify(&args.folder)?;
    for (what, names) in [("changed", &seen.changed), ("missing", &seen.missing), ("added", &seen.added)] {
        for name in names {
            screen::say(&format!("{what}: {name}\n"))?;
        }
    }
    if seen.holds() {
        screen::say(&format!("{} files, all as the sweep left them\n", seen.files))?;
        return Ok(Ended::Fine);
    }
    Ok(Ended::Fails)
}
