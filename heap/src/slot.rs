//! Slots: for each CPU and bucket a stack of free blocks. The fast path of malloc and free is here.
//!
//! A slot is found by `mm_cid`, the dense number that the kernel gives to the CPUs a process runs on,
//! and changed in a restartable sequence (rseq): a short stretch of code that ends in one store; if
//! the thread loses its CPU, or takes a signal, before that store, the kernel sends it back to the
//! start. So a slot needs no lock, no atomic instruction and no variable of the thread's own.
//! glibc's registration is read; nothing in it is written but `rseq_cs`.
//!
//! ```text
//! slot:  head[bucket] = top: u32, end: u32 | ... | 0 | stack of bucket 1 ... | 0 | stack of bucket 2 ...
//! pop:   p = slot[top]; if p == 0 { miss }; top -= 1        push: if top == end { miss }; slot[top + 1] = p; top += 1
//! ```
//! - `begin <= top <= end <= begin + room`, where `begin = BUCKETS[b].stack` and `slot[begin] == 0`;
//! - TABLE[cid] is the slot of `cid`, or STOPPED, in which every head is 0: pops find the null at entry
//!   0, pushes find `top == end`. Whoever must have a slot for himself stores STOPPED there and lets
//!   membarrier abort the sequences that have read the old value;
//! - `HOT.cids` is how far TABLE goes; 0 sends everybody past the slots (while a vfork's child runs,
//!   whose `mm_cid` is stale).
//!
//! Without rseq (`HOT.rseq == 0`) the same slots are changed under a claim: a compare-and-swap by a
//! thread that tries the next slot, and at last none at all, when it finds one claimed.

use crate::bucket::{BUCKETS, COUNT, HEADS, PAGE, SLOT_ENTRIES};
use crate::estate::{self, SLOTS};
use crate::options;
use crate::os;
use crate::sync::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    step,
};
use core::arch::naked_asm;

pub const MAX_CIDS: usize = 8192;
const SLOT_BYTES: usize = (SLOT_ENTRIES * 8).next_multiple_of(PAGE);
/// Spare words between the heads and the stacks.
const ROOM_BYTES: usize = HEADS - 1;
const HAND: usize = HEADS - 2;
const CLAIM: usize = HEADS - 3;
/// When the last miss was, and the mean gap between misses, in ticks of the time stamp counter.
const MISSED: usize = HEADS - 4;
const GAP: usize = HEADS - 5;
const _: () = assert!(GAP >= COUNT);

/// What the fast paths need, in one cache line.
#[repr(C, align(64))]
pub struct Hot {
    /// Where glibc's `struct rseq` lies, relative to fs; 0 = no rseq.
    pub rseq: AtomicUsize,
    pub cids: AtomicU32,
}

pub static HOT: Hot = Hot { rseq: AtomicUsize::new(0), cids: AtomicU32::new(0) };
pub static TABLE: [AtomicUsize; MAX_CIDS] = [const { AtomicUsize::new(0) }; MAX_CIDS];

#[repr(align(64))]
struct Stopped {
    _heads: [AtomicU64; HEADS + 1],
}
static STOPPED: Stopped = Stopped { _heads: [const { AtomicU64::new(0) }; HEADS + 1] };

/// Slots made so far (by cid), the length of TABLE in use, and vfork's children at large.
static MADE: AtomicU32 = AtomicU32::new(0);
static CIDS: AtomicU32 = AtomicU32::new(0);
static VFORKED: AtomicU32 = AtomicU32::new(0);

const MODE_NONE: u32 = 0;
const MODE_RSEQ: u32 = 1;
const MODE_CAS: u32 = 2;
static MODE: AtomicU32 = AtomicU32::new(MODE_NONE);

pub fn by_rseq() -> bool {
    MODE.load(Relaxed) == MODE_RSEQ
}

// ---- the fast paths -----------------------------------------------------------------------------
//
// Written once as text and pasted into malloc, operator new, free, operator delete (`preload`), so
// that none of them pays for a call. (The alignment at their ends aligns their sections, and so their
// beginnings.) Registers: r9 = rseq, ecx = bucket, rsi = slot, r8 = top.
// `tests/golden.rs` counts their instructions.

