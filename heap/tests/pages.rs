//! Runs of units against a table of who has which: claimed within a chunk and across several, aligned,
//! extended where they stand, released whole and in part, purged. By one thread, where it is known what
//! must be possible, and by several.
#![cfg(not(loom))]

mod common;

use common::{Random, alone, face};
use heap::bucket::UNIT;
use heap::estate::{CHUNK_UNITS, address, limit_chunk};
use heap::pages;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn one_thread() {
    alone("one_thread", "RSEQ=0", || {
        let mut table = Table::new();
        let mut random = Random(1);
        for _ in 0..10_000 {
            table.step(&mut random);
        }
        table.close();
    });
}

#[test]
fn several_threads() {
    alone("several_threads", "RSEQ=0", || {
        let turn = |seed| {
            let (mut runs, mut random) = (Vec::new(), Random(seed));
            for _ in 0..20_000 {
                if runs.len() < 20 && random.below(2) == 0 {
                    let (units, align) = shape(&mut random);
                    runs.push(claim(units, align));
                } else if !runs.is_empty() {
                    let run: Run = runs.swap_remove(random.below(runs.len()));
                    run.release(0);
                }
                if random.below(1000) == 0 {
                    heap::upkeep::purge();
                }
            }
            runs.into_iter().for_each(|run| run.release(0));
        };
        std::thread::scope(|s| (0..4).for_each(|i| _ = s.spawn(move || turn(i))));
        all_is_free();
    });
}

/// Sizes around the bounds of chunks, alignments up to four of them.
fn shape(random: &mut Random) -> (usize, usize) {
    let units = match random.below(8) {
        0 => 64,
        1 => 60 + random.below(10),
        2 => 1 + random.below(200),
        _ => 1 + random.below(24),
    };
    (units, if random.below(4) == 0 { 1 << random.below(9) } else { 1 })
}

/// A run, with its own number written into each of its units.
struct Run {
    unit: usize,
    units: usize,
    number: usize,
}

fn claim(units: usize, align: usize) -> Run {
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    let run = pages::claim(units, align).expect("no memory");
    assert_eq!(address(run.unit) % (align * UNIT), 0, "{units} units at a multiple of {align}");
    let clean = run.clean;
    let run = Run { unit: run.unit, units, number: NUMBER.fetch_add(1, Relaxed) };
    assert!(!clean || run.words(0).all(|word| word.load(Relaxed) == 0), "a clean run is not all zeros");
    run.words(0).for_each(|word| word.store(run.number, Relaxed));
    run
}

impl Run {
    /// The first and the last word of each unit after the first `from`.
    fn words(&self, from: usize) -> impl Iterator<Item = &AtomicUsize> {
        let word = |at: usize| {
            // SAFETY: the run is ours.
            unsafe { &*(at as *const AtomicUsize) }
        };
        (self.unit + from..self.unit + self.units).flat_map(move |u| [word(address(u)), word(address(u) + UNIT - 8)])
    }

    /// Keeps the first `keep` units.
    fn release(&self, keep: usize) {
        assert!(self.words(0).all(|word| word.load(Relaxed) == self.number), "somebody else wrote to a run");
        pages::release(self.unit + keep, self.units - keep, 0);
    }
}

fn all_is_free() {
    heap::upkeep::purge();
    assert_eq!(pages::census(), (0, heap::estate::mapped() / UNIT));
}

struct Table {
    used: Vec<bool>,
    runs: Vec<Run>,
}

impl Table {
    fn new() -> Table {
        assert!(!face::malloc(0).is_null(), "this opens the estate");
        heap::upkeep::purge();
        let (dirty, clean) = pages::census();
        assert!(dirty == 0 && clean < 2 * CHUNK_UNITS);
        let mut table = Table { used: Vec::new(), runs: Vec::new() };
        // The first malloc's span; what it leaves of its chunk is ours.
        table.grown(1);
        table.used[..2 * CHUNK_UNITS - clean].fill(true);
        table
    }

    /// The estate may be longer now; what alignment skipped is a hole, and nobody's.
    fn grown(&mut self, align: usize) {
        let (old, new) = (self.used.len(), limit_chunk() * CHUNK_UNITS);
        if new > old {
            self.used.resize(old.next_multiple_of(align.max(CHUNK_UNITS)), true);
            self.used.resize(new, false);
        }
    }

    fn free(&self, from: usize, units: usize) -> bool {
        self.used.get(from..from + units).is_some_and(|used| !used.contains(&true))
    }

    fn mark(&mut self, from: usize, units: usize, used: bool) {
        assert!(self.used[from..from + units].iter().all(|u| *u != used), "{units} units at {from}: {used} already");
        self.used[from..from + units].fill(used);
    }

    /// Whether there is room for a run: within a chunk, or from the beginning of one.
    fn fits(&self, units: usize, align: usize) -> bool {
        let whole = units > CHUNK_UNITS || align > CHUNK_UNITS;
        let step = if whole { align.max(CHUNK_UNITS) } else { align };
        let within = |u: &usize| whole || u % CHUNK_UNITS + units <= CHUNK_UNITS;
        (0..self.used.len()).step_by(step).filter(within).any(|u| self.free(u, units))
    }

    fn step(&mut self, random: &mut Random) {
        let any = random.below(self.runs.len().max(1));
        match random.below(20) {
            0..10 if self.used.iter().filter(|u| **u).count() < 1500 => {
                let (units, align) = shape(random);
                let (fits, before) = (self.fits(units, align), limit_chunk());
                let run = claim(units, align);
                assert!(limit_chunk() == before || !fits, "grew, with room for {units} units at {align}");
                self.grown(align);
                self.mark(run.unit, units, true);
                self.runs.push(run);
            }
            10..13 if !self.runs.is_empty() => {
                let (run, more) = (&mut self.runs[any], 1 + random.below(20));
                let (end, units) = (run.unit + run.units, run.units);
                let may = end % CHUNK_UNITS != 0 && end % CHUNK_UNITS + more <= CHUNK_UNITS;
                let done = pages::extend(run.unit, units, more);
                if done {
                    run.units += more;
                    run.words(units).for_each(|word| word.store(run.number, Relaxed));
                }
                assert_eq!(done, may && self.free(end, more), "{more} units at {end}");
                if done {
                    self.mark(end, more, true);
                }
            }
            13 => _ = pages::purge(true),
            14 if !self.runs.is_empty() => {
                let keep = random.below(self.runs[any].units);
                let run = &mut self.runs[any];
                run.release(keep);
                let (from, units) = (run.unit + keep, run.units - keep);
                run.units = keep;
                if keep == 0 {
                    self.runs.swap_remove(any);
                }
                self.mark(from, units, false);
            }
            _ if !self.runs.is_empty() => {
                let run = self.runs.swap_remove(any);
                run.release(0);
                self.mark(run.unit, run.units, false);
            }
            _ => {}
        }
        let (dirty, clean) = pages::census();
        assert_eq!(dirty + clean, self.used.iter().filter(|u| !**u).count());
    }

    fn close(self) {
        self.runs.iter().for_each(|run| run.release(0));
        let (dirty, clean) = pages::census();
        let live = heap::estate::mapped() / UNIT - dirty - clean;
        assert!(live == 1, "{live} units are somebody's: only the first malloc's is");
    }
}
