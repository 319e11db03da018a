//! TidesDB with one table: opened, filled, settled, checked. `Ledger` is what the table must hold by the clients' account;
//! a scan that finds something else means that memory was damaged somewhere.

use crate::Failure;
use crate::args::Args;
use crate::directory::Directory;
use crate::row;
use crate::store::{self, Stalls};
use harness::event::{Checked, Renewed, Settled};
use harness::inbox::Inbox;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tidesdb::{ColumnFamily, ColumnFamilyConfig, IsolationLevel, TidesDB, Transaction};

const TABLE: &str = "sbtest";
/// Rows of one transaction while the table is filled.
const BATCH: u64 = 500;
/// `k` starts below this.
pub const K: u64 = 1 << 20;

pub struct Database {
    // Above the directory, so that it is closed before its files go.
    tidesdb: TidesDB,
    _directory: Directory,
    pub ledger: Ledger,
    pub value_bytes: usize,
}

/// What the table must hold, by the account of every committed transaction.
#[derive(Debug, Default)]
pub struct Ledger {
    pub rows: u64,
    /// Sum of `k` over all rows, modulo 2^64.
    pub sum: u64,
    /// The lowest id that no row ever had.
    pub next_id: AtomicU64,
    /// Ids below `rows` whose rows were deleted and that no client holds now.
    pub holes: Vec<u64>,
    /// Commits that failed in a way that does not tell whether they were applied.
    pub uncertain: u64,
    /// Reads by clients that returned a row which was never written.
    pub damaged: u64,
}

/// A client's way into the table.
pub struct Table<'a> {
    tidesdb: &'a TidesDB,
    pub rows: ColumnFamily<'a>,
}

impl<'a> Table<'a> {
    pub fn begin(&self) -> tidesdb::Result<Transaction<'a>> {
        self.tidesdb.begin_transaction_with_isolation(IsolationLevel::Snapshot)
    }
}

impl Database {
    pub fn open(args: &Args) -> Result<Database, Failure> {
        let directory = Directory::claim(&args.dir)?;
        let tidesdb = store::open(&directory.database(), args.write_buffer, args.cache)?;
        let value_bytes = args.value_bytes as usize;
        let database = Database { tidesdb, _directory: directory, ledger: Ledger::default(), value_bytes };
        database.create()?;
        Ok(database)
    }

    fn create(&self) -> Result<(), Failure> {
        let created = self.tidesdb.create_column_family(TABLE, ColumnFamilyConfig::new());
        created.map_err(|e| Failure::Run(format!("cannot create the table: {e}")))
    }

    /// Drops the table and fills a new one, as `prepare` does: what earlier runs wrote slows nobody, and the heap is as they left it.
    pub fn renew(&mut self, rows: u64, seed: u64, inbox: &mut Inbox) -> Result<Option<Renewed>, Failure> {
        let start = Instant::now();
        self.tidesdb.drop_column_family(TABLE).map_err(|e| Failure::Run(format!("cannot drop the table: {e}")))?;
        self.create()?;
        let whole = self.prepare(rows, seed, inbox)?;
        Ok(whole.then(|| Renewed { prepare_s: start.elapsed().as_secs_f64() }))
    }

