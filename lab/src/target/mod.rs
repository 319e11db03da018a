//! Targets: what a trial is run against. A target starts a server for one variant; that server lives through the client counts of
//! the variant, and ends. Each life has a private folder; no server that was there before is ever touched.
//!
//! A target's proofs say what only it can know (the version that the server answers, its variables, its engine); what holds for every
//! target (the heap in its memory, its CPU mask) is in `proof`.

pub mod command;
pub mod embedded;
pub mod mariadb;
mod process;

use crate::experiment::{Experiment, Target as Wish};
use crate::heaps::Heap;
use crate::record::{Cell, Figures, Proof, Second};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One life of a server: what its variant fixes.
pub struct Setting<'a> {
    pub cell: &'a Cell,
    pub heap: &'a Heap,
    pub cpus: Option<&'a [usize]>,
    pub client_cpus: Option<&'a [usize]>,
    /// Private to this life; the runner makes it, and removes it afterwards.
    pub dir: &'a Path,
    /// Kept for the whole sweep: prepared data may lie here.
    pub store: &'a Path,
    /// The most clients that this life will see.
    pub most_clients: u32,
    pub seed: u64,
}

/// One trial, asked of a running server.
pub struct Ask<'a> {
    pub clients: u32,
    pub warmup: Duration,
    pub window: Duration,
    pub seed: u64,
    /// Where raw output goes: paths that begin so.
    pub raw: &'a Path,
    /// Called when the window opens.
    pub opened: &'a dyn Fn(),
}

/// What a trial gave.
#[derive(Debug, Default)]
pub struct Measured {
    pub figures: Figures,
    pub series: Vec<Second>,
    pub marks: Vec<String>,
    /// Files that were written.
    pub raw: Vec<PathBuf>,
    /// Proofs that only this trial could give: connections in the window, errors of the load.
    pub proofs: Vec<Proof>,
}

/// A program that takes part: its hash belongs to the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub what: String,
    pub path: PathBuf,
}

pub trait Target {
    /// The programs of a cell. An error that says what to install if one is missing.
    fn programs(&self, cell: &Cell) -> Result<Vec<Program>>;

    /// Says which library each part of the server takes `malloc` from, by a start that only serves this purpose.
    fn bindings(&self, setting: &Setting) -> Result<Vec<Proof>>;

    /// Starts the server and its data, ready for the first trial.
    fn start(&self, setting: &Setting) -> Result<Box<dyn Server>>;

    /// Seconds that a life takes besides its trials: a guess, for the plan.
    fn seconds_to_start(&self) -> f64;
}

pub trait Server {
    fn pid(&self) -> u32;

    /// What must hold before the first trial.
    fn proofs(&mut self) -> Result<Vec<Proof>>;

    /// Waits until the server has nothing left to do; false if it still had at the end of that time.
    fn settle(&mut self, at_most: Duration) -> Result<bool>;

    /// Runs one trial. An error means that it did not run to its end.
    fn measure(&mut self, ask: &Ask) -> Result<Measured>;

    /// What the server thinks it uses, if it says so.
    fn says_used(&mut self) -> Option<f64> {
        None
    }

    /// Ends the server; the proofs of the end (that its data are whole).
    fn stop(self: Box<Self>) -> Result<Vec<Proof>>;
}

/// The target that an experiment asks for.
pub fn of(experiment: &Experiment) -> Result<Box<dyn Target>> {
    match &experiment.target {
        Wish::Embedded(wish) => Ok(Box::new(embedded::Embedded::new(wish, &experiment.load)?)),
        Wish::Mariadb(wish) => Ok(Box::new(mariadb::Mariadb::new(wish, experiment)?)),
        Wish::Command(wish) => Ok(Box::new(command::CommandTarget::new(wish)?)),
    }
}
