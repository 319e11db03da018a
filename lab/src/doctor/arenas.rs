//! glibc's arenas, without a debugger.
//!
//! - Every arena but the main one lives in **heaps** of 64 MiB of address space at multiples of 64 MiB: what is used is `rw-p`, the rest
//!   up to the next multiple `---p`. That is how they are told from the stacks and other areas that may lie beside them.
//! - Where the process's memory can be read, each heap says which arena it belongs to, and each arena what it has and which of its
//!   chunks are free. The process runs on meanwhile: a list that changes under our eyes is left where it no longer makes sense, so the
//!   free bytes are about right, and never more than the arena has. Blocks in threads' caches do not count as free.

use super::areas::Area;
use super::facts::Arenas;
use std::collections::{BTreeMap, BTreeSet};

const HEAP: u64 = 64 << 20;
/// Guards of stacks may lie right behind a heap, and count as one area with its reserve.
const GUARD: u64 = 1 << 20;
/// Free chunks that are looked at, in all.
const CHUNKS: usize = 400_000;

/// What can be asked of a process.
pub struct Ways<'a> {
    /// A word of its memory.
    pub read: &'a dyn Fn(u64) -> Option<u64>,
    /// Bytes in memory of the whole pages between two addresses.
    pub resident: &'a dyn Fn(u64, u64) -> Option<u64>,
}

/// `settings`: of its environment.
pub fn look(areas: &[Area], cpus: usize, settings: &BTreeMap<String, String>, ways: &Ways) -> Arenas {
    let found: Vec<(u64, &Area)> = heaps(areas);
    let mut arenas = Arenas { heaps: found.len(), count: found.len() + 1, ..Arenas::default() };
    for (from, area) in &found {
        let mapped = area.to - from;
        arenas.reserved += HEAP as f64;
        arenas.mapped += mapped as f64;
        // The end of a stack may lie in the same area: it is not more than all of it.
        arenas.resident += area.resident.min(mapped) as f64;
    }
    for area in areas.iter().filter(|a| a.name == "[heap]") {
        arenas.main_mapped += area.len() as f64;
        arenas.main_resident += area.resident as f64;
    }
    (arenas.most, arenas.most_why) = most(cpus, settings);
    if let Some(seen) = inside(&found, areas, ways) {
        arenas.exact = true;
        arenas.count = seen.count;
        arenas.free = Some((seen.free as f64).min(arenas.mapped + arenas.main_mapped));
        arenas.top = Some(seen.top as f64);
        arenas.pages = seen.pages.map(|b| b as f64);
        arenas.trimmable = seen.trimmable.map(|b| b as f64);
    }
    arenas
}

/// Where each heap begins, and the area that holds what is used of it.
fn heaps(areas: &[Area]) -> Vec<(u64, &Area)> {
    let mut found = Vec::new();
    for (i, area) in areas.iter().enumerate() {
        if !(area.is_nameless() && area.may_write()) {
            continue;
        }
        // Neighbours may be one area: stacks before it, other full heaps before it.
        let from = (area.to - 1) / HEAP * HEAP;
        let rest = areas.get(i + 1);
        let reserve = rest.filter(|r| r.is_nameless() && r.is_reserved() && r.from == area.to);
        let whole = reserve.is_some_and(|r| (from + HEAP..=from + HEAP + GUARD).contains(&r.to));
        if whole && from >= area.from {
            found.push((from, area));
        }
    }
    found
}

/// As `arena_get2` reckons: 8 for each CPU, unless it was told.
fn most(cpus: usize, settings: &BTreeMap<String, String>) -> (Option<u64>, String) {
    let tunable = settings.get("GLIBC_TUNABLES").and_then(|t| {
        let pairs = t.split(':').filter_map(|p| p.split_once('='));
        pairs.filter(|(name, _)| *name == "glibc.malloc.arena_max").map(|(_, v)| v).next_back()
    });
    let told =
        [("GLIBC_TUNABLES", tunable), ("MALLOC_ARENA_MAX", settings.get("MALLOC_ARENA_MAX").map(String::as_str))];
    for (name, value) in told {
        if let Some(n) = value.and_then(|v| v.trim().parse::<u64>().ok()).filter(|n| *n > 0) {
            return (Some(n), format!("{name} says so"));
        }
    }
    (Some(8 * cpus.max(1) as u64), format!("8 for each of {cpus} CPUs"))
}

#[derive(Clone, Copy, Default)]
struct Seen {
    count: usize,
    free: u64,
    top: u64,
    /// Whole pages in memory, and those that malloc_trim gives back.
    pages: Option<u64>,
    trimmable: Option<u64>,
}

