//! The lab. Data walks one way: an experiment is read, a plan is a list of hashed trials, a trial is run against a target
//! under a heap by a load while observers watch, a record is appended, an analysis is a pure function of records, a report
//! draws the analysis.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod bundle;
pub mod digest;
pub mod doctor;
pub mod environment;
pub mod experiment;
pub mod fetch;
pub mod heaps;
pub mod import;
pub mod judge;
pub mod load;
pub mod machine;
pub mod observe;
pub mod placement;
pub mod plan;
pub mod profile;
pub mod proof;
pub mod record;
pub mod report;
pub mod rng;
pub mod selftest;
pub mod sweep;
pub mod target;
pub mod time;
pub mod why;
pub mod wrong;
