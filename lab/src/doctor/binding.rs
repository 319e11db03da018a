//! Which heap each object of a process takes malloc from.
//!
//! - Sure: the loader writes the address of the malloc that it found into each object; it is read there, and the area that it lies in is
//!   the heap. Neither a preload's name nor what the program was linked to can mislead.
//! - Where that memory cannot be read, or nothing was called yet: by the order in which the loader searches, which is the program, the
//!   preloaded libraries, then those that the program needs, breadth first. A plugin's own libraries come after all of these.
//! - An object that has a heap linked into it for itself uses that one.

use super::areas::Area;
use super::facts::{Heap, Heaps};
use super::objects::{self, Words};
use super::reach::Reach;
use crate::heaps::{self, Kind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// An object in a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    pub path: String,
    pub deleted: bool,
    /// Where its first page lies.
    pub base: u64,
    /// None: it could not be read.
    pub words: Option<Words>,
}

/// Variables that tell a heap what to do.
const SETTINGS: [&str; 8] =
    ["GLIBC_TUNABLES", "MALLOC_", "_RJEM_MALLOC_CONF", "TCMALLOC_", "MIMALLOC_", "SNMALLOC_", "RPMALLOC_", "EVENKEEL_"];

pub fn look(reach: &Reach, areas: &[Area], environment: Option<&str>) -> Heaps {
    let objects = objects_of(reach, areas);
    let environment = environment.map(variables).unwrap_or_default();
    let everywhere = std::fs::read_to_string(reach.path("root/etc/ld.so.preload")).unwrap_or_default();
    let preload = environment.get("LD_PRELOAD").cloned().filter(|p| !p.is_empty());
    let preloaded = [preload.as_deref().unwrap_or_default(), &everywhere].join(" ");
    let read = |address: u64| reach.word(address);
    let mut heaps = judge(&objects, areas, &preloaded, &read);
    for heap in &mut heaps.found {
        // What the object did not say, its package or the name of its file may.
        let path = Path::new(&heap.object);
        if heap.version.is_none() && !heap.linked_in && heap.kind != Kind::Other && path.exists() {
            heap.version = Some(heaps::version(path, heap.kind)).filter(|v| v != "unknown");
        }
    }
    heaps.preload = preload;
    heaps.settings = environment.into_iter().filter(|(name, _)| SETTINGS.iter().any(|s| name.starts_with(s))).collect();
    heaps
}

/// `NAME=value`, each ended by a zero.
pub fn variables(environment: &str) -> BTreeMap<String, String> {
    environment.split('\0').filter_map(|e| e.split_once('=')).map(|(n, v)| (n.into(), v.into())).collect()
}

/// Every object with code, in the order of addresses; the program first.
fn objects_of(reach: &Reach, areas: &[Area]) -> Vec<Mapped> {
    let program = std::fs::read_link(reach.path("exe")).map(|p| p.display().to_string()).unwrap_or_default();
    let program = program.trim_end_matches(" (deleted)");
    let mut objects: Vec<Mapped> = Vec::new();
    let mut seen = BTreeSet::new();
    let code = areas.iter().filter(|a| a.is_file() && a.rights.contains('x'));
    for area in code {
        if !seen.insert((area.name.clone(), area.inode)) {
            continue;
        }
        let own = areas.iter().filter(|a| a.name == area.name && a.inode == area.inode);
        let base = own.filter(|a| a.offset == 0).map(|a| a.from).min().unwrap_or(area.from - area.offset);
        let words = reach.file_of(area).and_then(|bytes| objects::read(&bytes));
        let mapped = Mapped { path: area.name.clone(), deleted: area.deleted, base, words };
        if area.name == program { objects.insert(0, mapped) } else { objects.push(mapped) }
    }
    objects
}

