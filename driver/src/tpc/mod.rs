//! TPC-C in SQL: the tables, the five transactions as statements or as stored procedures, and the totals that the checks of
//! the crate `tpcc` judge.
//!
//! Top to bottom: `client` -> `statements`, `procedures` -> `schema`; `prepare`, `check` -> `schema`.

mod check;
mod client;
mod prepare;
mod procedures;
mod schema;
mod statements;

pub use check::{facts, orders, scale};
pub use client::TpccClient;
pub use prepare::prepare;
pub use procedures::{PROCEDURES, create as create_procedures};
pub use statements::COUNT as STATEMENTS;
