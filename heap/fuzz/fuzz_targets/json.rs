//! Any sequence of calls, and then the statistics: valid JSON, true to the block.
#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(
    init: common::calm(),
    |data: &[u8]| common::replay::json(data)
);

/// At its start the heap looks for where pthread_create lies, page by page, globals of this program among them.
#[unsafe(no_mangle)]
extern "C" fn __asan_default_options() -> *const std::ffi::c_char {
    c"report_globals=0".as_ptr()
}