/// `preloaded`: names of libraries, between spaces or colons. `read`: a word of the process's memory.
pub fn judge(objects: &[Mapped], areas: &[Area], preloaded: &str, read: &dyn Fn(u64) -> Option<u64>) -> Heaps {
    let mut heaps = Heaps::default();
    let mut users: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let order = order(objects, preloaded);
    let first = order.iter().copied().find(|i| objects[*i].words.as_ref().is_some_and(|w| w.gives_malloc));
    for (i, object) in objects.iter().enumerate() {
        let Some(words) = &object.words else {
            heaps.unread.push(object.path.clone());
            continue;
        };
        if object.deleted {
            heaps.replaced.push(object.path.clone());
        }
        let by_slot = words.slots.iter().find_map(|slot| {
            let target = read(object.base.wrapping_add(slot.wrapping_sub(words.first)))?;
            let area = areas.iter().find(|a| a.holds(target))?;
            let at = objects.iter().position(|o| o.path == area.name)?;
            // Before its first call a slot leads back into its own object, or into the program's.
            objects[at].words.as_ref().is_some_and(|w| w.gives_malloc).then_some(at)
        });
        let given = match by_slot {
            Some(at) => {
                heaps.read += 1;
                Some(at)
            }
            // Loaded later, for itself: what the program sees goes first, then its own libraries.
            None if words.takes_malloc => {
                heaps.reckoned += 1;
                first.or_else(|| own_order(objects, i).into_iter().find(|o| gives(&objects[*o])))
            }
            // A program that defines malloc calls it without asking anyone.
            None => (i == 0 && words.gives_malloc).then_some(i),
        };
        if let Some(given) = given {
            users.entry(given).or_default().insert(i);
        }
    }
    for (i, object) in objects.iter().enumerate() {
        let Some(words) = &object.words else { continue };
        let Some((kind, how)) = &words.heap else {
            continue;
        };
        let used = users.get(&i);
        // A program with malloc of its own uses that one, and so do others by it.
        let linked_in = !words.gives_malloc && words.heap.is_some();
        heaps.found.push(Heap {
            kind: *kind,
            name: if *kind == Kind::Other { short(&object.path).into() } else { kind.name().into() },
            version: words.version.clone(),
            object: object.path.clone(),
            how: how.clone(),
            by_program: used.is_some_and(|u| u.contains(&0)),
            users: used
                .into_iter()
                .flatten()
                .filter(|u| **u != i && **u != 0)
                .map(|u| objects[*u].path.clone())
                .collect(),
            linked_in,
        });
    }
    heaps.found.sort_by_key(|h| (!h.by_program, std::cmp::Reverse(h.users.len())));
    heaps
}

fn gives(object: &Mapped) -> bool {
    object.words.as_ref().is_some_and(|w| w.gives_malloc)
}

/// The order in which the loader searches for everyone.
fn order(objects: &[Mapped], preloaded: &str) -> Vec<usize> {
    let mut queue: VecDeque<usize> = objects.first().map(|_| 0).into_iter().collect();
    queue.extend(preloaded.split([' ', ':', '\n']).filter(|n| !n.is_empty()).filter_map(|n| called(objects, n)));
    breadth_first(objects, queue)
}

/// The same for an object that was loaded later.
fn own_order(objects: &[Mapped], object: usize) -> Vec<usize> {
    breadth_first(objects, VecDeque::from([object]))
}

fn breadth_first(objects: &[Mapped], mut queue: VecDeque<usize>) -> Vec<usize> {
    let mut order = Vec::new();
    while let Some(at) = queue.pop_front() {
        if order.contains(&at) {
            continue;
        }
        order.push(at);
        let needed = objects[at].words.iter().flat_map(|w| &w.needed);
        queue.extend(needed.filter_map(|n| called(objects, n)));
    }
    order
}

/// By the name that a library gives itself, or the name of its file.
fn called(objects: &[Mapped], name: &str) -> Option<usize> {
    let own = |o: &Mapped| o.words.as_ref().and_then(|w| w.soname.as_deref()) == Some(short(name));
    let by_path = objects.iter().position(|o| o.path == name);
    by_path
        .or_else(|| objects.iter().position(own))
        .or_else(|| objects.iter().position(|o| short(&o.path) == short(name)))
}

