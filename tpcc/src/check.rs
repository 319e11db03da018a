//! The consistency conditions (clause 3.3.2), 1 to 12, over totals of each district and counts of rows that contradict each
//! other. A store that sums by itself fills `Facts`; one that gives rows lets `Scan` do it. `judge` is the same for both.
//!
//! What was not asked (`None`) is not judged, and `judge` says how many conditions it did judge.

use crate::row::{Customer, District, History, Order, OrderLine, Warehouse};
use crate::rule::decimal;
use crate::scale::{DISTRICTS, Scale};
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub items: u64,
    pub warehouses: BTreeMap<u32, WarehouseFacts>,
    pub districts: BTreeMap<(u32, u32), DistrictFacts>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WarehouseFacts {
    pub ytd: i64,
    /// Rows of stock.
    pub stock: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DistrictFacts {
    pub ytd: i64,
    pub next_order: u32,
    /// Sum of the payments made here.
    pub paid: i64,
    pub customers: u64,
    pub orders: u64,
    pub last_order: u32,
    /// Sum of `o_ol_cnt`.
    pub lines_promised: u64,
    pub lines: u64,
    pub new_orders: u64,
    pub first_new: u32,
    pub last_new: u32,
    pub contradictions: Option<Contradictions>,
}

/// Rows that contradict others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contradictions {
    /// Orders with a carrier and a row of `new_order`, or with neither.
    pub carrier: u64,
    /// Orders that have not as many lines as they say.
    pub lines: u64,
    /// Orders with a carrier and a line without a date, or the other way round.
    pub delivery: u64,
    /// Customers whose balance is not what was delivered less what was paid.
    pub balance: u64,
    /// Customers whose balance and payments together are not what was delivered.
    pub payments: u64,
}

/// Whether the data are those of a load that nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    Fresh,
    Used,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Conditions that were judged, each once however many districts there are.
    pub judged: usize,
    /// What does not hold, and where.
    pub broken: Vec<String>,
}

impl Verdict {
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }
}

