//! The lab's form: a long-lived process that answers commands on stdin with events on stdout, as a server answers a lab
//! that walks it through client counts.

use crate::Failure;
use crate::args::Args;
use crate::client::Work;
use crate::database::{self, Database};
use crate::event::{Event, Ready};
use crate::inbox::{Inbox, Next};
use crate::keys::Keys;
use crate::run::{self, Wish};
use serde::Deserialize;
use std::io::Write;
use std::time::{Duration, Instant};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Run(Wish),
    Settle { timeout_s: f64 },
    Renew,
    Check,
    Quit,
}

pub fn serve(args: &Args, mut inbox: Inbox) -> Result<(), Failure> {
    let start = Instant::now();
    let mut database = Database::open(args)?;
    if !database.prepare(args.rows, args.seed, &mut inbox)? {
        return Ok(());
    }
    tell(Event::Ready(Ready {
        tidesdb: tidesdb::TIDESDB_LINKED_VERSION,
        pid: std::process::id(),
        rows: args.rows,
        value_bytes: args.value_bytes,
        distribution: args.distribution.to_string(),
        writes: args.writes.to_string(),
        mix: args.mix.to_string(),
        range_rows: args.range_rows,
        result_kib: args.result,
        seed: args.seed,
        write_buffer_mib: args.write_buffer,
        cache_mib: args.cache,
        isolation: database::ISOLATION,
        durability: database::DURABILITY,
        prepare_s: start.elapsed().as_secs_f64(),
    }))?;
    inbox.listen()?;
    let work = work(args);
    while let Next::Line(line) = inbox.next() {
        if line.trim().is_empty() {
            continue;
        }
        let answer = match command(&line) {
            Ok(Command::Quit) => break,
            Ok(command) => answer(command, &mut database, work, args.seed, &mut inbox),
            Err(message) => Ok(Some(Event::Error { message })),
        };
        match answer {
            Ok(Some(event)) => tell(event)?,
            Ok(None) => break,
            Err(Failure::Run(message) | Failure::Use(message)) => tell(Event::Error { message })?,
        }
    }
    Ok(())
}

/// What every run of this process does.
pub fn work(args: &Args) -> Work {
    Work {
        mix: args.mix,
        keys: Keys::new(args.distribution, args.rows),
        writes: args.writes,
        rows: args.rows,
        range_rows: args.range_rows,
        value_bytes: args.value_bytes as usize,
        result_bytes: args.result as usize * 1024,
    }
}

fn command(line: &str) -> Result<Command, String> {
    let command: Command =
        serde_json::from_str(line).map_err(|e| format!("not a command: {e}; as in {{\"do\":\"check\"}}"))?;
    let inside = |name: &str, value: f64, least: f64, most: f64| {
        if (least..=most).contains(&value) { Ok(()) } else { Err(format!("{name} is {value}: say {least} to {most}")) }
    };
    match command {
        Command::Run(wish) => {
            inside("clients", wish.clients.into(), 1.0, 16384.0)?;
            inside("seconds", wish.seconds, 0.01, 86_400.0)?;
            inside("warmup_s", wish.warmup_s, 0.0, 3_600.0)?;
        }
        Command::Settle { timeout_s } => inside("timeout_s", timeout_s, 0.0, 3_600.0)?,
        Command::Renew | Command::Check | Command::Quit => {}
    }
    Ok(command)
}

/// Does one command; `None` if a signal came.
fn answer(
    command: Command,
    database: &mut Database,
    work: Work,
    seed: u64,
    inbox: &mut Inbox,
) -> Result<Option<Event>, Failure> {
    Ok(match command {
        Command::Run(wish) => {
            run::run(database, work, wish, inbox, &mut tell)?.map(|figures| Event::Result(Box::new(figures)))
        }
        Command::Settle { timeout_s } => {
            database.settle(Duration::from_secs_f64(timeout_s), inbox)?.map(Event::Settled)
        }
        Command::Renew => database.renew(work.rows, seed, inbox)?.map(Event::Renewed),
        Command::Check => database.check(inbox)?.map(Event::Checked),
        Command::Quit => None,
    })
}

/// Fails when nobody reads any more; a run then ends within a second.
fn tell(event: Event) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut line = serde_json::to_string(&event).map_err(|e| Failure::Run(format!("cannot write an event: {e}")))?;
    line.push('\n');
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::Run(format!("cannot write to stdout: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let wish = Wish { clients: 64, warmup_s: 0.3, seconds: 2.0, seed: 7 };
        assert_eq!(command(r#"{"do":"run","clients":64,"warmup_s":0.3,"seconds":2,"seed":7}"#), Ok(Command::Run(wish)));
        assert_eq!(
            command(r#"{"do":"run","clients":64,"seconds":2}"#),
            Ok(Command::Run(Wish { warmup_s: 0.0, seed: 0, ..wish }))
        );
        assert_eq!(command(r#"{"do":"settle","timeout_s":5}"#), Ok(Command::Settle { timeout_s: 5.0 }));
        assert_eq!(command(r#" {"do":"check"} "#), Ok(Command::Check));
        assert_eq!(command(r#"{"do":"renew"}"#), Ok(Command::Renew));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for line in [
            "",
            "run",
            "{}",
            r#"{"do":"dance"}"#,
            r#"{"do":"run","clients":1}"#,
            r#"{"do":"run","clients":0,"seconds":1}"#,
            r#"{"do":"run","clients":20000,"seconds":1}"#,
            r#"{"do":"run","clients":1,"seconds":-1}"#,
            r#"{"do":"run","clients":1,"seconds":1,"warmup_s":1e9}"#,
            r#"{"do":"run","clients":1,"seconds":1,"threads":2}"#,
            r#"{"do":"settle"}"#,
        ] {
            assert!(command(line).is_err(), "{line}");
        }
    }
}
