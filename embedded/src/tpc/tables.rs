//! The nine tables and two indexes as column families of one TidesDB, and a transaction on them.

use super::codec;
use crate::Failure;
use std::cell::Cell;
use tidesdb::{ColumnFamily, ColumnFamilyConfig, ErrorCode, IsolationLevel, TidesDB};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Item,
    Warehouse,
    District,
    Customer,
    /// Customers by last and first name; no values.
    CustomerName,
    History,
    Order,
    /// Orders by customer, the newest first; no values.
    OrderCustomer,
    /// No values.
    NewOrder,
    OrderLine,
    Stock,
}

pub const NAMES: [&str; 11] = [
    "item",
    "warehouse",
    "district",
    "customer",
    "customer_name",
    "history",
    "orders",
    "order_customer",
    "new_order",
    "order_line",
    "stock",
];

/// Why an attempt at a transaction ended early.
#[derive(Debug)]
pub enum Trouble {
    /// Another transaction was in the way: to be tried again. TidesDB's name for how.
    Again(&'static str),
    Error(Error),
}

/// What ends a transaction for good.
#[derive(Debug)]
pub enum Error {
    TidesDB(tidesdb::Error),
    /// The commit itself failed: whether it was applied is not known.
    Commit(tidesdb::Error),
    /// A read returned a row that was never written.
    Damaged(Table),
    /// A row is not there that must be.
    Missing(Table),
}

impl From<tidesdb::Error> for Trouble {
    fn from(e: tidesdb::Error) -> Self {
        if e.is_conflict() || e.is_locked() { Trouble::Again(name(&e)) } else { Trouble::Error(Error::TidesDB(e)) }
    }
}

impl Error {
    pub fn name(&self) -> &'static str {
        match self {
            Error::TidesDB(e) | Error::Commit(e) => name(e),
            Error::Damaged(_) => "DamagedRow",
            Error::Missing(_) => "MissingRow",
        }
    }

    pub fn text(&self) -> String {
        match self {
            Error::TidesDB(e) | Error::Commit(e) => e.to_string(),
            Error::Damaged(table) => format!("a row of {} is not what was written", NAMES[*table as usize]),
            Error::Missing(table) => format!("a row of {} is not there", NAMES[*table as usize]),
        }
    }
}

/// TidesDB's name for the error.
fn name(error: &tidesdb::Error) -> &'static str {
    match error.code().unwrap_or(ErrorCode::Unknown) {
        ErrorCode::Memory => "Memory",
        ErrorCode::InvalidArgs => "InvalidArgs",
        ErrorCode::NotFound => "NotFound",
        ErrorCode::Io => "Io",
        ErrorCode::Corruption => "Corruption",
        ErrorCode::Exists => "Exists",
        ErrorCode::Conflict => "Conflict",
        ErrorCode::TooLarge => "TooLarge",
        ErrorCode::MemoryLimit => "MemoryLimit",
        ErrorCode::InvalidDb => "InvalidDb",
        ErrorCode::Locked => "Locked",
        ErrorCode::ReadOnly => "ReadOnly",
        ErrorCode::TxnExpired => "TxnExpired",
        ErrorCode::NoSpace => "NoSpace",
        ErrorCode::TxnAborted => "TxnAborted",
        ErrorCode::TooOld => "TooOld",
        _ => "Unknown",
    }
}

pub fn create(tidesdb: &TidesDB) -> Result<(), Failure> {
    NAMES.iter().try_for_each(|name| {
        let created = tidesdb.create_column_family(name, ColumnFamilyConfig::new());
        created.map_err(|e| Failure::Run(format!("cannot create the table {name}: {e}")))
    })
}

/// A way into the tables; each thread has its own.
pub struct Tables<'a> {
    tidesdb: &'a TidesDB,
    families: [ColumnFamily<'a>; NAMES.len()],
}

impl<'a> Tables<'a> {
    pub fn of(tidesdb: &'a TidesDB) -> Result<Tables<'a>, Failure> {
        let families: Result<Vec<_>, _> = NAMES.iter().map(|name| tidesdb.get_column_family(name)).collect();
        let families = families.map_err(|e| Failure::Run(format!("cannot open the tables: {e}")))?;
        let families = families.try_into().map_err(|_| Failure::run("cannot open the tables"))?;
        Ok(Tables { tidesdb, families })
    }

    pub fn begin(&self) -> Result<Transaction<'_>, Trouble> {
        let transaction = self.tidesdb.begin_transaction_with_isolation(IsolationLevel::Snapshot)?;
        Ok(Transaction { transaction, families: &self.families, rows: Cell::new(0) })
    }
}

/// Under snapshot isolation: it sees what was committed when it began, and what it wrote itself. Dropped, it is rolled back.
pub struct Transaction<'a> {
    transaction: tidesdb::Transaction<'a>,
    families: &'a [ColumnFamily<'a>; NAMES.len()],
    rows: Cell<u64>,
}

impl Transaction<'_> {
    /// Rows that reads have returned.
    pub fn rows(&self) -> u64 {
        self.rows.get()
    }

    /// The body of the value at `key`, if there is one.
    pub fn find(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        match self.transaction.get(&self.families[table as usize], key) {
            Ok(value) => {
                self.rows.set(self.rows.get() + 1);
                codec::open(key, value).map(Some).ok_or(damaged(table))
            }
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub fn get(&self, table: Table, key: &[u8]) -> Result<Vec<u8>, Trouble> {
        self.find(table, key)?.ok_or(Trouble::Error(Error::Missing(table)))
    }

    pub fn put(&self, table: Table, key: &[u8], body: Vec<u8>) -> Result<(), Trouble> {
        Ok(self.transaction.put(&self.families[table as usize], key, &codec::seal(key, body))?)
    }

    pub fn delete(&self, table: Table, key: &[u8]) -> Result<(), Trouble> {
        Ok(self.transaction.delete(&self.families[table as usize], key)?)
    }

    /// Gives `each` the keys and bodies from `from` to `to`, the end included, until it says false.
    pub fn range(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        mut each: impl FnMut(&[u8], Vec<u8>) -> Result<bool, Trouble>,
    ) -> Result<(), Trouble> {
        let mut rows = self.transaction.new_range_iterator(&self.families[table as usize], from, to)?;
        rows.seek(from)?;
        while rows.is_valid() {
            let (key, value) = rows.key_value()?;
            if key[..] > *to {
                break;
            }
            self.rows.set(self.rows.get() + 1);
            let body = codec::open(&key, value).ok_or(damaged(table))?;
            if !each(&key, body)? {
                break;
            }
            rows.next()?;
        }
        Ok(())
    }

    pub fn commit(mut self) -> Result<(), Trouble> {
        self.transaction.commit().map_err(|e| match Trouble::from(e) {
            Trouble::Error(Error::TidesDB(e)) => Trouble::Error(Error::Commit(e)),
            other => other,
        })
    }

    pub fn rollback(mut self) -> Result<(), Trouble> {
        Ok(self.transaction.rollback()?)
    }
}

pub fn damaged(table: Table) -> Trouble {
    Trouble::Error(Error::Damaged(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lie_at_their_place() {
        assert_eq!(NAMES[Table::Item as usize], "item");
        assert_eq!(NAMES[Table::OrderCustomer as usize], "order_customer");
        assert_eq!(NAMES[Table::Stock as usize], "stock");
        assert_eq!(NAMES.len(), Table::Stock as usize + 1);
    }
}
