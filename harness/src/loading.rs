//! Loading tables in parallel, with progress on stderr, and only on a terminal.

use crate::Failure;
use crate::inbox::Inbox;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// What the loaders of one load share.
#[derive(Default)]
pub struct Loading {
    rows: AtomicU64,
    stop: AtomicBool,
}

impl Loading {
    /// So many rows more are there.
    pub fn loaded(&self, rows: u64) {
        self.rows.fetch_add(rows, Relaxed);
    }

    /// A loader that sees this ends, and says it went well.
    pub fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

/// One loader for each CPU, and not more than 16.
pub fn loaders() -> u32 {
    thread::available_parallelism().map_or(1, |n| n.get() as u32).clamp(1, 16)
}

/// Runs `work` in so many threads until all have ended; it is to load about `rows` rows. False if a signal came.
pub fn load(
    loaders: u32,
    rows: u64,
    inbox: &mut Inbox,
    work: impl Fn(&Loading) -> Result<(), Failure> + Sync,
) -> Result<bool, Failure> {
    let loading = Loading::default();
    let started = Instant::now();
    let shows = std::io::stderr().is_terminal();
    let whole = thread::scope(|scope| {
        let mut loaders: Vec<_> = (0..loaders).map(|_| scope.spawn(|| work(&loading))).collect();
        let mut result = Ok(true);
        while !loaders.is_empty() {
            if !inbox.wait(Duration::from_millis(50)) {
                // Further waits return at once.
                thread::sleep(Duration::from_millis(5));
                loading.stop.store(true, Relaxed);
                result = result.and(Ok(false));
            }
            let (ended, at_work): (Vec<_>, Vec<_>) = loaders.into_iter().partition(|loader| loader.is_finished());
            loaders = at_work;
            for loader in ended {
                if let Err(failure) = loader.join().expect("a panic aborts the process") {
                    loading.stop.store(true, Relaxed);
                    result = result.and(Err(failure));
                }
            }
            if shows {
                show(loading.rows.load(Relaxed), rows, started.elapsed());
            }
        }
        result
    });
    if shows {
        eprintln!();
    }
    whole
}

fn show(done: u64, rows: u64, since: Duration) {
    let share = (done * 100 / rows.max(1)).min(100);
    let rate = done as f64 / since.as_secs_f64().max(0.001);
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\rloading: {share:3} %, {done} rows, {rate:.0} a second ").and_then(|()| out.flush());
}
