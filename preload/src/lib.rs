//! `libevenkeel.so`: the C face of the heap, as glibc 2.36 behaves.
//!
//! malloc and free are the fast paths of `heap::slot`, pasted in; everything else is a few lines
//! over `heap::heap`. Nothing is exported but malloc's family, C++'s operators (`operators.rs`),
//! `evenkeel_*` (`control.rs`) and `vfork`.

#![no_std]

mod control;
mod operators;
mod vfork;

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use heap::bucket::MEDIUM_MAX;
use heap::heap as floor;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    heap::os::write(2, b"evenkeel: an invariant of the heap does not hold\n");
    heap::os::abort()
}

heap::define_malloc! {
    malloc => heap::heap::malloc_slow;
}

heap::define_free! {
    free => heap::heap::free_slow;
}

type Ptr = *mut u8;

fn fail(errno: c_int) -> Ptr {
    // SAFETY: errno is the thread's own.
    unsafe { *libc::__errno_location() = errno };
    null_mut()
}

/// # Safety
/// As the C standard has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(n: usize, size: usize) -> Ptr {
    let Some(bytes) = n.checked_mul(size) else { return fail(libc::ENOMEM) };
    if bytes > MEDIUM_MAX {
        let (p, clean) = floor::alloc_large(bytes, 1);
        if !clean && !p.is_null() {
            // SAFETY: the block holds that many bytes.
            unsafe { floor::zero(p, bytes) };
        }
        return p;
    }
    // SAFETY: any size is right for malloc; the block holds that many bytes.
    unsafe {
        let p = malloc(bytes);
        if !p.is_null() {
            floor::zero(p, bytes);
        }
        p
    }
}

/// # Safety
/// As the C standard has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(p: Ptr, size: usize) -> Ptr {
    // SAFETY: p is null or a block, or is reported; a block's size bounds the copy.
    unsafe {
        if p.is_null() {
            return malloc(size);
        }
        if size == 0 {
            free(p);
            return null_mut();
        }
        match floor::resize(p, size) {
            Ok(()) => p,
            Err(None) => null_mut(),
            Err(Some(have)) => {
                let new = malloc(size);
                if !new.is_null() {
                    core::ptr::copy_nonoverlapping(p, new, have.min(size));
                    free(p);
                }
                new
            }
        }
    }
}

/// # Safety
/// As for realloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(p: Ptr, n: usize, size: usize) -> Ptr {
    match n.checked_mul(size) {
        // SAFETY: the caller's word.
        Some(bytes) => unsafe { realloc(p, bytes) },
        None => fail(libc::ENOMEM),
    }
}

/// # Safety
/// As for free; the size is the one that was asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(p: Ptr, _size: usize) {
    // SAFETY: the caller's word.
    unsafe { free(p) }
}

/// # Safety
/// As for free; alignment and size are those that were asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(p: Ptr, _align: usize, _size: usize) {
    // SAFETY: the caller's word.
    unsafe { free(p) }
}

fn aligned(align: usize, size: usize) -> Ptr {
    // SAFETY: any size is right for malloc.
    floor::alloc_aligned(align, size, |n| unsafe { malloc(n) })
}

/// # Safety
/// `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    // SAFETY: errno is the thread's own, and this call leaves it as it was; `out` is the caller's.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let p = aligned(align, size);
        *errno = before;
        if p.is_null() {
            return libc::ENOMEM;
        }
        *out = p.cast();
    }
    0
}

/// glibc 2.36 rounds an alignment that is no power of two up, and refuses the ones beyond half the
/// address space.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> Ptr {
    if align > usize::MAX / 2 + 1 {
        return fail(libc::EINVAL);
    }
    aligned(align.max(16).next_power_of_two(), size)
}

#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> Ptr {
    memalign(align, size)
}

#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> Ptr {
    aligned(floor::page(), size)
}

#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> Ptr {
    match size.checked_next_multiple_of(floor::page()) {
        Some(size) => aligned(floor::page(), size),
        None => fail(libc::ENOMEM),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc_usable_size(p: Ptr) -> usize {
    floor::usable_size(p)
}

extern "C" fn settle() {
    floor::settle();
}

#[used]
#[unsafe(link_section = ".init_array")]
static SETTLE: extern "C" fn() = settle;
