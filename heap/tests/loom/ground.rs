//! What the heap stands on here, in place of the kernel and of the thread that keeps it up: `os` and `upkeep` with the
//! calls that the sources make.

pub mod os {
    use crate::sync::wipe;
    use std::cell::{Cell, RefCell};

    thread_local! {
        pub static CPUS: Cell<usize> = const { Cell::new(1) };
        /// What the heap has written to stderr in this order of things.
        pub static REPORTS: RefCell<Vec<String>> = RefCell::default();
    }

    #[repr(align(4096))]
    struct Page(#[allow(dead_code)] [u8; 4096]);
    static PAGE: Page = Page([0; 4096]);

    /// There is one, for what a fork wipes.
    pub fn map(len: usize) -> Result<usize, i32> {
        if len == size_of::<Page>() { Ok(&raw const PAGE as usize) } else { Err(libc::ENOMEM) }
    }

    /// Of memory that can only be read: `sync` wants no more.
    pub fn map_at(at: usize, len: usize) -> Result<(), i32> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the heap's window, which lies far from everything; and what is there already is as empty.
        let got = unsafe { libc::mmap(at as *mut _, len, libc::PROT_READ, flags, -1, 0) };
        if got as usize == at { Ok(()) } else { Err(libc::ENOMEM) }
    }

    pub unsafe fn map_over(at: usize, len: usize) -> Result<(), i32> {
        map_at(at, len)
    }

    pub unsafe fn advise(at: usize, len: usize, advice: i32) -> Result<(), i32> {
        if advice == libc::MADV_DONTNEED {
            wipe(at, len);
        }
        Ok(())
    }

    pub fn resident(_: usize, _: &mut [u8]) -> usize {
        0
    }

    pub fn block_signals() -> u64 {
        0
    }

    pub fn restore_signals(_: u64) {}

    pub fn yield_cpu() {
        loom::thread::yield_now();
    }

    pub fn cpus() -> usize {
        CPUS.get()
    }

    pub fn random() -> usize {
        0x5bd1_e995_9e37_79b8
    }

    pub fn clock() -> u64 {
        0
    }

    pub fn abort_sequences() -> bool {
        true
    }

    pub fn write(_: i32, text: &[u8]) {
        REPORTS.with_borrow_mut(|reports| reports.push(String::from_utf8_lossy(text).into()));
    }

    pub fn abort() -> ! {
        panic!("the heap ended the program")
    }
}

pub mod upkeep {
    pub fn poke(_: usize) {}
    pub fn find_libc() {}
}
