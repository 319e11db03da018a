//! Spans: runs cut into blocks of one bucket, with a map of the free ones that lies apart from them.
//!
//! The map and the rules of listing are in `map`. A block is in exactly one place: its map bit is set,
//! or it lies in the depot or a slot, or the program has it.
//!
//! - whoever holds a block pins its span; whoever pops a span from its list holds it until he puts it back;
//! - `returned`: pages given back to the kernel, in which every block is free;
//! - a large block is a span of one block with bucket 0.
//!
//! Descriptors are never unmapped, so looking at one that retires meanwhile is harmless.

use crate::bucket::{BUCKETS, Bucket, PAGE, SMALL, UNIT, UNIT_SHIFT, UNSEALED, kind};
use crate::estate::{self, SPANS};
use crate::map::{Map, Then, pieces};
use crate::pages;
use crate::report::{self, Fault};
use crate::stack::Stack;
use crate::stats;
use crate::sync::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};

const WORDS: usize = UNIT / 16 / 64;

#[repr(C, align(64))]
pub struct Span {
    next: AtomicU32,
    pub bucket: AtomicU32,
    pub unit: AtomicU32,
    pub units: AtomicU32,
    /// Link of, and membership in, the list of spans that upkeep should look at.
    trim_next: AtomicU32,
    trimming: AtomicU32,
    /// The tick of the last block that left or came.
    stamp: AtomicU32,
    /// Counts the lives of this descriptor.
    life: AtomicU32,
    /// Medium and large: the blocks in the program's hands.
    pub live: AtomicU64,
    /// Large: bytes the program may use.
    pub size: AtomicUsize,
    returned: [AtomicU64; 4],
    map: Map<WORDS>,
}

#[repr(align(64))]
struct List(Stack);

const _: () = assert!(size_of::<Span>() == estate::SPAN);

/// Spans with free blocks, by bucket.
static LISTS: [List; BUCKETS.len()] = [const { List(Stack::new()) }; BUCKETS.len()];
/// Descriptors without a span, and how many there have ever been.
static UNUSED: Stack = Stack::new();
static MADE: AtomicU32 = AtomicU32::new(0);
/// Odd while upkeep holds blocks to give their pages back.
static PURGE: AtomicU32 = AtomicU32::new(0);
/// Spans that may have pages to give back.
static TRIM: Stack = Stack::new();

#[inline]
pub fn get(index: u32) -> &'static Span {
    debug_assert!(index > 0 && index as usize * size_of::<Span>() < SPANS.mapped());
    // SAFETY: indices come from MADE, whose descriptors are mapped before they are handed out;
    // zeroed memory is a valid Span.
    unsafe { &*((SPANS.start() + index as usize * size_of::<Span>()) as *const Span) }
}

fn link(index: u32) -> &'static AtomicU32 {
    &get(index).next
}

fn trim_link(index: u32) -> &'static AtomicU32 {
    &get(index).trim_next
}

/// The span that holds `p`, if any does.
#[inline]
pub fn of(p: usize) -> Option<(u32, &'static Span)> {
    let index = estate::owner(estate::unit_of(p)?).load(Acquire);
    (index != 0).then(|| (index, get(index)))
}

fn descriptor() -> Option<u32> {
    if let Some(index) = UNUSED.pop(link) {
        return Some(index);
    }
    let mut made = MADE.load(Relaxed);
    loop {
        let bytes = (made as usize + 2) * size_of::<Span>();
        if bytes > SPANS.mapped() {
            // Retired spans lie in the lists until somebody pops them.
            sweep();
            if let Some(index) = UNUSED.pop(link) {
                return Some(index);
            }
            if !estate::Gate::enter().grow(&SPANS, bytes) {
                return None;
            }
        }
        match MADE.compare_exchange_weak(made, made + 1, AcqRel, Relaxed) {
            Ok(_) => return Some(made + 1),
            Err(now) => made = now,
        }
    }
}

/// Recycles the descriptors of retired spans in every list.
fn sweep() {
    for list in &LISTS {
        let mut index = list.0.pop_all();
        while index != 0 {
            let next = link(index).load(Relaxed);
            if get(index).map.retired() {
                UNUSED.push(index, link)
            } else {
                list.0.push(index, link)
            }
            index = next;
        }
    }
}

