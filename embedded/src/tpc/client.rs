//! One terminal: the five transactions (clauses 2.4 to 2.8), each one transaction of TidesDB. What one does in SQL stands in
//! the driver; inputs, rules and their order are the same.

use super::codec::{
    CustomerHead, DistrictHead, ItemHead, LineHead, OrderHead, StockHead, WarehouseHead, from_history, from_line,
    from_order,
};
use super::key;
use super::prepare::now;
use super::tables::{Error, Table, Tables, Transaction, Trouble, damaged};
use harness::tally::Done;
use std::hint::black_box;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tpcc::input::{Delivery, Input, NewOrder, OrderStatus, Payment, StockLevel, Terminal, Who};
use tpcc::row::{History, Order, OrderLine};
use tpcc::rule::{self, Paid};
use tpcc::scale::DISTRICTS;
use tpcc::{Kind, pace};

/// What committed transactions changed, by the clients' account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// New-Orders.
    pub orders: u64,
    /// Orders that Deliveries delivered.
    pub delivered: u64,
    pub payments: u64,
    /// Cents of all payments.
    pub paid: i64,
    /// Transactions whose commit failed without saying whether it was applied.
    pub uncertain: u64,
    /// Reads that returned a row that nobody wrote.
    pub damaged: u64,
}

impl AddAssign for Account {
    fn add_assign(&mut self, more: Account) {
        self.orders += more.orders;
        self.delivered += more.delivered;
        self.payments += more.payments;
        self.paid += more.paid;
        self.uncertain += more.uncertain;
        self.damaged += more.damaged;
    }
}

pub struct Client<'a> {
    pub tables: Tables<'a>,
    pub terminal: Terminal,
    /// Tells payments of one customer apart.
    pub serial: &'a AtomicU64,
    pub account: Account,
    /// Rows read by the last attempt.
    pub rows: u64,
}

impl Client<'_> {
    /// What the next transaction is to do; every attempt at it does the same.
    pub fn wish(&mut self) -> Input {
        let mut input = self.terminal.ask();
        if let Input::NewOrder(order) = &mut input {
            order.sort();
        }
        input
    }

    /// Time that a person takes before and after a transaction.
    pub fn pause(&mut self, kind: Kind) -> (Duration, Duration) {
        (pace::keying(kind), pace::think(kind, &mut self.terminal.random))
    }

    pub fn attempt(&mut self, input: &Input) -> Result<Done, Trouble> {
        let mut change = Account::default();
        let transaction = self.tables.begin()?;
        let done = match input {
            Input::NewOrder(order) => {
                new_order(&transaction, order).inspect(|missing| change.orders = u64::from(!missing))
            }
            Input::Payment(payment) => {
                (change.payments, change.paid) = (1, payment.amount);
                pay(&transaction, payment, self.serial.fetch_add(1, Relaxed)).map(|()| false)
            }
            Input::OrderStatus(status) => order_status(&transaction, status).map(|()| false),
            Input::Delivery(delivery) => deliver(&transaction, delivery).map(|orders| {
                change.delivered = orders;
                false
            }),
            Input::StockLevel(level) => stock_level(&transaction, level).map(|low| {
                black_box(low);
                false
            }),
        };
        self.rows = transaction.rows();
        let ended = match done {
            Ok(true) => transaction.rollback().map(|()| true),
            Ok(false) => transaction.commit().map(|()| false),
            Err(trouble) => Err(trouble),
        };
        match &ended {
            Ok(_) => self.account += change,
            Err(Trouble::Error(Error::Commit(_))) => self.account.uncertain += 1,
            Err(Trouble::Error(Error::Damaged(_))) => self.account.damaged += 1,
            Err(_) => {}
        }
        ended.map(|rolled_back| Done { kind: input.kind() as usize, rolled_back, change: 0 })
    }
}

/// A head, where the body has one.
macro_rules! head {
    ($name:ident, $table:expr, $body:expr) => {
        $name::of($body).ok_or(damaged($table))?
    };
}

