//! Upkeep: what nobody uses goes back, without any call from the program.
//!
//! Four times per decay time a pass empties slots and shelves of the depot that have rested for the
//! decay time, retires empty spans, gives pages back, and now and then allows huge pages where the heap
//! is dense. The passes run on a thread of their own. It is created by a slow path that finds more than
//! the first mapping in use and that was called by the program itself: inside libc or the loader (which
//! allocate while they create threads) it would be a thread creation within a thread creation. It ends
//! when there is nothing left to do, and when it is the last thread: so an idle process has none of it,
//! and a process whose threads have all ended ends. Where no thread can be had, slow paths make the passes.
//!
//! The state lies in the page that fork wipes: a child begins with no thread and makes its own.

use crate::bucket::{BATCH, COUNT};
use crate::depot;
use crate::estate::{self, wiped};
use crate::options;
use crate::os;
use crate::pages;
use crate::slot;
use crate::span;
use crate::stats::{self, DECAY_TICKS, TICK};
use core::ffi::c_void;
use core::sync::atomic::{
    AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

const NONE: u32 = 0;
const STARTING: u32 = 1;
const RUNNING: u32 = 2;
const REFUSED: u32 = 3;

/// Called by every slow path, with the address that malloc or free was called from.
#[inline]
pub fn poke(caller: usize) {
    if wiped().upkeep.load(Relaxed) != RUNNING {
        stir(caller);
    }
}

#[cold]
#[inline(never)]
fn stir(caller: usize) {
    let state = &wiped().upkeep;
    let change = |from, to| state.compare_exchange(from, to, AcqRel, Relaxed).is_ok();
    let wanted = || options::UPKEEP.get() != 0 && estate::mapped() > estate::FIRST && from_program(caller);
    match state.load(Relaxed) {
        NONE if wanted() && change(NONE, STARTING) => state.store(if start() { RUNNING } else { REFUSED }, Release),
        REFUSED => piggyback(),
        _ => {}
    }
}

pub fn state() -> &'static str {
    match wiped().upkeep.load(Relaxed) {
        RUNNING => "running",
        REFUSED => "without a thread",
        _ => "at rest",
    }
}

// ---- the thread -----------------------------------------------------------------------------------

core::arch::global_asm!(
    ".weak pthread_create",
    ".weak pthread_attr_init",
    ".weak pthread_attr_setstacksize",
    ".weak pthread_attr_setdetachstate"
);

/// The address of a libc function that may not exist (libpthread before glibc 2.34).
macro_rules! weak {
    ($name:literal) => {{
        let at: usize;
        // SAFETY: reads an address from the global offset table, null if there is none.
        unsafe {
            core::arch::asm!(concat!("mov {0}, [rip + ", $name, "@GOTPCREL]"), out(reg) at, options(nostack, pure, readonly))
        };
        at
    }};
}

type Create = extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> i32;
type Attribute<T> = extern "C" fn(*mut libc::pthread_attr_t, T) -> i32;

