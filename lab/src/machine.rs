//! What this machine can and cannot measure, and why: said before anyone spends an hour on it.

use crate::heaps;
use crate::placement;
use serde::Serialize;
use std::fs;
use std::process::Command;
use std::time::Instant;

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub what: String,
    pub grade: Grade,
    pub means: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    Good,
    Note,
    Lacks,
}

impl Grade {
    pub fn word(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Note => "note",
            Grade::Lacks => "lacks",
        }
    }
}

pub fn findings() -> Vec<Finding> {
    let mut all = vec![cpus(), steadiness(), transparent_huge_pages(), governor(), memory(), files(), ports_of_perf()];
    all.extend(heaps_found());
    all.extend(programs());
    all
}

fn finding(what: &str, grade: Grade, means: impl Into<String>) -> Finding {
    Finding { what: what.into(), grade, means: means.into() }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_string())
}

fn cpus() -> Finding {
    let all = placement::allowed();
    let list = placement::write(&all);
    match placement::apart(&all, placement::kinds()) {
        None => finding(
            "CPUs",
            Grade::Note,
            format!(
                "{} ({list}). Server and client share them, so a server's throughput hardly tells heaps apart here; memory, CPU per \
                 transaction and the embedded target do. Cliffs of 8 and more CPUs do not show.",
                all.len()
            ),
        ),
        Some((server, client)) => finding(
            "CPUs",
            if all.len() >= 8 { Grade::Good } else { Grade::Note },
            format!(
                "{} ({list}); \"auto\" gives the server {} and the client {}{}",
                all.len(),
                placement::write(&server),
                placement::write(&client),
                if all.len() >= 8 { "." } else { ". Cliffs of 8 and more CPUs do not show." }
            ),
        ),
    }
}

/// How far a fixed computation varies from run to run: no measurement here can be steadier.
fn steadiness() -> Finding {
    let once = || {
        let begun = Instant::now();
        let mut rng = crate::rng::Rng::seeded(1);
        std::hint::black_box((0..3_000_000u32).fold(0u64, |s, _| s ^ rng.draw()));
        begun.elapsed().as_secs_f64()
    };
    let times: Vec<f64> = (0..15).map(|_| once()).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let sd = (times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / (times.len() - 1) as f64).sqrt();
    let cv = 100.0 * sd / mean;
    let virtual_machine = fs::read_to_string("/proc/cpuinfo").is_ok_and(|t| t.contains(" hypervisor"));
    let host = if virtual_machine {
        " This is a virtual machine: its host's other guests are part of every figure."
    } else {
        ""
    };
    finding(
        "steadiness",
        if cv < 2.0 { Grade::Good } else { Grade::Note },
        format!("a fixed computation varies by {cv:.1} % from run to run.{host}"),
    )
}

fn transparent_huge_pages() -> Finding {
    match read("/sys/kernel/mm/transparent_hugepage/enabled") {
        Some(text) if text.contains("[always]") => finding(
            "huge pages",
            Grade::Note,
            "always: heaps that keep sparse memory look larger here than with madvise.",
        ),
        Some(text) => finding("huge pages", Grade::Good, text),
        None => finding("huge pages", Grade::Note, "this kernel has none"),
    }
}

fn governor() -> Finding {
    match read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        Some(g) if g == "performance" => finding("governor", Grade::Good, g),
        Some(g) => finding(
            "governor",
            Grade::Note,
            format!("{g}: the clock follows the load; set performance before comparing."),
        ),
        None => finding(
            "governor",
            Grade::Note,
            "the clock is not ours to see; the host's speed is measured beside each trial.",
        ),
    }
}

fn memory() -> Finding {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|l| l.strip_prefix("MemAvailable:"))
        .and_then(|r| r.trim().split(' ').next()?.parse::<f64>().ok());
    let gib = kib.unwrap_or(0.0) / (1 << 20) as f64;
    let grade = if gib >= 6.0 { Grade::Good } else { Grade::Note };
    let few = if gib >= 6.0 { "" } else { " 4,096 clients need some 5." };
    finding("memory", grade, format!("{gib:.1} GiB to use.{few}"))
}

fn files() -> Finding {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let hard = text
        .lines()
        .find(|l| l.starts_with("Max open files"))
        .and_then(|l| l.split_whitespace().nth(4)?.parse::<u64>().ok())
        .unwrap_or(0);
    if hard >= 9000 {
        finding("open files", Grade::Good, format!("{hard}: 4,096 clients fit."))
    } else {
        finding(
            "open files",
            Grade::Note,
            format!("{hard}: at most about {} clients; raise it with ulimit -n.", hard / 2),
        )
    }
}

fn ports_of_perf() -> Finding {
    let counters = fs::read_dir("/sys/bus/event_source/devices")
        .is_ok_and(|d| d.flatten().any(|e| e.file_name().to_string_lossy().starts_with("cpu")));
    if counters {
        finding("hardware counters", Grade::Good, "instructions and cycles can be counted.")
    } else {
        finding("hardware counters", Grade::Note, "none (a virtual machine?): profiles sample by the clock.")
    }
}

fn heaps_found() -> Vec<Finding> {
    let found = heaps::find();
    let names: Vec<String> = found.iter().map(|h| format!("{} {}", h.name, h.version)).collect();
    let grade = if found.len() >= 4 { Grade::Good } else { Grade::Note };
    vec![finding("heaps", grade, names.join(", "))]
}

fn programs() -> Vec<Finding> {
    let wanted = [
        ("mariadbd", "mariadb-server-core", "the mariadb target"),
        ("sysbench", "sysbench", "its load"),
        ("perf", "linux-perf", "profiles"),
        ("mvn", "maven", "evenkeel fetch-server"),
    ];
    wanted
        .into_iter()
        .map(|(program, package, purpose)| {
            let paths = ["/usr/sbin", "/usr/bin", "/usr/local/bin"];
            match paths.iter().map(|p| format!("{p}/{program}")).find(|p| fs::metadata(p).is_ok()) {
                Some(path) => {
                    let out = Command::new(&path).arg("--version").output().ok();
                    let said = out.and_then(|o| String::from_utf8(o.stdout).ok()).unwrap_or_default();
                    let version = without_colours(said.lines().next().unwrap_or_default()).trim().to_string();
                    finding(program, Grade::Good, if version.is_empty() { path } else { version })
                }
                None => finding(program, Grade::Lacks, format!("not here, for {purpose}: apt-get install {package}")),
            }
        })
        .collect()
}

/// Some programs colour their version, whoever reads it.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go() {
        assert_eq!(without_colours("\u{1b}[1mApache Maven 3.8.7\u{1b}[m"), "Apache Maven 3.8.7");
        assert_eq!(without_colours("sysbench 1.0.20"), "sysbench 1.0.20");
    }

    #[test]
    fn every_finding_says_something() {
        let all = findings();
        assert!(all.len() >= 10);
        assert!(all.iter().all(|f| !f.what.is_empty() && !f.means.is_empty()), "{all:?}");
        assert!(all.iter().any(|f| f.what == "heaps" && f.means.contains("glibc")));
    }
}
