//! Fills the tables. Pieces are a district, a warehouse's stock, and so on, so that loaders share even one warehouse.

use super::codec;
use super::key;
use super::tables::{Error, Table, Tables, Transaction, Trouble};
use crate::Failure;
use harness::inbox::Inbox;
use harness::loading::{self, Loading};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use tidesdb::TidesDB;
use tpcc::load::Load;
use tpcc::scale::DISTRICTS;

/// Rows of one transaction.
const BATCH: u64 = 500;

#[derive(Clone, Copy)]
enum Piece {
    Stock(u32),
    District(u32, u32),
    Items,
    Warehouses,
}

/// False if a signal came.
pub fn fill(tidesdb: &TidesDB, load: Load, loaders: u32, inbox: &mut Inbox) -> Result<bool, Failure> {
    // The large ones first, so that loaders end at about the same time.
    let warehouses = || 1..=load.scale.warehouses;
    let mut pieces: Vec<Piece> = warehouses().map(Piece::Stock).collect();
    pieces.extend(warehouses().flat_map(|w| (1..=DISTRICTS).map(move |d| Piece::District(w, d))));
    pieces.extend([Piece::Items, Piece::Warehouses]);
    let next = AtomicUsize::new(0);
    loading::load(loaders, load.scale.rows(), inbox, |loading| {
        let tables = Tables::of(tidesdb)?;
        while let Some(piece) = pieces.get(next.fetch_add(1, Relaxed)) {
            if loading.stopped() {
                break;
            }
            one(&tables, load, *piece, loading).map_err(|trouble| {
                let what = match trouble {
                    Trouble::Again(name) => format!("{name}, though nobody else writes"),
                    Trouble::Error(error) => error.text(),
                };
                Failure::Run(format!("cannot fill the tables: {what}"))
            })?;
        }
        Ok(())
    })
}

/// Puts rows in transactions of `BATCH`.
struct Filling<'a, 'b> {
    tables: &'a Tables<'b>,
    loading: &'a Loading,
    transaction: Option<Transaction<'a>>,
    rows: u64,
}

impl Filling<'_, '_> {
    fn put(&mut self, table: Table, key: &[u8], body: Vec<u8>) -> Result<(), Trouble> {
        let transaction = match &mut self.transaction {
            Some(transaction) => transaction,
            none => none.insert(self.tables.begin()?),
        };
        transaction.put(table, key, body)?;
        // An index is no row of its own.
        self.rows += u64::from(!matches!(table, Table::CustomerName | Table::OrderCustomer));
        if self.rows >= BATCH { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        if let Some(transaction) = self.transaction.take() {
            transaction.commit()?;
        }
        self.loading.loaded(std::mem::take(&mut self.rows));
        Ok(())
    }
}

fn one(tables: &Tables, load: Load, piece: Piece, loading: &Loading) -> Result<(), Trouble> {
    let mut filling = Filling { tables, loading, transaction: None, rows: 0 };
    let now = now();
    match piece {
        Piece::Items => {
            for row in load.items() {
                filling.put(Table::Item, &key::item(row.id), codec::from_item(&row))?;
            }
        }
        Piece::Warehouses => {
            for w in 1..=load.scale.warehouses {
                filling.put(Table::Warehouse, &key::warehouse(w), codec::from_warehouse(&load.warehouse(w)))?;
                for row in load.districts(w) {
                    filling.put(Table::District, &key::district(w, row.id), codec::from_district(&row))?;
                }
            }
        }
        Piece::Stock(w) => {
            for row in load.stock(w) {
                filling.put(Table::Stock, &key::stock(w, row.item), codec::from_stock(&row))?;
                if loading.stopped() {
                    break;
                }
            }
        }
        Piece::District(w, d) => {
            for row in load.customers(w, d) {
                filling.put(Table::Customer, &key::of_district(w, d, row.id), codec::from_customer(&row, now))?;
                let name = key::name(w, d, &row.last, &row.first, row.id);
                filling.put(Table::CustomerName, &name, Vec::new())?;
            }
            for row in load.history(w, d) {
                filling.put(Table::History, &key::history(w, d, row.customer, 0), codec::from_history(&row, now))?;
            }
            for (order, lines) in load.orders(w, d) {
                let (o, c) = (order.id, order.customer);
                filling.put(Table::Order, &key::of_district(w, d, o), codec::from_order(&order, now))?;
                filling.put(Table::OrderCustomer, &key::order_of(w, d, c, o), Vec::new())?;
                if order.carrier.is_none() {
                    filling.put(Table::NewOrder, &key::of_district(w, d, o), Vec::new())?;
                }
                for line in lines {
                    filling.put(Table::OrderLine, &key::line(w, d, o, line.number), codec::from_line(&line, now))?;
                }
            }
        }
    }
    filling.commit()
}

/// Seconds since 1970; a store puts its own time.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs().max(1))
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Error(error)
    }
}
