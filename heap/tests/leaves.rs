//! The leaves that need neither rseq nor a system call: stack, map, bucket, text. Small enough for miri,
//! which watches every access and reorders weak memory as the language allows:
//!
//!     cargo +nightly miri test -p heap --test leaves
#![cfg(not(loom))]

use heap::bucket::{self, BATCH, BUCKETS, COUNT, HEADS, MULTIPLE, PAGE, SLOT_ENTRIES, SMALL, UNIT};
use heap::map::{Map, Then, pieces};
use heap::stack::Stack;
use heap::text::{Into, Text, Write};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// How often a loop goes round: miri is some thousand times slower.
const fn rounds(n: usize) -> usize {
    if cfg!(miri) { n / 500 } else { n }
}

// ---- stack ----------------------------------------------------------------------------------------

#[test]
fn a_stack_gives_the_last_first_and_chains_whole() {
    let links: [AtomicU32; 6] = Default::default();
    let link = |i: u32| &links[i as usize];
    let stack = Stack::new();
    assert_eq!((stack.top(), stack.pop(link), stack.pop_all()), (0, None, 0));
    stack.push(3, link);
    links[1].store(2, Relaxed);
    stack.push_chain(1, 2, link);
    assert_eq!(
        (stack.top(), stack.pop(link), stack.pop(link), stack.pop(link), stack.pop(link)),
        (1, Some(1), Some(2), Some(3), None)
    );
    (1..6).for_each(|i| stack.push(i, link));
    let mut chain = Vec::new();
    let mut i = stack.pop_all();
    while i != 0 {
        chain.push(i);
        i = link(i).load(Relaxed);
    }
    assert_eq!((chain, stack.top()), (vec![5, 4, 3, 2, 1], 0));
}

/// Each item carries a word that only its holder touches, and plainly: a second holder is a data race.
#[test]
fn an_item_has_one_holder() {
    const ITEMS: usize = 4;
    struct Words([std::cell::UnsafeCell<usize>; ITEMS + 1]);
    // SAFETY: this is what the test is about.
    unsafe impl Sync for Words {}
    let words = Words(Default::default());
    let links: [AtomicU32; ITEMS + 1] = Default::default();
    let (link, stack, touched) = (|i: u32| &links[i as usize], Stack::new(), AtomicUsize::new(0));
    (1..=ITEMS).for_each(|i| stack.push(i as u32, link));
    let turn = || {
        let words = &words;
        for _ in 0..rounds(50_000) {
            let Some(i) = stack.pop(link) else { continue };
            // SAFETY: popped, so ours.
            unsafe { *words.0[i as usize].get() += 1 };
            touched.fetch_add(1, Relaxed);
            stack.push(i, link);
        }
    };
    std::thread::scope(|s| (0..3).for_each(|_| _ = s.spawn(turn)));
    let sum: usize = words.0.into_iter().map(|w| w.into_inner()).sum();
    assert!(sum > 0 && sum == touched.into_inner());
    let mut left: Vec<u32> = std::iter::from_fn(|| stack.pop(link)).collect();
    left.sort_unstable();
    assert_eq!(left, [1, 2, 3, 4]);
}

// ---- map ------------------------------------------------------------------------------------------

const BLOCKS: usize = 150;

fn map() -> Box<Map<4>> {
    // SAFETY: zeroed memory is a map that has never been filled, as in a fresh table of spans.
    Box::new(unsafe { std::mem::zeroed() })
}

/// Takes blocks, as their numbers.
fn take(map: &Map<4>, want: usize) -> Vec<usize> {
    let mut got = Vec::new();
    let n = map.take(BLOCKS, want, |w, bits| got.extend((0..64).filter(|b| bits >> b & 1 == 1).map(|b| w * 64 + b)));
    assert_eq!(n, got.len());
    got
}

#[test]
fn a_map_gives_every_block_once_the_lowest_first() {
    let map = map();
    map.fill(BLOCKS);
    assert_eq!((map.count(), map.free() as usize), (BLOCKS, BLOCKS));
    assert_eq!(take(&map, 70), (0..70).collect::<Vec<_>>());
    assert_eq!(map.put_back(), Then::Push);
    assert_eq!(take(&map, 200), (70..BLOCKS).collect::<Vec<_>>());
    assert_eq!((take(&map, 1).len(), map.put_back()), (0, Then::Leave));
    // The first block back lists the span, the second does not.
    assert_eq!((map.give(1, 1 << 6), map.returned(1)), (0, (1, true)));
    assert_eq!((map.give(1, 3 << 6), map.returned(1)), (1 << 6, (2, false)));
    assert_eq!(take(&map, 9), [70, 71]);
}

#[test]
fn only_a_whole_span_retires() {
    let map = map();
    map.fill(BLOCKS);
    let out = take(&map, 1)[0];
    assert!(!map.take_whole(BLOCKS) && map.count() == BLOCKS - 1, "what was taken is back");
    map.give(out / 64, 1 << (out % 64));
    assert_eq!(map.returned(1), (BLOCKS as u32, false));
    assert!(map.take_whole(BLOCKS) && map.count() == 0 && !map.retired());
    assert!(!map.retire(), "its holder recycles it");
    assert!(map.retired() && map.put_back() == Then::Recycle);
    map.fill(BLOCKS);
    take(&map, BLOCKS);
    assert_eq!(map.put_back(), Then::Leave);
    (0..3).for_each(|w| _ = map.give(w, (!0u64).checked_shr((w as u32 * 64 + 64).saturating_sub(150)).unwrap()));
    assert!(map.take_range(0..=BLOCKS).is_none(), "there is no block {BLOCKS}");
    assert_eq!(map.count(), BLOCKS);
}