/// True if an item was not there and all is to be taken back; it finds out after everything else was done.
fn new_order(t: &Transaction, order: &NewOrder) -> Result<bool, Trouble> {
    let (w, d) = (order.warehouse, order.district);
    let warehouse = t.get(Table::Warehouse, &key::warehouse(w))?;
    let (warehouse, _) = head!(WarehouseHead, Table::Warehouse, &warehouse);
    let district_key = key::district(w, d);
    let mut district_body = t.get(Table::District, &district_key)?;
    let (district, _) = head!(DistrictHead, Table::District, &district_body);
    let number = district.next_order;
    DistrictHead { next_order: number + 1, ..district }.over(&mut district_body);
    t.put(Table::District, &district_key, district_body)?;
    let customer = t.get(Table::Customer, &key::of_district(w, d, order.customer))?;
    let (customer, _) = head!(CustomerHead, Table::Customer, &customer);

    let row = Order {
        warehouse: w,
        district: d,
        id: number,
        customer: order.customer,
        carrier: None,
        lines: order.lines.len() as u32,
        all_local: order.all_local(),
    };
    let order_key = key::of_district(w, d, number);
    t.put(Table::Order, &order_key, from_order(&row, now()))?;
    t.put(Table::OrderCustomer, &key::order_of(w, d, order.customer, number), Vec::new())?;
    t.put(Table::NewOrder, &order_key, Vec::new())?;

    let (mut total, mut missing) = (0, false);
    for (at, line) in (1..).zip(&order.lines) {
        let Some(item) = t.find(Table::Item, &key::item(line.item))? else {
            missing = true;
            continue;
        };
        let (item, mut item_texts) = head!(ItemHead, Table::Item, &item);
        let stock_key = key::stock(line.supply, line.item);
        let mut stock_body = t.get(Table::Stock, &stock_key)?;
        let (stock, mut texts) = head!(StockHead, Table::Stock, &stock_body);
        let mut info = None;
        for district in 1..=DISTRICTS {
            let text = texts.next().ok_or(damaged(Table::Stock))?;
            if district == d {
                info = Some(text.to_owned());
            }
        }
        let _name = item_texts.next();
        let brand = item_texts.next().zip(texts.next()).map(|(item, stock)| rule::brand(item, stock));
        black_box(brand.ok_or(damaged(Table::Stock))?);
        StockHead {
            ytd: stock.ytd + i64::from(line.quantity),
            quantity: rule::stock_after(stock.quantity, line.quantity),
            orders: stock.orders + 1,
            remotes: stock.remotes + u32::from(line.supply != w),
        }
        .over(&mut stock_body);
        t.put(Table::Stock, &stock_key, stock_body)?;
        let amount = item.price * i64::from(line.quantity);
        total += amount;
        let row = OrderLine {
            warehouse: w,
            district: d,
            order: number,
            number: at,
            item: line.item,
            supply: line.supply,
            delivered: false,
            quantity: line.quantity,
            amount,
            info: info.ok_or(damaged(Table::Stock))?,
        };
        t.put(Table::OrderLine, &key::line(w, d, number, at), from_line(&row, 0))?;
    }
    black_box(rule::order_total(total, customer.discount, warehouse.tax, district.tax));
    Ok(missing)
}

/// The customer's number; by name it is the middle one of those so called.
fn who(t: &Transaction, w: u32, d: u32, who: &Who) -> Result<u32, Trouble> {
    match who {
        Who::Id(id) => Ok(*id),
        Who::Last(name) => {
            let (from, to) = key::named(w, d, name);
            let mut found = Vec::new();
            t.range(Table::CustomerName, &from, &to, |key, _| {
                found.push(key::customer(key).ok_or(damaged(Table::CustomerName))?);
                Ok(true)
            })?;
            Ok(*found.get(rule::middle(found.len())).ok_or(Error::Missing(Table::CustomerName))?)
        }
    }
}

fn pay(t: &Transaction, payment: &Payment, serial: u64) -> Result<(), Trouble> {
    let Payment { warehouse: w, district: d, customer_warehouse: cw, customer_district: cd, amount, .. } = *payment;
    let warehouse_key = key::warehouse(w);
    let mut warehouse_body = t.get(Table::Warehouse, &warehouse_key)?;
    let (warehouse, mut texts) = head!(WarehouseHead, Table::Warehouse, &warehouse_body);
    let warehouse_name = texts.next().ok_or(damaged(Table::Warehouse))?.to_owned();
    WarehouseHead { ytd: warehouse.ytd + amount, ..warehouse }.over(&mut warehouse_body);
    t.put(Table::Warehouse, &warehouse_key, warehouse_body)?;

    let district_key = key::district(w, d);
    let mut district_body = t.get(Table::District, &district_key)?;
    let (district, mut texts) = head!(DistrictHead, Table::District, &district_body);
    let data = rule::history_data(&warehouse_name, texts.next().ok_or(damaged(Table::District))?);
    DistrictHead { ytd: district.ytd + amount, ..district }.over(&mut district_body);
    t.put(Table::District, &district_key, district_body)?;

    let id = who(t, cw, cd, &payment.customer)?;
    let customer_key = key::of_district(cw, cd, id);
    let mut customer_body = t.get(Table::Customer, &customer_key)?;
    let (customer, mut texts) = head!(CustomerHead, Table::Customer, &customer_body);
    let customer = CustomerHead {
        balance: customer.balance - amount,
        ytd_payment: customer.ytd_payment + amount,
        payments: customer.payments + 1,
        ..customer
    };
    // Three names, five of the address, the phone.
    let mut before: [&str; 9] = [""; 9];
    for text in &mut before {
        *text = texts.next().ok_or(damaged(Table::Customer))?;
    }
    let credit = texts.next().ok_or(damaged(Table::Customer))?;
    if credit == "BC" {
        let paid =
            Paid { customer: id, customer_district: cd, customer_warehouse: cw, district: d, warehouse: w, amount };
        let data = rule::bad_credit_data(&paid, texts.next().ok_or(damaged(Table::Customer))?);
        customer_body = customer.with(before.into_iter().chain([credit, data.as_str()]));
    } else {
        customer.over(&mut customer_body);
    }
    t.put(Table::Customer, &customer_key, customer_body)?;

    let row = History {
        customer_warehouse: cw,
        customer_district: cd,
        customer: id,
        warehouse: w,
        district: d,
        amount,
        data,
    };
    t.put(Table::History, &key::history(cw, cd, id, serial), from_history(&row, now()))
}

