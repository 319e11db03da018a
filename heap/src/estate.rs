//! The estate: the address space the heap owns, and the table from a unit to its span.
//!
//! ```text
//! window: | heap: chunks of 2 MiB, mapped from the left as the heap grows | kinds | chunks | spans | batches | slots |
//!         base                                                           base + W
//! ```
//! The window is arithmetic, not memory: a stretch of addresses far below the kernel's own mappings,
//! in which every table has a fixed place, so that a lookup is one addition and one load. Mapped is
//! only what is in use, in steps of an eighth of it. So the heap starts under any RLIMIT_AS, is not
//! charged ahead under strict overcommit, and VSZ tells the truth. Where such a window cannot be had
//! (valgrind, exotic kernels), one smaller range is reserved instead and mapped over in steps.
//!
//! - every address of `base .. base + limit` has its tables mapped (its own page may be missing in a
//!   hole, where no unit is ever free);
//! - `kinds[unit]` is `bucket | flags << 8 | phase << 16` for a unit of small blocks, else 0: a block
//!   begins at `p` if and only if `p % UNIT + phase` is a multiple of the bucket's size;
//! - `chunk.owner[unit]` is the span that holds the unit (index + 1), else 0.
//!
//! The gate is the heap's only lock. It is taken to map more address space, a number of times that
//! is logarithmic in the heap's size, with signals blocked, and for no call but mmap.

use crate::bucket::{PAGE, UNIT, UNIT_SHIFT};
use crate::os;
use crate::stats::WAITS;
use crate::sync::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

pub const CHUNK_SHIFT: u32 = 21;
/// What the estate grows by, and what one word of free units covers; a huge page.
pub const CHUNK: usize = 1 << CHUNK_SHIFT;
pub const CHUNK_UNITS: usize = CHUNK / UNIT;
const _: () = assert!(CHUNK_UNITS == 64);

/// W of the ordinary window. More than any machine's memory that a malloc'd process could use.
const WINDOW_SHIFT: u32 = 43;
const MAX_CHUNKS: usize = 1 << (WINDOW_SHIFT - CHUNK_SHIFT);

pub struct Chunk {
    /// A bit for each unit: 1 = free. Whoever clears a bit owns the unit.
    pub free: AtomicU64,
    /// 1 = touched since it was last given back to the kernel.
    pub dirty: AtomicU64,
    /// When a free unit was freed, in ticks (modulo 256).
    pub stamp: [AtomicU8; CHUNK_UNITS],
    pub owner: [AtomicU32; CHUNK_UNITS],
}

/// What free() needs of the estate, in one cache line.
#[repr(C, align(64))]
pub struct Window {
    pub base: AtomicUsize,
    pub limit: AtomicUsize,
    /// The kind of the unit of `p` is at `kinds + p / UNIT * 4`.
    pub kinds: AtomicUsize,
    /// A free small block holds its seal, `secret ^ its address`, in its first word: a free that finds it
    /// there is the second one, and a malloc that does not find it must not give the block away. Nothing
    /// is ever read from a free block but this comparison.
    pub secret: AtomicUsize,
}

pub static WINDOW: Window = Window {
    base: AtomicUsize::new(0),
    limit: AtomicUsize::new(0),
    kinds: AtomicUsize::new(0),
    secret: AtomicUsize::new(0),
};

/// One table of the window: a fixed place, mapped from the left.
pub struct Area {
    start: AtomicUsize,
    mapped: AtomicUsize,
    room: AtomicUsize,
    /// The end of a mapping that is being made; found non-zero only in a child whose parent forked
    /// in the middle of it, and then that range is the heap's own, mapped or not.
    intent: AtomicUsize,
}

impl Area {
    const fn new() -> Area {
        Area {
            start: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            intent: AtomicUsize::new(0),
        }
    }

    #[inline]
    pub fn start(&self) -> usize {
        self.start.load(Relaxed)
    }

    pub fn mapped(&self) -> usize {
        self.mapped.load(Acquire)
    }

    /// Makes at least the first `bytes` usable. The gate must be held.
    fn grow_to(&self, bytes: usize) -> bool {
        let mapped = self.mapped.load(Relaxed);
        if bytes <= mapped {
            return true;
        }
        // An eighth ahead, so that the number of mappings stays logarithmic.
        let ahead = (bytes.max(mapped + mapped / 8)).next_multiple_of(16 * PAGE);
        for end in [ahead, bytes.next_multiple_of(PAGE)] {
            if end <= self.room.load(Relaxed) && self.map(mapped, end) {
                self.mapped.store(end, Release);
                return true;
            }
        }
        false
    }

    fn map(&self, from: usize, to: usize) -> bool {
        let (start, torn) = (self.start(), self.intent.load(Relaxed));
        if torn > from {
            // SAFETY: the range is the heap's own and nothing is in it yet.
            let _ = unsafe { os::map_over(start + from, torn - from) };
            if torn >= to {
                self.intent.store(0, Relaxed);
                return true;
            }
            return self.map(torn, to);
        }
        self.intent.store(to, Relaxed);
        let ok = map_fresh(start + from, to - from).is_ok();
        self.intent.store(0, Relaxed);
        ok
    }
}

