//! The rows of the nine tables (clause 1.3). Dates are left out: a store puts its own time.

#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    pub street_1: String,
    pub street_2: String,
    pub city: String,
    pub state: String,
    pub zip: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: u32,
    pub image: u32,
    pub name: String,
    pub price: i64,
    pub data: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Warehouse {
    pub id: u32,
    pub name: String,
    pub address: Address,
    pub tax: u32,
    pub ytd: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct District {
    pub warehouse: u32,
    pub id: u32,
    pub name: String,
    pub address: Address,
    pub tax: u32,
    pub ytd: i64,
    pub next_order: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Customer {
    pub warehouse: u32,
    pub district: u32,
    pub id: u32,
    pub first: String,
    pub middle: &'static str,
    pub last: String,
    pub address: Address,
    pub phone: String,
    /// `GC` or `BC`.
    pub credit: &'static str,
    pub credit_limit: i64,
    pub discount: u32,
    pub balance: i64,
    pub ytd_payment: i64,
    pub payments: u32,
    pub deliveries: u32,
    pub data: String,
}

/// A payment; `customer_*` is whose, the others where it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    pub customer_warehouse: u32,
    pub customer_district: u32,
    pub customer: u32,
    pub warehouse: u32,
    pub district: u32,
    pub amount: i64,
    pub data: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub warehouse: u32,
    pub district: u32,
    pub id: u32,
    pub customer: u32,
    /// None until it is delivered; a row of `new_order` is there as long.
    pub carrier: Option<u32>,
    pub lines: u32,
    pub all_local: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OrderLine {
    pub warehouse: u32,
    pub district: u32,
    pub order: u32,
    pub number: u32,
    pub item: u32,
    pub supply: u32,
    pub delivered: bool,
    pub quantity: u32,
    pub amount: i64,
    pub info: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stock {
    pub warehouse: u32,
    pub item: u32,
    pub quantity: i32,
    /// One text for each district.
    pub info: [String; 10],
    pub ytd: i64,
    pub orders: u32,
    pub remotes: u32,
    pub data: String,
}
