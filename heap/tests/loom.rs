//! Every interleaving of the lock-free leaves, with up to a few preemptions: no block, span or slot
//! may ever be lost, doubled, or touched by two threads at a time.
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p heap --release --test loom
//!
//! The sources themselves are taken in here, over atomics that give SeqCst its meaning: loom alone
//! takes it for AcqRel. A block is a cell that whoever holds it writes to, so loom sees two holders.
#![cfg(loom)]

use loom::thread;
use map::{Map, Then};
use stack::Stack;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use sync::{AtomicU32, AtomicU64, Ordering::*};

#[allow(dead_code)]
#[path = "../src/map.rs"]
mod map;
#[allow(dead_code)]
#[path = "../src/stack.rs"]
mod stack;

#[allow(dead_code)]
mod sync {
    use loom::sync::atomic::fence;
    use std::cell::RefCell;
    use std::panic::Location;
    pub use std::sync::atomic::Ordering;
    use std::sync::atomic::Ordering::*;

    pub fn step() {}

    thread_local! {
        /// What was done in this order of things: printed when it goes wrong.
        static STEPS: RefCell<Vec<(loom::thread::ThreadId, &'static Location<'static>, u64)>> = RefCell::default();
    }

    /// Prints the steps if dropped in a panic.
    pub struct Steps;

    impl Steps {
        pub fn begin() -> Steps {
            STEPS.take();
            Steps
        }
    }

    impl Drop for Steps {
        fn drop(&mut self) {
            if std::thread::panicking() {
                for (thread, at, value) in STEPS.take() {
                    println!("{thread:?} {}:{} found {value:#x}", at.file(), at.line());
                }
            }
        }
    }

    /// A SeqCst change of memory stands between two fences, as every locked instruction does.
    #[track_caller]
    fn change<T: Copy + Into<u64>>(order: Ordering, change: impl FnOnce() -> T) -> T {
        let strong = order == SeqCst;
        strong.then(|| fence(SeqCst));
        let before = change();
        strong.then(|| fence(SeqCst));
        note(before)
    }

    #[track_caller]
    fn note<T: Copy + Into<u64>>(value: T) -> T {
        let step = (loom::thread::current().id(), Location::caller(), value.into());
        STEPS.with_borrow_mut(|steps| steps.push(step));
        value
    }

    macro_rules! changes {
        ($int:ty: $($name:ident)*) => { $(
            #[track_caller]
            pub fn $name(&self, n: $int, order: Ordering) -> $int {
                change(order, || self.0.$name(n, order))
            }
        )* };
    }

    macro_rules! atomic {
        ($name:ident, $int:ty) => {
            pub struct $name(loom::sync::atomic::$name);

            impl $name {
                pub fn new(n: $int) -> Self {
                    Self(loom::sync::atomic::$name::new(n))
                }
                #[track_caller]
                pub fn load(&self, order: Ordering) -> $int {
                    note(self.0.load(if order == SeqCst { Acquire } else { order }))
                }
                /// As a swap, since loom would let a change that another thread made earlier come
                /// after a plain store.
                #[track_caller]
                pub fn store(&self, n: $int, order: Ordering) {
                    note(self.0.swap(n, order));
                }
                changes! { $int: swap fetch_add fetch_sub fetch_or fetch_and }
                #[track_caller]
                pub fn compare_exchange(&self, a: $int, b: $int, ok: Ordering, err: Ordering) -> Result<$int, $int> {
                    let before = change(ok, || self.0.compare_exchange(a, b, ok, err).unwrap_or_else(|now| now));
                    if before == a { Ok(before) } else { Err(before) }
                }
                #[track_caller]
                pub fn compare_exchange_weak(
                    &self,
                    a: $int,
                    b: $int,
                    ok: Ordering,
                    err: Ordering,
                ) -> Result<$int, $int> {
                    self.compare_exchange(a, b, ok, err)
                }
            }
        };
    }
    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);
}

/// What only its holder may touch: loom fails when two threads do without an order between them.
struct Cell(loom::cell::UnsafeCell<usize>);
// SAFETY: that is what the test is to show, and loom watches every access.
unsafe impl Sync for Cell {}

impl Cell {
    fn new() -> Cell {
        Cell(loom::cell::UnsafeCell::new(0))
    }

    /// Counts the touches.
    fn touch(&self) -> usize {
        // SAFETY: loom has checked that nobody else is here.
        self.0.with_mut(|n| unsafe {
            *n += 1;
            *n
        })
    }
}

