//! A run: starts the clients, waits until each has completed a transaction, warms up, measures the window, stops them.
//!
//! A transaction belongs to the window if the window was open when it completed. Every count of the window follows that one
//! rule, so transactions, operations, retries and the latency's count agree with each other.

use crate::Failure;
use crate::client::{Client, Counts, Work};
use crate::database::Database;
use crate::event::{Figures, Second};
use crate::keys::Share;
use crate::mix::Kind;
use crate::store;
use harness::event::Latency;
use harness::inbox::{Inbox, Woken};
use harness::serve::inside;
use harness::usage::Usage;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A client's stack: address space, of which a client touches a few pages.
pub const STACK: usize = 256 * 1024;
/// How long the clients work on after the window, so that whoever watches sees the process with all of them in it.
pub const OVER: Duration = Duration::from_millis(100);
/// How long clients may take until each has completed a transaction.
const CONNECT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    pub clients: u32,
    #[serde(default)]
    pub warmup_s: f64,
    pub seconds: f64,
    #[serde(default)]
    pub seed: u64,
}

impl Wish {
    /// What is wrong with it.
    pub fn refuse(&self) -> Result<(), String> {
        inside("clients", self.clients.into(), 1.0, 16384.0)?;
        inside("seconds", self.seconds, 0.01, 86_400.0)?;
        inside("warmup_s", self.warmup_s, 0.0, 3_600.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    WarmUp,
    Window,
    /// The window is closed and the clients work on.
    Over,
    Stop,
}

/// What the clients of a run share.
pub struct Shared {
    phase: AtomicU8,
    /// Whether the clients may begin, and whether they are to end.
    gates: Mutex<Gates>,
    moved: Condvar,
    connected: AtomicU32,
    live: Vec<Live>,
    complaint: Mutex<Option<String>>,
}

#[derive(Default)]
struct Gates {
    begun: bool,
    over: bool,
}

/// Transactions completed by one client, on a cache line of its own: written by that client, read once a second.
#[repr(align(128))]
#[derive(Default)]
struct Live(AtomicU64);

impl Shared {
    pub fn new(clients: u32) -> Shared {
        Shared {
            phase: AtomicU8::new(Phase::WarmUp as u8),
            gates: Mutex::default(),
            moved: Condvar::new(),
            connected: AtomicU32::new(0),
            live: (0..clients).map(|_| Live::default()).collect(),
            complaint: Mutex::new(None),
        }
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            phase if phase == Phase::WarmUp as u8 => Phase::WarmUp,
            phase if phase == Phase::Window as u8 => Phase::Window,
            phase if phase == Phase::Over as u8 => Phase::Over,
            _ => Phase::Stop,
        }
    }

    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Release);
    }

    /// Lets the clients begin, all at once.
    pub fn begin(&self) {
        self.move_gates(|gates| gates.begun = true);
    }

    /// Ends the clients, also those that rest or have not begun.
    pub fn stop(&self) {
        self.enter(Phase::Stop);
        self.move_gates(|gates| (gates.begun, gates.over) = (true, true));
    }

    fn move_gates(&self, change: impl FnOnce(&mut Gates)) {
        change(&mut self.gates.lock().unwrap_or_else(PoisonError::into_inner));
        self.moved.notify_all();
    }

    pub fn wait_for_start(&self) {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.moved.wait_while(gates, |gates| !gates.begun));
    }

    /// Waits so long, or until the run is over.
    pub fn rest(&self, duration: Duration) {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.moved.wait_timeout_while(gates, duration, |gates| !gates.over));
    }

    /// A client is ready: it has completed its first transaction, or it need not.
    pub fn connected(&self) {
        self.connected.fetch_add(1, Relaxed);
    }

    /// The client at `place` has completed its `done`th transaction.
    pub fn completed(&self, place: usize, done: u64) {
        self.live[place].0.store(done, Relaxed);
        if done == 1 {
            self.connected();
        }
    }

    fn transactions(&self) -> u64 {
        self.live.iter().map(|live| live.0.load(Relaxed)).sum()
    }

    /// Keeps the first complaint.
    pub fn complain(&self, what: impl FnOnce() -> String) {
        let mut complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        complaint.get_or_insert_with(what);
    }
}

/// Runs what is wished for, telling each second of the window to `tell`. `None` if a signal came.
pub fn run(
    database: &mut Database,
    work: Work,
    wish: Wish,
    inbox: &mut Inbox,
    tell: &mut dyn FnMut(Second) -> Result<(), Failure>,
) -> Result<Option<Figures>, Failure> {
    let shared = Shared::new(wish.clients);
    let mut holes = std::mem::take(&mut database.ledger.holes);
    let (measured, accounts, counts) = thread::scope(|scope| {
        let mut clients = Vec::with_capacity(wish.clients as usize);
        let mut start_all = || -> Result<(), Failure> {
            for place in 0..wish.clients as usize {
                // Seeds of neighbouring runs must not share clients.
                let seed = wish.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(place as u64);
                let share = Share { place: place as u64, clients: u64::from(wish.clients) };
                let client = Client::new(database.table()?, &database.ledger, work, share, holes.pop(), seed);
                let shared = &shared;
                let started = thread::Builder::new()
                    .name(format!("client-{place}"))
                    .stack_size(STACK)
                    .spawn_scoped(scope, move || client.work(shared, place))
                    .map_err(|e| Failure::Run(format!("cannot start client {} of {}: {e}", place + 1, wish.clients)))?;
                clients.push(started);
            }
            Ok(())
        };
        let measured = start_all().and_then(|()| measure(&shared, database, wish, inbox, tell));
        shared.stop();
        let mut accounts = Vec::with_capacity(clients.len());
        let mut counts = Counts::new();
        for client in clients {
            let (account, seen) = client.join().expect("a panic aborts the process");
            accounts.push(account);
            counts.add(&seen);
        }
        (measured, accounts, counts)
    });
    database.ledger.holes = holes;
    accounts.into_iter().for_each(|account| database.ledger.add(account));
    Ok(measured?.map(|window| figures(wish.clients, window, &counts)))
}

