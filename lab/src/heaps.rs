//! Heaps: which ones this machine has, and what a name in an experiment stands for.
//!
//! A heap is a shared library that exports `malloc` beside symbols that only this heap has; by those it is recognised, never by its
//! file's name. `glibc` is the heap without a library. Nothing here runs a program but `dpkg`, which knows the versions of its files.

use crate::wrong::wrong;
use anyhow::{Context, Result};
use object::elf::DT_SONAME;
use object::read::elf::{Dyn, ElfFile64};
use object::{Endianness, Object, ObjectSymbol};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A heap to run a program on.
#[derive(Clone, Debug, PartialEq)]
pub struct Heap {
    /// How experiments and reports call it.
    pub name: String,
    pub kind: Kind,
    /// None: the libc's own.
    pub path: Option<PathBuf>,
    pub version: String,
    /// How it was recognised, in words.
    pub how: String,
    /// Settings of the heap, for the environment of the program.
    pub env: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Glibc,
    Jemalloc,
    Tcmalloc,
    Mimalloc,
    Snmalloc,
    Rpmalloc,
    Evenkeel,
    /// A library that exports malloc and is none of these.
    Other,
}

/// What marks each kind: a symbol that it exports.
const MARKS: [(Kind, &str, &str); 8] = [
    (Kind::Evenkeel, "evenkeel", "evenkeel_version"),
    (Kind::Jemalloc, "jemalloc", "mallctl"),
    (Kind::Tcmalloc, "tcmalloc", "tc_malloc"),
    (Kind::Mimalloc, "mimalloc", "mi_malloc"),
    (Kind::Rpmalloc, "rpmalloc", "rpmalloc"),
    (Kind::Rpmalloc, "rpmalloc", "rpmalloc_initialize"),
    (Kind::Snmalloc, "snmalloc", "sn_rust_alloc"),
    // Its C names are those of every malloc; the library calls itself so.
    (Kind::Snmalloc, "snmalloc", "libsnmallocshim"),
];

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Glibc => "glibc",
            Kind::Other => "other",
            _ => MARKS.iter().find(|m| m.0 == self).map_or("other", |m| m.1),
        }
    }

    /// By the names that a library defines, and its own; and how it was recognised.
    pub fn of(symbols: &BTreeSet<String>) -> (Kind, String) {
        for (kind, _, mark) in MARKS {
            if let Some(found) = symbols.iter().find(|s| s.split('.').next() == Some(mark)) {
                let verb = if found.contains(".so") { "it calls itself" } else { "it exports" };
                return (kind, format!("{verb} {found}"));
            }
        }
        (Kind::Other, "it exports malloc".into())
    }
}

/// Everything on this machine: the libc's heap first, then what lies in the library folders and beside this program.
pub fn find() -> Vec<Heap> {
    find_in(&folders())
}

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib/x86_64-linux-gnu"]
            .map(PathBuf::from)
            .into();
    // target/release/evenkeel stands beside libevenkeel.so, and target/peers holds what was built to compare with.
    if let Some(own) = std::env::current_exe().ok().and_then(|p| p.canonicalize().ok()) {
        let up = |n: usize| own.ancestors().nth(n).map(Path::to_path_buf);
        folders.extend(up(1));
        folders.extend(up(2).map(|p| p.join("lib")));
        folders.extend(up(2).map(|p| p.join("peers")));
        // Tests run from target/release/deps.
        folders.extend(up(2));
        folders.extend(up(3).map(|p| p.join("peers")));
    }
    folders
}

fn find_in(folders: &[PathBuf]) -> Vec<Heap> {
    let mut found = vec![glibc()];
    let mut seen = BTreeSet::new();
    for folder in folders {
        let Ok(entries) = folder.read_dir() else { continue };
        let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| may_be_a_heap(p)).collect();
        files.sort();
        for file in files {
            let Ok(real) = file.canonicalize() else { continue };
            if seen.insert(real.clone())
                && let Ok(heap) = recognise(&real)
                && heap.kind != Kind::Other
            {
                found.push(heap);
            }
        }
    }
    number(&mut found);
    found
}

/// Cheap test before a file is opened: thousands of libraries lie in these folders.
fn may_be_a_heap(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let library = name.ends_with(".so") || name.contains(".so.");
    // Debug and profiling forms answer another question.
    let plain = !["debug", "prof", "checks", "secure", "-dbg"].iter().any(|w| name.contains(w));
    let known =
        ["jemalloc", "tcmalloc", "mimalloc", "snmalloc", "rpmalloc", "evenkeel"].iter().any(|w| name.contains(w));
    library && known && plain && !name.contains("control")
}