/// The descriptor of a sequence 3..4 that restarts at 2, and where the kernel finds both.
#[macro_export]
macro_rules! sequence {
    () => {
        "
        .pushsection __rseq_cs, \"aw\", @progbits
        .balign 32
    9:  .long 0, 0
        .quad 3f, 4f - 3f, 5f
        .popsection
        .pushsection __rseq_cs_ptr_array, \"aw\", @progbits
        .quad 9b
        .popsection
        .pushsection .text.rseq_abort, \"ax\", @progbits
        .byte 0x0f, 0xb9, 0x3d
        .long 0x53053053
    5:  jmp 2f
        .popsection
    2:  "
    };
}

/// Defines malloc-like functions: `size -> block`. What the slot cannot serve goes on, with the
/// caller's address, to `$slow(size, caller)`. A block whose seal is broken is reported and left out.
#[macro_export]
macro_rules! define_malloc {
    ($($name:ident => $slow:path;)*) => { $(
        /// # Safety
        /// As the C standard has it.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(size: usize) -> *mut u8 {
            core::arch::naked_asm!(
                "   cmp rdi, {max}
                    ja 8f
                    lea eax, [rdi + 15]
                    shr eax, 4
                    lea rdx, [rip + {small_of}]
                    movzx ecx, byte ptr [rdx + rax]
                    mov r9, [rip + {hot}]
                    test r9, r9
                    jz 8f",
                $crate::sequence!(),
                "   lea rdx, [rip + 9b]
                    mov fs:[r9 + 8], rdx
                3:  mov esi, fs:[r9 + 24]
                    cmp esi, [rip + {hot} + 8]
                    jae 8f
                    lea rdx, [rip + {table}]
                    mov rsi, [rdx + rsi * 8]
                    mov r8d, [rsi + rcx * 8]
                    mov rax, [rsi + r8 * 8]
                    test rax, rax
                    jz 8f
                    dec r8d
                    mov [rsi + rcx * 8], r8d
                4:  mov rdx, [rip + {window} + 24]
                    xor rdx, rax
                    cmp [rax], rdx
                    jne 7f
                    mov [rax], rcx
                    ret
                7:  push rdi
                    mov rdi, rax
                    call {broken}
                    pop rdi
                8:  mov rsi, [rsp]
                    jmp {slow}
                    .p2align 6",
                max = const $crate::bucket::SMALL_MAX,
                small_of = sym $crate::bucket::SMALL_OF,
                hot = sym $crate::slot::HOT,
                table = sym $crate::slot::TABLE,
                window = sym $crate::estate::WINDOW,
                broken = sym $crate::heap::broken,
                slow = sym $slow,
            )
        }
    )* };
}

