//! Where things are, and what machine this is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The folder of this crate: the workloads' sources and the stored results are there.
pub fn bench_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn root() -> PathBuf {
    let mut dir = bench_dir();
    dir.pop();
    dir.pop();
    dir
}

pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => std::path::absolute(&dir).unwrap_or(dir.into()),
        None => root().join("target"),
    }
}

/// A path as a reader of the output wants it: from the repository's root.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Standard output of a command, trimmed; None when it cannot run or fails.
pub fn output_of(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
}

/// The first value of `key` in a file of "key: value" lines.
fn proc_value(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_string())
    })
}

/// A trial that holds more bytes than this would drive out whatever else runs here.
pub fn memory_to_spare() -> Option<u64> {
    let available = proc_value("/proc/meminfo", "MemAvailable")?;
    let kib: u64 = available.split(' ').next()?.parse().ok()?;
    Some(kib * 1024 / 10 * 7)
}

/// Bytes that a process holds; 0 when it is gone.
pub fn memory_of(process: u32) -> u64 {
    let read = || {
        let text = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
        text.split(' ').nth(1)?.parse::<u64>().ok()
    };
    read().unwrap_or(0) * 4096
}

/// "AMD EPYC, 2 CPUs", for titles.
pub fn name() -> String {
    let cpu = proc_value("/proc/cpuinfo", "model name").unwrap_or("unknown CPU".into());
    let n = cpus();
    format!("{cpu}, {n} CPU{}", if n == 1 { "" } else { "s" })
}

/// What a reader of the figures must know about the machine, as "key: value" lines.
pub fn facts() -> Vec<(String, String)> {
    let unknown = || "unknown".to_string();
    let commit = || {
        let dir = root();
        let dir = dir.to_str()?;
        output_of("git", &["-C", dir, "describe", "--always", "--dirty", "--abbrev=12"])
    };
    let first_line = |path| std::fs::read_to_string(path).ok().and_then(|t| t.lines().next().map(String::from));
    let memory = proc_value("/proc/meminfo", "MemTotal").unwrap_or_else(unknown);
    let facts = [
        ("date", date(now())),
        ("machine", name()),
        ("memory", memory),
        ("kernel", first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown)),
        ("libc", output_of("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_else(unknown)),
        ("transparent huge pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_else(unknown)),
        ("commit", commit().unwrap_or_else(unknown)),
        ("load before the run", first_line("/proc/loadavg").unwrap_or_else(unknown)),
    ];
    facts.map(|(key, value)| (key.into(), value)).into()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

pub fn today() -> String {
    date(now())
}

/// Seconds since 1970 as YYYY-MM-DD (UTC).
fn date(seconds: u64) -> String {
    // Counted from 1 March of the year 0, so that the leap day is the last one of a year.
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(951_868_800), "2000-03-01");
        assert_eq!(date(1_767_225_599), "2025-12-31");
    }
}