/// A descriptor for a run that the caller owns.
fn settle(bucket: usize, unit: usize, units: usize) -> Option<u32> {
    let index = descriptor()?;
    let span = get(index);
    span.bucket.store(bucket as u32, Relaxed);
    span.unit.store(unit as u32, Relaxed);
    span.units.store(units as u32, Relaxed);
    span.live.store(0, Relaxed);
    span.stamp.store(stats::tick(), Relaxed);
    span.returned.iter().for_each(|w| w.store(0, Relaxed));
    // Last: who sees the new life sees the new bucket.
    span.life.fetch_add(1, AcqRel);
    for u in unit..unit + units {
        if (1..=SMALL).contains(&bucket) {
            estate::kind(u).store(kind(bucket, u - unit) | UNSEALED, Relaxed);
        }
        estate::owner(u).store(index, Release);
    }
    Some(index)
}

/// Takes the run of a span nobody can reach any more.
fn clear(span: &Span, age: u32) {
    let (unit, units) = (span.unit.load(Relaxed) as usize, span.units.load(Relaxed) as usize);
    for u in unit..unit + units {
        estate::kind(u).store(0, Relaxed);
        estate::owner(u).store(0, Release);
    }
    span.units.store(0, Relaxed);
    pages::release(unit, units, age);
}

// ---- large blocks -------------------------------------------------------------------------------

/// A run as one block. Says whether it reads as zeros.
pub fn claim_large(units: usize, align_units: usize) -> Option<(usize, bool)> {
    let run = pages::claim(units, align_units)?;
    let Some(index) = settle(0, run.unit, units) else {
        pages::release(run.unit, units, 0);
        return None;
    };
    let span = get(index);
    span.map.set_large();
    span.size.store(units * UNIT, Relaxed);
    span.live.store(1, Release);
    Some((estate::address(run.unit), run.clean))
}

/// Ends a large block that the caller has marked as no longer live.
pub fn release_large(index: u32) {
    let span = get(index);
    span.map.end_large();
    clear(span, 0);
    UNUSED.push(index, link);
}

/// Grows or shrinks a live large block where it stands.
pub fn resize_large(index: u32, units: usize) -> bool {
    let span = get(index);
    let (unit, have) = (span.unit.load(Relaxed) as usize, span.units.load(Relaxed) as usize);
    if units > have {
        if !pages::extend(unit, have, units - have) {
            return false;
        }
        (unit + have..unit + units).for_each(|u| estate::owner(u).store(index, Release));
    } else if units < have {
        (unit + units..unit + have).for_each(|u| estate::owner(u).store(0, Release));
        pages::release(unit + units, have - units, 0);
    }
    span.units.store(units as u32, Relaxed);
    span.size.store(units * UNIT, Relaxed);
    true
}

// ---- blocks -------------------------------------------------------------------------------------

impl Span {
    pub fn base(&self) -> usize {
        estate::address(self.unit.load(Relaxed) as usize)
    }

    /// Where the first block begins.
    fn first(&self, bucket: &Bucket) -> usize {
        self.base() + bucket.color as usize
    }

    /// The block that begins at `p`, or nothing if none begins there.
    #[inline]
    pub fn index_of(&self, p: usize) -> Option<usize> {
        let bucket = &BUCKETS[self.bucket.load(Relaxed) as usize];
        let offset = p.checked_sub(self.first(bucket))?;
        let i = bucket.index(offset);
        (i * bucket.size as usize == offset && i < bucket.blocks as usize).then_some(i)
    }

    /// Takes up to `out.len()` free blocks.
    fn take(&self, out: &mut [usize]) -> usize {
        let bucket = &BUCKETS[self.bucket.load(Relaxed) as usize];
        let (base, size) = (self.first(bucket), bucket.size as usize);
        let mut n = 0;
        self.map.take(bucket.blocks as usize, out.len(), |w, bits| {
            let mut rest = bits;
            while rest != 0 {
                out[n] = base + (w * 64 + rest.trailing_zeros() as usize) * size;
                rest &= rest - 1;
                n += 1;
            }
            self.touch(w, bits, bucket);
        })
    }

