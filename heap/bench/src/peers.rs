//! Builds the newest peers as preload libraries, each from the C or C++ sources that a `-sys` crate vendors and in the
//! way its own project builds such a library: it exports malloc and the rest itself, and nothing of Rust is in it.
//! Cargo's own client obtains the sources, so whatever registry or mirror it is set up for is the one used.

use crate::heaps;
use crate::machine;
use crate::work;
use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Peer {
    name: &'static str,
    krate: &'static str,
    /// Pinned, so that two runs measure the same peers; raise it when a newer one is out.
    release: &'static str,
    /// Builds in `dir`, a copy of the crate's sources that may be written to, and says where the library is.
    build: fn(&Shop) -> Result<PathBuf, String>,
    /// The version of what the crate vendors, when it is not the crate's own.
    vendored: fn(&Path) -> Option<String>,
}

const PEERS: [Peer; 4] = [
    Peer {
        name: "jemalloc",
        krate: "tikv-jemalloc-sys",
        release: "0.7.1",
        build: build_jemalloc,
        vendored: jemalloc_version,
    },
    Peer {
        name: "mimalloc3",
        krate: "libmimalloc-sys",
        release: "0.1.49",
        build: build_mimalloc,
        vendored: |dir| {
            let header = fs::read_to_string(dir.join(MIMALLOC3).join("include/mimalloc.h")).ok()?;
            let line = header.lines().find_map(|l| l.strip_prefix("#define MI_MALLOC_VERSION"))?;
            let packed: u32 = line.split_whitespace().next()?.parse().ok()?;
            Some(unpacked(packed))
        },
    },
    Peer {
        name: "rpmalloc",
        krate: "rpmalloc-sys",
        release: "0.2.3",
        build: build_rpmalloc,
        vendored: |dir| {
            let log = fs::read_to_string(dir.join("rpmalloc/CHANGELOG")).ok()?;
            Some(log.lines().next()?.trim().to_string())
        },
    },
    Peer { name: "snmalloc", krate: "snmalloc-sys", release: "0.7.6", build: build_snmalloc, vendored: |_| None },
];

/// The crate's version is 0.7.1+5.3.1-0-g<commit>.
fn jemalloc_version(dir: &Path) -> Option<String> {
    let manifest = fs::read_to_string(dir.join("Cargo.toml")).ok()?;
    let version = manifest.lines().find_map(|l| l.strip_prefix("version = "))?;
    let upstream = version.trim_matches('"').split_once('+')?.1;
    Some(upstream.split('-').next()?.to_string())
}

const MIMALLOC3: &str = "c_src/mimalloc/v3";

/// mimalloc packs 3.3.2 as 30302, and in old releases 2.0.9 as 209.
fn unpacked(packed: u32) -> String {
    match packed {
        0..1000 => format!("{}.{}.{}", packed / 100, packed / 10 % 10, packed % 10),
        _ => format!("{}.{}.{}", packed / 10_000, packed / 100 % 100, packed % 100),
    }
}

fn home() -> PathBuf {
    machine::target().join("peers")
}

pub fn library(name: &str) -> PathBuf {
    home().join(format!("{name}.so"))
}

/// As it was noted when the library was built.
pub fn version(name: &str) -> String {
    fs::read_to_string(home().join(format!("{name}.version"))).map_or("unknown".into(), |text| text.trim().to_string())
}

/// Builds what is missing, then shows every heap that could be measured. A peer that cannot be built is a line of
/// the table, not an error.
pub fn build_all(again: bool) -> Result<(), String> {
    work::compile_all()?;
    for peer in &PEERS {
        if library(peer.name).exists() && !again {
            continue;
        }
        eprintln!("building {} from {} {}", peer.name, peer.krate, peer.release);
        if let Err(why) = build(peer) {
            eprintln!("  {} is left out: {why}", peer.name);
        }
    }
    println!("{:<13} {:<8} version", "heap", "");
    for candidate in heaps::peers() {
        match candidate.heap {
            Ok(heap) => println!("{:<13} {:<8} {}", heap.name, "bound", heap.version),
            Err(why) => println!("{:<13} {:<8} {why}", candidate.name, "absent"),
        }
    }
    Ok(())
}

fn build(peer: &Peer) -> Result<(), String> {
    let sources = fetch(peer)?;
    let dir = home().join("build").join(peer.name);
    let io = |why: std::io::Error| format!("{}: {why}", dir.display());
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(io)?;
    }
    copy_tree(&sources, &dir).map_err(io)?;
    let log = home().join("build").join(format!("{}.log", peer.name));
    let shop = Shop { dir: dir.clone(), log };
    File::create(&shop.log).map_err(|why| format!("{}: {why}", shop.log.display()))?;
    let built = (peer.build)(&shop)?;
    fs::copy(&built, library(peer.name)).map_err(|why| format!("{}: {why}", built.display()))?;
    let version = match (peer.vendored)(&sources) {
        Some(version) => format!("{version} ({} {})", peer.krate, peer.release),
        None => format!("{} ({})", peer.release, peer.krate),
    };
    fs::write(home().join(format!("{}.version", peer.name)), version).map_err(io)
}

