//! Buckets: which block sizes exist, and how a span of each is cut. A leaf: pure arithmetic.
//!
//! - `1..=SMALL`: the 128 buckets of the Segment Heap's LFH, to 16 KiB: a grain of 16 bytes to 1 KiB,
//!   then 16 buckets a doubling (waste <= 6.25 %).
//! - `SMALL+1..COUNT`: medium, 8 buckets a doubling to 256 KiB (waste <= 12.5 %).
//! - Larger requests have no bucket; they are runs of pages.
//!
//! Invariants: `size(of(n)) >= n`, `size(b)` is a multiple of 16, `size(b) < size(b + 1)`.

pub const UNIT_SHIFT: u32 = 15;
/// The grain of runs: what the page layer hands out.
pub const UNIT: usize = 1 << UNIT_SHIFT;
pub const PAGE: usize = 4096;

/// Buckets `1..=SMALL` take the fast path.
pub const SMALL: usize = 128;
pub const SMALL_MAX: usize = 16 << 10;
pub const MEDIUM_MAX: usize = 256 << 10;
pub const COUNT: usize = SMALL + 1 + 32;

pub struct Bucket {
    /// Bytes of a block.
    pub size: u32,
    /// Units of a span, blocks in it.
    pub units: u32,
    pub blocks: u32,
    /// Where the first block of a span begins: differs between buckets, so that the first blocks of
    /// their spans do not share a cache set; a multiple of every power of two that divides the size.
    pub color: u32,
    /// `n / size == n * reciprocal >> RECIPROCAL_SHIFT` for every n inside a span.
    reciprocal: u64,
    /// Where the bucket's stack lies in a slot (index of the sentinel), and how many entries fit.
    pub stack: u16,
    pub room: u16,
    /// How many blocks move at a time between slot, depot and span.
    pub batch: u16,
}

const RECIPROCAL_SHIFT: u32 = 40;
/// Entries of a batch; one node of the depot is this and a header.
pub const BATCH: usize = 62;
/// Entries at the start of a slot: a head for each bucket, and a few words about the slot.
pub const HEADS: usize = (COUNT + 3).next_multiple_of(8);

pub static BUCKETS: [Bucket; COUNT] = table();

/// `n` is a multiple of `size(b)` if and only if `n * MULTIPLE[b] % 2^64 < MULTIPLE[b]`, for n < 2^32;
/// never for b == 0. (`MULTIPLE[b] = 2^64 / size`, rounded up; Lemire, Kaser and Kurz, 2019.)
pub static MULTIPLE: [u64; COUNT] = {
    let mut t = [0; COUNT];
    let mut b = 1;
    while b < COUNT {
        t[b] = u64::MAX / size_formula(b) as u64 + 1;
        b += 1;
    }
    t
};

/// A flag of a unit's kind: there may be free blocks in it without a seal.
pub const UNSEALED: u32 = 1 << 8;

/// The kind of unit `k` of a span: see `estate`.
pub fn kind(b: usize, k: usize) -> u32 {
    let (size, color) = (size(b), BUCKETS[b].color as usize);
    let phase = (k * UNIT + size * 64 - color) % size;
    b as u32 | (phase as u32) << 16
}

/// Entries of a slot: heads, then for each bucket a sentinel (always null) and its stack.
pub const SLOT_ENTRIES: usize = {
    let last = &table()[COUNT - 1];
    (last.stack + last.room) as usize + 1
};
const _: () = assert!(SLOT_ENTRIES <= 1 << 16);

/// `SMALL_OF[(n + 15) / 16]`; `malloc(0)` gets a block of its own.
pub static SMALL_OF: [u8; SMALL_MAX / 16 + 1] = {
    let mut t = [0; SMALL_MAX / 16 + 1];
    let (mut i, mut b) = (0, 1);
    while i < t.len() {
        if i * 16 > size_formula(b) {
            b += 1;
        }
        t[i] = b as u8;
        i += 1;
    }
    t
};

const fn size_formula(b: usize) -> usize {
    if b <= 64 {
        b * 16
    } else if b <= SMALL {
        let (doubling, step) = ((b - 65) / 16, (b - 65) % 16 + 1);
        (1024 + 64 * step) << doubling
    } else {
        let (doubling, step) = ((b - SMALL - 1) / 8, (b - SMALL - 1) % 8 + 1);
        (16384 + 2048 * step) << doubling
    }
}

