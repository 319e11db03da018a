//! `evenkeel completions` and `evenkeel man`: made from the same definition as the options themselves.

use crate::{Ended, screen};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = "Example:\n  evenkeel completions bash > /etc/bash_completion.d/evenkeel")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Write the man pages: evenkeel.1 and one for each verb
#[derive(clap::Args)]
#[command(after_help = "Example:\n  evenkeel man --out /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Folder for the pages; without it, the main page goes to stdout
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs) -> Result<Ended> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "evenkeel", &mut text);
    screen::say(&String::from_utf8(text)?)?;
    Ok(Ended::Fine)
}

pub fn man(args: &ManArgs) -> Result<Ended> {
    match &args.out {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            clap_mangen::generate_to(crate::command(), folder)
                .with_context(|| format!("cannot write to {}", folder.display()))?;
        }
        None => {
            let mut text = Vec::new();
            // As `generate_to` does: `help` has no page of its own.
            clap_mangen::Man::new(crate::command().disable_help_subcommand(true)).render(&mut text)?;
            screen::say(&String::from_utf8(text)?)?;
        }
    }
    Ok(Ended::Fine)
}
