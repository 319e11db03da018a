//! `evenkeel run`: any program on a heap.

use crate::Ended;
use anyhow::{Context, Result};
use lab::heaps;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Start a program on a heap; it takes the place of this one
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel run -- redis-server --port 7000
  evenkeel run --heap jemalloc -- mariadbd --defaults-file=my.cnf
  evenkeel run --heap ./libmine.so -- python3 script.py")]
pub struct Args {
    /// A heap's name (see `evenkeel heaps`) or the path of its library
    #[arg(long, value_name = "HEAP", default_value = "evenkeel")]
    heap: String,

    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub fn run(args: &Args) -> Result<Ended> {
    let heap = heaps::resolve(&args.heap, &heaps::find())?;
    let mut command = Command::new(&args.command[0]);
    heap.preload(&mut command);
    let error = command.args(&args.command[1..]).exec();
    Err(error).with_context(|| format!("cannot start {}", args.command[0].to_string_lossy()))
}