pub fn judge(facts: &Facts, scale: &Scale, age: Age) -> Verdict {
    let mut verdict = Verdict { judged: 7, broken: Vec::new() };
    let mut broken = |what: String| verdict.broken.push(what);
    let mut ask = |holds: bool, what: &dyn Fn() -> String| {
        if !holds {
            broken(what());
        }
    };

    // Rows that no transaction adds or takes away.
    ask(facts.items == u64::from(scale.items), &|| format!("{} items, not {}", facts.items, scale.items));
    let warehouses = facts.warehouses.len();
    ask(warehouses == scale.warehouses as usize, &|| format!("{warehouses} warehouses, not {}", scale.warehouses));
    let (districts, wanted) = (facts.districts.len(), scale.warehouses * DISTRICTS);
    ask(districts == wanted as usize, &|| format!("{districts} districts, not {wanted}"));

    for (id, warehouse) in &facts.warehouses {
        let own = || facts.districts.range((*id, 0)..=(*id, u32::MAX)).map(|(_, district)| district);
        let place = format!("warehouse {id}");
        ask(warehouse.stock == u64::from(scale.items), &|| {
            format!("{place} has {} rows of stock, not {}", warehouse.stock, scale.items)
        });
        let sum: i64 = own().map(|d| d.ytd).sum();
        ask(warehouse.ytd == sum, &|| {
            format!("3.3.2.1: w_ytd of {place} is {}, its districts' d_ytd {}", money(warehouse.ytd), money(sum))
        });
        let paid: i64 = own().map(|d| d.paid).sum();
        ask(warehouse.ytd == paid, &|| {
            format!("3.3.2.8: w_ytd of {place} is {}, its history {}", money(warehouse.ytd), money(paid))
        });
    }
    for ((w, d), facts) in &facts.districts {
        let place = format!("district {d} of warehouse {w}");
        let last = i64::from(facts.next_order) - 1;
        ask(facts.customers == u64::from(scale.customers), &|| {
            format!("{place} has {} customers, not {}", facts.customers, scale.customers)
        });
        ask(last == i64::from(facts.last_order), &|| {
            format!("3.3.2.2: {place} says its last order is {last}, it is {}", facts.last_order)
        });
        ask(facts.new_orders == 0 || last == i64::from(facts.last_new), &|| {
            format!("3.3.2.2: {place} says its last order is {last}, the last new one is {}", facts.last_new)
        });
        let span = (i64::from(facts.last_new) - i64::from(facts.first_new) + 1) as u64;
        ask(facts.new_orders == 0 || facts.new_orders == span, &|| {
            format!("3.3.2.3: {place} has {} new orders, from first to last are {span}", facts.new_orders)
        });
        ask(facts.lines == facts.lines_promised, &|| {
            format!("3.3.2.4: {place} has {} order lines, its orders say {}", facts.lines, facts.lines_promised)
        });
        ask(facts.ytd == facts.paid, &|| {
            format!("3.3.2.9: d_ytd of {place} is {}, its history {}", money(facts.ytd), money(facts.paid))
        });
        if age == Age::Fresh {
            let delivered = facts.orders.wrapping_sub(facts.new_orders);
            let wanted = u64::from(scale.first_new_order()) - 1;
            ask(delivered == wanted, &|| format!("3.3.2.11: {place} has {delivered} delivered orders, not {wanted}"));
        }
        if let Some(rows) = &facts.contradictions {
            let mut none = |count: u64, clause: &str, what: &str| {
                ask(count == 0, &|| format!("{clause}: in {place} {count} {what}"));
            };
            none(rows.carrier, "3.3.2.5", "orders have both a carrier and a new order, or neither");
            none(rows.lines, "3.3.2.6", "orders have not as many lines as they say");
            none(rows.delivery, "3.3.2.7", "orders disagree with their lines about having been delivered");
            none(rows.balance, "3.3.2.10", "customers' balances are not what was delivered less what was paid");
            none(rows.payments, "3.3.2.12", "customers' balances and payments are not what was delivered");
        }
    }
    let deep = !facts.districts.is_empty() && facts.districts.values().all(|d| d.contradictions.is_some());
    verdict.judged = 6 + usize::from(age == Age::Fresh) + if deep { 5 } else { 0 };
    verdict
}

fn money(cents: i64) -> String {
    decimal(cents, 2)
}

/// Sums what a store's rows say, in whatever order they come. It remembers each order and each customer until `close` says
/// that a warehouse has no more of them.
#[derive(Default)]
pub struct Scan {
    facts: Facts,
    /// Totals only: nothing is remembered of a single row.
    quick: bool,
    orders: HashMap<(u32, u32, u32), OrderSeen>,
    customers: HashMap<(u32, u32, u32), CustomerSeen>,
}

#[derive(Default)]
struct OrderSeen {
    customer: Option<u32>,
    promised: u32,
    carrier: bool,
    new: bool,
    lines: u32,
    delivered_lines: u32,
    delivered: i64,
}

#[derive(Default)]
struct CustomerSeen {
    known: bool,
    balance: i64,
    payments: i64,
    paid: i64,
    delivered: i64,
}

impl Scan {
    pub fn quick() -> Scan {
        Scan { quick: true, ..Scan::default() }
    }

    fn at(&mut self, warehouse: u32, district: u32) -> &mut DistrictFacts {
        self.facts.districts.entry((warehouse, district)).or_default()
    }

    pub fn item(&mut self) {
        self.facts.items += 1;
    }

    pub fn stock(&mut self, warehouse: u32) {
        self.facts.warehouses.entry(warehouse).or_default().stock += 1;
    }

    pub fn warehouse(&mut self, row: &Warehouse) {
        self.facts.warehouses.entry(row.id).or_default().ytd = row.ytd;
    }

    pub fn district(&mut self, row: &District) {
        let facts = self.at(row.warehouse, row.id);
        (facts.ytd, facts.next_order) = (row.ytd, row.next_order);
    }

    pub fn customer(&mut self, row: &Customer) {
        self.at(row.warehouse, row.district).customers += 1;
        if self.quick {
            return;
        }
        let seen = self.customers.entry((row.warehouse, row.district, row.id)).or_default();
        (seen.known, seen.balance, seen.payments) = (true, row.balance, row.ytd_payment);
    }

