//! The five transactions as stored procedures: one call, one answer. They do what `client` does statement by statement, in
//! the same order of tables.

use super::schema::INFO;
use super::statements::ITEMS;
use crate::wire::{Connection, Error, Param};
use tpcc::input::{Input, Who};

pub struct Procedure {
    name: &'static str,
    params: fn() -> Vec<String>,
    body: fn() -> String,
}

/// By kind of transaction.
pub const PROCEDURES: [Procedure; 5] = [
    Procedure { name: "tpcc_new_order", params: new_order_params, body: new_order },
    Procedure { name: "tpcc_payment", params: payment_params, body: payment },
    Procedure { name: "tpcc_order_status", params: order_status_params, body: order_status },
    Procedure { name: "tpcc_delivery", params: || texts(&["p_w INT", "p_carrier INT"]), body: delivery },
    Procedure { name: "tpcc_stock_level", params: || texts(&["p_w INT", "p_d INT", "p_least INT"]), body: stock_level },
];

impl Procedure {
    pub fn call(&self) -> String {
        format!("CALL {}({})", self.name, vec!["?"; (self.params)().len()].join(", "))
    }
}

/// Makes them anew, so that they are this program's and no older one's.
pub async fn create(connection: &mut Connection) -> Result<(), Error> {
    drop_all(connection).await?;
    for procedure in &PROCEDURES {
        let params = (procedure.params)().iter().map(|param| format!("IN {param}")).collect::<Vec<_>>().join(", ");
        let body = (procedure.body)();
        connection.run(&format!("CREATE PROCEDURE {}({params}) BEGIN {body} END", procedure.name)).await?;
    }
    Ok(())
}

pub async fn drop_all(connection: &mut Connection) -> Result<(), Error> {
    for procedure in &PROCEDURES {
        connection.run(&format!("DROP PROCEDURE IF EXISTS {}", procedure.name)).await?;
    }
    Ok(())
}

/// `paid` is a payment's amount as a decimal.
pub fn params<'a>(input: &'a Input, paid: &'a str) -> Vec<Param<'a>> {
    let int = |number: u32| Param::Int(number as i32);
    match input {
        Input::NewOrder(order) => {
            let count = order.lines.len() as u32;
            let mut params = vec![int(order.warehouse), int(order.district), int(order.customer)];
            params.extend([int(count), int(order.all_local().into())]);
            // Slots that are not used hold the last line; nobody reads them.
            let last = order.lines.last().copied();
            let lines =
                || order.lines.iter().copied().chain(std::iter::repeat_with(move || last).flatten()).take(ITEMS);
            params.extend(lines().map(|line| int(line.item)));
            params.extend(lines().map(|line| int(line.supply)));
            params.extend(lines().map(|line| int(line.quantity)));
            params
        }
        Input::Payment(p) => {
            let mut params =
                vec![int(p.warehouse), int(p.district), int(p.customer_warehouse), int(p.customer_district)];
            params.extend(who(&p.customer));
            params.push(Param::Text(paid));
            params
        }
        Input::OrderStatus(status) => {
            let mut params = vec![int(status.warehouse), int(status.district)];
            params.extend(who(&status.customer));
            params
        }
        Input::Delivery(delivery) => vec![int(delivery.warehouse), int(delivery.carrier)],
        Input::StockLevel(level) => vec![int(level.warehouse), int(level.district), Param::Int(level.threshold)],
    }
}

/// Number and name; the number is 0 where the name counts.
fn who(who: &Who) -> [Param<'_>; 2] {
    match who {
        Who::Id(id) => [Param::Int(*id as i32), Param::Text("")],
        Who::Last(name) => [Param::Int(0), Param::Text(name)],
    }
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| text.to_string()).collect()
}

fn slots(name: &str) -> Vec<String> {
    (1..=ITEMS).map(|n| format!("p_{name}{n}")).collect()
}

fn new_order_params() -> Vec<String> {
    let mut params = texts(&["p_w INT", "p_d INT", "p_c INT", "p_count INT", "p_local INT"]);
    for name in ["item", "supply", "quantity"] {
        params.extend(slots(name).into_iter().map(|slot| format!("{slot} INT")));
    }
    params
}

