//! The heap from `heap.rs` to `estate.rs`, as it is, slots changed by compare-and-swap.

use crate::bucket::{self, BUCKETS};
use crate::os::REPORTS;
use crate::sync::{newest, touch};
use crate::{depot, estate, heap, options, pages, slot, span, stats};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Eight blocks of a page in a span of one unit; four blocks in a span of three; and a run.
const SMALL: usize = 96;
const MEDIUM: usize = 129;
const LARGE_BYTES: usize = 300_000;

const MOST: usize = 8;

/// What the program knows.
#[derive(Default)]
struct Program {
    /// Blocks that the test speaks of, in the order in which it got them.
    blocks: [AtomicUsize; MOST],
    /// Which of them the program holds at the end, for each as often as it does.
    held: [AtomicUsize; MOST],
}

impl Program {
    /// A new heap, and no block yet.
    fn begin(&self) {
        let set = [c"EVENKEEL_RSEQ=0".as_ptr(), c"EVENKEEL_ABORT=0".as_ptr(), std::ptr::null()];
        // SAFETY: C strings and a null.
        unsafe { options::read(set.as_ptr()) };
        REPORTS.take();
        heap::settle();
        assert!(!slot::by_rseq());
        self.held.iter().for_each(|n| n.store(0, Relaxed));
    }

    /// All blocks of a new span, none of them held.
    fn begin_with_span(&self) {
        self.begin();
        let mut blocks = [0; MOST];
        assert_eq!(span::claim(SMALL, &mut blocks), BUCKETS[SMALL].blocks as usize);
        self.blocks.iter().zip(blocks).for_each(|(place, p)| place.store(p, Relaxed));
    }

    fn block(&self, i: usize) -> usize {
        self.blocks[i].load(Relaxed)
    }

    fn keep(&self, p: usize) {
        touch(p);
        if let Some(i) = (0..MOST).find(|&i| self.block(i) == p) {
            self.held[i].fetch_add(1, Relaxed);
        }
    }

    fn keep_all(&self, blocks: std::ops::Range<usize>) {
        blocks.for_each(|i| self.keep(self.block(i)));
    }

    /// A block back to its span, sealed as free does it.
    fn give(&self, i: usize) {
        let p = self.block(i);
        touch(p);
        estate::first_word(p).store(estate::seal(p), Relaxed);
        span::give(&[p], 0);
    }

    fn claim(&self) {
        let mut one = [0];
        assert_eq!(span::claim(SMALL, &mut one), 1);
        self.keep(one[0]);
    }

    fn held(&self) -> Vec<usize> {
        self.held.iter().map(|n| n.load(Relaxed)).collect()
    }
}

fn every_order(preemptions: usize, begin: fn(&Program), threads: &'static [fn(&Program)], end: fn(&Program)) {
    crate::every_order(preemptions, begin, threads, end);
}

fn trim(_: &Program) {
    span::trim(true);
}

fn reports() -> Vec<String> {
    REPORTS.with_borrow(Clone::clone)
}

fn malloc(bytes: usize) -> usize {
    let p = heap::malloc_slow(bytes, 0) as usize;
    assert!(p != 0);
    p
}

fn free(p: usize) {
    heap::free_slow(p as *mut u8, 0, 0);
}

// ---- slots ------------------------------------------------------------------------------------------

/// Numbers, since a slot does not look at what its pointers point to.
const P: [usize; 4] = [0x1000, 0x2000, 0x3000, 0x4000];

fn begin_with_slot(program: &Program) {
    program.begin();
    program.blocks.iter().zip(P).for_each(|(place, p)| place.store(p, Relaxed));
    assert!(slot::widen(SMALL) > 1);
    P[..2].iter().for_each(|&p| _ = touch(p));
    assert_eq!(slot::push(SMALL, &P[..2]), 2);
}

fn pop(program: &Program) {
    let mut one = [0];
    if slot::pop(SMALL, &mut one) == 1 {
        program.keep(one[0]);
    }
}