    pub fn history(&mut self, row: &History) {
        self.at(row.warehouse, row.district).paid += row.amount;
        if self.quick {
            return;
        }
        let whose = (row.customer_warehouse, row.customer_district, row.customer);
        self.customers.entry(whose).or_default().paid += row.amount;
    }

    pub fn order(&mut self, row: &Order) {
        let facts = self.at(row.warehouse, row.district);
        facts.orders += 1;
        facts.last_order = facts.last_order.max(row.id);
        facts.lines_promised += u64::from(row.lines);
        if self.quick {
            return;
        }
        let seen = self.orders.entry((row.warehouse, row.district, row.id)).or_default();
        (seen.customer, seen.promised, seen.carrier) = (Some(row.customer), row.lines, row.carrier.is_some());
    }

    pub fn new_order(&mut self, warehouse: u32, district: u32, order: u32) {
        let facts = self.at(warehouse, district);
        facts.first_new = if facts.new_orders == 0 { order } else { facts.first_new.min(order) };
        facts.last_new = facts.last_new.max(order);
        facts.new_orders += 1;
        if self.quick {
            return;
        }
        self.orders.entry((warehouse, district, order)).or_default().new = true;
    }

    pub fn line(&mut self, row: &OrderLine) {
        self.at(row.warehouse, row.district).lines += 1;
        if self.quick {
            return;
        }
        let seen = self.orders.entry((row.warehouse, row.district, row.order)).or_default();
        seen.lines += 1;
        if row.delivered {
            seen.delivered_lines += 1;
            seen.delivered += row.amount;
        }
    }

    /// No more orders, lines, customers or payments of this warehouse's customers come: judges and forgets them.
    pub fn close(&mut self, warehouse: u32) {
        if self.quick {
            return;
        }
        let mut found: HashMap<u32, Contradictions> = HashMap::new();
        let orders = self.orders.extract_if(|(w, _, _), _| *w == warehouse);
        for ((w, d, _), order) in orders {
            let found = found.entry(d).or_default();
            found.carrier += u64::from(order.carrier == order.new || order.customer.is_none());
            found.lines += u64::from(order.lines != order.promised);
            found.delivery += u64::from(order.delivered_lines != if order.carrier { order.lines } else { 0 });
            if let Some(customer) = order.customer {
                self.customers.entry((w, d, customer)).or_default().delivered += order.delivered;
            }
        }
        let customers = self.customers.extract_if(|(w, _, _), _| *w == warehouse);
        for ((_, d, _), customer) in customers {
            let found = found.entry(d).or_default();
            found.balance += u64::from(!customer.known || customer.balance != customer.delivered - customer.paid);
            found.payments += u64::from(customer.balance + customer.payments != customer.delivered);
        }
        for (d, found) in found {
            self.at(warehouse, d).contradictions = Some(found);
        }
    }

