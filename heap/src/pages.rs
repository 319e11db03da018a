//! Runs: consecutive units, claimed and released without a lock, and given back to the kernel.
//!
//! A run is claimed by clearing its bits in `Chunk::free` and released by setting them; neighbours
//! join by themselves. A run of up to a chunk lies within one chunk (one compare-and-swap); a larger
//! one begins at a chunk's start.
//!
//! - a set bit of `free`: the unit belongs to nobody, its owner entry and its kind are 0;
//! - a clear bit of `dirty`: the unit reads as zeros;
//! - a set bit of HUGE: the chunk is dense and may be backed by a huge page; nothing of it has gone back
//!   to the kernel since;
//! - OPEN, WHOLE, DIRTY and HINT only save time. They may be wrong for a moment, so a search that
//!   fails with them is made again without, before the estate grows.

use crate::bucket::{PAGE, UNIT};
use crate::estate::{self, CHUNK, CHUNK_UNITS, OPEN, chunk, limit_chunk};
use crate::os;
use crate::stats;
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    step,
};

pub struct Run {
    pub unit: usize,
    /// Nothing has been written to it: all zeros.
    pub clean: bool,
}

/// Chunks that are free whole; chunks that have free units to purge.
static WHOLE: [AtomicU64; OPEN.len()] = [const { AtomicU64::new(0) }; OPEN.len()];
static DIRTY: [AtomicU64; OPEN.len()] = [const { AtomicU64::new(0) }; OPEN.len()];
static HUGE: [AtomicU64; OPEN.len()] = [const { AtomicU64::new(0) }; OPEN.len()];
/// No chunk below `HINT[n]` has n free units in a row.
static HINT: [AtomicU32; CHUNK_UNITS + 1] = [const { AtomicU32::new(0) }; CHUNK_UNITS + 1];
/// The units that a purge holds at the moment: a fork's child has no purger and takes them back.
static PURGING: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Claims a run; `align` (in units) is a power of two.
pub fn claim(units: usize, align: usize) -> Option<Run> {
    loop {
        let seen = limit_chunk();
        for thorough in [false, true] {
            let found = if units <= CHUNK_UNITS && align <= CHUNK_UNITS {
                claim_within(units, align, thorough)
            } else {
                claim_across(units, align.div_ceil(CHUNK_UNITS), thorough)
            };
            if found.is_some() {
                return found;
            }
        }
        if !estate::grow(units, align, seen) {
            return None;
        }
    }
}

/// Bits where `n` ones in a row begin.
fn runs(ones: u64, n: usize) -> u64 {
    let (mut begins, mut have) = (ones, 1);
    while have < n {
        let more = have.min(n - have);
        begins &= begins >> more;
        have += more;
    }
    begins
}

fn mask(at: usize, n: usize) -> u64 {
    (!0 >> (CHUNK_UNITS - n)) << at
}

/// The next set bit of a bitmap of chunks at or after `from`.
fn next(map: &[AtomicU64], from: usize, limit: usize) -> Option<usize> {
    let mut c = from;
    while c < limit {
        let word = map[c / 64].load(Acquire) >> (c % 64);
        if word != 0 {
            c += word.trailing_zeros() as usize;
            return (c < limit).then_some(c);
        }
        c = (c / 64 + 1) * 64;
    }
    None
}

