//! The heap against a shadow of it: any sequence of calls, by one thread and by several that hand
//! blocks to each other, keeps every promise that `common/shadow.rs` lists.
//!
//! PROPTEST_CASES sets how many sequences are tried.
#![cfg(not(loom))]

mod common;

use common::shadow::{Block, Op, Shadow, anything_left, differs, op};
use common::{Random, settles};
use proptest::prelude::any;
use proptest::test_runner::{Config, TestRunner};
use std::sync::mpsc;

common::in_both_modes! {
    sequences: "";
    threads: "";
    threads_and_upkeep: "UPKEEP=1 DECAY_MS=20";
}

fn sequences() {
    let cases = if cfg!(debug_assertions) { 64 } else { 256 };
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |n| n.parse().unwrap());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let words = proptest::collection::vec(any::<[u8; 4]>(), 0..400);
    let result = runner.run(&words, |words| {
        let mut shadow = Shadow::default();
        for word in &words {
            shadow.apply(op(*word));
        }
        shadow.check_census();
        shadow.close();
        assert_eq!(anything_left(), None);
        Ok(())
    });
    if let Err(proptest::test_runner::TestError::Fail(why, words)) = result {
        panic!("{why}\nafter {:?}", words.into_iter().map(op).collect::<Vec<Op>>());
    }
    result.unwrap();
}

fn threads() {
    exchange(6, 30_000);
}

fn threads_and_upkeep() {
    exchange(4, 30_000);
}

/// Threads work on their own and give every eighth block to the next one.
fn exchange(threads: usize, steps: usize) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel::<Block>()).unzip();
    let workers: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(i, inbox)| {
            let next = senders[(i + 1) % threads].clone();
            std::thread::spawn(move || {
                let mut shadow = Shadow::default();
                let mut random = Random(i as u64);
                for step in 0..steps {
                    let word = random.next().to_le_bytes();
                    match op([word[0], word[1], word[2], word[3]]) {
                        // Others are in the midst of things: exact figures come at the end.
                        Op::Census | Op::Wrong(..) => continue,
                        Op::Purge | Op::Pass if step % 16 != 0 => continue,
                        Op::Many(size, n) => shadow.apply(Op::Many(size, n % 32)),
                        op => shadow.apply(op),
                    }
                    inbox.try_iter().for_each(|block| _ = shadow.adopt(block));
                    if step % 8 == 0 {
                        shadow.hand_over(word[4] as usize).into_iter().for_each(|block| next.send(block).unwrap());
                    }
                    if shadow.len() > 3000 {
                        shadow.apply(Op::FreeSome(2));
                    }
                }
                drop(next);
                inbox.iter().for_each(|block| _ = shadow.adopt(block));
                shadow
            })
        })
        .collect();
    drop(senders);
    let mut shadows: Vec<_> = workers.into_iter().map(|w| w.join().unwrap()).collect();
    assert!(shadows.iter().any(|s| s.len() > 0));
    settles(|| differs(&shadows.iter().collect::<Vec<_>>()));
    shadows.iter_mut().for_each(Shadow::close);
    settles(anything_left);
}
