//! TPC-C on TidesDB: the crate `tpcc`'s rows, inputs, rules and checks on column families.
//!
//! The tables are loaded once, into a database that is then closed and kept. What runs work on is a copy of it, and `renew`
//! makes another: every run after it, like the first, begins with the same files and nothing in TidesDB's memory.
//!
//! Top to bottom: this file (the lab's form, a person's form) -> `run` -> `client`, `check`, `prepare` -> `tables` -> `codec`,
//! `key`.

mod check;
mod client;
mod codec;
mod key;
mod prepare;
mod run;
mod tables;
#[cfg(test)]
mod tests;

use crate::Failure;
use crate::args::{self, Args};
use crate::directory::Directory;
use crate::event::{TpccFigures, TpccReady};
use crate::keep::Kept;
use crate::run::Wish;
use crate::store;
use client::{Account, Client};
use harness::Depth;
use harness::event::{Checked, Renewed, Second, Settled, print};
use harness::inbox::Inbox;
use harness::loading::loaders;
use harness::serve::{self, Load};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tables::{NAMES, Tables};
use tidesdb::TidesDB;
use tpcc::Scale;
use tpcc::check::Age;
use tpcc::input::Terminal;

/// Raised whenever rows, keys or values come out otherwise: what was kept before is then no longer taken.
const FORM: u32 = 1;
/// How long TidesDB may take to be quiet after a load.
const QUIET: Duration = Duration::from_secs(120);

struct Bench {
    // Above the directory, so that it is closed before its files go. None only while the files are exchanged.
    tidesdb: Option<TidesDB>,
    directory: Directory,
    /// The database as it was loaded, and whether an earlier process did that.
    kept: PathBuf,
    reused: bool,
    write_buffer: u32,
    cache: u32,
    scale: Scale,
    paced: bool,
    checks: Depth,
    /// Fresh are the tables until the first run.
    age: Age,
    start: check::Sums,
    account: Account,
    serial: AtomicU64,
}

impl Bench {
    /// Loads the tables and keeps them. `None` if a signal came.
    fn prepare(args: &Args, inbox: &mut Inbox) -> Result<Option<Bench>, Failure> {
        let args::Tpcc { warehouses, cut, paced, checks, keep, .. } = &args.tpcc;
        let directory = Directory::claim(&args.dir)?;
        let load = tpcc::load::Load { scale: Scale::cut(*warehouses, *cut), seed: args.seed };
        let (kept, reused) = match keep {
            None => {
                if !fill(args, load, &directory.kept(), inbox)? {
                    return Ok(None);
                }
                (directory.kept(), false)
            }
            Some(keep) => {
                // Everything that what is loaded depends on.
                let version = tidesdb::TIDESDB_LINKED_VERSION;
                let name = format!(
                    "tpcc-{FORM}-{version}-{warehouses}-warehouses-cut-{cut}-seed-{}-buffer-{}",
                    args.seed, args.write_buffer
                );
                let Some(kept) = Kept::claim(keep, &name, inbox)? else { return Ok(None) };
                let (database, whole) = (kept.database(), kept.whole);
                if !whole {
                    if !fill(args, load, &database, inbox)? {
                        return Ok(None);
                    }
                    kept.seal()?;
                }
                (database, whole)
            }
        };
        let mut bench = Bench {
            tidesdb: None,
            directory,
            kept,
            reused,
            write_buffer: args.write_buffer,
            cache: args.cache,
            scale: load.scale,
            paced: *paced,
            checks: *checks,
            age: Age::Fresh,
            start: check::Sums::of_load(load),
            account: Account::default(),
            serial: AtomicU64::new(1),
        };
        bench.restore()?;
        Ok(Some(bench))
    }

    /// Opens a copy of the kept database in the place of the one that runs have changed.
    fn restore(&mut self) -> Result<(), Failure> {
        self.tidesdb = None;
        self.directory.restore(&self.kept).map_err(|e| {
            Failure::Run(format!("cannot copy the loaded tables: {e}; --dir needs room for them twice"))
        })?;
        self.tidesdb = Some(store::open(&self.directory.database(), self.write_buffer, self.cache)?);
        self.age = Age::Fresh;
        self.account = Account::default();
        self.serial = AtomicU64::new(1);
        Ok(())
    }

    fn tidesdb(&self) -> Result<&TidesDB, Failure> {
        self.tidesdb.as_ref().ok_or_else(|| Failure::run("the tables could not be restored: start again"))
    }

    fn ready(&self, args: &Args, prepare_s: f64) -> TpccReady {
        TpccReady {
            tidesdb: tidesdb::TIDESDB_LINKED_VERSION,
            pid: std::process::id(),
            test: "tpcc",
            engine: "TidesDB",
            warehouses: self.scale.warehouses,
            standard: self.scale.is_standard(),
            rows: self.scale.rows(),
            paced: self.paced,
            checks: match self.checks {
                Depth::None => "none",
                Depth::Quick => "quick",
                Depth::Full => "full",
            },
            kept: self.reused,
            seed: args.seed,
            write_buffer_mib: self.write_buffer,
            cache_mib: self.cache,
            isolation: store::ISOLATION,
            durability: store::DURABILITY,
            prepare_s,
        }
    }
}