fn claim_within(units: usize, align: usize, thorough: bool) -> Option<Run> {
    const EVERY: [u64; 7] = [
        !0,
        0x5555_5555_5555_5555,
        0x1111_1111_1111_1111,
        0x0101_0101_0101_0101,
        0x0001_0001_0001_0001,
        0x1_0000_0001,
        1,
    ];
    let aligned = EVERY[align.ilog2() as usize];
    let hint = HINT[units].load(Acquire);
    let (limit, mut c) = (limit_chunk(), if thorough { 0 } else { hint as usize });
    while let Some(at) = next(&OPEN, c, limit) {
        c = at;
        let free = &chunk(c).free;
        let mut now = free.load(Acquire);
        loop {
            let begins = runs(now, units) & aligned;
            if begins == 0 {
                break;
            }
            let bit = begins.trailing_zeros() as usize;
            let take = mask(bit, units);
            step();
            match free.compare_exchange_weak(now, now & !take, AcqRel, Acquire) {
                Ok(_) => {
                    if now == !0 {
                        WHOLE[c / 64].fetch_and(!(1 << (c % 64)), Relaxed);
                    }
                    if now & !take == 0 {
                        close(c);
                    }
                    if align == 1 && c as u32 > hint {
                        let _ = HINT[units].compare_exchange(hint, c as u32, AcqRel, Relaxed);
                    }
                    return Some(Run { unit: c * CHUNK_UNITS + bit, clean: chunk(c).dirty.load(Acquire) & take == 0 });
                }
                Err(changed) => now = changed,
            }
        }
        c += 1;
    }
    None
}

/// Says that a chunk has no free unit left, and takes it back if that is no longer so.
fn close(c: usize) {
    OPEN[c / 64].fetch_and(!(1 << (c % 64)), AcqRel);
    if chunk(c).free.load(Acquire) != 0 {
        OPEN[c / 64].fetch_or(1 << (c % 64), AcqRel);
    }
}

/// A run over several chunks: whole ones, then the first units of another.
fn claim_across(units: usize, align_chunks: usize, thorough: bool) -> Option<Run> {
    let map = if thorough { &OPEN } else { &WHOLE };
    let (limit, mut c) = (limit_chunk(), 0);
    while let Some(at) = next(map, c, limit) {
        c = at.next_multiple_of(align_chunks);
        if c != at {
            continue;
        }
        match claim_at(c, units, limit) {
            Ok(clean) => return Some(Run { unit: c * CHUNK_UNITS, clean }),
            Err(taken) => c = taken + 1,
        }
    }
    None
}

/// Claims the run that begins with chunk `c`; on failure says which chunk was in the way.
fn claim_at(c: usize, units: usize, limit: usize) -> Result<bool, usize> {
    let last = c + (units - 1) / CHUNK_UNITS;
    if last >= limit {
        return Err(limit);
    }
    let part = |k: usize| mask(0, if k < last { CHUNK_UNITS } else { units - (last - c) * CHUNK_UNITS });
    // Look before claiming anything, from the far end: a chunk in the way is met early.
    if let Some(k) = (c..=last).rev().find(|&k| chunk(k).free.load(Relaxed) & part(k) != part(k)) {
        return Err(k);
    }
    let mut clean = true;
    for k in c..=last {
        let want = part(k);
        let mut now = chunk(k).free.load(Acquire);
        loop {
            if now & want != want {
                for back in c..k {
                    restore(back, part(back));
                    // A purge that met it while it was held has passed it over.
                    DIRTY[back / 64].fetch_or(1 << (back % 64), Release);
                }
                return Err(k);
            }
            step();
            match chunk(k).free.compare_exchange_weak(now, now & !want, AcqRel, Acquire) {
                Ok(_) => break,
                Err(changed) => now = changed,
            }
        }
        WHOLE[k / 64].fetch_and(!(1 << (k % 64)), Relaxed);
        if now == want {
            close(k);
        }
        clean &= chunk(k).dirty.load(Acquire) & want == 0;
    }
    Ok(clean)
}

/// Claims the `more` units that follow a run, if all are free and in the run's last chunk.
pub fn extend(unit: usize, units: usize, more: usize) -> bool {
    let (c, at) = ((unit + units) / CHUNK_UNITS, (unit + units) % CHUNK_UNITS);
    if at == 0 || at + more > CHUNK_UNITS {
        return false;
    }
    let (want, free) = (mask(at, more), &chunk(c).free);
    let mut now = free.load(Acquire);
    while now & want == want {
        match free.compare_exchange_weak(now, now & !want, AcqRel, Acquire) {
            Ok(_) => {
                if now == want {
                    close(c);
                }
                return true;
            }
            Err(changed) => now = changed,
        }
    }
    false
}

