//! What follows from the facts: what is odd, what could be tried, and how much it could give at most. A pure function, and a careful
//! one: no figure is promised that was not seen.

use super::facts::{Arenas, Facts, Heap, Profiled};
use super::share::gain;
use crate::analysis::words::{bytes, list, percent, span, two_digits};
use crate::heaps::Kind;
use crate::profile::cause::Cause;
use crate::profile::collect::LOST;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// `throughput`, `memory`, `heap`, `limits`, `profile`.
    pub about: &'static str,
    pub grade: Grade,
    pub says: String,
    /// What to try, on a test server.
    pub attempt: Option<String>,
    /// Most throughput to gain, as a fraction.
    pub gain_at_most: Option<f64>,
    /// Most memory to get back.
    pub bytes_at_most: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Something is wrong or near its end.
    Bad,
    /// Worth a test.
    Worth,
    Note,
    /// Looked at, and fine.
    Fine,
}

impl Advice {
    fn new(about: &'static str, grade: Grade, says: impl Into<String>) -> Advice {
        Advice { about, grade, says: says.into(), attempt: None, gain_at_most: None, bytes_at_most: None }
    }

    fn attempt(mut self, attempt: impl Into<String>) -> Advice {
        self.attempt = Some(attempt.into());
        self
    }
}

/// Below that, another heap cannot be seen in throughput on most machines.
const LITTLE: f64 = 0.03;
const SOME: f64 = 0.10;
/// Memory that is worth a word: of what the process has for itself, and in bytes.
const SHARE: f64 = 0.15;
const BYTES: f64 = 50e6;
/// How full a limit may be.
const FULL: f64 = 0.85;

/// The gravest first.
pub fn of(facts: &Facts) -> Vec<Advice> {
    let mut all = Vec::new();
    all.extend(throughput(facts));
    all.extend(memory(facts));
    all.extend(heaps(facts));
    all.extend(limits(facts));
    all.sort_by_key(|a| a.grade);
    all
}

fn throughput(facts: &Facts) -> Vec<Advice> {
    let Some(seen) = &facts.profile else { return vec![] };
    let mut all = Vec::new();
    if !seen.says_something() {
        let says = format!(
            "it hardly ran: {} samples of CPU in {}; nothing can be said of what its heap costs",
            seen.cpu.samples,
            span(seen.seconds / f64::from(seen.phases))
        );
        return vec![
            Advice::new("throughput", Grade::Note, says).attempt("look again under its load, or with --seconds 60"),
        ];
    }
    let most = seen.gain_at_most();
    let takes = takes(seen);
    let bound = format!("without any heap at all it could do at most {} more", more(most));
    let mut advice = match most {
        m if m < LITTLE => Advice::new(
            "throughput",
            Grade::Fine,
            format!("nothing in its profile speaks for another heap: {takes}; {bound}"),
        ),
        m if m < SOME => {
            Advice::new("throughput", Grade::Note, format!("little to gain from another heap: {takes}; {bound}"))
        }
        _ => Advice::new(
            "throughput",
            Grade::Worth,
            format!("its heap may cost throughput: {takes}; {bound}, and a real one gives some part of that"),
        )
        .attempt("compare heaps on a test server with a load like yours: evenkeel sweep, then evenkeel why"),
    };
    advice.gain_at_most = Some(most);
    all.push(advice);
    let locks = part(seen, Cause::HeapLock);
    if locks >= 0.02 {
        let says = format!("threads contend inside the heap: {} of CPU or waits are its locks", percent(locks));
        let advice = Advice::new("throughput", Grade::Worth, says);
        all.push(advice.attempt("on a test server, a heap whose threads share no locks: libevenkeel.so, or jemalloc"));
    }
    if seen.faults >= 0.02 {
        let says = format!(
            "page faults of the program itself take {} of its CPU; those on memory that the heap gave back and took again are the heap's \
             doing too, and are not in its share",
            percent(seen.faults)
        );
        let mut advice = Advice::new("throughput", Grade::Note, says);
        advice.gain_at_most = Some(gain(seen.cpu.heap.at_most() + seen.faults));
        all.push(advice);
    }
    if seen.lost_share() > LOST {
        let says =
            format!("perf lost about {} of the machine's events: the shares are rough", percent(seen.lost_share()));
        all.push(Advice::new("profile", Grade::Note, says).attempt("run as root: perf may then go before the load"));
    }
    let nowhere = seen.nowhere as f64 / seen.samples.max(1) as f64;
    if nowhere > 0.2 {
        let says = format!(
            "{} of the stacks do not reach the start of a thread: the heap's own frames are seen all the same, callers may be missing",
            percent(nowhere)
        );
        all.push(Advice::new("profile", Grade::Note, says));
    }
    all
}

