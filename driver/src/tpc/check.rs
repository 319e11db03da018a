//! The totals that `tpcc::check` judges, summed by the server, all in one snapshot.

use crate::control::numbers;
use crate::wire::{Connection, Error};
use harness::Depth;
use tpcc::Scale;
use tpcc::check::{Contradictions, Facts};

/// How large the tables are.
pub async fn scale(connection: &mut Connection) -> Result<Option<Scale>, Error> {
    let sql = "SELECT (SELECT MAX(w_id) FROM warehouse), (SELECT MAX(i_id) FROM item), \
               (SELECT MAX(c_id) FROM customer WHERE c_w_id = 1 AND c_d_id = 1)";
    let found = numbers::<3>(connection, sql).await?;
    let [warehouses, items, customers] = found.first().copied().unwrap_or_default().map(|n| n as u32);
    let whole = warehouses > 0 && items > 0 && customers > 0;
    Ok(whole.then_some(Scale { warehouses, items, customers }))
}

/// Orders that were ever taken: the sum of the districts' next numbers.
pub async fn orders(connection: &mut Connection) -> Result<i64, Error> {
    let found = numbers::<1>(connection, "SELECT SUM(d_next_o_id) FROM district").await?;
    Ok(found.first().map_or(0, |[sum]| *sum))
}

pub async fn facts(connection: &mut Connection, depth: Depth) -> Result<Facts, Error> {
    connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
    let mut facts = Facts::default();
    totals(connection, &mut facts).await?;
    if depth == Depth::Full {
        facts.districts.values_mut().for_each(|district| district.contradictions = Some(Contradictions::default()));
        let warehouses: Vec<u32> = facts.warehouses.keys().copied().collect();
        for warehouse in warehouses {
            contradictions(connection, warehouse, &mut facts).await?;
        }
    }
    connection.run("COMMIT").await?;
    Ok(facts)
}

async fn totals(connection: &mut Connection, facts: &mut Facts) -> Result<(), Error> {
    for [items] in numbers(connection, "SELECT COUNT(*) FROM item").await? {
        facts.items = items as u64;
    }
    for [w, ytd] in numbers(connection, "SELECT w_id, CAST(w_ytd * 100 AS SIGNED) FROM warehouse").await? {
        facts.warehouses.entry(w as u32).or_default().ytd = ytd;
    }
    for [w, rows] in numbers(connection, "SELECT s_w_id, COUNT(*) FROM stock GROUP BY s_w_id").await? {
        facts.warehouses.entry(w as u32).or_default().stock = rows as u64;
    }
    let sql = "SELECT d_w_id, d_id, CAST(d_ytd * 100 AS SIGNED), d_next_o_id FROM district";
    for [w, d, ytd, next] in numbers(connection, sql).await? {
        let district = facts.districts.entry((w as u32, d as u32)).or_default();
        (district.ytd, district.next_order) = (ytd, next as u32);
    }
    let sql = "SELECT c_w_id, c_d_id, COUNT(*) FROM customer GROUP BY c_w_id, c_d_id";
    for [w, d, rows] in numbers(connection, sql).await? {
        facts.districts.entry((w as u32, d as u32)).or_default().customers = rows as u64;
    }
    let sql = "SELECT h_w_id, h_d_id, CAST(SUM(h_amount) * 100 AS SIGNED) FROM history GROUP BY h_w_id, h_d_id";
    for [w, d, paid] in numbers(connection, sql).await? {
        facts.districts.entry((w as u32, d as u32)).or_default().paid = paid;
    }
    let sql = "SELECT o_w_id, o_d_id, COUNT(*), MAX(o_id), SUM(o_ol_cnt) FROM orders GROUP BY o_w_id, o_d_id";
    for [w, d, rows, last, lines] in numbers(connection, sql).await? {
        let district = facts.districts.entry((w as u32, d as u32)).or_default();
        (district.orders, district.last_order, district.lines_promised) = (rows as u64, last as u32, lines as u64);
    }
    let sql = "SELECT no_w_id, no_d_id, COUNT(*), MIN(no_o_id), MAX(no_o_id) FROM new_order GROUP BY no_w_id, no_d_id";
    for [w, d, rows, first, last] in numbers(connection, sql).await? {
        let district = facts.districts.entry((w as u32, d as u32)).or_default();
        (district.new_orders, district.first_new, district.last_new) = (rows as u64, first as u32, last as u32);
    }
    let sql = "SELECT ol_w_id, ol_d_id, COUNT(*) FROM order_line GROUP BY ol_w_id, ol_d_id";
    for [w, d, rows] in numbers(connection, sql).await? {
        facts.districts.entry((w as u32, d as u32)).or_default().lines = rows as u64;
    }
    Ok(())
}

async fn contradictions(connection: &mut Connection, w: u32, facts: &mut Facts) -> Result<(), Error> {
    let mut put = |d: i64, set: &dyn Fn(&mut Contradictions)| {
        let district = facts.districts.entry((w, d as u32)).or_default();
        set(district.contradictions.get_or_insert_default());
    };
    let sql = format!(
        "SELECT o_d_id, SUM((o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)) FROM orders \
         LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
         WHERE o_w_id = {w} GROUP BY o_d_id"
    );
    for [d, carrier] in numbers(connection, &sql).await? {
        put(d, &|found| found.carrier += carrier as u64);
    }
    let sql = format!(
        "SELECT no_d_id, COUNT(*) FROM new_order LEFT JOIN orders \
         ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id \
         WHERE no_w_id = {w} AND o_id IS NULL GROUP BY no_d_id"
    );
    for [d, lost] in numbers(connection, &sql).await? {
        put(d, &|found| found.carrier += lost as u64);
    }
    let sql = format!(
        "SELECT o_d_id, SUM(COALESCE(n, 0) <> o_ol_cnt), \
         SUM(COALESCE(delivered, 0) <> IF(o_carrier_id IS NULL, 0, COALESCE(n, 0))) FROM orders LEFT JOIN \
         (SELECT ol_d_id, ol_o_id, COUNT(*) AS n, COUNT(ol_delivery_d) AS delivered FROM order_line \
          WHERE ol_w_id = {w} GROUP BY ol_d_id, ol_o_id) AS l ON ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE o_w_id = {w} GROUP BY o_d_id"
    );
    for [d, lines, delivery] in numbers(connection, &sql).await? {
        put(d, &|found| (found.lines, found.delivery) = (lines as u64, delivery as u64));
    }
    let sql = format!(
        "SELECT c_d_id, SUM(c_balance <> COALESCE(delivered, 0) - COALESCE(paid, 0)), \
         SUM(c_balance + c_ytd_payment <> COALESCE(delivered, 0)) FROM customer \
         LEFT JOIN (SELECT o_d_id, o_c_id, SUM(ol_amount) AS delivered FROM orders, order_line \
          WHERE o_w_id = {w} AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
          AND ol_delivery_d IS NOT NULL GROUP BY o_d_id, o_c_id) AS a ON o_d_id = c_d_id AND o_c_id = c_id \
         LEFT JOIN (SELECT h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history \
          WHERE h_c_w_id = {w} GROUP BY h_c_d_id, h_c_id) AS b ON h_c_d_id = c_d_id AND h_c_id = c_id \
         WHERE c_w_id = {w} GROUP BY c_d_id"
    );
    for [d, balance, payments] in numbers(connection, &sql).await? {
        put(d, &|found| (found.balance, found.payments) = (balance as u64, payments as u64));
    }
    Ok(())
}
