//! vfork, interposed. The child runs in its parent's memory, on its parent's thread area, without an
//! rseq registration of its own: what it reads as its CPU is its parent's last one. So everybody goes
//! past the slots until it has exec'd or exited; see `heap::slot::vfork_begins`.
//!
//! The function returns twice, the second time on a stack that the child has used. Its return address
//! therefore stays in a register across the call.

use heap::slot;

extern "C" fn begins() {
    slot::vfork_begins();
}

extern "C" fn ended(result: isize) -> i32 {
    slot::vfork_ended();
    if result < 0 {
        // SAFETY: errno is the thread's own.
        unsafe { *libc::__errno_location() = -result as i32 };
        return -1;
    }
    result as i32
}

/// # Safety
/// As vfork(2) has it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> i32 {
    core::arch::naked_asm!(
        "   sub rsp, 8
            call {begins}
            add rsp, 8
            pop rdx
            mov eax, {vfork}
            syscall
            push rdx
            test rax, rax
            jnz 2f
            ret
        2:  mov rdi, rax
            sub rsp, 8
            call {ended}
            add rsp, 8
            ret",
        begins = sym begins,
        ended = sym ended,
        vfork = const libc::SYS_vfork,
    )
}