fn order_status(t: &Transaction, status: &OrderStatus) -> Result<(), Trouble> {
    let (w, d) = (status.warehouse, status.district);
    let c = who(t, w, d, &status.customer)?;
    black_box(t.get(Table::Customer, &key::of_district(w, d, c))?);
    let mut newest = None;
    t.range(Table::OrderCustomer, &key::order_of(w, d, c, u32::MAX), &key::order_of(w, d, c, 0), |key, _| {
        newest = key::ordered(key);
        Ok(false)
    })?;
    let o = newest.ok_or(Error::Missing(Table::OrderCustomer))?;
    black_box(t.get(Table::Order, &key::of_district(w, d, o))?);
    t.range(Table::OrderLine, &key::line(w, d, o, 0), &key::line(w, d, o, 255), |_, body| {
        black_box(body);
        Ok(true)
    })
}

/// All districts in one transaction; one without new orders is passed over. How many orders were delivered.
fn deliver(t: &Transaction, delivery: &Delivery) -> Result<u64, Trouble> {
    let w = delivery.warehouse;
    let now = now();
    let mut delivered = 0;
    for d in 1..=DISTRICTS {
        let mut oldest = None;
        t.range(Table::NewOrder, &key::of_district(w, d, 0), &key::of_district(w, d, u32::MAX), |key, _| {
            oldest = key::number(key);
            Ok(false)
        })?;
        let Some(o) = oldest else { continue };
        let order_key = key::of_district(w, d, o);
        t.delete(Table::NewOrder, &order_key)?;
        let mut order_body = t.get(Table::Order, &order_key)?;
        let (order, _) = head!(OrderHead, Table::Order, &order_body);
        OrderHead { carrier: delivery.carrier as u8, ..order }.over(&mut order_body);
        t.put(Table::Order, &order_key, order_body)?;

        let (mut lines, mut sum) = (Vec::with_capacity(15), 0);
        t.range(Table::OrderLine, &key::line(w, d, o, 0), &key::line(w, d, o, 255), |key, mut body| {
            let (line, _) = head!(LineHead, Table::OrderLine, &body);
            sum += line.amount;
            LineHead { delivery: now, ..line }.over(&mut body);
            lines.push((key.to_vec(), body));
            Ok(true)
        })?;
        for (key, body) in lines {
            t.put(Table::OrderLine, &key, body)?;
        }
        let customer_key = key::of_district(w, d, order.customer);
        let mut customer_body = t.get(Table::Customer, &customer_key)?;
        let (customer, _) = head!(CustomerHead, Table::Customer, &customer_body);
        let (balance, deliveries) = (customer.balance + sum, customer.deliveries + 1);
        CustomerHead { balance, deliveries, ..customer }.over(&mut customer_body);
        t.put(Table::Customer, &customer_key, customer_body)?;
        delivered += 1;
    }
    Ok(delivered)
}

/// Items of the last 20 orders of which there is less than the threshold.
fn stock_level(t: &Transaction, level: &StockLevel) -> Result<usize, Trouble> {
    let (w, d) = (level.warehouse, level.district);
    let district = t.get(Table::District, &key::district(w, d))?;
    let (district, _) = head!(DistrictHead, Table::District, &district);
    let next = district.next_order;
    let mut items = Vec::with_capacity(20 * 15);
    t.range(
        Table::OrderLine,
        &key::line(w, d, next.saturating_sub(20), 0),
        &key::line(w, d, next - 1, 255),
        |_, body| {
            items.push(head!(LineHead, Table::OrderLine, &body).0.item);
            Ok(true)
        },
    )?;
    items.sort_unstable();
    items.dedup();
    let mut low = 0;
    for item in items {
        let stock = t.get(Table::Stock, &key::stock(w, item))?;
        low += usize::from(head!(StockHead, Table::Stock, &stock).0.quantity < level.threshold);
    }
    Ok(low)
}
