//! Values of the tables: a head of numbers at fixed places, which a transaction changes where they lie, then the texts, each
//! with its length before it, then a sum over key and all. The sum is checked at every read, so that a row that nobody wrote,
//! or that was written for another key, is found where it is met.
//!
//! Between `open` and `seal` a value is a body: the same bytes without the sum.

use tpcc::row::{Address, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse};

const SUM: usize = 4;

/// A head: numbers one after the other, little-endian.
macro_rules! head {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl $name {
            const SIZE: usize = 0 $(+ size_of::<$type>())*;

            /// The head of a body, and its texts.
            pub fn of(body: &[u8]) -> Option<($name, Texts<'_>)> {
                let rest = body;
                $(
                    let (bytes, rest) = rest.split_first_chunk::<{ size_of::<$type>() }>()?;
                    let $field = <$type>::from_le_bytes(*bytes);
                )*
                Some(($name { $($field,)* }, Texts(rest)))
            }

            fn bytes(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                let mut at = 0;
                $(
                    bytes[at..at + size_of::<$type>()].copy_from_slice(&self.$field.to_le_bytes());
                    at += size_of::<$type>();
                )*
                debug_assert_eq!(at, Self::SIZE);
                bytes
            }

            /// Puts it in the place of a body's head. The body must have one.
            #[allow(dead_code, reason = "some rows never change")]
            pub fn over(&self, body: &mut [u8]) {
                body[..Self::SIZE].copy_from_slice(&self.bytes());
            }

            /// A body of this head and these texts.
            pub fn with<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
                let mut body = self.bytes().to_vec();
                texts.into_iter().for_each(|text| push(&mut body, text));
                body
            }
        }
    };
}

head!(WarehouseHead { ytd: i64, tax: u32 });
head!(DistrictHead { ytd: i64, next_order: u32, tax: u32 });
head!(
    /// Texts: first, middle, last, the address, phone, credit, data.
    CustomerHead {
        balance: i64,
        ytd_payment: i64,
        credit_limit: i64,
        since: u64,
        payments: u32,
        deliveries: u32,
        discount: u32,
    }
);
head!(HistoryHead { amount: i64, date: u64, warehouse: u32, district: u32 });
head!(
    /// `carrier` is 0 until it is delivered.
    OrderHead { entry: u64, customer: u32, carrier: u8, lines: u8, all_local: u8 }
);
head!(
    /// `delivery` is 0 until it is delivered.
    LineHead { amount: i64, delivery: u64, item: u32, supply: u32, quantity: u32 }
);
head!(ItemHead { price: i64, image: u32 });
head!(
    /// Texts: one for each district, then data.
    StockHead { ytd: i64, quantity: i32, orders: u32, remotes: u32 }
);

/// The texts that are left.
#[derive(Clone, Copy)]
pub struct Texts<'a>(&'a [u8]);

