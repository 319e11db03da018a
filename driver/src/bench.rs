//! A test on a server: what its clients do, what its tables must hold, and the account of what runs have changed.

use crate::Failure;
use crate::args::{Common, Making, Running, TestName};
use crate::bulk::Loading;
use crate::client::{self, Home, Shared};
use crate::control::{self, ask, texts};
use crate::event::{Figures, Ready, Told};
use crate::oltp::{self, OltpClient, Plan, Shape};
use crate::reactor;
use crate::run::{self, Wish};
use crate::tpc::{self, TpccClient};
use crate::wire::{Connection, Error, Server};
use harness::Depth;
use harness::event::{Checked, Settled};
use harness::inbox::{Inbox, Woken};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::time::{Duration, Instant};
use tpcc::check::{Age, Verdict, judge};
use tpcc::input::Terminal;
use tpcc::load::Load;
use tpcc::{Kind, Random, Scale};

/// Threads and files of the program's own, beside its clients' sockets.
const FILES: u64 = 256;
const SETTLING: Duration = Duration::from_millis(100);

pub struct Bench {
    server: Server,
    test: Test,
    pub threads: u32,
    /// Statements that each client begins with.
    session: Vec<String>,
    checks: Depth,
    version: String,
    engine: String,
    isolation: String,
    /// The ledger's figure when the test was opened, and what runs have changed since.
    ledger: Option<(i64, i64)>,
}

enum Test {
    Oltp(Plan, Shape),
    Tpcc { scale: Scale, procedures: bool, paced: bool },
}

/// Makes and fills the test's tables. False if a signal came.
pub fn prepare(common: &Common, making: &Making, inbox: &mut Inbox) -> Result<bool, Failure> {
    let server = common.server();
    control::make_database(&server)?;
    engine_fits(&server, common.test, &making.engine)?;
    let mut loading = Loading { loaders: making.loaders(), inbox };
    match common.test {
        TestName::Oltp(_) => oltp::prepare(&server, &common.shape, &making.engine, common.seed, &mut loading),
        TestName::Tpcc => {
            let load = Load { scale: Scale::cut(making.warehouses, making.cut), seed: common.seed };
            tpc::prepare(&server, load, &making.engine, &mut loading)
        }
    }
}

fn engine_fits(server: &Server, test: TestName, engine: &str) -> Result<(), Failure> {
    let sql = format!("SELECT support, transactions FROM information_schema.engines WHERE engine = '{engine}'");
    let found = ask(server, async |connection| texts(connection, &sql).await)?;
    match found.as_slice() {
        [support, transactions] if matches!(support.as_str(), "YES" | "DEFAULT") => {
            if test == TestName::Tpcc && transactions != "YES" {
                return Err(Failure::Use(format!(
                    "{engine} has no transactions, and TPC-C needs them; take another engine, or one of sysbench's tests"
                )));
            }
            Ok(())
        }
        _ => Err(Failure::Use(format!(
            "this server has no engine {engine}; SHOW ENGINES lists what it has, INSTALL SONAME adds one"
        ))),
    }
}