    /// The same, and every small block among them bears its seal.
    fn take_sealed(&self, out: &mut [usize]) -> usize {
        let taken = self.take(out);
        // With no block in hand the span is not ours: it may have retired.
        if taken == 0 || self.bucket.load(Relaxed) as usize > SMALL {
            return taken;
        }
        let unsealed = estate::kind(self.unit.load(Relaxed) as usize).load(SeqCst) & UNSEALED != 0;
        let mut n = 0;
        for i in 0..taken {
            let p = out[i];
            let (word, seal) = (estate::first_word(p), estate::seal(p));
            // Fresh from the kernel: 0. To look at it before writing would cost a second page fault and
            // a shootdown of every CPU's translation.
            let was = if unsealed {
                word.compare_exchange(0, seal, Relaxed, Relaxed).unwrap_or_else(|w| w)
            } else {
                word.load(Relaxed)
            };
            match was {
                w if w == seal => {}
                0 if unsealed => {}
                _ => {
                    // Left out for good: somebody else may be using it.
                    report::fault(Fault::Broken, p, self.block_size());
                    continue;
                }
            }
            out[n] = p;
            n += 1;
        }
        // All that was free has been taken, here and before, and sealed before the span was put back:
        // unless upkeep has pages of it in hand just now. The bits decide, since a block that is on its
        // way back may be purged before it is counted.
        let purge = PURGE.load(SeqCst);
        if unsealed && n > 0 && purge.is_multiple_of(2) && self.map.free() == 0 && self.map.count() == 0 {
            self.set_unsealed(false);
            if PURGE.load(SeqCst) != purge {
                self.set_unsealed(true);
            }
        }
        n
    }

    /// Seals every block of a span that is made of used memory. (One of fresh memory is sealed as its
    /// blocks are taken, so as not to touch it before it is needed.)
    fn seal_all(&self) {
        let bucket = &BUCKETS[self.bucket.load(Relaxed) as usize];
        let first = self.first(bucket);
        for p in (0..bucket.blocks as usize).map(|i| first + i * bucket.size as usize) {
            estate::first_word(p).store(estate::seal(p), Relaxed);
        }
        self.set_unsealed(false);
    }

    /// Seals where blocks would begin before the first and after the last one, if there were any: by
    /// arithmetic alone, a free cannot tell them from blocks.
    fn seal_edges(&self) {
        let bucket = &BUCKETS[self.bucket.load(Relaxed) as usize];
        let (base, first, size) = (self.base(), self.first(bucket), bucket.size as usize);
        let after = first + bucket.blocks as usize * size;
        let before = (1..=(first - base) / size).map(|k| first - k * size);
        for p in before.chain((after < base + bucket.span()).then_some(after)) {
            estate::first_word(p).store(estate::seal(p), Relaxed);
        }
    }

    fn block_size(&self) -> usize {
        BUCKETS[self.bucket.load(Relaxed) as usize].size as usize
    }

    /// Says whether there may be free blocks without a seal: in a new span, and where pages have gone back.
    fn set_unsealed(&self, value: bool) {
        if !value {
            self.seal_edges();
        }
        let (unit, units) = (self.unit.load(Relaxed) as usize, self.units.load(Relaxed) as usize);
        for kind in (unit..unit + units).map(estate::kind).filter(|k| k.load(Relaxed) != 0) {
            if value {
                kind.fetch_or(UNSEALED, SeqCst);
            } else if kind.load(Relaxed) & UNSEALED != 0 {
                kind.fetch_and(!UNSEALED, SeqCst);
            }
        }
    }

    /// Whether block `i` is free by the map, or upkeep has it in hand to give its pages back.
    pub fn has_free(&self, i: usize) -> bool {
        let bucket = &BUCKETS[self.bucket.load(Relaxed) as usize];
        let page = (bucket.color as usize + i * bucket.size as usize) / PAGE;
        self.map.all_free(i..=i) || self.returned[page / 64].load(Relaxed) >> (page % 64) & 1 == 1
    }

    /// The pages of blocks just taken are no longer with the kernel.
    fn touch(&self, w: usize, taken: u64, bucket: &Bucket) {
        let size = bucket.size as usize;
        if self.returned.iter().all(|r| r.load(Relaxed) == 0) {
            return;
        }
        let mut rest = taken;
        while rest != 0 {
            let at = bucket.color as usize + (w * 64 + rest.trailing_zeros() as usize) * size;
            for page in at / PAGE..(at + size).div_ceil(PAGE) {
                self.returned[page / 64].fetch_and(!(1 << (page % 64)), Relaxed);
            }
            rest &= rest - 1;
        }
    }
}

