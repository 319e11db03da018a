//! TidesDB itself, whatever is kept in it: opened, settled, asked how long writers waited.

use crate::Failure;
use harness::event::Settled;
use harness::inbox::Inbox;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tidesdb::{Config, LogLevel, SyncMode, TidesDB};

pub const ISOLATION: &str = "snapshot";
pub const DURABILITY: &str = "none";

/// It is quiet when nothing moved for this many looks in a row.
const LOOKS: u32 = 5;
const LOOK: Duration = Duration::from_millis(20);

/// The sizes in MiB.
pub fn open(path: &Path, write_buffer: u32, cache: u32) -> Result<TidesDB, Failure> {
    if path.to_str().is_none() {
        return Err(Failure::Use("--dir is not UTF-8, which TidesDB asks for: name another directory".into()));
    }
    let mib = 1 << 20;
    let config = Config::new(path)
        .log_level(LogLevel::Warn)
        .memtable_sync_mode(SyncMode::None)
        .memtable_write_buffer_size(write_buffer as usize * mib)
        .block_cache_size(cache as usize * mib);
    TidesDB::open(config).map_err(|e| Failure::Run(format!("cannot open TidesDB: {e}")))
}

/// Waits until no flush and no compaction is under way, queued or newly done. `None` if a signal came.
pub fn settle(
    tidesdb: &TidesDB,
    families: &[&str],
    timeout: Duration,
    inbox: &mut Inbox,
) -> Result<Option<Settled>, Failure> {
    let failed = |e| Failure::Run(format!("TidesDB's statistics: {e}"));
    let families: Vec<_> =
        families.iter().map(|name| tidesdb.get_column_family(name)).collect::<Result<_, _>>().map_err(failed)?;
    let start = Instant::now();
    let (mut before, mut looks) = (None, 0);
    loop {
        let now = tidesdb.get_db_stats().map_err(failed)?;
        let still = !now.is_flushing
            && now.immutable_memtable_count == 0
            && now.compaction_pending_count == 0
            && !families.iter().any(|family| family.is_compacting());
        let done = (now.flush_count, now.compaction_count, now.vlog_reclaim_calls);
        looks = if still && before == Some(done) { looks + 1 } else { 0 };
        before = Some(done);
        let quiet = looks >= LOOKS;
        if quiet || start.elapsed() >= timeout {
            return Ok(Some(Settled { waited_s: start.elapsed().as_secs_f64(), quiet }));
        }
        if !inbox.wait(LOOK) {
            return Ok(None);
        }
    }
}

/// How long writers have waited inside TidesDB since it was opened, in microseconds of all threads, by its name for why.
pub type Stalls = Vec<(&'static str, u64)>;

pub fn stalls_us(tidesdb: &TidesDB) -> Result<Stalls, Failure> {
    let stalls = tidesdb.get_stall_stats().map_err(|e| Failure::Run(format!("TidesDB's statistics: {e}")))?;
    Ok(stalls.iter().map(|(why, stall)| (why, stall.total_us)).collect())
}

/// In seconds.
pub fn since(before: &Stalls, now: &Stalls) -> BTreeMap<&'static str, f64> {
    now.iter().zip(before).map(|((why, now), (_, before))| (*why, now.saturating_sub(*before) as f64 / 1e6)).collect()
}
