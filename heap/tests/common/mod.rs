//! What the tests of the whole heap share. A process has one heap, so each test has a process to itself.

#![allow(dead_code, unused_macros, unused_imports)]

pub mod face;
pub mod replay;
pub mod shadow;

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// Numbers that look random; the same ones for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize * n) >> 32
    }
}

/// Makes of a function two tests: slots changed by rseq, and by compare-and-swap. The text sets options.
macro_rules! in_both_modes {
    ($($test:ident: $options:literal;)*) => { $(
        mod $test {
            #[test]
            fn rseq() {
                crate::common::alone(concat!(stringify!($test), "::rseq"), concat!("RSEQ=1 ", $options), super::$test);
            }
            #[test]
            fn cas() {
                crate::common::alone(concat!(stringify!($test), "::cas"), concat!("RSEQ=0 ", $options), super::$test);
            }
        }
    )* };
}
pub(crate) use in_both_modes;

/// Before the first call: no upkeep, so that the statistics are exact at every moment.
pub fn calm() {
    // SAFETY: there is one thread yet.
    unsafe { std::env::set_var("EVENKEEL_UPKEEP", "0") };
}

/// Runs a test in a process of its own, which reads these options from its environment.
pub fn alone(name: &str, options: &str, test: fn()) {
    if std::env::var_os("HEAP_TEST").is_some() {
        face::free(face::malloc(1));
        match (options.contains("RSEQ=1"), heap::inspect::mode()) {
            (true, "cas") => println!("no rseq on this machine: ran without it"),
            (rseq, mode) => assert_eq!(mode, if rseq { "rseq" } else { "cas" }),
        }
        return test();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture"]).env("HEAP_TEST", "1");
    // Blocks that the upkeep has in its hands would count as live; a test that wants it asks for it.
    for option in ["UPKEEP=0"].into_iter().chain(options.split_whitespace()) {
        let (name, value) = option.split_once('=').unwrap();
        child.env(format!("EVENKEEL_{name}"), value);
    }
    let out = child.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    print!("{}", text(&out.stdout));
    assert!(out.status.success(), "{}: {}", out.status, text(&out.stderr));
}

/// What a call writes to stderr. For a program that has one thread at work.
pub fn stderr_of(call: impl FnOnce()) -> String {
    let mut text = String::new();
    // SAFETY: the descriptors are new and this function's own, but 2, which gets back what it was.
    unsafe {
        let (mut file, before) = (File::from_raw_fd(libc::memfd_create(c"stderr".as_ptr(), 0)), libc::dup(2));
        assert!(before >= 0 && libc::dup2(file.as_raw_fd(), 2) == 2);
        call();
        libc::dup2(before, 2);
        libc::close(before);
        file.rewind().and_then(|()| file.read_to_string(&mut text)).unwrap();
    }
    text
}

/// Waits until nothing is wrong: what the upkeep has in its hands comes down within moments.
pub fn settles(wrong: impl Fn() -> Option<String>) {
    let end = Instant::now() + Duration::from_secs(10);
    while let Some(why) = wrong() {
        assert!(Instant::now() < end, "{why}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