#[test]
fn ranges_are_taken_whole_or_not_at_all() {
    let map = map();
    map.fill(BLOCKS);
    let taken = map.take_range(60..=130).unwrap();
    assert_eq!(taken.iter().map(|w| w.count_ones()).sum::<u32>(), 71);
    assert!(map.all_free(0..=59) && map.all_free(131..=149) && !map.all_free(59..=60) && !map.all_free(130..=131));
    assert!(map.take_range(0..=60).is_none() && map.all_free(0..=59));
    map.put_bits(&taken);
    assert!(map.all_free(0..=BLOCKS - 1));
    for (from, to) in [(0, 0), (63, 64), (5, 200)] {
        let bits: usize = pieces(from..=to).map(|(_, bits)| bits.count_ones() as usize).sum();
        assert_eq!(bits, to - from + 1);
    }
}

/// Threads take, write, and give; the span goes from hand to hand through a list. Nothing is lost.
#[test]
fn blocks_of_a_map_have_one_holder() {
    let (map, list, link) = (map(), Stack::new(), AtomicU32::new(0));
    let held: Vec<AtomicU32> = (0..BLOCKS).map(|_| AtomicU32::new(0)).collect();
    map.fill(BLOCKS);
    list.push(1, |_| &link);
    let turn = |seed: usize| {
        let mut mine = Vec::new();
        for round in 0..rounds(20_000) {
            if list.pop(|_| &link).is_some() {
                mine.extend(take(&map, 1 + (round * 7 + seed) % 60));
                match map.put_back() {
                    Then::Push => list.push(1, |_| &link),
                    Then::Leave => {}
                    Then::Recycle => unreachable!("nobody retires it"),
                }
            }
            for &b in &mine {
                assert_eq!(held[b].swap(1, Relaxed), 0, "block {b} has two holders");
            }
            for b in mine.drain(..) {
                held[b].store(0, Relaxed);
                assert_eq!(map.give(b / 64, 1 << (b % 64)), 0);
                if map.returned(1).1 {
                    list.push(1, |_| &link);
                }
            }
        }
    };
    std::thread::scope(|s| (0..3).for_each(|i| _ = s.spawn(move || turn(i))));
    assert_eq!((map.count(), map.free() as usize, list.top()), (BLOCKS, BLOCKS, 1));
}

// ---- bucket ---------------------------------------------------------------------------------------

#[test]
fn stacks_of_a_slot_lie_apart() {
    let mut end = HEADS;
    for (b, it) in BUCKETS.iter().enumerate().skip(1) {
        let (sentinel, room) = (it.stack as usize, it.room as usize);
        assert!(sentinel >= end && sentinel.is_multiple_of(8), "bucket {b}");
        assert!(it.batch as usize <= BATCH && it.batch > 0 && room >= 2);
        end = sentinel + room + 1;
    }
    assert!(end <= SLOT_ENTRIES && SLOT_ENTRIES <= u16::MAX as usize + 1);
}

#[test]
fn blocks_are_aligned_to_what_divides_their_size_and_a_unit() {
    for it in &BUCKETS[1..] {
        let align = (1 << it.size.trailing_zeros()).min(UNIT);
        assert!(align >= 16 && (it.color as usize).is_multiple_of(align));
    }
    // So every alignment up to a unit has a bucket for every size.
    for align in (4..=15).map(|k| 1 << k) {
        assert!((1..COUNT).any(|b| bucket::size(b).is_multiple_of(align) && bucket::size(b) >= align));
        assert_eq!(bucket::size(COUNT - 1) % align, 0);
    }
}

#[test]
fn multiples_of_a_size_are_told_by_one_multiplication() {
    for b in 1..=SMALL {
        let size = bucket::size(b) as u64;
        for n in (0..1 << 12).chain((1 << 32) - 2 * size..1 << 32).step_by(if cfg!(miri) { 16 } else { 1 }) {
            assert_eq!(n.wrapping_mul(MULTIPLE[b]) < MULTIPLE[b], n % size == 0, "{n} and {size}");
        }
    }
}

#[test]
fn a_span_of_small_blocks_has_a_page_to_give_back() {
    for it in &BUCKETS[1..=SMALL] {
        assert!((it.blocks * it.size) as usize >= PAGE && it.blocks >= 2);
    }
}

// ---- text -----------------------------------------------------------------------------------------

#[test]
fn numbers_and_pointers_are_as_the_standard_library_writes_them() {
    let mut n = usize::MAX;
    while n > 0 {
        let mut text = Text::<64>::new();
        text.number(n).add(" ").pointer(n);
        assert_eq!(std::str::from_utf8(text.as_bytes()), Ok(&*format!("{n} {n:#x}")));
        n /= 3;
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    for room in 0..12 {
        let mut buffer = vec![b'.'; room];
        let mut text = Into::new(&mut buffer);
        text.add("evenkeel").number(42);
        assert_eq!(text.len, 10);
        assert_eq!(buffer, b"evenkeel42.."[..room]);
    }
    let mut text = Text::<4>::new();
    assert_eq!(text.add("evenkeel").as_bytes(), b"even");
}