/// Defines free-like functions: `block ->`. A pointer at which no small block in the program's hands
/// begins (null among them), and a block for which the slot has no room, go on to
/// `$slow(block, bucket, caller)`; a bucket other than 0 says that the block is sealed.
#[macro_export]
macro_rules! define_free {
    ($($name:ident => $slow:path;)*) => { $(
        /// # Safety
        /// As the C standard has it.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(block: *mut u8) {
            core::arch::naked_asm!(
                "   mov rax, rdi
                    sub rax, [rip + {window}]
                    cmp rax, [rip + {window} + 8]
                    jae 7f
                    mov rax, rdi
                    shr rax, {unit_shift}
                    mov rdx, [rip + {window} + 16]
                    mov eax, [rdx + rax * 4]
                    mov edx, edi
                    and edx, {unit_mask}
                    movzx ecx, al
                    shr eax, 16
                    add edx, eax
                    lea rax, [rip + {multiple}]
                    mov rax, [rax + rcx * 8]
                    imul rdx, rax
                    cmp rdx, rax
                    jae 7f
                    mov rax, [rip + {window} + 24]
                    xor rax, rdi
                    mov r8, [rdi]
                    cmp r8, rax
                    je 7f
                    test r8, r8
                    jz 6f
               22:  mov [rdi], rax
                    mov r9, [rip + {hot}]
                    test r9, r9
                    jz 8f",
                $crate::sequence!(),
                "   lea rdx, [rip + 9b]
                    mov fs:[r9 + 8], rdx
                3:  mov esi, fs:[r9 + 24]
                    cmp esi, [rip + {hot} + 8]
                    jae 8f
                    lea rdx, [rip + {table}]
                    mov rsi, [rdx + rsi * 8]
                    mov r8d, [rsi + rcx * 8]
                    cmp r8d, [rsi + rcx * 8 + 4]
                    je 8f
                    mov [rsi + r8 * 8 + 8], rdi
                    inc r8d
                    mov [rsi + rcx * 8], r8d
                4:  ret
                6:  mov rdx, rdi
                    shr rdx, {unit_shift}
                    mov r8, [rip + {window} + 16]
                    test byte ptr [r8 + rdx * 4 + 1], {unsealed}
                    jz 22b
                7:  xor ecx, ecx
                8:  mov esi, ecx
                    mov rdx, [rsp]
                    jmp {slow}
                    .p2align 6",
                unit_shift = const $crate::bucket::UNIT_SHIFT,
                unsealed = const $crate::bucket::UNSEALED >> 8,
                unit_mask = const $crate::bucket::UNIT - 1,
                multiple = sym $crate::bucket::MULTIPLE,
                hot = sym $crate::slot::HOT,
                table = sym $crate::slot::TABLE,
                window = sym $crate::estate::WINDOW,
                slow = sym $slow,
            )
        }
    )* };
}

// ---- sequences that the slow paths call -----------------------------------------------------------

/// Pushes as many of `n` blocks as the current slot has room for, the last on top.
#[unsafe(naked)]
unsafe extern "C" fn seq_push(bucket: usize, blocks: *const usize, n: usize) -> usize {
    naked_asm!(
        "   mov r9, [rip + {hot}]",
        sequence!(),
        "   lea rax, [rip + 9b]
            mov fs:[r9 + 8], rax
        3:  mov eax, fs:[r9 + 24]
            cmp eax, [rip + {hot} + 8]
            jae 8f
            lea rcx, [rip + {table}]
            mov r8, [rcx + rax * 8]
            mov eax, [r8 + rdi * 8]
            mov ecx, [r8 + rdi * 8 + 4]
            sub ecx, eax
            cmp rcx, rdx
            cmova rcx, rdx
            test ecx, ecx
            jz 8f
            lea r10, [r8 + rax * 8 + 8]
            xor r11d, r11d
        6:  movq xmm0, [rsi + r11 * 8]
            movq [r10 + r11 * 8], xmm0
            inc r11d
            cmp r11d, ecx
            jb 6b
            add eax, ecx
            mov [r8 + rdi * 8], eax
        4:  mov eax, ecx
            ret
        8:  xor eax, eax
            ret",
        hot = sym HOT,
        table = sym TABLE,
    )
}

/// Pops up to `n` blocks of the current slot, the one below the top last; `begin` is the bucket's.
#[unsafe(naked)]
unsafe extern "C" fn seq_pop(bucket: usize, blocks: *mut usize, n: usize, begin: usize) -> usize {
    naked_asm!(
        "   mov r9, [rip + {hot}]
            movq xmm1, rcx",
        sequence!(),
        "   lea rax, [rip + 9b]
            mov fs:[r9 + 8], rax
        3:  mov eax, fs:[r9 + 24]
            cmp eax, [rip + {hot} + 8]
            jae 8f
            lea rcx, [rip + {table}]
            mov r8, [rcx + rax * 8]
            movq rcx, xmm1
            mov eax, [r8 + rdi * 8]
            mov r10d, eax
            sub r10d, ecx
            jle 8f
            cmp r10, rdx
            cmova r10, rdx
            xor r11d, r11d
            lea rcx, [r8 + rax * 8]
        6:  movq xmm0, [rcx]
            movq [rsi + r11 * 8], xmm0
            sub rcx, 8
            inc r11d
            cmp r11d, r10d
            jb 6b
            sub eax, r10d
            mov [r8 + rdi * 8], eax
        4:  mov eax, r10d
            ret
        8:  xor eax, eax
            ret",
        hot = sym HOT,
        table = sym TABLE,
    )
}