/// Two heaps of one kind must not share a name: the later ones get their version, or their place.
fn number(found: &mut [Heap]) {
    for i in 1..found.len() {
        let taken: Vec<String> = found[..i].iter().map(|h| h.name.clone()).collect();
        let base = found[i].name.clone();
        if taken.contains(&base) {
            // "5.3.1 (built from ..)" is called by its number.
            let number = found[i].version.split_whitespace().next().unwrap_or_default();
            let named = format!("{base}-{number}");
            let mut name = named.clone();
            let mut k = 2;
            while taken.contains(&name) {
                name = format!("{named}-{k}");
                k += 1;
            }
            found[i].name = name;
        }
    }
}

pub fn glibc() -> Heap {
    Heap {
        name: "glibc".into(),
        kind: Kind::Glibc,
        path: None,
        version: libc_version(),
        how: "the C library's own, without a preload".into(),
        env: BTreeMap::new(),
    }
}

/// The heap that a library is; an error if it exports no malloc.
pub fn recognise(path: &Path) -> Result<Heap> {
    let symbols = exported(path)?;
    if !symbols.contains("malloc") {
        return Err(wrong(format!("{} is no heap: it exports no malloc", path.display())));
    }
    let (kind, how) = Kind::of(&symbols);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.trim_start_matches("lib").split(".so").next().unwrap_or_default().to_string();
    Ok(Heap {
        name: if kind == Kind::Other { stem } else { kind.name().into() },
        kind,
        path: Some(path.to_path_buf()),
        version: version(path, kind),
        how,
        env: BTreeMap::new(),
    })
}

/// The names that a shared library defines for others, and its own name.
fn exported(path: &Path) -> Result<BTreeSet<String>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    names(&bytes).map_err(|e| wrong(format!("{} is no ELF library: {e}", path.display())))
}

fn names(bytes: &[u8]) -> object::Result<BTreeSet<String>> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let defined = file.dynamic_symbols().filter(|s| s.is_definition());
    let mut names: BTreeSet<String> = defined.filter_map(|s| s.name().ok().map(str::to_string)).collect();
    let (endian, sections) = (file.endian(), file.elf_section_table());
    if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        let own = entries.iter().find(|e| e.tag32(endian) == Some(DT_SONAME));
        if let Some(own) = own {
            names.insert(String::from_utf8_lossy(own.string(endian, strings)?).into_owned());
        }
    }
    Ok(names)
}

/// From a `.version` file beside the library, from the library's own words, from its package, or from its file name.
pub fn version(path: &Path, kind: Kind) -> String {
    let noted = std::fs::read_to_string(path.with_extension("version")).ok();
    noted
        .map(|t| t.trim().to_string())
        .filter(|t| !t.is_empty())
        .or_else(|| if kind == Kind::Evenkeel { own_words(path) } else { None })
        .or_else(|| packaged(path))
        .or_else(|| {
            let name = path.file_name()?.to_str()?;
            name.split(".so.").nth(1).map(str::to_string)
        })
        .unwrap_or_else(|| "unknown".into())
}

/// `libevenkeel.so` bears its version as text.
fn own_words(path: &Path) -> Option<String> {
    const MARK: &[u8] = b"evenkeel-version=";
    let bytes = std::fs::read(path).ok()?;
    let at = bytes.windows(MARK.len()).position(|w| w == MARK)? + MARK.len();
    let len = bytes[at..].iter().take(20).take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    String::from_utf8(bytes[at..at + len].to_vec()).ok()
}

fn packaged(path: &Path) -> Option<String> {
    // Debian's database may name the file by its path before /lib became /usr/lib.
    let owner = |p: &str| {
        let out = Command::new("dpkg").args(["-S", p]).output().ok().filter(|o| o.status.success())?;
        String::from_utf8(out.stdout).ok()?.split(": ").next().map(str::to_string)
    };
    let text = path.to_str()?;
    let package = owner(text).or_else(|| owner(text.strip_prefix("/usr")?))?;
    let out = Command::new("dpkg-query").args(["-W", "-f", "${Version}", &package]).output().ok()?;
    String::from_utf8(out.stdout).ok().filter(|v| out.status.success() && !v.is_empty())
}