impl Bench {
    /// Looks at the tables; they must be there.
    pub fn open(common: &Common, running: &Running) -> Result<Bench, Failure> {
        let server = common.server();
        let (test, table) = match common.test {
            TestName::Oltp(plan) => (Test::Oltp(plan, common.shape.clone()), "sbtest1"),
            TestName::Tpcc => {
                let scale = ask(&server, async |connection| tpc::scale(connection).await)?;
                let scale = scale.ok_or_else(|| {
                    Failure::run("the tables are there and empty; evenkeel-driver prepare --test tpcc fills them")
                })?;
                (Test::Tpcc { scale, procedures: running.procedures, paced: running.paced }, "warehouse")
            }
        };
        let session = common.isolation.iter().map(|level| format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"));
        let session: Vec<String> = session.collect();
        let mut bench = Bench {
            test,
            threads: running.threads(),
            session,
            checks: common.checks,
            version: String::new(),
            engine: String::new(),
            isolation: String::new(),
            ledger: None,
            server,
        };
        bench.look(table)?;
        bench.open_ledger()?;
        Ok(bench)
    }

    fn look(&mut self, table: &str) -> Result<(), Failure> {
        let procedures = matches!(self.test, Test::Tpcc { procedures: true, .. });
        let session = &self.session;
        let found = ask(&self.server, async |connection| {
            for sql in session {
                connection.run(sql).await?;
            }
            if procedures {
                tpc::create_procedures(connection).await?;
            }
            // MySQL has given the variable another name.
            let isolation = match texts(connection, "SELECT @@tx_isolation").await {
                Err(Error::Server { .. }) => texts(connection, "SELECT @@transaction_isolation").await?,
                other => other?,
            };
            let version = texts(connection, "SELECT VERSION()").await?;
            let sql = format!(
                "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{table}'"
            );
            Ok([version, isolation, texts(connection, &sql).await?].map(|row| row.concat()))
        })?;
        [self.version, self.isolation, self.engine] = found;
        Ok(())
    }

    /// Begins the account of changes anew.
    fn open_ledger(&mut self) -> Result<(), Failure> {
        self.ledger = match self.checks {
            Depth::None => None,
            _ => Some((ask(&self.server, async |connection| self.figure(connection).await)?, 0)),
        };
        Ok(())
    }

    /// What the ledger follows: rows, or orders ever taken.
    async fn figure(&self, connection: &mut Connection) -> Result<i64, Error> {
        match &self.test {
            Test::Oltp(_, shape) => oltp::count(connection, shape.tables).await,
            Test::Tpcc { .. } => tpc::orders(connection).await,
        }
    }

    /// Kinds of transactions.
    pub fn kinds(&self) -> &'static [&'static str] {
        const TPCC: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];
        debug_assert!(Kind::ALL.iter().zip(TPCC).all(|(kind, name)| kind.name() == name));
        match self.test {
            Test::Oltp(..) => &["transaction"],
            Test::Tpcc { .. } => &TPCC,
        }
    }

    pub fn ready(&self, prepare_s: f64) -> Ready {
        let mut ready = Ready {
            driver: env!("CARGO_PKG_VERSION"),
            server: self.version.clone(),
            pid: std::process::id(),
            test: "tpcc".into(),
            engine: self.engine.clone(),
            isolation: self.isolation.clone(),
            rows: 0,
            warehouses: None,
            standard: None,
            procedures: None,
            paced: None,
            tables: None,
            table_size: None,
            distribution: None,
            threads: self.threads,
            prepare_s,
        };
        match &self.test {
            Test::Oltp(plan, shape) => {
                ready.test = plan.name();
                ready.rows = u64::from(shape.tables) * u64::from(shape.table_size);
                (ready.tables, ready.table_size) = (Some(shape.tables), Some(shape.table_size));
                ready.distribution = Some(shape.distribution.to_string());
            }
            Test::Tpcc { scale, procedures, paced } => {
                ready.rows = scale.rows();
                (ready.warehouses, ready.standard) = (Some(scale.warehouses), Some(scale.is_standard()));
                (ready.procedures, ready.paced) = (Some(*procedures), Some(*paced));
            }
        }
        ready
    }

    /// The life of the client at `place`.
    pub fn client<'a>(&'a self, shared: &'a Shared, home: Home, place: u32, seed: u64) -> reactor::Client<'a> {
        match &self.test {
            Test::Oltp(plan, shape) => Box::pin(async move {
                let random = Random::new(seed, 0x6f6c_7470_0000_0000 | u64::from(place));
                client::live(shared, &home, async |core| {
                    OltpClient::open(core, &self.server, &self.session, *plan, shape, random).await
                })
                .await;
            }),
            Test::Tpcc { scale, procedures, paced } => Box::pin(async move {
                let terminal = Terminal::new(place, *scale, seed);
                client::live(shared, &home, async |core| {
                    TpccClient::open(core, &self.server, &self.session, terminal, *procedures, *paced).await
                })
                .await;
            }),
        }
    }

    pub fn run(
        &mut self,
        wish: Wish,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(Told) -> Result<(), Failure>,
    ) -> Result<Option<Figures>, Failure> {
        self.room_for(wish.clients)?;
        let (trace, measured) = run::run(self, wish, inbox, tell);
        match &mut self.ledger {
            // A transaction whose end nobody knows is in the tables or not: the account is closed.
            ledger if trace.unsure => *ledger = None,
            Some((_, change)) => *change += trace.change,
            None => {}
        }
        measured
    }

    /// Says beforehand what would refuse so many clients.
    fn room_for(&self, clients: u32) -> Result<(), Failure> {
        let statements = match &self.test {
            Test::Oltp(plan, shape) => plan.statements(shape),
            Test::Tpcc { procedures: true, .. } => tpc::PROCEDURES.len() as u32,
            Test::Tpcc { .. } => tpc::STATEMENTS,
        };
        let sql = "SELECT @@max_connections, @@max_prepared_stmt_count";
        let limits = ask(&self.server, async |connection| texts(connection, sql).await)?;
        let limit = |at: usize| limits.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(u64::MAX);
        let wanted = u64::from(clients) * u64::from(statements);
        let more = |name: &str, have: u64, wanted: u64| {
            Failure::Run(format!("{name} is {have}, {clients} clients need {wanted}: SET GLOBAL {name} = {wanted}"))
        };
        if limit(0) < u64::from(clients) {
            return Err(more("max_connections", limit(0), u64::from(clients) + 8));
        }
        if limit(1) < wanted {
            return Err(more("max_prepared_stmt_count", limit(1), wanted));
        }
        open_files(u64::from(clients) + FILES)
    }

    /// Whether the tables hold what they must.
    pub fn check(&self, age: Age) -> Result<Checked, Failure> {
        if self.checks == Depth::None {
            return Ok(Checked { holds: true, what: "nothing was checked, as asked".into() });
        }
        let (verdict, figure) = ask(&self.server, async |connection| {
            let verdict = match &self.test {
                Test::Tpcc { scale, .. } => judge(&tpc::facts(connection, self.checks).await?, scale, age),
                Test::Oltp(..) => Verdict::default(),
            };
            Ok((verdict, self.figure(connection).await?))
        })?;
        let mut broken = verdict.broken;
        let ledger = match (self.ledger, &self.test) {
            (None, _) => "a run was cut off, so what it changed is not known".to_string(),
            (Some((start, change)), Test::Oltp(..)) => {
                if figure != start + change {
                    broken.push(format!("{figure} rows, the clients' account says {}", start + change));
                }
                format!("{figure} rows, as the clients' account says")
            }
            (Some((start, change)), Test::Tpcc { .. }) => {
                if figure != start + change {
                    broken.push(format!("{} orders were added, the clients committed {change}", figure - start));
                }
                format!("{change} orders were added, as many as the clients committed")
            }
        };
        Ok(Checked::of(verdict.judged, &broken, ledger))
    }

    /// Drops the tables and makes them as they were at first. False if a signal came.
    pub fn renew(&mut self, common: &Common, making: &Making, inbox: &mut Inbox) -> Result<bool, Failure> {
        let making = match &self.test {
            Test::Tpcc { scale, .. } => Making {
                engine: self.engine.clone(),
                warehouses: scale.warehouses,
                cut: (Scale::standard(1).customers / scale.customers.max(1)).max(1),
                ..making.clone()
            },
            Test::Oltp(..) => Making { engine: self.engine.clone(), ..making.clone() },
        };
        if !prepare(common, &making, inbox)? {
            return Ok(false);
        }
        if let Test::Tpcc { procedures: true, .. } = self.test {
            ask(&self.server, async |connection| tpc::create_procedures(connection).await)?;
        }
        self.open_ledger()?;
        Ok(true)
    }

    /// Waits until the server writes no pages and purges nothing any more. `None` if a signal came.
    pub fn settle(&self, at_most: Duration, inbox: &mut Inbox) -> Result<Option<Settled>, Failure> {
        let start = Instant::now();
        let mut before = self.activity()?;
        loop {
            if inbox.wait_until(Instant::now() + SETTLING) == Woken::Signal {
                return Ok(None);
            }
            let now = self.activity()?;
            let quiet = now == before;
            if quiet || start.elapsed() >= at_most {
                return Ok(Some(Settled { waited_s: start.elapsed().as_secs_f64(), quiet }));
            }
            before = now;
        }
    }

    /// Counters that move while an engine works in the background.
    fn activity(&self) -> Result<Vec<i64>, Failure> {
        let sql = "SELECT variable_value FROM information_schema.global_status WHERE variable_name IN \
                   ('Innodb_pages_written', 'Innodb_history_list_length', 'Innodb_data_writes', \
                    'Rocksdb_bytes_written', 'Rocksdb_compact_write_bytes') ORDER BY variable_name";
        let rows = ask(&self.server, async |connection| control::numbers::<1>(connection, sql).await)?;
        Ok(rows.into_iter().map(|[value]| value).collect())
    }
}

/// Each client is a socket.
fn open_files(least: u64) -> Result<(), Failure> {
    let failed = |e| Failure::Run(format!("cannot ask for more open files: {e}"));
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    if soft < least {
        if hard < least {
            return Err(Failure::Run(format!(
                "needs {least} open files, the limit is {hard}: raise it with ulimit -Hn"
            )));
        }
        setrlimit(Resource::RLIMIT_NOFILE, least, hard).map_err(failed)?;
    }
    Ok(())
}
