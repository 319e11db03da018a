//! What was counted between two moments. Each thread counts for itself; whoever measures takes a thread's tally away and
//! leaves an empty one, so what was counted before a window opened cannot be in it.

use crate::event::{Figures, KindFigures, KindSecond, Latency, Minutes, Second};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// `C` is the store's code for why an attempt ended.
pub struct Tally<C> {
    pub kinds: Vec<KindTally>,
    pub errors: BTreeMap<C, u64>,
    pub retries: BTreeMap<C, u64>,
    pub statements: u64,
    pub rows: u64,
    /// What the transactions changed of the figure that the test's ledger follows.
    pub change: i64,
}

pub struct KindTally {
    /// Nanoseconds.
    latency: Histogram<u64>,
    rolled_back: u64,
}

/// How a transaction that was not given up ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    pub kind: usize,
    /// The test itself took it back.
    pub rolled_back: bool,
    pub change: i64,
}

impl<C: Copy + Ord + ToString> Tally<C> {
    pub fn new(kinds: usize) -> Tally<C> {
        // 100 ns to an hour, to three digits.
        let latency = || Histogram::new_with_bounds(100, 3_600_000_000_000, 3).expect("bounds are sound");
        Tally {
            kinds: (0..kinds).map(|_| KindTally { latency: latency(), rolled_back: 0 }).collect(),
            errors: BTreeMap::new(),
            retries: BTreeMap::new(),
            statements: 0,
            rows: 0,
            change: 0,
        }
    }

    pub fn done(&mut self, done: Done, latency: Duration) {
        let kind = &mut self.kinds[done.kind];
        kind.latency.saturating_record(latency.as_nanos() as u64);
        kind.rolled_back += u64::from(done.rolled_back);
        self.change += done.change;
    }

    pub fn add(&mut self, other: &Tally<C>) {
        for (kind, more) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.latency.add(&more.latency).expect("bounds are the same");
            kind.rolled_back += more.rolled_back;
        }
        other.errors.iter().for_each(|(code, n)| *self.errors.entry(*code).or_default() += n);
        other.retries.iter().for_each(|(code, n)| *self.retries.entry(*code).or_default() += n);
        self.statements += other.statements;
        self.rows += other.rows;
        self.change += other.change;
    }

    pub fn clear(&mut self) {
        self.kinds.iter_mut().for_each(|kind| {
            kind.latency.reset();
            kind.rolled_back = 0;
        });
        self.errors.clear();
        self.retries.clear();
        (self.statements, self.rows, self.change) = (0, 0, 0);
    }

    pub fn transactions(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.latency.len()).sum()
    }

    fn all(&self) -> Histogram<u64> {
        let mut all = self.kinds[0].latency.clone();
        self.kinds[1..].iter().for_each(|kind| all.add(&kind.latency).expect("bounds are the same"));
        all
    }

    /// One second, but for what the tally does not know.
    pub fn second(&self, names: &[&'static str], at: f64, seconds: f64, clients: u32, cpu_s: f64) -> Second {
        let kind = |kind: &KindTally| KindSecond {
            count: kind.latency.len(),
            mean_ms: kind.latency.mean() / 1e6,
            p95_ms: ms(&kind.latency, 0.95),
            p99_ms: ms(&kind.latency, 0.99),
        };
        Second {
            at,
            seconds,
            clients,
            tps: self.transactions() as f64 / seconds,
            p99_ms: ms(&self.all(), 0.99),
            errors: by_code(&self.errors),
            retries: self.retries.values().sum(),
            cpu_s,
            kinds: names.iter().copied().zip(self.kinds.iter().map(kind)).collect(),
            minutes: self.minutes(seconds),
        }
    }

    /// The figures of a window, but for what the tally does not know.
    pub fn figures(&self, names: &[&'static str], clients: u32, seconds: f64) -> Figures {
        let kind = |kind: &KindTally| KindFigures {
            count: kind.latency.len(),
            rolled_back: kind.rolled_back,
            latency_ms: latency(&kind.latency),
        };
        Figures {
            clients,
            seconds,
            connect_s: 0.0,
            transactions: self.transactions(),
            tps: self.transactions() as f64 / seconds,
            latency_ms: latency(&self.all()),
            errors: by_code(&self.errors),
            retries: self.retries.values().sum(),
            retries_by_code: by_code(&self.retries),
            kinds: names.iter().copied().zip(self.kinds.iter().map(kind)).collect(),
            rows_read: self.rows,
            minutes: self.minutes(seconds),
        }
    }

    /// TPC-C's own rates; its first kind is New-Order, and no other test has five kinds.
    fn minutes(&self, seconds: f64) -> Option<Minutes> {
        (self.kinds.len() == tpcc::Kind::ALL.len()).then(|| {
            let a_minute = |count: u64| count as f64 * 60.0 / seconds;
            let orders = &self.kinds[tpcc::Kind::NewOrder as usize];
            Minutes {
                nopm: a_minute(orders.latency.len() - orders.rolled_back),
                tpm: a_minute(self.transactions()),
                tpmc: a_minute(orders.latency.len()),
            }
        })
    }
}

fn by_code<C: ToString>(counts: &BTreeMap<C, u64>) -> BTreeMap<String, u64> {
    counts.iter().map(|(code, count)| (code.to_string(), *count)).collect()
}

fn ms(latency: &Histogram<u64>, quantile: f64) -> f64 {
    latency.value_at_quantile(quantile) as f64 / 1e6
}

fn latency(latency: &Histogram<u64>) -> Latency {
    Latency {
        mean: latency.mean() / 1e6,
        p50: ms(latency, 0.5),
        p95: ms(latency, 0.95),
        p99: ms(latency, 0.99),
        p999: ms(latency, 0.999),
        max: latency.max() as f64 / 1e6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_and_clear() {
        let mut total = Tally::<u16>::new(5);
        let mut second = Tally::new(5);
        for ms in 1..=100 {
            let done = Done { kind: 0, rolled_back: ms == 100, change: 1 };
            second.done(done, Duration::from_millis(ms));
        }
        second.done(Done { kind: 1, ..Done::default() }, Duration::from_millis(5));
        *second.retries.entry(1213).or_default() += 3;
        total.add(&second);
        total.add(&second);
        second.clear();
        assert_eq!((second.transactions(), second.change, second.retries.len()), (0, 0, 0));
        let figures = total.figures(&["new_order", "payment"], 7, 60.0);
        assert_eq!((figures.transactions, figures.retries, total.change), (202, 6, 200));
        assert_eq!(figures.minutes, Some(Minutes { nopm: 198.0, tpm: 202.0, tpmc: 200.0 }));
        let orders = &figures.kinds["new_order"];
        assert_eq!((orders.count, orders.rolled_back), (200, 2));
        assert!((orders.latency_ms.p99 - 99.0).abs() < 0.1, "{}", orders.latency_ms.p99);
    }

    #[test]
    fn a_test_of_one_kind_has_no_orders() {
        assert_eq!(Tally::<u16>::new(1).figures(&["transaction"], 1, 1.0).minutes, None);
    }
}
