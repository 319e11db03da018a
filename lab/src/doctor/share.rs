//! The heap's share of what a profile saw, and what could be gained at most if the heap took no time at all.

use super::facts::{Part, Profiled, Side};
use crate::profile::cause::{Cause, Causes};
use crate::profile::collect::seconds_a_sample;
use crate::profile::script::Script;
use crate::profile::table::Counts;
use crate::profile::{Frame, Profile};
use std::collections::{BTreeMap, HashMap};

/// `seconds`: of all phases, of which there are two, CPU and switches, or only the first. `switches`: of the whole machine, a second.
pub fn of(script: &Script, seconds: f64, phases: u32, switches: f64) -> Profiled {
    let half = seconds / f64::from(phases);
    let cpu = side(&script.cpu, script.cpu.total(), seconds_a_sample() / half, |_| true);
    let waits = (script.left > 0 || !script.switches.is_empty()).then(|| {
        // A thread at rest loses nothing, and one that only waits for a CPU will have it when others need less.
        let counts = |cause: Cause| !cause.is_idle() && cause != Cause::Preemption;
        let samples = by_cause(&script.switches).into_iter().filter(|(c, _)| counts(*c)).map(|(_, w)| w).sum();
        let all = script.left.max(script.switches.total()) as f64 / script.switches.total().max(1) as f64;
        side(&script.off_cpu, samples, 1e-6 * all / half, counts)
    });
    let both = match &waits {
        Some(waits) if waits.seconds > 0.0 => {
            let sum = cpu.seconds + waits.seconds;
            let mixed = |of: fn(&Part) -> f64| (cpu.seconds * of(&cpu.heap) + waits.seconds * of(&waits.heap)) / sum;
            Part { share: mixed(|p| p.share), error: mixed(|p| p.error) }
        }
        _ => cpu.heap,
    };
    let faults = cpu.causes.iter().find(|(c, _)| *c == Cause::PageFault).map_or(0.0, |(_, s)| *s);
    Profiled {
        seconds,
        phases,
        samples: script.samples,
        lost: script.lost,
        // Each switch is an event when a thread leaves, and one when the next comes.
        events: (script.samples + script.lost) as f64 + 2.0 * switches * half,
        nowhere: script.nowhere,
        cpu,
        waits,
        both,
        faults,
    }
}

/// `unit`: seconds a second that one unit of weight stands for.
fn side(profile: &Profile, samples: u64, unit: f64, counts: impl Fn(Cause) -> bool) -> Side {
    let weights: Vec<(Cause, u64)> = by_cause(profile).into_iter().filter(|(c, _)| counts(*c)).collect();
    let total: u64 = weights.iter().map(|(_, w)| w).sum();
    let share = |weight: u64| weight as f64 / total.max(1) as f64;
    let mut causes: Vec<(Cause, f64)> = weights.iter().map(|(c, w)| (*c, share(*w))).collect();
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let heap: f64 = causes.iter().filter(|(c, _)| c.is_heap()).map(|(_, s)| s).sum();
    Side { samples, seconds: total as f64 * unit, heap: part(heap, samples), causes }
}

fn by_cause(profile: &Profile) -> BTreeMap<Cause, u64> {
    let causes = Causes::of(profile);
    let mut weights = BTreeMap::new();
    for (stack, weight) in profile.stacks() {
        *weights.entry(causes.cause(stack)).or_default() += weight;
    }
    weights
}

/// A share of so many samples, with its error.
fn part(share: f64, samples: u64) -> Part {
    let mut counted = Profile::default();
    let frame: Frame = counted.frame("");
    counted.add(vec![frame], samples);
    let counts = Counts::of(&[&counted], &HashMap::new());
    Part { share, error: counts.share_of((share * samples as f64).round() as u64).error }
}

/// How much throughput there is to gain if a share of the time were gone (Amdahl).
pub fn gain(share: f64) -> f64 {
    if share >= 0.99 { f64::INFINITY } else { 1.0 / (1.0 - share.max(0.0)) - 1.0 }
}