/// Runs two or three threads in every order that preempts at most `preemptions` times.
fn every_order<W: Send + Sync + 'static>(
    preemptions: usize,
    world: impl Fn() -> W + Send + Sync + 'static,
    threads: &'static [fn(&W)],
    end: fn(&W),
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let _steps = sync::Steps::begin();
        let world = Arc::new(world());
        let spawn = |play: &'static fn(&W)| {
            let world = world.clone();
            thread::spawn(move || play(&world))
        };
        let others: Vec<_> = threads[1..].iter().map(spawn).collect();
        threads[0](&world);
        others.into_iter().for_each(|t| t.join().unwrap());
        end(&world);
    });
}

// ---- the stack ------------------------------------------------------------------------------------

/// A stack of items, and how many times each was taken out of it for good.
struct Pile {
    stack: Stack,
    links: [AtomicU32; 4],
    data: [Cell; 4],
    taken: [AtomicUsize; 4],
}

impl Pile {
    fn new(items: &[u32]) -> Pile {
        let pile = Pile {
            stack: Stack::new(),
            links: std::array::from_fn(|_| AtomicU32::new(0)),
            data: std::array::from_fn(|_| Cell::new()),
            taken: Default::default(),
        };
        items.iter().for_each(|&i| pile.push(i));
        pile
    }

    fn push(&self, i: u32) {
        self.data[i as usize].touch();
        self.stack.push(i, |i| &self.links[i as usize]);
    }

    fn pop(&self) -> Option<u32> {
        let i = self.stack.pop(|i| &self.links[i as usize])?;
        self.data[i as usize].touch();
        Some(i)
    }

    fn keep(&self, i: u32) {
        self.taken[i as usize].fetch_add(1, Relaxed);
    }

