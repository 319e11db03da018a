//! The free map of a span, and who lists the span. A leaf: atomics only, so that loom can try every
//! interleaving of it.
//!
//! Blocks leave and return a word at a time, atomically, so nobody waits here.
//!
//! - a set bit of a word: the block is free and in nobody's hands;
//! - `free` counts the set bits; it may run behind them for a moment, in both directions;
//! - `place`: LISTED = in the list of its bucket, or in the hands of the one who popped it (who alone
//!   may push it again); OUT = in no list, because it was full; RETIRED = its blocks are all taken for
//!   good, and whoever holds or pops it recycles the descriptor; LARGE = never listed;
//! - whoever holds a block, or a bit taken from the map, pins the span: it cannot retire;
//! - a span with free blocks that nobody is about to touch is LISTED.

use crate::sync::{AtomicU32, AtomicU64, Ordering::*, step};

const OUT: u32 = 0;
const LISTED: u32 = 1;
const RETIRED: u32 = 2;
const LARGE: u32 = 3;

#[repr(C)]
pub struct Map<const WORDS: usize> {
    place: AtomicU32,
    free: AtomicU32,
    /// Of this life: how many there are in all.
    blocks: AtomicU32,
    words: [AtomicU64; WORDS],
}

/// What the holder of a listed span does with it.
#[derive(Debug, PartialEq)]
pub enum Then {
    /// Push it: it has free blocks.
    Push,
    /// Nothing: it is full, and out of the list.
    Leave,
    /// It retired meanwhile: recycle the descriptor.
    Recycle,
}

impl<const WORDS: usize> Map<WORDS> {
    /// Begins a life: all blocks free, the span in the caller's hands.
    pub fn fill(&self, blocks: usize) {
        self.place.store(LISTED, Relaxed);
        self.free.store(blocks as u32, Relaxed);
        self.blocks.store(blocks as u32, Relaxed);
        for (w, word) in self.words.iter().enumerate() {
            let here = blocks.saturating_sub(w * 64).min(64);
            word.store(if here == 0 { 0 } else { !0 >> (64 - here) }, Release);
        }
    }

    /// Begins the life of a large block.
    pub fn set_large(&self) {
        self.free.store(0, Relaxed);
        self.place.store(LARGE, Relaxed);
    }

    pub fn end_large(&self) {
        self.place.store(RETIRED, Relaxed);
    }

    #[inline]
    pub fn retired(&self) -> bool {
        self.place.load(Acquire) == RETIRED
    }

    #[inline]
    pub fn free(&self) -> u32 {
        self.free.load(Relaxed)
    }

