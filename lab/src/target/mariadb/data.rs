//! Data directories: made once for each answer to "which server, which configuration, which rows", kept in the sweep's store under a
//! hash of that, and copied for each life. Where the file system can share blocks a copy costs nothing.

use super::prefix::Prefix;
use crate::digest;
use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder for `key`; `make` fills it if it is not there. What was half made by one that was killed is thrown away.
pub fn kept(store: &Path, what: &str, key: &[String], make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let name = format!("{what}-{}", &digest::of_text(&key.join("\n"))[..16]);
    let folder = store.join(&name);
    if !folder.is_dir() {
        let part = store.join(format!("{name}.part"));
        if part.exists() {
            fs::remove_dir_all(&part).with_context(|| format!("cannot remove {}", part.display()))?;
        }
        fs::create_dir_all(store).with_context(|| format!("cannot make {}", store.display()))?;
        make(&part)?;
        fs::rename(&part, &folder).with_context(|| format!("cannot rename {}", part.display()))?;
    }
    Ok(folder)
}

/// An empty folder.
pub fn anew(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Copies a data directory to a place where nothing is.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::create_dir_all(to).with_context(failed)?;
    for entry in fs::read_dir(from).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type().with_context(failed)?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), target).with_context(failed)?;
        }
    }
    Ok(())
}

/// Makes the system's tables in `data`, with the wished configuration, since the page size and its like are fixed here. `beside` is for
/// files that are not needed afterwards.
pub fn install(prefix: &Prefix, wished: &str, beside: &Path, data: &Path) -> Result<()> {
    let file = beside.join("my.cnf");
    fs::write(&file, format!("[mysqld]\n{wished}")).with_context(|| format!("cannot write {}", file.display()))?;
    let defaults = format!("--defaults-file={}", file.display());
    let mut command = match &prefix.install {
        Some(script) => {
            let text = fs::read(script).with_context(|| format!("cannot read {}", script.display()))?;
            let knows = |option: &str| String::from_utf8_lossy(&text).contains(option);
            let mut command = Command::new(script);
            command.args([defaults, "--force".into()]);
            if knows("auth-root-authentication-method") {
                command.arg("--auth-root-authentication-method=normal");
            }
            command
        }
        None => {
            let mut command = Command::new(&prefix.server);
            command.args([defaults, "--initialize-insecure".into()]);
            command
        }
    };
    command.arg(format!("--basedir={}", prefix.root.display())).arg(format!("--datadir={}", data.display()));
    if geteuid().is_root() {
        command.arg("--user=root");
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().with_context(|| format!("cannot start {program}"))?;
    if !out.status.success() {
        let text = [out.stdout, out.stderr].concat();
        bail!("{program} ({}): {}", out.status, super::super::process::last_words(&String::from_utf8_lossy(&text)));
    }
    Ok(())
}
