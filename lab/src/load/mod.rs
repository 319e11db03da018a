//! Loads: programs that act as the clients of a server.

pub mod sysbench;

use std::path::PathBuf;

/// A program in PATH, or where Debian puts what only root runs.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|d| d.join(name))
        .find(|p| p.is_file())
}
