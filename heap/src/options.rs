//! The options: one table, from which the environment, the `evenkeel_option_*` calls, the statistics
//! and `docs/options.md` all draw. A leaf.

use crate::os;
use crate::text::{Text, Write};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub struct Opt {
    pub name: &'static str,
    pub default: usize,
    pub most: usize,
    /// Read once at the start; setting it later changes nothing.
    pub fixed: bool,
    pub meaning: &'static str,
    value: AtomicUsize,
}

const fn option(name: &'static str, default: usize, most: usize, fixed: bool, meaning: &'static str) -> Opt {
    Opt { name, default, most, fixed, meaning, value: AtomicUsize::new(default) }
}

impl Opt {
    #[inline]
    pub fn get(&self) -> usize {
        self.value.load(Relaxed)
    }

    /// False if the value is none that the option takes.
    fn set(&self, value: &[u8]) -> bool {
        match number(value) {
            Some(n) if n <= self.most => {
                self.value.store(n, Relaxed);
                true
            }
            _ => false,
        }
    }
}

pub static RSEQ: Opt = option(
    "rseq",
    1,
    1,
    true,
    "1: slots are changed in restartable sequences where kernel and libc have them; 0: always by compare-and-swap",
);
pub static ABORT: Opt =
    option("abort", 1, 1, false, "1: a wrong free is reported and ends the program; 0: reported and ignored");
pub static DECAY_MS: Opt =
    option("decay_ms", 1000, 3_600_000, false, "how long free memory lies unused before it goes back to the kernel");
pub static SLOT_BYTES: Opt =
    option("slot_bytes", 16 << 20, 1 << 32, false, "the most bytes of free blocks that one CPU's slot may hold");
pub static UPKEEP: Opt =
    option("upkeep", 1, 1, true, "1: a thread gives unused memory back; 0: only malloc_trim and evenkeel_purge do");
pub static HUGE: Opt = option("huge_pages", 1, 1, false, "1: ask for huge pages where the heap is dense; 0: never");

pub static ALL: [&Opt; 6] = [&RSEQ, &ABORT, &DECAY_MS, &SLOT_BYTES, &UPKEEP, &HUGE];

pub fn find(name: &[u8]) -> Option<&'static Opt> {
    ALL.into_iter().find(|o| o.name.as_bytes() == name)
}

/// Sets an option by name. `Err` says why not.
pub fn set(name: &[u8], value: &[u8]) -> Result<(), &'static str> {
    let option = find(name).ok_or("no such option")?;
    if option.fixed {
        return Err("can only be set in the environment, before the program starts");
    }
    if option.set(value) { Ok(()) } else { Err("no value this option takes") }
}

/// A decimal number, perhaps with k, m or g behind it.
fn number(text: &[u8]) -> Option<usize> {
    let (digits, shift) = match text.split_last()? {
        (b'k' | b'K', rest) => (rest, 10),
        (b'm' | b'M', rest) => (rest, 20),
        (b'g' | b'G', rest) => (rest, 30),
        _ => (text, 0),
    };
    if digits.is_empty() {
        return None;
    }
    let mut n = 0usize;
    for d in digits {
        n = n.checked_mul(10)?.checked_add(usize::from(d.checked_sub(b'0').filter(|d| *d < 10)?))?;
    }
    n.checked_mul(1 << shift)
}

/// Takes every `EVENKEEL_NAME=value` of an environment; what it cannot use it reports and leaves be.
///
/// # Safety
/// `environment` is a null-terminated array of C strings.
pub unsafe fn read(environment: *const *const libc::c_char) {
    let mut at = environment;
    // SAFETY: the array ends with a null, each string with a zero byte.
    while let Some(entry) = unsafe { at.as_ref() }.filter(|e| !e.is_null()) {
        let entry = unsafe { core::ffi::CStr::from_ptr(*entry) }.to_bytes();
        at = unsafe { at.add(1) };
        let Some(rest) = entry.strip_prefix(b"EVENKEEL_") else { continue };
        let Some(eq) = rest.iter().position(|&c| c == b'=') else { continue };
        let (name, value) = (&rest[..eq], &rest[eq + 1..]);
        let same = |o: &&Opt| {
            o.name.len() == name.len() && o.name.bytes().zip(name).all(|(a, b)| a.to_ascii_uppercase() == *b)
        };
        let Some(option) = ALL.into_iter().find(same) else { continue };
        if !option.set(value) {
            let mut line = Text::<256>::new();
            line.add("evenkeel: EVENKEEL_").bytes(name).add("=").bytes(&value[..value.len().min(64)]);
            line.add(": takes a number from 0 to ")
                .number(option.most)
                .add("; using ")
                .number(option.default)
                .add("\n");
            os::write(2, line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"4m"), Some(4 << 20));
        assert_eq!(number(b"16K"), Some(16384));
        for bad in [&b""[..], b"k", b"-1", b"1.5", b"1x", b"99999999999999999999", b" 1"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names_are_unique_and_defaults_allowed() {
        for (i, o) in ALL.iter().enumerate() {
            assert!(o.default <= o.most);
            assert!(ALL[..i].iter().all(|p| p.name != o.name));
        }
        assert!(set(b"nonsense", b"1").is_err() && set(b"rseq", b"0").is_err() && set(b"decay_ms", b"x").is_err());
    }
}
