//! The terminal: its width, whether it takes colour, and the progress of a sweep on it.

use indicatif::{ProgressBar, ProgressStyle};
use lab::plan::{Life, Plan, Trial};
use lab::record::{Outcome, Record};
use lab::sweep::Progress;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Columns of stdout; 100 where it is no terminal.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(w, _)| usize::from(w.0).max(40))
}

/// <https://no-color.org>
pub fn color() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// What runs now, rounds done, time left; lines instead of a bar where stderr is no terminal.
pub struct Bar {
    bar: Option<ProgressBar>,
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
        let bar = (std::io::stderr().is_terminal() && !quiet).then(|| {
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
        if self.bar.is_none() {
            eprintln!("round {}/{}: {}, {}", life.round, self.rounds, variant(life), self.left());
        }
    }

    fn runs(&mut self, life: &Life, trial: &Trial) {
        let clients = trial.cell.clients;
        let s = if clients == 1 { "" } else { "s" };
        self.now = format!("round {}/{}: {}, {clients} client{s}", life.round, self.rounds, variant(life));
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
            let line = format!("{}, {} clients: {why}", record.cell.heap, record.cell.clients);
            match &self.bar {
                Some(bar) => bar.println(line),
                None => eprintln!("{line}"),
            }
        }
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        self.show();
    }
}

fn variant(life: &Life) -> String {
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