pub fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::areas;

    fn object(path: &str, base: u64, words: Words) -> Mapped {
        Mapped { path: path.into(), deleted: false, base, words: Some(words) }
    }

    fn takes(needed: &[&str]) -> Words {
        Words {
            takes_malloc: true,
            slots: vec![0x10],
            needed: needed.iter().map(|n| n.to_string()).collect(),
            ..Words::default()
        }
    }

    fn gives(soname: &str, kind: Kind) -> Words {
        let heap = Some((kind, "test".to_string()));
        Words { gives_malloc: true, soname: Some(soname.into()), heap, ..Words::default() }
    }

    /// A server, glibc, a library of a plugin that brings jemalloc along, and a heap to preload.
    fn process() -> (Vec<Mapped>, Vec<Area>) {
        let objects = vec![
            object("/usr/sbin/server", 0x1000, takes(&["libc.so.6"])),
            object("/lib/libc.so.6", 0x2000, gives("libc.so.6", Kind::Glibc)),
            object("/lib/plugin.so", 0x3000, takes(&["libjemalloc.so.2", "libc.so.6"])),
            object("/lib/libjemalloc.so.2", 0x4000, gives("libjemalloc.so.2", Kind::Jemalloc)),
            object("/opt/libmimalloc.so", 0x5000, gives("libmimalloc.so.2", Kind::Mimalloc)),
        ];
        let maps: String = objects
            .iter()
            .map(|o| format!("{:x}-{:x} r-xp 00000000 fe:00 7 {}\n", o.base, o.base + 0x1000, o.path))
            .collect();
        (objects, areas::read(&maps))
    }

    fn used(heaps: &Heaps) -> Vec<(&str, bool, usize)> {
        heaps.in_use().map(|h| (h.name.as_str(), h.by_program, h.users.len())).collect()
    }

    #[test]
    fn what_the_loader_wrote_decides() {
        let (objects, areas) = process();
        let read = |at: u64| match at {
            0x1010 => Some(0x5123),
            0x3010 => Some(0x4567),
            _ => None,
        };
        let heaps = judge(&objects, &areas, "", &read);
        assert_eq!(used(&heaps), [("mimalloc", true, 0), ("jemalloc", false, 1)]);
        assert_eq!((heaps.read, heaps.reckoned), (2, 0));
        assert!(!heaps.uses(Kind::Glibc));
    }

    #[test]
    fn without_its_memory_the_order_of_the_loader_decides() {
        let (objects, areas) = process();
        let heaps = judge(&objects, &areas, "", &|_| None);
        assert_eq!(used(&heaps), [("glibc", true, 1)], "the plugin's jemalloc comes after the program's libraries");
        assert_eq!((heaps.read, heaps.reckoned), (0, 2));
        let heaps = judge(&objects, &areas, "/opt/libmimalloc.so:/lib/none.so", &|_| None);
        assert_eq!(used(&heaps), [("mimalloc", true, 1)]);
        let heaps = judge(&objects, &areas, "libjemalloc.so.2", &|_| None);
        assert_eq!(used(&heaps), [("jemalloc", true, 1)]);
    }

    #[test]
    fn a_slot_before_its_first_call_says_nothing() {
        let (objects, areas) = process();
        let heaps = judge(&objects, &areas, "", &|at| Some(at));
        assert_eq!((heaps.read, heaps.reckoned), (0, 2));
    }

    #[test]
    fn heaps_that_are_linked_in() {
        let (mut objects, areas) = process();
        let inside = Some((Kind::Jemalloc, "linked in: it has je_malloc".to_string()));
        objects[2].words.as_mut().unwrap().heap = inside;
        let heaps = judge(&objects, &areas, "", &|_| None);
        assert_eq!(used(&heaps), [("glibc", true, 1), ("jemalloc", false, 0)]);
        assert!(heaps.in_use().any(|h| h.linked_in && h.object == "/lib/plugin.so"));
        // A program that defines malloc itself.
        objects[0].words = Some(Words { heap: Some((Kind::Tcmalloc, "t".into())), ..gives("", Kind::Tcmalloc) });
        let heaps = judge(&objects, &areas, "", &|_| None);
        assert_eq!(used(&heaps)[0], ("tcmalloc", true, 1));
        assert!(!heaps.found[0].linked_in);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let (mut objects, areas) = process();
        objects[4].words = None;
        objects[1].deleted = true;
        let heaps = judge(&objects, &areas, "", &|_| None);
        assert_eq!((heaps.unread.len(), heaps.replaced.len()), (1, 1));
        assert!(judge(&[], &[], "", &|_| None).found.is_empty());
    }

    #[test]
    fn environments() {
        let all = variables("A=1\0LD_PRELOAD=/x.so\0odd\0B=a=b\0");
        assert_eq!((all["LD_PRELOAD"].as_str(), all["B"].as_str(), all.len()), ("/x.so", "a=b", 3));
    }
}