/// `its heap takes 1.1 % ±0.4 of its CPU and 0.2 % ±0.1 of its waits`
fn takes(seen: &Profiled) -> String {
    let of = |part: super::facts::Part| format!("{} ±{}", percent(part.share), two_digits(100.0 * part.error));
    match seen.waits.as_ref().filter(|w| w.samples > 0) {
        Some(waits) => {
            format!("its heap takes {} of its CPU and {} of its waits", of(seen.cpu.heap), of(waits.heap))
        }
        None => format!("its heap takes {} of its CPU", of(seen.cpu.heap)),
    }
}

fn more(gain: f64) -> String {
    if gain.is_finite() && gain < 9.0 { percent(gain) } else { "many times".into() }
}

fn part(seen: &Profiled, cause: Cause) -> f64 {
    let of = |causes: &[(Cause, f64)]| causes.iter().find(|(c, _)| *c == cause).map_or(0.0, |(_, s)| *s);
    of(&seen.cpu.causes).max(seen.waits.as_ref().filter(|w| w.samples >= 100).map_or(0.0, |w| of(&w.causes)))
}

fn memory(facts: &Facts) -> Vec<Advice> {
    let Some(memory) = &facts.memory else { return vec![] };
    let mut all = Vec::new();
    let own = memory.anonymous + memory.swap;
    let worth = |b: f64| b >= BYTES && b >= SHARE * own;
    let says = facts.server.as_ref().and_then(|s| s.resident());
    let beyond = says.map(|s| (own - s).max(0.0));
    let account = match (says, beyond) {
        (Some(says), Some(beyond)) => {
            format!(
                "; the server accounts for {} of its {}, {} lies beyond",
                bytes(says.min(own)),
                bytes(own),
                bytes(beyond)
            )
        }
        _ => String::new(),
    };
    if let Some(arenas) = &facts.arenas {
        all.push(of_arenas(facts, arenas, beyond, &account, &worth));
    } else if let Some(beyond) = beyond {
        let heap = facts.heap.as_ref().and_then(|h| h.of_program()).map_or("its heap", |h| h.name.as_str());
        let text = format!(
            "the server accounts for {} of its {}; {} lies beyond: what {heap} holds free, stacks, and what engines and libraries take \
             without the server's counting",
            bytes(own - beyond),
            bytes(own),
            bytes(beyond)
        );
        let grade = if worth(beyond) { Grade::Note } else { Grade::Fine };
        let mut advice = Advice::new("memory", grade, text);
        advice.bytes_at_most = Some(beyond);
        all.push(advice);
    }
    if let Some(lazy) = memory.lazy_free.filter(|l| *l >= 0.05 * memory.rss && *l >= BYTES) {
        let says = format!(
            "{} of its RSS are free already: the heap told the kernel so (LazyFree), which takes them when it needs them; RSS overstates \
             by that",
            bytes(lazy)
        );
        all.push(Advice::new("memory", Grade::Note, says));
    }
    let always = facts.limits.huge_pages.as_deref() == Some("always");
    if let Some(huge) = memory.huge.filter(|h| always && worth(*h)) {
        let says = format!(
            "{} lie in huge pages, which the kernel gives here unasked (always): half-used ones count whole in RSS",
            bytes(huge)
        );
        all.push(Advice::new("memory", Grade::Note, says).attempt("on a test machine, transparent_hugepage=madvise"));
    }
    if memory.swap >= 0.05 * own && memory.swap >= 10e6 {
        let says =
            format!("{} of it lie in swap: what a thread waits for there is not in any profile", bytes(memory.swap));
        all.push(Advice::new("memory", Grade::Bad, says));
    }
    all
}

