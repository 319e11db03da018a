//! The command line. What clap refuses ends with exit code 2 and clap's own message.

use crate::keys::{Distribution, Writes};
use crate::mix::Mix;
use crate::row;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args as Group, CommandFactory, FromArgMatches, Parser, ValueEnum};
use harness::Depth;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  evenkeel-embedded --dir /tmp/load --clients 8 --seconds 5
  evenkeel-embedded --dir /tmp/load --clients 2,64,512 --seconds 2 --distribution zipf
  LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 evenkeel-embedded --dir /tmp/load --clients 64
  evenkeel-embedded --dir /tmp/load --test tpcc --warehouses 4 --clients 8,64 --seconds 60 --warmup 10
  echo '{\"do\":\"run\",\"clients\":64,\"seconds\":2}' | evenkeel-embedded --dir /tmp/load --serve

oltp: a transaction begins under snapshot isolation, does the operations of --mix, and commits; tpcc: the
five transactions of TPC-C, each one transaction of TidesDB under snapshot isolation. A conflict is retried and counted.
Durability is NONE: a commit does not wait for the disk, and a crash may lose it.

Exit codes: 0 fine, 2 wrong use, 3 could not run (or the check at the end did not hold).";

/// An OLTP load or TPC-C on TidesDB in one process, to be run under any heap by LD_PRELOAD.
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    /// Private data directory: created, and removed at the end; an existing one must be empty or left by this program
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,

    /// What to run: one table of rows, or TPC-C
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Test::Oltp)]
    pub test: Test,

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

    #[command(flatten)]
    pub tpcc: Tpcc,

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Test {
    Oltp,
    Tpcc,
}

/// What only TPC-C asks for.
#[derive(Group, Clone, Debug)]
pub struct Tpcc {
    /// TPC-C: warehouses
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub warehouses: u32,

    /// TPC-C: one N-th of the standard's rows for each warehouse; quick to load, and no TPC-C any more
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub cut: u32,

    /// TPC-C: keying and think times, as the standard asks
    #[arg(long)]
    pub paced: bool,

    /// TPC-C: how much is checked after a load and after each run
    #[arg(long, value_enum, value_name = "DEPTH", default_value_t = Depth::Full)]
    pub checks: Depth,

    /// TPC-C: keep the loaded tables here, and copy them from here if an earlier call has kept the same ones
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,

    /// TPC-C: threads that load at the same time [default: one for each CPU, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub loaders: Option<u32>,
}

/// Options that only one test has, by their long names.
const OLTP: [&str; 7] = ["rows", "value_bytes", "distribution", "writes", "mix", "range_rows", "result"];
const TPCC: [&str; 6] = ["warehouses", "cut", "paced", "checks", "keep", "loaders"];

pub fn parse() -> Args {
    let matches = Args::command().get_matches();
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    let (others, name) = match args.test {
        Test::Oltp => (&TPCC[..], "tpcc"),
        Test::Tpcc => (&OLTP[..], "oltp"),
    };
    let said = |id: &&&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    if let Some(id) = others.iter().find(said) {
        let what = format!("--{} is for --test {name}", id.replace('_', "-"));
        Args::command().error(ErrorKind::ArgumentConflict, what).exit();
    }
    args
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        let ids: Vec<_> = Args::command().get_arguments().map(|arg| arg.get_id().to_string()).collect();
        assert!(OLTP.iter().chain(&TPCC).all(|id| ids.iter().any(|known| known == id)), "{ids:?}");
    }
}
