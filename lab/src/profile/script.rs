//! Reads what `perf script` prints, and keeps every sample: one line of a header is one sample, whatever follows it.
//!
//! ```text
//! comm pid/tid seconds: event: fields of the event
//! \t     address function (object)        from the leaf to the root
//!
//! comm pid/tid seconds: PERF_RECORD_SWITCH OUT preempt
//! ```

use super::symbols::Symbols;
use super::{BLOCKED, Kind, NO_STACK, PREEMPTED, Profile, WAITING};
use std::collections::HashMap;

/// What was recorded, and how well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Threads on the CPU, one sample each.
    pub cpu: Profile,
    /// Threads that left it, one sample each; and for how long, in microseconds.
    pub switches: Profile,
    pub off_cpu: Profile,
    /// Headers of samples that were seen.
    pub samples: u64,
    /// What perf says that it lost.
    pub lost: u64,
    /// Samples whose stack does not reach a thread's or a program's start.
    pub nowhere: u64,
    /// All switches away from the CPU, sampled or not.
    pub left: u64,
}

impl Script {
    /// What another recording of the same process saw.
    pub fn add(&mut self, other: &Script) {
        self.cpu.merge(&other.cpu);
        self.switches.merge(&other.switches);
        self.off_cpu.merge(&other.off_cpu);
        self.samples += other.samples;
        self.lost += other.lost;
        self.nowhere += other.nowhere;
        self.left += other.left;
    }
}

/// Where the stacks of threads and programs begin.
const ROOTS: [&str; 10] = [
    "_start",
    "__libc_start_main",
    "start_thread",
    "clone3",
    "__clone3",
    "__clone",
    "clone",
    "ret_from_fork_asm",
    "ret_from_fork",
    "__libc_start_call_main",
];

pub fn read(text: &str, symbols: &mut Symbols) -> Script {
    let mut script = Script::default();
    // Sampled switches whose threads are away: the stack, and since when.
    let mut away: HashMap<u32, (Vec<String>, f64)> = HashMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with(['\t', '#']) {
            continue;
        }
        let Some(header) = Header::of(line) else { continue };
        let switch = ["PERF_RECORD_SWITCH ", "PERF_RECORD_SWITCH_CPU_WIDE "];
        if let Some(rest) = switch.iter().find_map(|s| header.event.strip_prefix(s)) {
            if rest.starts_with("OUT") {
                script.left += 1;
            } else if rest.starts_with("IN")
                && let Some((stack, since)) = away.remove(&header.tid)
            {
                add(&mut script.off_cpu, &stack, micros(header.seconds - since));
            }
            continue;
        }
        if header.event.starts_with("PERF_RECORD_LOST") {
            script.lost += header.event.rsplit(' ').find_map(|w| w.parse::<u64>().ok()).unwrap_or(1);
            continue;
        }
        if header.event.starts_with("PERF_RECORD") {
            continue;
        }
        let mut stack: Vec<String> = Vec::new();
        while let Some(line) = lines.peek().filter(|l| l.starts_with('\t')) {
            stack.push(symbols.name(line));
            lines.next();
        }
        stack.reverse();
        script.samples += 1;
        let root = stack.first().map(|f| super::parts(f).1);
        if root.is_none_or(|r| !ROOTS.contains(&r)) {
            script.nowhere += 1;
        }
        if stack.is_empty() {
            stack.push(NO_STACK.into());
        }
        if header.kind == Kind::Cpu {
            add(&mut script.cpu, &stack, 1);
        } else {
            stack.insert(0, header.state.into());
            add(&mut script.switches, &stack, 1);
            away.insert(header.tid, (stack, header.seconds));
        }
    }
    script
}

/// What perf says of a sample, as far as it matters here.
struct Header<'a> {
    tid: u32,
    seconds: f64,
    event: &'a str,
    kind: Kind,
    state: &'static str,
}

