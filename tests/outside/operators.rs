//! The C++ operators: tests/c/operators.cpp, part by part, linked to the shared libstdc++ and with libstdc++ inside
//! (then its own operators run, on top of this heap's malloc).

use crate::harness::{List, Program, compile};

const PARTS: [&str; 7] = [
    "forms",
    "alignment_of_types",
    "impossible_sizes",
    "handlers",
    "handler_frees_reserve",
    "exceptions",
    "containers",
];

pub fn add(list: &mut List) {
    for part in PARTS {
        list.both(&format!("operators::{part}"), move |mode| {
            Program::at(compile("operators.cpp", &[])?).args([part]).under(mode).succeed().map(drop)
        });
        list.both(&format!("operators::static_libstdcpp::{part}"), move |mode| {
            let path = compile("operators.cpp", &["-static-libstdc++", "-static-libgcc"])?;
            Program::at(path).args([part]).under(mode).succeed().map(drop)
        });
    }
    list.both("operators::aligned_overflow", |mode| {
        Program::at(compile("operators.cpp", &[])?).args(["aligned_overflow"]).under(mode).succeed().map(drop)
    });
}
