//! Every interleaving of the lock-free parts, with up to a few preemptions: no block, span or slot
//! may ever be lost, doubled, or touched by two threads at a time.
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p heap --release --test loom
//!
//! The heap's own sources are taken in here, over other atomics (`sync`) and another ground (`ground`): first the
//! leaves by themselves, closely, then the whole of it (`whole`).
//! Who holds a block or an item says so (`touch`), and loom sees two holders.
#![cfg(loom)]

#[allow(dead_code)]
mod ground;
#[allow(dead_code)]
mod sync;
mod whole;

use ::heap::{bucket, options, stats, text};
use ground::{os, upkeep};

macro_rules! sources {
    ($($path:literal $name:ident;)*) => { $(
        #[allow(dead_code, unused_macros)]
        #[path = $path]
        mod $name;
    )* };
}
sources! {
    "../../src/heap.rs" heap;
    "../../src/slot.rs" slot;
    "../../src/depot.rs" depot;
    "../../src/span.rs" span;
    "../../src/pages.rs" pages;
    "../../src/estate.rs" estate;
    "../../src/report.rs" report;
    "../../src/map.rs" map;
    "../../src/stack.rs" stack;
}

use loom::thread;
use map::{Map, Then};
use stack::Stack;
use std::sync::atomic::AtomicUsize;
use sync::{AtomicU32, Ordering::*, touch};

/// Runs a few threads in every order that preempts at most `preemptions` times, each from the beginning.
fn every_order<W: Default + Sync>(preemptions: usize, begin: fn(&W), threads: &'static [fn(&W)], end: fn(&W)) {
    let world: &'static W = Box::leak(Box::default());
    let orders: &AtomicUsize = Box::leak(Box::default());
    let mut model = loom::model::Builder::new();
    model.max_branches = 20_000;
    sync::forget();
    for preemptions in 0..=preemptions {
        let mut known = usize::MAX;
        while known != sync::known() {
            known = sync::known();
            orders.store(0, Relaxed);
            model.preemption_bound = Some(preemptions);
            model.check(move || {
                orders.fetch_add(1, Relaxed);
                let _steps = sync::begin();
                begin(world);
                sync::together(true);
                let others: Vec<_> = threads[1..].iter().map(|play| thread::spawn(move || play(world))).collect();
                threads[0](world);
                others.into_iter().for_each(|t| t.join().unwrap());
                sync::together(false);
                end(world);
            });
        }
        println!("{preemptions} preemptions: {} orders", orders.load(Relaxed));
    }
}

// ---- the stack ------------------------------------------------------------------------------------

/// A stack of items, and how many times each was taken out of it for good.
struct Pile {
    stack: Stack,
    links: [AtomicU32; 4],
    data: [usize; 4],
    taken: [AtomicUsize; 4],
}

impl Default for Pile {
    fn default() -> Pile {
        let links = std::array::from_fn(|_| AtomicU32::new(0));
        Pile { stack: Stack::new(), links, data: Default::default(), taken: Default::default() }
    }
}

impl Pile {
    fn begin(&self, items: &[u32]) {
        self.taken.iter().for_each(|n| n.store(0, Relaxed));
        items.iter().for_each(|&i| self.push(i));
    }

    fn touch(&self, i: u32) {
        touch(&raw const self.data[i as usize] as usize);
    }

    fn push(&self, i: u32) {
        self.touch(i);
        self.stack.push(i, |i| &self.links[i as usize]);
    }

    fn pop(&self) -> Option<u32> {
        let i = self.stack.pop(|i| &self.links[i as usize])?;
        self.touch(i);
        Some(i)
    }

    fn keep(&self, i: u32) {
        self.taken[i as usize].fetch_add(1, Relaxed);
    }

    fn keep_all(&self) {
        let mut i = self.stack.pop_all();
        while i != 0 {
            self.touch(i);
            self.keep(i);
            i = self.links[i as usize].load(Relaxed);
        }
    }

    /// At the end each item was taken once or is still there.
    fn settle(&self, items: u32) {
        self.keep_all();
        for i in 1..=items {
            assert_eq!(self.taken[i as usize].load(Relaxed), 1, "item {i}");
        }
    }
}

