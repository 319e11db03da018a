//! One terminal: the five transactions, statement by statement or with one call each.
//!
//! Transactions begin by themselves (`autocommit = 0`) and end with COMMIT, or with ROLLBACK where New-Order meets an item
//! that is not there: it finds out as the standard asks, after everything else was done, not from the input.

use super::procedures::{self, PROCEDURES};
use super::statements::{ALL, FIVE, ITEMS, Sql};
use crate::client::Client;
use crate::reactor::Core;
use crate::wire::{Answer, Connection, Error, Param, Server, Statement, Value};
use harness::tally::Done;
use std::rc::Rc;
use std::time::Duration;
use tpcc::input::{Delivery, Input, Line, NewOrder, OrderStatus, Payment, StockLevel, Terminal, Who};
use tpcc::rule::{self, Paid, decimal, whole};
use tpcc::scale::DISTRICTS;
use tpcc::{Kind, pace};

pub struct TpccClient {
    connection: Connection,
    /// By `Sql`, or by kind of transaction where procedures do the work.
    statements: Vec<Statement>,
    procedures: bool,
    terminal: Terminal,
    paced: bool,
}

impl TpccClient {
    pub async fn open(
        core: Rc<Core>,
        server: &Server,
        session: &[String],
        terminal: Terminal,
        procedures: bool,
        paced: bool,
    ) -> Result<TpccClient, Error> {
        let mut connection = Connection::open(core, server, Some(&server.database)).await?;
        for sql in session {
            connection.run(sql).await?;
        }
        connection.run("SET autocommit = 0").await?;
        let mut statements = Vec::new();
        if procedures {
            for procedure in &PROCEDURES {
                statements.push(connection.prepare(&procedure.call()).await?);
            }
        } else {
            for sql in ALL {
                statements.push(connection.prepare(&sql.text()).await?);
            }
        }
        Ok(TpccClient { connection, statements, procedures, terminal, paced })
    }