    pub fn table(&self) -> Result<Table<'_>, Failure> {
        let rows =
            self.tidesdb.get_column_family(TABLE).map_err(|e| Failure::Run(format!("cannot open the table: {e}")))?;
        Ok(Table { tidesdb: &self.tidesdb, rows })
    }

    /// Fills the table with ids `0..rows`, flushes it and waits until it is quiet. False if a signal came.
    pub fn prepare(&mut self, rows: u64, seed: u64, inbox: &mut Inbox) -> Result<bool, Failure> {
        let mut sum = 0u64;
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut value = vec![0; self.value_bytes];
        let table = self.table()?;
        let failed = |e| Failure::Run(format!("cannot fill the table: {e}"));
        for first in (0..rows).step_by(BATCH as usize) {
            if inbox.stopped() {
                return Ok(false);
            }
            let mut transaction = table.begin().map_err(failed)?;
            for id in first..rows.min(first + BATCH) {
                let k = rng.random_range(0..K);
                row::write(&mut value, id, k, rng.random());
                transaction.put(&table.rows, &row::key(id), &value).map_err(failed)?;
                sum = sum.wrapping_add(k);
            }
            transaction.commit().map_err(failed)?;
        }
        drop(table);
        self.tidesdb.flush_memtable().map_err(failed)?;
        self.ledger = Ledger { rows, sum, next_id: AtomicU64::new(rows), ..Ledger::default() };
        Ok(self.settle(Duration::from_secs(30), inbox)?.is_some())
    }

    /// Waits until no flush and no compaction is under way, queued or newly done. `None` if a signal came.
    pub fn settle(&self, timeout: Duration, inbox: &mut Inbox) -> Result<Option<Settled>, Failure> {
        store::settle(&self.tidesdb, &[TABLE], timeout, inbox)
    }

    pub fn stalls_us(&self) -> Result<Stalls, Failure> {
        store::stalls_us(&self.tidesdb)
    }

    /// Reads the whole table and compares it with the ledger. `None` if a signal came.
    pub fn check(&self, inbox: &mut Inbox) -> Result<Option<Checked>, Failure> {
        let table = self.table()?;
        let ledger = &self.ledger;
        loop {
            let found = match self.scan(&table, inbox) {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(None),
                // The scan met a compaction that moves what it reads: ask again.
                Err(Damage::TidesDB(e)) if e.is_locked() => continue,
                Err(Damage::TidesDB(e)) => {
                    return Ok(Some(Checked { holds: false, what: format!("the table cannot be read: {e}") }));
                }
                Err(Damage::Row(what)) => return Ok(Some(Checked { holds: false, what })),
            };
            let holds = found == (Found { rows: ledger.rows, sum: ledger.sum }) && ledger.damaged == 0;
            let mut what = format!(
                "{} rows with sum {} of k in the table, {} rows with sum {} by the clients' account",
                found.rows, found.sum, ledger.rows, ledger.sum
            );
            if ledger.uncertain > 0 {
                what += &format!("; {} commits failed without saying whether they were applied", ledger.uncertain);
            }
            if ledger.damaged > 0 {
                what += &format!("; {} reads by clients returned a row that was never written", ledger.damaged);
            }
            return Ok(Some(Checked { holds, what }));
        }
    }

    fn scan(&self, table: &Table, inbox: &mut Inbox) -> Result<Option<Found>, Damage> {
        let transaction = table.begin()?;
        let mut rows = transaction.new_iterator(&table.rows)?;
        let mut found = Found { rows: 0, sum: 0 };
        let mut last = None;
        rows.seek_to_first()?;
        while rows.is_valid() {
            let (key, value) = rows.key_value()?;
            let id =
                row::id_of(&key).ok_or_else(|| Damage::Row(format!("a key of {} bytes in the table", key.len())))?;
            if last.is_some_and(|last| last >= id) {
                return Err(Damage::Row(format!("row {id} comes after row {}", last.unwrap_or(0))));
            }
            let k = row::k_of_checked(&value, id, self.value_bytes)
                .ok_or_else(|| Damage::Row(format!("row {id} is not what was written")))?;
            last = Some(id);
            found.rows += 1;
            found.sum = found.sum.wrapping_add(k);
            if found.rows.is_multiple_of(4096) && inbox.stopped() {
                return Ok(None);
            }
            rows.next()?;
        }
        Ok(Some(found))
    }
}

impl Ledger {
    /// Takes one client's account over.
    pub fn add(&mut self, account: Account) {
        self.rows = self.rows.wrapping_add_signed(account.rows);
        self.sum = self.sum.wrapping_add(account.sum);
        self.uncertain += account.uncertain;
        self.damaged += account.damaged;
        self.holes.extend(account.holes);
    }

