//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub const HELP: &str = "\
usage: bench [run] [options]     measure, keep the figures, print the table
       bench peers [--rebuild]   build the peers that are missing, show which heaps are there
       bench list                show the workloads
       bench --from CSV [--draw] print the table of stored figures again

  --short              a small form of the whole: fewer peers and workloads, under 3 minutes
  --rounds N           every workload under every heap N times (5; with --short 3)
  --only WORK,..       these workloads only; a name stands for all its rows, 'set' for the rows of the mean
  --heaps HEAP,..      these heaps only
  --lib NAME=PATH[,VAR=VALUE..]
                       measure this library too, with these environment variables; may be repeated
  --subject NAME       the heap that is compared with its peers (evenkeel)
  --timeout SECONDS    end a trial that lasts longer (60; with --short 10)
  --seed N             seed of the order within a round (1)
  --out CSV            where the raw figures go
  --draw               draw the cliff to docs/cliff.svg";

pub enum Command {
    Run,
    Peers,
    List,
    From(PathBuf),
    Help,
}

/// A library named on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Library {
    pub name: String,
    pub path: PathBuf,
    pub env: Vec<(String, String)>,
}

pub struct Options {
    pub command: Command,
    pub short: bool,
    pub rounds: u32,
    pub only: Vec<String>,
    pub heaps: Vec<String>,
    pub libs: Vec<Library>,
    pub subject: String,
    pub timeout: Duration,
    pub seed: u64,
    pub out: Option<PathBuf>,
    pub draw: bool,
    pub rebuild: bool,
}

impl Options {
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            command: Command::Run,
            short: false,
            rounds: 0,
            only: vec![],
            heaps: vec![],
            libs: vec![],
            subject: "evenkeel".into(),
            timeout: Duration::ZERO,
            seed: 1,
            out: None,
            draw: false,
            rebuild: false,
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} wants a value"));
            match arg.as_str() {
                "run" => options.command = Command::Run,
                "peers" => options.command = Command::Peers,
                "list" | "--list" => options.command = Command::List,
                "help" | "-h" | "--help" => options.command = Command::Help,
                "--from" => options.command = Command::From(value()?.into()),
                "--short" => options.short = true,
                "--draw" => options.draw = true,
                "--rebuild" => options.rebuild = true,
                "--rounds" => options.rounds = number(&arg, &value()?)?,
                "--seed" => options.seed = number(&arg, &value()?)?,
                "--timeout" => options.timeout = Duration::from_secs(number(&arg, &value()?)?),
                "--only" => options.only.extend(list(&value()?)),
                "--heaps" => options.heaps.extend(list(&value()?)),
                "--subject" => options.subject = value()?,
                "--out" => options.out = Some(value()?.into()),
                "--lib" => options.libs.push(library(&value()?)?),
                _ => return Err(format!("unknown argument '{arg}'")),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.short { 3 } else { 5 };
        }
        if options.timeout.is_zero() {
            options.timeout = Duration::from_secs(if options.short { 10 } else { 60 });
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} wants a number, not '{text}'"))
}

fn list(text: &str) -> impl Iterator<Item = String> {
    text.split(',').filter(|s| !s.is_empty()).map(String::from)
}

fn library(text: &str) -> Result<Library, String> {
    let wrong = || format!("--lib wants NAME=PATH[,VAR=VALUE..], not '{text}'");
    let mut parts = text.split(',');
    let (name, path) = parts.next().and_then(|p| p.split_once('=')).ok_or_else(wrong)?;
    let mut env = vec![];
    for part in parts {
        let (var, value) = part.split_once('=').ok_or_else(wrong)?;
        env.push((var.to_string(), value.to_string()));
    }
    Ok(Library { name: name.into(), path: path.into(), env })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn defaults_depend_on_the_form() {
        let full = parse("").unwrap();
        assert_eq!((full.rounds, full.timeout.as_secs()), (5, 60));
        let short = parse("--short").unwrap();
        assert_eq!((short.rounds, short.timeout.as_secs()), (3, 10));
        assert_eq!(parse("--short --rounds 7").unwrap().rounds, 7);
    }

    #[test]
    fn a_library_may_bring_its_environment() {
        let options = parse("--lib cas=/x/lib.so,MODE=cas,A=b").unwrap();
        assert_eq!(options.libs[0].name, "cas");
        assert_eq!(options.libs[0].env[1], ("A".into(), "b".into()));
        assert!(parse("--lib nothing").is_err());
    }

    #[test]
    fn a_wrong_word_is_named() {
        assert!(parse("--round 3").err().unwrap().contains("--round"));
        assert!(parse("--rounds many").err().unwrap().contains("many"));
        assert!(parse("--rounds").err().unwrap().contains("value"));
    }
}