/// What a name or a path in an experiment stands for.
pub fn resolve(name: &str, found: &[Heap]) -> Result<Heap> {
    if name.contains('/') {
        let path = Path::new(name);
        let real = path.canonicalize().map_err(|e| wrong(format!("heap {name:?}: {e}")))?;
        return recognise(&real);
    }
    if let Some(heap) = found.iter().find(|h| h.name == name) {
        return Ok(heap.clone());
    }
    let names: Vec<&str> = found.iter().map(|h| h.name.as_str()).collect();
    let advice = match name {
        "jemalloc" => "it comes with `apt-get install libjemalloc2`",
        "tcmalloc" => "it comes with `apt-get install libtcmalloc-minimal4`",
        "mimalloc" => "it comes with `apt-get install libmimalloc2.0`",
        "evenkeel" => "build it: `cargo build --release -p preload`",
        "snmalloc" | "rpmalloc" => "build it: `make peers`",
        _ => "give the path of its library, or one of these names",
    };
    Err(wrong(format!("heap {name:?} is not on this machine (here: {}); {advice}", names.join(", "))))
}

/// Variables that tell a heap what to do, by what they begin with.
const TUNABLES: [&str; 9] = [
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "MALLOC_",
    "_RJEM_MALLOC_CONF",
    "TCMALLOC_",
    "MIMALLOC_",
    "SNMALLOC_",
    "RPMALLOC_",
    "EVENKEEL_",
];

impl Heap {
    /// Puts a program on this heap, and keeps from it what the lab's own environment says of heaps.
    pub fn put_under(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if TUNABLES.iter().any(|t| name.to_string_lossy().starts_with(t)) {
                command.env_remove(name);
            }
        }
        self.preload(command);
    }

    /// The same, with what the environment says of heaps left as it is: for a person who starts a program by hand.
    pub fn preload(&self, command: &mut Command) {
        match &self.path {
            Some(path) => command.env("LD_PRELOAD", path),
            None => command.env_remove("LD_PRELOAD"),
        };
        command.envs(&self.env);
    }
}

/// The libc's version as it calls itself.
fn libc_version() -> String {
    let out = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = out.ok().and_then(|o| String::from_utf8(o.stdout).ok()).unwrap_or_default();
    text.trim().strip_prefix("glibc ").map_or_else(|| "unknown".into(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(name: &str, version: &str) -> Heap {
        Heap { name: name.into(), version: version.into(), ..glibc() }
    }

    #[test]
    fn two_of_one_kind_get_two_names() {
        let mut found = vec![
            heap("glibc", "2.36"),
            heap("jemalloc", "5.3.0"),
            heap("jemalloc", "5.3.1"),
            heap("jemalloc", "5.3.1"),
        ];
        number(&mut found);
        let names: Vec<_> = found.iter().map(|h| h.name.as_str()).collect();
        assert_eq!(names, ["glibc", "jemalloc", "jemalloc-5.3.1", "jemalloc-5.3.1-2"]);
    }

    #[test]
    fn a_library_without_malloc_is_refused() {
        let libc = ["/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib64/libm.so.6"].map(Path::new);
        let Some(libm) = libc.into_iter().find(|p| p.exists()) else { return };
        let error = recognise(libm).unwrap_err().to_string();
        assert!(error.contains("exports no malloc"), "{error}");
        let names = exported(libm).unwrap();
        assert!(names.contains("libm.so.6") && names.contains("cabs"), "its own name and what it exports");
    }

    #[test]
    fn an_unknown_name_says_what_to_do() {
        let error = resolve("jemaloc", &[glibc()]).unwrap_err().to_string();
        assert!(error.contains("here: glibc") && error.contains("path"), "{error}");
        assert!(resolve("mimalloc", &[glibc()]).unwrap_err().to_string().contains("apt-get install libmimalloc2.0"));
        assert!(resolve("/no/such.so", &[]).is_err());
        assert_eq!(resolve("glibc", &[glibc()]).unwrap().path, None);
    }

    #[test]
    fn environments() {
        let mut heap = glibc();
        heap.env.insert("MALLOC_ARENA_MAX".into(), "1".into());
        let of = |heap: &Heap| {
            let mut command = Command::new("true");
            heap.put_under(&mut command);
            let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
            command.get_envs().map(|(k, v)| (text(k), v.map(text))).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(of(&heap)["MALLOC_ARENA_MAX"].as_deref(), Some("1"));
        assert_eq!(of(&heap)["LD_PRELOAD"], None);
        heap.path = Some("/x.so".into());
        assert_eq!(of(&heap)["LD_PRELOAD"].as_deref(), Some("/x.so"));
    }
}