static HEAP: Area = Area::new();
static CHUNKS: Area = Area::new();
static KINDS: Area = Area::new();
pub static SPANS: Area = Area::new();
pub static BATCHES: Area = Area::new();
pub static SLOTS: Area = Area::new();

/// Whether the whole window is one reservation of ours (then mapping over it is right).
static RESERVED: AtomicBool = AtomicBool::new(false);
/// A bit for each chunk that may have a free unit.
pub static OPEN: [AtomicU64; MAX_CHUNKS / 64] = [const { AtomicU64::new(0) }; MAX_CHUNKS / 64];

fn map_fresh(addr: usize, len: usize) -> Result<(), i32> {
    if RESERVED.load(Relaxed) {
        // SAFETY: inside our own reservation, beyond everything mapped so far.
        unsafe { os::map_over(addr, len) }
    } else {
        os::map_at(addr, len)
    }
}

/// The page that a fork wipes: in a child every word of it is 0 again, whatever other threads of the
/// parent were doing. So no fork handler is needed, and `_Fork` and raw clone are covered as well.
#[repr(C)]
pub struct Wiped {
    /// 1 once set up: 0 says that this process is a child that has not yet been looked after.
    pub born: AtomicU32,
    gate: AtomicU32,
    pub upkeep: AtomicU32,
    pub turn: AtomicU32,
}

static WIPED: AtomicUsize = AtomicUsize::new(0);
static BEFORE: Wiped =
    Wiped { born: AtomicU32::new(1), gate: AtomicU32::new(0), upkeep: AtomicU32::new(0), turn: AtomicU32::new(0) };

#[inline]
pub fn wiped() -> &'static Wiped {
    match WIPED.load(Acquire) {
        0 => &BEFORE,
        // SAFETY: set once, to a page that is never unmapped.
        at => unsafe { &*(at as *const Wiped) },
    }
}

/// Held while address space is mapped. Signals are blocked, so a handler that allocates on top of a
/// holder cannot wait for itself.
pub struct Gate(u64);

impl Gate {
    pub fn enter() -> Gate {
        let mask = os::block_signals();
        let gate = &wiped().gate;
        while gate.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            WAITS.fetch_add(1, Relaxed);
            os::yield_cpu();
        }
        Gate(mask)
    }

    /// Makes at least the first `bytes` of a table usable.
    pub fn grow(&self, area: &Area, bytes: usize) -> bool {
        area.grow_to(bytes)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        wiped().gate.store(0, Release);
        os::restore_signals(self.0);
    }
}

