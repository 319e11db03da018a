//! The prepared statements of the five transactions. `NOW()` is the server's, so that no clock of a client is in the data.

use super::schema::INFO;

/// Placeholders of the longest order; a shorter one names its last item again, which changes no set.
pub const ITEMS: usize = 15;
/// Order lines go in statements of five and of one.
pub const FIVE: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sql {
    TakeOrderNumber,
    NextOrderNumber,
    OrderingCustomer,
    InsertOrder,
    InsertNewOrder,
    Items,
    Stock,
    UpdateStock,
    InsertLine,
    InsertFiveLines,
    PayWarehouse,
    Warehouse,
    PayDistrict,
    District,
    CustomersByName,
    PayingCustomer,
    BadCreditData,
    PayCustomer,
    PayBadCustomer,
    InsertHistory,
    Customer,
    LastOrder,
    OrderLines,
    OldestNewOrder,
    DeleteNewOrder,
    OrderOwner,
    SetCarrier,
    SetDelivery,
    OrderSum,
    DeliverCustomer,
    RecentOrders,
    LowStock,
}

/// Prepared statements of one client.
pub const COUNT: u32 = ALL.len() as u32;

pub const ALL: [Sql; 32] = [
    Sql::TakeOrderNumber,
    Sql::NextOrderNumber,
    Sql::OrderingCustomer,
    Sql::InsertOrder,
    Sql::InsertNewOrder,
    Sql::Items,
    Sql::Stock,
    Sql::UpdateStock,
    Sql::InsertLine,
    Sql::InsertFiveLines,
    Sql::PayWarehouse,
    Sql::Warehouse,
    Sql::PayDistrict,
    Sql::District,
    Sql::CustomersByName,
    Sql::PayingCustomer,
    Sql::BadCreditData,
    Sql::PayCustomer,
    Sql::PayBadCustomer,
    Sql::InsertHistory,
    Sql::Customer,
    Sql::LastOrder,
    Sql::OrderLines,
    Sql::OldestNewOrder,
    Sql::DeleteNewOrder,
    Sql::OrderOwner,
    Sql::SetCarrier,
    Sql::SetDelivery,
    Sql::OrderSum,
    Sql::DeliverCustomer,
    Sql::RecentOrders,
    Sql::LowStock,
];

impl Sql {
    pub fn text(self) -> String {
        let marks = vec!["?"; ITEMS].join(",");
        let line = "(?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)";
        let fixed = match self {
            Sql::TakeOrderNumber => "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE",
            Sql::NextOrderNumber => "UPDATE district SET d_next_o_id = ? + 1 WHERE d_w_id = ? AND d_id = ?",
            Sql::OrderingCustomer => {
                "SELECT c_discount, c_last, c_credit, w_tax FROM warehouse, customer \
                 WHERE w_id = ? AND c_w_id = w_id AND c_d_id = ? AND c_id = ?"
            }
            Sql::InsertOrder => "INSERT INTO orders VALUES (?, ?, ?, ?, NOW(), NULL, ?, ?)",
            Sql::InsertNewOrder => "INSERT INTO new_order VALUES (?, ?, ?)",
            Sql::Items => return format!("SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ({marks})"),
            Sql::Stock => {
                return format!(
                    "SELECT s_i_id, s_quantity, s_data, ELT(?, {INFO}) FROM stock \
                     WHERE s_w_id = ? AND s_i_id IN ({marks}) FOR UPDATE"
                );
            }
            Sql::UpdateStock => {
                "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
                 s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?"
            }
            Sql::InsertLine => return format!("INSERT INTO order_line VALUES {line}"),
            Sql::InsertFiveLines => return format!("INSERT INTO order_line VALUES {}", [line; FIVE].join(", ")),
            Sql::PayWarehouse => "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?",
            Sql::Warehouse => {
                "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?"
            }
            Sql::PayDistrict => "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
            Sql::District => {
                "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
                 WHERE d_w_id = ? AND d_id = ?"
            }
            Sql::CustomersByName => {
                "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first"
            }
            Sql::PayingCustomer => {
                "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
                 c_credit_lim, c_discount, c_balance, c_credit FROM customer \
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE"
            }
            Sql::BadCreditData => "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE",
            Sql::PayCustomer => {
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"
            }
            Sql::PayBadCustomer => {
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
                 c_payment_cnt = c_payment_cnt + 1, c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"
            }
            Sql::InsertHistory => "INSERT INTO history VALUES (?, ?, ?, ?, ?, NOW(), ?, ?)",
            Sql::Customer => {
                "SELECT c_first, c_middle, c_last, c_balance FROM customer \
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"
            }
            Sql::LastOrder => {
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? \
                 ORDER BY o_id DESC LIMIT 1"
            }
            Sql::OrderLines => {
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                 WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"
            }
            Sql::OldestNewOrder => {
                "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE"
            }
            Sql::DeleteNewOrder => "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?",
            Sql::OrderOwner => "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? FOR UPDATE",
            Sql::SetCarrier => "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
            Sql::SetDelivery => {
                "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"
            }
            Sql::OrderSum => "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            Sql::DeliverCustomer => {
                "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"
            }
            Sql::RecentOrders => "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?",
            Sql::LowStock => {
                "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND ol_d_id = ? \
                 AND ol_o_id >= ? AND ol_o_id < ? AND s_w_id = ol_w_id AND s_i_id = ol_i_id AND s_quantity < ?"
            }
        };
        fixed.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lie_at_their_place() {
        ALL.iter().enumerate().for_each(|(at, sql)| assert_eq!(*sql as usize, at));
        assert_eq!(Sql::InsertFiveLines.text().matches('?').count(), 45);
        assert_eq!(Sql::Stock.text().matches('?').count(), 17);
    }
}
