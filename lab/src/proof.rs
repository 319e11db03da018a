//! Proofs that every target needs: which heap a program binds at its start, which one is in its memory while it runs, and which CPUs
//! it may use. A trial counts only if they hold.

use crate::heaps::{Heap, Kind};
use crate::placement;
use crate::record::Proof;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The environment that makes the loader write down every binding, into files that begin with `log`.
pub fn log_bindings(log: &Path) -> [(&'static str, String); 3] {
    [
        ("LD_DEBUG", "bindings".into()),
        ("LD_DEBUG_OUTPUT", log.display().to_string()),
        // Bound at the start, not at the first call.
        ("LD_BIND_NOW", "1".into()),
    ]
}

/// Reads what the loader wrote: for each object that takes `malloc` from another, from which. Removes the files.
pub fn read_bindings(log: &Path) -> Result<BTreeMap<String, String>> {
    let folder = log.parent().context("a log has a folder")?;
    let stem = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut bound = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&stem) {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
        bound.extend(bindings_of("malloc", &text));
        fs::remove_file(entry.path())?;
    }
    Ok(bound)
}

/// From lines as `123: binding file A [0] to B [0]: normal symbol `malloc' [GLIBC_2.2.5]`.
fn bindings_of(symbol: &str, text: &str) -> Vec<(String, String)> {
    let wanted = format!("symbol `{symbol}'");
    text.lines()
        .filter(|l| l.contains(&wanted))
        .filter_map(|l| {
            let (from, rest) = l.split_once("binding file ")?.1.split_once(" [")?;
            let to = rest.split_once("] to ")?.1.split_once(" [")?.0;
            Some((from.to_string(), to.to_string()))
        })
        .collect()
}

/// Judges bindings: every object must take malloc from the heap (or, for glibc, from libc).
pub fn of_bindings(heap: &Heap, bound: &BTreeMap<String, String>) -> Proof {
    let right = |library: &str| match &heap.path {
        Some(path) => same_file(Path::new(library), path),
        None => Path::new(library).file_name().is_some_and(|n| n.to_string_lossy().starts_with("libc.so")),
    };
    let wrong: Vec<String> = bound
        .iter()
        .filter(|(from, to)| !right(to) && !right(from))
        .map(|(from, to)| format!("{} takes malloc from {to}", short(from)))
        .collect();
    let from: std::collections::BTreeSet<&String> = bound.values().collect();
    let found = if bound.is_empty() {
        "no binding of malloc was seen".to_string()
    } else if wrong.is_empty() {
        let from: Vec<&str> = from.iter().map(|f| f.as_str()).collect();
        format!("{} objects take malloc from {}", bound.len(), from.join(", "))
    } else {
        wrong.join("; ")
    };
    Proof {
        what: "heap bound at the start".into(),
        wanted: wanted(heap),
        found,
        holds: !bound.is_empty() && wrong.is_empty(),
    }
}

/// The heap in the memory of a running process: the wanted library, and no other heap.
pub fn of_maps(heap: &Heap, pid: u32, others: &[Heap]) -> Proof {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mapped =
        |path: &Path| maps.lines().any(|l| l.split_once('/').is_some_and(|(_, p)| Path::new(&format!("/{p}")) == path));
    let strangers: Vec<String> = others
        .iter()
        .filter(|o| o.kind != Kind::Glibc && o.path != heap.path)
        .filter_map(|o| o.path.as_deref())
        .filter(|p| mapped(p))
        .map(|p| p.display().to_string())
        .collect();
    let own = heap.path.as_deref().is_none_or(mapped);
    let found = match (own, strangers.is_empty()) {
        _ if maps.is_empty() => "its memory map cannot be read".into(),
        (true, true) => wanted(heap),
        (false, true) => "it is not in the process".into(),
        (_, false) => format!("{} is in the process", strangers.join(", ")),
    };
    Proof {
        what: "heap in memory while running".into(),
        wanted: wanted(heap),
        holds: !maps.is_empty() && own && strangers.is_empty(),
        found,
    }
}

fn wanted(heap: &Heap) -> String {
    heap.path.as_ref().map_or_else(|| "glibc alone".into(), |p| p.display().to_string())
}

/// The CPU mask of a process, if one was asked for.
pub fn of_cpus(what: &str, cpus: Option<&[usize]>, pid: u32) -> Option<Proof> {
    let wanted = placement::write(cpus?);
    let found = placement::mask_of(pid).map_or_else(|| "unknown".into(), |m| placement::write(&m));
    Some(Proof { what: what.into(), holds: wanted == found, wanted, found })
}

/// What a durability is called among proofs.
pub const DURABILITY: &str = "durability";

/// States when a commit is on the disk: nothing is asked for, but engines that differ in it are not compared without a word.
pub fn of_durability(found: String) -> Proof {
    Proof { what: DURABILITY.into(), wanted: "stated".into(), holds: true, found }
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(x), Ok(y)) if x == y)
}

fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heaps::glibc;

    const LOG: &str = "\
      7:\tbinding file ./server [0] to /x/libheap.so [0]: normal symbol `malloc' [GLIBC_2.2.5]
      7:\tbinding file /lib/libc.so.6 [0] to /x/libheap.so [0]: normal symbol `malloc' [GLIBC_2.2.5]
      7:\tbinding file ./server [0] to /lib/libc.so.6 [0]: normal symbol `mallopt' [GLIBC_2.2.5]
      7:\tbinding file ./plugin.so [0] to /lib/libc.so.6 [0]: normal symbol `malloc' [GLIBC_2.2.5]
";

    #[test]
    fn bindings_are_read_and_judged() {
        let mut bound: BTreeMap<String, String> = bindings_of("malloc", LOG).into_iter().collect();
        assert_eq!(bound.len(), 3);
        let mut heap = glibc();
        heap.path = Some("/x/libheap.so".into());
        let proof = of_bindings(&heap, &bound);
        assert!(!proof.holds && proof.found.contains("plugin.so takes malloc from /lib/libc.so.6"), "{proof:?}");
        bound.remove("./plugin.so");
        assert!(of_bindings(&heap, &bound).holds);
        assert!(!of_bindings(&glibc(), &bound).holds);
        assert!(!of_bindings(&heap, &BTreeMap::new()).holds);
    }

    #[test]
    fn a_heap_that_is_not_mapped_is_no_proof() {
        let pid = std::process::id();
        assert!(of_maps(&glibc(), pid, &[]).holds);
        let mut heap = glibc();
        heap.path = Some("/x/libheap.so".into());
        heap.kind = Kind::Jemalloc;
        assert!(!of_maps(&heap, pid, &[]).holds);
        assert!(!of_maps(&glibc(), u32::MAX / 4, &[]).holds);
        // A stranger that is in the process: any library that really is.
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps
            .lines()
            .find_map(|l| l.find("/").map(|i| l[i..].to_string()).filter(|p| p.contains("libc.so")))
            .unwrap();
        heap.path = Some(libc.into());
        assert!(of_maps(&heap, pid, &[]).holds);
        assert!(!of_maps(&glibc(), pid, &[heap]).holds);
    }

    #[test]
    fn masks() {
        let all = placement::allowed();
        assert!(of_cpus("mask", Some(&all), std::process::id()).unwrap().holds);
        assert!(!of_cpus("mask", Some(&[999]), std::process::id()).unwrap().holds);
        assert!(of_cpus("mask", None, 1).is_none());
    }
}
