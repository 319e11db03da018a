//! What a program or library in a process says of heaps: whether it defines malloc, whether it takes it from another and where the
//! loader writes down from which, what it was linked to, and whether a heap is linked into it.

use crate::heaps::Kind;
use object::elf::{DT_NEEDED, DT_SONAME, PF_X, PT_LOAD};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, RelocationTarget};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    /// It defines malloc for everyone.
    pub gives_malloc: bool,
    pub takes_malloc: bool,
    /// Where in the object, by its own addresses, the loader writes the address of the malloc that it takes.
    pub slots: Vec<u64>,
    /// What is to be added to its own addresses where its code's first page lies at 0: lowest loaded address.
    pub first: u64,
    pub needed: Vec<String>,
    pub soname: Option<String>,
    /// The heap that is in it: its kind, how it was recognised, its version.
    pub heap: Option<(Kind, String)>,
    pub version: Option<String>,
    /// It was linked without a loader.
    pub is_static: bool,
}

/// Names under which a heap is linked into a program beside another malloc.
const INSIDE: [(Kind, &str); 8] = [
    (Kind::Jemalloc, "je_malloc"),
    (Kind::Jemalloc, "je_mallctl"),
    (Kind::Jemalloc, "_rjem_malloc"),
    (Kind::Jemalloc, "_rjem_mallocx"),
    (Kind::Jemalloc, "__je_bootstrap_malloc"),
    (Kind::Mimalloc, "mi_malloc"),
    (Kind::Mimalloc, "_mi_heap_init"),
    (Kind::Rpmalloc, "rpmalloc"),
];

/// What heaps say on stderr: in a stripped program, where their names are gone, these words remain.
const SAYINGS: [(Kind, &str); 3] = [
    (Kind::Jemalloc, "<jemalloc>: "),
    (Kind::Tcmalloc, "tcmalloc: large alloc"),
    (Kind::Mimalloc, "mimalloc: warning: "),
];

/// Reads an ELF file; None if it is none.
pub fn read(bytes: &[u8]) -> Option<Words> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let endian = file.endian();
    let mut words = Words::default();
    let segments = file.elf_program_headers();
    let loads = segments.iter().filter(|s| s.p_type(endian) == PT_LOAD);
    words.first = loads.clone().map(|s| s.p_vaddr(endian)).min().unwrap_or(0) & !0xfff;
    if !loads.clone().any(|s| s.p_flags(endian) & PF_X != 0) {
        return None;
    }
    let mut malloc = Vec::new();
    let mut names = BTreeSet::new();
    for symbol in file.dynamic_symbols() {
        let Ok(name) = symbol.name() else { continue };
        if symbol.is_definition() {
            words.gives_malloc |= name == "malloc";
            names.insert(name.to_string());
        } else if name == "malloc" {
            words.takes_malloc = true;
        }
        if name == "malloc" {
            malloc.push(symbol.index());
        }
    }
    for symbol in file.symbols().filter(|s| s.is_definition()) {
        if let Ok(name) = symbol.name() {
            names.insert(name.to_string());
        }
    }
    let sections = file.elf_section_table();
    if let Ok(Some((entries, strings))) = sections.dynamic(endian, bytes)
        && let Ok(strings) = sections.strings(endian, bytes, strings)
    {
        let text = |e: &_| Some(String::from_utf8_lossy(Dyn::string(e, endian, strings).ok()?).into_owned());
        for entry in entries {
            match entry.tag32(endian) {
                Some(DT_NEEDED) => words.needed.extend(text(entry)),
                Some(DT_SONAME) => words.soname = text(entry),
                _ => {}
            }
        }
        names.extend(words.soname.clone());
    } else {
        words.is_static = file.elf_header().e_phnum(endian) > 0;
    }
    for (offset, relocation) in file.dynamic_relocations().into_iter().flatten() {
        if let RelocationTarget::Symbol(index) = relocation.target()
            && malloc.contains(&index)
        {
            words.slots.push(offset);
        }
    }
    // A static program keeps no dynamic names.
    words.gives_malloc |= words.is_static && names.contains("malloc");
    words.heap = heap(bytes, &words, &names);
    words.version = words.heap.as_ref().and_then(|(kind, _)| version(bytes, *kind));
    Some(words)
}

