//! sysbench 1.0's OLTP tests: the same tables, the same statements in the same order, rows chosen by the same
//! distributions. `docs/driver.md` tells where the two differ.
//!
//! Top to bottom: `prepare`, `client` -> `shape` (tests and their sizes) -> `choose` (distributions), `text`.

mod choose;
mod client;
mod prepare;
mod shape;
mod text;

pub use client::OltpClient;
pub use prepare::{count, prepare};
pub use shape::{Plan, Shape};