impl<'a> Texts<'a> {
    pub fn next(&mut self) -> Option<&'a str> {
        let (length, rest) = self.0.split_first_chunk::<2>()?;
        let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn owned(&mut self) -> Option<String> {
        self.next().map(str::to_owned)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    fn address(&mut self) -> Option<Address> {
        Some(Address {
            street_1: self.owned()?,
            street_2: self.owned()?,
            city: self.owned()?,
            state: self.owned()?,
            zip: self.owned()?,
        })
    }
}

/// No text of TPC-C is longer than 500 characters.
fn push(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(&(text.len() as u16).to_le_bytes());
    body.extend_from_slice(text.as_bytes());
}

fn sum(key: &[u8], body: &[u8]) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(29);
    let words = |mut sum: u64, bytes: &[u8]| {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            sum = mix(sum, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(sum, u64::from_le_bytes(last) ^ bytes.len() as u64)
    };
    let sum = words(words(0, key), body);
    (sum ^ (sum >> 32)) as u32
}

/// Makes a body a value.
pub fn seal(key: &[u8], mut body: Vec<u8>) -> Vec<u8> {
    let sum = sum(key, &body);
    body.extend_from_slice(&sum.to_le_bytes());
    body
}

/// The body of a value; None if it is not one that was written for this key.
pub fn open(key: &[u8], mut value: Vec<u8>) -> Option<Vec<u8>> {
    let (body, found) = value.split_last_chunk::<SUM>()?;
    let (length, whole) = (body.len(), u32::from_le_bytes(*found) == sum(key, body));
    value.truncate(length);
    whole.then_some(value)
}

pub fn from_item(row: &Item) -> Vec<u8> {
    ItemHead { price: row.price, image: row.image }.with([row.name.as_str(), &row.data])
}

fn of_address(address: &Address) -> [&str; 5] {
    [&address.street_1, &address.street_2, &address.city, &address.state, &address.zip]
}

pub fn from_warehouse(row: &Warehouse) -> Vec<u8> {
    let head = WarehouseHead { ytd: row.ytd, tax: row.tax };
    head.with([row.name.as_str()].into_iter().chain(of_address(&row.address)))
}

pub fn to_warehouse(id: u32, body: &[u8]) -> Option<Warehouse> {
    let (head, mut texts) = WarehouseHead::of(body)?;
    let row = Warehouse { id, name: texts.owned()?, address: texts.address()?, tax: head.tax, ytd: head.ytd };
    texts.end().map(|()| row)
}

pub fn from_district(row: &District) -> Vec<u8> {
    let head = DistrictHead { ytd: row.ytd, next_order: row.next_order, tax: row.tax };
    head.with([row.name.as_str()].into_iter().chain(of_address(&row.address)))
}

pub fn to_district(warehouse: u32, id: u32, body: &[u8]) -> Option<District> {
    let (head, mut texts) = DistrictHead::of(body)?;
    let row = District {
        warehouse,
        id,
        name: texts.owned()?,
        address: texts.address()?,
        tax: head.tax,
        ytd: head.ytd,
        next_order: head.next_order,
    };
    texts.end().map(|()| row)
}

pub fn from_customer(row: &Customer, since: u64) -> Vec<u8> {
    let head = CustomerHead {
        balance: row.balance,
        ytd_payment: row.ytd_payment,
        credit_limit: row.credit_limit,
        since,
        payments: row.payments,
        deliveries: row.deliveries,
        discount: row.discount,
    };
    let names = [row.first.as_str(), row.middle, &row.last];
    head.with(names.into_iter().chain(of_address(&row.address)).chain([row.phone.as_str(), row.credit, &row.data]))
}

pub fn to_customer((warehouse, district, id): (u32, u32, u32), body: &[u8]) -> Option<Customer> {
    let (head, mut texts) = CustomerHead::of(body)?;
    let row = Customer {
        warehouse,
        district,
        id,
        first: texts.owned()?,
        middle: texts.next().filter(|middle| *middle == "OE").map(|_| "OE")?,
        last: texts.owned()?,
        address: texts.address()?,
        phone: texts.owned()?,
        credit: match texts.next()? {
            "GC" => "GC",
            "BC" => "BC",
            _ => return None,
        },
        credit_limit: head.credit_limit,
        discount: head.discount,
        balance: head.balance,
        ytd_payment: head.ytd_payment,
        payments: head.payments,
        deliveries: head.deliveries,
        data: texts.owned()?,
    };
    texts.end().map(|()| row)
}

pub fn from_history(row: &History, date: u64) -> Vec<u8> {
    let head = HistoryHead { amount: row.amount, date, warehouse: row.warehouse, district: row.district };
    head.with([row.data.as_str()])
}

pub fn to_history((warehouse, district, customer): (u32, u32, u32), body: &[u8]) -> Option<History> {
    let (head, mut texts) = HistoryHead::of(body)?;
    let row = History {
        customer_warehouse: warehouse,
        customer_district: district,
        customer,
        warehouse: head.warehouse,
        district: head.district,
        amount: head.amount,
        data: texts.owned()?,
    };
    texts.end().map(|()| row)
}

pub fn from_order(row: &Order, entry: u64) -> Vec<u8> {
    let carrier = row.carrier.unwrap_or(0) as u8;
    let all_local = row.all_local.into();
    OrderHead { entry, customer: row.customer, carrier, lines: row.lines as u8, all_local }.with([])
}

pub fn to_order((warehouse, district, id): (u32, u32, u32), body: &[u8]) -> Option<Order> {
    let (head, texts) = OrderHead::of(body)?;
    let row = Order {
        warehouse,
        district,
        id,
        customer: head.customer,
        carrier: (head.carrier > 0).then_some(head.carrier.into()),
        lines: head.lines.into(),
        all_local: head.all_local > 0,
    };
    texts.end().map(|()| row)
}

/// `date` is put where the line has been delivered.
pub fn from_line(row: &OrderLine, date: u64) -> Vec<u8> {
    let delivery = if row.delivered { date } else { 0 };
    let OrderLine { amount, item, supply, quantity, .. } = *row;
    LineHead { amount, delivery, item, supply, quantity }.with([row.info.as_str()])
}

pub fn to_line((warehouse, district, order): (u32, u32, u32), number: u32, body: &[u8]) -> Option<OrderLine> {
    let (head, mut texts) = LineHead::of(body)?;
    let row = OrderLine {
        warehouse,
        district,
        order,
        number,
        item: head.item,
        supply: head.supply,
        delivered: head.delivery > 0,
        quantity: head.quantity,
        amount: head.amount,
        info: texts.owned()?,
    };
    texts.end().map(|()| row)
}

pub fn from_stock(row: &Stock) -> Vec<u8> {
    let head = StockHead { ytd: row.ytd, quantity: row.quantity, orders: row.orders, remotes: row.remotes };
    head.with(row.info.iter().map(String::as_str).chain([row.data.as_str()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tpcc::Scale;
    use tpcc::load::Load;

    fn load() -> Load {
        Load { scale: Scale::cut(1, 100), seed: 5 }
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let w = load().warehouse(1);
        assert_eq!(to_warehouse(1, &from_warehouse(&w)), Some(w));
        for d in load().districts(1) {
            assert_eq!(to_district(1, d.id, &from_district(&d)), Some(d));
        }
        for c in load().customers(1, 3) {
            assert_eq!(to_customer((1, 3, c.id), &from_customer(&c, 9)), Some(c));
        }
        for h in load().history(1, 3) {
            assert_eq!(to_history((1, 3, h.customer), &from_history(&h, 9)), Some(h));
        }
        for (order, lines) in load().orders(1, 3) {
            for line in lines {
                assert_eq!(to_line((1, 3, order.id), line.number, &from_line(&line, 9)), Some(line));
            }
            assert_eq!(to_order((1, 3, order.id), &from_order(&order, 9)), Some(order));
        }
        for stock in load().stock(1) {
            let body = from_stock(&stock);
            let (head, mut texts) = StockHead::of(&body).unwrap();
            assert_eq!((head.quantity, head.ytd, head.orders, head.remotes), (stock.quantity, 0, 0, 0));
            assert!(stock.info.iter().all(|info| texts.next() == Some(info)));
            assert_eq!((texts.next(), texts.next()), (Some(stock.data.as_str()), None));
        }
        for item in load().items() {
            let body = from_item(&item);
            let (head, mut texts) = ItemHead::of(&body).unwrap();
            assert_eq!((head.price, head.image), (item.price, item.image));
            assert_eq!((texts.next(), texts.next()), (Some(item.name.as_str()), Some(item.data.as_str())));
        }
    }

    #[test]
    fn any_changed_byte_is_found() {
        let customer = load().customers(1, 1).next().unwrap();
        for body in [from_customer(&customer, 1), Vec::new()] {
            let value = seal(b"key", body.clone());
            assert_eq!(open(b"key", value.clone()), Some(body));
            assert_eq!(open(b"kez", value.clone()), None);
            for at in 0..value.len() {
                let mut changed = value.clone();
                changed[at] ^= 1;
                assert_eq!(open(b"key", changed), None, "byte {at}");
            }
            assert_eq!(open(b"key", value[..value.len() - 1].to_vec()), None);
        }
        assert_eq!(open(b"key", b"abc".to_vec()), None);
    }

    #[test]
    fn a_head_is_changed_where_it_lies() {
        let mut body = from_order(&load().orders(1, 1).last().unwrap().0, 7);
        let (head, _) = OrderHead::of(&body).unwrap();
        assert_eq!((head.carrier, head.entry), (0, 7));
        OrderHead { carrier: 5, ..head }.over(&mut body);
        assert_eq!(OrderHead::of(&body).unwrap().0, OrderHead { carrier: 5, ..head });
    }
}