impl Profiled {
    /// The larger of what its CPU alone and CPU and waits together allow: which of them limits throughput cannot be known.
    pub fn gain_at_most(&self) -> f64 {
        gain(self.cpu.heap.at_most().max(self.both.at_most()))
    }

    /// The gain if the measured share itself were gone.
    pub fn gain_seen(&self) -> f64 {
        gain(self.cpu.heap.share.max(self.both.share))
    }

    pub fn lost_share(&self) -> f64 {
        self.lost as f64 / self.events.max(1.0)
    }

    /// Whether there was enough to see.
    pub fn says_something(&self) -> bool {
        self.cpu.samples >= 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::folded;

    fn script() -> Script {
        let read = |text: &str| folded::read("t", text).unwrap();
        let wait = "kernel!do_futex;kernel!schedule";
        Script {
            cpu: read(
                "mariadbd!dispatch_command;mariadbd!JOIN::exec 900\nmariadbd!dispatch_command;libc.so.6!malloc 60\nmariadbd!x;libc.so.6!free 40\n",
            ),
            switches: read(&format!(
                "[waiting];mariadbd!dispatch_command;libc.so.6!malloc;libc.so.6!__lll_lock_wait_private;{wait} 50\n\
                 [waiting];mariadbd!do_command;mariadbd!dispatch_command;mariadbd!log_write_up_to;{wait} 50\n\
                 [waiting];mariadbd!do_command;mariadbd!vio_io_wait;{wait} 500\n\
                 [preempted];mariadbd!dispatch_command 400\n"
            )),
            off_cpu: read(&format!(
                "[waiting];mariadbd!dispatch_command;libc.so.6!malloc;libc.so.6!__lll_lock_wait_private;{wait} 1000000\n\
                 [waiting];mariadbd!do_command;mariadbd!dispatch_command;mariadbd!log_write_up_to;{wait} 3000000\n\
                 [waiting];mariadbd!do_command;mariadbd!vio_io_wait;{wait} 90000000\n\
                 [preempted];mariadbd!dispatch_command 40000000\n"
            )),
            samples: 2000,
            lost: 0,
            nowhere: 0,
            left: 2000,
        }
    }

    #[test]
    fn shares_and_what_they_allow() {
        let seen = of(&script(), 10.0, 2, 100.0);
        assert!((seen.cpu.heap.share - 0.1).abs() < 1e-9 && seen.cpu.heap.error > 0.015 && seen.cpu.heap.error < 0.025);
        let waits = seen.waits.as_ref().unwrap();
        assert_eq!(waits.samples, 100, "neither rest nor preemption counts");
        assert!((waits.heap.share - 0.25).abs() < 1e-9);
        // 1000 samples of 1/199 s in 5 s; 4 s of waits, seen in half of the switches, in 5 s.
        assert!((seen.cpu.seconds - 1000.0 / 199.0 / 5.0).abs() < 1e-9 && (waits.seconds - 1.6).abs() < 1e-9);
        assert!(seen.both.share > seen.cpu.heap.share && seen.both.share < 0.25);
        assert!(seen.gain_at_most() > seen.gain_seen() && seen.says_something());
        assert_eq!(seen.cpu.causes[0].0, Cause::Work);
        // Lost events are any of the machine's.
        let lossy = of(&Script { lost: 300, ..script() }, 10.0, 2, 100.0);
        assert!((lossy.lost_share() - 300.0 / 3300.0).abs() < 1e-9, "{}", lossy.lost_share());
    }

    #[test]
    fn three_percent_cannot_give_ten() {
        assert!((gain(0.03) - 0.0309).abs() < 0.0001);
        assert_eq!((gain(0.0), gain(0.5), gain(1.0)), (0.0, 1.0, f64::INFINITY));
    }

    #[test]
    fn nothing_seen_is_no_small_share() {
        let seen = of(&Script::default(), 10.0, 2, 0.0);
        assert!(!seen.says_something() && seen.waits.is_none());
        assert!(seen.cpu.heap.error > 0.3, "{:?}", seen.cpu.heap);
    }
}