fn heap(bytes: &[u8], words: &Words, names: &BTreeSet<String>) -> Option<(Kind, String)> {
    if words.gives_malloc {
        let (kind, how) = Kind::of(names);
        if kind != Kind::Other {
            return Some((kind, how));
        }
    }
    // Other heaps have __libc_malloc too, to catch those who call that.
    let of_libc = words.soname.as_deref().is_some_and(|n| n.starts_with("libc.so") || n.starts_with("libc.musl"));
    if of_libc || words.is_static && names.contains("__libc_malloc") {
        let how = if words.is_static { "linked in: it has __libc_malloc" } else { "the C library's own" };
        let glibc = find(bytes, b"GNU C Library").is_some();
        return Some((if glibc { Kind::Glibc } else { Kind::Other }, how.into()));
    }
    if let Some((kind, name)) = INSIDE.iter().find(|(_, name)| names.contains(*name)) {
        return Some((*kind, format!("linked in: it has {name}")));
    }
    if let Some((kind, text)) = SAYINGS.iter().find(|(_, text)| find(bytes, text.as_bytes()).is_some()) {
        return Some((*kind, format!("linked in: it holds the words \"{}\"", text.trim_end_matches([' ', ':']))));
    }
    words.gives_malloc.then(|| (Kind::Other, "it defines malloc".into()))
}

/// From the words in the file itself.
fn version(bytes: &[u8], kind: Kind) -> Option<String> {
    match kind {
        Kind::Glibc => {
            let text = line_at(bytes, b"GNU C Library")?;
            let number = text.split(" version ").nth(1)?.trim_end_matches('.');
            let distribution = text.split('(').nth(1).and_then(|t| t.split(')').next());
            Some(distribution.and_then(|d| d.split(' ').next_back()).unwrap_or(number).to_string())
        }
        // "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"
        Kind::Jemalloc => {
            let mut at = 0;
            while let Some(next) = find(&bytes[at..], b"-g") {
                let hash = bytes.get(at + next + 2..at + next + 42)?;
                if hash.iter().all(u8::is_ascii_hexdigit) {
                    let before = &bytes[..at + next];
                    let start = before.iter().rposition(|b| !b.is_ascii_digit() && !b".-".contains(b))? + 1;
                    let text = std::str::from_utf8(&before[start..]).ok()?;
                    return text.split('-').next().filter(|v| v.contains('.')).map(str::to_string);
                }
                at += next + 2;
            }
            None
        }
        Kind::Evenkeel => {
            let text = line_at(bytes, b"evenkeel-version=")?;
            let number = text.split('=').nth(1)?;
            let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
            Some(number[..end].to_string())
        }
        _ => None,
    }
}

/// The text that begins with `mark`, to the end of its line.
fn line_at(bytes: &[u8], mark: &[u8]) -> Option<String> {
    let from = &bytes[find(bytes, mark)?..];
    let end = from.iter().take(200).position(|b| !(0x20..0x7f).contains(b)).unwrap_or(from.len().min(200));
    String::from_utf8(from[..end].to_vec()).ok()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let (first, rest) = wanted.split_first()?;
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|b| b == first) {
        at += next;
        if bytes[at + 1..].starts_with(rest) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heaps;
    use std::fs;

    #[test]
    fn the_c_library_says_what_it_is() {
        let paths = ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6"];
        let Some(bytes) = paths.iter().find_map(|p| fs::read(p).ok()) else { return };
        let words = read(&bytes).unwrap();
        assert!(words.gives_malloc && !words.is_static);
        assert_eq!(words.heap.unwrap().0, Kind::Glibc);
        assert!(words.version.unwrap().starts_with("2."));
        assert_eq!(words.soname.as_deref(), Some("libc.so.6"));
    }

    #[test]
    fn this_program_takes_malloc() {
        let bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        let words = read(&bytes).unwrap();
        assert!(words.takes_malloc && !words.gives_malloc && !words.slots.is_empty());
        assert!(words.needed.iter().any(|n| n.starts_with("libc.so")), "{:?}", words.needed);
    }

    #[test]
    fn a_preload_is_recognised_with_its_version() {
        for heap in heaps::find().iter().filter(|h| h.kind != Kind::Glibc) {
            let words = read(&fs::read(heap.path.as_ref().unwrap()).unwrap()).unwrap();
            assert!(words.gives_malloc);
            assert_eq!(words.heap.unwrap().0, heap.kind, "{}", heap.name);
            if let Some(version) = words.version {
                assert!(heap.version.starts_with(&version) || heap.version == "unknown", "{version}: {}", heap.version);
            }
        }
    }

    #[test]
    fn no_object() {
        assert_eq!(read(b""), None);
        assert_eq!(read(b"\x7fELF and no more"), None);
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!(find(b"aa", b"ab"), None);
    }
}
