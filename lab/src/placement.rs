//! Placement: which CPUs this machine has, and which of them the server and the load get.

use crate::wrong::wrong;
use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::process::{Child, Command};

/// A list of CPUs as the kernel writes it: `0-3,8`.
pub fn parse(list: &str) -> Result<Vec<usize>> {
    let bad = || wrong(format!("{list:?} is no list of CPUs; write it as 0-3,8"));
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) =
            (low.trim().parse().map_err(|_| bad())?, high.trim().parse().map_err(|_| bad())?);
        if low > high || high >= CpuSet::count() {
            return Err(bad());
        }
        cpus.extend(low..=high);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The inverse of `parse`.
pub fn write(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, high)) if *high + 1 == cpu => *high = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |(low, high): &(usize, usize)| if low == high { format!("{low}") } else { format!("{low}-{high}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// The CPUs that this process may run on.
pub fn allowed() -> Vec<usize> {
    sched_getaffinity(Pid::from_raw(0))
        .map(|set| (0..CpuSet::count()).filter(|&c| set.is_set(c).unwrap_or(false)).collect())
        .unwrap_or_default()
}

/// The mask of a process, as the kernel has it.
pub fn mask_of(pid: u32) -> Option<Vec<usize>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse(text.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?.trim()).ok()
}

/// Performance and efficiency cores, on machines that have both.
pub fn kinds() -> Option<(Vec<usize>, Vec<usize>)> {
    let read = |kind: &str| {
        let text = fs::read_to_string(format!("/sys/devices/{kind}/cpus")).ok()?;
        parse(text.trim()).ok()
    };
    Some((read("cpu_core")?, read("cpu_atom")?))
}

/// Server and client apart: on a machine with two kinds of cores each gets one kind, else the client gets a quarter. None on
/// fewer than four CPUs, where they have to share.
pub fn apart(cpus: &[usize], kinds: Option<(Vec<usize>, Vec<usize>)>) -> Option<(Vec<usize>, Vec<usize>)> {
    let only = |wanted: &[usize]| wanted.iter().copied().filter(|c| cpus.contains(c)).collect::<Vec<_>>();
    if let Some((fast, slow)) = kinds {
        let (fast, slow) = (only(&fast), only(&slow));
        if fast.len() >= 2 && slow.len() >= 2 {
            return Some((fast, slow));
        }
    }
    let client = cpus.len() / 4;
    (client > 0).then(|| (cpus[..cpus.len() - client].to_vec(), cpus[cpus.len() - client..].to_vec()))
}

/// The CPUs of both sides of a trial; None: all that there are.
pub struct Sides {
    pub server: Option<Vec<usize>>,
    pub client: Option<Vec<usize>>,
}

/// What an experiment's words mean here: a list of CPUs, or `auto`. `varied` is the factor's word for the server, which goes before;
/// a plain number there is a count, the first so many.
pub fn sides(server: Option<&str>, client: Option<&str>, varied: &str) -> Result<Sides> {
    let all = allowed();
    let list = |wish: Option<&str>, of_server: bool| match wish {
        None => Ok(None),
        Some("auto") => Ok(apart(&all, kinds()).map(|(s, c)| if of_server { s } else { c })),
        Some(list) => parse(list).map(Some),
    };
    let server = match varied.parse::<usize>() {
        Ok(count) if count > all.len() => {
            return Err(wrong(format!("{count} CPUs for the server: this process may use {}", all.len())));
        }
        Ok(count) => Some(all.iter().copied().take(count).collect()),
        Err(_) if varied.is_empty() => list(server, true)?,
        Err(_) => Some(parse(varied)?),
    };
    let client = match (&server, client) {
        // What the factor leaves to the client.
        (Some(server), Some("auto")) if !varied.is_empty() => {
            let rest: Vec<usize> = all.iter().copied().filter(|c| !server.contains(c)).collect();
            (!rest.is_empty()).then_some(rest)
        }
        _ => list(client, false)?,
    };
    Ok(Sides { server, client })
}

/// Starts a program with a CPU mask that is there before the program is, so that a heap which counts CPUs at its start counts
/// these: the mask is this thread's for that moment.
pub fn spawn(command: &mut Command, cpus: Option<&[usize]>) -> Result<Child> {
    let program = command.get_program().to_string_lossy().into_owned();
    let own = Pid::from_raw(0);
    let before = sched_getaffinity(own).context("cannot read the CPU mask")?;
    if let Some(cpus) = cpus {
        let mut set = CpuSet::new();
        for &cpu in cpus {
            set.set(cpu).with_context(|| format!("CPU {cpu}"))?;
        }
        sched_setaffinity(own, &set).with_context(|| {
            format!("cannot run on CPUs {}: this process may use {}", write(cpus), write(&allowed()))
        })?;
    }
    let child = command.spawn().with_context(|| format!("cannot start {program}"));
    sched_setaffinity(own, &before).context("cannot restore the CPU mask")?;
    child
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn lists() {
        assert_eq!(parse("0-3,8").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(write(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(parse("5, 1").unwrap(), [1, 5]);
        for bad in ["", "a", "3-1", "-", "0-99999"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn apart_or_not() {
        assert_eq!(apart(&[0, 1], None), None);
        assert_eq!(apart(&[0, 1, 2, 3], None), Some((vec![0, 1, 2], vec![3])));
        let kinds = Some((vec![0, 1], vec![2, 3, 4]));
        assert_eq!(apart(&[0, 1, 2, 3, 4], kinds.clone()), Some((vec![0, 1], vec![2, 3, 4])));
        assert_eq!(apart(&[0, 1, 2], kinds), None);
    }

    #[test]
    fn words_for_sides() {
        let all = allowed();
        let none = sides(None, None, "").unwrap();
        assert!(none.server.is_none() && none.client.is_none());
        assert_eq!(sides(Some("0"), Some("1"), "").unwrap().client, Some(vec![1]));
        assert_eq!(sides(Some("0"), None, "1").unwrap().server, Some(all[..1].to_vec()));
        assert_eq!(sides(None, None, "0-1").unwrap().server, Some(vec![0, 1]));
        assert!(sides(None, None, "100000").is_err());
        let rest = (all.len() > 1).then(|| all[1..].to_vec());
        assert_eq!(sides(None, Some("auto"), "1").unwrap().client, rest);
    }

    #[test]
    fn a_child_starts_under_its_mask_and_we_keep_ours() {
        let all = allowed();
        let last = *all.last().unwrap();
        let mut command = Command::new("cat");
        command.arg("/proc/self/status").stdout(Stdio::piped());
        let out = spawn(&mut command, Some(&[last])).unwrap().wait_with_output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{text}");
        assert_eq!(allowed(), all);
        assert_eq!(mask_of(std::process::id()), Some(all));
    }
}
