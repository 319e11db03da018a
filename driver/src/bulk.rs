//! Loading tables: pieces that threads take one after the other, each on its own connection, with statements of many rows.

use crate::Failure;
use crate::control;
use crate::wire::Server;
use harness::inbox::Inbox;
use harness::loading;
use std::sync::{Mutex, PoisonError};

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
        loading::load(self.loaders, rows, self.inbox, |loading| {
            control::ask(server, async |connection| {
                for sql in ["SET unique_checks = 0", "SET foreign_key_checks = 0"] {
                    connection.run(sql).await?;
                }
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = job else { return Ok(()) };
                    for (sql, count) in job() {
                        if loading.stopped() {
                            return Ok(());
                        }
                        connection.run(&sql).await?;
                        loading.loaded(count);
                    }
                }
            })
        })
    }
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
