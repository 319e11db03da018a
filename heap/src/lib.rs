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

pub mod bucket;
pub mod depot;
pub mod estate;
pub mod heap;
pub mod inspect;
pub mod map;
pub mod options;
pub mod os;
pub mod pages;
mod report;
pub mod slot;
pub mod span;
pub mod stack;
pub mod stats;
pub mod sync;
pub mod text;
pub mod upkeep;
