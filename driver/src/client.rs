//! A client's life: connect, wait for the others, then one transaction after the other until the run ends. In a closed loop
//! the next begins when the last is done; in an open one at the moment that the rate gives it, and its latency counts from
//! that moment, whether a client was free then or not.

use crate::reactor::{Core, Gate};
use crate::wire::{Connection, Error};
use harness::tally::Done;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Errors after which a transaction is tried again: the row has changed, lock wait timeout, deadlock. sysbench's are the
/// same three.
const AGAIN: [u16; 3] = [1020, 1205, 1213];

/// What a thread counts; codes are the server's.
pub type Tally = harness::tally::Tally<u16>;

/// What a test's client does; one for each connection.
pub trait Client {
    /// What a transaction is to do, decided before its first attempt: another attempt does the same.
    type Wish;

    fn wish(&mut self) -> Self::Wish;
    async fn attempt(&mut self, wish: &Self::Wish) -> Result<Done, Error>;
    fn connection(&mut self) -> &mut Connection;
    fn quit(self);

    /// Time that a person takes before and after a transaction.
    fn pause(&mut self, _wish: &Self::Wish) -> Option<(Duration, Duration)> {
        None
    }
}

/// What the clients of a run and whoever measures share.
pub struct Shared {
    pub clients: u32,
    pub connected: AtomicU32,
    pub started: AtomicBool,
    pub stopped: AtomicBool,
    /// No client is waited for any more.
    pub abandoned: AtomicBool,
    /// Transactions for each second of all clients together.
    pub rate: Option<f64>,
    /// Transactions of all clients together.
    pub most: Option<u64>,
    /// When the rate's first transaction was due.
    pub zero: OnceLock<Instant>,
    pub tickets: AtomicU64,
    /// Rank of the clients' threads, as nice(1) counts it.
    pub nice: AtomicI32,
    failure: Mutex<Option<String>>,
    /// One for each thread.
    tallies: Vec<Mutex<Tally>>,
    nudge: harness::inbox::Nudge,
}

impl Shared {
    pub fn new(
        clients: u32,
        threads: u32,
        kinds: usize,
        rate: Option<f64>,
        most: Option<u64>,
        nudge: harness::inbox::Nudge,
    ) -> Shared {
        Shared {
            clients,
            connected: AtomicU32::new(0),
            started: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            rate,
            most,
            zero: OnceLock::new(),
            tickets: AtomicU64::new(0),
            nice: AtomicI32::new(0),
            failure: Mutex::new(None),
            tallies: (0..threads).map(|_| Mutex::new(Tally::new(kinds))).collect(),
            nudge,
        }
    }

    pub fn tally(&self, thread: usize) -> MutexGuard<'_, Tally> {
        self.tallies[thread].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first failure, which ends the run.
    pub fn fail(&self, what: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
        self.nudge.give();
    }

    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn connected(&self) {
        if self.connected.fetch_add(1, SeqCst) + 1 == self.clients {
            self.nudge.give();
        }
    }
}

/// What a client needs of the thread that it lives on.
#[derive(Clone)]
pub struct Home {
    pub core: Rc<Core>,
    pub gate: Rc<Gate>,
    pub thread: usize,
}

pub async fn live<C: Client>(shared: &Shared, home: &Home, open: impl AsyncFnOnce(Rc<Core>) -> Result<C, Error>) {
    home.gate.enter().await;
    let opened = open(home.core.clone()).await;
    home.gate.leave();
    match opened {
        Ok(mut client) => {
            shared.connected();
            poll_fn(|_| if shared.started.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }).await;
            // The statements of getting ready belong to no window.
            client.connection().take_counts();
            match work(shared, home, &mut client).await {
                Ok(()) => client.quit(),
                Err(what) => shared.fail(what),
            }
        }
        Err(what) => shared.fail(what.to_string()),
    }
}

/// Transactions until the run stops; an error if the connection is lost.
async fn work<C: Client>(shared: &Shared, home: &Home, client: &mut C) -> Result<(), String> {
    while !shared.stopped.load(Relaxed) {
        let ticket = shared.tickets.fetch_add(1, Relaxed);
        if shared.most.is_some_and(|most| ticket >= most) {
            return Ok(());
        }
        let due = match (shared.rate, shared.zero.get()) {
            (Some(rate), Some(zero)) => {
                let due = *zero + Duration::from_secs_f64(ticket as f64 / rate);
                home.core.sleep_until(due).await;
                Some(due)
            }
            _ => None,
        };
        let wish = client.wish();
        let pause = client.pause(&wish);
        if let Some((keying, _)) = pause {
            home.core.sleep(keying).await;
        }
        if shared.stopped.load(Relaxed) {
            return Ok(());
        }
        transaction(shared, home, client, &wish, due.unwrap_or_else(Instant::now)).await?;
        if let Some((_, thinking)) = pause {
            home.core.sleep(thinking).await;
        }
    }
    Ok(())
}

async fn transaction<C: Client>(
    shared: &Shared,
    home: &Home,
    client: &mut C,
    wish: &C::Wish,
    since: Instant,
) -> Result<(), String> {
    loop {
        let ended = client.attempt(wish).await;
        let counts = client.connection().take_counts();
        let code = {
            let mut tally = shared.tally(home.thread);
            tally.statements += counts.statements;
            tally.rows += counts.rows;
            match ended {
                Ok(done) => {
                    tally.done(done, since.elapsed());
                    return Ok(());
                }
                Err(Error::Lost(what)) => return Err(what),
                Err(Error::Server { code, .. }) if AGAIN.contains(&code) => {
                    *tally.retries.entry(code).or_default() += 1;
                    None
                }
                Err(Error::Server { code, message }) => {
                    *tally.errors.entry(code).or_default() += 1;
                    Some((code, message))
                }
            }
        };
        // A server that goes down says so to each client before it hangs up.
        if let Some((code @ (1053 | 1927 | 4150), message)) = code {
            return Err(format!("the server ends its connections: {code}: {message}"));
        }
        match client.connection().run("ROLLBACK").await {
            Ok(_) => {}
            Err(Error::Lost(what)) => return Err(what),
            Err(e @ Error::Server { .. }) => return Err(format!("ROLLBACK failed: {e}")),
        }
        if code.is_some() || shared.stopped.load(Relaxed) {
            return Ok(());
        }
    }
}
