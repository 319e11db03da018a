//! A client: one transaction after another, each begun, done and committed, retried while it conflicts.
//!
//! All that a client counts or plans with is allocated before it starts. In the loop TidesDB and its binding allocate, as they
//! would for any program that reads and writes rows, and a range read takes a buffer for its rows, as servers do for a sort or
//! for the network: blocks of such sizes, 16 KiB and more, are what heaps differ in most.
//!
//! The table keeps its size under a mix with as many inserts as deletes: an insert writes the oldest row again that this
//! client deleted in an earlier transaction, and a new id only when it has none.

use crate::database::{self, Account, Ledger, Table};
use crate::keys::{Keys, Share, Writes};
use crate::mix::{Kind, Mix};
use crate::row;
use crate::run::{Phase, Shared};
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;
use tidesdb::ErrorCode;

/// How many deleted ids a client keeps for its inserts; the oldest beyond are forgotten.
const HOLES: usize = 256;
/// A delete that finds no row looks for another one anywhere in the table, so often in all.
const DELETE_TRIES: u32 = 16;
/// Places of `Counts::errors`: TidesDB's codes are -1 to -17; place 0 is a row that is not what was written.
const CODES: usize = 18;

/// What every client of a run is given.
#[derive(Clone, Copy)]
pub struct Work {
    pub mix: Mix,
    pub keys: Keys,
    pub writes: Writes,
    pub rows: u64,
    pub range_rows: u64,
    pub value_bytes: usize,
    pub result_bytes: usize,
}

/// What a client saw inside the window.
pub struct Counts {
    pub transactions: u64,
    pub retries: u64,
    pub operations: [u64; Kind::ALL.len()],
    pub rows_read: u64,
    pub not_found: u64,
    pub errors: [u64; CODES],
    pub latency_ns: Histogram<u32>,
}

pub struct Client<'a> {
    table: Table<'a>,
    ledger: &'a Ledger,
    work: Work,
    /// None: it writes any row.
    share: Option<Share>,
    rng: SmallRng,
    /// The operations of the transaction under way, with the id that each begins at.
    plan: Vec<(Kind, u64)>,
    row: Vec<u8>,
    holes: VecDeque<u64>,
    effects: Effects,
    account: Account,
    counts: Counts,
}

/// What one attempt at a transaction did; counts only once it has committed.
struct Effects {
    rows: i64,
    sum: u64,
    rows_read: u64,
    not_found: u64,
    deleted: Vec<u64>,
}

/// Why an attempt ended before it committed.
enum Trouble {
    /// Another transaction was in the way.
    Conflict,
    Error(Error),
}

/// What ends a transaction for good.
enum Error {
    TidesDB(tidesdb::Error),
    /// The commit itself failed: whether it was applied is not known.
    Commit(tidesdb::Error),
    /// A read returned a row that was never written.
    DamagedRow(u64),
}

impl From<tidesdb::Error> for Trouble {
    fn from(e: tidesdb::Error) -> Self {
        if e.is_conflict() || e.is_locked() { Trouble::Conflict } else { Trouble::Error(Error::TidesDB(e)) }
    }
}

fn damaged(id: u64) -> Trouble {
    Trouble::Error(Error::DamagedRow(id))
}

