//! TPC-C as plain code, for any store: how many rows there are and what is in them, what a terminal asks for next, the rules
//! of the five transactions that are arithmetic, and what must hold of the data afterwards. No I/O, no clock, no dependency.
//!
//! Revision 5.11 of the standard is meant wherever a clause is named. Money is whole cents, a tax or a discount is
//! ten-thousandths, so that no figure ever depends on rounding of floating point.
//!
//! There is no `Store` trait. An SQL store answers sets of rows, each answer costs a round trip, and with stored procedures
//! the whole transaction happens in the server; a key-value store answers single keys at once and has no sets. A trait
//! narrow enough for both would make one of them do what nobody does with it, and would measure the trait. What the two
//! share is what would make their figures differ if it differed: the rows (`load`), the inputs (`input`, `deck`, `pace`),
//! the rules (`rule`), and the checks (`check`), which take totals that a store may sum itself, in SQL, or let
//! `check::Scan` sum from its rows.
//!
//! Top to bottom, a file uses only what stands below it: `input` -> `deck`, `pace`; `load`, `check` -> `row` -> `scale`;
//! `random` and `rule` are leaves.

#![forbid(unsafe_code)]
// Cents are set off in a literal: 50_00 is 50.00.
#![allow(clippy::inconsistent_digit_grouping)]

pub mod check;
pub mod deck;
pub mod input;
pub mod load;
pub mod pace;
pub mod random;
pub mod row;
pub mod rule;
pub mod scale;

pub use deck::Kind;
pub use random::Random;
pub use scale::Scale;
