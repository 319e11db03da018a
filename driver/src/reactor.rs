//! Many clients on one thread: each is a future, polled when its socket can be read, when its time has come, or when
//! somebody rouses it. A client has one socket, and the socket's token is the client's number, so there are no wakers.
//!
//! A future must look again whenever it is polled: it may be polled for nothing.

use mio::event::Source;
use mio::{Events, Interest, Poll, Registry, Token};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll as Now, Waker};
use std::time::{Duration, Instant};

/// Of the one who rouses the whole reactor from another thread.
const ROUSE: Token = Token(usize::MAX);

pub type Client<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub struct Reactor<'a> {
    poll: Poll,
    events: Events,
    clients: Vec<Option<Client<'a>>>,
    alive: usize,
    core: Rc<Core>,
    rouser: Arc<mio::Waker>,
}

/// What clients hold of their reactor.
pub struct Core {
    registry: Registry,
    /// The client being polled.
    current: Cell<usize>,
    timers: RefCell<BinaryHeap<Reverse<(Instant, usize)>>>,
    roused: RefCell<VecDeque<usize>>,
    stopping: Cell<bool>,
}

impl<'a> Reactor<'a> {
    pub fn new() -> io::Result<Reactor<'a>> {
        let poll = Poll::new()?;
        let core = Core {
            registry: poll.registry().try_clone()?,
            current: Cell::new(0),
            timers: RefCell::default(),
            roused: RefCell::default(),
            stopping: Cell::new(false),
        };
        let rouser = Arc::new(mio::Waker::new(poll.registry(), ROUSE)?);
        Ok(Reactor {
            poll,
            events: Events::with_capacity(512),
            clients: Vec::new(),
            alive: 0,
            core: Rc::new(core),
            rouser,
        })
    }

    pub fn core(&self) -> Rc<Core> {
        self.core.clone()
    }

    /// Ends a wait from another thread; every client is then polled.
    pub fn rouser(&self) -> Arc<mio::Waker> {
        self.rouser.clone()
    }

    pub fn start(&mut self, client: Client<'a>) {
        self.core.roused.borrow_mut().push_back(self.clients.len());
        self.clients.push(Some(client));
        self.alive += 1;
    }

    /// Runs until every client is done, or `until` says so when something has happened; how many are not done.
    pub fn run(&mut self, mut until: impl FnMut(&Core) -> bool) -> io::Result<usize> {
        loop {
            loop {
                // The guard must not live while a client runs.
                let next = self.core.roused.borrow_mut().pop_front();
                let Some(client) = next else { break };
                self.poll_client(client);
            }
            if self.alive == 0 || until(&self.core) {
                return Ok(self.alive);
            }
            let wait = self.core.next_timer().map(|at| at.saturating_duration_since(Instant::now()));
            match self.poll.poll(&mut self.events, wait) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let mut all = false;
            let mut ready = self.core.roused.borrow_mut();
            for event in &self.events {
                match event.token() {
                    ROUSE => all = true,
                    Token(client) => ready.push_back(client),
                }
            }
            if all {
                ready.extend(0..self.clients.len());
            }
            drop(ready);
            self.core.take_due();
        }
    }

    fn poll_client(&mut self, number: usize) {
        let Some(slot) = self.clients.get_mut(number) else { return };
        let Some(client) = slot else { return };
        self.core.current.set(number);
        if client.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            *slot = None;
            self.alive -= 1;
        }
    }
}

/// Runs one future to its end on a reactor of its own.
pub fn alone<T>(future: impl AsyncFnOnce(Rc<Core>) -> T) -> io::Result<T> {
    let answer = RefCell::new(None);
    {
        let mut reactor = Reactor::new()?;
        let core = reactor.core();
        let put = &answer;
        reactor.start(Box::pin(async move {
            let value = future(core).await;
            *put.borrow_mut() = Some(value);
        }));
        reactor.run(|_| false)?;
    }
    answer.into_inner().ok_or_else(|| io::Error::other("the work ended without an answer"))
}

