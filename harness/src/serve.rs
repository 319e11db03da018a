//! The lab's form: a long-lived process that answers commands on stdin with events on stdout, each after the one before is
//! done. What is no command is answered with `error`, and work goes on.

use crate::Failure;
use crate::event::{Checked, Event, Renewed, Settled, tell};
use crate::inbox::{Inbox, Next};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is served. `None` for an answer says that a signal came.
pub trait Load {
    /// What a run is told.
    type Wish: DeserializeOwned;
    type Second: Serialize;
    type Figures: Serialize;

    /// What is wrong with the wish.
    fn refuse(wish: &Self::Wish) -> Result<(), String>;
    fn run(
        &mut self,
        wish: Self::Wish,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(Self::Second) -> Result<(), Failure>,
    ) -> Result<Option<Self::Figures>, Failure>;
    fn settle(&mut self, at_most: Duration, inbox: &mut Inbox) -> Result<Option<Settled>, Failure>;
    /// Gives the next run the data as they were at first.
    fn renew(&mut self, inbox: &mut Inbox) -> Result<Option<Renewed>, Failure>;
    fn check(&mut self, inbox: &mut Inbox) -> Result<Option<Checked>, Failure>;
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Command<W> {
    Run(W),
    Settle { timeout_s: f64 },
    Renew,
    Check,
    Quit,
}

/// Says `ready`, then answers until the end of stdin, `quit` or a signal.
pub fn serve<L: Load>(load: &mut L, ready: impl Serialize, mut inbox: Inbox) -> Result<(), Failure> {
    type Said<R, L> = Event<R, <L as Load>::Second, <L as Load>::Figures>;
    tell(&Said::<_, L>::Ready(ready))?;
    inbox.listen()?;
    while let Next::Line(line) = inbox.read() {
        if line.trim().is_empty() {
            continue;
        }
        let answer: Result<Option<Said<(), L>>, Failure> = match command::<L>(&line) {
            Ok(Command::Quit) => break,
            Ok(Command::Run(wish)) => {
                let mut second = |second| tell(&Said::<(), L>::Second(second));
                load.run(wish, &mut inbox, &mut second).map(|done| done.map(Event::Result))
            }
            Ok(Command::Settle { timeout_s }) => {
                load.settle(Duration::from_secs_f64(timeout_s), &mut inbox).map(|done| done.map(Event::Settled))
            }
            Ok(Command::Renew) => load.renew(&mut inbox).map(|done| done.map(Event::Renewed)),
            Ok(Command::Check) => load.check(&mut inbox).map(|done| done.map(Event::Checked)),
            Err(message) => Ok(Some(Event::Error { message })),
        };
        match answer {
            Ok(Some(event)) => tell(&event)?,
            Ok(None) => break,
            Err(failure) => tell(&Said::<(), L>::Error { message: failure.what() })?,
        }
    }
    Ok(())
}

fn command<L: Load>(line: &str) -> Result<Command<L::Wish>, String> {
    let command: Command<L::Wish> =
        serde_json::from_str(line).map_err(|e| format!("not a command: {e}; as in {{\"do\":\"check\"}}"))?;
    match &command {
        Command::Run(wish) => L::refuse(wish)?,
        Command::Settle { timeout_s } => inside("timeout_s", *timeout_s, 0.0, 3_600.0)?,
        Command::Renew | Command::Check | Command::Quit => {}
    }
    Ok(command)
}

/// For `Load::refuse`.
pub fn inside(name: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(format!("{name} is {value}: say {least} to {most}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct None;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Wish {
        clients: u32,
        #[serde(default)]
        seed: u64,
    }

    impl Load for None {
        type Wish = Wish;
        type Second = ();
        type Figures = ();

        fn refuse(wish: &Wish) -> Result<(), String> {
            inside("clients", wish.clients.into(), 1.0, 8.0)
        }
        fn run(
            &mut self,
            _: Wish,
            _: &mut Inbox,
            _: &mut dyn FnMut(()) -> Result<(), Failure>,
        ) -> Result<Option<()>, Failure> {
            unreachable!("only commands are read here")
        }
        fn settle(&mut self, _: Duration, _: &mut Inbox) -> Result<Option<Settled>, Failure> {
            unreachable!("only commands are read here")
        }
        fn renew(&mut self, _: &mut Inbox) -> Result<Option<Renewed>, Failure> {
            unreachable!("only commands are read here")
        }
        fn check(&mut self, _: &mut Inbox) -> Result<Option<Checked>, Failure> {
            unreachable!("only commands are read here")
        }
    }

    #[test]
    fn commands_are_read() {
        let run = |clients, seed| Ok(Command::Run(Wish { clients, seed }));
        assert_eq!(command::<None>(r#"{"do":"run","clients":4,"seed":7}"#), run(4, 7));
        assert_eq!(command::<None>(r#"{"do":"run","clients":4}"#), run(4, 0));
        assert_eq!(command::<None>(r#"{"do":"settle","timeout_s":5}"#), Ok(Command::Settle { timeout_s: 5.0 }));
        assert_eq!(command::<None>(r#" {"do":"check"} "#), Ok(Command::Check));
        assert_eq!(command::<None>(r#"{"do":"renew"}"#), Ok(Command::Renew));
        assert_eq!(command::<None>(r#"{"do":"quit"}"#), Ok(Command::Quit));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for line in [
            "",
            "run",
            "{}",
            r#"{"do":"dance"}"#,
            r#"{"do":"run"}"#,
            r#"{"do":"run","clients":0}"#,
            r#"{"do":"run","clients":9}"#,
            r#"{"do":"run","clients":1,"threads":2}"#,
            r#"{"do":"settle"}"#,
            r#"{"do":"settle","timeout_s":-1}"#,
        ] {
            assert!(command::<None>(line).is_err(), "{line}");
        }
    }
}