fn push(program: &Program, i: usize) {
    touch(P[i]);
    if slot::push(SMALL, &[P[i]]) == 0 && (slot::widen(SMALL) == 0 || slot::push(SMALL, &[P[i]]) == 0) {
        program.keep(P[i]);
    }
}

fn drain(program: &Program) {
    slot::drain(|_| true, |_, blocks| blocks.iter().for_each(|&p| program.keep(p)));
}

/// Every block is in one place, and the slot knows how long its stacks may get.
fn each_once(program: &Program) {
    let room: usize = (1..bucket::COUNT).map(|b| slot::census(0, b).1 * bucket::size(b)).sum();
    assert_eq!(slot::room_bytes(0), room);
    let mut rest = [0; 8];
    let n = slot::pop(SMALL, &mut rest);
    rest[..n].iter().for_each(|&p| program.keep(p));
    let used = P.iter().filter(|p| touch(**p) > 1).count();
    assert_eq!(program.held()[..used], [1, 1, 1, 1][..used], "a block was lost or doubled");
}

/// An idle slot is emptied just when it is used again.
#[test]
fn a_slot_is_drained_under_its_owners_hands() {
    every_order(
        3,
        begin_with_slot,
        &[
            |program| {
                push(program, 2);
                pop(program);
            },
            drain,
        ],
        each_once,
    );
    every_order(3, begin_with_slot, &[|program| push(program, 2), drain, pop], each_once);
}

// ---- seals and purges -------------------------------------------------------------------------------

/// Every block of the span is held once or free once, and none of them was found without its seal.
fn none_lost(program: &Program) {
    assert_eq!(reports(), [""; 0]);
    // A claim that found nothing here for a moment has made another span, which gives first.
    for _ in 0..3 {
        let mut free = [0; MOST];
        let n = span::claim(SMALL, &mut free);
        free[..n].iter().for_each(|&p| program.keep(p));
    }
    assert_eq!(program.held(), [1; MOST], "a block was lost or doubled");
}

/// Six blocks are held, the other two free in the span: sealed, and the span says so.
fn begin_with_two_free(program: &Program) {
    program.begin_with_span();
    program.keep_all(2..MOST);
    program.give(0);
    program.give(1);
}

/// The pages of free blocks go back, and the seals with them, while blocks are taken.
#[test]
fn a_block_whose_seal_went_with_its_page_is_taken() {
    every_order(2, begin_with_two_free, &[trim, Program::claim], none_lost);
    every_order(
        2,
        begin_with_two_free,
        &[trim, |program| {
            program.claim();
            program.claim();
        }],
        none_lost,
    );
}

/// The same while another block comes back.
#[test]
fn a_block_comes_back_while_pages_go() {
    fn begin(program: &Program) {
        program.begin_with_span();
        program.keep_all(3..MOST);
        program.give(0);
        program.give(1);
    }
    const GIVE: fn(&Program) = |program| program.give(2);
    const BOTH: fn(&Program) = |program| {
        program.give(2);
        program.claim();
    };
    every_order(3, begin, &[trim, BOTH], none_lost);
    every_order(1, begin, &[trim, GIVE, Program::claim], none_lost);
}

// ---- all of it --------------------------------------------------------------------------------------

/// Every unit is free or in a span, every block of a span is free, on its way, or one of those `held`.
fn adds_up(held: usize) {
    let (mut units, mut live) = (0, 0);
    span::walk(|span, free, _| {
        units += span.units.load(Relaxed) as usize;
        live += BUCKETS[span.bucket.load(Relaxed) as usize].blocks as usize - free;
    });
    let (dirty, clean) = pages::census();
    assert_eq!(units + dirty + clean, estate::mapped() / bucket::UNIT, "{units} units in spans");
    let cached: usize = (0..slot::made()).map(|cid| slot::census(cid, SMALL).0).sum();
    assert_eq!(live - cached - depot::census(SMALL), held);
}

