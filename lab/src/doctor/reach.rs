//! How far we can reach into another process: its files under /proc, its objects as it sees them, its memory. Nothing is ever written,
//! nothing is attached, nothing is stopped.

use super::areas::Area;
use nix::unistd::{Uid, User, geteuid};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

pub struct Reach {
    pub pid: u32,
    memory: Option<File>,
    /// Which pages are there.
    pages: Option<File>,
}

impl Reach {
    pub fn new(pid: u32) -> Reach {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).ok();
        Reach { pid, memory: open("mem"), pages: open("pagemap") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(name)
    }

    pub fn text(&self, name: &str) -> io::Result<String> {
        // Environments and command lines may hold anything.
        Ok(String::from_utf8_lossy(&fs::read(self.path(name))?).into_owned())
    }

    pub fn reads_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.memory.as_ref()?.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    pub fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_le_bytes)
    }

    /// Bytes in memory of the whole pages between two addresses.
    pub fn resident(&self, from: u64, to: u64) -> Option<u64> {
        let page = procfs::page_size();
        let (first, end) = (from.div_ceil(page), to / page);
        if first >= end {
            return Some(0);
        }
        let mut bytes = vec![0; 8 * (end - first) as usize];
        self.pages.as_ref()?.read_exact_at(&mut bytes, 8 * first).ok()?;
        // The highest bit of each word: it is present.
        Some(page * bytes.iter().skip(7).step_by(8).filter(|b| **b & 0x80 != 0).count() as u64)
    }

    /// The file that an area shows: the very one, also in a container, also where its name now belongs to another.
    pub fn file_of(&self, area: &Area) -> Option<Vec<u8>> {
        let seen = self.path("root").join(area.name.trim_start_matches('/'));
        for path in [seen, PathBuf::from(&area.name)] {
            if fs::metadata(&path).is_ok_and(|m| m.ino() == area.inode && m.is_file()) {
                return fs::read(path).ok();
            }
        }
        fs::read(self.path("map_files").join(format!("{:x}-{:x}", area.from, area.to))).ok()
    }

    /// The user that it runs as.
    pub fn user(&self) -> String {
        let Ok(uid) = fs::metadata(self.path("")).map(|m| m.uid()) else { return "unknown".into() };
        let status = self.text("status").unwrap_or_default();
        let real = status.lines().find_map(|l| l.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok());
        name_of(real.unwrap_or(uid))
    }

    /// What to do to see more of it.
    pub fn remedy(&self) -> String {
        if geteuid().is_root() {
            "it is kept even from root here (another user namespace, a security module, or a container without CAP_SYS_PTRACE)".into()
        } else {
            format!("run as root: sudo evenkeel doctor {}", self.pid)
        }
    }
}

/// What went wrong, without the number that only a kernel cares for.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

pub fn name_of(uid: u32) -> String {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map_or_else(|| uid.to_string(), |u| u.name)
}
