//! Link flags of libevenkeel.so: it is never unloaded, since blocks, a thread and rseq descriptors
//! outlive a dlclose.
fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Its calloc calls its own malloc, whoever else defines one.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libevenkeel.so");
    println!("cargo:rerun-if-changed=build.rs");
}
