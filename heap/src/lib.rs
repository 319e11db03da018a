//! The heap of Evenkeel: a malloc that stays level as threads grow.
//!
//! A file uses only what stands below it, and a miss walks down one floor at a time:
//!
//! ```text
//! heap      alloc, free, realloc, and what is rare          inspect   statistics
//! upkeep    gives back what nobody uses
//! slot      each CPU's stacks of free blocks; fast paths
//! depot     batches on their way between slots
//! span      runs cut into blocks, with maps of the free ones
//! pages     runs of units, claimed, released, purged
//! estate    address space, and the table unit -> span
//! os        system calls
//! leaves:   bucket  map  stack  options  report  stats  text  sync
//! ```

#![cfg_attr(not(test), no_std)]

#[cfg(not(loom))]
pub mod bucket;
#[cfg(not(loom))]
pub mod depot;
#[cfg(not(loom))]
pub mod estate;
#[cfg(not(loom))]
pub mod heap;
#[cfg(not(loom))]
pub mod inspect;
pub mod map;
#[cfg(not(loom))]
pub mod options;
#[cfg(not(loom))]
pub mod os;
#[cfg(not(loom))]
pub mod pages;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
pub mod slot;
#[cfg(not(loom))]
pub mod span;
pub mod stack;
#[cfg(not(loom))]
pub mod stats;
pub mod sync;
#[cfg(not(loom))]
pub mod text;
#[cfg(not(loom))]
pub mod upkeep;
