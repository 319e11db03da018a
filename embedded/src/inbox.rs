//! What reaches the process while it works: lines on stdin, the end of stdin, SIGINT and SIGTERM. Lines are handled in
//! order, each after the one before is done; a signal is handled at once, a second one ends the process where it stands.

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
}

/// The next thing to do.
pub enum Next {
    Line(String),
    /// Stdin ended, or a signal came.
    End,
}

pub struct Inbox {
    receiver: Receiver<Message>,
    /// Kept so that the channel never closes.
    sender: Sender<Message>,
    waiting: VecDeque<Next>,
    stopped: bool,
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

    pub fn next(&mut self) -> Next {
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

    /// Waits until `when`; false as soon as a signal came.
    pub fn wait_until(&mut self, when: Instant) -> bool {
        while !self.stopped {
            match self.receiver.recv_timeout(when.saturating_duration_since(Instant::now())) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return true,
            }
        }
        false
    }

    pub fn wait(&mut self, duration: Duration) -> bool {
        self.wait_until(Instant::now() + duration)
    }

    /// Whether a signal came; does not wait.
    pub fn stopped(&mut self) -> bool {
        !self.wait(Duration::ZERO)
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Line(line) => self.waiting.push_back(Next::Line(line)),
            Message::End => self.waiting.push_back(Next::End),
            Message::Signal => self.stopped = true,
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.into()).stack_size(64 * 1024).spawn(work);
    started.map(drop).map_err(|e| Failure::run(format!("cannot start a thread: {e}")))
}
