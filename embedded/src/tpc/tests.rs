//! What needs to reach past the program's own ways into the tables: rows read back, rows changed behind its back.

use super::client::{Account, Client};
use super::tables::{Error, NAMES, Table, Tables, Transaction, Trouble};
use super::{Bench, codec, key};
use crate::args::Args;
use clap::Parser;
use harness::event::Checked;
use harness::inbox::Inbox;
use harness::serve::Load as _;
use std::sync::atomic::AtomicU64;
use tpcc::input::{Input, Line, NewOrder, Terminal};
use tpcc::load::Load;
use tpcc::scale::DISTRICTS;

/// Two warehouses cut down, in a directory of their own, and the inbox that they are asked with.
fn prepared(name: &str) -> (Bench, Inbox) {
    let dir = std::env::temp_dir().join(format!("evenkeel-tpc-{name}-{}", std::process::id()));
    let args = "evenkeel-embedded --test tpcc --warehouses 2 --cut 100 --seed 3 --dir";
    let args = Args::parse_from(args.split(' ').chain([dir.to_str().unwrap()]));
    let mut inbox = Inbox::open().unwrap();
    let bench = Bench::prepare(&args, &mut inbox).unwrap().expect("no signal came");
    (bench, inbox)
}

fn checked(bench: &mut Bench, inbox: &mut Inbox) -> Checked {
    bench.check(inbox).unwrap().expect("no signal came")
}

fn tables(bench: &Bench) -> Tables<'_> {
    Tables::of(bench.tidesdb().unwrap()).unwrap()
}

/// Changes rows past the clients' account.
fn tamper(bench: &Bench, change: impl FnOnce(&Transaction) -> Result<(), Trouble>) {
    let tables = tables(bench);
    let transaction = tables.begin().unwrap();
    change(&transaction).unwrap();
    transaction.commit().unwrap();
}

fn client(bench: &Bench) -> Client<'_> {
    Client {
        tables: tables(bench),
        terminal: Terminal::new(0, bench.scale, 9),
        serial: Box::leak(Box::new(AtomicU64::new(1))),
        account: Account::default(),
        rows: 0,
    }
}

/// Every key and value of every table.
fn everything(bench: &Bench) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
    const ALL: [Table; NAMES.len()] = [
        Table::Item,
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::CustomerName,
        Table::History,
        Table::Order,
        Table::OrderCustomer,
        Table::NewOrder,
        Table::OrderLine,
        Table::Stock,
    ];
    let tables = tables(bench);
    let transaction = tables.begin().unwrap();
    let mut rows = Vec::new();
    for table in ALL {
        let mut add = |key: &[u8], body| {
            rows.push((table, key.to_vec(), body));
            Ok(true)
        };
        transaction.range(table, &[0], &[255; 32], &mut add).unwrap();
    }
    rows
}

/// The rows are those that the driver's INSERTs are made of: the crate `tpcc`'s for this seed, and no others.
#[test]
fn the_tables_hold_the_rows_of_the_seed() {
    let (bench, _) = prepared("rows");
    let load = Load { scale: bench.scale, seed: 3 };
    let found = everything(&bench);
    let of = |table| found.iter().filter(move |(t, ..)| *t == table);
    let date = |table| codec_date(of(table).next().map(|(_, _, body)| body.as_slice()).unwrap(), table);
    let mut wanted: Vec<(Table, Vec<u8>, Vec<u8>)> = Vec::new();
    let mut want = |table, key: &[u8], body| wanted.push((table, key.to_vec(), body));
    load.items().for_each(|row| want(Table::Item, &key::item(row.id), codec::from_item(&row)));
    for w in 1..=2 {
        want(Table::Warehouse, &key::warehouse(w), codec::from_warehouse(&load.warehouse(w)));
        load.districts(w).for_each(|r| want(Table::District, &key::district(w, r.id), codec::from_district(&r)));
        load.stock(w).for_each(|r| want(Table::Stock, &key::stock(w, r.item), codec::from_stock(&r)));
        for d in 1..=DISTRICTS {
            load.history(w, d).for_each(|r| {
                let body = codec::from_history(&r, 0);
                want(Table::History, &key::history(w, d, r.customer, 0), body);
            });
            for row in load.customers(w, d) {
                want(Table::Customer, &key::of_district(w, d, row.id), codec::from_customer(&row, 0));
                want(Table::CustomerName, &key::name(w, d, &row.last, &row.first, row.id), Vec::new());
            }
            for (order, lines) in load.orders(w, d) {
                let o = order.id;
                want(Table::Order, &key::of_district(w, d, o), codec::from_order(&order, 0));
                want(Table::OrderCustomer, &key::order_of(w, d, order.customer, o), Vec::new());
                if order.carrier.is_none() {
                    want(Table::NewOrder, &key::of_district(w, d, o), Vec::new());
                }
                for line in lines {
                    want(Table::OrderLine, &key::line(w, d, o, line.number), codec::from_line(&line, 1));
                }
            }
        }
    }
    assert!(date(Table::Order) > 0 && date(Table::History) > 0 && date(Table::Customer) > 0);
    let mut found: Vec<_> = found.into_iter().map(|(t, key, body)| (t as usize, key, undated(t, body))).collect();
    let mut wanted: Vec<_> = wanted.into_iter().map(|(t, key, body)| (t as usize, key, undated(t, body))).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted, "table {}", NAMES[wanted.0]);
    }
}