fn of_arenas(
    facts: &Facts,
    arenas: &Arenas,
    beyond: Option<f64>,
    account: &str,
    worth: &dyn Fn(f64) -> bool,
) -> Advice {
    let resident = arenas.resident + arenas.main_resident;
    let most = arenas.most.map_or(String::new(), |m| format!(" of at most {m}"));
    let what = if arenas.exact { "arenas" } else { "heaps of arenas, the main one with them" };
    let mut says = format!("{}{most} {what}, {} resident in them", arenas.count, bytes(resident));
    if let Some(free) = arenas.pages {
        says += &format!(", {} of that in free pages", bytes(free));
    }
    says += account;
    let others = if facts.heap.as_ref().is_some_and(|h| h.uses(Kind::Evenkeel)) {
        "fewer arenas: MALLOC_ARENA_MAX=4"
    } else {
        "libevenkeel.so preloaded, or MALLOC_ARENA_MAX=4"
    };
    // What no block uses cannot be more than what is there, nor more than what the server does not account for. Free bytes that share
    // their page with a block can only go back under a heap that packs better, so free pages alone would be no bound.
    let back = [arenas.free, beyond].into_iter().flatten().fold(resident, f64::min);
    let known = arenas.free.is_some() || beyond.is_some();
    let trim = arenas.trimmable.map_or(String::new(), |t| format!(", about {} by malloc_trim now", bytes(t.min(back))));
    let mut advice = if known && worth(back) {
        says += &format!(". At most {} could go back under a heap that wastes nothing{trim}", bytes(back));
        Advice::new("memory", Grade::Worth, says).attempt(format!("on a test server: {others}"))
    } else if known {
        says += ". There is little to get back";
        Advice::new("memory", Grade::Fine, says)
    } else {
        says += ". How much of it is free cannot be seen from here";
        Advice::new("memory", Grade::Note, says)
    };
    advice.bytes_at_most = known.then_some(back);
    advice
}

fn heaps(facts: &Facts) -> Vec<Advice> {
    let Some(heaps) = &facts.heap else { return vec![] };
    let mut all = Vec::new();
    let used: Vec<&Heap> = heaps.in_use().collect();
    if used.len() > 1 {
        let one = |h: &&Heap| {
            let by = match (h.by_program, h.linked_in, h.users.len()) {
                (true, _, 0) => "the program".to_string(),
                (true, _, 1) => format!("the program and {}", super::binding::short(&h.users[0])),
                (true, _, n) => format!("the program and {n} libraries"),
                (false, true, _) => format!("{}, which it is linked into", super::binding::short(&h.object)),
                (false, false, 1) => super::binding::short(&h.users[0]).to_string(),
                (false, false, n) => format!("{n} libraries"),
            };
            format!("{} ({by})", h.name)
        };
        let says = format!(
            "{} heaps are in use: {}. Each keeps free memory of its own, and what one gave the other must not free",
            used.len(),
            list(&used.iter().map(one).collect::<Vec<_>>())
        );
        all.push(Advice::new("heap", Grade::Bad, says));
    }
    for idle in heaps.found.iter().filter(|h| !h.in_use() && h.kind != Kind::Glibc) {
        let says = format!("{} is in the process, but nothing takes malloc from it ({})", idle.name, idle.object);
        all.push(Advice::new("heap", Grade::Note, says));
    }
    if let Some(preload) = &heaps.preload {
        let missing: Vec<String> = preload
            .split([' ', ':'])
            .filter(|n| !n.is_empty())
            .filter(|n| {
                let name = super::binding::short(n).to_lowercase();
                let kinds =
                    [Kind::Jemalloc, Kind::Tcmalloc, Kind::Mimalloc, Kind::Snmalloc, Kind::Rpmalloc, Kind::Evenkeel];
                kinds.iter().any(|k| name.contains(k.name()) && !heaps.uses(*k))
            })
            .map(str::to_string)
            .collect();
        if !missing.is_empty() {
            let says = format!("LD_PRELOAD names {}, but that heap is not in use", list(&missing));
            let advice = Advice::new("heap", Grade::Bad, says);
            all.push(advice.attempt("see whether the file is there, and may be read by its user, at the next start"));
        }
    }
    let program = heaps.of_program();
    if let (Some(heap), Some(word)) = (program, facts.server.as_ref().and_then(|s| s.heap_by_its_word.as_deref()))
        && word == "system"
        && heap.kind != Kind::Glibc
    {
        let says = format!(
            "@@version_malloc_library says \"system\", but the heap is {}: the server does not know it",
            heap.name
        );
        all.push(Advice::new("heap", Grade::Note, says));
    }
    if facts.process.replaced || !heaps.replaced.is_empty() {
        let mut names: Vec<String> = heaps.replaced.iter().map(|r| super::binding::short(r).to_string()).collect();
        names.dedup();
        let what = if names.is_empty() { "its program".to_string() } else { list(&names) };
        let says = format!(
            "{what} was replaced or removed since it started: it still runs the old, and will start with the new"
        );
        all.push(Advice::new("heap", Grade::Note, says));
    }
    all
}

