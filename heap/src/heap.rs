//! alloc, free, realloc: what the fast paths in `slot` do not serve, and what is rare.
//!
//! A miss walks down one floor at a time: slot -> depot -> span -> pages -> estate. Nothing here
//! waits for another thread; the gate of the estate is the one lock below.
//!
//! A block is in the program's hands: a small one if its first word is not its `estate::seal`, a medium or
//! large one if its bit in `Span::live` is set.

use crate::bucket::{self, BATCH, BUCKETS, MEDIUM_MAX, PAGE, SMALL, UNIT};
use crate::depot;
use crate::estate::{self, first_word, seal, wiped};
use crate::options;
use crate::os;
use crate::pages;
use crate::report::{Fault, fault};
use crate::slot;
use crate::span::{self, units_for};
use crate::stats::{self, FLUSHES, REFILLS};
use crate::sync::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::upkeep;
use core::ptr::null_mut;

const UNBORN: u32 = 0;
const OPENING: u32 = 1;
const OPEN: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(UNBORN);

/// Every slow path begins here.
#[inline]
fn enter() -> bool {
    if STATE.load(Acquire) != OPEN {
        return open();
    }
    if wiped().born.load(Relaxed) != 1 {
        after_fork();
    }
    true
}

#[cold]
#[inline(never)]
fn open() -> bool {
    if STATE.compare_exchange(UNBORN, OPENING, AcqRel, Acquire).is_err() {
        while STATE.load(Acquire) == OPENING {
            os::yield_cpu();
        }
        return STATE.load(Acquire) == OPEN;
    }
    read_options();
    let ok = estate::open();
    depot::set_bound(os::cpus());
    slot::choose_mode();
    upkeep::find_libc();
    STATE.store(if ok { OPEN } else { UNBORN }, Release);
    ok
}

/// Reads the environment, once libc knows it. False if it has been read, or cannot be yet.
fn read_options() -> bool {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    static READ: AtomicBool = AtomicBool::new(false);
    // SAFETY: libc's own variable: null at first, then the environment.
    unsafe {
        if environ.is_null() || READ.swap(true, Relaxed) {
            return false;
        }
        options::read(environ);
    }
    true
}

/// Run by the loader before the program: the first malloc often comes before libc knows the environment.
pub fn settle() {
    if enter() && read_options() {
        slot::choose_mode();
    }
}

#[cold]
#[inline(never)]
fn after_fork() {
    const UNDER_WAY: u32 = 2;
    let born = &wiped().born;
    // With signals blocked no handler can wait for the thread that it interrupted.
    let mask = os::block_signals();
    if born.compare_exchange(0, UNDER_WAY, AcqRel, Acquire).is_ok() {
        pages::after_fork();
        span::after_fork();
        slot::after_fork();
        born.store(1, Release);
    }
    while born.load(Acquire) != 1 {
        os::yield_cpu();
    }
    os::restore_signals(mask);
}

