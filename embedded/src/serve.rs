//! The lab's form of the OLTP load: what `harness::serve` answers with.

use crate::Failure;
use crate::args::Args;
use crate::client::Work;
use crate::database::Database;
use crate::event::{Figures, Ready, Second};
use crate::keys::Keys;
use crate::run::{self, Wish};
use crate::store;
use harness::event::{Checked, Renewed, Settled};
use harness::inbox::Inbox;
use harness::serve::{self, Load};
use std::time::{Duration, Instant};

struct Served {
    database: Database,
    work: Work,
    seed: u64,
}

pub fn serve(args: &Args, mut inbox: Inbox) -> Result<(), Failure> {
    let start = Instant::now();
    let mut database = Database::open(args)?;
    if !database.prepare(args.rows, args.seed, &mut inbox)? {
        return Ok(());
    }
    let ready = Ready {
        tidesdb: tidesdb::TIDESDB_LINKED_VERSION,
        pid: std::process::id(),
        rows: args.rows,
        value_bytes: args.value_bytes,
        distribution: args.distribution.to_string(),
        writes: args.writes.to_string(),
        mix: args.mix.to_string(),
        range_rows: args.range_rows,
        result_kib: args.result,
        seed: args.seed,
        write_buffer_mib: args.write_buffer,
        cache_mib: args.cache,
        isolation: store::ISOLATION,
        durability: store::DURABILITY,
        prepare_s: start.elapsed().as_secs_f64(),
    };
    serve::serve(&mut Served { database, work: work(args), seed: args.seed }, ready, inbox)
}

/// What every run of this process does.
pub fn work(args: &Args) -> Work {
    Work {
        mix: args.mix,
        keys: Keys::new(args.distribution, args.rows),
        writes: args.writes,
        rows: args.rows,
        range_rows: args.range_rows,
        value_bytes: args.value_bytes as usize,
        result_bytes: args.result as usize * 1024,
    }
}

impl Load for Served {
    type Wish = Wish;
    type Second = Second;
    type Figures = Figures;

    fn refuse(wish: &Wish) -> Result<(), String> {
        wish.refuse()
    }

    fn run(
        &mut self,
        wish: Wish,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(Second) -> Result<(), Failure>,
    ) -> Result<Option<Figures>, Failure> {
        run::run(&mut self.database, self.work, wish, inbox, tell)
    }

    fn settle(&mut self, at_most: Duration, inbox: &mut Inbox) -> Result<Option<Settled>, Failure> {
        self.database.settle(at_most, inbox)
    }

    fn renew(&mut self, inbox: &mut Inbox) -> Result<Option<Renewed>, Failure> {
        self.database.renew(self.work.rows, self.seed, inbox)
    }

    fn check(&mut self, inbox: &mut Inbox) -> Result<Option<Checked>, Failure> {
        self.database.check(inbox)
    }
}
