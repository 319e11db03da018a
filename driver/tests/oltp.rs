//! sysbench's tests against a real server, and the driver's manners: many clients, a server that dies, signals, sysbench on
//! the same tables. No timing is asserted.

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use support::{Server, named, server};

const SHAPE: &str = "--tables 2 --table-size 2000";

const TESTS: [&str; 8] = [
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_point_select",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
];

fn sysbench(server: &Server, arguments: &str) -> Option<Output> {
    if !Path::new("/usr/bin/sysbench").is_file() {
        println!("skipped: sysbench is not installed; apt-get install sysbench");
        return None;
    }
    let socket = format!("--mysql-socket={}", server.socket().display());
    let mut command = Command::new("/usr/bin/sysbench");
    command.args(arguments.split_whitespace()).args([&socket, "--mysql-user=root", "--mysql-db=sbtest"]);
    Some(command.output().unwrap())
}

#[test]
fn every_test_runs_and_its_account_holds() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", &format!("--test oltp_read_only {SHAPE}"));
    assert_eq!(server.ask("SELECT COUNT(*), MIN(id), MAX(id) FROM sbtest.sbtest2"), "2000\t1\t2000");
    for test in TESTS {
        for distribution in ["uniform", "special", "pareto", "zipfian", "gaussian"] {
            let options =
                format!("--test {test} {SHAPE} --clients 4 --seconds 0.2 --warmup 0 --distribution {distribution}");
            let events = server.events(&options);
            let result = named(&events, "result");
            assert!(result["transactions"].as_u64().unwrap() > 0, "{test}: {result}");
            assert_eq!(result["errors"], serde_json::json!({}), "{test}: {result}");
            assert_eq!(named(&events, "checked")["holds"], true, "{test}: {events:?}");
        }
    }
}

/// A transaction's statements have the same shares as sysbench's, by the server's own count.
#[test]
fn the_statements_of_sysbench() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", &format!("--test oltp_read_only {SHAPE}"));
    let names = ["Com_select", "Com_update", "Com_insert", "Com_delete", "Com_begin", "Com_commit"];
    let counts = || -> Vec<f64> {
        let list = names.map(|name| format!("'{name}'")).join(",");
        let sql = format!(
            "SELECT variable_value FROM information_schema.global_status WHERE variable_name IN ({list}) \
             ORDER BY FIELD(variable_name, {list})"
        );
        server.ask(&sql).lines().map(|line| line.parse().unwrap()).collect()
    };
    let percent = |before: Vec<f64>, after: Vec<f64>| -> Vec<f64> {
        let all: f64 = after.iter().sum::<f64>() - before.iter().sum::<f64>();
        before.iter().zip(after).map(|(before, after)| ((after - before) / all * 100.0).round()).collect()
    };
    for test in TESTS {
        let before = counts();
        let options = format!("--test {test} {SHAPE} --clients 1 --seconds 1 --warmup 0 --checks none");
        server.drive_well("run", &options);
        let ours = percent(before, counts());
        let before = counts();
        let arguments = format!("{test} --tables=2 --table-size=2000 --threads=1 --time=0 --events=500 run");
        let Some(out) = sysbench(&server, &arguments) else { return };
        assert!(out.status.success(), "{out:?}");
        let theirs = percent(before, counts());
        // The driver's own few questions are among its statements, and on a busy machine there are few others.
        let near = ours.iter().zip(&theirs).all(|(ours, theirs)| (ours - theirs).abs() <= 2.0);
        assert!(near, "{test}: {names:?}: {ours:?}, sysbench {theirs:?}");
    }
}

#[test]
fn sysbench_and_the_driver_use_each_other_s_tables() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", &format!("--test oltp_read_write {SHAPE}"));
    let shape = |table: &str| server.ask(&format!("SHOW CREATE TABLE sbtest.{table}"));
    let (made, index) = (shape("sbtest1"), server.ask("SHOW INDEX FROM sbtest.sbtest2"));
    let Some(out) = sysbench(&server, "oltp_read_write --tables=2 --table-size=2000 --threads=4 --time=1 run") else {
        return;
    };
    assert!(out.status.success(), "{out:?}");
    assert!(sysbench(&server, "oltp_read_write --tables=2 cleanup").unwrap().status.success());
    let out = sysbench(&server, "oltp_read_write --tables=2 --table-size=2000 prepare").unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(made, shape("sbtest1"));
    let columns = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split('\t').take(5).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(columns(&index), columns(&server.ask("SHOW INDEX FROM sbtest.sbtest2")));
    let events = server.events(&format!("--test oltp_read_write {SHAPE} --clients 4 --seconds 0.5 --warmup 0"));
    assert_eq!(named(&events, "checked")["holds"], true);
}

#[test]
fn five_hundred_clients() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", &format!("--test oltp_point_select {SHAPE}"));
    let events = server.events(&format!("--test oltp_point_select {SHAPE} --clients 512 --seconds 1 --warmup 0.2"));
    let result = named(&events, "result");
    assert_eq!(result["clients"], 512);
    assert!(result["transactions"].as_u64().unwrap() > 0);
    assert!(result["peak_rss_bytes"].as_u64().unwrap() < 64 << 20, "{result}");
    // More than the server takes is refused beforehand, with what to do.
    let many = server.drive("run", &format!("--test oltp_point_select {SHAPE} --clients 700"));
    assert_eq!(many.status.code(), Some(3));
    let said = String::from_utf8_lossy(&many.stderr).into_owned();
    assert!(said.contains("SET GLOBAL max_connections = 708"), "{said}");
}

