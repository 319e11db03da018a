//! What the tables hold: `tpcc::check` over every row, read in one snapshot, and the figures that the clients' account
//! follows.

use super::client::Account;
use super::codec;
use super::key;
use super::tables::{Table, Tables, Transaction, Trouble, damaged};
use harness::event::Checked;
use harness::inbox::Inbox;
use tpcc::Scale;
use tpcc::check::{Age, Facts, Scan, judge};
use tpcc::load::Load;
use tpcc::scale::DISTRICTS;

/// Rows between two looks at the inbox.
const LOOK: u64 = 4096;

/// What the account follows, summed over the tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sums {
    /// Orders ever taken: the districts' next numbers.
    orders: u64,
    new_orders: u64,
    payments: u64,
    /// The warehouses' totals.
    paid: i64,
}

impl Sums {
    /// What they are after a load.
    pub fn of_load(load: Load) -> Sums {
        let scale = load.scale;
        let districts = u64::from(scale.warehouses) * u64::from(DISTRICTS);
        Sums {
            orders: districts * u64::from(scale.customers + 1),
            new_orders: districts * u64::from(scale.new_orders()),
            payments: districts * u64::from(scale.customers),
            paid: (1..=scale.warehouses).map(|w| load.warehouse(w).ytd).sum(),
        }
    }

    /// What they must be once `account` was added.
    fn after(self, account: &Account) -> Sums {
        Sums {
            orders: self.orders + account.orders,
            new_orders: (self.new_orders + account.orders).wrapping_sub(account.delivered),
            payments: self.payments + account.payments,
            paid: self.paid + account.paid,
        }
    }

    fn of(facts: &Facts, payments: u64) -> Sums {
        let districts = || facts.districts.values();
        Sums {
            orders: districts().map(|d| u64::from(d.next_order)).sum(),
            new_orders: districts().map(|d| d.new_orders).sum(),
            payments,
            paid: facts.warehouses.values().map(|w| w.ytd).sum(),
        }
    }
}

/// Reads all tables and judges them. `None` if a signal came.
pub fn check(
    tables: &Tables,
    scale: &Scale,
    quick: bool,
    age: Age,
    start: Sums,
    account: &Account,
    inbox: &mut Inbox,
) -> Option<Checked> {
    let (facts, payments) = loop {
        match scan(tables, scale, quick, inbox) {
            Ok(found) => break found?,
            // The scan met a compaction that moves what it reads: ask again.
            Err(Trouble::Again(_)) => {
                if inbox.stopped() {
                    return None;
                }
            }
            Err(Trouble::Error(error)) => {
                return Some(Checked { holds: false, what: format!("the tables cannot be read: {}", error.text()) });
            }
        }
    };
    let verdict = judge(&facts, scale, age);
    let mut broken = verdict.broken;
    let (found, wanted) = (Sums::of(&facts, payments), start.after(account));
    let mut compare = |what: &str, found: i128, wanted: i128| {
        if found != wanted {
            broken.push(format!("{what}: {found} in the tables, {wanted} by the clients' account"));
        }
    };
    let mut said = format!("{} orders were added, as many as the clients committed", account.orders);
    if account.uncertain == 0 {
        compare("orders ever taken", found.orders.into(), wanted.orders.into());
        compare("new orders", found.new_orders.into(), wanted.new_orders.into());
        compare("payments", found.payments.into(), wanted.payments.into());
        compare("cents ever paid", found.paid.into(), wanted.paid.into());
    } else {
        said = format!("{} commits failed without saying whether they were applied", account.uncertain);
    }
    if account.damaged > 0 {
        broken.push(format!("{} reads by clients returned a row that was never written", account.damaged));
    }
    Some(Checked::of(verdict.judged, &broken, said))
}

/// The facts, and the rows of history.
fn scan(tables: &Tables, scale: &Scale, quick: bool, inbox: &mut Inbox) -> Result<Option<(Facts, u64)>, Trouble> {
    let mut scan = if quick { Scan::quick() } else { Scan::default() };
    let transaction = tables.begin()?;
    let mut reading = Reading { transaction: &transaction, inbox, rows: 0, stopped: false };
    let mut payments = 0;
    reading.all(Table::Item, &key::item(0), &key::item(u32::MAX), |_, _| {
        scan.item();
        Some(())
    })?;
    // One warehouse beyond the last: what lies there nobody wrote.
    for w in 1..=scale.warehouses + 1 {
        let number = |key: &[u8]| key::parts(key);
        let (from, to) = (key::of_district(w, 0, 0), key::line(w, 255, u32::MAX, 255));
        reading.all(Table::Warehouse, &key::warehouse(w), &key::warehouse(w), |_, body| {
            codec::to_warehouse(w, body).map(|row| scan.warehouse(&row))
        })?;
        reading.all(Table::District, &key::district(w, 0), &key::district(w, 255), |key, body| {
            codec::to_district(w, u32::from(*key.last()?), body).map(|row| scan.district(&row))
        })?;
        reading.all(Table::Stock, &key::stock(w, 0), &key::stock(w, u32::MAX), |_, _| {
            scan.stock(w);
            Some(())
        })?;
        reading.all(Table::Customer, &from, &to, |key, body| {
            codec::to_customer(number(key)?, body).map(|row| scan.customer(&row))
        })?;
        reading.all(Table::History, &from, &key::history(w, 255, u32::MAX, u64::MAX), |key, body| {
            payments += 1;
            codec::to_history(number(key)?, body).map(|row| scan.history(&row))
        })?;
        reading.all(Table::Order, &from, &to, |key, body| {
            codec::to_order(number(key)?, body).map(|row| scan.order(&row))
        })?;
        reading
            .all(Table::NewOrder, &from, &to, |key, _| number(key).map(|(w, d, order)| scan.new_order(w, d, order)))?;
        reading.all(Table::OrderLine, &from, &to, |key, body| {
            codec::to_line(number(key)?, u32::from(*key.last()?), body).map(|row| scan.line(&row))
        })?;
        scan.close(w);
        if reading.stopped {
            return Ok(None);
        }
    }
    Ok(Some((scan.facts(), payments)))
}

struct Reading<'a, 'b> {
    transaction: &'a Transaction<'b>,
    inbox: &'a mut Inbox,
    rows: u64,
    stopped: bool,
}

impl Reading<'_, '_> {
    /// Gives `each` every row from `from` to `to`; one that it cannot read is damaged.
    fn all(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> Option<()>,
    ) -> Result<(), Trouble> {
        self.transaction.range(table, from, to, |key, body| {
            each(key, &body).ok_or(damaged(table))?;
            self.rows += 1;
            self.stopped = self.stopped || (self.rows.is_multiple_of(LOOK) && self.inbox.stopped());
            Ok(!self.stopped)
        })
    }
}
