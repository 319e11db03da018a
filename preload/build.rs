//! Link flags of libevenkeel.so: it is never unloaded, since blocks, a thread and rseq descriptors
//! outlive a dlclose.
fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libevenkeel.so");
    println!("cargo:rerun-if-changed=build.rs");
}
