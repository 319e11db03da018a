//! What stands in for `heap/src/sync.rs` here: atomics that are found by their address.
//!
//! The memory itself is never written. For each word of it that is used, an order of things (a run of the model) has
//! one of loom's atomics, which begins with what the memory holds. So statics and memory got from the system
//! work as they do in the heap: a zeroed word is an atomic, and each order begins with all of it as it was.
//!
//! - SeqCst has its meaning: loom alone takes it for AcqRel;
//! - loom wants its atomics made before a second thread runs. A word that is met later is an ordinary one until
//!   the next model, which then knows of it: so a model is good if it has met none (`known`).

use loom::sync::atomic::fence;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::rc::Rc;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::*;

pub fn step() {}

/// Of a test, which has a thread of its own.
#[derive(Default)]
struct Memory {
    /// Every address that was ever used, and how to make what is there.
    known: BTreeMap<usize, Make>,
    /// Those of them that this model has met too late.
    late: BTreeSet<usize>,
    /// Of this order.
    items: BTreeMap<usize, Item>,
    together: bool,
    newest: bool,
    /// What was done in this order of things: printed when it goes wrong.
    steps: Vec<(loom::thread::ThreadId, &'static Location<'static>, u64)>,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// Forgets which words there are.
pub fn forget() {
    MEMORY.take();
}

/// Whether a load finds what was stored last, as it does on x86-64 a few nanoseconds later: for models of what a
/// program does wrong, where nothing orders it.
pub fn newest(always: bool) {
    MEMORY.with_borrow_mut(|memory| memory.newest = always);
}

/// The next model is to know all words that have been met. How many there are.
pub fn known() -> usize {
    MEMORY.with_borrow_mut(|memory| {
        memory.late.clear();
        memory.known.len()
    })
}

/// A new order of things; prints its steps if dropped in a panic.
pub fn begin() -> Steps {
    MEMORY.with_borrow_mut(|memory| {
        memory.steps.clear();
        memory.together = false;
        memory.newest = false;
        let early = memory.known.iter().filter(|(at, _)| !memory.late.contains(at));
        memory.items = early.map(|(&at, make)| (at, make(at, true))).collect();
    });
    Steps
}

/// From here on there is more than one thread, or there no longer is.
pub fn together(now: bool) {
    MEMORY.with_borrow_mut(|memory| memory.together = now);
}

pub struct Steps;

impl Drop for Steps {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (thread, at, value) in MEMORY.take().steps {
                println!("{thread:?} {}:{} found {value:#x}", at.file(), at.line());
            }
        }
    }
}

/// What is at an address: loom's, or an ordinary word.
type Make = fn(usize, bool) -> Item;

fn item(at: usize, make: Make) -> Item {
    MEMORY.with_borrow_mut(|memory| {
        if let Some(item) = memory.items.get(&at) {
            return item.clone();
        }
        if memory.together && memory.known.insert(at, make).is_none() {
            memory.late.insert(at);
        }
        memory.known.insert(at, make);
        let item = make(at, !memory.late.contains(&at));
        memory.items.insert(at, item.clone());
        item
    })
}

/// Zeroes words, as the kernel does whose page has been given back. Nobody may hold anything there.
pub fn wipe(from: usize, len: usize) {
    let items =
        MEMORY.with_borrow(|memory| memory.items.range(from..from + len).map(|i| i.1.clone()).collect::<Vec<_>>());
    for item in items {
        match item {
            Item::Held(held) => _ = held.touch(),
            Item::AtomicUsize(word) => _ = word.swap(0, AcqRel),
            _ => panic!("only blocks go back"),
        }
    }
}

/// Says that the caller alone holds what lies at `at`: loom fails when two threads do without an order
/// between them. How often that was said.
pub fn touch(at: usize) -> usize {
    // Beside the word, whose atomic has that address.
    match item(at + 1, Held::make) {
        Item::Held(held) => held.touch(),
        _ => unreachable!(),
    }
}

enum Held {
    Loom(loom::cell::UnsafeCell<usize>),
    Ordinary(std::cell::Cell<usize>),
}

impl Held {
    fn make(_: usize, of_loom: bool) -> Item {
        Item::Held(Rc::new(match of_loom {
            true => Held::Loom(loom::cell::UnsafeCell::new(0)),
            false => Held::Ordinary(Default::default()),
        }))
    }

    fn touch(&self) -> usize {
        match self {
            // SAFETY: loom has checked that nobody else is here.
            Held::Loom(cell) => cell.with_mut(|n| unsafe {
                *n += 1;
                *n
            }),
            Held::Ordinary(cell) => {
                cell.set(cell.get() + 1);
                cell.get()
            }
        }
    }
}

