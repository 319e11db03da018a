//! Loaded databases that outlive the process, so that the next one with the same load copies what this one loaded. A database
//! is whole once its mark is there, which is written last; nobody changes it afterwards. Loading one holds its lock.

use crate::Failure;
use harness::inbox::Inbox;
use nix::fcntl::{Flock, FlockArg};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WHOLE: &str = "whole";
const DATABASE: &str = "database";
/// Between two attempts to get the lock of a process that loads.
const LOOK: Duration = Duration::from_millis(100);

/// A database under its lock; to be loaded if it is not whole.
pub struct Kept {
    path: PathBuf,
    pub whole: bool,
    _lock: Flock<fs::File>,
}

impl Kept {
    /// The database called `name` in `dir`, which is made. Waits while another process loads it; `None` if a signal came.
    pub fn claim(dir: &Path, name: &str, inbox: &mut Inbox) -> Result<Option<Kept>, Failure> {
        let cannot = |what: &str, e: std::io::Error| Failure::Run(format!("{what} {}: {e}", dir.display()));
        if let Err(e) = fs::create_dir(dir)
            && e.kind() != ErrorKind::AlreadyExists
        {
            return Err(cannot("cannot create", e));
        }
        let path = dir.join(name);
        let mut open = fs::OpenOptions::new();
        let open = open.write(true).create(true).truncate(false);
        let mut file = open.open(dir.join(format!("{name}.lock"))).map_err(|e| cannot("cannot write into", e))?;
        let lock = loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => break lock,
                Err((again, _)) => file = again,
            }
            if !inbox.wait(LOOK) {
                return Ok(None);
            }
        };
        let whole = path.join(WHOLE).is_file();
        if !whole {
            // What a process left that was ended while it loaded.
            match fs::remove_dir_all(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(cannot("cannot clear what was left in", e)),
                _ => {}
            }
            fs::create_dir(&path).map_err(|e| cannot("cannot write into", e))?;
        }
        Ok(Some(Kept { path, whole, _lock: lock }))
    }

    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The database is loaded and closed: others may copy it.
    pub fn seal(self) -> Result<(), Failure> {
        fs::write(self.path.join(WHOLE), "")
            .map_err(|e| Failure::Run(format!("cannot write into {}: {e}", self.path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_whole_once_it_is_sealed() {
        let dir = std::env::temp_dir().join(format!("evenkeel-keep-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let mut inbox = Inbox::open().unwrap();
        let mut claim = |name| Kept::claim(&dir, name, &mut inbox).unwrap().expect("no signal came");
        let first = claim("a");
        assert!(!first.whole);
        fs::create_dir(first.database()).unwrap();
        drop(first);
        // Left half done: cleared.
        let again = claim("a");
        assert!(!again.whole && !again.database().exists());
        fs::create_dir(again.database()).unwrap();
        again.seal().unwrap();
        let last = claim("a");
        assert!(last.whole && last.database().is_dir());
        assert!(!claim("b").whole);
        fs::remove_dir_all(&dir).unwrap();
    }
}
