//! Counters of the slow paths, and the clock of upkeep. A leaf; `inspect` adds up the rest.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

pub type Counter = AtomicU64;

/// Times a thread found the gate of the estate taken. The only waits there are.
pub static WAITS: Counter = Counter::new(0);
/// Slow paths taken: stacks found empty, stacks found full.
pub static REFILLS: Counter = Counter::new(0);
pub static FLUSHES: Counter = Counter::new(0);
/// Calls of madvise(MADV_DONTNEED), the bytes they gave back, and when the last was (in ticks).
pub static PURGES: Counter = Counter::new(0);
pub static PURGED: Counter = Counter::new(0);
pub static PURGED_AT: AtomicU32 = AtomicU32::new(0);
/// Idle slots emptied.
pub static DRAINS: Counter = Counter::new(0);
/// Wrong frees found (more than one only where EVENKEEL_ABORT=0).
pub static WRONG: Counter = Counter::new(0);

/// Quarters of the decay time since the upkeep began to run. It stands still while the upkeep
/// sleeps, and it sleeps only when there is nothing to give back.
pub static TICK: AtomicU32 = AtomicU32::new(0);
/// What has lain unused for this many ticks goes back.
pub const DECAY_TICKS: u32 = 4;

#[inline]
pub fn tick() -> u32 {
    TICK.load(Relaxed)
}

#[inline]
pub fn count(counter: &Counter) {
    // Counted without a locked instruction: slow paths of two CPUs may lose one of two counts that
    // meet in the same nanosecond, and no decision hangs on it.
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}