impl<'a> Client<'a> {
    pub fn new(
        table: Table<'a>,
        ledger: &'a Ledger,
        work: Work,
        share: Share,
        hole: Option<u64>,
        seed: u64,
    ) -> Client<'a> {
        let operations = work.mix.operations().count();
        let mut holes = VecDeque::with_capacity(HOLES);
        holes.extend(hole);
        Client {
            table,
            ledger,
            work,
            share: (work.writes == Writes::Own).then_some(share),
            rng: SmallRng::seed_from_u64(seed),
            plan: Vec::with_capacity(operations),
            row: vec![0; work.value_bytes],
            holes,
            effects: Effects { rows: 0, sum: 0, rows_read: 0, not_found: 0, deleted: Vec::with_capacity(operations) },
            account: Account::default(),
            counts: Counts::new(),
        }
    }

    /// Runs transactions until the run stops.
    pub fn work(mut self, shared: &Shared, place: usize) -> (Account, Counts) {
        shared.wait_for_start();
        let mut done = 0u64;
        while shared.phase() != Phase::Stop {
            self.draw();
            let start = Instant::now();
            let (retries, ended) = self.transaction(shared);
            let took = start.elapsed();
            let measured = shared.phase() == Phase::Window;
            match ended {
                Some(Ok(())) => {
                    done += 1;
                    shared.completed(place, done);
                    if measured {
                        self.counts.committed(&self.work.mix, &self.effects, took.as_nanos() as u64);
                    }
                }
                Some(Err(error)) => {
                    if measured {
                        self.counts.errors[error.place()] += 1;
                    }
                    shared.complain(|| error.text());
                }
                None => {}
            }
            if measured {
                self.counts.retries += retries;
            }
        }
        self.account.holes.extend(self.holes);
        (self.account, self.counts)
    }

    /// Chooses what the next transaction does.
    fn draw(&mut self) {
        self.plan.clear();
        for kind in self.work.mix.operations() {
            let id = match kind {
                Kind::Insert => self.holes.pop_front().unwrap_or_else(|| self.ledger.fresh()),
                Kind::Point | Kind::Range => self.work.keys.draw(&mut self.rng),
                Kind::Update | Kind::Delete => {
                    let id = self.work.keys.draw(&mut self.rng);
                    self.share.map_or(id, |share| share.own(id, self.work.rows))
                }
            };
            self.plan.push((kind, id));
        }
    }

    /// Does the planned transaction, again while it conflicts; `None` if the run stopped meanwhile. Also how often it was
    /// done again.
    fn transaction(&mut self, shared: &Shared) -> (u64, Option<Result<(), Error>>) {
        let mut retries = 0;
        let ended = loop {
            match self.attempt() {
                Ok(()) => break Some(Ok(())),
                Err(Trouble::Error(error)) => break Some(Err(error)),
                Err(Trouble::Conflict) if shared.phase() == Phase::Stop => break None,
                Err(Trouble::Conflict) => {
                    retries += 1;
                    std::thread::yield_now();
                }
            }
        };
        match &ended {
            Some(Ok(())) => {
                self.account.rows += self.effects.rows;
                self.account.sum = self.account.sum.wrapping_add(self.effects.sum);
                for id in self.effects.deleted.drain(..) {
                    if self.holes.len() == HOLES {
                        self.holes.pop_front();
                    }
                    self.holes.push_back(id);
                }
            }
            Some(Err(Error::Commit(_))) => self.account.uncertain += 1,
            // Nothing was written: the ids that were to be inserted are still free.
            Some(Err(Error::TidesDB(_) | Error::DamagedRow(_))) | None => {
                self.account.damaged += u64::from(matches!(ended, Some(Err(Error::DamagedRow(_)))));
                let free = self.plan.iter().filter(|(kind, _)| *kind == Kind::Insert).map(|(_, id)| *id);
                self.holes.extend(free.take(HOLES - self.holes.len()));
            }
        }
        (retries, ended)
    }

    fn attempt(&mut self) -> Result<(), Trouble> {
        let Client { table, work, share, rng, plan, row, effects, .. } = self;
        let rows = &table.rows;
        effects.clear();
        let mut transaction = table.begin()?;
        // The row's k, or None when there is no such row.
        let read = |id: u64| match transaction.get(rows, &row::key(id)) {
            Ok(value) => row::k(&value, id, work.value_bytes).map(Some).ok_or(damaged(id)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e.into()),
        };
        for &(kind, id) in plan.iter() {
            match kind {
                Kind::Point => match read(id)? {
                    Some(_) => effects.rows_read += 1,
                    None => effects.not_found += 1,
                },
                Kind::Range => {
                    let (lower, upper) = (row::key(id), row::key(id + work.range_rows - 1));
                    let mut range = transaction.new_range_iterator(rows, &lower, &upper)?;
                    range.seek(&lower)?;
                    let mut result = Vec::with_capacity(work.result_bytes);
                    while range.is_valid() {
                        let (key, value) = range.key_value()?;
                        if key[..] > upper[..] {
                            break;
                        }
                        let id = row::id_of(&key).ok_or(damaged(id))?;
                        row::k(&value, id, work.value_bytes).ok_or(damaged(id))?;
                        if value.len() <= result.capacity() - result.len() {
                            result.extend_from_slice(&value);
                        }
                        effects.rows_read += 1;
                        range.next()?;
                    }
                    black_box(&result);
                }
                Kind::Update => match read(id)? {
                    Some(k) => {
                        row::write(row, id, k.wrapping_add(1), rng.random());
                        transaction.put(rows, &row::key(id), row)?;
                        effects.sum = effects.sum.wrapping_add(1);
                    }
                    None => effects.not_found += 1,
                },
                Kind::Delete => {
                    let mut found = None;
                    for attempt in 0..DELETE_TRIES {
                        let id = match (attempt, share.as_ref()) {
                            (0, _) => id,
                            (_, None) => rng.random_range(0..work.rows),
                            (_, Some(share)) => share.own(rng.random_range(0..work.rows), work.rows),
                        };
                        if let Some(k) = read(id)? {
                            found = Some((id, k));
                            break;
                        }
                    }
                    match found {
                        Some((id, k)) => {
                            transaction.delete(rows, &row::key(id))?;
                            effects.deleted.push(id);
                            effects.rows -= 1;
                            effects.sum = effects.sum.wrapping_sub(k);
                        }
                        None => effects.not_found += 1,
                    }
                }
                Kind::Insert => {
                    // An insert looks whether the key is free, as a table with a primary key must.
                    if transaction.contains(rows, &row::key(id))? {
                        return Err(damaged(id));
                    }
                    let k = rng.random_range(0..database::K);
                    row::write(row, id, k, rng.random());
                    transaction.put(rows, &row::key(id), row)?;
                    effects.rows += 1;
                    effects.sum = effects.sum.wrapping_add(k);
                }
            }
        }
        transaction.commit().map_err(|e| match Trouble::from(e) {
            Trouble::Error(Error::TidesDB(e)) => Trouble::Error(Error::Commit(e)),
            other => other,
        })
    }
}