#[test]
fn the_lab_s_form() {
    let Some(server) = server() else { return };
    let mut serving = server.serve(&format!("--test oltp_write_only {SHAPE} --prepare"));
    let ready = serving.expect("ready");
    assert_eq!(ready["pid"], serving.child.id());
    assert_eq!((&ready["test"], &ready["engine"]), (&Value::from("oltp_write_only"), &Value::from("InnoDB")));
    serving.tell(r#"{"do":"run","clients":4,"warmup_s":0.1,"seconds":1.5,"seed":7}"#);
    let (first, second) = (serving.next(), serving.next());
    for event in [&first, &second] {
        assert_eq!((&event["event"], &event["clients"]), (&Value::from("second"), &Value::from(4)));
    }
    let result = serving.expect("result");
    for field in ["tps", "seconds", "transactions", "retries", "cpu_s", "connect_s", "voluntary_switches", "nice"] {
        assert!(result[field].is_number(), "{field}: {result}");
    }
    for field in ["mean", "p50", "p95", "p99", "p999", "max"] {
        assert!(result["latency_ms"][field].is_number(), "{field}: {result}");
    }
    let counted: f64 =
        [first, second].iter().map(|s| s["tps"].as_f64().unwrap() * s["seconds"].as_f64().unwrap()).sum();
    assert_eq!(counted.round(), result["transactions"].as_f64().unwrap());
    serving.tell(r#"{"do":"check"}"#);
    assert_eq!(serving.expect("checked")["holds"], true);
    serving.tell(r#"{"do":"settle","timeout_s":10}"#);
    assert!(serving.expect("settled")["quiet"].is_boolean());
    serving.tell(r#"{"do":"renew"}"#);
    assert!(serving.expect("renewed")["prepare_s"].is_number());
    serving.tell("nonsense");
    assert!(serving.expect("error")["message"].as_str().unwrap().starts_with("not a command"));
    serving.tell(r#"{"do":"quit"}"#);
    assert!(serving.child.wait().unwrap().success());
}

/// In an open loop there are as many transactions as were due.
#[test]
fn open_loop() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", &format!("--test oltp_point_select {SHAPE}"));
    let options = format!("--test oltp_point_select {SHAPE} --clients 32 --seconds 2 --warmup 0.5 --rate 200");
    let events = server.events(&options);
    let result = named(&events, "result");
    let tps = result["tps"].as_f64().unwrap();
    // A server that cannot do 200 a second does less; none does more.
    assert!(tps > 0.0 && tps < 260.0, "{result}");
    assert_eq!(result["rate"], 200.0);
}

#[test]
fn a_server_that_dies_ends_the_run() {
    let Some(mut server) = server() else { return };
    server.drive_well("prepare", &format!("--test oltp_read_write {SHAPE}"));
    let mut serving = server.serve(&format!("--test oltp_read_write {SHAPE}"));
    serving.expect("ready");
    serving.tell(r#"{"do":"run","clients":64,"seconds":60}"#);
    assert_eq!(serving.next()["event"], "second");
    server.kill();
    let error = serving.expect("error");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("was lost") || message.contains("ends its connections"), "{message}");
    // The driver lives on and says so again.
    serving.tell(r#"{"do":"check"}"#);
    assert!(serving.expect("error")["message"].as_str().unwrap().contains("cannot connect"));
    serving.tell(r#"{"do":"quit"}"#);
    assert!(serving.child.wait().unwrap().success());

    let run = server.drive("run", &format!("--test oltp_read_write {SHAPE}"));
    assert_eq!(run.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&run.stderr).contains("cannot connect"), "{run:?}");
}

#[test]
fn a_signal_ends_it_cleanly() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", &format!("--test oltp_read_write {SHAPE}"));
    let mut serving = server.serve(&format!("--test oltp_read_write {SHAPE}"));
    serving.expect("ready");
    serving.tell(r#"{"do":"run","clients":16,"seconds":60}"#);
    assert_eq!(serving.next()["event"], "second");
    kill(Pid::from_raw(serving.child.id() as i32), Signal::SIGINT).unwrap();
    assert!(serving.child.wait().unwrap().success());
    // Nothing of it is left on the server.
    for _ in 0..200 {
        if server.ask("SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'sbtest'") == "0" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("clients are left: {}", server.ask("SHOW PROCESSLIST"));
}

#[test]
fn passwords_and_wrong_names() {
    let Some(server) = server() else { return };
    server.drive_well("prepare", &format!("--test oltp_point_select {SHAPE}"));
    server.ask("CREATE USER worker@localhost IDENTIFIED BY 'secret'; GRANT ALL ON sbtest.* TO worker@localhost");
    let run = format!("--test oltp_point_select {SHAPE} --clients 2 --seconds 0.2 --warmup 0");
    server.drive_well("run", &format!("{run} --user worker --password secret"));
    let wrong = server.drive("run", &format!("{run} --user worker --password wrong"));
    assert_eq!(wrong.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("say --user and --password"), "{wrong:?}");
    let nowhere = server.drive("run", "--test tpcc");
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("evenkeel-driver prepare"), "{nowhere:?}");
    // The kernel vouches for who is at the other end of the socket, as Debian's own root has it.
    if nix::unistd::geteuid().is_root() {
        let way = "mysql_native_password USING 'invalid' OR unix_socket";
        server.ask(&format!("ALTER USER root@localhost IDENTIFIED VIA {way}"));
        server.drive_well("run", &run);
    }
}