fn out_of_memory() -> *mut u8 {
    // SAFETY: errno is the thread's own.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

/// What `define_malloc!` could not serve.
pub extern "C" fn malloc_slow(size: usize, caller: usize) -> *mut u8 {
    if !enter() {
        return out_of_memory();
    }
    upkeep::poke(caller);
    match bucket::of(size) {
        Some(bucket) => alloc_in(bucket),
        None => alloc_large(size, 1).0,
    }
}

fn alloc_in(bucket: usize) -> *mut u8 {
    loop {
        let mut one = [0];
        let p = match slot::pop(bucket, &mut one) {
            1 => one[0],
            _ => refill(bucket),
        };
        if p == 0 {
            return out_of_memory();
        }
        if bucket > SMALL {
            if let Some((_, span)) = span::of(p) {
                span.live.fetch_or(1 << span.index_of(p).unwrap_or(0), Relaxed);
            }
        } else if first_word(p).load(Relaxed) == seal(p) {
            // Anything but the seal, and not 0, which makes free look twice.
            first_word(p).store(bucket, Relaxed);
        } else {
            broken(p);
            continue;
        }
        return p as *mut u8;
    }
}

/// A block that was popped and does not bear its seal: it is not handed out. Called by the fast paths.
pub extern "C" fn broken(p: usize) {
    let size = span::of(p).map_or(0, |(_, span)| bucket::size(span.bucket.load(Relaxed) as usize));
    fault(Fault::Broken, p, size);
}

/// Fetches a batch into the slot and one block more; 0 at the end of memory.
fn refill(bucket: usize) -> usize {
    stats::count(&REFILLS);
    let room = slot::widen(bucket);
    let mut blocks = [0; BATCH];
    let mut n = depot::take(bucket, &mut blocks);
    if n == 0 {
        let want = (room / 2).clamp(1, BUCKETS[bucket].batch as usize);
        // By fours: a cache line that holds several blocks goes to one slot whole.
        let want = if bucket < LINE { want.next_multiple_of(4).min(BATCH & !3) } else { want };
        n = span::claim(bucket, &mut blocks[..want]);
        // The stack gives the last first: the lowest address shall come first.
        blocks[..n].reverse();
    }
    let Some((&p, rest)) = blocks[..n].split_last() else { return 0 };
    let kept = slot::push(bucket, rest);
    if kept < rest.len() {
        spill(bucket, &mut blocks[kept..n - 1]);
    }
    p
}

/// Buckets below have several blocks in a cache line.
const LINE: usize = 4;

/// A CPU that begins with a block freed to it, which may share its cache line with blocks that other
/// CPUs write, gets a line of its own to use first.
fn own_line(bucket: usize) {
    let mut blocks = [0; 4];
    let n = span::claim(bucket, &mut blocks);
    blocks[..n].reverse();
    let kept = slot::push(bucket, &blocks[..n]);
    span::give(&blocks[kept..n], 0);
}

/// Puts blocks into the depot, or back into their spans.
fn spill(bucket: usize, blocks: &mut [usize]) {
    if blocks.len() < 2 || !depot::put(bucket, blocks) {
        blocks.sort_unstable();
        span::give(blocks, 0);
    }
}

/// Puts a block that is no longer in the program's hands into the slot.
fn put(bucket: usize, p: usize) {
    if slot::push(bucket, &[p]) == 0 {
        put_missed(bucket, p);
    }
}

/// The same, when the slot had no room: makes some.
fn put_missed(bucket: usize, p: usize) {
    let room = slot::widen(bucket);
    if room > 0 && slot::push(bucket, &[p]) == 1 {
        if bucket < LINE && room == slot::FIRST_ROOM {
            own_line(bucket);
        }
        return;
    }
    stats::count(&FLUSHES);
    let mut blocks = [0; BATCH];
    let n = (room / 2).clamp(1, BUCKETS[bucket].batch as usize);
    let n = slot::pop(bucket, &mut blocks[..n]);
    spill(bucket, &mut blocks[..n]);
    if slot::push(bucket, &[p]) != 1 {
        span::give(&[p], 0);
    }
}

/// What `define_free!` could not serve.
pub extern "C" fn free_slow(p: *mut u8, bucket: usize, caller: usize) {
    let p = p as usize;
    if p == 0 {
        return;
    }
    if STATE.load(Acquire) != OPEN {
        return fault(Fault::Foreign, p, 0);
    }
    enter();
    upkeep::poke(caller);
    if bucket != 0 {
        // By rseq the fast path has tried already.
        return if slot::by_rseq() { put_missed(bucket, p) } else { put(bucket, p) };
    }
    match find(p) {
        Ok(Block::Small(bucket)) => {
            first_word(p).store(seal(p), Relaxed);
            put(bucket, p);
        }
        Ok(Block::Medium(bucket, span, i)) => {
            if span.live.fetch_and(!(1 << i), AcqRel) >> i & 1 == 0 {
                return fault(Fault::DoubleFree, p, bucket::size(bucket));
            }
            put(bucket, p);
        }
        Ok(Block::Large(index, span)) => {
            if span.live.swap(0, AcqRel) == 0 {
                return fault(Fault::DoubleFree, p, span.size.load(Relaxed));
            }
            span::release_large(index);
        }
        Err((why, size)) => fault(why, p, size),
    }
}

enum Block {
    Small(usize),
    Medium(usize, &'static span::Span, usize),
    Large(u32, &'static span::Span),
}

/// The live block that begins at `p`, or why there is none and the size of the block that is there.
fn find(p: usize) -> Result<Block, (Fault, usize)> {
    if estate::unit_of(p).is_none() {
        return Err((Fault::Foreign, 0));
    }
    let misplaced = if !p.is_multiple_of(16) { Fault::Misaligned } else { Fault::Interior };
    let Some((index, span)) = span::of(p) else { return Err((Fault::Gone, 0)) };
    let bucket = span.bucket.load(Relaxed) as usize;
    if bucket == 0 {
        return match span.live.load(Relaxed) {
            0 => Err((Fault::DoubleFree, span.size.load(Relaxed))),
            _ if p != span.base() => Err((misplaced, span.size.load(Relaxed))),
            _ => Ok(Block::Large(index, span)),
        };
    }
    let size = bucket::size(bucket);
    let Some(i) = span.index_of(p) else { return Err((misplaced, size)) };
    if bucket <= SMALL {
        match first_word(p).load(Relaxed) {
            word if word == seal(p) => Err((Fault::DoubleFree, size)),
            0 if span.has_free(i) => Err((Fault::NotHandedOut, size)),
            // The span has ended meanwhile, and its pages are gone.
            0 if span::of(p).is_none_or(|(now, _)| now != index) => Err((Fault::Gone, 0)),
            _ => Ok(Block::Small(bucket)),
        }
    } else if span.live.load(Relaxed) >> i & 1 == 0 {
        Err((Fault::DoubleFree, size))
    } else {
        Ok(Block::Medium(bucket, span, i))
    }
}

impl Block {
    fn size(&self) -> usize {
        match self {
            Block::Small(bucket) | Block::Medium(bucket, ..) => bucket::size(*bucket),
            Block::Large(_, span) => span.size.load(Relaxed),
        }
    }
}

/// A run as a block; says whether it reads as zeros.
pub fn alloc_large(size: usize, align_units: usize) -> (*mut u8, bool) {
    if size > isize::MAX as usize || !enter() {
        return (out_of_memory(), false);
    }
    match span::claim_large(units_for(size.max(1)), align_units) {
        Some((p, clean)) => (p as *mut u8, clean),
        None => (out_of_memory(), false),
    }
}

/// A block whose address is a multiple of `align`, a power of two.
pub fn alloc_aligned(align: usize, size: usize, malloc: impl Fn(usize) -> *mut u8) -> *mut u8 {
    if size > isize::MAX as usize || align > isize::MAX as usize {
        return out_of_memory();
    }
    if align <= 16 {
        return malloc(size);
    }
    // A block of a bucket is aligned to whatever divides both its size and a unit.
    if align <= UNIT && size.max(align) <= MEDIUM_MAX {
        let mut bucket = bucket::of(size.max(align)).unwrap_or(1);
        while bucket < bucket::COUNT && !bucket::size(bucket).is_multiple_of(align) {
            bucket += 1;
        }
        if bucket < bucket::COUNT {
            return malloc(bucket::size(bucket));
        }
    }
    alloc_large(size, align.div_ceil(UNIT).max(1)).0
}

/// The bytes the program may use of a block; 0 for null. A pointer that is no block's is reported.
pub fn usable_size(p: *mut u8) -> usize {
    let p = p as usize;
    if p == 0 || !enter() {
        return 0;
    }
    match find(p) {
        Ok(block) => block.size(),
        Err((why, size)) => {
            fault(why, p, size);
            0
        }
    }
}

/// Makes a live block hold `size` bytes where it stands: `Ok(true)`. `Ok(false)` with its size if it
/// must move.
pub fn resize(p: *mut u8, size: usize) -> Result<(), Option<usize>> {
    if !enter() {
        return Err(None);
    }
    let block = match find(p as usize) {
        Ok(block) => block,
        Err((why, of)) => {
            fault(why, p as usize, of);
            return Err(None);
        }
    };
    let have = block.size();
    if let Block::Large(index, _) = block {
        // Smaller than a run: it moves into a bucket, unless that would save little.
        if size > MEDIUM_MAX && size <= isize::MAX as usize {
            let (units, had) = (units_for(size), units_for(have));
            let same = units == had || (units < had && had - units < had / 8);
            if same || span::resize_large(index, units) {
                return Ok(());
            }
        }
        return Err(Some(have));
    }
    // A little smaller stays where it is.
    if size <= have && (size >= have / 2 || have <= 64) { Ok(()) } else { Err(Some(have)) }
}

/// Zeroes a block that came from a bucket.
///
/// # Safety
/// `p` is a block of at least `size` bytes.
pub unsafe fn zero(p: *mut u8, size: usize) {
    // SAFETY: the caller's word.
    unsafe { core::ptr::write_bytes(p, 0, size) };
}

pub const fn page() -> usize {
    PAGE
}
