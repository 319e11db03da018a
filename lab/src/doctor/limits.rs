//! The limits that a process lives under: files, threads, its group's memory and CPUs, its CPU mask, nodes, huge pages.

use super::facts::{Lacking, Limits};
use super::reach::{Reach, plain};
use crate::placement;
use std::fs;
use std::path::{Path, PathBuf};

pub fn look(reach: &Reach, status: &str, lacking: &mut Vec<Lacking>) -> Limits {
    let number = |name: &str| reach.text(name).ok()?.trim().parse::<i64>().ok();
    let of_process = reach.text("limits").unwrap_or_default();
    let group = groups(&reach.text("cgroup").unwrap_or_default(), Path::new("/sys/fs/cgroup"));
    let (files, sockets) = match fs::read_dir(reach.path("fd")) {
        Ok(entries) => {
            let targets: Vec<_> = entries.flatten().map(|e| fs::read_link(e.path())).collect();
            let socket = |t: &PathBuf| t.to_string_lossy().starts_with("socket:");
            (Some(targets.len() as f64), Some(targets.iter().flatten().filter(|t| socket(t)).count()))
        }
        Err(e) => {
            lacking.push(Lacking { what: "open files".into(), why: plain(&e), remedy: reach.remedy() });
            (None, None)
        }
    };
    let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    Limits {
        files,
        sockets,
        files_most: limit(&of_process, "Max open files"),
        tasks_most: limit(&of_process, "Max processes"),
        group_memory: group.memory,
        group_memory_most: group.memory_most,
        group_cpus: group.cpus,
        oom_score: number("oom_score"),
        oom_score_adjustment: number("oom_score_adj"),
        cpus: field("Cpus_allowed_list:").and_then(|l| placement::parse(l).ok()).unwrap_or_default(),
        cpus_here: count("/sys/devices/system/cpu/online").unwrap_or(0),
        nodes: count("/sys/devices/system/node/online").unwrap_or(1),
        huge_pages: fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok().and_then(|t| chosen(&t)),
        huge_pages_of_process: field("THP_enabled:").map(|v| v == "1"),
    }
}

fn count(path: &str) -> Option<usize> {
    Some(placement::parse(fs::read_to_string(path).ok()?.trim()).ok()?.len())
}

/// The soft limit of a line of `limits`; None if there is none.
fn limit(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|l| l.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// `always [madvise] never`
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_string())
}

#[derive(Debug, Default, PartialEq)]
struct Group {
    memory: Option<f64>,
    memory_most: Option<f64>,
    cpus: Option<f64>,
}

/// From the groups of a process, of either version: the tightest of those that hold it counts.
fn groups(text: &str, root: &Path) -> Group {
    let mut group = Group::default();
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<f64>().ok();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let has = |name: &str| controllers.split(',').any(|c| c == name);
        let two = controllers.is_empty();
        let base = if two { root.to_path_buf() } else { root.join(controllers) };
        // "unified": where both versions are in use.
        let base = if two && root.join("unified").is_dir() { root.join("unified") } else { base };
        for up in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = base.join(up);
            if two || has("memory") {
                let (used, most) = if two {
                    ("memory.current", "memory.max")
                } else {
                    ("memory.usage_in_bytes", "memory.limit_in_bytes")
                };
                // Version 1 writes "no limit" as a number near 2^63.
                let most = number(folder.join(most)).filter(|m| *m < 9e18);
                if let Some(most) = most
                    && group.memory_most.is_none_or(|m| most < m)
                {
                    (group.memory, group.memory_most) = (number(folder.join(used)), Some(most));
                }
            }
            let quota = if two {
                let text = fs::read_to_string(folder.join("cpu.max")).unwrap_or_default();
                let mut words = text.split_whitespace().filter_map(|w| w.parse::<f64>().ok());
                words.next().zip(words.next())
            } else if has("cpu") {
                number(folder.join("cpu.cfs_quota_us")).zip(number(folder.join("cpu.cfs_period_us")))
            } else {
                None
            };
            if let Some((quota, period)) = quota.filter(|(q, p)| *q > 0.0 && *p > 0.0) {
                group.cpus = Some(group.cpus.map_or(quota / period, |c: f64| c.min(quota / period)));
            }
        }
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_server() {
        let text = include_str!("recorded/limits");
        assert_eq!(limit(text, "Max open files"), Some(20_000.0));
        assert_eq!(limit(text, "Max cpu time"), None, "unlimited");
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("evenkeel-groups-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("system.slice/memory.max", "1000000\n");
        write("system.slice/memory.current", "900\n");
        write("system.slice/mariadb.service/memory.max", "max\n");
        write("system.slice/mariadb.service/memory.current", "800\n");
        write("system.slice/mariadb.service/cpu.max", "150000 100000\n");
        let found = groups("0::/system.slice/mariadb.service\n", &root);
        assert_eq!(found, Group { memory: Some(900.0), memory_most: Some(1e6), cpus: Some(1.5) });
        write("memory/a/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(groups("4:memory:/a\n1:cpu:/\n", &root), Group::default());
        write("memory/a/memory.limit_in_bytes", "5000\n");
        write("memory/a/memory.usage_in_bytes", "4000\n");
        let found = groups("4:memory:/a/b\n", &root);
        assert_eq!((found.memory, found.memory_most), (Some(4000.0), Some(5000.0)));
        fs::remove_dir_all(root).unwrap();
    }
}
