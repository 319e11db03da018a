//! The positive control: glibc's heap, made bad on purpose in the way of the published collapse. Every block of 16 KiB or more is a
//! mapping of its own, made and unmade under one lock that all threads share. `evenkeel selftest` preloads it; a lab that does not
//! find it worse than glibc is not to be trusted on that machine.
//!
//! A mapped block begins `HEAD` bytes into its first page, where a header says what it is; a block of glibc's that begins at the same
//! place of a page does not have the header's two words before it.

use libc::{c_int, c_void, size_t};
use std::cell::UnsafeCell;
use std::ptr::{null_mut, read, write};

const LARGE: size_t = 16 << 10;
const PAGE: usize = 4096;
const HEAD: usize = 64;
const MARK: [usize; 2] = [0x9b1d_a52c_ee03_f7c6, 0x51ab_90cf_33d8_e4b2];

unsafe extern "C" {
    fn __libc_malloc(size: size_t) -> *mut c_void;
    fn __libc_calloc(n: size_t, size: size_t) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: size_t) -> *mut c_void;
    fn __libc_memalign(align: size_t, size: size_t) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

struct Lock(UnsafeCell<libc::pthread_mutex_t>);
// SAFETY: a mutex is made to be shared.
unsafe impl Sync for Lock {}
static LOCK: Lock = Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// Runs `what` while no other thread does.
fn alone<R>(what: impl FnOnce() -> R) -> R {
    // SAFETY: a statically initialised mutex, locked and unlocked by the same thread.
    unsafe { libc::pthread_mutex_lock(LOCK.0.get()) };
    let result = what();
    // SAFETY: as above.
    unsafe { libc::pthread_mutex_unlock(LOCK.0.get()) };
    result
}

#[repr(C)]
struct Header {
    mark: [usize; 2],
    mapped: usize,
}

fn map(size: size_t) -> *mut c_void {
    let Some(bytes) = size.checked_add(HEAD + PAGE - 1).map(|b| b & !(PAGE - 1)) else { return none() };
    alone(|| {
        // SAFETY: a fresh anonymous mapping; its first page holds the header.
        unsafe {
            let base = libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if base == libc::MAP_FAILED {
                return none();
            }
            write(base.cast(), Header { mark: MARK, mapped: bytes });
            // The pages are touched under the lock: page faults are part of what made the collapse.
            for page in (PAGE..bytes).step_by(PAGE) {
                write(base.cast::<u8>().add(page), 0);
            }
            base.byte_add(HEAD)
        }
    })
}

fn none() -> *mut c_void {
    // SAFETY: errno is the thread's own.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

/// The header of a mapped block; None for glibc's.
fn header(block: *mut c_void) -> Option<*mut Header> {
    if block.is_null() || block.addr() % PAGE != HEAD {
        return None;
    }
    let header = block.wrapping_byte_sub(HEAD).cast::<Header>();
    // SAFETY: it lies in the same page as the block.
    (unsafe { read(&raw const (*header).mark) } == MARK).then_some(header)
}

/// # Safety
/// As the C standard has it, here and below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: size_t) -> *mut c_void {
    if size >= LARGE {
        return map(size);
    }
    // SAFETY: the caller's word, passed on.
    unsafe { __libc_malloc(size) }
}

/// # Safety
/// See `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(n: size_t, size: size_t) -> *mut c_void {
    match n.checked_mul(size) {
        // A fresh mapping reads as zeros.
        Some(bytes) if bytes >= LARGE => map(bytes),
        // SAFETY: the caller's word, passed on.
        _ => unsafe { __libc_calloc(n, size) },
    }
}

/// # Safety
/// See `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    match header(block) {
        // SAFETY: the mapping that `map` made, whole.
        Some(header) => alone(|| unsafe {
            libc::munmap(header.cast(), (*header).mapped);
        }),
        // SAFETY: the caller's word, passed on.
        None => unsafe { __libc_free(block) },
    }
}

/// # Safety
/// See `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: size_t) -> *mut c_void {
    // SAFETY: the caller's word; blocks move between the two kinds by copying.
    unsafe {
        let have = match header(block) {
            None if size < LARGE || block.is_null() => {
                return if block.is_null() { malloc(size) } else { __libc_realloc(block, size) };
            }
            None => malloc_usable_size(block),
            Some(_) if size == 0 => {
                free(block);
                return null_mut();
            }
            Some(header) => (*header).mapped - HEAD,
        };
        let new = malloc(size);
        if !new.is_null() {
            new.copy_from_nonoverlapping(block, have.min(size));
            free(block);
        }
        new
    }
}

/// # Safety
/// See `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> size_t {
    if let Some(header) = header(block) {
        // SAFETY: the header is the block's own.
        return unsafe { (*header).mapped } - HEAD;
    }
    if block.is_null() {
        return 0;
    }
    // SAFETY: glibc keeps a block's size, with three flags, in the word before it; 8 bytes of the next chunk are the block's.
    unsafe { (read(block.cast::<usize>().sub(1)) & !7) - 8 }
}

/// # Safety
/// See `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: size_t, size: size_t) -> *mut c_void {
    // SAFETY: the caller's word, passed on.
    unsafe { __libc_memalign(align, size) }
}

/// # Safety
/// See `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: size_t, size: size_t) -> *mut c_void {
    // SAFETY: the caller's word, passed on.
    unsafe { __libc_memalign(align, size) }
}

/// # Safety
/// See `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: size_t, size: size_t) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    // SAFETY: the caller's word, passed on.
    let block = unsafe { __libc_memalign(align, size) };
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's word.
    unsafe { write(out, block) };
    0
}