/// Takes blocks of a bucket from a span that has some, or from a new one: at least one, or the
/// memory is at its end.
pub fn claim(bucket: usize, out: &mut [usize]) -> usize {
    let list = &LISTS[bucket].0;
    for _ in 0..8 {
        let Some(index) = list.pop(link) else { break };
        let span = get(index);
        if span.map.retired() {
            UNUSED.push(index, link);
            continue;
        }
        let n = span.take_sealed(out);
        span.stamp.store(stats::tick(), Relaxed);
        put_back(index, span);
        if n > 0 {
            return n;
        }
    }
    let units = BUCKETS[bucket].units as usize;
    let Some(run) = pages::claim(units, 1) else { return 0 };
    let Some(index) = settle(bucket, run.unit, units) else {
        pages::release(run.unit, units, 0);
        return 0;
    };
    let span = get(index);
    if !run.clean && bucket <= SMALL {
        span.seal_all();
    }
    span.map.fill(BUCKETS[bucket].blocks as usize);
    let n = span.take_sealed(out);
    put_back(index, span);
    // Upkeep may hold the blocks of this descriptor just now: then another span serves.
    if n == 0 { claim(bucket, out) } else { n }
}

/// The one who popped a span lists it again, or leaves it out if it is full.
fn put_back(index: u32, span: &Span) {
    match span.map.put_back() {
        Then::Push => list(span).push(index, link),
        Then::Leave => {}
        Then::Recycle => UNUSED.push(index, link),
    }
}

fn list(span: &Span) -> &'static Stack {
    &LISTS[span.bucket.load(Relaxed) as usize].0
}

/// Returns blocks, wherever they are from, that have lain unused for `age` ticks.
pub fn give(blocks: &[usize], age: u32) {
    let mut i = 0;
    while i < blocks.len() {
        let Some((index, span, at)) = locate(blocks[i]) else {
            i += 1;
            continue;
        };
        // Neighbours that lie in the same word go with it in one step.
        let bucket = &BUCKETS[span.bucket.load(Relaxed) as usize];
        let base = span.first(bucket);
        let word_base = base + (at / 64) * 64 * bucket.size as usize;
        let word_len = 64 * bucket.size as usize;
        let end = base + bucket.blocks as usize * bucket.size as usize;
        let (mut bits, mut n) = (1u64 << (at % 64), 1);
        for &p in &blocks[i + 1..] {
            let offset = p.wrapping_sub(word_base);
            if offset >= word_len || p >= end {
                break;
            }
            let k = bucket.index(offset);
            if k * bucket.size as usize != offset || bits >> k & 1 == 1 {
                break;
            }
            bits |= 1 << k;
            n += 1;
        }
        let twice = span.map.give(at / 64, bits);
        if twice != 0 {
            let p = word_base + twice.trailing_zeros() as usize * bucket.size as usize;
            report::fault(Fault::AlreadyFree, p, bucket.size as usize);
        }
        came_back(index, span, (bits & !twice).count_ones(), age);
        i += n;
    }
}

fn locate(p: usize) -> Option<(u32, &'static Span, usize)> {
    let found = of(p).and_then(|(index, span)| {
        let small = span.bucket.load(Relaxed) != 0;
        Some((index, span, if small { span.index_of(p)? } else { return None }))
    });
    if found.is_none() {
        report::fault(Fault::Overwritten, p, 0);
    }
    found
}

fn came_back(index: u32, span: &'static Span, n: u32, age: u32) {
    let bucket_index = span.bucket.load(Relaxed) as usize;
    let bucket = &BUCKETS[bucket_index];
    if age == 0 {
        span.stamp.store(stats::tick(), Relaxed);
    }
    let (free, push) = span.map.returned(n);
    // The span is no longer pinned: it may have retired, and the descriptor have a new life; what
    // follows is right for that one as well.
    if push {
        list(span).push(index, link);
    }
    if free >= bucket.blocks {
        // The last span with room stays: a bucket in use would ask for it again at once.
        let top = LISTS[bucket_index].0.top();
        let others = if top == index { link(index).load(Relaxed) } else { top };
        if (age > 0 || others != 0) && retire(index, age) {
            return;
        }
    }
    if free as usize * bucket.size as usize >= PAGE
        && span.trimming.load(Relaxed) == 0
        && span.trimming.swap(1, AcqRel) == 0
    {
        TRIM.push(index, trim_link);
    }
}

/// Ends a span of which every block is free.
fn retire(index: u32, age: u32) -> bool {
    let span = get(index);
    let bucket = span.bucket.load(Relaxed) as usize;
    if bucket == 0 || span.map.retired() || !span.map.take_whole(BUCKETS[bucket].blocks as usize) {
        return false;
    }
    // Every block is ours, so this life of the descriptor is ours as well; only its place in a list
    // may still change hands.
    clear(span, age);
    if span.map.retire() {
        UNUSED.push(index, link);
    }
    true
}

