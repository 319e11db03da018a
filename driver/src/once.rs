//! A person's form: runs each client count once, checks the tables after each, prints a short table.

use crate::Failure;
use crate::bench::Bench;
use crate::event::{Figures, Ready, Told};
use crate::run::Wish;
use harness::event::{Event, Second, print, tell};
use harness::inbox::Inbox;
use std::fmt::Write as _;
use tpcc::check::Age;

type Said = Event<Ready, Second, Figures>;

pub fn once(mut bench: Bench, wishes: Vec<Wish>, json: bool, mut inbox: Inbox) -> Result<(), Failure> {
    if json {
        tell(&Said::Ready(bench.ready(0.0)))?;
    } else {
        print(&title(&bench))?;
    }
    let mut broken = false;
    for wish in wishes {
        let mut each = |told| match told {
            _ if !json => Ok(()),
            Told::Begun(begun) => tell(&begun),
            Told::Second(second) => tell(&Said::Second(second)),
        };
        let figures = bench.run(wish, &mut inbox, &mut each)?.ok_or_else(|| Failure::run("stopped by a signal"))?;
        let checked = bench.check(Age::Used)?;
        broken |= !checked.holds;
        if json {
            tell(&Said::Result(figures))?;
            tell(&Said::Checked(checked))?;
        } else {
            print(&table(&figures))?;
            print(&format!("check: {}{}\n\n", if checked.holds { "" } else { "DOES NOT HOLD: " }, checked.what))?;
        }
    }
    if broken { Err(Failure::Broken("a run is invalid: the check after it did not hold".into())) } else { Ok(()) }
}

fn title(bench: &Bench) -> String {
    let ready = bench.ready(0.0);
    let mut title = format!("{} on {} {}, {}", ready.test, ready.server, ready.engine, ready.isolation);
    if let Some(warehouses) = ready.warehouses {
        let _ = write!(title, ", {warehouses} warehouses");
        if ready.standard == Some(false) {
            title += " cut down: no TPC-C";
        }
    }
    if let (Some(tables), Some(size), Some(how)) = (ready.tables, ready.table_size, ready.distribution) {
        let _ = write!(title, ", {tables} tables of {size} rows, {how}");
    }
    title + "\n\n"
}

fn table(figures: &Figures) -> String {
    let cpu_s = figures.usage.cpu_s;
    let most = figures.peak_rss_bytes as f64 / 1e6;
    format!("{}driver: {cpu_s:.2} s of CPU time, {most:.1} MB at most\n", figures.counted.table())
}