    pub fn fresh(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }
}

/// What one client changed in the table, over all its committed transactions.
#[derive(Debug, Default)]
pub struct Account {
    pub rows: i64,
    pub sum: u64,
    pub uncertain: u64,
    pub damaged: u64,
    /// Ids whose rows it deleted and did not insert again.
    pub holes: Vec<u64>,
}

#[derive(PartialEq)]
struct Found {
    rows: u64,
    sum: u64,
}

enum Damage {
    TidesDB(tidesdb::Error),
    Row(String),
}

impl From<tidesdb::Error> for Damage {
    fn from(e: tidesdb::Error) -> Self {
        Damage::TidesDB(e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// A database of 1000 rows in a directory of its own, and the inbox that it is asked with.
    fn prepared(name: &str) -> (Database, Inbox) {
        let dir = std::env::temp_dir().join(format!("evenkeel-database-{name}-{}", std::process::id()));
        let args = Args::parse_from(["evenkeel-embedded", "--rows", "1000", "--dir", dir.to_str().unwrap()]);
        let mut inbox = Inbox::open().unwrap();
        let mut database = Database::open(&args).unwrap();
        assert!(database.prepare(args.rows, args.seed, &mut inbox).unwrap());
        (database, inbox)
    }

    fn checked(database: &Database, inbox: &mut Inbox) -> Checked {
        database.check(inbox).unwrap().expect("no signal came")
    }

    /// Puts `value` at `key`, past the clients' account.
    fn put(database: &Database, key: &[u8], value: &[u8]) {
        let table = database.table().unwrap();
        let mut transaction = table.begin().unwrap();
        transaction.put(&table.rows, key, value).unwrap();
        transaction.commit().unwrap();
    }

    #[test]
    fn a_prepared_table_holds_until_the_account_says_otherwise() {
        let (mut database, mut inbox) = prepared("account");
        assert!(checked(&database, &mut inbox).holds);
        database.ledger.add(Account { rows: -1, ..Account::default() });
        let missing = checked(&database, &mut inbox);
        assert!(!missing.holds && missing.what.contains("1000 rows") && missing.what.contains("999 rows"));
        database.ledger.add(Account { rows: 1, sum: 1, ..Account::default() });
        assert!(!checked(&database, &mut inbox).holds);
        database.ledger.add(Account { sum: u64::MAX, ..Account::default() });
        assert!(checked(&database, &mut inbox).holds);
        database.ledger.add(Account { damaged: 1, ..Account::default() });
        assert!(!checked(&database, &mut inbox).holds);
    }

    #[test]
    fn a_renewed_table_is_as_the_first() {
        let (mut database, mut inbox) = prepared("renew");
        let first = (database.ledger.rows, database.ledger.sum);
        put(&database, &row::key(7), b"damaged");
        assert!(!checked(&database, &mut inbox).holds);
        assert!(database.renew(1000, 1, &mut inbox).unwrap().is_some());
        assert!(checked(&database, &mut inbox).holds);
        assert_eq!((database.ledger.rows, database.ledger.sum), first);
        assert!(database.renew(10, 1, &mut inbox).unwrap().is_some());
        assert!(checked(&database, &mut inbox).what.starts_with("10 rows"));
    }

    #[test]
    fn a_row_that_nobody_wrote_is_named() {
        let (database, mut inbox) = prepared("row");
        let mut value = vec![0; database.value_bytes];
        row::write(&mut value, 7, 0, 5);
        value[100] ^= 1;
        put(&database, &row::key(7), &value);
        let found = checked(&database, &mut inbox);
        assert!(!found.holds && found.what.contains("row 7 is not what was written"), "{}", found.what);
    }

    #[test]
    fn a_key_that_nobody_wrote_is_found() {
        let (database, mut inbox) = prepared("key");
        put(&database, b"abc", b"");
        let found = checked(&database, &mut inbox);
        assert!(!found.holds && found.what.contains("key of 3 bytes"), "{}", found.what);
    }
}
