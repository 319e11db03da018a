//! The lab. Data walks one way: an experiment is read, a plan is a list of hashed trials, a trial is run against a target
//! under a heap by a load while observers watch, a record is appended, an analysis is a pure function of records, a report
//! draws the analysis.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod import;
pub mod record;
pub mod report;
