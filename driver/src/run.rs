//! A run: starts the clients, waits until each is connected and ready, lets them all begin, warms up, measures the window,
//! stops them. A transaction belongs to the window if the window was open when it completed, and so do all counts.

use crate::Failure;
use crate::bench::Bench;
use crate::client::{Home, Shared, Tally};
use crate::event::{Begun, Figures, Told};
use crate::reactor::{Gate, Reactor};
use harness::inbox::{Inbox, Woken};
use harness::usage::{self, Usage};
use rustix::process::{getpriority_process, setpriority_process};
use serde::Deserialize;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// How long the clients work on after the window, so that whoever watches sees the server with all of them at work.
const OVER: Duration = Duration::from_millis(100);
/// How long clients may take to connect and to prepare their statements.
const CONNECT: Duration = Duration::from_secs(120);
/// How long a client's last transaction may take; whoever takes longer is cut off.
const LAST: Duration = Duration::from_secs(30);
/// Up to so many clients their threads have the rank that every thread has.
const EQUALS: f64 = 64.0;
/// Connections that each thread opens at the same time; a server's queue of new ones holds 80 at least.
const AT_ONCE: u32 = 32;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    pub clients: u32,
    #[serde(default)]
    pub warmup_s: f64,
    pub seconds: f64,
    #[serde(default)]
    pub seed: u64,
    /// Transactions for each second; without it the loop is closed.
    #[serde(default)]
    pub rate: Option<f64>,
    /// No client begins another transaction after so many of all together, warm-up included.
    #[serde(default)]
    pub most: Option<u64>,
}

/// What a run leaves behind, whether it came to its end or not.
#[derive(Debug, Default)]
pub struct Trace {
    /// Change of the ledger's figure, warm-up and end included.
    pub change: i64,
    /// Some transaction's end is not known: a client was cut off, or lost its connection.
    pub unsure: bool,
}

/// Runs what is wished for, telling its begin and each second of the window to `tell`. `None` if a signal came.
pub fn run(
    bench: &Bench,
    wish: Wish,
    inbox: &mut Inbox,
    tell: &mut dyn FnMut(Told) -> Result<(), Failure>,
) -> (Trace, Result<Option<Figures>, Failure>) {
    let threads = bench.threads.min(wish.clients);
    let kinds = bench.kinds().len();
    let shared = Shared::new(wish.clients, threads, kinds, wish.rate, wish.most, inbox.nudge());
    let (send, rousers) = channel();
    let mut trace = Trace::default();
    let measured = thread::scope(|scope| {
        let mut workers = Vec::new();
        let mut start_all = || -> Result<Vec<Arc<mio::Waker>>, Failure> {
            for number in 0..threads {
                let (shared, send) = (&shared, send.clone());
                let started = thread::Builder::new().name(format!("clients-{number}")).spawn_scoped(scope, move || {
                    work(bench, shared, wish, number, threads, |rouser| {
                        let _ = send.send(rouser);
                    })
                });
                workers.push(started.map_err(|e| Failure::Run(format!("cannot start a thread: {e}")))?);
            }
            (0..threads).map(|_| rousers.recv().map_err(|_| Failure::run("a thread ended before it began"))).collect()
        };
        let rousers = start_all();
        let rouse = || rousers.iter().flatten().for_each(|r| drop(r.wake()));
        let measured = match &rousers {
            Ok(_) => measure(bench, &shared, wish, threads, &rouse, inbox, tell, &mut trace),
            Err(Failure::Run(what) | Failure::Use(what) | Failure::Broken(what)) => Err(Failure::run(what)),
        };
        shared.stopped.store(true, SeqCst);
        rouse();
        let end = Instant::now() + LAST;
        while workers.iter().any(|worker| !worker.is_finished()) {
            if Instant::now() > end || shared.failure().is_some() || inbox.stopped() {
                shared.abandoned.store(true, SeqCst);
                rouse();
            }
            thread::sleep(Duration::from_millis(1));
        }
        for worker in workers {
            trace.unsure |= worker.join().expect("a panic aborts the process") > 0;
        }
        measured
    });
    for thread in 0..threads as usize {
        trace.change += shared.tally(thread).change;
    }
    (trace, measured)
}

/// The clients of one thread, every `threads`th of all. How many were still at work when it ended.
fn work(
    bench: &Bench,
    shared: &Shared,
    wish: Wish,
    number: u32,
    threads: u32,
    ready: impl FnOnce(Arc<mio::Waker>),
) -> usize {
    let mut reactor = match Reactor::new() {
        Ok(reactor) => reactor,
        Err(e) => {
            shared.fail(format!("cannot wait for sockets: {e}"));
            return 0;
        }
    };
    let has = || getpriority_process(None).unwrap_or(0);
    if rank(wish.clients) < has() {
        // Without the right to it the thread keeps its rank, and the figures say which it was.
        let _ = setpriority_process(None, rank(wish.clients));
    }
    shared.nice.store(has(), SeqCst);
    ready(reactor.rouser());
    let core = reactor.core();
    let home = Home { core: core.clone(), gate: Rc::new(Gate::new(core, AT_ONCE)), thread: number as usize };
    for place in (number..wish.clients).step_by(threads as usize) {
        reactor.start(bench.client(shared, home.clone(), place, wish.seed));
    }
    let ended = reactor.run(|core| {
        if shared.stopped.load(SeqCst) {
            core.stop();
        }
        shared.abandoned.load(SeqCst)
    });
    match ended {
        Ok(left) => left,
        Err(e) => {
            shared.fail(format!("cannot wait for sockets: {e}"));
            1
        }
    }
}

