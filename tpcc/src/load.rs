//! What the tables hold at first (clause 4.3.3): an iterator for each table and part. A part depends on the seed and on its
//! own place only, so parts may be made in any order, at the same time, or again.

use crate::random::{Constants, Random, last_name};
use crate::row::{Address, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse};
use crate::scale::{DISTRICTS, LINES, Scale};

/// What each customer has paid at first.
const FIRST_PAYMENT: i64 = 10_00;

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub scale: Scale,
    pub seed: u64,
}

/// Tables, as the streams of random numbers know them.
#[derive(Clone, Copy)]
enum Table {
    Item,
    Warehouse,
    District,
    Customer,
    History,
    Order,
    Stock,
}

impl Load {
    fn random(&self, table: Table, warehouse: u32, district: u32) -> Random {
        Random::new(self.seed, ((table as u64) << 56) | (u64::from(warehouse) << 8) | u64::from(district))
    }

    pub fn items(&self) -> impl Iterator<Item = Item> + use<> {
        let mut random = self.random(Table::Item, 0, 0);
        (1..=self.scale.items).map(move |id| Item {
            id,
            image: random.uniform(1, 10_000),
            name: random.a_string(14, 24),
            price: random.uniform(1_00, 100_00).into(),
            data: data(&mut random),
        })
    }

    pub fn warehouse(&self, id: u32) -> Warehouse {
        let mut random = self.random(Table::Warehouse, id, 0);
        Warehouse {
            id,
            name: random.a_string(6, 10),
            address: address(&mut random),
            tax: random.uniform(0, 2000),
            ytd: FIRST_PAYMENT * i64::from(self.scale.customers) * i64::from(DISTRICTS),
        }
    }

    pub fn districts(&self, warehouse: u32) -> impl Iterator<Item = District> + use<> {
        let mut random = self.random(Table::District, warehouse, 0);
        let scale = self.scale;
        (1..=DISTRICTS).map(move |id| District {
            warehouse,
            id,
            name: random.a_string(6, 10),
            address: address(&mut random),
            tax: random.uniform(0, 2000),
            ytd: FIRST_PAYMENT * i64::from(scale.customers),
            next_order: scale.customers + 1,
        })
    }

    pub fn customers(&self, warehouse: u32, district: u32) -> impl Iterator<Item = Customer> + use<> {
        let mut random = self.random(Table::Customer, warehouse, district);
        let names = self.scale.names();
        (1..=self.scale.customers).map(move |id| {
            let name = if id <= names { id - 1 } else { random.nurand(255, Constants::LOAD.last, 0, names - 1) };
            Customer {
                warehouse,
                district,
                id,
                first: random.a_string(8, 16),
                middle: "OE",
                last: last_name(name),
                address: address(&mut random),
                phone: random.n_string(16, 16),
                credit: if random.percent(10) { "BC" } else { "GC" },
                credit_limit: 50_000_00,
                discount: random.uniform(0, 5000),
                balance: -FIRST_PAYMENT,
                ytd_payment: FIRST_PAYMENT,
                payments: 1,
                deliveries: 0,
                data: random.a_string(300, 500),
            }
        })
    }

    /// One payment of each customer.
    pub fn history(&self, warehouse: u32, district: u32) -> impl Iterator<Item = History> + use<> {
        let mut random = self.random(Table::History, warehouse, district);
        (1..=self.scale.customers).map(move |customer| History {
            customer_warehouse: warehouse,
            customer_district: district,
            customer,
            warehouse,
            district,
            amount: FIRST_PAYMENT,
            data: random.a_string(12, 24),
        })
    }

    /// One order of each customer, in an order of the seed's, with its lines. Those without a carrier are new orders.
    pub fn orders(&self, warehouse: u32, district: u32) -> impl Iterator<Item = (Order, Vec<OrderLine>)> + use<> {
        let mut random = self.random(Table::Order, warehouse, district);
        let scale = self.scale;
        let mut customers: Vec<u32> = (1..=scale.customers).collect();
        random.shuffle(&mut customers);
        (1..).zip(customers).map(move |(id, customer)| {
            let delivered = id < scale.first_new_order();
            let lines = random.uniform(LINES.0, LINES.1);
            let order = Order {
                warehouse,
                district,
                id,
                customer,
                carrier: delivered.then(|| random.uniform(1, 10)),
                lines,
                all_local: true,
            };
            let line = |number| OrderLine {
                warehouse,
                district,
                order: id,
                number,
                item: random.uniform(1, scale.items),
                supply: warehouse,
                delivered,
                quantity: 5,
                amount: if delivered { 0 } else { random.uniform(1, 9999_99).into() },
                info: random.a_string(24, 24),
            };
            (order, (1..=lines).map(line).collect())
        })
    }

