//! A person's form: runs each client count once, checks the table, prints a short table.

use crate::Failure;
use crate::args::Args;
use crate::database::Database;
use crate::event::Figures;
use crate::run::{self, Wish};
use crate::serve;
use harness::event::print;
use harness::inbox::Inbox;
use harness::usage;

pub fn once(args: &Args, mut inbox: Inbox) -> Result<(), Failure> {
    let stopped = || Failure::run("stopped by a signal");
    let mut database = Database::open(args)?;
    if !database.prepare(args.rows, args.seed, &mut inbox)? {
        return Err(stopped());
    }
    print(&format!(
        "TidesDB {}, {} rows of {} bytes, {}, {}\n\n{HEAD}\n",
        tidesdb::TIDESDB_LINKED_VERSION,
        args.rows,
        args.value_bytes,
        args.distribution,
        args.mix
    ))?;
    for &clients in &args.clients {
        let wish = Wish { clients, warmup_s: args.warmup, seconds: args.seconds, seed: args.seed };
        let figures = run::run(&mut database, serve::work(args), wish, &mut inbox, &mut |_| Ok(()))?;
        print(&(line(&figures.ok_or_else(stopped)?) + "\n"))?;
    }
    let checked = database.check(&mut inbox)?.ok_or_else(stopped)?;
    if !checked.holds {
        return Err(Failure::Run(format!("the check does not hold: {}", checked.what)));
    }
    print(&format!("\nThe check holds: {}.\n", checked.what))
}

const HEAD: &str =
    "clients  transactions/s  mean ms   p95 ms   p99 ms   max ms  retries   errors  CPUs used  peak RSS MB";

fn line(figures: &Figures) -> String {
    let latency = &figures.latency_ms;
    format!(
        "{:>7} {:>15.0} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8} {:>8} {:>10.2} {:>12}",
        figures.clients,
        figures.tps,
        latency.mean,
        latency.p95,
        latency.p99,
        latency.max,
        figures.retries,
        figures.errors.values().sum::<u64>(),
        figures.usage.cpu_s / figures.seconds,
        usage::peak_rss().map_or("-".into(), |bytes| (bytes / 1_000_000).to_string()),
    )
}
