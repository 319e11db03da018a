//! The shadow heap: what the heap has promised, kept apart from it, and compared with what it does.
//!
//! - no two live blocks overlap; each is aligned, and as large as was asked for;
//! - a block's contents stay, its usable size too; calloc's are zeros; realloc takes them along;
//! - the statistics say how many blocks of each bucket are live, to the block;
//! - when all is freed and purged, nothing is left.
//!
//! A block of up to 4 KiB is filled whole; of a larger one, both ends and a word on each page.

use super::face;
use heap::bucket::{self, BUCKETS, COUNT, MEDIUM_MAX, PAGE, UNIT};
use heap::inspect;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    Malloc(usize),
    /// So many small blocks.
    Many(usize, usize),
    Calloc(usize),
    Aligned(usize, usize),
    Realloc(usize, usize),
    Free(usize),
    /// Every n-th block.
    FreeSome(usize),
    Usable(usize),
    Purge,
    Census,
}

/// Any four bytes are an operation: so proptest and the fuzzer speak one language.
pub fn op([kind, a, b, c]: [u8; 4]) -> Op {
    // From 1 byte to 8 MiB, each doubling as often.
    let size = |most: u32| ((256 + b as usize) << (a as u32 % most)) >> 8;
    let any = a as usize | (b as usize) << 8;
    match kind % 32 {
        0..6 => Op::Malloc(size(23)),
        6..10 => Op::Many(size(12), c as usize),
        10..13 => Op::Calloc(size(23)),
        13..16 => Op::Aligned(16 << (c % 19), size(23)),
        16..19 => Op::Realloc(c as usize, size(23)),
        19..26 => Op::Free(any),
        26..28 => Op::FreeSome(1 + c as usize % 8),
        28 => Op::Usable(any),
        29 => Op::Malloc(any % 1040),
        30 => Op::Purge,
        _ => Op::Census,
    }
}

pub fn ops(bytes: &[u8]) -> impl Iterator<Item = Op> {
    bytes.as_chunks::<4>().0.iter().map(|c| op(*c))
}

#[derive(Debug)]
pub struct Block {
    at: usize,
    usable: usize,
    seed: u64,
    /// A run of its own, in no bucket.
    large: bool,
}

impl Block {
    fn pointer(&self) -> *mut u8 {
        self.at as *mut u8
    }

    fn words(&self) -> impl Iterator<Item = usize> {
        let n = self.usable;
        let (ends, step) = if n <= PAGE { (n, PAGE) } else { (512, PAGE) };
        (0..ends).chain((ends..n).step_by(step)).chain(n - ends..n).step_by(8).filter(|at| at % 8 == 0)
    }