struct Window {
    connect_s: f64,
    seconds: f64,
    usage: Usage,
    stalls_s: BTreeMap<&'static str, f64>,
}

/// Lets the clients begin and waits until each is ready; says how many seconds that took. `None` if a signal came.
pub fn connect(shared: &Shared, clients: u32, inbox: &mut Inbox) -> Result<Option<f64>, Failure> {
    let begun = Instant::now();
    shared.begin();
    while shared.connected.load(Relaxed) < clients {
        if begun.elapsed() > CONNECT {
            let connected = shared.connected.load(Relaxed);
            let complaint = shared.complaint.lock().unwrap_or_else(PoisonError::into_inner);
            return Err(Failure::Run(format!(
                "after {} s only {connected} of {} clients have completed a transaction{}",
                CONNECT.as_secs(),
                clients,
                complaint.as_ref().map(|what| format!("; the first error: {what}")).unwrap_or_default()
            )));
        }
        if !inbox.wait(Duration::from_millis(2)) {
            return Ok(None);
        }
    }
    Ok(Some(begun.elapsed().as_secs_f64()))
}

fn measure(
    shared: &Shared,
    database: &Database,
    wish: Wish,
    inbox: &mut Inbox,
    tell: &mut dyn FnMut(Second) -> Result<(), Failure>,
) -> Result<Option<Window>, Failure> {
    let Some(connect_s) = connect(shared, wish.clients, inbox)? else { return Ok(None) };
    if !inbox.wait(Duration::from_secs_f64(wish.warmup_s)) {
        return Ok(None);
    }

    let (before, stalled_before) = (Usage::now()?, database.stalls_us()?);
    shared.enter(Phase::Window);
    let start = Instant::now();
    let mut last = (start, shared.transactions());
    let parts = wish.seconds.ceil() as u64;
    for part in 1..=parts {
        let until = wish.seconds.min(part as f64);
        if inbox.wait_until(start + Duration::from_secs_f64(until)) == Woken::Signal {
            return Ok(None);
        }
        if part == parts {
            shared.enter(Phase::Over);
        }
        let now = (Instant::now(), shared.transactions());
        let seconds = (now.0 - last.0).as_secs_f64();
        let second = Second {
            at: (now.0 - start).as_secs_f64(),
            seconds,
            clients: wish.clients,
            tps: (now.1 - last.1) as f64 / seconds,
        };
        if part == parts {
            let (usage, length) = (Usage::now()? - before, second.at);
            let stalls_s = store::since(&stalled_before, &database.stalls_us()?);
            tell(second)?;
            let window = Window { connect_s, seconds: length, usage, stalls_s };
            return Ok(inbox.wait(OVER).then_some(window));
        }
        tell(second)?;
        last = now;
    }
    unreachable!("a window has at least one part")
}

fn figures(clients: u32, window: Window, counts: &Counts) -> Figures {
    let latency = &counts.latency_ns;
    let at = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1e6;
    Figures {
        clients,
        seconds: window.seconds,
        connect_s: window.connect_s,
        transactions: counts.transactions,
        tps: counts.transactions as f64 / window.seconds,
        latency_ms: Latency {
            mean: latency.mean() / 1e6,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: latency.max() as f64 / 1e6,
        },
        errors: counts.errors().collect(),
        retries: counts.retries,
        operations: Kind::ALL.into_iter().map(|kind| (kind.name(), counts.operations[kind as usize])).collect(),
        rows_read: counts.rows_read,
        not_found: counts.not_found,
        stalls_s: window.stalls_s,
        usage: window.usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_and_refused() {
        let read = |line: &str| {
            let wish: Wish = serde_json::from_str(line).map_err(|e| e.to_string())?;
            wish.refuse().map(|()| wish)
        };
        let wish = Wish { clients: 64, warmup_s: 0.3, seconds: 2.0, seed: 7 };
        assert_eq!(read(r#"{"clients":64,"warmup_s":0.3,"seconds":2,"seed":7}"#), Ok(wish));
        assert_eq!(read(r#"{"clients":64,"seconds":2}"#), Ok(Wish { warmup_s: 0.0, seed: 0, ..wish }));
        for line in [
            r#"{"clients":1}"#,
            r#"{"clients":0,"seconds":1}"#,
            r#"{"clients":20000,"seconds":1}"#,
            r#"{"clients":1,"seconds":-1}"#,
            r#"{"clients":1,"seconds":1,"warmup_s":1e9}"#,
            r#"{"clients":1,"seconds":1,"threads":2}"#,
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