// ---- upkeep -------------------------------------------------------------------------------------

/// Gives back what spans have not used for the decay time: whole spans, and the pages of half-used
/// ones in which every block is free. True while some are left that are too young.
pub fn trim(all: bool) -> bool {
    let (mut index, mut young) = (TRIM.pop_all(), 0u32);
    let mut last = 0;
    while index != 0 {
        let span = get(index);
        let next = span.trim_next.load(Relaxed);
        let age = stats::tick().wrapping_sub(span.stamp.load(Relaxed));
        let bucket = span.bucket.load(Relaxed) as usize;
        if all || age >= stats::DECAY_TICKS || bucket == 0 {
            span.trimming.store(0, SeqCst);
            if bucket != 0 && !span.map.retired() {
                let whole = span.map.free() >= BUCKETS[bucket].blocks;
                if !(whole && retire(index, stats::DECAY_TICKS)) {
                    trim_pages(span);
                }
            }
        } else {
            if last == 0 {
                last = index;
            }
            span.trim_next.store(young, Relaxed);
            young = index;
        }
        index = next;
    }
    if young != 0 {
        TRIM.push_chain(young, last, trim_link);
    }
    young != 0
}

fn trim_pages(span: &Span) {
    let life = span.life.load(Acquire);
    let bucket = span.bucket.load(Relaxed) as usize;
    if bucket == 0 {
        return;
    }
    let bucket = &BUCKETS[bucket];
    let pages = bucket.span() / PAGE;
    let (size, color, last_block) = (bucket.size as usize, bucket.color as usize, bucket.blocks as usize - 1);
    // Blocks that touch page k.
    let first = |k: usize| (k * PAGE).saturating_sub(color) / size;
    let blocks = |k: usize| first(k)..=(((k + 1) * PAGE - 1 - color) / size).min(last_block);
    let vacant = |k: usize| {
        first(k) <= last_block
            && span.returned[k / 64].load(Relaxed) >> (k % 64) & 1 == 0
            && span.map.all_free(blocks(k))
    };
    let mut page = 0;
    while page < pages {
        if !vacant(page) {
            page += 1;
            continue;
        }
        let mut end = page + 1;
        while end < pages && vacant(end) {
            end += 1;
        }
        purge_pages(span, life, page, end, *blocks(page).start()..=*blocks(end - 1).end());
        page = end;
    }
}

/// Takes the blocks, gives their pages back, and puts the blocks back.
fn purge_pages(span: &Span, life: u32, from: usize, to: usize, blocks: core::ops::RangeInclusive<usize>) {
    PURGE.fetch_add(1, SeqCst);
    let taken = span.map.take_range(blocks);
    // Holding blocks, we pin the span; the descriptor may have changed lives just before.
    if taken.is_some() && span.life.load(Acquire) == life {
        span.set_unsealed(true);
        // First: it tells a free that finds no seal any more.
        pieces(from..=to - 1).for_each(|(w, bits)| _ = span.returned[w].fetch_or(bits, AcqRel));
        if !pages::drop_pages(span.base() + from * PAGE, (to - from) * PAGE) {
            pieces(from..=to - 1).for_each(|(w, bits)| _ = span.returned[w].fetch_and(!bits, AcqRel));
        }
    }
    if let Some(taken) = taken {
        span.map.put_bits(&taken);
    }
    PURGE.fetch_add(1, SeqCst);
}

/// In a fork's child there is no purge under way.
pub fn after_fork() {
    PURGE.store(0, SeqCst);
}

/// Calls `each` with every span there is: its descriptor's bucket (0 = large), free blocks, bytes
/// that are with the kernel.
pub fn walk(mut each: impl FnMut(&Span, usize, usize)) {
    for index in 1..=MADE.load(Acquire) {
        if (index as usize + 1) * size_of::<Span>() > SPANS.mapped() {
            break;
        }
        let span = get(index);
        if span.units.load(Relaxed) == 0 || span.map.retired() {
            continue;
        }
        let returned: u32 = span.returned.iter().map(|w| w.load(Relaxed).count_ones()).sum();
        let large = span.bucket.load(Relaxed) == 0;
        each(span, if large { 0 } else { span.map.count() }, returned as usize * PAGE);
    }
}

/// The unit size, for those above who think in runs.
pub const fn units_for(bytes: usize) -> usize {
    (bytes + UNIT - 1) >> UNIT_SHIFT
}