impl<'a> Header<'a> {
    /// The name before it may hold spaces and colons; `pid/tid seconds:` is what can be known again.
    fn of(line: &'a str) -> Option<Header<'a>> {
        let (at, ids) = words(line).find(|(_, word)| {
            word.split_once('/').is_some_and(|(pid, tid)| pid.parse::<i64>().is_ok() && tid.parse::<i64>().is_ok())
        })?;
        let tid = ids.split_once('/')?.1.parse::<i64>().ok()?;
        let rest = &line[at + ids.len()..];
        let (time_at, time) =
            words(rest).find_map(|(i, w)| Some((i + w.len(), w.strip_suffix(':')?.parse::<f64>().ok()?)))?;
        let event = rest[time_at..].trim_start();
        let switch = event.starts_with("sched:sched_switch:");
        let state = event.split_once("prev_state=").map_or("", |(_, s)| s.split(' ').next().unwrap_or(""));
        Some(Header {
            tid: tid.max(0) as u32,
            seconds: time,
            event: event.trim_end(),
            kind: if switch { Kind::Switches } else { Kind::Cpu },
            // R, R+: it would have gone on. D: it waits for a disk and cannot be disturbed.
            state: match state.as_bytes().first() {
                Some(b'R') => PREEMPTED,
                Some(b'D') => BLOCKED,
                _ => WAITING,
            },
        })
    }
}

/// The words of a line and where they begin.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = line.as_ptr() as usize;
    line.split(' ').filter(|w| !w.is_empty()).map(move |w| (w.as_ptr() as usize - start, w))
}

fn add(profile: &mut Profile, stack: &[String], weight: u64) {
    let frames = stack.iter().map(|name| profile.frame(name)).collect();
    profile.add(frames, weight);
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
mariadbd 10/11 5.000100: cpu-clock: \n\
\t     891673 [unknown] (/usr/sbin/mariadbd)\n\
\t     bf54 malloc (/x/libheap.so)\n\
\t     891f4 start_thread (/usr/lib/libc.so.6)\n\
\n\
my thread: one 10/12 5.000200: cpu-clock: \n\
\n\
mariadbd 10/11 6.000000: PERF_RECORD_SWITCH IN         \n\
mariadbd 10/11 6.000100: sched:sched_switch: prev_comm=mariadbd prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=sysbench next_pid=9 next_prio=120\n\
\tffffffff821facd8 __schedule ([kernel.kallsyms])\n\
\t       fc26f __poll (/usr/lib/libc.so.6)\n\
\t       1098eb clone3 (/usr/lib/libc.so.6)\n\
\n\
mariadbd 10/11 6.000101: PERF_RECORD_SWITCH OUT        \n\
mariadbd 10/12 6.000150: PERF_RECORD_SWITCH OUT preempt\n\
mariadbd 10/11 6.000350: PERF_RECORD_SWITCH IN         \n\
mariadbd 10/11 6.000400: PERF_RECORD_LOST lost 7\n\
mariadbd 10/12 6.000500: sched:sched_switch: prev_comm=my thread: prev_pid=12 prev_prio=120 prev_state=R+ ==> next_comm=x next_pid=9 next_prio=1\n\
\t       1098eb std::f(int) (/usr/lib/a (deleted))\n";

    #[test]
    fn every_header_is_a_sample() {
        let script = read(TEXT, &mut Symbols::none());
        assert_eq!((script.samples, script.lost, script.left, script.nowhere), (4, 7, 2, 2));
        assert_eq!(script.samples, script.cpu.total() + script.switches.total());
        let text = super::super::folded::write(&script.cpu);
        assert_eq!(text, "[no stack] 1\nlibc.so.6!start_thread;libheap.so!malloc;mariadbd!? 1\n");
        let text = super::super::folded::write(&script.switches);
        assert_eq!(
            text,
            "[preempted];a!std::f(int) 1\n[waiting];libc.so.6!clone3;libc.so.6!__poll;kernel!__schedule 1\n"
        );
        let text = super::super::folded::write(&script.off_cpu);
        assert_eq!(text, "[waiting];libc.so.6!clone3;libc.so.6!__poll;kernel!__schedule 250\n");
    }
}
