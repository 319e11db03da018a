//! C++'s operators new and delete, in every form.
//!
//! new has malloc's fast path pasted in. When there is no memory it does what the standard says: calls
//! the new-handler until that helps, throws, or is none, and then throws bad_alloc. Both can unwind, so
//! this part is assembly with unwind tables, not Rust; libstdc++'s functions are weak, for in a C
//! program there are none, and nobody calls new.

use core::arch::global_asm;

extern "C" fn plain(size: usize) -> *mut u8 {
    heap::heap::malloc_slow(size, 0)
}

extern "C" fn aligned(size: usize, align: usize) -> *mut u8 {
    crate::aligned(align, size)
}

unsafe extern "C" {
    fn evenkeel_new_slow(size: usize, caller: usize) -> *mut u8;
    fn evenkeel_new_nothrow_slow(size: usize, caller: usize) -> *mut u8;
}

heap::define_malloc! {
    _Znwm => evenkeel_new_slow;
    _Znam => evenkeel_new_slow;
    _ZnwmRKSt9nothrow_t => evenkeel_new_nothrow_slow;
    _ZnamRKSt9nothrow_t => evenkeel_new_nothrow_slow;
}

heap::define_free! {
    _ZdlPv => heap::heap::free_slow;
    _ZdaPv => heap::heap::free_slow;
    _ZdlPvm => heap::heap::free_slow;
    _ZdaPvm => heap::heap::free_slow;
    _ZdlPvRKSt9nothrow_t => heap::heap::free_slow;
    _ZdaPvRKSt9nothrow_t => heap::heap::free_slow;
    _ZdlPvSt11align_val_t => heap::heap::free_slow;
    _ZdaPvSt11align_val_t => heap::heap::free_slow;
    _ZdlPvmSt11align_val_t => heap::heap::free_slow;
    _ZdaPvmSt11align_val_t => heap::heap::free_slow;
    _ZdlPvSt11align_val_tRKSt9nothrow_t => heap::heap::free_slow;
    _ZdaPvSt11align_val_tRKSt9nothrow_t => heap::heap::free_slow;
}

global_asm!(
    "
    .weak _ZSt15get_new_handlerv
    .weak _ZSt17__throw_bad_allocv
    .weak __cxa_begin_catch
    .weak __cxa_end_catch
    .weak __gxx_personality_v0

    .section .text.evenkeel_new, \"ax\", @progbits
    # rdi = size, rsi = caller: the size stays in rbx, the alignment (0 = none) in r12.
    .hidden evenkeel_new_slow
    .globl evenkeel_new_slow
    .type evenkeel_new_slow, @function
evenkeel_new_slow:
    .cfi_startproc
    push rbx
    .cfi_def_cfa_offset 16
    .cfi_offset rbx, -16
    push r12
    .cfi_def_cfa_offset 24
    .cfi_offset r12, -24
    sub rsp, 8
    .cfi_def_cfa_offset 32
    mov rbx, rdi
    xor r12d, r12d
    call {malloc_slow}
    jmp 3f
2:  mov rdi, rbx
    mov rsi, r12
    test r12, r12
    jnz 4f
    call {plain}
    jmp 3f
4:  call {aligned}
3:  test rax, rax
    jnz 6f
    mov rax, [rip + _ZSt15get_new_handlerv@GOTPCREL]
    test rax, rax
    jz 5f
    call rax
    test rax, rax
    jz 5f
    call rax
    jmp 2b
5:  mov rax, [rip + _ZSt17__throw_bad_allocv@GOTPCREL]
    test rax, rax
    jz 7f
    call rax
7:  call {abort}
6:  add rsp, 8
    .cfi_def_cfa_offset 24
    pop r12
    .cfi_def_cfa_offset 16
    pop rbx
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size evenkeel_new_slow, . - evenkeel_new_slow

    # The same for a given alignment, in rsi.
    .hidden evenkeel_new_aligned
    .globl evenkeel_new_aligned
    .type evenkeel_new_aligned, @function
evenkeel_new_aligned:
    .cfi_startproc
    push rbx
    .cfi_def_cfa_offset 16
    .cfi_offset rbx, -16
    push r12
    .cfi_def_cfa_offset 24
    .cfi_offset r12, -24
    sub rsp, 8
    .cfi_def_cfa_offset 32
    mov rbx, rdi
    mov r12, rsi
    jmp 2b
    .cfi_endproc
    .size evenkeel_new_aligned, . - evenkeel_new_aligned

    # nothrow: whatever the two above throw is caught here, and null returned.
    .hidden evenkeel_new_nothrow_slow
    .globl evenkeel_new_nothrow_slow
    .type evenkeel_new_nothrow_slow, @function
evenkeel_new_nothrow_slow:
    xor esi, esi
    .hidden evenkeel_new_nothrow
    .globl evenkeel_new_nothrow
    .type evenkeel_new_nothrow, @function
evenkeel_new_nothrow:
    .cfi_startproc
    .cfi_personality 0x9b, .Levenkeel_personality
    .cfi_lsda 0x1b, .Levenkeel_lsda
    push rbx
    .cfi_def_cfa_offset 16
    .cfi_offset rbx, -16
    test rsi, rsi
    jnz 3f
21: call evenkeel_new_slow
    jmp 4f
3:  call evenkeel_new_aligned
22:
4:  pop rbx
    .cfi_remember_state
    .cfi_def_cfa_offset 8
    ret
23: .cfi_restore_state
    mov rdi, rax
    call [rip + __cxa_begin_catch@GOTPCREL]
    call [rip + __cxa_end_catch@GOTPCREL]
    xor eax, eax
    jmp 4b
24: .cfi_endproc
    .size evenkeel_new_nothrow, . - evenkeel_new_nothrow

    # What the personality reads: one call site, one landing pad, one handler that takes everything.
    .section .gcc_except_table.evenkeel, \"a\", @progbits
    .balign 4
.Levenkeel_lsda: .byte 0xff
    .byte 0x03
    .uleb128 86f - 84f
84: .byte 0x01
    .uleb128 85f - 87f
87: .uleb128 21b - evenkeel_new_nothrow
    .uleb128 22b - 21b
    .uleb128 23b - evenkeel_new_nothrow
    .uleb128 1
85: .byte 1
    .byte 0
    .balign 4
    .long 0
86:
    .section .data.rel.ro.evenkeel, \"aw\", @progbits
    .balign 8
.Levenkeel_personality: .quad __gxx_personality_v0
    .text
    ",
    malloc_slow = sym heap::heap::malloc_slow,
    plain = sym plain,
    aligned = sym aligned,
    abort = sym heap::os::abort,
);

/// The aligned forms have no fast path; their names only lead to the code above.
macro_rules! aligned_new {
    ($($name:ident => $target:literal;)*) => { $(
        /// # Safety
        /// As the C++ standard has it.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(size: usize, align: usize) -> *mut u8 {
            core::arch::naked_asm!(concat!("jmp ", $target))
        }
    )* };
}

aligned_new! {
    _ZnwmSt11align_val_t => "evenkeel_new_aligned";
    _ZnamSt11align_val_t => "evenkeel_new_aligned";
    _ZnwmSt11align_val_tRKSt9nothrow_t => "evenkeel_new_nothrow";
    _ZnamSt11align_val_tRKSt9nothrow_t => "evenkeel_new_nothrow";
}
