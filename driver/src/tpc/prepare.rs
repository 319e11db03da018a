//! Makes and fills the nine tables. Pieces are a district's customers, its orders, a warehouse's stock, and so on, so that
//! loaders share even one warehouse.

use super::procedures;
use super::schema::{INDEXES, TABLES, create};
use crate::Failure;
use crate::bulk::{self, Job, Loading};
use crate::control;
use crate::wire::Server;
use std::fmt::Write;
use tpcc::load::Load;
use tpcc::row::{Address, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse};
use tpcc::rule::decimal;
use tpcc::scale::DISTRICTS;

/// False if a signal came.
pub fn prepare(server: &Server, load: Load, engine: &str, loading: &mut Loading<'_>) -> Result<bool, Failure> {
    control::ask(server, async |connection| {
        // Procedures of tables that are gone would only mislead.
        procedures::drop_all(connection).await?;
        for (table, columns) in TABLES {
            connection.run(&format!("DROP TABLE IF EXISTS {table}")).await?;
            connection.run(&create(table, columns, engine)).await?;
        }
        Ok(())
    })?;
    if !loading.load(server, jobs(load), load.scale.rows())? {
        return Ok(false);
    }
    control::ask(server, async |connection| {
        for index in INDEXES {
            connection.run(index).await?;
        }
        for (table, _) in TABLES {
            connection.rows(&format!("ANALYZE TABLE {table}")).await?;
        }
        Ok(true)
    })
}

/// Every piece; the large ones first, so that loaders end at about the same time.
fn jobs(load: Load) -> Vec<Job> {
    let warehouses = 1..=load.scale.warehouses;
    let districts = || warehouses.clone().flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)));
    let mut jobs: Vec<Job> = Vec::new();
    for w in warehouses.clone() {
        jobs.push(Box::new(move || bulk::inserts("INSERT INTO stock VALUES ".into(), load.stock(w), stock)));
    }
    jobs.push(Box::new(move || bulk::inserts("INSERT INTO item VALUES ".into(), load.items(), item)));
    for (w, d) in districts() {
        jobs.push(Box::new(move || {
            let head = "INSERT INTO order_line VALUES ".into();
            bulk::inserts(head, load.orders(w, d).flat_map(|(_, lines)| lines), line)
        }));
    }
    for (w, d) in districts() {
        jobs.push(Box::new(move || {
            bulk::inserts("INSERT INTO customer VALUES ".into(), load.customers(w, d), customer)
        }));
    }
    for (w, d) in districts() {
        jobs.push(Box::new(move || {
            let orders = load.orders(w, d).map(|(order, _)| order);
            let open = load.orders(w, d).map(|(order, _)| order).filter(|order| order.carrier.is_none());
            let statements = bulk::inserts("INSERT INTO orders VALUES ".into(), orders, order)
                .chain(bulk::inserts("INSERT INTO new_order VALUES ".into(), open, new_order))
                .chain(bulk::inserts("INSERT INTO history VALUES ".into(), load.history(w, d), history));
            Box::new(statements)
        }));
    }
    jobs.push(Box::new(move || {
        let (all, of) = (1..=load.scale.warehouses, 1..=load.scale.warehouses);
        let warehouses = all.map(move |w| load.warehouse(w));
        let districts = of.flat_map(move |w| load.districts(w));
        let statements = bulk::inserts("INSERT INTO warehouse VALUES ".into(), warehouses, warehouse)
            .chain(bulk::inserts("INSERT INTO district VALUES ".into(), districts, district));
        Box::new(statements)
    }));
    jobs
}

/// Writing to a String cannot fail. No text of TPC-C needs escaping: all are letters and digits.
macro_rules! put {
    ($out:expr, $($rest:tt)*) => {{ let _ = write!($out, $($rest)*); }};
}

fn address(a: &Address, out: &mut String) {
    put!(out, "'{}','{}','{}','{}','{}'", a.street_1, a.street_2, a.city, a.state, a.zip);
}

fn item(i: Item, out: &mut String) {
    put!(out, "({},{},'{}',{},'{}')", i.id, i.image, i.name, decimal(i.price, 2), i.data);
}

fn warehouse(w: Warehouse, out: &mut String) {
    put!(out, "({},'{}',", w.id, w.name);
    address(&w.address, out);
    put!(out, ",{},{})", decimal(w.tax.into(), 4), decimal(w.ytd, 2));
}

fn district(d: District, out: &mut String) {
    put!(out, "({},{},'{}',", d.id, d.warehouse, d.name);
    address(&d.address, out);
    put!(out, ",{},{},{})", decimal(d.tax.into(), 4), decimal(d.ytd, 2), d.next_order);
}

fn customer(c: Customer, out: &mut String) {
    put!(out, "({},{},{},'{}','{}','{}',", c.id, c.district, c.warehouse, c.first, c.middle, c.last);
    address(&c.address, out);
    put!(out, ",'{}',NOW(),'{}',{},", c.phone, c.credit, decimal(c.credit_limit, 2));
    put!(out, "{},{},{},", decimal(c.discount.into(), 4), decimal(c.balance, 2), decimal(c.ytd_payment, 2));
    put!(out, "{},{},'{}')", c.payments, c.deliveries, c.data);
}

fn history(h: History, out: &mut String) {
    put!(out, "({},{},{},", h.customer, h.customer_district, h.customer_warehouse);
    put!(out, "{},{},NOW(),{},'{}')", h.district, h.warehouse, decimal(h.amount, 2), h.data);
}

fn order(o: Order, out: &mut String) {
    put!(out, "({},{},{},{},NOW(),", o.id, o.district, o.warehouse, o.customer);
    match o.carrier {
        Some(carrier) => put!(out, "{carrier}"),
        None => out.push_str("NULL"),
    }
    put!(out, ",{},{})", o.lines, u32::from(o.all_local));
}

fn new_order(o: Order, out: &mut String) {
    put!(out, "({},{},{})", o.id, o.district, o.warehouse);
}

fn line(l: OrderLine, out: &mut String) {
    let delivery = if l.delivered { "NOW()" } else { "NULL" };
    put!(out, "({},{},{},{},{},", l.order, l.district, l.warehouse, l.number, l.item);
    put!(out, "{},{delivery},{},{},'{}')", l.supply, l.quantity, decimal(l.amount, 2), l.info);
}

fn stock(s: Stock, out: &mut String) {
    put!(out, "({},{},{}", s.item, s.warehouse, s.quantity);
    s.info.iter().for_each(|info| put!(out, ",'{info}'"));
    put!(out, ",{},{},{},'{}')", s.ytd, s.orders, s.remotes, s.data);
}