impl Effects {
    fn clear(&mut self) {
        self.deleted.clear();
        (self.rows, self.sum, self.rows_read, self.not_found) = (0, 0, 0, 0);
    }
}

impl Error {
    /// The place of this error in `Counts::errors`.
    fn place(&self) -> usize {
        match self {
            Error::DamagedRow(_) => 0,
            Error::TidesDB(e) | Error::Commit(e) => {
                let code = e.code().unwrap_or(ErrorCode::Unknown).code().unsigned_abs() as usize;
                if code < CODES { code } else { ErrorCode::Unknown.code().unsigned_abs() as usize }
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Error::TidesDB(e) | Error::Commit(e) => e.to_string(),
            Error::DamagedRow(id) => format!("row {id} is not what was written"),
        }
    }
}

impl Counts {
    pub fn new() -> Counts {
        // 2 digits from 128 ns to 1000 s: 15 KiB.
        let latency_ns = Histogram::new_with_bounds(128, 1_000_000_000_000, 2).expect("the bounds are valid");
        Counts {
            transactions: 0,
            retries: 0,
            operations: [0; Kind::ALL.len()],
            rows_read: 0,
            not_found: 0,
            errors: [0; CODES],
            latency_ns,
        }
    }

    fn committed(&mut self, mix: &Mix, effects: &Effects, took_ns: u64) {
        self.transactions += 1;
        for kind in Kind::ALL {
            self.operations[kind as usize] += u64::from(mix.of(kind));
        }
        self.rows_read += effects.rows_read;
        self.not_found += effects.not_found;
        self.latency_ns.saturating_record(took_ns);
    }

    pub fn add(&mut self, other: &Counts) {
        self.transactions += other.transactions;
        self.retries += other.retries;
        self.rows_read += other.rows_read;
        self.not_found += other.not_found;
        self.operations.iter_mut().zip(other.operations).for_each(|(sum, n)| *sum += n);
        self.errors.iter_mut().zip(other.errors).for_each(|(sum, n)| *sum += n);
        self.latency_ns.add(&other.latency_ns).expect("all histograms have the same bounds");
    }

    /// The errors that happened, by TidesDB's name for them.
    pub fn errors(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let name = |place: usize| match place {
            0 => "DamagedRow".to_owned(),
            code => format!("{:?}", ErrorCode::from_code(-(code as i32))),
        };
        self.errors.iter().enumerate().filter(|(_, n)| **n > 0).map(move |(place, n)| (name(place), *n))
    }
}