#[test]
fn a_popped_item_may_come_back_while_another_pop_is_under_way() {
    every_order(
        4,
        |pile| pile.begin(&[1, 2, 3]),
        &[
            |pile: &Pile| {
                let (a, b) = (pile.pop(), pile.pop());
                b.into_iter().for_each(|i| pile.keep(i));
                a.into_iter().for_each(|i| pile.push(i));
            },
            |pile| pile.pop().into_iter().for_each(|i| pile.keep(i)),
        ],
        |pile| pile.settle(3),
    );
}

#[test]
fn pushes_pops_and_a_sweep() {
    every_order(
        3,
        |pile| pile.begin(&[1]),
        &[
            |pile: &Pile| {
                pile.push(2);
                pile.push(3);
            },
            |pile| pile.pop().into_iter().for_each(|i| pile.push(i)),
            |pile| pile.keep_all(),
        ],
        |pile| pile.settle(3),
    );
}

// ---- the free map and the list of spans -------------------------------------------------------------

/// One descriptor and all that can happen to it. The actors do with it what `span` does, with fewer steps.
struct World {
    map: Map<1>,
    list: Stack,
    unused: Stack,
    link: AtomicU32,
    /// Blocks of this life; none of loom's business, but that holding a block pins it.
    blocks: AtomicUsize,
    cells: [usize; 2],
    /// Blocks in the program's hands at the end.
    held: AtomicUsize,
}

const ONE: u32 = 1;

impl Default for World {
    fn default() -> World {
        // SAFETY: atomics, and integers.
        unsafe { std::mem::zeroed() }
    }
}

impl World {
    /// A span with `blocks` blocks of which `taken` are in somebody's hands.
    fn begin(&self, blocks: usize, taken: usize) {
        self.held.store(0, Relaxed);
        assert_eq!(self.fill(blocks, taken).count_ones() as usize, taken);
    }

    fn write(&self, bits: u64) {
        (0..2).filter(|b| bits >> b & 1 == 1).for_each(|b| _ = touch(&raw const self.cells[b] as usize));
    }

    fn list(&self) {
        self.list.push(ONE, |_| &self.link);
    }

    fn recycle(&self) {
        self.unused.push(ONE, |_| &self.link);
    }

    fn fill(&self, blocks: usize, want: usize) -> u64 {
        self.blocks.store(blocks, Relaxed);
        self.map.fill(blocks);
        self.take(want)
    }

    /// The holder takes blocks and puts the span back.
    fn take(&self, want: usize) -> u64 {
        let mut got = 0;
        let n = match want {
            0 => 0,
            _ => self.map.take(self.blocks.load(Relaxed), want, |_, bits| got |= bits),
        };
        assert_eq!(n, got.count_ones() as usize);
        self.write(got);
        match self.map.put_back() {
            Then::Push => self.list(),
            Then::Leave => {}
            Then::Recycle => self.recycle(),
        }
        got
    }

    /// `span::claim`: from the listed span, or from a new one.
    fn claim(&self, want: usize) -> u64 {
        if self.list.pop(|_| &self.link).is_some() {
            if !self.map.retired() {
                return self.take(want);
            }
            self.recycle();
        }
        match self.unused.pop(|_| &self.link) {
            Some(_) => self.fill(2, want),
            None => 0,
        }
    }

    fn keep(&self, bits: u64) {
        self.held.fetch_add(bits.count_ones() as usize, Relaxed);
    }

    /// `span::give`.
    fn give(&self, bits: u64) {
        if bits == 0 {
            return;
        }
        self.write(bits);
        assert_eq!(self.map.give(0, bits), 0, "a block came back twice");
        let blocks = self.blocks.load(Relaxed) as u32;
        let (free, push) = self.map.returned(bits.count_ones());
        if push {
            self.list();
        }
        if free >= blocks {
            self.retire();
        }
    }

    /// `span::retire`.
    fn retire(&self) {
        let blocks = self.blocks.load(Relaxed);
        if self.map.retired() || !self.map.take_whole(blocks) {
            return;
        }
        self.write(0b11);
        if self.map.retire() {
            self.recycle();
        }
    }

    /// `span::sweep`.
    fn sweep(&self) {
        match self.list.pop_all() {
            0 => {}
            _ if self.map.retired() => self.recycle(),
            _ => self.list(),
        }
    }