/// The last blocks come back to a span, which ends, or is used again.
#[test]
fn a_span_ends_under_a_claimers_hands() {
    fn begin(program: &Program) {
        begin_with_two_free(program);
        (2..MOST - 1).for_each(|i| program.give(i));
    }
    fn give_last(program: &Program) {
        let p = program.block(MOST - 1);
        touch(p);
        estate::first_word(p).store(estate::seal(p), Relaxed);
        span::give(&[p], stats::DECAY_TICKS);
    }
    fn end(_: &Program) {
        assert_eq!(reports(), [""; 0]);
        adds_up(1);
    }
    every_order(3, begin, &[give_last, Program::claim], end);
}

/// Two threads on one CPU, whose slot only one of them has at a time.
#[test]
fn blocks_are_handed_out_once() {
    fn begin(program: &Program) {
        program.begin();
        free(malloc(bucket::size(SMALL)));
    }
    fn work(_: &Program) {
        let p = malloc(bucket::size(SMALL));
        touch(p);
        free(p);
    }
    fn end(_: &Program) {
        assert_eq!(reports(), [""; 0]);
        adds_up(0);
    }
    every_order(2, begin, &[work, work], end);
}

/// Runs are claimed and released while free ones go back: what is said to be clean is, and nobody is
/// robbed.
#[test]
fn a_run_is_claimed_while_runs_are_purged() {
    fn begin(program: &Program) {
        program.begin();
        work(program);
    }
    fn work(_: &Program) {
        let run = pages::claim(1, 1).unwrap();
        let p = estate::address(run.unit);
        touch(p);
        assert!(!run.clean || estate::first_word(p).load(Relaxed) == 0, "not clean");
        estate::first_word(p).store(7, Relaxed);
        pages::release(run.unit, 1, 0);
    }
    fn purge(_: &Program) {
        pages::purge(true);
    }
    fn work_twice(program: &Program) {
        work(program);
        work(program);
    }
    every_order(3, begin, &[purge, work_twice], |_| adds_up(0));
    every_order(1, begin, &[purge, work, work], |_| adds_up(0));
}

// ---- wrong frees ------------------------------------------------------------------------------------

/// Takes blocks until the heap must have given away all that it has of the size.
fn take_all(program: &Program, bytes: usize) {
    for _ in 0..3 * MOST {
        program.keep(malloc(bytes));
    }
}

fn free_first(program: &Program) {
    free(program.block(0));
}

/// Two threads free the same block of each kind: one of them is heard, and the block has one owner from then on.
#[test]
fn of_two_frees_one_is_reported() {
    fn begin(program: &Program, bytes: usize) {
        program.begin();
        program.blocks[0].store(malloc(bytes), Relaxed);
        program.blocks[1..].iter().for_each(|place| place.store(0, Relaxed));
    }
    const FREE: &[fn(&Program)] = &[free_first, free_first];
    fn end(program: &Program, bytes: usize) {
        take_all(program, bytes);
        assert_eq!(program.held[0].load(Relaxed), 1);
        assert_eq!(reports().len(), 1, "{:?}", reports());
    }
    every_order(3, |p| begin(p, LARGE_BYTES), FREE, |p| end(p, LARGE_BYTES));
    every_order(3, |p| begin(p, bucket::size(MEDIUM)), FREE, |p| end(p, bucket::size(MEDIUM)));
    every_order(3, |p| begin(p, bucket::size(SMALL)), FREE, |p| end(p, bucket::size(SMALL)));
}

fn begin_wrong(program: &Program) {
    begin_with_two_free(program);
    newest(true);
}

/// A block is freed that went back to its span long ago, whose pages go just now.
#[test]
fn a_wrong_free_is_reported_while_pages_go() {
    every_order(2, begin_wrong, &[trim, free_first], |program| {
        assert_eq!(reports().len(), 1, "{:?}", reports());
        REPORTS.take();
        none_lost(program);
    });
}

/// The same while the whole span goes.
#[test]
fn a_wrong_free_is_reported_while_the_span_goes() {
    every_order(
        2,
        begin_wrong,
        &[
            |program| {
                (2..MOST).for_each(|i| program.give(i));
                span::trim(true);
                pages::purge(true);
            },
            free_first,
        ],
        |_| assert_eq!(reports().len(), 1, "{:?}", reports()),
    );
}