/// A SeqCst change of memory stands between two fences, as every locked instruction does.
#[track_caller]
fn change<T: Copy + Step>(order: Ordering, change: impl FnOnce() -> T) -> T {
    let strong = order == SeqCst;
    strong.then(|| fence(SeqCst));
    let before = change();
    strong.then(|| fence(SeqCst));
    note(before)
}

#[track_caller]
fn note<T: Copy + Step>(value: T) -> T {
    let step = (loom::thread::current().id(), Location::caller(), value.word());
    MEMORY.with_borrow_mut(|memory| memory.steps.push(step));
    value
}

trait Step {
    fn word(self) -> u64;
}

/// An atomic as this order has it.
enum Word<L, O> {
    Loom(L),
    Ordinary(O),
}

macro_rules! either {
    ($word:expr, $atom:ident => $call:expr) => {
        match &*$word {
            Word::Loom($atom) => $call,
            Word::Ordinary($atom) => $call,
        }
    };
}

macro_rules! atomics {
    ($($name:ident $int:ty: $($change:ident)*;)*) => {
        #[derive(Clone)]
        enum Item {
            $($name(Rc<Word<loom::sync::atomic::$name, std::sync::atomic::$name>>),)*
            Held(Rc<Held>),
        }

        $(
            impl Step for $int {
                fn word(self) -> u64 {
                    self as u64
                }
            }

            impl Word<loom::sync::atomic::$name, std::sync::atomic::$name> {
                fn swap(&self, n: $int, order: Ordering) -> $int {
                    either!(self, atom => atom.swap(n, order))
                }
            }

            #[repr(transparent)]
            pub struct $name(std::sync::atomic::$name);

            impl $name {
                pub const fn new(n: $int) -> Self {
                    Self(std::sync::atomic::$name::new(n))
                }
                fn atom(&self) -> Rc<Word<loom::sync::atomic::$name, std::sync::atomic::$name>> {
                    fn make(at: usize, of_loom: bool) -> Item {
                        // SAFETY: it was there when its address was noted, and memory stays in these tests.
                        let first = unsafe { &*(at as *const std::sync::atomic::$name) }.load(Relaxed);
                        Item::$name(Rc::new(match of_loom {
                            true => Word::Loom(loom::sync::atomic::$name::new(first)),
                            false => Word::Ordinary(std::sync::atomic::$name::new(first)),
                        }))
                    }
                    match item(&raw const self.0 as usize, make) {
                        Item::$name(atom) => atom,
                        _ => panic!("two kinds of atomics in one place"),
                    }
                }
                #[track_caller]
                pub fn load(&self, order: Ordering) -> $int {
                    let order = if order == SeqCst { Acquire } else { order };
                    if MEMORY.with_borrow(|memory| memory.newest) {
                        // A change finds what was stored last; this one changes nothing.
                        let n = <$int>::default();
                        let exchange = || either!(self.atom(), atom => atom.compare_exchange(n, n, order, order));
                        return note(exchange().unwrap_or_else(|now| now));
                    }
                    note(either!(self.atom(), atom => atom.load(order)))
                }
                /// As a swap, since loom would let a change that another thread made earlier come
                /// after a plain store.
                #[track_caller]
                pub fn store(&self, n: $int, order: Ordering) {
                    note(self.atom().swap(n, order));
                }
                #[track_caller]
                pub fn swap(&self, n: $int, order: Ordering) -> $int {
                    change(order, || self.atom().swap(n, order))
                }
                $(
                    #[track_caller]
                    pub fn $change(&self, n: $int, order: Ordering) -> $int {
                        change(order, || either!(self.atom(), atom => atom.$change(n, order)))
                    }
                )*
                #[track_caller]
                pub fn compare_exchange(&self, a: $int, b: $int, ok: Ordering, err: Ordering) -> Result<$int, $int> {
                    let exchange = || either!(self.atom(), atom => atom.compare_exchange(a, b, ok, err));
                    let before = change(ok, || exchange().unwrap_or_else(|now| now));
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
                #[track_caller]
                pub fn fetch_update(
                    &self,
                    ok: Ordering,
                    err: Ordering,
                    next: impl Fn($int) -> Option<$int>,
                ) -> Result<$int, $int> {
                    let mut now = self.load(err);
                    while let Some(new) = next(now) {
                        match self.compare_exchange(now, new, ok, err) {
                            Ok(_) => return Ok(now),
                            Err(changed) => now = changed,
                        }
                    }
                    Err(now)
                }
            }
        )*
    };
}
atomics! {
    AtomicBool bool:;
    AtomicU8 u8: fetch_or;
    AtomicU32 u32: fetch_add fetch_sub fetch_or fetch_and fetch_min;
    AtomicU64 u64: fetch_add fetch_sub fetch_or fetch_and;
    AtomicUsize usize: fetch_add fetch_sub fetch_or fetch_and;
}