    /// `span::purge_pages`.
    fn purge(&self) {
        if let Some(bits) = self.map.take_range(0..=1) {
            self.write(0b11);
            self.map.put_bits(&bits);
        }
    }

    fn end(&self) {
        let (mut listed, mut unused) = (0, 0);
        while self.list.pop(|_| &self.link).is_some() {
            listed += 1;
        }
        while self.unused.pop(|_| &self.link).is_some() {
            unused += 1;
        }
        let held = self.held.load(Relaxed);
        assert!(listed + unused <= 1, "the descriptor is in two places");
        if self.map.retired() {
            assert_eq!((listed + unused, held, self.map.count()), (1, 0, 0), "retired: (places, held, free)");
        } else {
            let free = self.map.count();
            assert_eq!(unused, 0, "recycled but not retired");
            assert_eq!(held + free, self.blocks.load(Relaxed), "a block was lost or doubled");
            assert_eq!(self.map.free() as usize, free, "the count is not the number of free blocks");
            assert!(listed == 1 || free == 0, "free blocks, and no list says so");
        }
    }
}

/// A span that was full gets its first free blocks from two threads while a third takes.
#[test]
fn a_full_span_is_listed_again_once() {
    every_order(
        3,
        |w| w.begin(2, 2),
        &[|w: &World| w.give(0b01), |w| w.give(0b10), |w| w.keep(w.claim(1))],
        World::end,
    );
}

/// The last free block is taken while another comes back.
#[test]
fn a_span_that_fills_up_is_not_forgotten() {
    every_order(4, |w| w.begin(2, 1), &[|w: &World| w.keep(w.claim(1)), |w| w.give(0b01)], World::end);
    every_order(
        3,
        |w| w.begin(2, 1),
        &[|w: &World| w.keep(w.claim(2)), |w| w.give(0b01), |w| w.keep(w.claim(1))],
        World::end,
    );
}

/// A span retires under a claimer's hands, and its descriptor begins another life.
#[test]
fn a_retired_descriptor_is_recycled_once() {
    every_order(4, |w| w.begin(2, 0), &[World::retire, |w| w.keep(w.claim(1))], World::end);
    every_order(3, |w| w.begin(2, 1), &[|w: &World| w.give(0b01), World::retire, |w| w.keep(w.claim(1))], World::end);
}

/// Somebody looks through the list for retired spans.
#[test]
fn a_sweep_recycles_what_has_retired_and_nothing_else() {
    every_order(4, |w| w.begin(2, 0), &[World::sweep, World::retire], World::end);
    every_order(3, |w| w.begin(2, 1), &[World::sweep, |w| w.give(0b01), |w| w.keep(w.claim(1))], World::end);
    every_order(3, |w| w.begin(2, 0), &[World::sweep, World::retire, |w| w.keep(w.claim(1))], World::end);
}

/// Blocks are taken and come back while the span retires.
#[test]
fn a_block_on_its_way_back_pins_the_span() {
    every_order(
        4,
        |w| w.begin(2, 1),
        &[
            |w: &World| {
                w.give(0b01);
                w.keep(w.claim(1));
            },
            |w| w.give(w.claim(1)),
        ],
        World::end,
    );
}

/// Who is about to retire a span is overtaken: it has retired already, and the descriptor lives again,
/// with another number of blocks, of which as many are free as the old span had.
#[test]
fn a_new_life_is_not_taken_for_the_old_one() {
    every_order(
        4,
        |w| w.begin(1, 0),
        &[World::retire, |w| {
            w.retire();
            w.keep(w.claim(1));
        }],
        World::end,
    );
}

/// Pages of free blocks are given back while blocks are taken and returned.
#[test]
fn purged_blocks_are_in_nobodys_hands() {
    every_order(4, |w| w.begin(2, 0), &[World::purge, |w| w.give(w.claim(2))], World::end);
    every_order(3, |w| w.begin(2, 1), &[World::purge, |w| w.give(0b01), |w| w.keep(w.claim(1))], World::end);
    every_order(3, |w| w.begin(2, 0), &[World::purge, World::retire, |w| w.keep(w.claim(1))], World::end);
}
