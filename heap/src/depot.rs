//! The depot: batches of free blocks on their way from one slot to another.
//!
//! One lock-free stack of batches for each bucket. A batch is an array of pointers in memory of the
//! heap's own; the blocks themselves are not touched. The number of batches of a bucket is bounded,
//! what exceeds it goes back to the spans.
//!
//! - a batch is in one bucket's stack, or in UNUSED, or in the hands of one thread, which alone reads
//!   and writes its blocks then.

use crate::bucket::{BATCH, COUNT};
use crate::estate::{self, BATCHES};
use crate::stack::Stack;
use crate::sync::{AtomicU32, AtomicUsize, Ordering::Relaxed};

#[repr(C)]
struct Batch {
    next: AtomicU32,
    len: AtomicU32,
    /// Batches on the shelf when this one was put there, itself included: about how deep it lies.
    depth: AtomicU32,
    blocks: [AtomicUsize; BATCH],
}
const _: () = assert!(size_of::<Batch>() == 512);

#[repr(align(64))]
struct Shelf {
    batches: Stack,
    /// Used since upkeep last looked.
    used: AtomicU32,
}

impl Shelf {
    fn depth(&self) -> u32 {
        match self.batches.top() {
            0 => 0,
            top => get(top).depth.load(Relaxed),
        }
    }

    fn touch(&self) {
        if self.used.load(Relaxed) == 0 {
            self.used.store(1, Relaxed);
        }
    }
}

static SHELVES: [Shelf; COUNT] = [const { Shelf { batches: Stack::new(), used: AtomicU32::new(0) } }; COUNT];
static UNUSED: Stack = Stack::new();
static MADE: AtomicU32 = AtomicU32::new(0);
/// Batches of one bucket at most.
static BOUND: AtomicU32 = AtomicU32::new(16);

pub fn set_bound(cpus: usize) {
    BOUND.store(8 + 4 * cpus.min(256) as u32, Relaxed);
}

fn get(index: u32) -> &'static Batch {
    // SAFETY: indices come from MADE, whose batches are mapped first; zeroed memory is a valid Batch.
    unsafe { &*((BATCHES.start() + index as usize * size_of::<Batch>()) as *const Batch) }
}

fn link(index: u32) -> &'static AtomicU32 {
    &get(index).next
}

fn empty_batch() -> Option<u32> {
    if let Some(index) = UNUSED.pop(link) {
        return Some(index);
    }
    let index = MADE.fetch_add(1, Relaxed) + 1;
    let bytes = (index as usize + 1) * size_of::<Batch>();
    (bytes <= BATCHES.mapped() || estate::Gate::enter().grow(&BATCHES, bytes)).then_some(index)
}

/// Puts up to BATCH blocks of a bucket; false if the bucket holds enough already.
pub fn put(bucket: usize, blocks: &[usize]) -> bool {
    let shelf = &SHELVES[bucket];
    let depth = shelf.depth();
    if depth >= BOUND.load(Relaxed) {
        return false;
    }
    let Some(index) = empty_batch() else { return false };
    let batch = get(index);
    batch.len.store(blocks.len() as u32, Relaxed);
    batch.blocks.iter().zip(blocks).for_each(|(place, &p)| place.store(p, Relaxed));
    batch.depth.store(depth + 1, Relaxed);
    shelf.touch();
    shelf.batches.push(index, link);
    true
}

/// Takes a batch; `out` has room for BATCH.
pub fn take(bucket: usize, out: &mut [usize; BATCH]) -> usize {
    let shelf = &SHELVES[bucket];
    let Some(index) = shelf.batches.pop(link) else { return 0 };
    shelf.touch();
    let batch = get(index);
    let n = batch.len.load(Relaxed) as usize;
    out.iter_mut().zip(&batch.blocks[..n]).for_each(|(p, place)| *p = place.load(Relaxed));
    UNUSED.push(index, link);
    n
}

/// Whether the bucket's shelf was used since the last call.
pub fn was_used(bucket: usize) -> bool {
    SHELVES[bucket].used.swap(0, Relaxed) != 0
}

/// Blocks of a bucket that lie here.
pub fn census(bucket: usize) -> usize {
    // Walking a stack that others change is safe (batches are never unmapped) and exact when they
    // rest; the bound ends a walk that was led in circles.
    let (mut index, mut blocks) = (SHELVES[bucket].batches.top(), 0);
    for _ in 0..2 * BOUND.load(Relaxed) {
        if index == 0 {
            break;
        }
        blocks += get(index).len.load(Relaxed) as usize;
        index = get(index).next.load(Relaxed);
    }
    blocks
}