/// A throw-away package that depends on the crate; `cargo vendor` then lays the crate's files beside it.
fn fetch(peer: &Peer) -> Result<PathBuf, String> {
    let package = home().join("src").join(peer.name);
    let sources = package.join("vendor").join(peer.krate);
    if sources.join("Cargo.toml").exists() {
        return Ok(sources);
    }
    let io = |why: std::io::Error| format!("{}: {why}", package.display());
    fs::create_dir_all(package.join("src")).map_err(io)?;
    fs::write(package.join("src/lib.rs"), "").map_err(io)?;
    let manifest = format!(
        "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies]\n{} = \"={}\"\n\n[workspace]\n",
        peer.krate, peer.release
    );
    fs::write(package.join("Cargo.toml"), manifest).map_err(io)?;
    let shop = Shop { dir: package.clone(), log: package.join("fetch.log") };
    File::create(&shop.log).map_err(io)?;
    shop.run("cargo", &["vendor", "--quiet", "vendor"])?;
    Ok(sources)
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_tree(&entry.path(), &target)?,
            false => {
                fs::copy(entry.path(), &target)?;
            }
        }
    }
    Ok(())
}

/// A folder to build in, and the log of what was said there.
struct Shop {
    dir: PathBuf,
    log: PathBuf,
}

impl Shop {
    fn run(&self, program: &str, args: &[&str]) -> Result<(), String> {
        let log = || File::options().append(true).open(&self.log).map(Stdio::from).unwrap_or(Stdio::null());
        let status = Command::new(program)
            .args(args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log())
            .stderr(log())
            .status()
            .map_err(|why| format!("{program}: {why}; try: apt-get install {}", package(program)))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("{program} failed; see {}", machine::shown(&self.log))),
        }
    }

    fn at(&self, path: &str) -> Shop {
        Shop { dir: self.dir.join(path), log: self.log.clone() }
    }
}

fn package(program: &str) -> &str {
    match program {
        "c++" => "g++",
        "cc" => "gcc libc6-dev",
        "sh" => "dash",
        other => other,
    }
}

/// jemalloc's own way: configure with its defaults, make the shared library.
fn build_jemalloc(shop: &Shop) -> Result<PathBuf, String> {
    let tree = shop.at("jemalloc");
    let generated = shop.dir.join("configure/configure");
    fs::copy(&generated, tree.dir.join("configure")).map_err(|why| format!("{}: {why}", generated.display()))?;
    // Said here because configure would ask git.
    let version = jemalloc_version(&shop.dir).unwrap_or("0.0.0".into());
    let version = format!("--with-version={version}-0-g0");
    tree.run("sh", &["configure", &version, "--disable-doc"])?;
    tree.run("make", &["-j2", "build_lib_shared"])?;
    Ok(tree.dir.join("lib/libjemalloc.so.2"))
}

/// mimalloc's own way: its CMakeLists with the defaults of a release build.
fn build_mimalloc(shop: &Shop) -> Result<PathBuf, String> {
    let tree = shop.at(MIMALLOC3);
    // The crate leaves out the folder of CMake helpers. For this target they only name the library and a file of
    // pkg-config.
    let folder = tree.dir.join("cmake");
    let write = |file: &str, text: &str| {
        fs::write(folder.join(file), text).map_err(|why| format!("{}: {why}", folder.display()))
    };
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    write("mimalloc-config.cmake", "")?;
    write(
        "JoinPaths.cmake",
        "function(join_paths out)\n  string(JOIN / joined ${ARGN})\n  \
         set(${out} ${joined} PARENT_SCOPE)\nendfunction()\n",
    )?;
    write(
        "mimalloc-config-version.cmake",
        "set(mi_version_major 3)\nset(mi_version_minor 0)\nset(mi_version_patch 0)\n\
         set(mi_version ${mi_version_major}.${mi_version_minor})\n",
    )?;
    tree.run(
        "cmake",
        &[
            "-B",
            "out",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DMI_OVERRIDE=ON",
            "-DMI_BUILD_STATIC=OFF",
            "-DMI_BUILD_OBJECT=OFF",
            "-DMI_BUILD_TESTS=OFF",
        ],
    )?;
    tree.run("cmake", &["--build", "out", "--target", "mimalloc"])?;
    Ok(tree.dir.join("out/libmimalloc.so.3.0"))
}

/// rpmalloc's own way for its preload library `rpmallocwrap`; its generator is Python and Ninja around this one call.
fn build_rpmalloc(shop: &Shop) -> Result<PathBuf, String> {
    let tree = shop.at("rpmalloc/rpmalloc");
    tree.run(
        "cc",
        &[
            "-std=c11",
            "-O3",
            "-DNDEBUG",
            "-DBUILD_RELEASE=1",
            "-D_GNU_SOURCE=1",
            "-DENABLE_PRELOAD=1",
            "-DENABLE_OVERRIDE=1",
            "-funroll-loops",
            "-fomit-frame-pointer",
            "-fstrict-aliasing",
            "-fno-stack-protector",
            "-fvisibility=hidden",
            "-fPIC",
            "-shared",
            "-pthread",
            "-o",
            "librpmallocwrap.so",
            "rpmalloc.c",
            "-ldl",
        ],
    )?;
    Ok(tree.dir.join("librpmallocwrap.so"))
}

/// snmalloc's own way: its CMakeLists, the target that is made for preloading.
fn build_snmalloc(shop: &Shop) -> Result<PathBuf, String> {
    let tree = shop.at("upstream");
    tree.run("cmake", &["-B", "out", "-DCMAKE_BUILD_TYPE=Release", "-DSNMALLOC_BUILD_TESTING=OFF"])?;
    tree.run("cmake", &["--build", "out", "--target", "snmallocshim"])?;
    Ok(tree.dir.join("out/libsnmallocshim.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendored_heap_has_its_recipe() {
        let names: Vec<_> = PEERS.iter().map(|p| p.name).collect();
        assert_eq!(names, heaps::VENDORED);
    }

    #[test]
    fn packed_versions() {
        assert_eq!(unpacked(30302), "3.3.2");
        assert_eq!(unpacked(209), "2.0.9");
    }
}