fn new_order() -> String {
    let [item, supply, quantity] = ["item", "supply", "quantity"].map(|name| slots(name).join(", "));
    format!(
        "DECLARE v_order, v_at, v_item, v_supply, v_quantity, v_stock INT; \
         DECLARE v_missing INT DEFAULT 0; \
         DECLARE v_district_tax, v_warehouse_tax, v_discount DECIMAL(4,4); \
         DECLARE v_price DECIMAL(5,2); \
         DECLARE v_total DECIMAL(14,2) DEFAULT 0; \
         DECLARE v_last, v_credit VARCHAR(16); \
         DECLARE v_name, v_info VARCHAR(24); \
         DECLARE v_item_data, v_stock_data VARCHAR(50); \
         SELECT d_next_o_id, d_tax INTO v_order, v_district_tax FROM district \
           WHERE d_w_id = p_w AND d_id = p_d FOR UPDATE; \
         UPDATE district SET d_next_o_id = v_order + 1 WHERE d_w_id = p_w AND d_id = p_d; \
         SELECT c_discount, c_last, c_credit, w_tax INTO v_discount, v_last, v_credit, v_warehouse_tax \
           FROM warehouse, customer WHERE w_id = p_w AND c_w_id = w_id AND c_d_id = p_d AND c_id = p_c; \
         INSERT INTO orders VALUES (v_order, p_d, p_w, p_c, NOW(), NULL, p_count, p_local); \
         INSERT INTO new_order VALUES (v_order, p_d, p_w); \
         SET v_at = 1; \
         WHILE v_at <= p_count DO \
           SET v_item = ELT(v_at, {item}), v_supply = ELT(v_at, {supply}), v_quantity = ELT(v_at, {quantity}); \
           SET v_price = NULL; \
           SELECT i_price, i_name, i_data INTO v_price, v_name, v_item_data FROM item WHERE i_id = v_item; \
           IF v_price IS NULL THEN \
             SET v_missing = 1; \
           ELSE \
             SELECT s_quantity, s_data, ELT(p_d, {INFO}) INTO v_stock, v_stock_data, v_info FROM stock \
               WHERE s_w_id = v_supply AND s_i_id = v_item FOR UPDATE; \
             UPDATE stock SET s_quantity = IF(v_stock - v_quantity >= 10, v_stock - v_quantity, \
                 v_stock - v_quantity + 91), s_ytd = s_ytd + v_quantity, s_order_cnt = s_order_cnt + 1, \
                 s_remote_cnt = s_remote_cnt + (v_supply <> p_w) \
               WHERE s_w_id = v_supply AND s_i_id = v_item; \
             INSERT INTO order_line VALUES \
               (v_order, p_d, p_w, v_at, v_item, v_supply, NULL, v_quantity, v_quantity * v_price, v_info); \
             SET v_total = v_total + v_quantity * v_price; \
           END IF; \
           SET v_at = v_at + 1; \
         END WHILE; \
         IF v_missing THEN ROLLBACK; ELSE COMMIT; END IF; \
         SELECT v_missing, v_order, v_last, v_credit, v_discount, \
           v_total * (1 - v_discount) * (1 + v_warehouse_tax + v_district_tax);"
    )
}

/// The customer's number from its name, the middle one of those so called.
const BY_NAME: &str = "SET v_c = p_c; \
    IF p_c = 0 THEN \
      SELECT COUNT(*) INTO v_count FROM customer WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_last = p_last; \
      SET v_at = GREATEST((v_count + 1) DIV 2, 1) - 1; \
      SELECT c_id INTO v_c FROM customer WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_last = p_last \
        ORDER BY c_first LIMIT v_at, 1; \
    END IF; ";

/// A text is compared by bytes, as the tables' are, or their index would not serve.
const LAST: &str = "p_last VARCHAR(16) CHARACTER SET latin1 COLLATE latin1_bin";

fn payment_params() -> Vec<String> {
    texts(&["p_w INT", "p_d INT", "p_cw INT", "p_cd INT", "p_c INT", LAST, "p_amount DECIMAL(6,2)"])
}

fn payment() -> String {
    format!(
        "DECLARE v_c, v_count, v_at INT; \
         DECLARE v_warehouse, v_district VARCHAR(10); \
         DECLARE v_street_1, v_street_2, v_city, v_first, v_last VARCHAR(20); \
         DECLARE v_state, v_middle, v_credit CHAR(2); \
         DECLARE v_zip CHAR(9); \
         DECLARE v_phone CHAR(16); \
         DECLARE v_since DATETIME; \
         DECLARE v_limit, v_balance DECIMAL(12,2); \
         DECLARE v_discount DECIMAL(4,4); \
         DECLARE v_data VARCHAR(500); \
         UPDATE warehouse SET w_ytd = w_ytd + p_amount WHERE w_id = p_w; \
         SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip \
           INTO v_warehouse, v_street_1, v_street_2, v_city, v_state, v_zip FROM warehouse WHERE w_id = p_w; \
         UPDATE district SET d_ytd = d_ytd + p_amount WHERE d_w_id = p_w AND d_id = p_d; \
         SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip \
           INTO v_district, v_street_1, v_street_2, v_city, v_state, v_zip FROM district \
           WHERE d_w_id = p_w AND d_id = p_d; \
         {BY_NAME}\
         SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
             c_credit_lim, c_discount, c_balance, c_credit \
           INTO v_first, v_middle, v_last, v_street_1, v_street_2, v_city, v_state, v_zip, v_phone, v_since, \
             v_limit, v_discount, v_balance, v_credit FROM customer \
           WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_id = v_c FOR UPDATE; \
         IF v_credit = 'BC' THEN \
           SELECT c_data INTO v_data FROM customer WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_id = v_c FOR UPDATE; \
           UPDATE customer SET c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount, \
               c_payment_cnt = c_payment_cnt + 1, \
               c_data = LEFT(CONCAT_WS(' ', v_c, p_cd, p_cw, p_d, p_w, p_amount, v_data), 500) \
             WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_id = v_c; \
         ELSE \
           UPDATE customer SET c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount, \
               c_payment_cnt = c_payment_cnt + 1 \
             WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_id = v_c; \
         END IF; \
         INSERT INTO history VALUES \
           (v_c, p_cd, p_cw, p_d, p_w, NOW(), p_amount, CONCAT(v_warehouse, '    ', v_district)); \
         COMMIT; \
         SELECT v_c, v_first, v_middle, v_last, v_phone, v_since, v_credit, v_limit, v_discount, \
           v_balance - p_amount;"
    )
}

