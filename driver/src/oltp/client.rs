//! One client of an OLTP test.

use super::choose::Choice;
use super::shape::{Plan, Shape, Statement as Kind};
use super::text;
use crate::client::Client;
use crate::reactor::Core;
use crate::wire::{Connection, Error, Param, Server, Statement};
use harness::tally::Done;
use std::rc::Rc;
use tpcc::Random;

pub struct OltpClient {
    connection: Connection,
    random: Random,
    rows: Choice,
    range: u32,
    tables: u32,
    groups: Rc<[(Kind, u32)]>,
    /// By group, then by table.
    statements: Vec<Vec<Statement>>,
    /// By table, where a delete is followed by an insert.
    inserts: Vec<Statement>,
    begin: Option<(Statement, Statement)>,
    /// `oltp_insert` sends text, as sysbench's does.
    plain_insert: bool,
    text: String,
}

impl OltpClient {
    pub async fn open(
        core: Rc<Core>,
        server: &Server,
        session: &[String],
        plan: Plan,
        shape: &Shape,
        mut random: Random,
    ) -> Result<OltpClient, Error> {
        let mut connection = Connection::open(core, server, Some(&server.database)).await?;
        for sql in session {
            connection.run(sql).await?;
        }
        let groups: Rc<[(Kind, u32)]> = plan.groups(shape).into_iter().filter(|(_, count)| *count > 0).collect();
        let plain_insert = plan == Plan::Insert;
        let (mut statements, mut inserts) = (Vec::new(), Vec::new());
        if !plain_insert {
            for (kind, _) in groups.iter() {
                statements.push(of_each_table(&mut connection, *kind, shape.tables).await?);
            }
            if plan.reinserts() && groups.iter().any(|(kind, _)| *kind == Kind::Delete) {
                inserts = of_each_table(&mut connection, Kind::Insert, shape.tables).await?;
            }
        }
        let begin = match plan.begins(shape) {
            true => Some((connection.prepare("BEGIN").await?, connection.prepare("COMMIT").await?)),
            false => None,
        };
        random.bits();
        Ok(OltpClient {
            connection,
            random,
            rows: Choice::new(shape.distribution, shape.table_size),
            range: shape.range_size,
            tables: shape.tables,
            groups,
            statements,
            inserts,
            begin,
            plain_insert,
            text: String::new(),
        })
    }

    fn row(&mut self) -> i32 {
        self.rows.draw(&mut self.random) as i32
    }

    fn table(&mut self) -> usize {
        self.random.uniform(0, self.tables - 1) as usize
    }

    async fn groups(&mut self) -> Result<i64, Error> {
        let mut change = 0;
        for at in 0..self.groups.len() {
            let (kind, count) = self.groups[at];
            let table = self.table();
            for _ in 0..count {
                change += self.statement(kind, at, table).await?;
            }
        }
        Ok(change)
    }

    /// One statement, or a delete and its insert; how many rows there are more afterwards.
    async fn statement(&mut self, kind: Kind, group: usize, table: usize) -> Result<i64, Error> {
        match kind {
            Kind::Simple | Kind::Sum | Kind::Order | Kind::Distinct => {
                let first = self.row();
                let params = [Param::Int(first), Param::Int(first.saturating_add(self.range as i32 - 1))];
                self.connection.execute(&mut self.statements[group][table], &params).await?;
                Ok(0)
            }
            Kind::Point | Kind::UpdateIndex => {
                let params = [Param::Int(self.row())];
                self.connection.execute(&mut self.statements[group][table], &params).await?;
                Ok(0)
            }
            Kind::UpdateNonIndex => {
                self.text.clear();
                text::put(text::C, &mut self.random, &mut self.text);
                let row = self.row();
                let params = [Param::Text(&self.text), Param::Int(row)];
                self.connection.execute(&mut self.statements[group][table], &params).await?;
                Ok(0)
            }
            Kind::Delete => {
                let row = self.row();
                let k = if self.inserts.is_empty() { 0 } else { self.row() };
                let params = [Param::Int(row)];
                let deleted = self.connection.execute(&mut self.statements[group][table], &params).await?;
                let mut change = -(deleted.affected as i64);
                if !self.inserts.is_empty() {
                    let (c, pad) = (text::new(text::C, &mut self.random), text::new(text::PAD, &mut self.random));
                    let params = [Param::Int(row), Param::Int(k), Param::Text(&c), Param::Text(&pad)];
                    let inserted = self.connection.execute(&mut self.inserts[table], &params).await?;
                    change += inserted.affected as i64;
                }
                Ok(change)
            }
            Kind::Insert => {
                use std::fmt::Write;
                let k = self.row();
                self.text.clear();
                // Writing to a String cannot fail.
                let _ = write!(self.text, "INSERT INTO sbtest{} (id, k, c, pad) VALUES (0, {k}, '", table + 1);
                text::put(text::C, &mut self.random, &mut self.text);
                self.text.push_str("', '");
                text::put(text::PAD, &mut self.random, &mut self.text);
                self.text.push_str("')");
                Ok(self.connection.run(&self.text).await?.affected as i64)
            }
        }
    }
}

async fn of_each_table(connection: &mut Connection, kind: Kind, tables: u32) -> Result<Vec<Statement>, Error> {
    let mut statements = Vec::with_capacity(tables as usize);
    for table in 1..=tables {
        statements.push(connection.prepare(&kind.sql(table)).await?);
    }
    Ok(statements)
}

impl Client for OltpClient {
    /// Where its random numbers stood: another attempt draws the same.
    type Wish = Random;

    fn wish(&mut self) -> Random {
        // The next wish must not begin where this one did, however few numbers its attempt draws.
        let wish = self.random.clone();
        self.random.bits();
        wish
    }

    async fn attempt(&mut self, wish: &Random) -> Result<Done, Error> {
        self.random = wish.clone();
        self.random.bits();
        debug_assert!(self.plain_insert || !self.statements.is_empty());
        let change = match self.begin.take() {
            None => self.groups().await?,
            Some((mut begin, mut commit)) => {
                let ended = self.in_transaction(&mut begin, &mut commit).await;
                self.begin = Some((begin, commit));
                ended?
            }
        };
        Ok(Done { kind: 0, rolled_back: false, change })
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn quit(self) {
        self.connection.quit();
    }
}

impl OltpClient {
    async fn in_transaction(&mut self, begin: &mut Statement, commit: &mut Statement) -> Result<i64, Error> {
        self.connection.execute(begin, &[]).await?;
        let change = self.groups().await?;
        self.connection.execute(commit, &[]).await?;
        Ok(change)
    }
}