    async fn run(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<Answer, Error> {
        self.connection.execute(&mut self.statements[sql as usize], params).await
    }

    async fn fetch(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<Answer, Error> {
        self.connection.fetch(&mut self.statements[sql as usize], params).await
    }

    async fn commit(&mut self) -> Result<(), Error> {
        self.connection.run("COMMIT").await.map(drop)
    }

    async fn new_order(&mut self, order: &NewOrder) -> Result<Done, Error> {
        let (w, d, c) = (int(order.warehouse), int(order.district), int(order.customer));
        let district = self.fetch(Sql::TakeOrderNumber, &[w, d]).await?;
        let (number, district_tax) = (column(&district, 0)?, rate(&district, 1)?);
        let o = Param::Int(number as i32);
        self.run(Sql::NextOrderNumber, &[o, w, d]).await?;
        let customer = self.fetch(Sql::OrderingCustomer, &[w, d, c]).await?;
        let (discount, warehouse_tax) = (rate(&customer, 0)?, rate(&customer, 3)?);
        let count = int(order.lines.len() as u32);
        self.run(Sql::InsertOrder, &[o, d, w, c, count, int(order.all_local().into())]).await?;
        self.run(Sql::InsertNewOrder, &[o, d, w]).await?;

        let params = padded(order.lines.iter().map(|line| line.item));
        let found = self.fetch(Sql::Items, &params).await?;
        let price = |item: u32| -> Option<(i64, &str)> {
            let row = found.iter().find(|row| row[0].int() == Some(item.into()))?;
            Some((cents(row.get(1)?)?, row[3].text()?))
        };
        let mut written: Vec<(Line, i64, String)> = Vec::with_capacity(order.lines.len());
        let mut total = 0;
        for (supply, lines) in by_supply(&order.lines, |item| price(item).is_some()) {
            let mut params = vec![d, int(supply)];
            params.extend(padded(lines.iter().map(|line| line.item)));
            let stock = self.fetch(Sql::Stock, &params).await?;
            // An item may be ordered twice.
            let mut quantities: Vec<(u32, i32)> = Vec::with_capacity(lines.len());
            for line in lines {
                let row = stock.iter().find(|row| row[0].int() == Some(line.item.into()));
                let row = row.ok_or_else(|| no_row("stock"))?;
                let (price, item_data) = price(line.item).ok_or_else(|| no_row("item"))?;
                let before = quantities.iter().rev().find(|(item, _)| *item == line.item).map(|(_, left)| *left);
                let before = before.or(row[1].int().map(|q| q as i32)).ok_or_else(|| no_row("quantity"))?;
                let left = rule::stock_after(before, line.quantity);
                quantities.push((line.item, left));
                rule::brand(item_data, row[2].text().unwrap_or_default());
                let remote = int((line.supply != order.warehouse).into());
                let params = [Param::Int(left), int(line.quantity), remote, int(supply), int(line.item)];
                self.run(Sql::UpdateStock, &params).await?;
                let amount = price * i64::from(line.quantity);
                total += amount;
                written.push((line, amount, row[3].text().unwrap_or_default().to_string()));
            }
        }
        let missing = written.len() < order.lines.len();
        self.lines(o, d, w, &written).await?;
        let total = rule::order_total(total, discount, warehouse_tax, district_tax);
        std::hint::black_box(total);
        if missing {
            self.connection.run("ROLLBACK").await?;
            return Ok(Done { kind: Kind::NewOrder as usize, rolled_back: true, change: 0 });
        }
        self.commit().await?;
        Ok(Done { kind: Kind::NewOrder as usize, rolled_back: false, change: 1 })
    }

    async fn lines(
        &mut self,
        o: Param<'_>,
        d: Param<'_>,
        w: Param<'_>,
        lines: &[(Line, i64, String)],
    ) -> Result<(), Error> {
        let amounts: Vec<String> = lines.iter().map(|(_, amount, _)| decimal(*amount, 2)).collect();
        let params = |at: usize| {
            let (line, _, info) = &lines[at];
            let (number, amount) = (int(at as u32 + 1), Param::Text(&amounts[at]));
            [o, d, w, number, int(line.item), int(line.supply), int(line.quantity), amount, Param::Text(info)]
        };
        let mut at = 0;
        while at + FIVE <= lines.len() {
            let five: Vec<Param> = (at..at + FIVE).flat_map(params).collect();
            self.run(Sql::InsertFiveLines, &five).await?;
            at += FIVE;
        }
        for at in at..lines.len() {
            self.run(Sql::InsertLine, &params(at)).await?;
        }
        Ok(())
    }

    /// The customer's number; by name it is the middle one of those so called.
    async fn customer(&mut self, w: Param<'_>, d: Param<'_>, who: &Who) -> Result<u32, Error> {
        match who {
            Who::Id(id) => Ok(*id),
            Who::Last(name) => {
                let found = self.fetch(Sql::CustomersByName, &[w, d, Param::Text(name)]).await?;
                let row = found.iter().nth(rule::middle(found.rows as usize));
                row.and_then(|row| row[0].int()).map(|id| id as u32).ok_or_else(|| no_row("customer"))
            }
        }
    }

    async fn payment(&mut self, payment: &Payment) -> Result<(), Error> {
        let (w, d) = (int(payment.warehouse), int(payment.district));
        let (cw, cd) = (int(payment.customer_warehouse), int(payment.customer_district));
        let paid = decimal(payment.amount, 2);
        let amount = Param::Text(&paid);
        self.run(Sql::PayWarehouse, &[amount, w]).await?;
        let warehouse = self.fetch(Sql::Warehouse, &[w]).await?;
        self.run(Sql::PayDistrict, &[amount, w, d]).await?;
        let district = self.fetch(Sql::District, &[w, d]).await?;
        let id = self.customer(cw, cd, &payment.customer).await?;
        let c = int(id);
        let customer = self.fetch(Sql::PayingCustomer, &[cw, cd, c]).await?;
        if text(&customer, 13)? == "BC" {
            let before = self.fetch(Sql::BadCreditData, &[cw, cd, c]).await?;
            let paid = Paid {
                customer: id,
                customer_district: payment.customer_district,
                customer_warehouse: payment.customer_warehouse,
                district: payment.district,
                warehouse: payment.warehouse,
                amount: payment.amount,
            };
            let data = rule::bad_credit_data(&paid, text(&before, 0)?);
            self.run(Sql::PayBadCustomer, &[amount, amount, Param::Text(&data), cw, cd, c]).await?;
        } else {
            self.run(Sql::PayCustomer, &[amount, amount, cw, cd, c]).await?;
        }
        let data = rule::history_data(text(&warehouse, 0)?, text(&district, 0)?);
        self.run(Sql::InsertHistory, &[c, cd, cw, d, w, amount, Param::Text(&data)]).await?;
        self.commit().await
    }

    async fn order_status(&mut self, status: &OrderStatus) -> Result<(), Error> {
        let (w, d) = (int(status.warehouse), int(status.district));
        let c = int(self.customer(w, d, &status.customer).await?);
        self.fetch(Sql::Customer, &[w, d, c]).await?;
        let order = self.fetch(Sql::LastOrder, &[w, d, c]).await?;
        let o = Param::Int(column(&order, 0)? as i32);
        self.fetch(Sql::OrderLines, &[w, d, o]).await?;
        self.commit().await
    }

    /// All districts in one transaction. One without new orders is passed over.
    async fn delivery(&mut self, delivery: &Delivery) -> Result<(), Error> {
        let (w, carrier) = (int(delivery.warehouse), int(delivery.carrier));
        for district in 1..=DISTRICTS {
            let d = int(district);
            let oldest = self.fetch(Sql::OldestNewOrder, &[w, d]).await?;
            let Some(number) = oldest.first().and_then(|row| row[0].int()) else { continue };
            let o = Param::Int(number as i32);
            self.run(Sql::DeleteNewOrder, &[w, d, o]).await?;
            let owner = self.fetch(Sql::OrderOwner, &[w, d, o]).await?;
            let c = Param::Int(column(&owner, 0)? as i32);
            self.run(Sql::SetCarrier, &[carrier, w, d, o]).await?;
            self.run(Sql::SetDelivery, &[w, d, o]).await?;
            let sum = self.fetch(Sql::OrderSum, &[w, d, o]).await?;
            let sum = Param::Text(text(&sum, 0)?);
            self.connection.execute(&mut self.statements[Sql::DeliverCustomer as usize], &[sum, w, d, c]).await?;
        }
        self.commit().await
    }

    async fn stock_level(&mut self, level: &StockLevel) -> Result<(), Error> {
        let (w, d) = (int(level.warehouse), int(level.district));
        let next = self.fetch(Sql::RecentOrders, &[w, d]).await?;
        let next = column(&next, 0)? as i32;
        let params = [w, d, Param::Int(next - 20), Param::Int(next), Param::Int(level.threshold)];
        self.fetch(Sql::LowStock, &params).await?;
        self.commit().await
    }

    async fn call(&mut self, input: &Input) -> Result<Done, Error> {
        let kind = input.kind() as usize;
        let paid = if let Input::Payment(payment) = input { decimal(payment.amount, 2) } else { String::new() };
        let params = procedures::params(input, &paid);
        let answer = self.connection.fetch(&mut self.statements[kind], &params).await?;
        if let Input::NewOrder(_) = input {
            let missing = column(&answer, 0)? != 0;
            return Ok(Done { kind, rolled_back: missing, change: i64::from(!missing) });
        }
        Ok(Done { kind, rolled_back: false, change: 0 })
    }
}

impl Client for TpccClient {
    type Wish = Input;

    fn wish(&mut self) -> Input {
        let mut input = self.terminal.ask();
        if let Input::NewOrder(order) = &mut input {
            order.sort();
        }
        input
    }

    async fn attempt(&mut self, input: &Input) -> Result<Done, Error> {
        if self.procedures {
            return self.call(input).await;
        }
        match input {
            Input::NewOrder(order) => return self.new_order(order).await,
            Input::Payment(payment) => self.payment(payment).await?,
            Input::OrderStatus(status) => self.order_status(status).await?,
            Input::Delivery(delivery) => self.delivery(delivery).await?,
            Input::StockLevel(level) => self.stock_level(level).await?,
        }
        Ok(Done { kind: input.kind() as usize, rolled_back: false, change: 0 })
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn quit(self) {
        self.connection.quit();
    }

    fn pause(&mut self, input: &Input) -> Option<(Duration, Duration)> {
        let kind = input.kind();
        self.paced.then(|| (pace::keying(kind), pace::think(kind, &mut self.terminal.random)))
    }
}

/// Lines of each supplying warehouse, without those of items that are not there. They come sorted.
fn by_supply(lines: &[Line], known: impl Fn(u32) -> bool) -> Vec<(u32, Vec<Line>)> {
    let mut groups: Vec<(u32, Vec<Line>)> = Vec::new();
    for line in lines.iter().filter(|line| known(line.item)) {
        match groups.iter_mut().find(|(supply, _)| *supply == line.supply) {
            Some((_, group)) => group.push(*line),
            None => groups.push((line.supply, vec![*line])),
        }
    }
    groups
}

/// As many items as there are placeholders.
fn padded(items: impl Iterator<Item = u32>) -> Vec<Param<'static>> {
    let mut params: Vec<Param> = items.map(int).collect();
    let last = params.last().copied().unwrap_or(Param::Null);
    params.resize(ITEMS, last);
    params
}

fn int(number: u32) -> Param<'static> {
    Param::Int(number as i32)
}

/// A row that the tables must have is not there. The code is the one that a procedure would give.
fn no_row(what: &str) -> Error {
    Error::Server { code: 1329, message: format!("no {what}") }
}

fn first(answer: &Answer, at: usize) -> Result<&Value, Error> {
    answer.first().and_then(|row| row.get(at)).ok_or_else(|| no_row("row"))
}

fn column(answer: &Answer, at: usize) -> Result<i64, Error> {
    first(answer, at)?.int().ok_or_else(|| no_row("number"))
}

fn text(answer: &Answer, at: usize) -> Result<&str, Error> {
    first(answer, at)?.text().ok_or_else(|| no_row("text"))
}

/// A tax or a discount, in ten-thousandths.
fn rate(answer: &Answer, at: usize) -> Result<u32, Error> {
    whole(text(answer, at)?, 4).map(|rate| rate as u32).ok_or_else(|| no_row("rate"))
}

fn cents(value: &Value) -> Option<i64> {
    whole(value.text()?, 2)
}