fn order_status_params() -> Vec<String> {
    texts(&["p_cw INT", "p_cd INT", "p_c INT", LAST])
}

fn order_status() -> String {
    format!(
        "DECLARE v_c, v_count, v_at, v_order, v_carrier INT; \
         DECLARE v_first, v_last VARCHAR(16); \
         DECLARE v_middle CHAR(2); \
         DECLARE v_balance DECIMAL(12,2); \
         DECLARE v_entry DATETIME; \
         {BY_NAME}\
         SELECT c_first, c_middle, c_last, c_balance INTO v_first, v_middle, v_last, v_balance FROM customer \
           WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_id = v_c; \
         SELECT o_id, o_entry_d, o_carrier_id INTO v_order, v_entry, v_carrier FROM orders \
           WHERE o_w_id = p_cw AND o_d_id = p_cd AND o_c_id = v_c ORDER BY o_id DESC LIMIT 1; \
         SELECT v_c, v_first, v_middle, v_last, v_balance, v_order, v_entry, v_carrier, ol_i_id, ol_supply_w_id, \
             ol_quantity, ol_amount, ol_delivery_d FROM order_line \
           WHERE ol_w_id = p_cw AND ol_d_id = p_cd AND ol_o_id = v_order; \
         COMMIT;"
    )
}

fn delivery() -> String {
    "DECLARE v_d, v_order, v_c INT; \
     DECLARE v_sum DECIMAL(12,2); \
     DECLARE v_delivered INT DEFAULT 0; \
     SET v_d = 1; \
     WHILE v_d <= 10 DO \
       SET v_order = NULL; \
       SELECT no_o_id INTO v_order FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d \
         ORDER BY no_o_id LIMIT 1 FOR UPDATE; \
       IF v_order IS NOT NULL THEN \
         DELETE FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d AND no_o_id = v_order; \
         SELECT o_c_id INTO v_c FROM orders WHERE o_w_id = p_w AND o_d_id = v_d AND o_id = v_order FOR UPDATE; \
         UPDATE orders SET o_carrier_id = p_carrier WHERE o_w_id = p_w AND o_d_id = v_d AND o_id = v_order; \
         UPDATE order_line SET ol_delivery_d = NOW() \
           WHERE ol_w_id = p_w AND ol_d_id = v_d AND ol_o_id = v_order; \
         SELECT SUM(ol_amount) INTO v_sum FROM order_line \
           WHERE ol_w_id = p_w AND ol_d_id = v_d AND ol_o_id = v_order; \
         UPDATE customer SET c_balance = c_balance + v_sum, c_delivery_cnt = c_delivery_cnt + 1 \
           WHERE c_w_id = p_w AND c_d_id = v_d AND c_id = v_c; \
         SET v_delivered = v_delivered + 1; \
       END IF; \
       SET v_d = v_d + 1; \
     END WHILE; \
     COMMIT; \
     SELECT v_delivered;"
        .into()
}

fn stock_level() -> String {
    "DECLARE v_next, v_low INT; \
     SELECT d_next_o_id INTO v_next FROM district WHERE d_w_id = p_w AND d_id = p_d; \
     SELECT COUNT(DISTINCT s_i_id) INTO v_low FROM order_line, stock WHERE ol_w_id = p_w AND ol_d_id = p_d \
       AND ol_o_id >= v_next - 20 AND ol_o_id < v_next AND s_w_id = ol_w_id AND s_i_id = ol_i_id \
       AND s_quantity < p_least; \
     COMMIT; \
     SELECT v_low;"
        .into()
}