/// Sets the end of a bucket's stack, if the current slot is `slot` and its top is not above.
#[unsafe(naked)]
unsafe extern "C" fn seq_set_end(bucket: usize, slot: usize, end: usize) -> bool {
    naked_asm!(
        "   mov r9, [rip + {hot}]",
        sequence!(),
        "   lea rax, [rip + 9b]
            mov fs:[r9 + 8], rax
        3:  mov eax, fs:[r9 + 24]
            cmp eax, [rip + {hot} + 8]
            jae 8f
            lea rcx, [rip + {table}]
            cmp [rcx + rax * 8], rsi
            jne 8f
            mov eax, [rsi + rdi * 8]
            cmp eax, edx
            ja 8f
            mov [rsi + rdi * 8 + 4], edx
        4:  mov eax, 1
            ret
        8:  xor eax, eax
            ret",
        hot = sym HOT,
        table = sym TABLE,
    )
}

/// The number of this thread's CPU within the process.
#[unsafe(naked)]
unsafe extern "C" fn current_cid() -> u32 {
    naked_asm!("mov rax, [rip + {hot}]", "mov eax, fs:[rax + 24]", "ret", hot = sym HOT)
}

// ---- choosing the mode ----------------------------------------------------------------------------

core::arch::global_asm!(".weak __rseq_offset", ".weak __rseq_size");

/// glibc's word on its registration: (offset from fs, size); zeros before 2.35 or in musl.
fn registration() -> (usize, u32) {
    let (offset, size): (usize, usize);
    // SAFETY: reads two addresses from the global offset table, null where libc has no such symbol.
    unsafe {
        core::arch::asm!(
            "mov {0}, [rip + __rseq_offset@GOTPCREL]",
            "mov {1}, [rip + __rseq_size@GOTPCREL]",
            out(reg) offset, out(reg) size, options(nostack, pure, readonly));
        if offset == 0 || size == 0 {
            return (0, 0);
        }
        (*(offset as *const isize) as usize, *(size as *const u32))
    }
}

/// Decides, once the environment is known, how slots are changed. There is one thread yet.
pub fn choose_mode() {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    const FEATURE_SIZE_WITH_MM_CID: u64 = 28;
    let (offset, size) = registration();
    // glibc 2.36 registers 32 bytes and says 20: the size tells only whether it registered at all,
    // the auxiliary vector whether the kernel fills mm_cid.
    // SAFETY: getauxval only reads.
    let told = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } >= FEATURE_SIZE_WITH_MM_CID;
    // SAFETY: the offset is glibc's own; cpu_id (at 4) is negative while nothing is registered.
    let registered = offset != 0 && size != 0 && told && unsafe { cpu_id(offset) } >= 0;
    if registered && options::RSEQ.get() != 0 {
        HOT.rseq.store(offset, Relaxed);
        MODE.store(MODE_RSEQ, Release);
    } else {
        HOT.rseq.store(0, Relaxed);
        MODE.store(MODE_CAS, Release);
    }
}

/// # Safety
/// `offset` is where glibc put its `struct rseq`.
unsafe fn cpu_id(offset: usize) -> i32 {
    let id: i32;
    // SAFETY: the caller's word.
    unsafe {
        core::arch::asm!("mov {0:e}, fs:[{1} + 4]", out(reg) id, in(reg) offset, options(nostack, pure, readonly))
    };
    id
}

fn stopped() -> usize {
    (&raw const STOPPED) as usize
}

// ---- slots for the slow paths ---------------------------------------------------------------------

fn slot_at(cid: usize) -> usize {
    SLOTS.start() + cid * SLOT_BYTES
}

/// A word of a slot: entry `i`.
fn entry(slot: usize, i: usize) -> &'static AtomicU64 {
    debug_assert!(i < SLOT_ENTRIES);
    // SAFETY: slots made are mapped whole and for ever.
    unsafe { &*((slot + i * 8) as *const AtomicU64) }
}