    pub fn facts(mut self) -> Facts {
        let orders = self.orders.keys().map(|(w, _, _)| *w);
        let warehouses: BTreeSet<u32> = orders.chain(self.customers.keys().map(|(w, _, _)| *w)).collect();
        warehouses.into_iter().for_each(|warehouse| self.close(warehouse));
        if !self.quick {
            self.facts.districts.values_mut().for_each(|facts| _ = facts.contradictions.get_or_insert_default());
        }
        self.facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Load;

    const SCALE: Scale = Scale { warehouses: 2, items: 200, customers: 60 };

    /// Every row of a load, but for what `change` makes of it.
    fn facts(change: impl Fn(&mut Rows)) -> Facts {
        let load = Load { scale: SCALE, seed: 3 };
        let mut rows = Rows::default();
        for w in 1..=2 {
            rows.warehouses.push(load.warehouse(w));
            rows.districts.extend(load.districts(w));
            for d in 1..=DISTRICTS {
                rows.customers.extend(load.customers(w, d));
                rows.history.extend(load.history(w, d));
                for (order, lines) in load.orders(w, d) {
                    if order.carrier.is_none() {
                        rows.new_orders.push((w, d, order.id));
                    }
                    rows.orders.push(order);
                    rows.lines.extend(lines);
                }
            }
        }
        change(&mut rows);
        let mut scan = Scan::default();
        load.items().for_each(|_| scan.item());
        (1..=2).for_each(|w| load.stock(w).for_each(|_| scan.stock(w)));
        // Lines before orders: the order of tables does not matter.
        rows.lines.iter().for_each(|r| scan.line(r));
        rows.warehouses.iter().for_each(|r| scan.warehouse(r));
        rows.districts.iter().for_each(|r| scan.district(r));
        rows.history.iter().for_each(|r| scan.history(r));
        rows.customers.iter().for_each(|r| scan.customer(r));
        rows.orders.iter().for_each(|r| scan.order(r));
        rows.new_orders.iter().for_each(|(w, d, o)| scan.new_order(*w, *d, *o));
        scan.facts()
    }

    #[derive(Default)]
    struct Rows {
        warehouses: Vec<Warehouse>,
        districts: Vec<District>,
        customers: Vec<Customer>,
        history: Vec<History>,
        orders: Vec<Order>,
        new_orders: Vec<(u32, u32, u32)>,
        lines: Vec<OrderLine>,
    }

    fn broken(change: impl Fn(&mut Rows)) -> String {
        judge(&facts(change), &SCALE, Age::Fresh).broken.join("; ")
    }

    #[test]
    fn a_load_holds() {
        let verdict = judge(&facts(|_| {}), &SCALE, Age::Fresh);
        assert_eq!(verdict, Verdict { judged: 12, broken: Vec::new() });
    }

    #[test]
    fn totals_alone_are_fewer_conditions() {
        let mut scan = Scan::quick();
        let load = Load { scale: SCALE, seed: 3 };
        for d in 1..=DISTRICTS {
            load.customers(1, d).for_each(|r| scan.customer(&r));
            load.history(1, d).for_each(|r| scan.history(&r));
        }
        load.districts(1).for_each(|r| scan.district(&r));
        scan.close(1);
        let facts = scan.facts();
        assert!(facts.districts.values().all(|d| d.contradictions.is_none() && d.customers == 60 && d.paid == d.ytd));
        assert_eq!(judge(&facts, &SCALE, Age::Used).judged, 6);
    }

    #[test]
    fn what_was_not_asked_is_not_judged() {
        let mut facts = facts(|_| {});
        facts.districts.values_mut().for_each(|d| d.contradictions = None);
        assert_eq!(judge(&facts, &SCALE, Age::Used).judged, 6);
        assert!(!judge(&Facts::default(), &SCALE, Age::Used).holds());
    }

    #[test]
    fn each_condition_catches_its_figure() {
        type Change = fn(&mut Rows);
        let changes: [(&str, Change); 13] = [
            ("3.3.2.1", |r| r.warehouses[1].ytd += 1),
            ("3.3.2.2", |r| r.districts[3].next_order += 1),
            ("3.3.2.2", |r| _ = r.orders.pop()),
            ("3.3.2.3", |r| _ = r.new_orders.remove(1)),
            ("3.3.2.4", |r| _ = r.lines.remove(100)),
            ("3.3.2.5", |r| r.orders[0].carrier = None),
            ("3.3.2.6", |r| r.orders[5].lines += 1),
            ("3.3.2.7", |r| r.lines[0].delivered = false),
            ("3.3.2.8", |r| r.history[9].amount += 1),
            ("3.3.2.9", |r| r.districts[0].ytd -= 1),
            ("3.3.2.10", |r| r.customers[50].balance += 1),
            ("3.3.2.11", |r| _ = r.new_orders.remove(0)),
            ("3.3.2.12", |r| r.customers[50].ytd_payment += 1),
        ];
        for (clause, change) in changes {
            let broken = broken(change);
            assert!(broken.contains(&format!("{clause}: ")), "{clause} did not catch it: {broken}");
        }
        assert!(broken(|r| _ = r.customers.pop()).contains("59 customers, not 60"));
    }
}
