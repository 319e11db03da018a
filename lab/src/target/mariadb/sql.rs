//! A connection to a server over its socket: the lab's one to its own server, and the doctor's to one that is there.

use anyhow::{Context, Result};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections that are the lab's own.
pub const OWN: f64 = 1.0;

/// A server that does not answer for so long hangs.
const ANSWER: Duration = Duration::from_secs(120);

pub struct Sql(Conn);

/// Counters at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// The middle of the time that the answer took.
    pub at: Instant,
    pub took: Duration,
    values: BTreeMap<String, f64>,
}

impl Status {
    /// A counter that this server does not have is None.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(&name.to_ascii_lowercase()).copied()
    }

    /// Connections but the lab's own.
    pub fn clients(&self) -> f64 {
        self.get("Threads_connected").unwrap_or(0.0) - OWN
    }
}

impl Sql {
    pub fn connect(socket: &Path) -> Result<Sql> {
        Sql::connect_as(socket, "root", None, ANSWER)
    }

    pub fn connect_as(socket: &Path, user: &str, password: Option<&str>, answer: Duration) -> Result<Sql> {
        let options = OptsBuilder::new()
            .socket(Some(socket.display().to_string()))
            .user(Some(user))
            .pass(password)
            // Known beforehand: otherwise the driver asks for them with statements of its own.
            .max_allowed_packet(Some(1 << 24))
            .prefer_socket(false)
            .read_timeout(Some(answer))
            .write_timeout(Some(answer));
        Ok(Sql(Conn::new(options).with_context(|| format!("cannot connect to {}", socket.display()))?))
    }

    pub fn run(&mut self, statement: &str) -> Result<()> {
        self.0.query_drop(statement).with_context(|| statement.to_string())
    }

    /// Rows of texts; NULL is empty.
    pub fn rows(&mut self, statement: &str) -> Result<Vec<Vec<String>>> {
        let rows: Vec<Row> = self.0.query(statement).with_context(|| statement.to_string())?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
    }

    /// The first column of the first row.
    pub fn one(&mut self, statement: &str) -> Result<String> {
        let first = self.rows(statement)?.into_iter().next().and_then(|row| row.into_iter().next());
        first.with_context(|| format!("{statement}: no answer"))
    }

    /// Names in lower case, and what they are.
    pub fn variables(&mut self) -> Result<BTreeMap<String, String>> {
        Ok(pairs(self.rows("SHOW GLOBAL VARIABLES")?))
    }

    /// All counters by their names in lower case.
    pub fn counters(&mut self) -> Result<BTreeMap<String, String>> {
        Ok(pairs(self.rows("SHOW GLOBAL STATUS")?))
    }

    pub fn status(&mut self, names: &[&str]) -> Result<Status> {
        let list: Vec<String> = names.iter().map(|n| format!("'{n}'")).collect();
        let statement = format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", list.join(","));
        let before = Instant::now();
        let rows = self.rows(&statement)?;
        let took = before.elapsed();
        let values = pairs(rows).into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect();
        Ok(Status { at: before + took / 2, took, values })
    }
}

fn pairs(rows: Vec<Vec<String>>) -> BTreeMap<String, String> {
    let pair = |row: Vec<String>| {
        let mut row = row.into_iter();
        Some((row.next()?.to_ascii_lowercase(), row.next()?))
    };
    rows.into_iter().filter_map(pair).collect()
}

fn text(value: Value) -> String {
    match value {
        Value::NULL => String::new(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::Int(n) => n.to_string(),
        Value::UInt(n) => n.to_string(),
        Value::Float(n) => n.to_string(),
        Value::Double(n) => n.to_string(),
        other => other.as_sql(true).trim_matches('\'').to_string(),
    }
}
