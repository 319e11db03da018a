//! One file a verb; each has `Args` and `run`.

pub mod doctor;
pub mod fetch_server;
pub mod heaps;
pub mod import;
pub mod report;
pub mod run;
pub mod selftest;
pub mod sweep;
pub mod verify;
pub mod why;
pub mod words;