    fn value(&self, at: usize) -> u64 {
        self.seed ^ (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn fill(&self) {
        // SAFETY: the block is ours, and this far usable.
        self.words().for_each(|at| unsafe { self.pointer().add(at).cast::<u64>().write(self.value(at)) });
    }

    /// The contents at `p`, up to `n` bytes, are still this block's.
    fn check(&self, p: *mut u8, n: usize) {
        for at in self.words().take_while(|at| at + 8 <= n) {
            // SAFETY: as above.
            let found = unsafe { p.add(at).cast::<u64>().read() };
            assert!(found == self.value(at), "{self:?} was written to, at {at}: {found:#x}");
        }
    }
}

/// The blocks of one thread.
#[derive(Default)]
pub struct Shadow {
    blocks: Vec<Block>,
    /// Beginning -> end.
    ranges: BTreeMap<usize, usize>,
    bytes: usize,
}

const MOST_BYTES: usize = 128 << 20;
const MOST_BLOCKS: usize = 20_000;

impl Shadow {
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Does what is asked, or makes room for it if too much is live.
    pub fn apply(&mut self, op: Op) {
        match op {
            _ if self.bytes > MOST_BYTES || self.blocks.len() > MOST_BLOCKS => self.free_some(2),
            Op::Malloc(size) => self.malloc(size),
            Op::Many(size, n) => (0..n).for_each(|_| self.malloc(size)),
            Op::Calloc(size) => {
                let p = face::calloc(size);
                // SAFETY: the block holds that many bytes.
                let zeros = unsafe { std::slice::from_raw_parts(p, size) };
                assert!(zeros.iter().all(|b| *b == 0), "calloc({size}) is not zero");
                self.add(p, 16, size, size > MEDIUM_MAX);
            }
            Op::Aligned(align, size) => {
                let large = align > 16 && (align > UNIT || size.max(align) > MEDIUM_MAX) || size > MEDIUM_MAX;
                self.add(face::aligned(align, size), align, size, large);
            }
            Op::Realloc(i, size) => self.realloc(i, size),
            Op::Free(i) => self.free(i),
            Op::FreeSome(n) => self.free_some(n),
            Op::Usable(i) => {
                if let Some(block) = self.blocks.get(i % self.blocks.len().max(1)) {
                    assert_eq!(face::usable(block.pointer()), block.usable, "usable size changed");
                }
            }
            Op::Purge => {
                heap::upkeep::purge();
            }
            Op::Census => self.check_census(),
        }
    }

    fn malloc(&mut self, size: usize) {
        self.add(face::malloc(size), 16, size, size > MEDIUM_MAX);
    }

    fn add(&mut self, p: *mut u8, align: usize, size: usize, large: bool) {
        static SEED: AtomicU64 = AtomicU64::new(1);
        let at = p as usize;
        assert!(at != 0 && at.is_multiple_of(align), "{p:?} for {size} bytes at a multiple of {align}");
        let usable = face::usable(p);
        assert!(usable >= size, "{size} bytes asked for, {usable} usable");
        let seed = SEED.fetch_add(1, Relaxed).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.adopt(Block { at, usable, seed, large }).fill();
    }

    /// Takes over a block from another thread.
    pub fn adopt(&mut self, block: Block) -> &Block {
        let (from, to) = (block.at, block.at + block.usable);
        let before = self.ranges.range(..to).next_back();
        assert!(before.is_none_or(|(_, end)| *end <= from), "{from:#x}..{to:#x} overlaps {before:x?}");
        self.ranges.insert(from, to);
        self.bytes += block.usable;
        self.blocks.push(block);
        self.blocks.last().unwrap()
    }

    /// Takes a block out, after a look at its contents.
    pub fn hand_over(&mut self, i: usize) -> Option<Block> {
        if self.blocks.is_empty() {
            return None;
        }
        let block = self.blocks.swap_remove(i % self.blocks.len());
        self.ranges.remove(&block.at);
        self.bytes -= block.usable;
        assert_eq!(face::usable(block.pointer()), block.usable, "usable size changed");
        block.check(block.pointer(), block.usable);
        Some(block)
    }

    fn realloc(&mut self, i: usize, size: usize) {
        let Some(block) = self.hand_over(i) else { return };
        let p = face::realloc(block.pointer(), size);
        block.check(p, block.usable.min(size));
        let large = if p == block.pointer() { block.large } else { size > MEDIUM_MAX };
        self.add(p, 16, size, large);
    }

    fn free(&mut self, i: usize) {
        if let Some(block) = self.hand_over(i) {
            face::free(block.pointer());
        }
    }

    fn free_some(&mut self, n: usize) {
        (0..self.blocks.len()).rev().step_by(n).for_each(|i| self.free(i));
    }

    pub fn check_census(&self) {
        if let Some(wrong) = differs(&[self]) {
            panic!("{wrong}");
        }
    }

    /// Live blocks of each bucket; index 0: the large ones, and their bytes.
    pub fn counts(&self) -> ([usize; COUNT], usize) {
        let (mut counts, mut bytes) = ([0; COUNT], 0);
        for block in &self.blocks {
            let bucket = bucket::of(block.usable).filter(|_| !block.large).unwrap_or(0);
            assert!(bucket == 0 || bucket::size(bucket) == block.usable, "{block:?} has no bucket's size");
            counts[bucket] += 1;
            bytes += if bucket == 0 { block.usable } else { 0 };
        }
        (counts, bytes)
    }

    /// Frees everything; says what is left then, of which there should be nothing.
    pub fn close(&mut self) {
        self.free_some(1);
    }
}

/// A failed test leaves the heap as it found it, for proptest to try a shorter sequence.
impl Drop for Shadow {
    fn drop(&mut self) {
        self.blocks.drain(..).for_each(|block| face::free(block.pointer()));
    }
}

/// Compares the statistics with what these threads hold.
pub fn differs(shadows: &[&Shadow]) -> Option<String> {
    let (mut live, mut bytes) = ([0; COUNT], 0);
    for shadow in shadows {
        let (counts, large) = shadow.counts();
        live.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        bytes += large;
    }
    let census = inspect::census();
    for (b, line) in census.buckets.iter().enumerate().skip(1) {
        let all = line.spans * BUCKETS[b].blocks as usize;
        let idle = line.slots + line.depot + line.free;
        if line.live != live[b] || line.live + idle != all {
            return Some(format!(
                "bucket {b}: {} live, {} in slots, {} in the depot, {} free, {} in spans; in truth {} live",
                line.live, line.slots, line.depot, line.free, all, live[b]
            ));
        }
    }
    if census.large != (live[0], bytes) {
        return Some(format!("large blocks and bytes: {:?}, in truth {:?}", census.large, (live[0], bytes)));
    }
    let pages = census.pages_live + census.pages_free + census.pages_returned;
    (pages != census.mapped).then(|| format!("pages by state add up to {pages} of {} bytes", census.mapped))
}

/// With nothing live, a purge leaves nothing: no cached block, no span, no page.
pub fn anything_left() -> Option<String> {
    heap::upkeep::purge();
    if let Some(wrong) = differs(&[]) {
        return Some(wrong);
    }
    let census = inspect::census();
    let spans: usize = census.buckets.iter().map(|line| line.spans).sum();
    let left = (spans, census.pages_live, census.pages_free);
    (left != (0, 0, 0)).then(|| format!("left: {} spans, {} bytes live, {} bytes free", left.0, left.1, left.2))
}