impl Load for Bench {
    type Wish = Wish;
    type Second = Second;
    type Figures = TpccFigures;

    fn refuse(wish: &Wish) -> Result<(), String> {
        wish.refuse()
    }

    fn run(
        &mut self,
        wish: Wish,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(Second) -> Result<(), Failure>,
    ) -> Result<Option<TpccFigures>, Failure> {
        self.age = Age::Used;
        let tidesdb = self.tidesdb()?;
        let client = |place| {
            Ok(Client {
                tables: Tables::of(tidesdb)?,
                terminal: Terminal::new(place, self.scale, wish.seed),
                serial: &self.serial,
                account: Account::default(),
                rows: 0,
            })
        };
        let (account, measured) = run::run(tidesdb, client, self.paced, wish, inbox, tell);
        self.account += account;
        measured
    }

    fn settle(&mut self, at_most: Duration, inbox: &mut Inbox) -> Result<Option<Settled>, Failure> {
        store::settle(self.tidesdb()?, &NAMES, at_most, inbox)
    }

    fn renew(&mut self, _: &mut Inbox) -> Result<Option<Renewed>, Failure> {
        let start = Instant::now();
        self.restore()?;
        Ok(Some(Renewed { prepare_s: start.elapsed().as_secs_f64() }))
    }

    fn check(&mut self, inbox: &mut Inbox) -> Result<Option<Checked>, Failure> {
        if self.checks == Depth::None {
            return Ok(Some(Checked { holds: true, what: "nothing was checked, as asked".into() }));
        }
        let tables = Tables::of(self.tidesdb()?)?;
        let quick = self.checks == Depth::Quick;
        Ok(check::check(&tables, &self.scale, quick, self.age, self.start, &self.account, inbox))
    }
}

/// Loads the tables into a database at `path`, and closes it. False if a signal came.
fn fill(args: &Args, load: tpcc::load::Load, path: &Path, inbox: &mut Inbox) -> Result<bool, Failure> {
    let tidesdb = store::open(path, args.write_buffer, args.cache)?;
    tables::create(&tidesdb)?;
    if !prepare::fill(&tidesdb, load, args.tpcc.loaders.unwrap_or_else(loaders), inbox)? {
        return Ok(false);
    }
    tidesdb.flush_memtable().map_err(|e| Failure::Run(format!("cannot fill the tables: {e}")))?;
    Ok(store::settle(&tidesdb, &NAMES, QUIET, inbox)?.is_some())
}

/// Loads and checks; `None` if a signal came.
fn loaded(args: &Args, inbox: &mut Inbox) -> Result<Option<Bench>, Failure> {
    let Some(mut bench) = Bench::prepare(args, inbox)? else { return Ok(None) };
    match bench.check(inbox)? {
        Some(Checked { holds: true, .. }) => Ok(Some(bench)),
        Some(Checked { what, .. }) if bench.reused => Err(Failure::Run(format!(
            "the kept tables are not what was loaded: {what}; remove {} and start again",
            bench.kept.display()
        ))),
        Some(Checked { what, .. }) => Err(Failure::Run(format!("the load is not what was to be loaded: {what}"))),
        None => Ok(None),
    }
}

/// The lab's form.
pub fn serve(args: &Args, mut inbox: Inbox) -> Result<(), Failure> {
    let start = Instant::now();
    let Some(mut bench) = loaded(args, &mut inbox)? else { return Ok(()) };
    let ready = bench.ready(args, start.elapsed().as_secs_f64());
    serve::serve(&mut bench, ready, inbox)
}

/// A person's form: runs each client count once, on the same tables, and checks them after each.
pub fn once(args: &Args, mut inbox: Inbox) -> Result<(), Failure> {
    let stopped = || Failure::run("stopped by a signal");
    let start = Instant::now();
    let mut bench = loaded(args, &mut inbox)?.ok_or_else(stopped)?;
    print(&format!(
        "tpcc on TidesDB {}, {}, durability {}, {} warehouses{}, loaded in {:.1} s\n\n",
        tidesdb::TIDESDB_LINKED_VERSION,
        store::ISOLATION,
        store::DURABILITY,
        bench.scale.warehouses,
        if bench.scale.is_standard() { "" } else { " cut down: no TPC-C" },
        start.elapsed().as_secs_f64()
    ))?;
    for &clients in &args.clients {
        let wish = Wish { clients, warmup_s: args.warmup, seconds: args.seconds, seed: args.seed };
        let figures = bench.run(wish, &mut inbox, &mut |_| Ok(()))?.ok_or_else(stopped)?;
        let checked = bench.check(&mut inbox)?.ok_or_else(stopped)?;
        print(&format!(
            "{}{:.2} CPUs used, {} MB at most\ncheck: {}\n\n",
            figures.counted.table(),
            figures.usage.cpu_s / figures.counted.seconds,
            figures.peak_rss_bytes / 1_000_000,
            checked.what
        ))?;
        if figures.counted.retries > figures.counted.transactions {
            print(
                "Most attempts met another client's: with more warehouses, or fewer clients, less is done in vain.\n\n",
            )?;
        }
        if !checked.holds {
            return Err(Failure::Run(format!("the check does not hold: {}", checked.what)));
        }
    }
    Ok(())
}
