//! Loading tables: pieces that threads take one after the other, each on its own connection, with statements of many rows.
//! Progress goes to stderr, and only to a terminal.

use crate::Failure;
use crate::control;
use crate::wire::Server;
use harness::inbox::{Inbox, Woken};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A statement grows to about so many bytes; servers take 16 MiB.
const STATEMENT: usize = 256 * 1024;

/// Statements of one piece, each with the number of rows in it.
pub type Statements = Box<dyn Iterator<Item = (String, u64)>>;
pub type Job = Box<dyn FnOnce() -> Statements + Send>;

/// `INSERT ... VALUES` statements; `put` appends one row in parentheses.
pub fn inserts<T: 'static>(
    head: String,
    rows: impl IntoIterator<Item = T, IntoIter: 'static>,
    mut put: impl FnMut(T, &mut String) + 'static,
) -> Statements {
    let mut rows = rows.into_iter();
    Box::new(std::iter::from_fn(move || {
        let mut sql = String::new();
        let mut count = 0;
        for row in rows.by_ref() {
            sql.push_str(if count == 0 { &head } else { "," });
            put(row, &mut sql);
            count += 1;
            if sql.len() >= STATEMENT {
                break;
            }
        }
        (count > 0).then_some((sql, count))
    }))
}

pub struct Loading<'a> {
    pub loaders: u32,
    pub inbox: &'a mut Inbox,
}

impl Loading<'_> {
    /// Runs every job; false if a signal came.
    pub fn load(&mut self, server: &Server, jobs: Vec<Job>, rows: u64) -> Result<bool, Failure> {
        let jobs = Mutex::new(jobs.into_iter());
        let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let started = Instant::now();
        let shows = std::io::stderr().is_terminal();
        let work = || {
            control::ask(server, async |connection| {
                for sql in ["SET unique_checks = 0", "SET foreign_key_checks = 0"] {
                    connection.run(sql).await?;
                }
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = job else { return Ok(()) };
                    for (sql, count) in job() {
                        if stop.load(Relaxed) {
                            return Ok(());
                        }
                        connection.run(&sql).await?;
                        done.fetch_add(count, Relaxed);
                    }
                }
            })
        };
        let whole = thread::scope(|scope| {
            let mut loaders: Vec<_> = (0..self.loaders).map(|_| scope.spawn(work)).collect();
            let mut result = Ok(true);
            while !loaders.is_empty() {
                if self.inbox.wait_until(Instant::now() + Duration::from_millis(50)) == Woken::Signal {
                    // Further waits return at once.
                    thread::sleep(Duration::from_millis(5));
                    stop.store(true, Relaxed);
                    result = result.and(Ok(false));
                }
                let (ended, at_work): (Vec<_>, Vec<_>) = loaders.into_iter().partition(|loader| loader.is_finished());
                loaders = at_work;
                for loader in ended {
                    if let Err(failure) = loader.join().expect("a panic aborts the process") {
                        stop.store(true, Relaxed);
                        result = result.and(Err(failure));
                    }
                }
                if shows {
                    show(done.load(Relaxed), rows, started.elapsed());
                }
            }
            result
        });
        if shows {
            eprintln!();
        }
        whole
    }
}

fn show(done: u64, rows: u64, since: Duration) {
    let share = (done * 100 / rows.max(1)).min(100);
    let rate = done as f64 / since.as_secs_f64().max(0.001);
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\rloading: {share:3} %, {done} rows, {rate:.0} a second ").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_cut_where_they_are_long() {
        let all: Vec<_> = inserts("I ".into(), 0..100_000, |n, out| *out += &format!("({n:08})")).collect();
        assert!(all.len() > 1);
        assert_eq!(all.iter().map(|(_, count)| count).sum::<u64>(), 100_000);
        assert!(all[0].0.starts_with("I (00000000),(00000001)"));
        assert!(all.iter().all(|(sql, _)| sql.len() < STATEMENT + 100));
        assert_eq!(inserts("I ".into(), 0..0, |_: i32, _| ()).count(), 0);
    }
}