const fn table() -> [Bucket; COUNT] {
    const NONE: Bucket = Bucket { size: 0, units: 0, blocks: 0, color: 0, reciprocal: 0, stack: 0, room: 0, batch: 0 };
    let mut t = [NONE; COUNT];
    let mut at = HEADS;
    let mut b = 1;
    while b < COUNT {
        let size = size_formula(b);
        // The smallest span that holds eight blocks (four of the medium ones) and wastes at most 1/16.
        let least = if b <= SMALL { 8 } else { 4 };
        let mut units = 1;
        while units * UNIT / size < least || (units * UNIT % size) * 16 > units * UNIT {
            units += 1;
        }
        let color = if size <= 1024 { b * 5 % 16 * 64 / low_bit(size) * low_bit(size) } else { 0 };
        let room = clamp(256 * 1024 / size, 2, 1024);
        t[b] = Bucket {
            size: size as u32,
            units: units as u32,
            blocks: ((units * UNIT - color) / size) as u32,
            color: color as u32,
            reciprocal: (1u64 << RECIPROCAL_SHIFT).div_ceil(size as u64),
            stack: at as u16,
            room: room as u16,
            batch: clamp(64 * 1024 / size, 1, BATCH) as u16,
        };
        // Stacks begin on a cache line of their own, no two neighbours in the same cache set.
        at = (at + room + 1).next_multiple_of(8) + 8;
        b += 1;
    }
    t
}

const fn low_bit(n: usize) -> usize {
    n & n.wrapping_neg()
}

const fn clamp(n: usize, low: usize, high: usize) -> usize {
    if n < low {
        low
    } else if n > high {
        high
    } else {
        n
    }
}

/// The bucket of a request, if one is large enough.
#[inline]
pub fn of(n: usize) -> Option<usize> {
    if n <= SMALL_MAX {
        Some(SMALL_OF[n.div_ceil(16)] as usize)
    } else if n <= MEDIUM_MAX {
        let top = (n - 1).ilog2(); // 14 for (16 KiB, 32 KiB]
        let step = (n - 1) >> (top - 3) & 7;
        Some(SMALL + 1 + (top as usize - 14) * 8 + step)
    } else {
        None
    }
}

#[inline]
pub fn size(b: usize) -> usize {
    BUCKETS[b].size as usize
}

impl Bucket {
    /// The block that holds the byte `offset` after the first block's beginning.
    #[inline]
    pub fn index(&self, offset: usize) -> usize {
        ((offset as u64 * self.reciprocal) >> RECIPROCAL_SHIFT) as usize
    }

    /// Bytes a span takes.
    pub fn span(&self) -> usize {
        self.units as usize * UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_bucket_and_no_smaller_one() {
        for n in 0..=MEDIUM_MAX {
            let b = of(n).unwrap();
            assert!(size(b) >= n && size(b).is_multiple_of(16));
            assert!(b == 1 || size(b - 1) < n, "{n} would fit bucket {}", b - 1);
        }
        assert_eq!(of(MEDIUM_MAX + 1), None);
    }

    #[test]
    fn waste_is_bounded() {
        for n in 1024..=MEDIUM_MAX {
            let waste = (size(of(n).unwrap()) - n) as f64 / size(of(n).unwrap()) as f64;
            assert!(waste <= if n <= SMALL_MAX { 0.0625 } else { 0.125 }, "{n}: {waste}");
        }
    }

    #[test]
    fn the_table_is_the_segment_heaps() {
        assert_eq!([size(1), size(64), size(65), size(80), size(81), size(96)], [16, 1024, 1088, 2048, 2176, 4096]);
        assert_eq!([size(97), size(112), size(113), size(128)], [4352, 8192, 8704, 16384]);
        assert_eq!([size(129), size(COUNT - 1)], [18432, MEDIUM_MAX]);
    }

    #[test]
    fn reciprocals_divide_exactly() {
        for b in &BUCKETS[1..] {
            for offset in (0..b.span()).step_by(8).chain((1..=b.blocks as usize).map(|i| i * b.size as usize - 1)) {
                assert_eq!(b.index(offset), offset / b.size as usize);
            }
        }
    }

    #[test]
    fn kinds_tell_where_blocks_begin() {
        for b in 1..=SMALL {
            let it = &BUCKETS[b];
            for at in (0..it.span()).step_by(8) {
                let offset = at % UNIT + (kind(b, at / UNIT) >> 16) as usize;
                let begins = (offset as u64).wrapping_mul(MULTIPLE[b]) < MULTIPLE[b];
                let is = (at + 64 * it.size as usize - it.color as usize).is_multiple_of(it.size as usize);
                assert_eq!(begins, is, "bucket {b} at {at}");
            }
            assert!((kind(b, 0) & 0xff) as usize == b);
        }
        assert!(MULTIPLE[0] == 0);
    }

    #[test]
    fn spans_fit_their_maps() {
        for b in &BUCKETS[1..] {
            assert!(b.blocks as usize <= UNIT / 16 && b.span() <= 2 << 20);
            assert!(b.size as usize <= SMALL_MAX || b.blocks <= 64);
            assert!((b.span() - (b.blocks * b.size + b.color) as usize) * 16 <= b.span() && b.color < 1024);
            assert!(b.color % (1 << b.size.trailing_zeros()) == 0);
        }
    }
}
