//! Many threads on few CPUs, all at once in every part of the heap, while the process forks. Built with
//! `--cfg delays` a random wait lies at every atomic step, so that the rare orders come often:
//!
//!     RUSTFLAGS="--cfg delays" CARGO_TARGET_DIR=target/delays cargo test --release -p heap --test stress
//!
//! SOAK=1 runs for minutes instead of seconds.
#![cfg(not(loom))]

mod common;

use common::shadow::{Block, Op, Shadow, anything_left, differs, op};
use common::{Random, settles};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::Duration;

common::in_both_modes! {
    storm: "DECAY_MS=20";
    storm_and_upkeep: "UPKEEP=1 DECAY_MS=20";
}

/// Blocks on their way from thread to thread.
static EXCHANGE: [Mutex<Option<Block>>; 64] = [const { Mutex::new(None) }; 64];
static STOP: AtomicBool = AtomicBool::new(false);

fn storm_and_upkeep() {
    storm();
}

fn storm() {
    let rounds = if std::env::var_os("SOAK").is_some() { 100 } else { 3 };
    for round in 0..rounds {
        STOP.store(false, Relaxed);
        let mut shadows = vec![Shadow::default()];
        scope(|s| {
            let work = |i| s.spawn(move || work(Random(round * 100 + i), 200_000));
            let workers: Vec<_> = (0..8 + round % 9).map(work).collect();
            for i in 0..4 {
                sleep(Duration::from_millis(150));
                in_a_fork(round * 100 + 50 + i);
            }
            STOP.store(true, Relaxed);
            shadows.extend(workers.into_iter().map(|w| w.join().unwrap()));
        });
        EXCHANGE.iter().filter_map(|place| place.lock().unwrap().take()).for_each(|b| _ = shadows[0].adopt(b));
        assert!(shadows.iter().any(|s| s.len() > 0));
        settles(|| differs(&shadows.iter().collect::<Vec<_>>()));
        // Half of it by threads of their own, so that frees meet as well.
        scope(|s| shadows.iter_mut().step_by(2).for_each(|shadow| _ = s.spawn(|| shadow.close())));
        shadows.iter_mut().for_each(Shadow::close);
        settles(anything_left);
    }
}

/// Mallocs and frees, mostly small and of few sizes so that threads meet, and swaps blocks with others.
fn work(mut random: Random, steps: usize) -> Shadow {
    const SIZES: [usize; 10] = [16, 32, 64, 176, 512, 1024, 4096, 16384, 20480, 100_000];
    let mut shadow = Shadow::default();
    for _ in 0..steps {
        if STOP.load(Relaxed) {
            break;
        }
        let word = random.next();
        let bytes = word.to_le_bytes();
        let i = bytes[5] as usize;
        match word % 64 {
            0 => shadow.apply(Op::FreeSome(1 + i % 3)),
            1..=8 => {
                // In a forked child the lock may be held for ever.
                let Ok(mut place) = EXCHANGE[i % EXCHANGE.len()].try_lock() else { continue };
                let mine = shadow.hand_over(random.below(1 << 16));
                if let Some(theirs) = std::mem::replace(&mut *place, mine) {
                    shadow.adopt(theirs);
                }
            }
            9..=36 => shadow.apply(Op::Malloc(SIZES[random.below(SIZES.len())])),
            37..=62 => shadow.apply(Op::Free(random.below(1 << 16))),
            _ => match op([bytes[1], bytes[2], bytes[3], bytes[4]]) {
                Op::Census | Op::Many(..) | Op::Wrong(..) => {}
                Op::Purge | Op::Pass if !i.is_multiple_of(8) => {}
                op => shadow.apply(op),
            },
        }
        if shadow.len() > 500 {
            shadow.apply(Op::FreeSome(2));
        }
    }
    shadow
}

/// A child that forked from the midst of it works on with what it has inherited, alone and with threads.
fn in_a_fork(seed: u64) {
    // SAFETY: the child uses nothing whose lock another thread may have held, but libc's malloc, which
    // fork looks after.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: a child that hangs dies of this.
            unsafe { libc::alarm(30) };
            let ok = std::panic::catch_unwind(|| {
                for place in &EXCHANGE {
                    let block = place.try_lock().ok().and_then(|mut place| place.take());
                    block.into_iter().for_each(|b| _ = Shadow::default().adopt(b));
                }
                let shadow = work(Random(seed), 500);
                scope(|s| (0..3).for_each(|i| _ = s.spawn(move || work(Random(seed * 7 + i), 500))));
                heap::upkeep::purge();
                drop(shadow);
            });
            // SAFETY: nothing of the parent's is torn down.
            unsafe { libc::_exit(i32::from(ok.is_err())) }
        }
        child => {
            assert!(child > 0, "fork failed");
            let mut status = 0;
            // SAFETY: the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(status == 0, "a forked child ended with {status:#x} (0xe: it hung)");
        }
    }
}
