//! Names of frames: `object!function`. Functions of which a stripped program keeps no name are named by where they begin, as its tables
//! for unwinding have it (`mariadbd!fn@8915f0`), so that two of them stay two.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};
use std::collections::HashMap;
use std::path::Path;

#[derive(Default)]
pub struct Symbols {
    /// By path: where functions begin. None: do not look.
    starts: Option<HashMap<String, Vec<u64>>>,
    /// Lines seen before: most frames come thousands of times.
    known: HashMap<String, String>,
}

impl Symbols {
    /// Looks into the objects that are named.
    pub fn here() -> Symbols {
        Symbols { starts: Some(HashMap::new()), known: HashMap::new() }
    }

    /// For text of another machine.
    pub fn none() -> Symbols {
        Symbols::default()
    }

    /// From a line as `\t  891673 [unknown] (/usr/sbin/mariadbd)`.
    pub fn name(&mut self, line: &str) -> String {
        let line = line.trim();
        if let Some(name) = self.known.get(line) {
            return name.clone();
        }
        let name = self.look_up(line);
        self.known.insert(line.to_string(), name.clone());
        name
    }

    fn look_up(&mut self, line: &str) -> String {
        let (address, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (function, path) = match rest.rsplit_once(" (") {
            // "(/usr/lib/a (deleted))": the file was replaced while it ran.
            Some((before, "deleted))")) => before.rsplit_once(" (").unwrap_or((before, "")),
            Some((function, path)) => (function, path.trim_end_matches(')')),
            None => (rest, ""),
        };
        let function = function.trim();
        let function = function.split_once("+0x").map_or(function, |(name, _)| name);
        let object = object(path);
        if !function.is_empty() && function != "[unknown]" {
            return if object.is_empty() { function.to_string() } else { format!("{object}!{function}") };
        }
        let start = u64::from_str_radix(address, 16).ok().and_then(|a| self.start(path, a));
        match (start, object.is_empty()) {
            (Some(start), _) => format!("{object}!fn@{start:x}"),
            (None, false) => format!("{object}!?"),
            (None, true) => "[unknown]".into(),
        }
    }

    fn start(&mut self, path: &str, address: u64) -> Option<u64> {
        let starts = self.starts.as_mut()?;
        let starts =
            starts.entry(path.to_string()).or_insert_with(|| function_starts(Path::new(path)).unwrap_or_default());
        let after = starts.partition_point(|s| *s <= address);
        starts.get(after.checked_sub(1)?).copied()
    }
}

/// The short name of a file that code came from.
fn object(path: &str) -> &str {
    match path {
        "[unknown]" | "" => "",
        "[kernel.kallsyms]" | "[guest.kernel.kallsyms]" => "kernel",
        "[vdso]" => "vdso",
        // A module of the kernel.
        _ if path.starts_with('[') => "kernel",
        _ => path.rsplit('/').next().unwrap_or(path),
    }
}

/// Where functions begin, from the sorted table that `.eh_frame_hdr` holds for unwinding.
fn function_starts(path: &Path) -> Option<Vec<u64>> {
    let bytes = std::fs::read(path).ok()?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
    let section = file.section_by_name(".eh_frame_hdr")?;
    let (base, data) = (section.address(), section.data().ok()?);
    // Version 1; a pointer and a count of 4 bytes each; entries of two offsets of 4 bytes, relative to this section.
    let [1, _, 0x03, 0x3b, _, _, _, _, count @ ..] = data else { return None };
    let (count, entries) = count.split_first_chunk::<4>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let entries = entries.chunks_exact(8).take(count);
    let offset = |e: &[u8]| i64::from(i32::from_le_bytes([e[0], e[1], e[2], e[3]]));
    Some(entries.map(|e| base.wrapping_add_signed(offset(e))).collect())
}

/// Whether most functions of an object begin by setting up a frame pointer; None where its code cannot be read.
pub fn keeps_frame_pointers(path: &Path) -> Option<bool> {
    /// `push %rbp; mov %rsp,%rbp`, which may follow `endbr64`.
    const FRAME: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
    const NEAR: usize = 24;
    let starts = function_starts(path)?;
    let bytes = std::fs::read(path).ok()?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
    let text = file.section_by_name(".text")?;
    let (base, code) = (text.address(), text.data().ok()?);
    let heads = starts.iter().filter_map(|s| {
        let at = usize::try_from(s.checked_sub(base)?).ok()?;
        code.get(at..(at + NEAR).min(code.len()))
    });
    let (mut all, mut with) = (0usize, 0usize);
    for head in heads {
        all += 1;
        with += usize::from(head.windows(4).any(|w| w == FRAME));
    }
    (all > 0).then_some(with * 3 > all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let mut symbols = Symbols::none();
        for (line, name) in [
            ("\t 10 f(int, char) (/usr/lib/libx.so.2)", "libx.so.2!f(int, char)"),
            ("\t 10 malloc+0x12 (/x/heap.so)", "heap.so!malloc"),
            ("\tffff10 do_futex ([kernel.kallsyms])", "kernel!do_futex"),
            ("\tffff10 xfs_x ([xfs])", "kernel!xfs_x"),
            ("\t 10 [unknown] (/usr/sbin/mariadbd)", "mariadbd!?"),
            ("\t 10 [unknown] ([unknown])", "[unknown]"),
            ("\t 10 f (/usr/lib/a (deleted))", "a!f"),
        ] {
            assert_eq!(symbols.name(line), name);
        }
    }

    #[test]
    fn functions_of_this_program_are_found_by_their_tables() {
        let own = std::env::current_exe().unwrap();
        let starts = function_starts(&own).unwrap();
        assert!(starts.len() > 100 && starts.is_sorted());
        let line = format!("{:x} [unknown] ({})", starts[10] + 1, own.display());
        let name = Symbols::here().name(&line);
        assert!(name.ends_with(&format!("!fn@{:x}", starts[10])), "{name}");
        assert!(keeps_frame_pointers(&own).is_some());
    }
}
