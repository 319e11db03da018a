//! The private data directory. It is ours when it holds our marker, which is locked while a process uses it; what a killed
//! process left is cleared by the next one. Dropping it removes all that was made.

use crate::Failure;
use nix::fcntl::{Flock, FlockArg};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

const MARKER: &str = "evenkeel-embedded.lock";
const DATABASE: &str = "database";
const KEPT: &str = "kept";
/// What the marker holds: whether the directory itself was made by us or was found empty.
const MADE: &str = "made\n";
const FOUND: &str = "found\n";

pub struct Directory {
    path: PathBuf,
    made: bool,
    _marker: Flock<fs::File>,
}

impl Directory {
    pub fn claim(path: &Path) -> Result<Directory, Failure> {
        let cannot = |what: &str, e: std::io::Error| Failure::Run(format!("{what} {}: {e}", path.display()));
        let new = match fs::create_dir(path) {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(Failure::Use(format!(
                    "cannot create {}: the directory above it does not exist; create that one first",
                    path.display()
                )));
            }
            Err(e) => return Err(cannot("cannot create", e)),
        };
        if !new {
            let mut entries = fs::read_dir(path).map_err(|e| cannot("cannot read", e))?;
            if entries.next().is_some() && !path.join(MARKER).is_file() {
                return Err(Failure::Use(format!(
                    "{} is not empty and was not made by evenkeel-embedded: name a directory that does not exist",
                    path.display()
                )));
            }
        }
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(MARKER))
            .map_err(|e| cannot("cannot write into", e))?;
        let mut marker = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, _)| {
            Failure::Use(format!("another evenkeel-embedded uses {}: name another directory", path.display()))
        })?;
        let mut left = String::new();
        marker.read_to_string(&mut left).map_err(|e| cannot("cannot read the marker in", e))?;
        if left.is_empty() {
            marker
                .write_all(if new { MADE } else { FOUND }.as_bytes())
                .map_err(|e| cannot("cannot write the marker in", e))?;
        }
        let claimed = Directory { path: path.to_owned(), made: new || left == MADE, _marker: marker };
        claimed.clear().map_err(|e| cannot("cannot clear what an earlier run left in", e))?;
        Ok(claimed)
    }

    /// Where the database lives; does not exist yet.
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Where a database is kept as it was loaded; does not exist yet.
    pub fn kept(&self) -> PathBuf {
        self.path.join(KEPT)
    }

    /// Makes the database a copy of `kept`. Nobody may have either open.
    pub fn restore(&self, kept: &Path) -> std::io::Result<()> {
        remove(&self.database())?;
        copy(kept, &self.database())
    }

    fn clear(&self) -> std::io::Result<()> {
        remove(&self.database())?;
        remove(&self.kept())
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Files and folders; TidesDB makes nothing else.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            // The kernel copies, and shares the blocks where the file system can.
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

impl Drop for Directory {
    fn drop(&mut self) {
        let removed = self
            .clear()
            .and_then(|()| fs::remove_file(self.path.join(MARKER)))
            .and_then(|()| if self.made { fs::remove_dir(&self.path) } else { Ok(()) });
        if let Err(e) = removed {
            eprintln!("evenkeel-embedded: could not remove all of {}: {e}", self.path.display());
        }
    }
}
