//! The terminal: what is printed on it, its width, whether it takes colour, and the progress of a sweep on it.

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use lab::plan::{Life, Plan, Trial};
use lab::record::{Outcome, Record};
use lab::sweep::Progress;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::{Duration, Instant};

/// An answer, on stdout. A reader who has seen enough (`| head`) is not an error.
pub fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        said => said.context("cannot write to stdout"),
    }
}

/// A word beside the answer, on stderr. A sweep does not end because its terminal is gone.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Columns: what COLUMNS says, else those of stdout, else 100.
pub fn width() -> usize {
    let wish = std::env::var("COLUMNS").ok().and_then(|v| v.parse().ok()).filter(|w| *w > 0);
    let seen = || terminal_size::terminal_size_of(io::stdout()).map(|(w, _)| usize::from(w.0));
    wish.or_else(seen).unwrap_or(100).max(40)
}

/// <https://no-color.org>
pub fn color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// What runs now, rounds done, time left; lines instead of a bar where stderr is no terminal. What fails is always said.
pub struct Bar {
    bar: Option<ProgressBar>,
    quiet: bool,
    rounds: u32,
    trials: u64,
    done: u64,
    begun: Instant,
    now: String,
    seconds_a_trial: f64,
}

impl Bar {
    pub fn new(plan: &Plan, already: usize, quiet: bool) -> Bar {
        let trials = plan.trials().count() as u64;
        let bar = (io::stderr().is_terminal() && !quiet).then(|| {
            let bar = ProgressBar::new(trials);
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_position(already as u64);
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let seconds_a_trial = plan.seconds() / trials.max(1) as f64;
        let mut shown = Bar {
            bar,
            quiet,
            rounds: plan.rounds(),
            trials,
            done: 0,
            begun: Instant::now(),
            now: String::new(),
            seconds_a_trial,
        };
        shown.trials -= already as u64;
        shown
    }

    /// Time left: what the plan expects, corrected by how it went so far.
    fn left(&self) -> String {
        let spent = self.begun.elapsed().as_secs_f64();
        // The plan's own expectation weighs as much as ten trials.
        let a_trial = (spent + 10.0 * self.seconds_a_trial) / (self.done as f64 + 10.0);
        let left = a_trial * (self.trials - self.done) as f64;
        format!("{} left", span(left))
    }

    fn show(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}, {}", self.now, self.left()));
        }
    }

    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn starts(&mut self, life: &Life) {
        self.now = format!("round {}/{}: {} starts", life.round, self.rounds, variant(life));
        self.show();
        if self.bar.is_none() && !self.quiet {
            note(&format!("round {}/{}: {}, {}", life.round, self.rounds, variant(life), self.left()));
        }
    }

    fn runs(&mut self, life: &Life, trial: &Trial) {
        let clients = clients(trial.cell.clients);
        self.now = format!("round {}/{}: {}, {clients}", life.round, self.rounds, variant(life));
        self.show();
    }

    fn done(&mut self, record: &Record) {
        self.done += 1;
        let why = match &record.outcome {
            Outcome::Valid => None,
            Outcome::Invalid(why) => Some(format!("invalid: {}", why.join("; "))),
            Outcome::Failed(why) => Some(format!("failed: {why}")),
        };
        if let Some(why) = why {
            let line = format!("{}, {}: {why}", record.cell.heap, clients(record.cell.clients));
            match &self.bar {
                Some(bar) => bar.println(line),
                None => note(&line),
            }
        }
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        self.show();
    }
}

fn clients(count: u32) -> String {
    format!("{count} client{}", if count == 1 { "" } else { "s" })
}

pub fn variant(life: &Life) -> String {
    let cell = &life.cell;
    [&cell.heap, &cell.server, &cell.engine, &cell.config, &cell.cpus, &cell.test]
        .into_iter()
        .filter(|p| !p.is_empty())
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// `3 min 20 s`.
pub fn span(seconds: f64) -> String {
    let s = seconds.round() as u64;
    match (s / 3600, s % 3600 / 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn spans() {
        assert_eq!([super::span(9.6), super::span(200.0), super::span(7320.0)], ["10 s", "3 min 20 s", "2 h 02 min"]);
    }
}