fn limits(facts: &Facts) -> Vec<Advice> {
    let limits = &facts.limits;
    let mut all = Vec::new();
    let mut full = |what: &str, used: Option<f64>, most: Option<f64>, write: &dyn Fn(f64) -> String, attempt: &str| {
        if let (Some(used), Some(most)) = (used, most)
            && used >= FULL * most
        {
            let says = format!("{what}: {} of at most {}", write(used), write(most));
            all.push(Advice::new("limits", Grade::Bad, says).attempt(attempt));
        }
    };
    let plain = |n: f64| two_digits(n);
    full("open files", limits.files, limits.files_most, &plain, "raise LimitNOFILE of its unit, and open_files_limit");
    full(
        "memory of its control group",
        limits.group_memory,
        limits.group_memory_most,
        &bytes,
        "raise MemoryMax, or lower the buffer pool: at the limit the kernel ends the server",
    );
    if let Some(server) = &facts.server {
        full(
            "connections at their most",
            server.connections_most,
            server.connections_limit,
            &plain,
            "raise max_connections, or put a pool before the server",
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::{Heaps, Limits, Memory, Part, Server, Side};

    fn heap(kind: Kind, by_program: bool, users: &[&str]) -> Heap {
        Heap {
            kind,
            name: kind.name().into(),
            version: None,
            object: format!("/lib/lib{}.so", kind.name()),
            how: "test".into(),
            by_program,
            users: users.iter().map(|u| u.to_string()).collect(),
            linked_in: false,
        }
    }

    /// A server under load whose heap takes so much of its CPU.
    fn profiled(share: f64) -> Profiled {
        let heap = Part { share, error: 0.004 };
        let causes = vec![(Cause::Work, 1.0 - share), (Cause::HeapAllocation, share)];
        let cpu = Side { samples: 2000, seconds: 2.0, heap, causes };
        Profiled { seconds: 10.0, phases: 2, samples: 2000, events: 2000.0, both: cpu.heap, cpu, ..Profiled::default() }
    }

    /// glibc with 16 arenas: what is resident in them, what of it is free, and what the server accounts for.
    fn facts(resident: f64, free: Option<f64>, accounted: f64) -> Facts {
        Facts {
            heap: Some(Heaps { found: vec![heap(Kind::Glibc, true, &[])], ..Heaps::default() }),
            memory: Some(Memory { rss: 1.3e9, anonymous: 1.2e9, ..Memory::default() }),
            arenas: Some(Arenas { count: 16, exact: true, most: Some(16), resident, free, ..Arenas::default() }),
            server: Some(Server { memory_used: Some(accounted), ..Server::default() }),
            ..Facts::default()
        }
    }

    fn about<'a>(all: &'a [Advice], about: &str) -> Vec<&'a Advice> {
        all.iter().filter(|a| a.about == about).collect()
    }

    #[test]
    fn no_gain_is_promised_that_the_profile_does_not_allow() {
        for (share, grade, most) in
            [(0.01, Grade::Fine, 0.0143), (0.03, Grade::Note, 0.0353), (0.5, Grade::Worth, 1.0162)]
        {
            let all = of(&Facts { profile: Some(profiled(share)), ..Facts::default() });
            let [one] = about(&all, "throughput")[..] else { panic!("{all:?}") };
            assert_eq!(one.grade, grade, "{}", one.says);
            assert!((one.gain_at_most.unwrap() - most).abs() < 0.001, "{one:?}");
            assert_eq!(one.attempt.is_some(), grade == Grade::Worth);
        }
        let all = of(&Facts { profile: Some(profiled(0.01)), ..Facts::default() });
        assert!(all[0].says.contains("its heap takes 1 % ±0.4 of its CPU"), "{}", all[0].says);
        assert!(all[0].says.contains("at most 1.4 % more"), "{}", all[0].says);
    }

    #[test]
    fn a_server_at_rest_is_not_judged() {
        let mut seen = profiled(0.5);
        seen.cpu.samples = 20;
        let all = of(&Facts { profile: Some(seen), ..Facts::default() });
        assert!(all.len() == 1 && all[0].gain_at_most.is_none() && all[0].says.contains("hardly ran"), "{all:?}");
    }

    #[test]
    fn memory_is_bounded_by_the_least_of_what_is_known() {
        let back = |facts: &Facts| about(&of(facts), "memory")[0].bytes_at_most;
        assert_eq!(back(&facts(8e8, Some(7e8), 4e8)), Some(7e8));
        assert_eq!(back(&facts(5e8, Some(7e8), 4e8)), Some(5e8));
        assert_eq!(back(&facts(8e8, Some(7e8), 1.1e9)), Some(1e8));
        assert_eq!(back(&facts(8e8, None, 4e8)), Some(8e8));
        let mut blind = facts(8e8, None, 0.0);
        blind.server = None;
        let all = of(&blind);
        assert_eq!(
            (all[0].grade, all[0].bytes_at_most),
            (Grade::Note, None),
            "nothing is known, so nothing is promised"
        );
        let all = of(&facts(8e8, Some(7e8), 4e8));
        assert_eq!(all[0].grade, Grade::Worth);
        assert!(all[0].attempt.as_ref().unwrap().contains("MALLOC_ARENA_MAX=4"));
        assert_eq!(of(&facts(8e8, Some(3e7), 4e8))[0].grade, Grade::Fine);
    }

    #[test]
    fn two_heaps_an_idle_one_and_a_preload_that_did_not_take() {
        let found = vec![
            heap(Kind::Glibc, true, &["/lib/a.so"]),
            heap(Kind::Jemalloc, false, &["/lib/b.so"]),
            heap(Kind::Tcmalloc, false, &[]),
        ];
        let preload = Some("/opt/libmimalloc.so".to_string());
        let all = of(&Facts { heap: Some(Heaps { found, preload, ..Heaps::default() }), ..Facts::default() });
        let says: Vec<&str> = about(&all, "heap").iter().map(|a| a.says.as_str()).collect();
        assert!(
            says[0].starts_with("2 heaps are in use: glibc (the program and a.so) and jemalloc (b.so)"),
            "{says:?}"
        );
        assert!(says[1].contains("LD_PRELOAD names /opt/libmimalloc.so, but"), "{says:?}");
        assert!(says[2].contains("tcmalloc is in the process, but nothing takes malloc from it"), "{says:?}");
    }

    #[test]
    fn the_servers_word_and_limits() {
        let mut facts = facts(0.0, None, 1e9);
        facts.arenas = None;
        facts.heap = Some(Heaps { found: vec![heap(Kind::Mimalloc, true, &[])], ..Heaps::default() });
        let server = facts.server.as_mut().unwrap();
        server.heap_by_its_word = Some("system".into());
        (server.connections_most, server.connections_limit) = (Some(151.0), Some(151.0));
        facts.limits = Limits { files: Some(10.0), files_most: Some(100.0), ..Limits::default() };
        let all = of(&facts);
        assert!(about(&all, "heap")[0].says.contains("but the heap is mimalloc"));
        let limits = about(&all, "limits");
        assert!(
            limits.len() == 1 && limits[0].says.starts_with("connections at their most: 151 of at most 151"),
            "{limits:?}"
        );
        assert!(all.is_sorted_by_key(|a| a.grade));
        assert!(of(&Facts::default()).is_empty());
    }
}