    pub fn stock(&self, warehouse: u32) -> impl Iterator<Item = Stock> + use<> {
        let mut random = self.random(Table::Stock, warehouse, 0);
        (1..=self.scale.items).map(move |item| Stock {
            warehouse,
            item,
            quantity: random.uniform(10, 100) as i32,
            info: std::array::from_fn(|_| random.a_string(24, 24)),
            ytd: 0,
            orders: 0,
            remotes: 0,
            data: data(&mut random),
        })
    }
}

fn address(random: &mut Random) -> Address {
    Address {
        street_1: random.a_string(10, 20),
        street_2: random.a_string(10, 20),
        city: random.a_string(10, 20),
        state: random.a_string(2, 2).to_uppercase(),
        zip: random.zip(),
    }
}

/// 26 to 50 characters; one in ten holds ORIGINAL somewhere.
fn data(random: &mut Random) -> String {
    const MARK: &str = "ORIGINAL";
    let mut text = random.a_string(26, 50);
    if random.percent(10) {
        let at = random.uniform(0, (text.len() - MARK.len()) as u32) as usize;
        text.replace_range(at..at + MARK.len(), MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load { scale: Scale::standard(2), seed: 7 };

    #[test]
    fn the_standard_s_cardinalities() {
        assert_eq!(LOAD.items().count(), 100_000);
        assert_eq!(LOAD.stock(1).count(), 100_000);
        assert_eq!(LOAD.districts(2).count(), 10);
        assert_eq!(LOAD.customers(1, 1).count(), 3000);
        assert_eq!(LOAD.history(1, 1).count(), 3000);
        let orders: Vec<_> = LOAD.orders(1, 1).collect();
        assert_eq!(orders.len(), 3000);
        assert_eq!(orders.iter().filter(|(o, _)| o.carrier.is_none()).count(), 900);
        let lines: usize = orders.iter().map(|(_, lines)| lines.len()).sum();
        assert!((29_000..31_000).contains(&lines), "{lines} lines");
        let mut customers: Vec<_> = orders.iter().map(|(o, _)| o.customer).collect();
        customers.sort_unstable();
        assert!(customers.into_iter().eq(1..=3000), "each customer has one order");
    }

    #[test]
    fn a_part_depends_on_seed_and_place_only() {
        let again = Load { ..LOAD };
        assert!(LOAD.customers(2, 3).eq(again.customers(2, 3)));
        assert!(LOAD.orders(1, 10).eq(again.orders(1, 10)));
        assert_ne!(LOAD.warehouse(1).name, LOAD.warehouse(2).name);
        assert_ne!(LOAD.warehouse(1).name, Load { seed: 8, ..LOAD }.warehouse(1).name);
        assert!(LOAD.stock(1).ne(LOAD.stock(2)));
        // A smaller table begins as a larger one does, but for what the size itself decides.
        let small = Load { scale: Scale::cut(2, 10), ..LOAD };
        assert!(small.items().eq(LOAD.items().take(10_000)));
    }

    #[test]
    fn one_in_ten_is_original_or_of_bad_credit() {
        let originals = LOAD.items().filter(|i| i.data.contains("ORIGINAL")).count();
        assert!((9_500..10_500).contains(&originals), "{originals}");
        let bad = LOAD.customers(1, 1).filter(|c| c.credit == "BC").count();
        assert!((230..370).contains(&bad), "{bad}");
    }

    #[test]
    fn the_first_thousand_customers_have_each_name_once() {
        let names: std::collections::HashSet<_> = LOAD.customers(1, 1).take(1000).map(|c| c.last).collect();
        assert_eq!(names.len(), 1000);
    }
}
