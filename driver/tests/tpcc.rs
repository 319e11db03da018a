//! TPC-C against a real server, on tables cut down so that they load at once. No timing is asserted.

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use support::{named, server};

const LOAD: &str = "--test tpcc --warehouses 2 --cut 30";

#[test]
fn load_run_and_checks() {
    let Some(server) = server() else { return };
    let said = server.drive_well("prepare", LOAD);
    assert!(said.starts_with("12 conditions hold"), "{said}");

    // Statements, then procedures, on the same tables; the checks after each hold, ledger included.
    for how in ["", "--procedures", "--isolation read-committed"] {
        let before: u64 = server.ask("SELECT SUM(d_next_o_id) FROM tpcc.district").parse().unwrap();
        let events = server.events(&format!("--test tpcc {how} --clients 8 --seconds 2 --warmup 0.5"));
        let (result, checked) = (named(&events, "result"), named(&events, "checked"));
        assert_eq!(checked["holds"], true, "{how}: {checked}");
        assert!(checked["what"].as_str().unwrap().starts_with("11 conditions hold"), "{checked}");
        assert_eq!(result["errors"], serde_json::json!({}), "{how}: {result}");
        let kinds = result["kinds"].as_object().unwrap();
        let count = |kind: &str| kinds[kind]["count"].as_u64().unwrap();
        for kind in ["new_order", "payment", "order_status", "delivery", "stock_level"] {
            assert!(count(kind) > 0, "{how}: no {kind}: {result}");
        }
        let all: u64 = kinds.values().map(|kind| kind["count"].as_u64().unwrap()).sum();
        assert_eq!(result["transactions"], all);
        // The warm-up's orders are in the tables and not in the figures.
        let after: u64 = server.ask("SELECT SUM(d_next_o_id) FROM tpcc.district").parse().unwrap();
        let measured = count("new_order") - kinds["new_order"]["rolled_back"].as_u64().unwrap();
        assert!(after - before > measured, "{how}: {before} {after} {measured}");
        let nopm = result["nopm"].as_f64().unwrap() * result["seconds"].as_f64().unwrap() / 60.0;
        assert_eq!(nopm.round() as u64, measured);
        let seconds = events.iter().filter(|e| e["event"] == "second").count();
        assert_eq!(seconds, 2);
    }
}

/// One New-Order in a hundred is taken back, whichever way it runs.
#[test]
fn rollbacks_happen() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", LOAD);
    for how in ["", "--procedures"] {
        let (mut all, mut back) = (0, 0);
        for seed in 1..30 {
            let events = server
                .events(&format!("--test tpcc {how} --clients 4 --seconds 2 --warmup 0 --checks quick --seed {seed}"));
            let orders = &named(&events, "result")["kinds"]["new_order"];
            all += orders["count"].as_u64().unwrap();
            back += orders["rolled_back"].as_u64().unwrap();
            if all > 3000 {
                break;
            }
        }
        let share = back as f64 / all as f64;
        assert!((0.003..0.02).contains(&share), "{how}: {back} of {all}");
    }
}

