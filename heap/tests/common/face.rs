//! malloc's family over the heap, under names of its own: the test's own allocator stays libc's. As in
//! `preload`, of which this is the part that holds no C.

use heap::bucket::MEDIUM_MAX;
use heap::heap as floor;
use std::ptr::{copy_nonoverlapping, null_mut};

heap::define_malloc! {
    heap_test_malloc => heap::heap::malloc_slow;
}
heap::define_free! {
    heap_test_free => heap::heap::free_slow;
}

pub fn malloc(size: usize) -> *mut u8 {
    // SAFETY: any size will do.
    unsafe { heap_test_malloc(size) }
}

pub fn free(p: *mut u8) {
    // SAFETY: the tests free what they have.
    unsafe { heap_test_free(p) }
}

pub fn calloc(size: usize) -> *mut u8 {
    if size > MEDIUM_MAX {
        let (p, clean) = floor::alloc_large(size, 1);
        if !clean && !p.is_null() {
            // SAFETY: the block holds that many bytes.
            unsafe { floor::zero(p, size) };
        }
        return p;
    }
    let p = malloc(size);
    if !p.is_null() {
        // SAFETY: as above.
        unsafe { floor::zero(p, size) };
    }
    p
}

pub fn realloc(p: *mut u8, size: usize) -> *mut u8 {
    match floor::resize(p, size) {
        Ok(()) => p,
        Err(None) => null_mut(),
        Err(Some(have)) => {
            let new = malloc(size);
            if !new.is_null() {
                // SAFETY: both blocks hold that many bytes.
                unsafe { copy_nonoverlapping(p, new, have.min(size)) };
                free(p);
            }
            new
        }
    }
}

pub fn aligned(align: usize, size: usize) -> *mut u8 {
    floor::alloc_aligned(align, size, malloc)
}

pub fn usable(p: *mut u8) -> usize {
    floor::usable_size(p)
}