/// `malloc_state` of glibc 2.26 to 2.41 on 64 bits, from its start.
const TOP: u64 = 96;
const BINS: u64 = 112;
const BIN_COUNT: u64 = 127;
const NEXT: u64 = 2160;
const SYSTEM: u64 = 2184;

/// What the arenas say of themselves; None if they cannot be read, or do not look as expected.
fn inside(found: &[(u64, &Area)], areas: &[Area], ways: &Ways) -> Option<Seen> {
    let read = ways.read;
    let mut arenas: BTreeMap<u64, u64> = BTreeMap::new();
    for (from, _) in found {
        // struct heap_info: its arena, the heap before it, its size, what of that may be touched.
        let (arena, size, open) = (read(*from)?, read(from + 16)?, read(from + 24)?);
        let home = arena / HEAP * HEAP;
        if !found.iter().any(|(f, _)| *f == home) || arena - home > 4096 || size > open || open > HEAP {
            return None;
        }
        *arenas.entry(arena).or_default() += size;
    }
    // The arenas form a ring; the one that is in no heap is the main one.
    let first = *arenas.keys().next()?;
    let mut ring = BTreeSet::new();
    let mut at = first;
    while ring.insert(at) {
        at = read(at + NEXT)?;
        if ring.len() > 1 << 16 {
            return None;
        }
    }
    let main: Vec<u64> = ring.iter().copied().filter(|a| !arenas.contains_key(a)).collect();
    if at != first || main.len() != 1 {
        return None;
    }
    let mut seen = Seen { count: ring.len(), pages: Some(0), trimmable: Some(0), ..Seen::default() };
    let mut left = CHUNKS;
    for arena in &ring {
        let system = read(arena + SYSTEM)?;
        let is_main = arena == &main[0];
        // It keeps the sum of its heaps: if not, it is no arena as we know it. It may grow while we look.
        if !is_main && system.abs_diff(arenas[arena]) > HEAP {
            return None;
        }
        let own = free_of(*arena, is_main, areas, ways, &mut left);
        seen.free += own.free.min(system);
        seen.top += own.top.min(system);
        seen.pages = seen.pages.zip(own.pages).map(|(sum, b)| sum + b.min(system));
        seen.trimmable = seen.trimmable.zip(own.trimmable).map(|(sum, b)| sum + b.min(system));
    }
    Some(seen)
}

