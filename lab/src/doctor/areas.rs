//! The areas of a process's memory, as `/proc/PID/maps` and `smaps` list them.

/// A stretch of address space.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Area {
    pub from: u64,
    pub to: u64,
    /// `rw-p`
    pub rights: String,
    pub offset: u64,
    pub inode: u64,
    /// A file's path, `[heap]`, or nothing.
    pub name: String,
    /// The file was replaced or removed.
    pub deleted: bool,
    /// Bytes in memory; 0 in `maps`, which does not tell.
    pub resident: u64,
}

impl Area {
    pub fn len(&self) -> u64 {
        self.to - self.from
    }

    pub fn holds(&self, address: u64) -> bool {
        (self.from..self.to).contains(&address)
    }

    pub fn is_file(&self) -> bool {
        self.inode != 0 && self.name.starts_with('/')
    }

    /// Memory of no file, and with no name of the kernel's.
    pub fn is_nameless(&self) -> bool {
        self.inode == 0 && self.name.is_empty()
    }

    pub fn may_write(&self) -> bool {
        self.rights.starts_with("rw")
    }

    pub fn is_reserved(&self) -> bool {
        self.rights.starts_with("---")
    }
}

/// Reads `maps` or `smaps`.
pub fn read(text: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for line in text.lines() {
        if let Some(area) = header(line) {
            areas.push(area);
        } else if let Some(area) = areas.last_mut()
            && let Some(kib) = field(line, "Rss")
        {
            area.resident = kib;
        }
    }
    areas
}

/// `7f84a8000000-7f84a8021000 rw-p 00000000 00:00 0   [heap]`
fn header(line: &str) -> Option<Area> {
    let mut words = line.splitn(6, ' ');
    let (from, to) = words.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (from, to) = (hex(from)?, hex(to)?);
    let rights = words.next()?.to_string();
    let offset = hex(words.next()?)?;
    let _device = words.next()?;
    let inode = words.next()?.parse().ok()?;
    let name = words.next().unwrap_or("").trim();
    let (name, deleted) = name.strip_suffix(" (deleted)").map_or((name, false), |n| (n, true));
    (from < to).then(|| Area { from, to, rights, offset, inode, name: name.into(), deleted, resident: 0 })
}

/// `Rss:                 100 kB`, in bytes.
pub fn field(line: &str, name: &str) -> Option<u64> {
    let rest = line.strip_prefix(name)?.strip_prefix(':')?;
    rest.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a real server.
    const SMAPS: &str = include_str!("recorded/smaps");

    #[test]
    fn areas_of_a_server() {
        let areas = read(SMAPS);
        assert!(areas.windows(2).all(|w| w[0].to <= w[1].from), "in order, apart");
        let heap = areas.iter().find(|a| a.name == "[heap]").unwrap();
        assert!(heap.may_write() && heap.resident > 0 && heap.resident <= heap.len());
        let program = areas.iter().find(|a| a.name == "/usr/sbin/mariadbd").unwrap();
        assert!(program.is_file() && !program.deleted && !program.is_nameless());
        let total: u64 = areas.iter().map(|a| a.resident).sum();
        let lines: u64 = SMAPS.lines().filter_map(|l| field(l, "Rss")).sum();
        assert_eq!(total, lines);
    }

    #[test]
    fn a_file_that_is_gone() {
        let areas = read("7f1c2a200000-7f1c2a2a1000 r-xp 00007000 fe:00 131 /opt/a b/libx.so.2 (deleted)\nRss: x\n");
        assert_eq!((areas[0].name.as_str(), areas[0].deleted, areas[0].offset), ("/opt/a b/libx.so.2", true, 0x7000));
        assert_eq!(read("no-thing at all\n\n"), []);
    }
}
