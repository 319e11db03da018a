//! System calls, and nothing else.
//!
//! Raw `syscall` instructions rather than libc's wrappers: a wrapper writes `errno`, and neither a
//! malloc that succeeds nor a free may touch it. Every call is counted, so that the statistics can
//! say what the heap asked of the kernel. An error comes back as `Err(errno)`.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Calls made since the start, by kind; `stats` reads them.
pub struct Calls {
    pub mmap: AtomicU64,
    pub munmap: AtomicU64,
    pub madvise: AtomicU64,
    pub membarrier: AtomicU64,
    pub futex: AtomicU64,
    pub other: AtomicU64,
}

pub static CALLS: Calls = Calls {
    mmap: AtomicU64::new(0),
    munmap: AtomicU64::new(0),
    madvise: AtomicU64::new(0),
    membarrier: AtomicU64::new(0),
    futex: AtomicU64::new(0),
    other: AtomicU64::new(0),
};

/// # Safety
/// As for the system call itself.
#[inline]
unsafe fn syscall(n: i64, a: [usize; 6], count: &AtomicU64) -> Result<usize, i32> {
    count.fetch_add(1, Relaxed);
    let ret: isize;
    // SAFETY: the kernel clobbers rax, rcx and r11 only; memory effects are the caller's affair.
    unsafe {
        asm!("syscall", inlateout("rax") n as isize => ret,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&ret) { Err(-ret as i32) } else { Ok(ret as usize) }
}

const MAP: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

fn mmap(addr: usize, len: usize, prot: i32, flags: i32) -> Result<usize, i32> {
    // SAFETY: a new private mapping; with MAP_FIXED only over ranges that the caller owns (map_over).
    unsafe { syscall(libc::SYS_mmap, [addr, len, prot as usize, flags as usize, usize::MAX, 0], &CALLS.mmap) }
}

/// Maps fresh zeroed memory wherever the kernel likes.
pub fn map(len: usize) -> Result<usize, i32> {
    mmap(0, len, RW, MAP)
}

/// Maps fresh zeroed memory at exactly `addr`, or fails (EEXIST) if something is there.
pub fn map_at(addr: usize, len: usize) -> Result<(), i32> {
    let got = mmap(addr, len, RW, MAP | libc::MAP_FIXED_NOREPLACE)?;
    if got == addr {
        return Ok(());
    }
    // A kernel before 4.17 takes the flag for a hint.
    unmap(got, len);
    Err(libc::EEXIST)
}

/// Maps fresh zeroed memory over a range that is already the heap's own.
///
/// # Safety
/// `addr .. addr + len` must belong to the heap, with nothing in it that is still wanted.
pub unsafe fn map_over(addr: usize, len: usize) -> Result<(), i32> {
    mmap(addr, len, RW, MAP | libc::MAP_FIXED).map(drop)
}

pub fn unmap(addr: usize, len: usize) {
    // SAFETY: called for a mapping that map() made a moment ago and that nobody else knows.
    let _ = unsafe { syscall(libc::SYS_munmap, [addr, len, 0, 0, 0, 0], &CALLS.munmap) };
}

/// # Safety
/// With MADV_DONTNEED the range must hold nothing that is still wanted.
pub unsafe fn advise(addr: usize, len: usize, advice: i32) -> Result<(), i32> {
    // SAFETY: the caller vouches for the range.
    unsafe { syscall(libc::SYS_madvise, [addr, len, advice as usize, 0, 0, 0], &CALLS.madvise) }.map(drop)
}

/// How many of the pages of a mapped range are in memory; `seen` has a byte for each page.
pub fn resident(addr: usize, seen: &mut [u8]) -> usize {
    let len = seen.len() * crate::bucket::PAGE;
    // SAFETY: the kernel writes one byte a page.
    let got = unsafe { syscall(libc::SYS_mincore, [addr, len, seen.as_mut_ptr() as usize, 0, 0, 0], &CALLS.other) };
    if got.is_ok() { seen.iter().filter(|b| **b & 1 == 1).count() } else { 0 }
}

const REGISTER_EXPEDITED_RSEQ: usize = 1 << 8;
const EXPEDITED_RSEQ: usize = 1 << 7;

/// Aborts every restartable sequence of this process that runs on any CPU, and orders memory with it.
/// False when the kernel cannot.
pub fn abort_sequences() -> bool {
    // SAFETY: membarrier has no effect on memory but ordering.
    let barrier = |cmd| unsafe { syscall(libc::SYS_membarrier, [cmd, 0, 0, 0, 0, 0], &CALLS.membarrier) };
    match barrier(EXPEDITED_RSEQ) {
        Ok(_) => true,
        // Not registered yet: register, which is slow in a threaded process, and once in its life.
        Err(_) => barrier(REGISTER_EXPEDITED_RSEQ).is_ok() && barrier(EXPEDITED_RSEQ).is_ok(),
    }
}

/// Sleeps until `word` is woken or differs from `seen`, at most `ms` milliseconds (0: for ever).
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, seen: u32, ms: u64) {
    let limit = [ms / 1000, ms % 1000 * 1_000_000];
    let limit = if ms == 0 { 0 } else { limit.as_ptr() as usize };
    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: word and limit outlive the call.
    let _ = unsafe {
        syscall(libc::SYS_futex, [word.as_ptr() as usize, op as usize, seen as usize, limit, 0, 0], &CALLS.futex)
    };
}