/// Bytes of free chunks of an arena, its top included.
fn free_of(arena: u64, is_main: bool, areas: &[Area], ways: &Ways, left: &mut usize) -> Seen {
    /// The words of a free chunk that the lists need.
    const WORDS: u64 = 48;
    let read = ways.read;
    let writable = |at: u64| {
        let after = areas.partition_point(|a| a.to <= at);
        areas.get(after).is_some_and(|a| a.from <= at && a.may_write())
    };
    let size = |chunk: u64| read(chunk + 8).map(|s| s & !7).filter(|s| (32..1 << 40).contains(s));
    let mut seen = Seen { pages: Some(0), trimmable: Some(0), ..Seen::default() };
    let add = |seen: &mut Seen, chunk: u64, bytes: u64, trims: bool| {
        seen.free += bytes;
        let whole = (ways.resident)(chunk + WORDS, chunk + bytes.min(1 << 32));
        seen.pages = seen.pages.zip(whole).map(|(sum, b)| sum + b);
        if trims {
            seen.trimmable = seen.trimmable.zip(whole).map(|(sum, b)| sum + b);
        }
    };
    if let Some(top) = read(arena + TOP).filter(|t| writable(*t))
        && let Some(bytes) = size(top)
    {
        seen.top = bytes;
        add(&mut seen, top, bytes, is_main);
    }
    for bin in 0..BIN_COUNT {
        // A bin is the end of its own list, as if it were a chunk.
        let end = arena + BINS + 16 * bin - 16;
        let mut at = read(end + 16);
        while let Some(chunk) = at.filter(|c| *c != end && writable(*c)) {
            let Some(bytes) = size(chunk).filter(|_| *left > 0) else { break };
            *left -= 1;
            add(&mut seen, chunk, bytes, true);
            at = read(chunk + 16);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::areas;

    const SMAPS: &str = include_str!("recorded/smaps");

    fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }

    const BLIND: Ways<'_> = Ways { read: &|_| None, resident: &|_, _| None };

    /// An area that is all there.
    fn all(from: u64, to: u64) -> Option<u64> {
        Some((to / 4096).saturating_sub(from.div_ceil(4096)) * 4096)
    }

    fn look_into(memory: &BTreeMap<u64, u64>, areas: &[Area]) -> Arenas {
        let read = |at: u64| memory.get(&at).copied();
        look(areas, 2, &settings(&[]), &Ways { read: &read, resident: &all })
    }

    #[test]
    fn arenas_of_a_server_by_its_areas() {
        let arenas = look(&areas::read(SMAPS), 2, &settings(&[]), &BLIND);
        assert_eq!((arenas.heaps, arenas.count, arenas.exact), (15, 16, false));
        assert_eq!((arenas.most, arenas.most_why.as_str()), (Some(16), "8 for each of 2 CPUs"));
        assert_eq!(arenas.reserved, 15.0 * 67_108_864.0);
        assert!(arenas.resident > 0.0 && arenas.resident <= arenas.mapped && arenas.mapped < arenas.reserved);
        assert!(arenas.main_resident > 1e6 && arenas.free.is_none());
    }

    /// A reserve of 8 TB behind a buffer pool, a stack before a heap, the guard of a stack behind one, and two that are none.
    #[test]
    fn neighbours_do_not_mislead() {
        let text = "\
77849f800000-7784a7800000 rw-p 00000000 00:00 0 \nRss: 4 kB\n\
7784a7800000-7f849fc00000 ---p 00000000 00:00 0 \n\
7f84a7800000-7f84a8021000 rw-p 00000000 00:00 0 \nRss: 12 kB\n\
7f84a8021000-7f84ac001000 ---p 00000000 00:00 0 \n\
7f84ac001000-7f84ac801000 rw-p 00000000 00:00 0 \n\
7f84b0000000-7f84b0021000 rw-s 00000000 00:01 9 /dev/zero (deleted)\n\
7f84b0021000-7f84b4000000 ---p 00000000 00:00 0 \n";
        let areas = areas::read(text);
        let found: Vec<u64> = heaps(&areas).iter().map(|h| h.0).collect();
        assert_eq!(found, [0x7f84_a800_0000]);
        let arenas = look(&areas, 1, &settings(&[]), &BLIND);
        assert_eq!((arenas.mapped, arenas.resident), (f64::from(0x21000), 12288.0));
    }

    #[test]
    fn how_many_there_may_be() {
        assert_eq!(most(4, &settings(&[("MALLOC_ARENA_MAX", "2")])).0, Some(2));
        let tunables = "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=3";
        assert_eq!(most(4, &settings(&[("GLIBC_TUNABLES", tunables), ("MALLOC_ARENA_MAX", "2")])).0, Some(3));
        assert_eq!(most(4, &settings(&[("MALLOC_ARENA_MAX", "0")])).0, Some(32));
    }

    /// An arena of one heap with two free chunks and a top, and the main one with nothing but a top.
    #[test]
    fn free_chunks_are_found_in_the_lists() {
        let text = "\
00010000-00031000 rw-p 00000000 00:00 0 [heap]\n\
04000000-04021000 rw-p 00000000 00:00 0 \nRss: 132 kB\n\
04021000-08000000 ---p 00000000 00:00 0 \n\
10000000-10002000 rw-p 00001000 fe:00 5 /lib/libc.so.6\n";
        let (heap, arena, main) = (0x400_0000u64, 0x400_0030u64, 0x1000_0100u64);
        let mut memory: BTreeMap<u64, u64> = BTreeMap::new();
        memory.extend([(heap, arena), (heap + 8, 0), (heap + 16, 0x21000), (heap + 24, 0x21000)]);
        for (state, next, system, top) in [(arena, main, 0x21000, 0x401_0000), (main, arena, 0x21000, 0x2_0000)] {
            memory.extend([(state + NEXT, next), (state + SYSTEM, system), (state + TOP, top)]);
            memory.insert(top + 8, 0x1001);
            for bin in 0..BIN_COUNT {
                let end = state + BINS + 16 * bin - 16;
                memory.insert(end + 16, end);
            }
        }
        let end = arena + BINS - 16;
        let (one, two) = (0x400_2000, 0x400_3000);
        memory.extend([(end + 16, one), (one + 8, 0x201), (one + 16, two), (two + 8, 0x405), (two + 16, end)]);
        let areas = areas::read(text);
        let arenas = look_into(&memory, &areas);
        assert_eq!((arenas.exact, arenas.count), (true, 2));
        assert_eq!((arenas.top, arenas.free), (Some(8192.0), Some(8192.0 + 512.0 + 1024.0)));
        assert_eq!(arenas.trimmable, Some(0.0), "no whole page beside the words of the lists");
        memory.insert(two + 8, 0x4005);
        assert_eq!(look_into(&memory, &areas).trimmable, Some(f64::from(0x3000)));
        // A list that leads out of what may be written, or around, ends.
        memory.insert(two + 16, 0xdead_0000);
        assert!(look_into(&memory, &areas).exact);
        memory.insert(two + 16, one);
        assert_eq!(look_into(&memory, &areas).free, Some(f64::from(0x22000)));
        // What does not look like an arena is not taken for one.
        memory.insert(heap, 0x55);
        assert!(!look_into(&memory, &areas).exact);
    }
}