    fn keep_all(&self) {
        let mut i = self.stack.pop_all();
        while i != 0 {
            self.data[i as usize].touch();
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
        || Pile::new(&[1, 2, 3]),
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
        || Pile::new(&[1]),
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

/// One descriptor and all that can happen to it. The actors do with it what `span` does.
struct World {
    map: Map<1>,
    list: Stack,
    unused: Stack,
    link: AtomicU32,
    /// Blocks of this life; none of loom's business, but that holding a block pins it.
    blocks: AtomicUsize,
    cells: [Cell; 2],
    /// Blocks in the program's hands at the end.
    held: AtomicUsize,
}

const ONE: u32 = 1;

impl World {
    /// A span with `blocks` blocks of which `taken` are in somebody's hands.
    fn new(blocks: usize, taken: usize) -> World {
        let world = World {
            map: Map::new(),
            list: Stack::new(),
            unused: Stack::new(),
            link: AtomicU32::new(0),
            blocks: AtomicUsize::new(0),
            cells: std::array::from_fn(|_| Cell::new()),
            held: AtomicUsize::new(0),
        };
        let got = world.begin(blocks, taken);
        assert_eq!(got.count_ones() as usize, taken);
        world
    }

    fn write(&self, bits: u64) {
        (0..2).filter(|b| bits >> b & 1 == 1).for_each(|b| _ = self.cells[b].touch());
    }

    fn list(&self) {
        self.list.push(ONE, |_| &self.link);
    }

    fn recycle(&self) {
        self.unused.push(ONE, |_| &self.link);
    }

    fn begin(&self, blocks: usize, want: usize) -> u64 {
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
            Some(_) => self.begin(2, want),
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
        || World::new(2, 2),
        &[|w: &World| w.give(0b01), |w| w.give(0b10), |w| w.keep(w.claim(1))],
        World::end,
    );
}

/// The last free block is taken while another comes back.
#[test]
fn a_span_that_fills_up_is_not_forgotten() {
    every_order(4, || World::new(2, 1), &[|w: &World| w.keep(w.claim(1)), |w| w.give(0b01)], World::end);
    every_order(
        3,
        || World::new(2, 1),
        &[|w: &World| w.keep(w.claim(2)), |w| w.give(0b01), |w| w.keep(w.claim(1))],
        World::end,
    );
}

/// A span retires under a claimer's hands, and its descriptor begins another life.
#[test]
fn a_retired_descriptor_is_recycled_once() {
    every_order(4, || World::new(2, 0), &[World::retire, |w| w.keep(w.claim(1))], World::end);
    every_order(3, || World::new(2, 1), &[|w: &World| w.give(0b01), World::retire, |w| w.keep(w.claim(1))], World::end);
}

/// Somebody looks through the list for retired spans.
#[test]
fn a_sweep_recycles_what_has_retired_and_nothing_else() {
    every_order(4, || World::new(2, 0), &[World::sweep, World::retire], World::end);
    every_order(3, || World::new(2, 1), &[World::sweep, |w| w.give(0b01), |w| w.keep(w.claim(1))], World::end);
    every_order(3, || World::new(2, 0), &[World::sweep, World::retire, |w| w.keep(w.claim(1))], World::end);
}

/// Blocks are taken and come back while the span retires.
#[test]
fn a_block_on_its_way_back_pins_the_span() {
    every_order(
        4,
        || World::new(2, 1),
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
        || World::new(1, 0),
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
    every_order(4, || World::new(2, 0), &[World::purge, |w| w.give(w.claim(2))], World::end);
    every_order(3, || World::new(2, 1), &[World::purge, |w| w.give(0b01), |w| w.keep(w.claim(1))], World::end);
    every_order(3, || World::new(2, 0), &[World::purge, World::retire, |w| w.keep(w.claim(1))], World::end);
}

// ---- seals ------------------------------------------------------------------------------------------

/// The flag of a span that says its free blocks may be without a seal: see `span::take_sealed` and
/// `span::purge_pages`, whose steps these are.
struct Seals {
    world: World,
    sealed: [AtomicBool; 2],
    unsealed: AtomicU32,
    purge: AtomicU32,
}

impl Seals {
    /// One block is taken, the other free and sealed, and the flag has not been cleared yet.
    fn new() -> Seals {
        Seals {
            world: World::new(2, 1),
            sealed: [const { AtomicBool::new(true) }; 2],
            unsealed: AtomicU32::new(1),
            purge: AtomicU32::new(0),
        }
    }

    fn claim(&self) {
        let (mut got, map) = (0, &self.world.map);
        if self.world.list.pop(|_| &self.world.link).is_none() {
            return;
        }
        if map.take(2, 1, |_, bits| got |= bits) > 0 {
            self.world.write(got);
            let block = got.trailing_zeros() as usize;
            let unsealed = self.unsealed.load(SeqCst) != 0;
            assert!(unsealed || self.sealed[block].load(Relaxed), "a free block without its seal, and no flag");
            self.sealed[block].store(true, Relaxed);
            let purge = self.purge.load(SeqCst);
            if unsealed && purge.is_multiple_of(2) && map.free() == 0 && map.count() == 0 {
                self.unsealed.fetch_and(0, SeqCst);
                if self.purge.load(SeqCst) != purge {
                    self.unsealed.fetch_or(1, SeqCst);
                }
            }
        }
        self.world.keep(got);
        if map.put_back() == Then::Push {
            self.world.list();
        }
    }

    fn purge(&self) {
        self.purge.fetch_add(1, SeqCst);
        for block in 0..2 {
            let Some(taken) = self.world.map.take_range(block..=block) else { continue };
            self.world.write(taken[0]);
            self.unsealed.fetch_or(1, SeqCst);
            self.sealed[block].store(false, Relaxed);
            self.world.map.put_bits(&taken);
        }
        self.purge.fetch_add(1, SeqCst);
    }

    /// A free: the block has its seal, and goes back.
    fn give(&self) {
        self.world.write(0b01);
        self.world.map.give(0, 0b01);
        if self.world.map.returned(1).1 {
            self.world.list();
        }
    }
}

#[test]
fn a_block_without_its_seal_is_in_a_span_that_says_so() {
    every_order(
        3,
        Seals::new,
        &[Seals::purge, Seals::give, |seals| {
            seals.claim();
            seals.claim();
        }],
        |seals| seals.world.end(),
    );
}

// ---- claiming a slot --------------------------------------------------------------------------------

/// A slot as the mode without rseq has it: see `slot::claimed`, `slot::drain`.
struct Slot {
    claim: AtomicU64,
    cell: Cell,
    changes: AtomicUsize,
}

impl Slot {
    fn change(&self) {
        if self.claim.load(Relaxed) == 0 && self.claim.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            self.cell.touch();
            self.claim.store(0, Release);
            self.changes.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn a_claimed_slot_has_one_owner() {
    every_order(
        4,
        || Slot { claim: AtomicU64::new(0), cell: Cell::new(), changes: AtomicUsize::new(0) },
        &[
            |slot: &Slot| {
                slot.change();
                slot.change();
            },
            Slot::change,
            Slot::change,
        ],
        |slot| {
            let changes = slot.changes.load(Relaxed);
            assert!(changes > 0 && slot.cell.touch() == changes + 1);
        },
    );
}
