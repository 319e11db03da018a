//! What a terminal asks for (the input parts of clauses 2.4 to 2.8). A terminal has a home warehouse, a district for its
//! Stock-Level, its own random numbers and its own deck.

use crate::deck::{Deck, Kind};
use crate::random::{Constants, Random, last_name};
use crate::scale::{DISTRICTS, LINES, Scale};

#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewOrder {
    pub warehouse: u32,
    pub district: u32,
    pub customer: u32,
    /// 5 to 15; where `rollback` holds the last one names an item that is not there.
    pub lines: Vec<Line>,
    pub rollback: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub item: u32,
    pub supply: u32,
    pub quantity: u32,
}

/// Which customer is meant.
#[derive(Clone, Debug, PartialEq)]
pub enum Who {
    Id(u32),
    Last(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Payment {
    pub warehouse: u32,
    pub district: u32,
    pub customer_warehouse: u32,
    pub customer_district: u32,
    pub customer: Who,
    pub amount: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OrderStatus {
    pub warehouse: u32,
    pub district: u32,
    pub customer: Who,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub warehouse: u32,
    pub carrier: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StockLevel {
    pub warehouse: u32,
    pub district: u32,
    pub threshold: i32,
}

impl NewOrder {
    pub fn all_local(&self) -> bool {
        self.lines.iter().all(|line| line.supply == self.warehouse)
    }

    /// Sorts the lines so that everybody asks for stock in one order, which keeps deadlocks rare. The item that is not there
    /// stays last.
    pub fn sort(&mut self) {
        let known = self.lines.len() - usize::from(self.rollback);
        self.lines[..known].sort_by_key(|line| (line.supply, line.item));
    }
}

impl Input {
    pub fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Terminal {
    warehouse: u32,
    district: u32,
    scale: Scale,
    constants: Constants,
    deck: Deck,
    pub random: Random,
}

impl Terminal {
    /// The terminal at `place`: terminals go round the warehouses, then round their districts.
    pub fn new(place: u32, scale: Scale, seed: u64) -> Terminal {
        let mut random = Random::new(seed, 0x7465_726d_0000_0000 | u64::from(place));
        Terminal {
            warehouse: place % scale.warehouses + 1,
            district: place / scale.warehouses % DISTRICTS + 1,
            scale,
            constants: Constants::of_run(seed),
            deck: Deck::new(&mut random),
            random,
        }
    }

    pub fn ask(&mut self) -> Input {
        match self.deck.deal(&mut self.random) {
            Kind::NewOrder => Input::NewOrder(self.new_order()),
            Kind::Payment => Input::Payment(self.payment()),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus {
                warehouse: self.warehouse,
                district: self.random.uniform(1, DISTRICTS),
                customer: self.who(),
            }),
            Kind::Delivery => {
                Input::Delivery(Delivery { warehouse: self.warehouse, carrier: self.random.uniform(1, 10) })
            }
            Kind::StockLevel => Input::StockLevel(StockLevel {
                warehouse: self.warehouse,
                district: self.district,
                threshold: self.random.uniform(10, 20) as i32,
            }),
        }
    }

    fn new_order(&mut self) -> NewOrder {
        let random = &mut self.random;
        let district = random.uniform(1, DISTRICTS);
        let customer = random.nurand(1023, self.constants.customer, 1, self.scale.customers);
        let count = random.uniform(LINES.0, LINES.1);
        let rollback = random.percent(1);
        let mut lines: Vec<Line> = (0..count).map(|_| self.line()).collect();
        if rollback && let Some(last) = lines.last_mut() {
            last.item = self.scale.items + 1;
        }
        NewOrder { warehouse: self.warehouse, district, customer, lines, rollback }
    }

    fn line(&mut self) -> Line {
        let item = self.random.nurand(8191, self.constants.item, 1, self.scale.items);
        let remote = self.random.percent(1);
        let supply = if remote { self.other_warehouse() } else { self.warehouse };
        Line { item, supply, quantity: self.random.uniform(1, 10) }
    }

    fn payment(&mut self) -> Payment {
        let district = self.random.uniform(1, DISTRICTS);
        let (customer_warehouse, customer_district) = if self.random.percent(85) {
            (self.warehouse, district)
        } else {
            (self.other_warehouse(), self.random.uniform(1, DISTRICTS))
        };
        Payment {
            warehouse: self.warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.who(),
            amount: self.random.uniform(1_00, 5000_00).into(),
        }
    }

    /// 60 % by last name, the rest by number.
    fn who(&mut self) -> Who {
        if self.random.percent(60) {
            let number = self.random.nurand(255, self.constants.last, 0, self.scale.names() - 1);
            Who::Last(last_name(number))
        } else {
            Who::Id(self.random.nurand(1023, self.constants.customer, 1, self.scale.customers))
        }
    }

    /// Any but the own, where there is another.
    fn other_warehouse(&mut self) -> u32 {
        if self.scale.warehouses == 1 {
            return self.warehouse;
        }
        let other = self.random.uniform(1, self.scale.warehouses - 1);
        if other >= self.warehouse { other + 1 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(warehouses: u32, count: usize) -> Vec<Input> {
        let mut terminal = Terminal::new(0, Scale::standard(warehouses), 5);
        (0..count).map(|_| terminal.ask()).collect()
    }

    fn share(part: usize, of: usize) -> f64 {
        part as f64 / of as f64
    }

    #[test]
    fn new_orders_as_the_standard_asks() {
        let all = inputs(4, 200_000);
        let orders: Vec<_> =
            all.iter().filter_map(|i| if let Input::NewOrder(o) = i { Some(o) } else { None }).collect();
        assert_eq!(orders.len(), 90_000);
        let rollbacks = share(orders.iter().filter(|o| o.rollback).count(), orders.len());
        assert!((0.009..0.011).contains(&rollbacks), "{rollbacks}");
        for order in &orders {
            let missing = order.lines.iter().filter(|l| l.item > 100_000).count();
            assert_eq!(missing, usize::from(order.rollback));
            assert!((5..=15).contains(&order.lines.len()));
            assert!(order.lines.iter().all(|l| (1..=10).contains(&l.quantity) && (1..=4).contains(&l.supply)));
        }
        let lines: usize = orders.iter().map(|o| o.lines.len()).sum();
        assert!((9.9..10.1).contains(&share(lines, orders.len())));
        let remote = orders.iter().flat_map(|o| &o.lines).filter(|l| l.supply != 1).count();
        assert!((0.009..0.011).contains(&share(remote, lines)), "{}", share(remote, lines));
    }

    #[test]
    fn payments_as_the_standard_asks() {
        let all = inputs(4, 100_000);
        let paid: Vec<_> = all.iter().filter_map(|i| if let Input::Payment(p) = i { Some(p) } else { None }).collect();
        let remote = share(paid.iter().filter(|p| p.customer_warehouse != p.warehouse).count(), paid.len());
        assert!((0.14..0.16).contains(&remote), "{remote}");
        let named = share(paid.iter().filter(|p| matches!(p.customer, Who::Last(_))).count(), paid.len());
        assert!((0.59..0.61).contains(&named), "{named}");
        assert!(paid.iter().all(|p| (1_00..=5000_00).contains(&p.amount)));
    }

    #[test]
    fn one_warehouse_has_no_other() {
        assert!(inputs(1, 5000).iter().all(|input| match input {
            Input::NewOrder(o) => o.all_local(),
            Input::Payment(p) => p.customer_warehouse == 1,
            _ => true,
        }));
    }

    #[test]
    fn terminals_go_round_and_repeat_by_seed() {
        let scale = Scale::standard(3);
        let home = |place| {
            let terminal = Terminal::new(place, scale, 1);
            (terminal.warehouse, terminal.district)
        };
        assert_eq!([0, 1, 2, 3, 4].map(home), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)]);
        assert_eq!(home(30), (1, 1));
        let first = |seed| Terminal::new(7, scale, seed).ask();
        assert_eq!(first(1), first(1));
        let (mut a, mut b) = (Terminal::new(0, scale, 1), Terminal::new(3, scale, 1));
        assert!((0..10).any(|_| a.ask() != b.ask()));
    }
}
