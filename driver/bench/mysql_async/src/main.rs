//! `with-mysql-async SOCKET CLIENTS SECONDS TABLE_SIZE`: point selects on sbtest1, uniform, in a closed loop on one thread.
//! Prints transactions a second and CPU seconds of the window.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

fn main() {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(measure());
}

async fn measure() {
    let args: Vec<String> = std::env::args().collect();
    let [_, socket, clients, seconds, size] = args.as_slice() else { panic!("SOCKET CLIENTS SECONDS TABLE_SIZE") };
    let (clients, seconds, size) =
        (clients.parse::<u32>().unwrap(), seconds.parse::<u64>().unwrap(), size.parse::<u32>().unwrap());
    let done = Rc::new(Cell::new(0u64));
    let mut connections = Vec::new();
    for _ in 0..clients {
        let opts = OptsBuilder::default().socket(Some(socket)).user(Some("root")).db_name(Some("sbtest"));
        let mut connection = Conn::new(opts).await.unwrap();
        let statement = connection.prep("SELECT c FROM sbtest1 WHERE id=?").await.unwrap();
        connections.push((connection, statement));
    }
    let (start, before) = (Instant::now(), cpu());
    let local = tokio::task::LocalSet::new();
    for (number, (mut connection, statement)) in connections.into_iter().enumerate() {
        let done = done.clone();
        local.spawn_local(async move {
            let mut state = number as u64 + 1;
            loop {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let id = (state % u64::from(size)) as u32 + 1;
                connection.exec_drop(&statement, (id,)).await.unwrap();
                done.set(done.get() + 1);
            }
        });
    }
    local.run_until(tokio::time::sleep(Duration::from_secs(seconds))).await;
    let length = start.elapsed().as_secs_f64();
    println!("{:.1} {:.2}", done.get() as f64 / length, cpu() - before);
    std::process::exit(0);
}

fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<f64> =
        stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2).map(|f| f.parse().unwrap()).collect();
    (fields[0] + fields[1]) / 100.0
}