impl Core {
    /// From now on sleepers wake at once.
    pub fn stop(&self) {
        self.stopping.set(true);
    }

    pub fn current(&self) -> usize {
        self.current.get()
    }

    pub fn rouse(&self, client: usize) {
        self.roused.borrow_mut().push_back(client);
    }

    /// Only what arrives wakes a client: a peer that reads would otherwise wake it for nothing.
    pub fn register(&self, source: &mut impl Source) -> io::Result<()> {
        self.registry.register(source, Token(self.current()), Interest::READABLE)
    }

    pub fn await_room(&self, source: &mut impl Source, room: bool) -> io::Result<()> {
        let interest = if room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.registry.reregister(source, Token(self.current()), interest)
    }

    pub async fn sleep(&self, length: Duration) {
        self.sleep_until(Instant::now() + length).await;
    }

    /// Sleeps until then, or until the reactor stops.
    pub async fn sleep_until(&self, until: Instant) {
        if until <= Instant::now() || self.stopping.get() {
            return;
        }
        self.timers.borrow_mut().push(Reverse((until, self.current())));
        poll_fn(|_| if self.stopping.get() || Instant::now() >= until { Now::Ready(()) } else { Now::Pending }).await;
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timers.borrow().peek().map(|Reverse((at, _))| *at)
    }

    fn take_due(&self) {
        let mut timers = self.timers.borrow_mut();
        if timers.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(Reverse((at, client))) = timers.peek().copied()
            && at <= now
        {
            timers.pop();
            self.rouse(client);
        }
    }
}

/// Lets a few through at a time: a server takes only so many new connections at once.
pub struct Gate {
    core: Rc<Core>,
    free: Cell<u32>,
    waiting: RefCell<VecDeque<usize>>,
}

impl Gate {
    pub fn new(core: Rc<Core>, free: u32) -> Gate {
        Gate { core, free: Cell::new(free), waiting: RefCell::default() }
    }

    pub async fn enter(&self) {
        let mut queued = false;
        poll_fn(|_| {
            let me = self.core.current();
            // Who waits is let in by who leaves, in order; being polled for nothing lets nobody in.
            if !queued && self.free.get() > 0 {
                self.free.set(self.free.get() - 1);
                return Now::Ready(());
            }
            if !queued {
                queued = true;
                self.waiting.borrow_mut().push_back(me);
                return Now::Pending;
            }
            if self.waiting.borrow().contains(&me) { Now::Pending } else { Now::Ready(()) }
        })
        .await;
    }

    pub fn leave(&self) {
        match self.waiting.borrow_mut().pop_front() {
            Some(next) => self.core.rouse(next),
            None => self.free.set(self.free.get() + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_wake_in_order_and_the_gate_counts() {
        let mut reactor = Reactor::new().unwrap();
        let log = Rc::new(RefCell::new(Vec::new()));
        let gate = Rc::new(Gate::new(reactor.core(), 2));
        let inside = Rc::new(Cell::new(0));
        for n in 0..20u64 {
            let (core, log, gate, inside) = (reactor.core(), log.clone(), gate.clone(), inside.clone());
            reactor.start(Box::pin(async move {
                gate.enter().await;
                inside.set(inside.get() + 1);
                assert!(inside.get() <= 2);
                core.sleep(Duration::from_millis(1)).await;
                inside.set(inside.get() - 1);
                gate.leave();
                log.borrow_mut().push(n);
            }));
        }
        reactor.run(|_| false).unwrap();
        assert_eq!(log.borrow().len(), 20);
    }

    #[test]
    fn a_stop_wakes_sleepers() {
        let mut reactor = Reactor::new().unwrap();
        let core = reactor.core();
        reactor.start(Box::pin(async move { core.sleep(Duration::from_secs(3600)).await }));
        let rouser = reactor.rouser();
        let before = Instant::now();
        std::thread::spawn(move || rouser.wake());
        reactor
            .run(|core| {
                core.stop();
                false
            })
            .unwrap();
        assert!(before.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn one_future_gives_its_answer() {
        assert_eq!(alone(async |_| 7).unwrap(), 7);
    }
}