/// The parts of a run, chunk by chunk: (chunk, first bit, bits).
fn parts(unit: usize, units: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let (mut at, end) = (unit, unit + units);
    core::iter::from_fn(move || {
        let (c, bit) = (at / CHUNK_UNITS, at % CHUNK_UNITS);
        let n = (CHUNK_UNITS - bit).min(end - at);
        at += n;
        (n > 0).then_some((c, bit, n))
    })
}

/// Sets the free bits of units that the caller owns.
fn restore(c: usize, units: u64) {
    let before = chunk(c).free.fetch_or(units, AcqRel);
    debug_assert!(before & units == 0);
    OPEN[c / 64].fetch_or(1 << (c % 64), AcqRel);
    if before | units == !0 {
        WHOLE[c / 64].fetch_or(1 << (c % 64), Release);
    }
}

/// Releases a run that has been unused for `age` ticks already.
pub fn release(unit: usize, units: usize, age: u32) {
    let stamp = stats::tick().wrapping_sub(age) as u8;
    for (c, bit, n) in parts(unit, units) {
        let (it, bits) = (chunk(c), mask(bit, n));
        for s in &it.stamp[bit..bit + n] {
            s.store(stamp, Relaxed);
        }
        it.dirty.fetch_or(bits, Relaxed);
        restore(c, bits);
        DIRTY[c / 64].fetch_or(1 << (c % 64), Release);
    }
    let c = (unit / CHUNK_UNITS) as u32;
    for hint in &HINT[1..] {
        if hint.load(Relaxed) > c {
            hint.fetch_min(c, AcqRel);
        }
    }
}

/// Gives free units back to the kernel that nobody has used for the decay time, or all of them.
/// True while some are left that are too young.
pub fn purge(all: bool) -> bool {
    let (mut left, limit, mut c) = (false, limit_chunk(), 0);
    while let Some(at) = next(&DIRTY, c, limit) {
        left |= purge_chunk(at, all);
        c = at + 1;
    }
    left
}

fn purge_chunk(c: usize, all: bool) -> bool {
    let it = chunk(c);
    DIRTY[c / 64].fetch_and(!(1 << (c % 64)), AcqRel);
    let candidates = it.free.load(Acquire) & it.dirty.load(Acquire);
    let (now, mut old) = (stats::tick() as u8, 0u64);
    for bit in (0..CHUNK_UNITS).filter(|b| candidates >> b & 1 == 1) {
        if all || u32::from(now.wrapping_sub(it.stamp[bit].load(Relaxed))) >= stats::DECAY_TICKS {
            old |= 1 << bit;
        }
    }
    // Owned while it is purged: nobody can be handed memory that is about to vanish.
    PURGING[0].store(c as u64, Relaxed);
    let mine = it.free.fetch_and(!old, AcqRel) & old;
    PURGING[1].store(mine, Relaxed);
    let (mut rest, mut gone) = (mine, 0);
    while rest != 0 {
        let bit = rest.trailing_zeros() as usize;
        let n = (rest >> bit).trailing_ones() as usize;
        if drop_pages(estate::address(c * CHUNK_UNITS + bit), n * UNIT) {
            gone |= mask(bit, n);
        }
        rest &= !mask(bit, n);
    }
    it.dirty.fetch_and(!gone, AcqRel);
    // First: in a child of a fork after `restore`, the units may be in use.
    PURGING[1].store(0, Release);
    restore(c, mine);
    let young = it.free.load(Relaxed) & it.dirty.load(Relaxed) != 0;
    if young {
        DIRTY[c / 64].fetch_or(1 << (c % 64), Release);
    }
    young
}

