//! A run of terminals: as `crate::run`, with the figures that the driver gives for TPC-C.
//!
//! A transaction belongs to the window if the window was open when it was counted. What is counted goes into a few tallies
//! that all clients share: one for each would be a megabyte for each. No client waits for a tally that another one holds, who
//! may have lost its CPU: it takes the next.

use super::client::{Account, Client};
use super::tables::Trouble;
use crate::Failure;
use crate::event::TpccFigures;
use crate::run::{OVER, Phase, STACK, Shared, Wish, connect};
use crate::store;
use harness::event::Second;
use harness::inbox::{Inbox, Woken};
use harness::usage::{self, Usage};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};
use tidesdb::TidesDB;
use tpcc::{Kind, input::Input};

type Tally = harness::tally::Tally<&'static str>;

struct Tallies(Vec<Mutex<Tally>>);

impl Tallies {
    fn new(clients: u32) -> Tallies {
        let cpus = thread::available_parallelism().map_or(1, |n| n.get());
        let count = (2 * cpus + 2).min(16).min(clients as usize);
        Tallies((0..count).map(|_| Mutex::new(Tally::new(Kind::ALL.len()))).collect())
    }

    /// The first free one from the client's own on.
    fn take(&self, place: usize) -> MutexGuard<'_, Tally> {
        let count = self.0.len();
        for at in 0..count {
            match self.0[(place + at) % count].try_lock() {
                Ok(tally) => return tally,
                Err(TryLockError::Poisoned(tally)) => return tally.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.0[place % count].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what they hold into `into`, and leaves empty ones.
    fn empty(&self, into: &mut Tally, spare: &mut Tally) {
        into.clear();
        for tally in &self.0 {
            std::mem::swap(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner), spare);
            into.add(spare);
            spare.clear();
        }
    }
}

/// Runs what is wished for, telling each second of the window to `tell`. `None` if a signal came. The account is of all that
/// was committed, in the window or not.
pub fn run<'a>(
    tidesdb: &'a TidesDB,
    client: impl Fn(u32) -> Result<Client<'a>, Failure>,
    paced: bool,
    wish: Wish,
    inbox: &mut Inbox,
    tell: &mut dyn FnMut(Second) -> Result<(), Failure>,
) -> (Account, Result<Option<TpccFigures>, Failure>) {
    let (shared, tallies) = (Shared::new(wish.clients), Tallies::new(wish.clients));
    let mut account = Account::default();
    let measured = thread::scope(|scope| {
        let mut clients = Vec::with_capacity(wish.clients as usize);
        let mut start_all = || -> Result<(), Failure> {
            for place in 0..wish.clients {
                let (client, shared, tallies) = (client(place)?, &shared, &tallies);
                let started = thread::Builder::new()
                    .name(format!("client-{place}"))
                    .stack_size(STACK)
                    .spawn_scoped(scope, move || work(client, paced, shared, tallies, place as usize))
                    .map_err(|e| Failure::Run(format!("cannot start client {} of {}: {e}", place + 1, wish.clients)))?;
                clients.push(started);
            }
            Ok(())
        };
        let measured = start_all().and_then(|()| measure(tidesdb, &shared, &tallies, wish, inbox, tell));
        shared.stop();
        for client in clients {
            account += client.join().expect("a panic aborts the process");
        }
        measured
    });
    (account, measured)
}

/// Transactions until the run stops.
fn work(mut client: Client, paced: bool, shared: &Shared, tallies: &Tallies, place: usize) -> Account {
    shared.wait_for_start();
    if paced {
        // The first transaction comes when a person has typed it.
        shared.connected();
    }
    let mut connected = paced;
    while shared.phase() != Phase::Stop {
        let input = client.wish();
        let pause = paced.then(|| client.pause(input.kind()));
        if let Some((keying, _)) = pause {
            shared.rest(keying);
            if shared.phase() == Phase::Stop {
                break;
            }
        }
        if transaction(&mut client, &input, shared, tallies, place) && !connected {
            connected = true;
            shared.connected();
        }
        if let Some((_, thinking)) = pause {
            shared.rest(thinking);
        }
    }
    client.account
}

/// One transaction, tried again while it conflicts. Whether it came to its end.
fn transaction(client: &mut Client, input: &Input, shared: &Shared, tallies: &Tallies, place: usize) -> bool {
    let since = Instant::now();
    loop {
        let ended = client.attempt(input);
        let took = since.elapsed();
        {
            let mut tally = tallies.take(place);
            tally.rows += client.rows;
            match &ended {
                Ok(done) => tally.done(*done, took),
                Err(Trouble::Again(code)) => *tally.retries.entry(code).or_default() += 1,
                Err(Trouble::Error(error)) => *tally.errors.entry(error.name()).or_default() += 1,
            }
        }
        match ended {
            Ok(_) => return true,
            Err(Trouble::Again(_)) if shared.phase() == Phase::Stop => return false,
            Err(Trouble::Again(_)) => thread::yield_now(),
            Err(Trouble::Error(error)) => {
                shared.complain(|| error.text());
                return false;
            }
        }
    }
}

fn measure(
    tidesdb: &TidesDB,
    shared: &Shared,
    tallies: &Tallies,
    wish: Wish,
    inbox: &mut Inbox,
    tell: &mut dyn FnMut(Second) -> Result<(), Failure>,
) -> Result<Option<TpccFigures>, Failure> {
    let Some(connect_s) = connect(shared, wish.clients, inbox)? else { return Ok(None) };
    if !inbox.wait(Duration::from_secs_f64(wish.warmup_s)) {
        return Ok(None);
    }
    let names = Kind::ALL.map(Kind::name);
    let tally = || Tally::new(names.len());
    let (mut second, mut window, mut spare) = (tally(), tally(), tally());
    let stalls = store::stalls_us(tidesdb)?;
    tallies.empty(&mut second, &mut spare);
    let before = Usage::now()?;
    let start = Instant::now();
    let (mut at, mut cpu_s) = (0.0, before.cpu_s);
    let parts = wish.seconds.ceil() as u64;
    for part in 1..=parts {
        let until = wish.seconds.min(part as f64);
        if inbox.wait_until(start + Duration::from_secs_f64(until)) == Woken::Signal {
            return Ok(None);
        }
        tallies.empty(&mut second, &mut spare);
        let (now, used) = (start.elapsed().as_secs_f64(), Usage::now()?.cpu_s);
        window.add(&second);
        tell(second.second(&names, now, now - at, wish.clients, used - cpu_s))?;
        (at, cpu_s) = (now, used);
    }
    let mut counted = window.figures(&names, wish.clients, at);
    counted.connect_s = connect_s;
    let figures = TpccFigures {
        counted,
        stalls_s: store::since(&stalls, &store::stalls_us(tidesdb)?),
        usage: Usage::now()? - before,
        peak_rss_bytes: usage::peak_rss().unwrap_or(0),
    };
    Ok(inbox.wait(OVER).then_some(figures))
}