fn codec_date(body: &[u8], table: Table) -> u64 {
    match table {
        Table::Customer => codec::CustomerHead::of(body).unwrap().0.since,
        Table::History => codec::HistoryHead::of(body).unwrap().0.date,
        Table::Order => codec::OrderHead::of(body).unwrap().0.entry,
        Table::OrderLine => codec::LineHead::of(body).unwrap().0.delivery,
        _ => 0,
    }
}

/// The body with 1 for every date.
fn undated(table: Table, mut body: Vec<u8>) -> Vec<u8> {
    match table {
        Table::Customer => {
            let head = codec::CustomerHead::of(&body).unwrap().0;
            codec::CustomerHead { since: 1, ..head }.over(&mut body);
        }
        Table::History => {
            let head = codec::HistoryHead::of(&body).unwrap().0;
            codec::HistoryHead { date: 1, ..head }.over(&mut body);
        }
        Table::Order => {
            let head = codec::OrderHead::of(&body).unwrap().0;
            codec::OrderHead { entry: 1, ..head }.over(&mut body);
        }
        Table::OrderLine => {
            let head = codec::LineHead::of(&body).unwrap().0;
            codec::LineHead { delivery: head.delivery.min(1), ..head }.over(&mut body);
        }
        _ => {}
    }
    body
}

/// Puts `change` of the head of the row at `key`.
macro_rules! put {
    ($head:ident, $table:expr, $key:expr, $change:expr) => {
        |t: &Transaction| {
            let key = $key;
            let mut body = t.get($table, &key)?;
            let mut head = codec::$head::of(&body).unwrap().0;
            let change: fn(&mut codec::$head) = $change;
            change(&mut head);
            head.over(&mut body);
            t.put($table, &key, body)
        }
    };
}

#[test]
fn each_condition_catches_its_row_and_renewing_repairs_it() {
    type Change = fn(&Transaction) -> Result<(), Trouble>;
    let (mut bench, mut inbox) = prepared("tamper");
    let first = checked(&mut bench, &mut inbox);
    assert!(first.holds && first.what.starts_with("12 conditions hold; 0 orders"), "{}", first.what);
    let changes: [(&str, Change); 14] = [
        ("3.3.2.1", put!(WarehouseHead, Table::Warehouse, key::warehouse(2), |row| row.ytd += 1)),
        ("3.3.2.2", put!(DistrictHead, Table::District, key::district(1, 4), |row| row.next_order += 1)),
        ("3.3.2.3", |t| t.delete(Table::NewOrder, &key::of_district(1, 1, 25))),
        ("3.3.2.4", |t| t.delete(Table::OrderLine, &key::line(1, 1, 1, 1))),
        ("3.3.2.5", put!(OrderHead, Table::Order, key::of_district(1, 1, 1), |row| row.carrier = 0)),
        ("3.3.2.6", put!(OrderHead, Table::Order, key::of_district(2, 1, 1), |row| row.lines += 1)),
        ("3.3.2.7", put!(LineHead, Table::OrderLine, key::line(1, 1, 1, 1), |row| row.delivery = 0)),
        ("3.3.2.8", put!(HistoryHead, Table::History, key::history(1, 1, 1, 0), |row| row.amount += 1)),
        ("3.3.2.9", put!(DistrictHead, Table::District, key::district(1, 1), |row| row.ytd -= 1)),
        ("3.3.2.10", put!(CustomerHead, Table::Customer, key::of_district(2, 10, 30), |row| row.balance += 1)),
        ("3.3.2.11", |t| t.delete(Table::NewOrder, &key::of_district(1, 1, 22))),
        ("3.3.2.12", put!(CustomerHead, Table::Customer, key::of_district(2, 10, 30), |row| row.ytd_payment += 1)),
        ("29 customers, not 30", |t| t.delete(Table::Customer, &key::of_district(1, 2, 3))),
        ("rows of stock", |t| t.delete(Table::Stock, &key::stock(1, 3))),
    ];
    for (clause, change) in changes {
        tamper(&bench, change);
        let found = checked(&mut bench, &mut inbox);
        // The condition may stand behind the first three that are said.
        let behind = found.what.contains("more") && !clause.contains(' ');
        assert!(!found.holds && (found.what.contains(clause) || behind), "{clause}: {}", found.what);
        assert!(bench.renew(&mut inbox).unwrap().is_some());
    }
    let last = checked(&mut bench, &mut inbox);
    assert!(last.holds, "{}", last.what);
}

