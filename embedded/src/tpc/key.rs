//! Keys of the tables: numbers big-endian, so that TidesDB's order of bytes is their order. What a range read asks for lies
//! together: the lines of an order, the new orders of a district with the oldest first, a customer's orders with the newest
//! first, the customers of one last name by first name.

/// Joins parts of fixed length into a key of the length that the caller names.
fn join<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut key = [0; N];
    let mut at = 0;
    for part in parts {
        key[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    debug_assert_eq!(at, N);
    key
}

/// A district's number needs one byte.
fn small(number: u32) -> [u8; 1] {
    [number as u8]
}

pub fn item(item: u32) -> [u8; 4] {
    item.to_be_bytes()
}

pub fn warehouse(w: u32) -> [u8; 4] {
    w.to_be_bytes()
}

pub fn district(w: u32, d: u32) -> [u8; 5] {
    join(&[&w.to_be_bytes(), &small(d)])
}

/// A customer, an order or a new order.
pub fn of_district(w: u32, d: u32, number: u32) -> [u8; 9] {
    join(&[&w.to_be_bytes(), &small(d), &number.to_be_bytes()])
}

pub fn line(w: u32, d: u32, order: u32, number: u32) -> [u8; 10] {
    join(&[&of_district(w, d, order), &small(number)])
}

pub fn stock(w: u32, item: u32) -> [u8; 8] {
    join(&[&w.to_be_bytes(), &item.to_be_bytes()])
}

/// By whose payment it is; `serial` tells payments of one customer apart.
pub fn history(w: u32, d: u32, customer: u32, serial: u64) -> [u8; 17] {
    join(&[&of_district(w, d, customer), &serial.to_be_bytes()])
}

/// The order numbers of a customer, the newest first.
pub fn order_of(w: u32, d: u32, customer: u32, order: u32) -> [u8; 13] {
    join(&[&of_district(w, d, customer), &(!order).to_be_bytes()])
}

/// The order that `order_of` names.
pub fn ordered(key: &[u8]) -> Option<u32> {
    last(key, 13).map(|number| !number)
}

/// The number of a new order, from a key of `of_district`.
pub fn number(key: &[u8]) -> Option<u32> {
    last(key, 9)
}

fn last(key: &[u8], length: usize) -> Option<u32> {
    let number = key.last_chunk::<4>().filter(|_| key.len() == length)?;
    Some(u32::from_be_bytes(*number))
}

/// Names hold letters and digits only, so a zero ends them and sorts before all.
pub fn name(w: u32, d: u32, name: &str, first: &str, customer: u32) -> Vec<u8> {
    [&district(w, d)[..], name.as_bytes(), &[0], first.as_bytes(), &[0], &customer.to_be_bytes()].concat()
}

/// From where to where the customers of one last name lie; the end is not one of them.
pub fn named(w: u32, d: u32, name: &str) -> (Vec<u8>, Vec<u8>) {
    let lie = |end: u8| [&district(w, d)[..], name.as_bytes(), &[end]].concat();
    (lie(0), lie(1))
}

/// The customer that `name` names.
pub fn customer(key: &[u8]) -> Option<u32> {
    key.last_chunk::<4>().map(|number| u32::from_be_bytes(*number))
}

/// The numbers at the head of a key of `of_district`, `line` and the like: warehouse, district, number.
pub fn parts(key: &[u8]) -> Option<(u32, u32, u32)> {
    let (w, rest) = key.split_first_chunk::<4>()?;
    let (d, rest) = rest.split_first()?;
    let number = rest.first_chunk::<4>()?;
    Some((u32::from_be_bytes(*w), u32::from(*d), u32::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_what_they_name() {
        assert!(of_district(1, 10, 256) > of_district(1, 10, 255) && of_district(2, 1, 1) > of_district(1, 10, 9));
        assert!(line(1, 1, 7, 15) < line(1, 1, 8, 1));
        assert!(order_of(1, 1, 5, 9) < order_of(1, 1, 5, 8), "the newest is first");
        assert!(order_of(1, 1, 5, 1) < order_of(1, 1, 6, u32::MAX));
        assert!(name(1, 1, "BAR", "zz", 1) < name(1, 1, "BARBAR", "aa", 2), "a name sorts before a longer one");
        assert!(name(1, 1, "BAR", "ab", 9) < name(1, 1, "BAR", "abc", 1));
    }

    #[test]
    fn keys_give_back_what_they_name() {
        assert_eq!(ordered(&order_of(1, 2, 3, 77)), Some(77));
        assert_eq!(number(&of_district(1, 2, 77)), Some(77));
        assert_eq!(number(&line(1, 2, 77, 1)), None);
        assert_eq!(customer(&name(1, 2, "BAR", "x", 77)), Some(77));
        assert_eq!(parts(&history(500, 10, 3000, 9)), Some((500, 10, 3000)));
        assert_eq!(parts(b"abc"), None);
        let (from, to) = named(1, 2, "BAR");
        assert!((from..to).contains(&name(1, 2, "BAR", "x", 77)));
    }
}