/// Bytes of each table in a window of `1 << shift` bytes of heap.
fn plan(shift: u32) -> [(&'static Area, usize); 6] {
    let heap = 1usize << shift;
    [
        (&HEAP, heap),
        (&CHUNKS, (heap >> CHUNK_SHIFT) * size_of::<Chunk>()),
        (&KINDS, (heap >> UNIT_SHIFT) * 4),
        (&SPANS, heap / 64),
        (&BATCHES, heap / 64),
        (&SLOTS, (heap / 16).min(4 << 30)),
    ]
}

fn lay_out(base: usize, shift: u32) {
    let mut at = base;
    for (area, room) in plan(shift) {
        let room = room.next_multiple_of(CHUNK);
        area.start.store(at, Relaxed);
        area.mapped.store(0, Relaxed);
        area.room.store(room, Relaxed);
        at += room;
    }
}

/// Bytes of a span's descriptor. There is room for one to each unit, so that a limit that stops the
/// heap from growing does not stop it from using what it has.
pub const SPAN: usize = 384;

/// The first mapping.
pub const FIRST: usize = 2 * CHUNK;

/// Finds a window and maps its beginning. Called once, before there is a second thread.
pub fn open() -> bool {
    let Ok(page) = os::map(PAGE) else { return false };
    const WIPE_ON_FORK: i32 = 18;
    // SAFETY: the page is new and empty.
    let _ = unsafe { os::advise(page, PAGE, WIPE_ON_FORK) };
    // SAFETY: as above; zeroed memory is a valid Wiped.
    unsafe { &*(page as *const Wiped) }.born.store(1, Relaxed);
    WIPED.store(page, Release);

    let gate = Gate::enter();
    const TIB: usize = 1 << 40;
    // Under the kernel's top-down mappings with 24 TiB between, above where programs are loaded; the
    // page's own random address makes the window's random.
    let below = (page & !((1 << 30) - 1)).wrapping_sub(32 * TIB);
    for base in [below, 0x1000_0000_0000, 0x3000_0000_0000] {
        lay_out(base, WINDOW_SHIFT);
        if base < 127 * TIB && settle(&gate) {
            return true;
        }
    }
    for shift in [38, 36, 34, 32, 30, 28] {
        let whole: usize = plan(shift).iter().map(|(_, room)| room.next_multiple_of(CHUNK)).sum();
        if let Ok(at) = os::map(whole + (1 << 30)) {
            RESERVED.store(true, Relaxed);
            lay_out(at.next_multiple_of(1 << 30), shift);
            return settle(&gate);
        }
    }
    false
}

fn settle(gate: &Gate) -> bool {
    WINDOW.base.store(HEAP.start(), Relaxed);
    WINDOW.kinds.store(KINDS.start().wrapping_sub((HEAP.start() >> UNIT_SHIFT) * 4), Relaxed);
    WINDOW.secret.store(os::random(), Relaxed);
    extend(gate, FIRST / CHUNK, 1)
}

/// Maps at least `chunks` more, the first of them at a multiple of `align` chunks.
fn extend(_gate: &Gate, chunks: usize, align: usize) -> bool {
    let old = limit_chunk();
    let room = HEAP.room.load(Relaxed) / CHUNK;
    let mut first = old.next_multiple_of(align);
    let mut step = chunks.max((old / 8).clamp(FIRST / CHUNK, 128));
    for _ in 0..64 {
        let end = first + step;
        let tables = end <= room
            && CHUNKS.grow_to(end * size_of::<Chunk>())
            && KINDS.grow_to(end * CHUNK_UNITS * 4)
            && SPANS.grow_to((end * CHUNK_UNITS + 1) * SPAN);
        if !tables {
            if step == chunks {
                return false;
            }
            step = chunks.max(step / 2);
            continue;
        }
        let at = HEAP.start() + first * CHUNK;
        match map_fresh(at, step * CHUNK) {
            Ok(()) => {
                // Sparse until proven dense: one touched page must not cost 2 MiB.
                // SAFETY: NOHUGEPAGE loses nothing.
                let _ = unsafe { os::advise(at, step * CHUNK, libc::MADV_NOHUGEPAGE) };
                HEAP.mapped.store(HEAP.mapped() + step * CHUNK, Relaxed);
                for c in first..end {
                    chunk(c).free.store(!0, Relaxed);
                    OPEN[c / 64].fetch_or(1 << (c % 64), Release);
                }
                WINDOW.limit.store(end * CHUNK, Release);
                return true;
            }
            // Something else lives there: leave a hole, in which no unit is ever free.
            Err(libc::EEXIST) => first = (first + step).next_multiple_of(align),
            Err(_) if step > chunks => step = chunks.max(step / 2),
            Err(_) => return false,
        }
    }
    false
}

/// Maps more of the estate for a run of `units`, unless another thread has done so since `seen`.
pub fn grow(units: usize, align_units: usize, seen: usize) -> bool {
    let gate = Gate::enter();
    if limit_chunk() != seen {
        return true;
    }
    extend(&gate, units.div_ceil(CHUNK_UNITS), align_units.div_ceil(CHUNK_UNITS))
}

/// One past the last chunk that has tables.
#[inline]
pub fn limit_chunk() -> usize {
    WINDOW.limit.load(Acquire) / CHUNK
}

#[inline]
pub fn chunk(c: usize) -> &'static Chunk {
    debug_assert!(c < CHUNKS.mapped() / size_of::<Chunk>());
    // SAFETY: callers stay below limit_chunk(), where the table is mapped; zeroed memory is a valid Chunk.
    unsafe { &*((CHUNKS.start() + c * size_of::<Chunk>()) as *const Chunk) }
}

#[inline]
pub fn address(unit: usize) -> usize {
    WINDOW.base.load(Relaxed) + (unit << UNIT_SHIFT)
}

/// The unit that holds `p`, if `p` lies in the estate.
#[inline]
pub fn unit_of(p: usize) -> Option<usize> {
    let offset = p.wrapping_sub(WINDOW.base.load(Relaxed));
    (offset < WINDOW.limit.load(Acquire)).then_some(offset >> UNIT_SHIFT)
}

#[inline]
pub fn owner(unit: usize) -> &'static AtomicU32 {
    &chunk(unit / CHUNK_UNITS).owner[unit % CHUNK_UNITS]
}

/// See `kinds` above.
#[inline]
pub fn kind(unit: usize) -> &'static AtomicU32 {
    // SAFETY: units handed out lie below the limit, where the table is mapped.
    unsafe { &*((KINDS.start() + unit * 4) as *const AtomicU32) }
}

/// The first word of a block; `p` must lie in the heap, in memory that is in use.
#[inline]
pub fn first_word(p: usize) -> &'static AtomicUsize {
    // SAFETY: the caller has taken the block, or found it to be one.
    unsafe { &*(p as *const AtomicUsize) }
}

/// What the first word of a free small block holds.
#[inline]
pub fn seal(p: usize) -> usize {
    p ^ WINDOW.secret.load(Relaxed)
}

/// Address space mapped for blocks, in bytes.
pub fn mapped() -> usize {
    HEAP.mapped()
}

/// Address space mapped for the tables.
pub fn tables() -> usize {
    [&CHUNKS, &KINDS, &SPANS, &BATCHES, &SLOTS].iter().map(|a| a.mapped()).sum()
}