#[test]
fn what_the_clients_did_not_do_is_missed_in_their_account() {
    let (mut bench, mut inbox) = prepared("account");
    for account in [
        Account { orders: 1, ..Account::default() },
        Account { delivered: 1, ..Account::default() },
        Account { payments: 1, ..Account::default() },
        Account { paid: 1, ..Account::default() },
    ] {
        bench.account = account;
        let found = checked(&mut bench, &mut inbox);
        assert!(!found.holds && found.what.contains("by the clients' account"), "{}", found.what);
    }
    bench.account = Account { damaged: 1, ..Account::default() };
    assert!(!checked(&mut bench, &mut inbox).holds);
    // After a commit whose end nobody knows the account cannot be judged.
    bench.account = Account { uncertain: 1, orders: 1, ..Account::default() };
    let found = checked(&mut bench, &mut inbox);
    assert!(found.holds && found.what.contains("without saying"), "{}", found.what);
}

#[test]
fn a_row_that_nobody_wrote_is_met() {
    let (mut bench, mut inbox) = prepared("damaged");
    {
        let tidesdb = bench.tidesdb().unwrap();
        let family = tidesdb.get_column_family(NAMES[Table::Customer as usize]).unwrap();
        let mut transaction = tidesdb.begin_transaction().unwrap();
        let mut value = transaction.get(&family, &key::of_district(1, 1, 5)).unwrap();
        value[70] ^= 1;
        transaction.put(&family, &key::of_district(1, 1, 5), &value).unwrap();
        transaction.commit().unwrap();
    }
    let met = tables(&bench).begin().unwrap().get(Table::Customer, &key::of_district(1, 1, 5)).map(|_| ());
    assert!(matches!(met, Err(Trouble::Error(Error::Damaged(Table::Customer)))), "{met:?}");
    let found = checked(&mut bench, &mut inbox);
    assert!(!found.holds && found.what.contains("a row of customer is not what was written"), "{}", found.what);
}

#[test]
fn every_transaction_is_accounted_for_and_renewing_restores_every_byte() {
    let (mut bench, mut inbox) = prepared("renew");
    let loaded = everything(&bench);
    let account = {
        let mut client = client(&bench);
        let mut back = 0;
        for _ in 0..500 {
            let wish = client.wish();
            back += usize::from(client.attempt(&wish).unwrap().rolled_back);
        }
        let account = client.account;
        assert!(account.orders + back as u64 == 225 && account.payments == 215 && back < 20, "{account:?}");
        assert!(account.delivered > 0 && account.paid > 0, "{account:?}");
        account
    };
    bench.account += account;
    bench.age = tpcc::check::Age::Used;
    let found = checked(&mut bench, &mut inbox);
    assert!(found.holds && found.what.starts_with("11 conditions hold"), "{}", found.what);
    assert_ne!(everything(&bench), loaded);
    bench.renew(&mut inbox).unwrap();
    assert_eq!(everything(&bench), loaded);
    assert!(checked(&mut bench, &mut inbox).what.starts_with("12 conditions hold; 0 orders"));
}

#[test]
fn a_rollback_leaves_nothing() {
    let (bench, _) = prepared("back");
    let before = everything(&bench);
    let line = |item| Line { item, supply: 1, quantity: 3 };
    let lines = [1, 2, 2, 4].map(line).into_iter().chain([line(bench.scale.items + 1)]).collect();
    let mut order = NewOrder { warehouse: 1, district: 2, customer: 3, lines, rollback: true };
    let mut client = client(&bench);
    assert!(client.attempt(&Input::NewOrder(order.clone())).unwrap().rolled_back);
    assert!(client.account == Account::default() && everything(&bench) == before);

    // The same without the last line stays; an item that is ordered twice is taken twice.
    order.lines.pop();
    order.rollback = false;
    let quantity = |item| {
        let body = tables(&bench).begin().unwrap().get(Table::Stock, &key::stock(1, item)).unwrap();
        codec::StockHead::of(&body).unwrap().0
    };
    let twice = quantity(2);
    assert!(!client.attempt(&Input::NewOrder(order)).unwrap().rolled_back);
    let after = quantity(2);
    assert_eq!((after.ytd, after.orders), (twice.ytd + 6, twice.orders + 2));
    let left = tpcc::rule::stock_after(tpcc::rule::stock_after(twice.quantity, 3), 3);
    assert_eq!(after.quantity, left);
    assert_eq!(everything(&bench).len(), before.len() + 3 + 4);
}

/// Of two that change one row the first to commit wins, and the other is told to try again.
#[test]
fn a_conflict_is_told() {
    let (bench, _) = prepared("conflict");
    let tables = tables(&bench);
    let (first, second) = (tables.begin().unwrap(), tables.begin().unwrap());
    let pay = put!(WarehouseHead, Table::Warehouse, key::warehouse(1), |row| row.ytd += 1);
    pay(&first).unwrap();
    let late = pay(&second);
    first.commit().unwrap();
    let late = late.and_then(|()| second.commit());
    assert!(matches!(late, Err(Trouble::Again("Conflict"))), "{late:?}");
}
