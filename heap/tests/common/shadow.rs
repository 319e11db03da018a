//! The shadow heap: what the heap has promised, kept apart from it, and compared with what it does.
//!
//! - no two live blocks overlap; each is aligned, and as large as was asked for;
//! - a block's contents stay, its usable size too; calloc's are zeros; realloc takes them along;
//! - the statistics say how many blocks of each bucket are live, to the block;
//! - a free of anything but a live block is reported, in one line that names it, and changes nothing;
//! - when all is freed and purged, nothing is left.
//!
//! A block of up to 4 KiB is filled whole; of a larger one, both ends and a word on each page.

use super::{Random, face, stderr_of};
use heap::bucket::{self, BUCKETS, COUNT, MEDIUM_MAX, PAGE, UNIT};
use heap::estate::WINDOW;
use heap::{inspect, options, stats, upkeep};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
    /// A wrong free (or realloc, or a question after its size): which way, and of what.
    Wrong(usize, usize),
    /// The option `slot_bytes`.
    Bound(usize),
    /// A pass of upkeep.
    Pass,
    Purge,
    Census,
}

/// Any four bytes are an operation: so proptest and the fuzzer speak one language.
pub fn op([kind, a, b, c]: [u8; 4]) -> Op {
    // From 1 byte to 8 MiB, each doubling as often.
    let size = |most: u32| ((256 + b as usize) << (a as u32 % most)) >> 8;
    let any = a as usize | (b as usize) << 8;
    match kind % 32 {
        0..5 => Op::Malloc(size(23)),
        5 => Op::Pass,
        6..10 => Op::Many(size(12), c as usize),
        10..12 => Op::Calloc(size(23)),
        12 => Op::Bound(size(23)),
        13..16 => Op::Aligned(16 << (c % 19), size(23)),
        16..19 => Op::Realloc(c as usize, size(23)),
        19..25 => Op::Free(any),
        25 => Op::Wrong(c as usize, any),
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
    /// Where in PATTERN its contents begin.
    seed: usize,
    /// A run of its own, in no bucket.
    large: bool,
}

/// What blocks are filled with. Copied and compared as a whole: the fuzzer looks at every step of a loop.
/// Every fourth word is 0: such a first word makes a free look twice.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random(0);
    let words = (0..(SEEDS + 2 * PAGE) / 8).map(|i| if i % 4 == 0 { 0 } else { random.next() });
    words.flat_map(u64::to_le_bytes).collect()
});
const SEEDS: usize = 1 << 16;

impl Block {
    fn pointer(&self) -> *mut u8 {
        self.at as *mut u8
    }

    /// The parts that are filled: none longer than a page.
    fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        let n = self.usable;
        let (ends, pages) = if n <= PAGE { ([0..n, n..n], 0) } else { ([0..512, n - 512..n], n / PAGE) };
        (0..pages).map(|k| k * PAGE..k * PAGE + 8).chain(ends)
    }

    fn value(&self, part: &Range<usize>) -> &'static [u8] {
        let at = (part.start + part.start / PAGE * 8) % PAGE;
        &PATTERN[self.seed + at..][..part.len()]
    }

    fn fill(&self) {
        for part in self.parts() {
            // SAFETY: the block is ours, and this far usable.
            let place = unsafe { std::slice::from_raw_parts_mut(self.pointer().add(part.start), part.len()) };
            place.copy_from_slice(self.value(&part));
        }
    }

    /// The contents at `p`, up to `n` bytes, are still this block's.
    fn check(&self, p: *mut u8, n: usize) {
        for part in self.parts() {
            let len = n.saturating_sub(part.start).min(part.len());
            // SAFETY: as above.
            let found = unsafe { std::slice::from_raw_parts(p.add(part.start.min(n)), len) };
            assert!(found == &self.value(&part)[..len], "{self:?} was written to, in {part:?}: {found:x?}");
        }
    }
}

