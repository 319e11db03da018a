//! A lock-free stack of indices. A leaf.
//!
//! The links lie with the items, in memory that is never unmapped, so reading the link of an item
//! that another thread has just popped is harmless; the tag, which counts the changes of the head,
//! makes the compare-and-swap fail then. Index 0 is the end.
//!
//! `head = tag << 32 | index`

use crate::sync::{AtomicU32, AtomicU64, Ordering::*, step};

pub struct Stack {
    head: AtomicU64,
}

impl Stack {
    pub const fn new() -> Stack {
        Stack { head: AtomicU64::new(0) }
    }

    /// The index on top, or 0: a hint, out of date at once.
    pub fn top(&self) -> u32 {
        self.head.load(Relaxed) as u32
    }

    pub fn push<'a>(&self, index: u32, link: impl Fn(u32) -> &'a AtomicU32) {
        self.push_chain(index, index, link);
    }

    /// Pushes a chain whose inner links are set already.
    pub fn push_chain<'a>(&self, first: u32, last: u32, link: impl Fn(u32) -> &'a AtomicU32) {
        let mut head = self.head.load(Relaxed);
        loop {
            link(last).store(head as u32, Relaxed);
            step();
            match self.head.compare_exchange_weak(head, next_tag(head) | u64::from(first), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    pub fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut head = self.head.load(Acquire);
        loop {
            let index = head as u32;
            if index == 0 {
                return None;
            }
            let next = link(index).load(Relaxed);
            step();
            match self.head.compare_exchange_weak(head, next_tag(head) | u64::from(next), Acquire, Acquire) {
                Ok(_) => return Some(index),
                Err(now) => head = now,
            }
        }
    }

    /// Takes the whole chain; the caller walks it.
    pub fn pop_all(&self) -> u32 {
        let mut head = self.head.load(Acquire);
        loop {
            match self.head.compare_exchange_weak(head, next_tag(head), Acquire, Acquire) {
                Ok(_) => return head as u32,
                Err(now) => head = now,
            }
        }
    }
}

fn next_tag(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
}