pub fn write(fd: i32, text: &[u8]) {
    // SAFETY: text is readable for its length.
    let _ =
        unsafe { syscall(libc::SYS_write, [fd as usize, text.as_ptr() as usize, text.len(), 0, 0, 0], &CALLS.other) };
}

pub fn yield_cpu() {
    // SAFETY: no arguments, no effect on memory.
    let _ = unsafe { syscall(libc::SYS_sched_yield, [0; 6], &CALLS.other) };
}

/// Blocks every signal for this thread and gives back the mask it had.
pub fn block_signals() -> u64 {
    let (all, mut old) = (u64::MAX, 0u64);
    // SAFETY: both are kernel-sized (8 byte) signal sets.
    let _ = unsafe {
        let a = [libc::SIG_SETMASK as usize, &raw const all as usize, &raw mut old as usize, 8, 0, 0];
        syscall(libc::SYS_rt_sigprocmask, a, &CALLS.other)
    };
    old
}

pub fn restore_signals(old: u64) {
    // SAFETY: as above.
    let _ = unsafe {
        let a = [libc::SIG_SETMASK as usize, &raw const old as usize, 0, 8, 0, 0];
        syscall(libc::SYS_rt_sigprocmask, a, &CALLS.other)
    };
}

/// Names this thread; `name` ends with a zero byte.
pub fn name_thread(name: &[u8]) {
    let a = [libc::PR_SET_NAME as usize, name.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel reads at most 16 bytes of a terminated name.
    let _ = unsafe { syscall(libc::SYS_prctl, a, &CALLS.other) };
}

/// Whether every other thread of this process has ended, the first one (which stays as a zombie) among
/// them.
pub fn only_thread() -> bool {
    let mut text = [0u8; 512];
    // SAFETY: the path is terminated, the buffer is as long as said, and the descriptor is our own.
    let n = unsafe {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let path = c"/proc/self/stat".as_ptr() as usize;
        let Ok(fd) = syscall(libc::SYS_open, [path, flags as usize, 0, 0, 0, 0], &CALLS.other) else { return false };
        let n = syscall(libc::SYS_read, [fd, text.as_mut_ptr() as usize, text.len(), 0, 0, 0], &CALLS.other);
        let _ = syscall(libc::SYS_close, [fd, 0, 0, 0, 0, 0], &CALLS.other);
        n.unwrap_or(0)
    };
    // pid (name) state ppid ... : the number of threads is the 18th field after the name.
    let Some(name_end) = text[..n].iter().rposition(|&c| c == b')') else { return false };
    let mut fields = text[name_end + 1..n].split(|&c| c == b' ').skip(1);
    fields.next() == Some(b"Z") && fields.nth(16) == Some(b"2")
}

/// The time stamp counter, for where a rough time will do.
#[inline]
pub fn clock() -> u64 {
    // SAFETY: every x86-64 has one.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// How many CPUs this process may use.
pub fn cpus() -> usize {
    let mut mask = [0u64; 128];
    // SAFETY: the kernel writes at most the given length.
    let got =
        unsafe { syscall(libc::SYS_sched_getaffinity, [0, 1024, mask.as_mut_ptr() as usize, 0, 0, 0], &CALLS.other) };
    let ones: u32 = mask.iter().map(|w| w.count_ones()).sum();
    if got.is_ok() && ones > 0 { ones as usize } else { 1 }
}

/// A word that nobody outside can guess.
pub fn random() -> usize {
    const AT_RANDOM: libc::c_ulong = 25;
    // SAFETY: the kernel gives every process 16 random bytes there, or nothing.
    unsafe { (libc::getauxval(AT_RANDOM) as *const usize).as_ref() }
        .map_or(0x5bd1_e995_9e37_79b9, |w| w.rotate_left(23))
}

/// Ends the process as `abort()` does, without touching any lock of libc.
pub fn abort() -> ! {
    // SAFETY: libc's abort unblocks and raises SIGABRT; it allocates nothing.
    unsafe { libc::abort() }
}