/// top | end << 32
fn head(slot: usize, bucket: usize) -> &'static AtomicU64 {
    entry(slot, bucket)
}

fn top(head: u64) -> usize {
    head as u32 as usize
}

fn end(head: u64) -> usize {
    (head >> 32) as usize
}

/// The head of an empty stack with no room.
fn empty_head(bucket: usize) -> u64 {
    begin(bucket) as u64 * 0x1_0000_0001
}

fn begin(bucket: usize) -> usize {
    BUCKETS[bucket].stack as usize
}

/// Makes a slot for `cid` if there is none, and the table long enough to name it.
fn make(cid: usize) -> bool {
    if cid >= MAX_CIDS {
        return false;
    }
    let gate = estate::Gate::enter();
    let named = CIDS.load(Relaxed) as usize;
    if named <= cid {
        TABLE[named..=cid].iter().for_each(|t| t.store(stopped(), Release));
        CIDS.store(cid as u32 + 1, Release);
    }
    if VFORKED.load(Relaxed) == 0 && by_rseq() {
        HOT.cids.store(CIDS.load(Relaxed), Release);
    }
    for c in MADE.load(Relaxed) as usize..=cid {
        if !gate.grow(&SLOTS, (c + 1) * SLOT_BYTES) {
            return false;
        }
        (1..COUNT).for_each(|b| head(slot_at(c), b).store(empty_head(b), Relaxed));
        TABLE[c].store(slot_at(c), Release);
        MADE.store(c as u32 + 1, Release);
    }
    true
}

/// The slot to use now, in rseq mode: a guess that a sequence must confirm.
fn current() -> Option<usize> {
    // SAFETY: the mode says that rseq is there.
    let cid = unsafe { current_cid() } as usize;
    if cid >= MADE.load(Acquire) as usize && (VFORKED.load(Relaxed) != 0 || !make(cid)) {
        return None;
    }
    let slot = TABLE[cid].load(Relaxed);
    (slot != stopped()).then_some(slot)
}

/// Runs `change` on a claimed slot, or gives up: never waits. For the mode without rseq.
fn claimed<R>(change: impl FnOnce(usize) -> R) -> Option<R> {
    let made = MADE.load(Acquire) as usize;
    let made = if made == 0 { make_all()? } else { made };
    let own: usize;
    // SAFETY: fs:0 holds the thread's own address under every libc for x86-64.
    unsafe { core::arch::asm!("mov {0}, fs:[0]", out(reg) own, options(nostack, pure, readonly)) };
    let first = own.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    for k in 0..made.min(4) {
        let slot = slot_at((first + k) % made);
        let claim = entry(slot, CLAIM);
        step();
        if claim.load(Relaxed) == 0 && claim.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            step();
            let result = change(slot);
            claim.store(0, Release);
            return Some(result);
        }
    }
    None
}

fn make_all() -> Option<usize> {
    let n = os::cpus().clamp(1, 256);
    make(n - 1).then_some(n)
}

/// Pushes blocks of a bucket, the last on top; says how many found room.
pub fn push(bucket: usize, blocks: &[usize]) -> usize {
    if by_rseq() {
        // SAFETY: rseq is there; the slice is readable.
        return unsafe { seq_push(bucket, blocks.as_ptr(), blocks.len()) };
    }
    claimed(|slot| push_to(slot, bucket, blocks)).unwrap_or(0)
}

/// Pops up to `out.len()` blocks, the top first.
pub fn pop(bucket: usize, out: &mut [usize]) -> usize {
    if by_rseq() {
        // SAFETY: rseq is there; the slice is writable.
        return unsafe { seq_pop(bucket, out.as_mut_ptr(), out.len(), begin(bucket)) };
    }
    claimed(|slot| pop_from(slot, bucket, out)).unwrap_or(0)
}