    /// Counts the bits themselves.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.load(Relaxed).count_ones() as usize).sum()
    }

    /// Takes up to `want` free blocks, the lowest first; `each` gets the words and the bits.
    #[inline]
    pub fn take(&self, blocks: usize, want: usize, mut each: impl FnMut(usize, u64)) -> usize {
        let mut n = 0;
        for (w, word) in self.words[..blocks.div_ceil(64)].iter().enumerate() {
            let mut now = word.load(Relaxed);
            while now != 0 {
                let bits = lowest(now, want - n);
                step();
                match word.compare_exchange_weak(now, now & !bits, AcqRel, Relaxed) {
                    Ok(_) => {
                        n += bits.count_ones() as usize;
                        each(w, bits);
                        break;
                    }
                    Err(changed) => now = changed,
                }
            }
            if n == want {
                break;
            }
        }
        self.free.fetch_sub(n as u32, SeqCst);
        n
    }

    /// Returns blocks of a word. Says which were free already: those are not counted.
    #[inline]
    pub fn give(&self, w: usize, bits: u64) -> u64 {
        step();
        self.words[w].fetch_or(bits, AcqRel) & bits
    }

    /// Counts `n` blocks that `give` returned. From here on they no longer pin the span. Says how many
    /// are free now, and whether the caller must push the span.
    #[inline]
    pub fn returned(&self, n: u32) -> (u32, bool) {
        step();
        let free = self.free.fetch_add(n, SeqCst).wrapping_add(n);
        step();
        (free, self.enlist())
    }

    /// Lists a span that is in no list: true if the caller must push it.
    fn enlist(&self) -> bool {
        self.place.load(SeqCst) == OUT && self.place.compare_exchange(OUT, LISTED, SeqCst, SeqCst).is_ok()
    }

    /// The holder of a listed span has taken what he wanted.
    pub fn put_back(&self) -> Then {
        if self.free.load(SeqCst) != 0 {
            return Then::Push;
        }
        step();
        if self.place.compare_exchange(LISTED, OUT, SeqCst, SeqCst).is_err() {
            return Then::Recycle;
        }
        step();
        if self.free.load(SeqCst) != 0 && self.enlist() { Then::Push } else { Then::Leave }
    }

    /// Takes every block, if every block is free: then the caller owns the span, and must `retire` it.
    pub fn take_whole(&self, blocks: usize) -> bool {
        let mut got = [0u64; WORDS];
        let mut n = 0;
        for (word, got) in self.words.iter().zip(&mut got).take(blocks.div_ceil(64)) {
            *got = word.swap(0, AcqRel);
            step();
            n += got.count_ones() as usize;
        }
        // All bits are not enough: the descriptor may have begun another life, and a block that is given
        // back but not yet counted would be counted in the next one.
        if n == blocks
            && self.blocks.load(Relaxed) as usize == blocks
            && self.free.compare_exchange(n as u32, 0, SeqCst, SeqCst).is_ok()
        {
            return true;
        }
        self.put_bits(&got);
        false
    }

    /// Ends the life of a span taken whole. True if the caller must recycle the descriptor, false if
    /// the one who holds or pops it will.
    pub fn retire(&self) -> bool {
        loop {
            if self.place.compare_exchange(LISTED, RETIRED, SeqCst, SeqCst).is_ok() {
                return false;
            }
            step();
            if self.place.compare_exchange(OUT, RETIRED, SeqCst, SeqCst).is_ok() {
                return true;
            }
        }
    }

    /// Takes exactly these bits of a range of blocks, or none.
    pub fn take_range(&self, blocks: core::ops::RangeInclusive<usize>) -> Option<[u64; WORDS]> {
        let mut got = [0u64; WORDS];
        let mut all = true;
        for (w, bits) in pieces(blocks) {
            got[w] = self.words[w].fetch_and(!bits, AcqRel) & bits;
            step();
            all &= got[w] == bits;
        }
        if all {
            return Some(got);
        }
        self.put_bits(&got);
        None
    }

    /// Puts back bits that were taken without being counted.
    pub fn put_bits(&self, bits: &[u64; WORDS]) {
        for (word, &bits) in self.words.iter().zip(bits).filter(|(_, bits)| **bits != 0) {
            word.fetch_or(bits, AcqRel);
        }
    }

    /// Whether every block of a range is free.
    pub fn all_free(&self, blocks: core::ops::RangeInclusive<usize>) -> bool {
        pieces(blocks).all(|(w, bits)| self.words[w].load(Relaxed) & bits == bits)
    }
}

/// The `n` lowest ones of a word (all of them if there are no more).
fn lowest(word: u64, n: usize) -> u64 {
    if word.count_ones() as usize <= n {
        return word;
    }
    let mut rest = word;
    for _ in 0..n {
        rest &= rest - 1;
    }
    word ^ rest
}

/// The words that a range of bits touches, each with its bits.
pub fn pieces(range: core::ops::RangeInclusive<usize>) -> impl Iterator<Item = (usize, u64)> {
    let (from, to) = range.into_inner();
    (from / 64..=to / 64).map(move |w| {
        let low = if w == from / 64 { from % 64 } else { 0 };
        let high = if w == to / 64 { to % 64 } else { 63 };
        (w, (!0 >> (63 - high)) & (!0 << low))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lowest_ones() {
        assert_eq!(lowest(0b1011_0100, 2), 0b1_0100);
        assert_eq!(lowest(!0, 64), !0);
        assert_eq!(lowest(0, 3), 0);
        assert_eq!(lowest(1 << 63 | 1, 1), 1);
    }

    #[test]
    fn pieces_cover_a_range_once() {
        for (from, to) in [(0, 0), (3, 60), (0, 63), (63, 64), (10, 200), (64, 127)] {
            let bits: Vec<usize> = pieces(from..=to)
                .flat_map(|(w, b)| (0..64).filter(move |i| b >> i & 1 == 1).map(move |i| w * 64 + i))
                .collect();
            assert_eq!(bits, (from..=to).collect::<Vec<_>>());
        }
    }
}
