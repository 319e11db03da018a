//! The command line. What clap refuses ends with exit code 2 and clap's own message.

use crate::oltp::{Plan, Shape};
use crate::wire::{Place, Server};
use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use harness::Depth;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  evenkeel-driver prepare --socket /run/mysqld/mysqld.sock --test tpcc --warehouses 4
  evenkeel-driver run --socket /run/mysqld/mysqld.sock --test tpcc --clients 8,64 --seconds 60 --warmup 10
  evenkeel-driver run --test oltp_read_only --tables 4 --table-size 25000 --clients 64 --rate 500
  evenkeel-driver check --test tpcc
  echo '{\"do\":\"run\",\"clients\":64,\"seconds\":2}' | evenkeel-driver serve --test oltp_point_select

Exit codes: 0 fine, 1 a check did not hold, 2 wrong use, 3 could not run.";

/// TPC-C and sysbench's OLTP tests over the MySQL protocol, thousands of clients in one process.
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Make the test's tables, fill them, check them; what was there under their names is dropped
    Prepare {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        making: Making,
    },
    /// Run the test, once for each client count, and check its tables after each
    Run {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        running: Running,
        /// Client counts, one run for each
        #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "8",
              value_parser = clap::value_parser!(u32).range(1..=65536))]
        clients: Vec<u32>,
        /// Length of the measured window of a run
        #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
        seconds: f64,
        /// Load before the window, once every client is connected
        #[arg(long, value_name = "S", default_value = "1", value_parser = warmup)]
        warmup: f64,
        /// Open loop: so many transactions a second, each counted from when it was due
        #[arg(long, value_name = "TPS", value_parser = rate)]
        rate: Option<f64>,
        /// No more than so many transactions, warm-up included: for comparing what is in the tables afterwards
        #[arg(long, value_name = "N")]
        most: Option<u64>,
        /// Print the events of `serve` instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Check the test's tables
    Check {
        #[command(flatten)]
        common: Common,
    },
    /// Read commands from stdin and answer on stdout, one JSON object a line, as the lab does
    Serve {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        running: Running,
        #[command(flatten)]
        making: Making,
        /// Prepare the tables first
        #[arg(long)]
        prepare: bool,
    },
}

#[derive(Group, Clone, Debug)]
pub struct Common {
    /// What to run
    #[arg(long, value_enum, value_name = "NAME")]
    pub test: TestName,

    /// Unix socket of the server
    #[arg(long, value_name = "FILE", default_value = "/run/mysqld/mysqld.sock", conflicts_with = "host")]
    pub socket: PathBuf,

    /// Host of the server, over TCP
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,

    #[arg(long, value_name = "N", default_value = "3306", requires = "host")]
    pub port: u16,

    #[arg(long, value_name = "NAME", default_value = "root")]
    pub user: String,

    /// Password; the environment hides it better than the command line
    #[arg(
        long,
        value_name = "TEXT",
        env = "MYSQL_PWD",
        default_value = "",
        hide_default_value = true,
        hide_env_values = true
    )]
    pub password: String,

    /// Database of the tables (tpcc; sbtest for sysbench's tests)
    #[arg(long, value_name = "NAME")]
    pub database: Option<String>,

    /// Isolation level of the clients, as SQL calls it; the server's own without it
    #[arg(long, value_name = "LEVEL", value_parser = isolation)]
    pub isolation: Option<String>,

    /// How much is checked after a load and after each run
    #[arg(long, value_enum, value_name = "DEPTH", default_value_t = Depth::Full)]
    pub checks: Depth,

    /// Seed of the rows and of the clients' choices
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    #[command(flatten)]
    pub shape: Shape,
}

#[derive(Group, Clone, Debug)]
pub struct Making {
    /// Engine of the tables
    #[arg(long, value_name = "NAME", default_value = "InnoDB", value_parser = engine)]
    pub engine: String,

    /// TPC-C: warehouses
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub warehouses: u32,

    /// TPC-C: one N-th of the standard's rows for each warehouse; quick to load, and no TPC-C any more
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub cut: u32,

    /// Connections that load at the same time [default: one for each CPU, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub loaders: Option<u32>,
}

#[derive(Group, Clone, Debug)]
pub struct Running {
    /// TPC-C: the five transactions as stored procedures
    #[arg(long)]
    pub procedures: bool,

    /// TPC-C: keying and think times, as the standard asks
    #[arg(long)]
    pub paced: bool,

    /// Threads that the clients share [default: one for each 4 CPUs, at least 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestName {
    Tpcc,
    Oltp(Plan),
}

impl ValueEnum for TestName {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            TestName::Tpcc,
            TestName::Oltp(Plan::ReadOnly),
            TestName::Oltp(Plan::ReadWrite),
            TestName::Oltp(Plan::WriteOnly),
            TestName::Oltp(Plan::PointSelect),
            TestName::Oltp(Plan::UpdateIndex),
            TestName::Oltp(Plan::UpdateNonIndex),
            TestName::Oltp(Plan::Insert),
            TestName::Oltp(Plan::Delete),
        ]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            TestName::Tpcc => Some(clap::builder::PossibleValue::new("tpcc")),
            TestName::Oltp(plan) => plan.to_possible_value(),
        }
    }
}

impl Common {
    pub fn server(&self) -> Server {
        let own = if self.test == TestName::Tpcc { "tpcc" } else { "sbtest" };
        Server {
            place: match &self.host {
                Some(host) => Place::Tcp(host.clone(), self.port),
                None => Place::Socket(self.socket.clone()),
            },
            user: self.user.clone(),
            password: self.password.clone(),
            database: self.database.clone().unwrap_or_else(|| own.into()),
        }
    }
}

impl Making {
    pub fn loaders(&self) -> u32 {
        self.loaders.unwrap_or_else(harness::loading::loaders)
    }
}

impl Running {
    pub fn threads(&self) -> u32 {
        self.threads.unwrap_or_else(|| (cpus() / 4).max(1))
    }
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

pub fn parse() -> Args {
    Args::parse()
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.01, 86_400.0)
}

fn warmup(text: &str) -> Result<f64, String> {
    number(text, 0.0, 86_400.0)
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, 0.001, 1e7)
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("say a number from {least} to {most}")),
    }
}

/// It becomes part of a statement.
fn engine(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { Ok(text.into()) } else { Err("say the name that SHOW ENGINES gives".into()) }
}

fn isolation(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 4] = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
    let wish = text.replace(['-', '_'], " ").to_uppercase();
    if LEVELS.contains(&wish.as_str()) { Ok(wish) } else { Err(format!("say one of {}", LEVELS.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn names_that_reach_sql_are_checked() {
        assert_eq!(isolation("read-committed"), Ok("READ COMMITTED".into()));
        assert!(isolation("none; DROP").is_err());
        assert!(engine("InnoDB").is_ok() && engine("InnoDB; DROP").is_err() && engine("").is_err());
        assert!(seconds("0").is_err() && warmup("0").is_ok() && rate("nan").is_err());
    }
}