fn push_to(slot: usize, bucket: usize, blocks: &[usize]) -> usize {
    let h = head(slot, bucket).load(Relaxed);
    let n = (end(h) - top(h)).min(blocks.len());
    for (i, &p) in blocks[..n].iter().enumerate() {
        entry(slot, top(h) + 1 + i).store(p as u64, Relaxed);
    }
    // A fork may copy this state at any moment: the one store makes it whole.
    head(slot, bucket).store(h + n as u64, Release);
    n
}

fn pop_from(slot: usize, bucket: usize, out: &mut [usize]) -> usize {
    let h = head(slot, bucket).load(Relaxed);
    let n = (top(h) - begin(bucket)).min(out.len());
    for (i, p) in out[..n].iter_mut().enumerate() {
        *p = entry(slot, top(h) - i).load(Relaxed) as usize;
    }
    head(slot, bucket).store(h - n as u64, Release);
    n
}

fn set_end(slot: usize, bucket: usize, to: usize) -> bool {
    if by_rseq() {
        // SAFETY: rseq is there, and the sequence checks that the slot is still ours.
        return unsafe { seq_set_end(bucket, slot, to) };
    }
    let h = head(slot, bucket).load(Relaxed);
    let ok = top(h) <= to;
    if ok {
        head(slot, bucket).store(top(h) as u64 | (to as u64) << 32, Relaxed);
    }
    ok
}

/// The first room that a bucket gets in a slot.
pub const FIRST_ROOM: usize = 8;

/// Mean gaps between misses, in ticks of the time stamp counter. Below the first (some 4 microseconds) they cost
/// a CPU a few percent of its time, and longer stacks are worth their memory; above the second they cost
/// next to nothing, and shorter ones would do.
const DEAR_GAP: u64 = 12 << 10;
const CHEAP_GAP: u64 = 4 * DEAR_GAP;

/// Notes a miss; the mean gap between them by now.
fn miss_gap(slot: usize) -> u64 {
    let now = os::clock();
    let (missed, gap) = (entry(slot, MISSED), entry(slot, GAP));
    let this = now.wrapping_sub(missed.load(Relaxed)).min(2 * CHEAP_GAP);
    let mean = gap.load(Relaxed) * 15 / 16 + this / 16;
    missed.store(now, Relaxed);
    gap.store(mean, Relaxed);
    mean
}

/// Gives a bucket of the current slot a longer stack where that pays, at the cost of buckets that do not
/// use theirs if the slot's bound demands it. Says how long the stack may be now (0: no slot at hand).
pub fn widen(bucket: usize) -> usize {
    if by_rseq() {
        return current().map_or(0, |slot| widen_in(slot, bucket));
    }
    claimed(|slot| widen_in(slot, bucket)).unwrap_or(0)
}

fn widen_in(slot: usize, bucket: usize) -> usize {
    let it = &BUCKETS[bucket];
    let (size, room) = (it.size as usize, it.room as usize);
    let have = end(head(slot, bucket).load(Relaxed)).saturating_sub(begin(bucket));
    let gap = miss_gap(slot);
    if gap > CHEAP_GAP {
        narrow_others(slot, bucket);
    }
    if have >= room || (have >= FIRST_ROOM && gap > DEAR_GAP) {
        return have;
    }
    let want = (have * 2).clamp(FIRST_ROOM.min(room), room);
    let held = entry(slot, ROOM_BYTES);
    let (cost, bound) = (((want - have) * size) as u64, options::SLOT_BYTES.get() as u64);
    // Racing threads may exceed the bound by what they are about to add; it is a bound on caching.
    if held.load(Relaxed) + cost > bound {
        narrow_others(slot, bucket);
        if held.load(Relaxed) + cost > bound {
            return have;
        }
    }
    if !set_end(slot, bucket, begin(bucket) + want) {
        return have;
    }
    held.fetch_add(cost, Relaxed);
    want
}

