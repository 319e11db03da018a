//! Profiles: where a server burns its CPU, and where its threads leave it. A profile is a bag of stacks with weights; everything that
//! is said of it is a sum over these stacks, and can be added up again from the folded file beside it.
//!
//! - `collect` runs perf on a live server, `script` reads what perf prints, `folded` reads and writes stacks as lines of text.
//! - `cause` says what a stack stands for in the words of a database person; `table` adds up functions, and compares; `pair` finds those
//!   that only changed their name; `tree` merges stacks from their roots.
//!
//! Nothing is dropped: a sample without a stack is a stack of one frame, and what perf lost is counted beside the weights.

pub mod cause;
pub mod collect;
pub mod folded;
pub mod pair;
pub mod script;
pub mod symbols;
pub mod table;
pub mod tree;

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What the weights of a profile count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Samples of threads that run, at even steps of CPU time.
    Cpu,
    /// Threads leaving the CPU; the first frame says in which state.
    Switches,
    /// Microseconds that the threads of these switches stayed away.
    OffCpu,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Cpu, Kind::Switches, Kind::OffCpu];

    /// As in the names of files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Switches => "switches",
            Kind::OffCpu => "off-cpu",
        }
    }
}

/// The first frame of a switch: why the thread left the CPU.
pub const PREEMPTED: &str = "[preempted]";
pub const WAITING: &str = "[waiting]";
pub const BLOCKED: &str = "[blocked]";

/// The only frame of a sample of which no stack is known.
pub const NO_STACK: &str = "[no stack]";

/// Index of a frame's name in its profile.
pub type Frame = u32;

/// Stacks and their weights. A stack runs from the root to the leaf.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    names: Vec<String>,
    places: HashMap<String, Frame>,
    stacks: Vec<(Vec<Frame>, u64)>,
    known: HashMap<Vec<Frame>, usize>,
    total: u64,
}

impl Profile {
    pub fn frame(&mut self, name: &str) -> Frame {
        if let Some(at) = self.places.get(name) {
            return *at;
        }
        let at = self.names.len() as Frame;
        self.names.push(name.to_string());
        self.places.insert(name.to_string(), at);
        at
    }

    pub fn add(&mut self, stack: Vec<Frame>, weight: u64) {
        self.total += weight;
        match self.known.get(&stack) {
            Some(at) => self.stacks[*at].1 += weight,
            None => {
                self.known.insert(stack.clone(), self.stacks.len());
                self.stacks.push((stack, weight));
            }
        }
    }

    /// Adds every stack of another profile.
    pub fn merge(&mut self, other: &Profile) {
        let map: Vec<Frame> = other.names.iter().map(|n| self.frame(n)).collect();
        for (stack, weight) in &other.stacks {
            self.add(stack.iter().map(|f| map[*f as usize]).collect(), *weight);
        }
    }

    pub fn stacks(&self) -> impl Iterator<Item = (&[Frame], u64)> {
        self.stacks.iter().map(|(s, w)| (s.as_slice(), *w))
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn name(&self, frame: Frame) -> &str {
        &self.names[frame as usize]
    }

    /// The sum of all weights.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

/// Stacks from anywhere: what `perf script` printed, or folded lines. `name` is the file's, for messages.
pub fn read(name: &str, text: &str) -> anyhow::Result<Profile> {
    // Only perf's frames stand in lines of their own.
    if !text.lines().take(100).any(|l| l.starts_with('\t')) {
        return folded::read(name, text);
    }
    let script = script::read(text, &mut symbols::Symbols::none());
    let mut all = script.cpu;
    all.merge(&script.switches);
    Ok(all)
}

/// `object!function`: the parts of a frame's name. No object where the tool that wrote it gave none.
pub fn parts(frame: &str) -> (Option<&str>, &str) {
    match frame.split_once('!') {
        Some((object, function)) if is_object(object) && !function.is_empty() => (Some(object), function),
        _ => (None, frame),
    }
}

/// "Item::operator!=" has no object before the mark.
fn is_object(text: &str) -> bool {
    !text.is_empty() && !text.contains(['(', '<', ' ', ':']) && text != "operator"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_conserved_when_profiles_are_merged() {
        let mut one = Profile::default();
        let (a, b) = (one.frame("a"), one.frame("b"));
        one.add(vec![a, b], 3);
        one.add(vec![a], 1);
        one.add(vec![a, b], 2);
        let mut two = Profile::default();
        let (b, a) = (two.frame("b"), two.frame("a"));
        two.add(vec![a, b], 4);
        two.add(vec![b], 5);
        one.merge(&two);
        assert_eq!((one.total(), one.stacks().map(|s| s.1).sum::<u64>()), (15, 15));
        let both: Vec<u64> = one.stacks().map(|s| s.1).collect();
        assert_eq!(both, [9, 1, 5]);
    }

    #[test]
    fn objects_and_functions() {
        assert_eq!(parts("ntdll.dll!RtlFreeHeap"), (Some("ntdll.dll"), "RtlFreeHeap"));
        assert_eq!(parts("my_malloc"), (None, "my_malloc"));
        assert_eq!(parts("Item::operator!=(Item const&)"), (None, "Item::operator!=(Item const&)"));
        assert_eq!(parts("mariadbd!Item::operator!="), (Some("mariadbd"), "Item::operator!="));
    }
}