#[test]
fn tampered_data_make_a_run_invalid() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", LOAD);
    for (tamper, repair, clause) in [
        (
            "warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 1",
            "warehouse SET w_ytd = w_ytd - 0.01 WHERE w_id = 1",
            "3.3.2.1",
        ),
        (
            "customer SET c_balance = c_balance + 0.01 WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = 4",
            "customer SET c_balance = c_balance - 0.01 WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = 4",
            "3.3.2.10",
        ),
        (
            "order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1",
            "order_line SET ol_delivery_d = NOW() WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1",
            "3.3.2.7",
        ),
    ] {
        server.ask(&format!("UPDATE tpcc.{tamper}"));
        let checked = server.drive("check", "--test tpcc");
        assert_eq!(checked.status.code(), Some(1), "{clause}: {checked:?}");
        assert!(String::from_utf8_lossy(&checked.stderr).contains(clause), "{checked:?}");
        let run = server.drive("run", "--test tpcc --clients 2 --seconds 0.2 --warmup 0 --json");
        assert_eq!(run.status.code(), Some(1), "{clause}: {run:?}");
        assert!(String::from_utf8_lossy(&run.stdout).contains(r#""event":"checked","holds":false"#), "{run:?}");
        server.ask(&format!("UPDATE tpcc.{repair}"));
        server.drive_well("check", "--test tpcc");
    }
    // What vanishes while the driver runs is missed by its ledger.
    let mut serving = server.serve("--test tpcc");
    serving.expect("ready");
    serving.tell(r#"{"do":"run","clients":2,"seconds":0.3}"#);
    serving.expect("result");
    serving.tell(r#"{"do":"check"}"#);
    assert_eq!(serving.expect("checked")["holds"], true);
    server.ask("UPDATE tpcc.district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 1");
    serving.tell(r#"{"do":"check"}"#);
    let checked = serving.expect("checked");
    assert_eq!(checked["holds"], false);
    assert!(checked["what"].as_str().unwrap().contains("the clients committed"), "{checked}");
}

/// Both ways do the same: from the same rows and seed, one client, the same tables come out.
#[test]
fn statements_and_procedures_leave_the_same_data() {
    let Some(server) = server() else { return };
    let queries = [
        "SELECT COUNT(*), SUM(s_quantity), SUM(s_ytd), SUM(s_order_cnt), SUM(s_remote_cnt) FROM tpcc.stock",
        "SELECT SUM(c_balance), SUM(c_ytd_payment), SUM(c_payment_cnt), SUM(c_delivery_cnt), SUM(CRC32(c_data)) FROM tpcc.customer",
        "SELECT COUNT(*), SUM(o_carrier_id), SUM(o_ol_cnt), SUM(o_all_local), SUM(o_c_id) FROM tpcc.orders",
        "SELECT COUNT(*), SUM(ol_amount), SUM(ol_quantity * ol_number), SUM(CRC32(ol_dist_info)) FROM tpcc.order_line",
        "SELECT COUNT(*), SUM(h_amount), SUM(CRC32(h_data)) FROM tpcc.history",
        "SELECT COUNT(*), SUM(no_o_id) FROM tpcc.new_order",
    ];
    let mut found: Vec<Vec<String>> = Vec::new();
    for how in ["", "--procedures"] {
        server.drive_well("prepare", LOAD);
        server.events(&format!("--test tpcc {how} --clients 1 --seconds 8 --warmup 0 --seed 3 --most 200"));
        found.push(queries.iter().map(|sql| server.ask(sql)).collect());
    }
    assert_eq!(found[0], found[1]);
}

#[test]
fn other_engines() {
    let Some(server) = server() else { return };
    let aria = server.drive("prepare", "--test tpcc --engine Aria");
    assert_eq!(aria.status.code(), Some(2), "{aria:?}");
    assert!(String::from_utf8_lossy(&aria.stderr).contains("no transactions"), "{aria:?}");
    let none = server.drive("prepare", "--test tpcc --engine Nonesuch");
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    server.drive_well("prepare", "--test oltp_read_write --engine Aria --table-size 1000");
    server.drive_well("run", "--test oltp_read_write --table-size 1000 --clients 1 --seconds 0.3 --warmup 0");
    if !server.has_engine("ROCKSDB") {
        println!("skipped: this server has no MyRocks; apt-get install mariadb-plugin-rocksdb");
        return;
    }
    server.drive_well("prepare", &format!("{LOAD} --engine RocksDB"));
    for how in ["", "--procedures"] {
        let events = server.events(&format!("--test tpcc {how} --clients 8 --seconds 1 --warmup 0"));
        assert_eq!(named(&events, "ready")["engine"].as_str().unwrap().to_uppercase(), "ROCKSDB");
        assert_eq!(named(&events, "checked")["holds"], true, "{events:?}");
    }
}

#[test]
fn paced_terminals_wait() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", LOAD);
    let events = server.events("--test tpcc --paced --clients 200 --seconds 3 --warmup 0");
    let result = named(&events, "result");
    // 200 terminals that take some 20 seconds each.
    assert!((1..100).contains(&result["transactions"].as_u64().unwrap()), "{result}");
    assert_eq!(named(&events, "checked")["holds"], true);
}