/// Takes unused room from one of the next few buckets, going round.
fn narrow_others(slot: usize, bucket: usize) {
    let hand = entry(slot, HAND);
    let from = hand.load(Relaxed) as usize;
    hand.store(from as u64 + 8, Relaxed);
    for victim in (from..from + 8).map(|k| 1 + k % (COUNT - 1)) {
        let h = head(slot, victim).load(Relaxed);
        let keep = top(h).max(begin(victim) + end(h).saturating_sub(begin(victim)) / 2);
        if victim != bucket && keep < end(h) && set_end(slot, victim, keep) {
            let bytes = (end(h) - keep) * BUCKETS[victim].size as usize;
            // A drain may have set it to 0 meanwhile.
            let less = |room: u64| Some(room.saturating_sub(bytes as u64));
            let _ = entry(slot, ROOM_BYTES).fetch_update(Relaxed, Relaxed, less);
            return;
        }
    }
}

// ---- upkeep ---------------------------------------------------------------------------------------

pub fn made() -> usize {
    MADE.load(Acquire) as usize
}

/// Blocks of a bucket in the slot of `cid`, and the longest its stack may get.
pub fn census(cid: usize, bucket: usize) -> (usize, usize) {
    let h = head(slot_at(cid), bucket).load(Relaxed);
    (top(h).saturating_sub(begin(bucket)), end(h).saturating_sub(begin(bucket)))
}

/// Bytes that the stacks of a slot may hold as they are now.
pub fn room_bytes(cid: usize) -> usize {
    entry(slot_at(cid), ROOM_BYTES).load(Relaxed) as usize
}

/// A number that changes when the slot does, and whether there is anything in it.
pub fn fingerprint(cid: usize) -> (u64, bool) {
    let (mut print, mut held) = (0u64, false);
    for b in 1..COUNT {
        let h = head(slot_at(cid), b).load(Relaxed);
        held |= top(h) != begin(b);
        print = (print ^ h).wrapping_mul(0x100_0000_01b3);
    }
    (print, held)
}

/// Empties the slots that `which` names: each of them is stopped first, so that nobody changes it,
/// and nobody waits: who comes meanwhile goes past it. Blocks go to `sink`, a bucket at a time.
pub fn drain(which: impl Fn(usize) -> bool, mut sink: impl FnMut(usize, &[usize])) -> bool {
    if !by_rseq() {
        for cid in (0..made()).filter(|&c| which(c)) {
            let claim = entry(slot_at(cid), CLAIM);
            if claim.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
                empty(slot_at(cid), &mut sink);
                claim.store(0, Release);
            }
        }
        return true;
    }
    let n = made();
    for cid in (0..n).filter(|&c| which(c)) {
        TABLE[cid].store(stopped(), SeqCst);
    }
    let alone = os::abort_sequences();
    for cid in (0..n).filter(|&c| which(c)) {
        if alone {
            empty(slot_at(cid), &mut sink);
        }
        TABLE[cid].store(slot_at(cid), Release);
    }
    alone
}

fn empty(slot: usize, sink: &mut impl FnMut(usize, &[usize])) {
    let mut blocks = [0usize; crate::bucket::BATCH];
    for b in 1..COUNT {
        loop {
            let n = pop_from(slot, b, &mut blocks);
            if n == 0 {
                break;
            }
            sink(b, &blocks[..n]);
        }
        head(slot, b).store(empty_head(b), Relaxed);
    }
    entry(slot, ROOM_BYTES).store(0, Relaxed);
}

/// In a fork's child: slots that a thread of the parent had stopped or claimed are free again.
pub fn after_fork() {
    for cid in 0..made() {
        entry(slot_at(cid), CLAIM).store(0, Relaxed);
        TABLE[cid].store(slot_at(cid), Release);
    }
    VFORKED.store(0, Relaxed);
    if by_rseq() {
        HOT.cids.store(CIDS.load(Relaxed), Release);
    }
}

/// Before vfork: its child runs in this memory without a registration, with the `mm_cid` that its
/// parent had. While it does, everybody goes past the slots.
pub fn vfork_begins() {
    let _gate = estate::Gate::enter();
    VFORKED.fetch_add(1, AcqRel);
    HOT.cids.store(0, SeqCst);
}

pub fn vfork_ended() {
    let _gate = estate::Gate::enter();
    if VFORKED.fetch_sub(1, AcqRel) == 1 && by_rseq() {
        HOT.cids.store(CIDS.load(Relaxed), SeqCst);
    }
}