/// The rank of a thread that carries the clients, as nice(1) counts it. A thread of thousands on a server's machine gets one
/// turn in thousands, and the server waits for its clients. A step of rank is worth a quarter more of the CPUs; this many
/// keep the thread's share what it is among 64. To put it before the server from the start would be wrong too: it would be
/// woken for every single answer, and cost more.
fn rank(clients: u32) -> i32 {
    let steps = (f64::from(clients) / EQUALS).ln() / 1.25f64.ln();
    -(steps.round().clamp(0.0, 19.0) as i32)
}

/// Takes the threads' tallies away and leaves empty ones.
struct Taker<'a> {
    shared: &'a Shared,
    threads: u32,
    spare: Tally,
}

impl Taker<'_> {
    fn take(&mut self, into: &mut Tally) {
        into.clear();
        for thread in 0..self.threads as usize {
            std::mem::swap(&mut *self.shared.tally(thread), &mut self.spare);
            into.add(&self.spare);
            self.spare.clear();
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn measure(
    bench: &Bench,
    shared: &Shared,
    wish: Wish,
    threads: u32,
    rouse: &dyn Fn(),
    inbox: &mut Inbox,
    tell: &mut dyn FnMut(Told) -> Result<(), Failure>,
    trace: &mut Trace,
) -> Result<Option<Figures>, Failure> {
    // False if a signal came.
    let mut wait = |until: Instant, enough: &dyn Fn() -> bool| -> Result<bool, Failure> {
        loop {
            if let Some(what) = shared.failure() {
                return Err(Failure::Run(what));
            }
            if enough() {
                return Ok(true);
            }
            match inbox.wait_until(until) {
                Woken::Time => return Ok(true),
                Woken::Signal => return Ok(false),
                Woken::Nudge => {}
            }
        }
    };
    let never = || false;
    let begun = Instant::now();
    let all = || shared.connected.load(SeqCst) == wish.clients;
    if !wait(begun + CONNECT, &all)? {
        return Ok(None);
    }
    if !all() {
        let connected = shared.connected.load(SeqCst);
        return Err(Failure::Run(format!(
            "after {} s only {connected} of {} clients are connected",
            CONNECT.as_secs(),
            wish.clients
        )));
    }
    let connect_s = begun.elapsed().as_secs_f64();
    let _ = shared.zero.set(Instant::now());
    shared.started.store(true, SeqCst);
    rouse();
    tell(Told::Begun(Begun { event: "begun", clients: wish.clients, connect_s }))?;
    if !wait(Instant::now() + Duration::from_secs_f64(wish.warmup_s), &never)? {
        return Ok(None);
    }

    let kinds = bench.kinds();
    let mut taker = Taker { shared, threads, spare: Tally::new(kinds.len()) };
    let (mut second, mut window) = (Tally::new(kinds.len()), Tally::new(kinds.len()));
    taker.take(&mut second);
    trace.change += second.change;
    let before = Usage::now()?;
    let start = Instant::now();
    let mut last = (start, before.cpu_s);
    let parts = wish.seconds.ceil() as u64;
    let mut length = 0.0;
    for part in 1..=parts {
        let until = wish.seconds.min(part as f64);
        if !wait(start + Duration::from_secs_f64(until), &never)? {
            return Ok(None);
        }
        taker.take(&mut second);
        let now = (Instant::now(), Usage::now()?.cpu_s);
        trace.change += second.change;
        window.add(&second);
        length = (now.0 - start).as_secs_f64();
        let seconds = (now.0 - last.0).as_secs_f64();
        tell(Told::Second(second.second(kinds, length, seconds, wish.clients, now.1 - last.1)))?;
        last = now;
    }
    let mut counted = window.figures(kinds, wish.clients, length);
    counted.connect_s = connect_s;
    let figures = Figures {
        counted,
        statements: window.statements,
        rate: wish.rate,
        usage: Usage::now()? - before,
        nice: shared.nice.load(SeqCst),
        peak_rss_bytes: usage::peak_rss().unwrap_or(0),
    };
    Ok(wait(Instant::now() + OVER, &never)?.then_some(figures))
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn rank_grows_with_the_clients_and_without_a_step() {
        assert_eq!([1, 64, 128, 512, 4096, 65_536].map(rank), [0, 0, -3, -9, -19, -19]);
        assert!((1..5000).all(|clients| rank(clients) - rank(clients + 1) <= 1));
    }
}
