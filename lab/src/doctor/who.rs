//! Which process is meant: a PID, or a service by its name.

use super::facts::{Lacking, Process};
use super::reach::{Reach, plain};
use crate::wrong::wrong;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The PID that a person's word stands for.
pub fn find(word: &str) -> Result<u32> {
    if let Ok(pid) = word.parse::<u32>() {
        return if pid > 0 && Path::new(&format!("/proc/{pid}/status")).exists() {
            of_thread(pid)
        } else {
            Err(wrong(format!("there is no process {pid}; pidof mariadbd, or pgrep, names those that run")))
        };
    }
    if word.is_empty() || word.contains('/') || word.starts_with('-') {
        return Err(wrong(format!("{word:?} is neither a PID nor the name of a service")));
    }
    let unit = if word.contains('.') { word.to_string() } else { format!("{word}.service") };
    // As sd_booted(3) finds it.
    if Path::new("/run/systemd/system").is_dir() {
        return by_systemd(&unit);
    }
    in_group(&unit)?.ok_or_else(|| {
        wrong(format!(
            "no service {word}: systemd does not run here, and no process is in a control group {unit}; give the PID, as \
             pidof mariadbd says it"
        ))
    })
}

/// A thread's number stands for its process.
fn of_thread(pid: u32) -> Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let group = status.lines().find_map(|l| l.strip_prefix("Tgid:")?.trim().parse().ok()).unwrap_or(pid);
    if status.lines().any(|l| l.starts_with("State:") && l.contains('Z')) {
        return Err(wrong(format!("process {pid} has ended; only its parent still has to notice")));
    }
    Ok(group)
}

fn by_systemd(unit: &str) -> Result<u32> {
    let out = Command::new("systemctl").args(["show", "-p", "MainPID", "-p", "LoadState", unit]).output();
    let out = out.context("cannot ask systemctl; give the PID instead")?;
    main_pid(unit, &String::from_utf8_lossy(&out.stdout))
}

/// From lines as `MainPID=812`.
fn main_pid(unit: &str, text: &str) -> Result<u32> {
    let value = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
    match value("MainPID").and_then(|v| v.trim().parse::<u32>().ok()) {
        Some(pid) if pid > 0 => Ok(pid),
        _ if value("LoadState") == Some("not-found") => Err(wrong(format!(
            "systemd knows no {unit}; systemctl list-units --type=service names those that there are"
        ))),
        Some(_) => Err(wrong(format!("{unit} does not run; systemctl status {unit} says why"))),
        None => Err(wrong(format!("systemctl names no process of {unit}; give the PID"))),
    }
}

/// The oldest process of a unit's control group.
fn in_group(unit: &str) -> Result<Option<u32>> {
    let end = format!("/{unit}");
    let mut pids: Vec<u32> = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        if groups.lines().any(|l| l.ends_with(&end)) {
            pids.push(pid);
        }
    }
    let begun = |pid: &u32| procfs::process::Process::new(*pid as i32).and_then(|p| p.stat()).map(|s| s.starttime);
    Ok(pids.into_iter().min_by_key(|p| begun(p).unwrap_or(u64::MAX)))
}

/// What everyone may know of a process.
pub fn look(reach: &Reach, status: &str, lacking: &mut Vec<Lacking>) -> Result<Process> {
    let gone = || format!("process {} has ended", reach.pid);
    let seen = procfs::process::Process::new(reach.pid as i32).with_context(gone)?;
    let stat = seen.stat().with_context(gone)?;
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime: f64 = uptime.split(' ').next().and_then(|t| t.parse().ok()).unwrap_or(0.0);
    let (program, replaced) = match fs::read_link(reach.path("exe")) {
        Ok(path) => {
            let path = path.display().to_string();
            let plain = path.strip_suffix(" (deleted)");
            (Some(plain.unwrap_or(&path).to_string()), plain.is_some())
        }
        Err(e) => {
            lacking.push(Lacking { what: "its program".into(), why: plain(&e), remedy: reach.remedy() });
            (None, false)
        }
    };
    Ok(Process {
        pid: reach.pid,
        name: status.lines().find_map(|l| l.strip_prefix("Name:")).unwrap_or_default().trim().into(),
        program,
        replaced,
        user: reach.user(),
        age: (uptime - stat.starttime as f64 / procfs::ticks_per_second() as f64).max(0.0),
        threads: stat.num_threads.max(0) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let own = std::process::id();
        assert_eq!(find(&own.to_string()).unwrap(), own);
        for (word, said) in [
            ("0", "there is no process 0"),
            ("4194305", "no process 4194305"),
            ("a/b", "neither a PID"),
            ("", "neither a PID"),
            ("no-such-service-here", "no-such-service-here"),
        ] {
            let error = find(word).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert!(error.downcast_ref::<crate::wrong::Wrong>().is_some());
        }
    }

    #[test]
    fn what_systemctl_says() {
        assert_eq!(main_pid("x.service", "MainPID=812\nLoadState=loaded\n").unwrap(), 812);
        let said = |text: &str| main_pid("x.service", text).unwrap_err().to_string();
        assert!(said("MainPID=0\nLoadState=loaded\n").contains("does not run"));
        assert!(said("MainPID=0\nLoadState=not-found\n").contains("knows no x.service"));
        assert!(said("").contains("give the PID"));
    }
}
