//! What reaches the process while it works: lines on stdin, the end of stdin, SIGINT and SIGTERM, and nudges of the
//! program's own threads. Lines are handled in order, each after the one before is done; a signal is handled at once, a
//! second one ends the process where it stands.

use crate::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::VecDeque;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

enum Message {
    Line(String),
    End,
    Signal,
    Nudge,
}

/// The next thing to do.
pub enum Next {
    Line(String),
    /// Stdin ended, or a signal came.
    End,
}

/// Why a wait is over.
#[derive(Debug, PartialEq)]
pub enum Woken {
    /// The time has come.
    Time,
    /// A thread of the program has something to say.
    Nudge,
    Signal,
}

pub struct Inbox {
    receiver: Receiver<Message>,
    /// Kept so that the channel never closes.
    sender: Sender<Message>,
    waiting: VecDeque<Next>,
    stopped: bool,
}

/// Ends a wait from another thread.
#[derive(Clone)]
pub struct Nudge(Sender<Message>);

impl Nudge {
    pub fn give(&self) {
        let _ = self.0.send(Message::Nudge);
    }
}

impl Inbox {
    /// Takes the signals over by a handler, whichever thread the kernel chooses: a preloaded heap may have started threads
    /// before this program could block anything in them.
    pub fn open() -> Result<Inbox, Failure> {
        let mut signals =
            Signals::new([SIGINT, SIGTERM]).map_err(|e| Failure::Run(format!("cannot handle signals: {e}")))?;
        let (sender, receiver) = channel();
        let told = sender.clone();
        start("signals", move || {
            for (before, _) in signals.forever().enumerate() {
                if before > 0 {
                    std::process::exit(3);
                }
                let _ = told.send(Message::Signal);
            }
        })?;
        Ok(Inbox { receiver, sender, waiting: VecDeque::new(), stopped: false })
    }

    /// Reads stdin from now on.
    pub fn listen(&self) -> Result<(), Failure> {
        let told = self.sender.clone();
        start("stdin", move || {
            let mut stdin = std::io::stdin().lock();
            let mut line = Vec::new();
            while stdin.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                // What is not UTF-8 is no JSON either, and is refused there.
                let _ = told.send(Message::Line(String::from_utf8_lossy(&line).into_owned()));
                line.clear();
            }
            let _ = told.send(Message::End);
        })
    }

    pub fn nudge(&self) -> Nudge {
        Nudge(self.sender.clone())
    }

    pub fn read(&mut self) -> Next {
        loop {
            if self.stopped {
                return Next::End;
            }
            if let Some(next) = self.waiting.pop_front() {
                return next;
            }
            if let Ok(message) = self.receiver.recv() {
                self.take(message);
            }
        }
    }

    pub fn wait_until(&mut self, when: Instant) -> Woken {
        while !self.stopped {
            match self.receiver.recv_timeout(when.saturating_duration_since(Instant::now())) {
                Ok(Message::Nudge) => return Woken::Nudge,
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Woken::Time,
            }
        }
        Woken::Signal
    }

    /// Waits so long, whoever nudges; false as soon as a signal came.
    pub fn wait(&mut self, duration: Duration) -> bool {
        let until = Instant::now() + duration;
        loop {
            match self.wait_until(until) {
                Woken::Time => return true,
                Woken::Signal => return false,
                Woken::Nudge => {}
            }
        }
    }

    /// Whether a signal came; does not wait.
    pub fn stopped(&mut self) -> bool {
        while let Ok(message) = self.receiver.try_recv() {
            self.take(message);
        }
        self.stopped
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Line(line) => self.waiting.push_back(Next::Line(line)),
            Message::End => self.waiting.push_back(Next::End),
            Message::Signal => self.stopped = true,
            Message::Nudge => {}
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.into()).stack_size(64 * 1024).spawn(work);
    started.map(drop).map_err(|e| Failure::run(format!("cannot start a thread: {e}")))
}