/// MADV_DONTNEED, counted. False if the kernel would not: then the pages hold what they held.
pub fn drop_pages(at: usize, len: usize) -> bool {
    debug_assert!(at.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
    forbid_huge(at, len);
    // SAFETY: callers own every block that lies in the range, and none is in the program's hands.
    let gone = unsafe { os::advise(at, len, libc::MADV_DONTNEED) }.is_ok();
    if gone {
        stats::count(&stats::PURGES);
        stats::PURGED.fetch_add(len as u64, Relaxed);
        stats::PURGED_AT.store(stats::tick(), Relaxed);
    }
    gone
}

/// The chunks that a pass may ask the kernel about, and the most that are marked in all: each marked
/// stretch is a mapping of its own, of which a process may have 65,530.
const HUGE_A_PASS: usize = 32;
const HUGE_AT_MOST: u32 = 16384;
static HUGE_MARKED: AtomicU32 = AtomicU32::new(0);
static HUGE_HAND: AtomicU32 = AtomicU32::new(0);

/// Goes on round the estate and allows huge pages in chunks that are in use whole and in memory all but
/// whole. Elsewhere they stay forbidden: one touched page would cost 2 MiB.
pub fn allow_huge() {
    let limit = limit_chunk();
    let from = HUGE_HAND.load(Relaxed) as usize;
    let mut asked = 0;
    for c in (from..from + limit.min(4096)).map(|c| c % limit) {
        HUGE_HAND.store(c as u32 + 1, Relaxed);
        let marked = HUGE[c / 64].load(Relaxed) >> (c % 64) & 1 == 1;
        if marked || chunk(c).free.load(Relaxed) != 0 || chunk(c).owner[0].load(Relaxed) == 0 {
            continue;
        }
        let mut seen = [0; CHUNK / PAGE];
        let dense = os::resident(estate::address(c * CHUNK_UNITS), &mut seen) >= seen.len() / 16 * 15;
        if dense && HUGE_MARKED.load(Relaxed) < HUGE_AT_MOST {
            HUGE[c / 64].fetch_or(1 << (c % 64), AcqRel);
            HUGE_MARKED.fetch_add(1, Relaxed);
            // SAFETY: the advice loses nothing.
            let _ = unsafe { os::advise(estate::address(c * CHUNK_UNITS), CHUNK, libc::MADV_HUGEPAGE) };
        }
        asked += 1;
        if asked == HUGE_A_PASS {
            break;
        }
    }
}

/// Forbids huge pages again in the chunks that a range touches.
fn forbid_huge(at: usize, len: usize) {
    let unit = |p: usize| estate::unit_of(p).unwrap_or(0);
    for c in unit(at) / CHUNK_UNITS..=unit(at + len - 1) / CHUNK_UNITS {
        if HUGE[c / 64].fetch_and(!(1 << (c % 64)), AcqRel) >> (c % 64) & 1 == 1 {
            HUGE_MARKED.fetch_sub(1, Relaxed);
            // SAFETY: the advice loses nothing.
            let _ = unsafe { os::advise(estate::address(c * CHUNK_UNITS), CHUNK, libc::MADV_NOHUGEPAGE) };
        }
    }
}

/// How many chunks may be backed by huge pages.
pub fn huge() -> usize {
    HUGE_MARKED.load(Relaxed) as usize
}

/// In a fork's child: takes back what the parent's upkeep held when it forked.
pub fn after_fork() {
    let held = PURGING[1].swap(0, Relaxed);
    if held != 0 {
        let c = PURGING[0].load(Relaxed) as usize;
        chunk(c).dirty.fetch_or(held, Relaxed);
        chunk(c).free.fetch_or(held, AcqRel);
        OPEN[c / 64].fetch_or(1 << (c % 64), AcqRel);
        DIRTY[c / 64].fetch_or(1 << (c % 64), Release);
    }
}

/// Units by state: (free and touched, free and given back).
pub fn census() -> (usize, usize) {
    let (mut dirty, mut clean) = (0, 0);
    for c in 0..limit_chunk() {
        let (free, touched) = (chunk(c).free.load(Relaxed), chunk(c).dirty.load(Relaxed));
        dirty += (free & touched).count_ones() as usize;
        clean += (free & !touched).count_ones() as usize;
    }
    (dirty, clean)
}
