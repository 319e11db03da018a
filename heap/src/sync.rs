//! Atomics as the heap's structures use them. `tests/loom` takes the sources with another `sync` in this one's
//! place, over loom's atomics.

pub use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A point where another thread may come between. Nothing, unless built with `--cfg delays`: then a
/// random wait, so that the stress test meets the rare orders often.
#[inline(always)]
pub fn step() {
    #[cfg(delays)]
    delays::wait();
}

#[cfg(delays)]
mod delays {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static SEED: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);

    pub fn wait() {
        let mut x = SEED.load(Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        SEED.store(x, Relaxed);
        match x % 512 {
            0 => crate::os::yield_cpu(),
            n if n < 32 => (0..n * 8).for_each(|_| core::hint::spin_loop()),
            _ => {}
        }
    }
}
