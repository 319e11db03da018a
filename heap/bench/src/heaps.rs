//! The heaps that can be measured: the one of this repository, libraries named on the command line, and the peers.
//! A heap counts as present only when a probe process says that its malloc is the one bound.

use crate::args::Options;
use crate::machine;
use crate::trial;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Heap {
    pub name: String,
    /// None: what the C library brings.
    pub lib: Option<PathBuf>,
    pub env: Vec<(String, String)>,
    pub version: String,
}

/// A heap, or the reason why it cannot be measured.
pub struct Candidate {
    pub name: String,
    pub heap: Result<Heap, String>,
}

/// What a distribution brings: our name for it, its package, its file.
const PACKAGED: [(&str, &str, &str); 3] = [
    ("jemalloc-deb", "libjemalloc2", "libjemalloc.so.2"),
    ("gperftools", "libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    ("mimalloc2", "libmimalloc2.0", "libmimalloc.so.2"),
];

/// Built from the sources that a crate vendors; see `peers.rs`.
pub const VENDORED: [&str; 4] = ["jemalloc", "mimalloc3", "rpmalloc", "snmalloc"];

const LIBRARY_DIRS: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// With `--short`: those that are there after installing packages, with nothing to build.
pub const SHORT: [&str; 4] = ["glibc", "jemalloc-deb", "gperftools", "mimalloc2"];

/// Is this name one of the peers that ours is compared with?
pub fn is_peer(name: &str) -> bool {
    name == "glibc" || VENDORED.contains(&name) || PACKAGED.iter().any(|p| p.0 == name)
}

/// The heap that is there when none is preloaded.
pub fn plain() -> Heap {
    Heap { name: "glibc".into(), lib: None, env: vec![], version: String::new() }
}

/// All peers, proven or absent, in the order of the table.
pub fn peers() -> Vec<Candidate> {
    let mut found = vec![proven(Heap {
        version: machine::output_of("getconf", &["GNU_LIBC_VERSION"])
            .and_then(|v| v.rsplit(' ').next().map(String::from))
            .unwrap_or("unknown".into()),
        ..plain()
    })];
    for (name, package, file) in PACKAGED {
        let path = LIBRARY_DIRS.iter().map(|dir| Path::new(dir).join(file)).find(|p| p.exists());
        found.push(match path {
            Some(path) => proven(Heap {
                name: name.into(),
                lib: Some(path),
                env: vec![],
                version: machine::output_of("dpkg-query", &["-W", "-f", "${Version}", package])
                    .unwrap_or("unknown".into()),
            }),
            None => absent(name, format!("no {file}; try: apt-get install {package}")),
        });
    }
    for name in VENDORED {
        let path = crate::peers::library(name);
        found.push(if path.exists() {
            proven(Heap { name: name.into(), lib: Some(path), env: vec![], version: crate::peers::version(name) })
        } else {
            absent(name, "not built; try: cargo run -p bench --release -- peers".into())
        });
    }
    found
}

/// The heap of this repository, and those of `--lib`.
pub fn subjects(options: &Options) -> Vec<Candidate> {
    let mut found = vec![];
    let ours = machine::target().join("release/libevenkeel.so");
    if !options.libs.iter().any(|l| l.name == "evenkeel") {
        found.push(if ours.exists() {
            proven(Heap {
                name: "evenkeel".into(),
                lib: Some(ours),
                env: vec![],
                version: env!("CARGO_PKG_VERSION").into(),
            })
        } else {
            absent("evenkeel", "not built; try: cargo build --release".into())
        });
    }
    for lib in &options.libs {
        found.push(match lib.path.canonicalize() {
            Ok(path) => proven(Heap {
                name: lib.name.clone(),
                lib: Some(path),
                env: lib.env.clone(),
                version: "as given".into(),
            }),
            Err(why) => absent(&lib.name, format!("{}: {why}", lib.path.display())),
        });
    }
    found
}

fn absent(name: &str, why: String) -> Candidate {
    Candidate { name: name.into(), heap: Err(why) }
}

/// Starts a process under the heap and believes what that process says.
fn proven(heap: Heap) -> Candidate {
    let name = heap.name.clone();
    let heap = match probe(&heap) {
        Ok(()) => Ok(heap),
        Err(why) => Err(why),
    };
    Candidate { name, heap }
}

fn probe(heap: &Heap) -> Result<(), String> {
    let outcome = trial::execute(&crate::work::program("probe"), &[], heap, true, Duration::from_secs(10));
    if outcome.status != "ok" {
        return Err(format!("the probe under it ended with '{}' {}", outcome.status, outcome.complaint));
    }
    let Some(lib) = &heap.lib else { return Ok(()) };
    let wanted = lib.canonicalize().unwrap_or(lib.clone());
    for function in ["malloc", "free", "calloc", "realloc"] {
        let from = outcome.output.lines().find_map(|l| l.strip_prefix(function)?.strip_prefix(' ')).unwrap_or("?");
        if Path::new(from).canonicalize().ok().as_ref() != Some(&wanted) {
            return Err(format!("preloaded, but {function} comes from {from}"));
        }
    }
    Ok(())
}
