//! The command line. What clap refuses ends with exit code 2 and clap's own message.

use crate::keys::{Distribution, Writes};
use crate::mix::Mix;
use crate::row;
use clap::Parser;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  evenkeel-embedded --dir /tmp/load --clients 8 --seconds 5
  evenkeel-embedded --dir /tmp/load --clients 2,64,512 --seconds 2 --distribution zipf
  LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 evenkeel-embedded --dir /tmp/load --clients 64
  echo '{\"do\":\"run\",\"clients\":64,\"seconds\":2}' | evenkeel-embedded --dir /tmp/load --serve

A transaction begins under snapshot isolation, does the operations of --mix, and commits; a conflict is retried and counted.
Durability is NONE: a commit does not wait for the disk, and a crash may lose it.

Exit codes: 0 fine, 2 wrong use, 3 could not run (or the check at the end did not hold).";

/// An OLTP load on TidesDB in one process, to be run under any heap by LD_PRELOAD.
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    /// Private data directory: created, and removed at the end; an existing one must be empty or left by this program
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,

    /// Read commands from stdin and answer on stdout, one JSON object a line, as the lab does
    #[arg(long, conflicts_with_all = ["clients", "seconds", "warmup"])]
    pub serve: bool,

    /// Client counts, one run for each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "8",
          value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub clients: Vec<u32>,

    /// Length of the measured window of a run
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    pub seconds: f64,

    /// Load before the window, once every client is connected
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = warmup)]
    pub warmup: f64,

    /// Rows of the table
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rows: u64,

    /// Bytes of a row (sysbench's sbtest has 188)
    #[arg(long, value_name = "BYTES", default_value = "188",
          value_parser = clap::value_parser!(u32).range(row::MIN as i64..=row::MAX as i64))]
    pub value_bytes: u32,

    /// Which rows are asked for: all alike; zipf with exponent 0.8; pareto with 80 % of requests on 20 % of rows
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub distribution: Distribution,

    /// Which rows a client updates, deletes and inserts: of its own share, so that no two transactions conflict, or any
    #[arg(long, value_enum, default_value_t = Writes::Own)]
    pub writes: Writes,

    /// Operations of one transaction
    #[arg(long, value_name = "KIND=N,...", default_value_t = Mix::default())]
    pub mix: Mix,

    /// Rows of one range read
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub range_rows: u64,

    /// Buffer in which one range read gathers its rows, taken from the heap and given back each time; 0: none
    #[arg(long, value_name = "KIB", default_value = "32", value_parser = clap::value_parser!(u32).range(0..=65536))]
    pub result: u32,

    /// Seed of the rows' content and of the clients' choices
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// TidesDB's memtable: size at which it is flushed (TidesDB's own default is 64)
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub write_buffer: u32,

    /// TidesDB's block cache (TidesDB's own default is 64)
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub cache: u32,
}

pub fn parse() -> Args {
    Args::parse()
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.01..=86_400.0).contains(&s) => Ok(s),
        _ => Err("say seconds between 0.01 and 86400".into()),
    }
}

fn warmup(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=3_600.0).contains(&s) => Ok(s),
        _ => Err("say seconds between 0 and 3600".into()),
    }
}