/// The blocks of one thread.
pub struct Shadow {
    blocks: Vec<Block>,
    /// Beginning -> end.
    ranges: BTreeMap<usize, usize>,
    bytes: usize,
    /// Where the last blocks lay that were freed, and how many there have been.
    freed: [usize; 64],
    frees: usize,
    /// Wrong frees that the heap has reported.
    pub wrong: usize,
}

const MOST_BYTES: usize = 128 << 20;
const MOST_BLOCKS: usize = 20_000;

impl Default for Shadow {
    fn default() -> Shadow {
        Shadow { blocks: Vec::new(), ranges: BTreeMap::new(), bytes: 0, freed: [0; 64], frees: 0, wrong: 0 }
    }
}

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
                assert!(zeros.chunks(PAGE).all(|c| *c == [0; PAGE][..c.len()]), "calloc({size}) is not zero");
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
            Op::Wrong(way, what) => self.wrong(way, what),
            Op::Bound(bytes) => set("slot_bytes", bytes),
            Op::Pass => _ = upkeep::pass(),
            Op::Purge => _ = upkeep::purge(),
            Op::Census => self.check_census(),
        }
    }

    fn malloc(&mut self, size: usize) {
        self.add(face::malloc(size), 16, size, size > MEDIUM_MAX);
    }

    fn add(&mut self, p: *mut u8, align: usize, size: usize, large: bool) {
        static SEED: AtomicUsize = AtomicUsize::new(1);
        let at = p as usize;
        assert!(at != 0 && at.is_multiple_of(align), "{p:?} for {size} bytes at a multiple of {align}");
        let usable = face::usable(p);
        assert!(usable >= size, "{size} bytes asked for, {usable} usable");
        let seed = SEED.fetch_add(0x9e37_79b9, Relaxed) * 8 % SEEDS;
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
            self.freed[self.frees % self.freed.len()] = block.at;
            self.frees += 1;
        }
    }

    /// A call with a pointer that is no live block's. (With threads it might be another's.)
    fn wrong(&mut self, way: usize, what: usize) {
        let (base, limit) = (WINDOW.base.load(Relaxed), WINDOW.limit.load(Relaxed));
        let inside = |step: usize| match &self.blocks[..] {
            [] => base + what % limit,
            blocks => blocks[what % blocks.len()].at + step,
        };
        let p = match way % 8 {
            0..3 => self.freed[what % self.freed.len()],
            3 => inside(1 + what % 31),
            4 => inside(16),
            5 => base + (what << 9 | way >> 5 << 4) % limit,
            6 => base + limit + what,
            _ => what,
        };
        if p == 0 || self.ranges.contains_key(&p) {
            return;
        }
        set("abort", 0);
        let (before, p) = (stats::WRONG.load(Relaxed), p as *mut u8);
        let report = stderr_of(|| match way >> 3 & 3 {
            0 => assert!(face::realloc(p, what).is_null()),
            1 => assert_eq!(face::usable(p), 0),
            _ => face::free(p),
        });
        let line = format!("evenkeel: {p:?}: ");
        assert!(report.starts_with(&line) && report.lines().count() == 1, "wrong free of {p:?}: {report:?}");
        assert_eq!(stats::WRONG.load(Relaxed), before + 1);
        self.wrong += 1;
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

    /// Frees everything.
    pub fn close(&mut self) {
        self.free_some(1);
    }
}

/// Leaves the heap as it was found: for the fuzzer's next input, or for proptest to try a shorter one.
impl Drop for Shadow {
    fn drop(&mut self) {
        set("slot_bytes", options::SLOT_BYTES.default);
        self.blocks.drain(..).for_each(|block| face::free(block.pointer()));
    }
}

fn set(option: &str, value: usize) {
    options::set(option.as_bytes(), value.to_string().as_bytes()).unwrap();
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
    upkeep::purge();
    if let Some(wrong) = differs(&[]) {
        return Some(wrong);
    }
    let census = inspect::census();
    let spans: usize = census.buckets.iter().map(|line| line.spans).sum();
    let left = (spans, census.pages_live, census.pages_free);
    (left != (0, 0, 0)).then(|| format!("left: {} spans, {} bytes live, {} bytes free", left.0, left.1, left.2))
}
