//! Looking into the heap: glibc's calls, answered truly, and `evenkeel_*` (see `evenkeel.h`).

use core::ffi::{CStr, c_char, c_int, c_void};
use heap::text::{Into, Text, Write};
use heap::{inspect, options, os, upkeep};

/// glibc's struct mallinfo2; `mallinfo` is the same in ints.
#[repr(C)]
pub struct MallInfo<T> {
    arena: T,
    ordblks: T,
    smblks: T,
    hblks: T,
    hblkhd: T,
    usmblks: T,
    fsmblks: T,
    uordblks: T,
    fordblks: T,
    keepcost: T,
}

#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallInfo<usize> {
    let c = inspect::census();
    let (live, cached, free) = c.totals();
    let idle = |f: fn(&inspect::Line) -> usize| c.buckets.iter().map(f).sum();
    MallInfo {
        arena: live + cached + free,
        ordblks: idle(|l| l.free),
        smblks: idle(|l| l.slots + l.depot),
        hblks: c.large.0,
        hblkhd: c.large.1,
        usmblks: 0,
        fsmblks: cached,
        uordblks: live,
        fordblks: cached + free,
        keepcost: c.pages_free,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> MallInfo<c_int> {
    let m = mallinfo2();
    MallInfo {
        arena: m.arena as c_int,
        ordblks: m.ordblks as c_int,
        smblks: m.smblks as c_int,
        hblks: m.hblks as c_int,
        hblkhd: m.hblkhd as c_int,
        usmblks: m.usmblks as c_int,
        fsmblks: m.fsmblks as c_int,
        uordblks: m.uordblks as c_int,
        fordblks: m.fordblks as c_int,
        keepcost: m.keepcost as c_int,
    }
}

/// Accepts what glibc accepts; nothing here has the knobs, so nothing changes.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(param: c_int, value: c_int) -> c_int {
    const MXFAST: c_int = 1;
    let allowed = match param {
        MXFAST => (0..=160).contains(&value),
        _ => true,
    };
    c_int::from(allowed)
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    c_int::from(upkeep::purge() > 0)
}

struct Stream(*mut libc::FILE);

impl Write for Stream {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // SAFETY: the caller of malloc_info vouches for the stream.
        unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0) };
        self
    }
}

/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(flags: c_int, stream: *mut libc::FILE) -> c_int {
    if flags != 0 {
        return libc::EINVAL;
    }
    inspect::xml(&mut Stream(stream));
    0
}

struct Stderr(Text<512>);

impl Write for Stderr {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.bytes(bytes);
        if bytes.last() == Some(&b'\n') {
            os::write(2, self.0.as_bytes());
            self.0 = Text::new();
        }
        self
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    inspect::text(&mut Stderr(Text::new()));
}

/// The mark before it lets the lab read the version from the file.
static VERSION: &str = concat!("evenkeel-version=", env!("CARGO_PKG_VERSION"), "\0");

#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_version() -> *const c_char {
    VERSION["evenkeel-version=".len()..].as_ptr().cast()
}

/// What snprintf does: fills the buffer, ends it with a zero byte, says how long the whole is.
///
/// # Safety
/// `buffer` is null or has room for `len` bytes.
unsafe fn fill(buffer: *mut c_char, len: usize, write: impl FnOnce(&mut Into)) -> usize {
    if buffer.is_null() || len == 0 {
        let mut out = Into::new(&mut []);
        write(&mut out);
        return out.len;
    }
    // SAFETY: the caller's word.
    let bytes = unsafe { core::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
    let mut out = Into::new(&mut bytes[..len - 1]);
    write(&mut out);
    let whole = out.len;
    bytes[whole.min(len - 1)] = 0;
    whole
}

/// # Safety
/// As for snprintf.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_stats_json(buffer: *mut c_char, len: usize) -> usize {
    // SAFETY: the caller's word.
    unsafe { fill(buffer, len, |out| inspect::json(out)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_purge() -> usize {
    upkeep::purge()
}

/// # Safety
/// `name` is a C string; the buffer as for snprintf.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_option_get(name: *const c_char, buffer: *mut c_char, len: usize) -> c_int {
    if name.is_null() {
        return -1;
    }
    // SAFETY: the caller's word.
    unsafe {
        match options::find(CStr::from_ptr(name).to_bytes()) {
            Some(option) => fill(buffer, len, |out| {
                out.number(option.get());
            }) as c_int,
            None => -1,
        }
    }
}

/// # Safety
/// Both are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_option_set(name: *const c_char, value: *const c_char) -> c_int {
    if name.is_null() || value.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: the caller's word.
    let (name, value) = unsafe { (CStr::from_ptr(name).to_bytes(), CStr::from_ptr(value).to_bytes()) };
    match options::find(name) {
        None => libc::ENOENT,
        Some(option) if option.fixed => libc::EPERM,
        Some(_) if options::set(name, value).is_err() => libc::EINVAL,
        Some(_) => 0,
    }
}

/// One row of the table of options: see `evenkeel.h`.
#[repr(C)]
pub struct OptionRow {
    name: [c_char; 32],
    meaning: [c_char; 160],
    value: usize,
    default: usize,
    most: usize,
    fixed: c_int,
}

/// # Safety
/// `row` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_option_row(index: usize, row: *mut c_void) -> c_int {
    let Some(option) = options::ALL.get(index) else { return -1 };
    let mut filled = OptionRow {
        name: [0; 32],
        meaning: [0; 160],
        value: option.get(),
        default: option.default,
        most: option.most,
        fixed: c_int::from(option.fixed),
    };
    let copy = |to: &mut [c_char], from: &str| to.iter_mut().zip(from.bytes()).for_each(|(t, f)| *t = f as c_char);
    copy(&mut filled.name[..31], option.name);
    copy(&mut filled.meaning[..159], option.meaning);
    // SAFETY: the caller's word.
    unsafe { row.cast::<OptionRow>().write(filled) };
    0
}
