//! The tables of sysbench's OLTP tests, as its own prepare makes them: whoever comes later cannot tell who made them.

use super::choose::Choice;
use super::shape::Shape;
use super::text;
use crate::Failure;
use crate::bulk::{self, Job, Loading};
use crate::control;
use crate::wire::{Connection, Error, Server};
use std::fmt::Write;
use tpcc::Random;

/// Rows of one piece of loading.
const PIECE: u32 = 20_000;

/// False if a signal came.
pub fn prepare(
    server: &Server,
    shape: &Shape,
    engine: &str,
    seed: u64,
    loading: &mut Loading<'_>,
) -> Result<bool, Failure> {
    control::ask(server, async |connection| {
        for table in 1..=shape.tables {
            connection.run(&format!("DROP TABLE IF EXISTS sbtest{table}")).await?;
            let create = format!(
                "CREATE TABLE sbtest{table} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, \
                 c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE = {engine}"
            );
            connection.run(&create).await?;
        }
        Ok(())
    })?;
    let (size, distribution) = (shape.table_size, shape.distribution);
    let step = PIECE as usize;
    let pieces = (1..=shape.tables).flat_map(|table| (1..=size).step_by(step).map(move |first| (table, first)));
    let jobs = pieces.map(|(table, first)| -> Job {
        let last = size.min(first.saturating_add(PIECE - 1));
        Box::new(move || {
            let mut random = Random::new(seed, (u64::from(table) << 32) | u64::from(first));
            let choice = Choice::new(distribution, size);
            bulk::inserts(format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES "), first..=last, move |id, out| {
                // Writing to a String cannot fail.
                let _ = write!(out, "({id},{},'", choice.draw(&mut random));
                text::put(text::C, &mut random, out);
                out.push_str("','");
                text::put(text::PAD, &mut random, out);
                out.push_str("')");
            })
        })
    });
    let rows = u64::from(size) * u64::from(shape.tables);
    if !loading.load(server, jobs.collect(), rows)? {
        return Ok(false);
    }
    control::ask(server, async |connection| {
        for table in 1..=shape.tables {
            connection.run(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)")).await?;
        }
        Ok(true)
    })
}

/// Rows of all tables.
pub async fn count(connection: &mut Connection, tables: u32) -> Result<i64, Error> {
    let mut rows = 0;
    for table in 1..=tables {
        let answer = connection.rows(&format!("SELECT COUNT(*) FROM sbtest{table}")).await?;
        rows += answer.first().and_then(|row| row[0].int()).unwrap_or(0);
    }
    Ok(rows)
}
