//! The lab's form: a long-lived process that answers commands on stdin with events on stdout.

use crate::Failure;
use crate::args::{Common, Making, Running};
use crate::bench::{self, Bench};
use crate::event::{Event, Renewed};
use crate::inbox::{Inbox, Next};
use crate::run::Wish;
use serde::Deserialize;
use std::io::Write;
use std::time::{Duration, Instant};
use tpcc::check::Age;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Run(Wish),
    Settle { timeout_s: f64 },
    Renew,
    Check,
    Quit,
}

pub fn serve(
    common: &Common,
    running: &Running,
    making: &Making,
    prepare: bool,
    mut inbox: Inbox,
) -> Result<(), Failure> {
    let start = Instant::now();
    if prepare && !bench::prepare(common, making, &mut inbox)? {
        return Ok(());
    }
    let mut bench = Bench::open(common, running)?;
    // Fresh are the tables until the first run.
    let mut age = if prepare { Age::Fresh } else { Age::Used };
    tell(Event::Ready(Box::new(bench.ready(start.elapsed().as_secs_f64()))))?;
    inbox.listen()?;
    while let Next::Line(line) = inbox.next() {
        if line.trim().is_empty() {
            continue;
        }
        let answer = match command(&line) {
            Ok(Command::Quit) => break,
            Ok(Command::Run(wish)) => {
                age = Age::Used;
                bench.run(wish, &mut inbox, &mut tell).map(|done| done.map(|figures| Event::Result(Box::new(figures))))
            }
            Ok(Command::Settle { timeout_s }) => {
                let settled = bench.settle(Duration::from_secs_f64(timeout_s), &mut inbox);
                settled.map(|done| done.map(Event::Settled))
            }
            Ok(Command::Renew) => {
                let start = Instant::now();
                bench.renew(common, making, &mut inbox).map(|done| {
                    age = Age::Fresh;
                    done.then(|| Event::Renewed(Renewed { prepare_s: start.elapsed().as_secs_f64() }))
                })
            }
            Ok(Command::Check) => bench.check(age).map(|checked| Some(Event::Checked(checked))),
            Err(message) => Ok(Some(Event::Error { message })),
        };
        match answer {
            Ok(Some(event)) => tell(event)?,
            Ok(None) => break,
            Err(Failure::Run(message) | Failure::Use(message) | Failure::Broken(message)) => {
                tell(Event::Error { message })?;
            }
        }
    }
    Ok(())
}

fn command(line: &str) -> Result<Command, String> {
    let command: Command =
        serde_json::from_str(line).map_err(|e| format!("not a command: {e}; as in {{\"do\":\"check\"}}"))?;
    let inside = |name: &str, value: f64, least: f64, most: f64| {
        if (least..=most).contains(&value) { Ok(()) } else { Err(format!("{name} is {value}: say {least} to {most}")) }
    };
    match command {
        Command::Run(wish) => {
            inside("clients", wish.clients.into(), 1.0, 65_536.0)?;
            inside("seconds", wish.seconds, 0.01, 86_400.0)?;
            inside("warmup_s", wish.warmup_s, 0.0, 86_400.0)?;
            inside("rate", wish.rate.unwrap_or(1.0), 0.001, 1e7)?;
        }
        Command::Settle { timeout_s } => inside("timeout_s", timeout_s, 0.0, 3_600.0)?,
        Command::Renew | Command::Check | Command::Quit => {}
    }
    Ok(command)
}

/// Fails when nobody reads any more; a run then ends within a second.
pub fn tell(event: Event) -> Result<(), Failure> {
    let mut line = serde_json::to_string(&event).map_err(|e| Failure::Run(format!("cannot write an event: {e}")))?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::Run(format!("cannot write to stdout: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let wish = Wish { clients: 64, warmup_s: 0.3, seconds: 2.0, seed: 7, rate: None, most: None };
        assert_eq!(command(r#"{"do":"run","clients":64,"warmup_s":0.3,"seconds":2,"seed":7}"#), Ok(Command::Run(wish)));
        let open = Wish { rate: Some(100.0), ..wish };
        let line = r#"{"do":"run","clients":64,"warmup_s":0.3,"seconds":2,"seed":7,"rate":100}"#;
        assert_eq!(command(line), Ok(Command::Run(open)));
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
            r#"{"do":"run","clients":70000,"seconds":1}"#,
            r#"{"do":"run","clients":1,"seconds":-1}"#,
            r#"{"do":"run","clients":1,"seconds":1,"rate":0}"#,
            r#"{"do":"run","clients":1,"seconds":1,"threads":2}"#,
            r#"{"do":"settle"}"#,
        ] {
            assert!(command(line).is_err(), "{line}");
        }
    }
}
