//! What the five transactions compute (clauses 2.4 to 2.8). A store that computes in SQL says the same there; its tests
//! compare.

/// Stock after an order of `ordered`: refilled by 91 when less than 10 would be left.
pub fn stock_after(quantity: i32, ordered: u32) -> i32 {
    let left = quantity - ordered as i32;
    if left >= 10 { left } else { left + 91 }
}

/// What an order costs in cents: the lines' sum less the customer's discount, plus both taxes, rounded down.
pub fn order_total(lines: i64, discount: u32, warehouse_tax: u32, district_tax: u32) -> i64 {
    let wide = i128::from(lines)
        * i128::from(10_000 - i64::from(discount))
        * i128::from(10_000 + i64::from(warehouse_tax) + i64::from(district_tax));
    (wide / 100_000_000) as i64
}

/// Which of `count` customers of one last name, sorted by first name, is meant: the middle one, rounded up; from 0.
pub fn middle(count: usize) -> usize {
    count.saturating_sub(1) / 2
}

/// `B` if both the item and its stock are original, else `G`.
pub fn brand(item: &str, stock: &str) -> char {
    if item.contains("ORIGINAL") && stock.contains("ORIGINAL") { 'B' } else { 'G' }
}

/// Where and how much a customer of bad credit paid.
#[derive(Clone, Copy, Debug)]
pub struct Paid {
    pub customer: u32,
    pub customer_district: u32,
    pub customer_warehouse: u32,
    pub district: u32,
    pub warehouse: u32,
    pub amount: i64,
}

/// The new `c_data` of a customer of bad credit: the payment before what was there, 500 characters at most.
pub fn bad_credit_data(paid: &Paid, before: &str) -> String {
    let Paid { customer, customer_district, customer_warehouse, district, warehouse, amount } = paid;
    let amount = decimal(*amount, 2);
    let mut data =
        format!("{customer} {customer_district} {customer_warehouse} {district} {warehouse} {amount} {before}");
    let end = data.char_indices().nth(500).map_or(data.len(), |(at, _)| at);
    data.truncate(end);
    data
}

/// `h_data`: both names, four spaces between.
pub fn history_data(warehouse: &str, district: &str) -> String {
    format!("{warehouse}    {district}")
}

/// A whole number of 1/10^`digits` in decimal notation: `decimal(-1005, 2)` is `-10.05`.
pub fn decimal(number: i64, digits: u32) -> String {
    let one = 10u64.pow(digits);
    let (sign, size) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
    format!("{sign}{}.{:0width$}", size / one, size % one, width = digits as usize)
}

/// The number that `decimal` wrote, or one with fewer digits; None if it is no such number or has more.
pub fn whole(text: &str, digits: u32) -> Option<i64> {
    let (negative, size) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (before, after) = size.split_once('.').unwrap_or((size, ""));
    if before.is_empty()
        || after.len() > digits as usize
        || !before.bytes().chain(after.bytes()).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let number: i64 = format!("{before}{after:0<width$}", width = digits as usize).parse().ok()?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_refilled_below_ten() {
        assert_eq!(stock_after(20, 10), 10);
        assert_eq!(stock_after(19, 10), 100);
        assert_eq!(stock_after(10, 1), 100);
        assert_eq!(stock_after(100, 1), 99);
    }

    #[test]
    fn totals() {
        assert_eq!(order_total(100_00, 0, 0, 0), 100_00);
        assert_eq!(order_total(100_00, 5000, 1000, 1000), 60_00);
        assert_eq!(order_total(15 * 10 * 100_00, 0, 2000, 2000), 21_000_00);
    }

    #[test]
    fn the_middle_customer() {
        assert_eq!([1, 2, 3, 4, 5].map(middle), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn bad_credit_pushes_out_the_oldest() {
        let paid =
            Paid { customer: 1, customer_district: 2, customer_warehouse: 3, district: 4, warehouse: 5, amount: 6_07 };
        assert_eq!(bad_credit_data(&paid, "old"), "1 2 3 4 5 6.07 old");
        let long = bad_credit_data(&paid, &"x".repeat(500));
        assert_eq!(long.len(), 500);
        assert!(long.starts_with("1 2 3 4 5 6.07 xxx"));
    }

    #[test]
    fn decimals_there_and_back() {
        for (number, digits, text) in [(0, 2, "0.00"), (-10_05, 2, "-10.05"), (-5, 2, "-0.05"), (1234, 4, "0.1234")] {
            assert_eq!(decimal(number, digits), text);
            assert_eq!(whole(text, digits), Some(number));
        }
        assert_eq!(whole("7", 2), Some(700));
        assert_eq!(whole("7.5", 2), Some(750));
        for no in ["", ".5", "1.234", "1e5", "x", "1.-5"] {
            assert_eq!(whole(no, 2), None, "{no}");
        }
    }

    #[test]
    fn brands() {
        assert_eq!(brand("an ORIGINAL", "ORIGINAL too"), 'B');
        assert_eq!(brand("an ORIGINAL", "no"), 'G');
    }
}