fn start() -> bool {
    let create = weak!("pthread_create");
    let (init, size, detach) =
        (weak!("pthread_attr_init"), weak!("pthread_attr_setstacksize"), weak!("pthread_attr_setdetachstate"));
    if [create, init, size, detach].contains(&0) {
        return false;
    }
    // SAFETY: these are the functions of those names; attr is initialised by the first call.
    unsafe {
        let create: Create = core::mem::transmute(create);
        let init: extern "C" fn(*mut libc::pthread_attr_t) -> i32 = core::mem::transmute(init);
        let size: Attribute<usize> = core::mem::transmute(size);
        let detach: Attribute<i32> = core::mem::transmute(detach);
        let mut attr = core::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed().assume_init();
        if init(&mut attr) != 0 {
            return false;
        }
        detach(&mut attr, libc::PTHREAD_CREATE_DETACHED);
        // The thread inherits a mask that leaves every signal to the program's threads.
        let errno = libc::__errno_location();
        let (mask, before) = (os::block_signals(), *errno);
        let ok = [256 << 10, 8 << 20].into_iter().any(|bytes| {
            let mut thread = 0;
            size(&mut attr, bytes) == 0 && create(&mut thread, &attr, run, core::ptr::null_mut()) == 0
        });
        os::restore_signals(mask);
        *errno = before;
        ok
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let state = &wiped().upkeep;
    os::name_thread(b"evenkeel\0");
    while state.load(Acquire) == STARTING {
        os::yield_cpu();
    }
    let mut idle = 0;
    while idle <= DECAY_TICKS && !os::only_thread() {
        let tick = (options::DECAY_MS.get() as u64 / u64::from(DECAY_TICKS)).max(5);
        os::futex_wait(state, RUNNING, tick);
        idle = if pass() { 0 } else { idle + 1 };
    }
    state.store(NONE, Release);
    core::ptr::null_mut()
}

/// For slow paths, where no thread could be had: a pass when a tick's time is over.
fn piggyback() {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (now, next) = (os::clock(), NEXT.load(Relaxed));
    if now > next && NEXT.compare_exchange(next, now + (1 << 29), Relaxed, Relaxed).is_ok() && next != 0 {
        pass();
    }
}

// ---- who calls ------------------------------------------------------------------------------------

/// Where libc (or its libpthread) and the loader lie.
static RANGES: [[AtomicUsize; 2]; 2] = [const { [const { AtomicUsize::new(0) }; 2] }; 2];

fn from_program(caller: usize) -> bool {
    caller != 0 && !RANGES.iter().any(|[from, to]| (from.load(Relaxed)..to.load(Relaxed)).contains(&caller))
}

/// Notes the ranges; once, at the start.
pub fn find_libc() {
    // SAFETY: getauxval only reads.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    let create = weak!("pthread_create");
    let mut libc_base = create & !0xfff;
    // SAFETY: an object's pages are mapped without a gap from its header to its code.
    while libc_base != 0 && unsafe { *(libc_base as *const u32) } != 0x464c_457f {
        libc_base -= 0x1000;
    }
    for (range, base) in RANGES.iter().zip([libc_base, loader]) {
        if base != 0 {
            range[0].store(base, Relaxed);
            // SAFETY: base is an ELF header in memory.
            range[1].store(base + unsafe { image_size(base) }, Relaxed);
        }
    }
}

/// # Safety
/// `base` is the address of a loaded ELF image.
unsafe fn image_size(base: usize) -> usize {
    // SAFETY: the caller's word.
    unsafe {
        let header = &*(base as *const libc::Elf64_Ehdr);
        let table = (base + header.e_phoff as usize) as *const libc::Elf64_Phdr;
        (0..usize::from(header.e_phnum))
            .map(|i| &*table.add(i))
            .filter(|p| p.p_type == libc::PT_LOAD)
            .map(|p| (p.p_vaddr + p.p_memsz) as usize)
            .max()
            .unwrap_or(0)
    }
}

// ---- a pass ---------------------------------------------------------------------------------------

/// Ticks that each slot and each shelf has rested.
static SLOT_REST: [AtomicU8; slot::MAX_CIDS] = [const { AtomicU8::new(0) }; slot::MAX_CIDS];
static SLOT_PRINT: [AtomicU64; slot::MAX_CIDS] = [const { AtomicU64::new(0) }; slot::MAX_CIDS];
static SHELF_REST: [AtomicU8; COUNT] = [const { AtomicU8::new(0) }; COUNT];

/// Only one thread passes at a time. Nobody waits for it but who asks to purge now.
struct Turn;

impl Turn {
    fn take() -> Option<Turn> {
        match wiped().turn.compare_exchange(0, 1, Acquire, Relaxed) {
            Ok(_) => Some(Turn),
            Err(_) => None,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        wiped().turn.store(0, Release);
    }
}

fn rested(rest: &AtomicU8, used: bool) -> bool {
    let ticks = if used { 0 } else { rest.load(Relaxed).saturating_add(1) };
    rest.store(ticks, Relaxed);
    u32::from(ticks) >= DECAY_TICKS
}

/// A tick and its pass. False if there is nothing left to wait for.
pub fn pass() -> bool {
    let Some(_turn) = Turn::take() else { return true };
    TICK.store(stats::tick().wrapping_add(1), Relaxed);
    let mut busy = false;

    let mut to_drain = false;
    for cid in 0..slot::made() {
        let (print, held) = slot::fingerprint(cid);
        let used = SLOT_PRINT[cid].swap(print, Relaxed) != print;
        let old = rested(&SLOT_REST[cid], used);
        to_drain |= old && held;
        busy |= !old;
    }
    if to_drain {
        drain(|cid| u32::from(SLOT_REST[cid].load(Relaxed)) >= DECAY_TICKS);
    }
    for (bucket, rest) in SHELF_REST.iter().enumerate() {
        if rested(rest, depot::was_used(bucket)) {
            clear_shelf(bucket);
        } else {
            busy = true;
        }
    }
    busy |= span::trim(false);
    busy |= pages::purge(false);
    if options::HUGE.get() != 0 && stats::tick().is_multiple_of(4 * DECAY_TICKS) {
        pages::allow_huge();
    }
    busy
}

fn drain(which: impl Fn(usize) -> bool) {
    if slot::drain(which, |_, blocks| span::give(blocks, DECAY_TICKS)) {
        stats::count(&stats::DRAINS);
    }
}

fn clear_shelf(bucket: usize) {
    let mut blocks = [0; BATCH];
    loop {
        let n = depot::take(bucket, &mut blocks);
        if n == 0 {
            break;
        }
        blocks[..n].sort_unstable();
        span::give(&blocks[..n], DECAY_TICKS);
    }
    depot::was_used(bucket);
}

/// Gives back all that is free, now. Says how many bytes.
pub fn purge() -> usize {
    let _turn = loop {
        match Turn::take() {
            Some(turn) => break turn,
            None => os::yield_cpu(),
        }
    };
    let before = stats::PURGED.load(Relaxed);
    drain(|_| true);
    (1..COUNT).for_each(clear_shelf);
    span::trim(true);
    pages::purge(true);
    (stats::PURGED.load(Relaxed) - before) as usize
}
