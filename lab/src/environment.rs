//! The environment: what a reader must know of the machine and the programs behind a sweep. Written once, before the first trial;
//! what cannot be read is null, never guessed.

use crate::heaps::Heap;
use crate::placement;
use crate::target::Program;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

pub fn of<'a>(programs: &[(Program, String)], heaps: impl Iterator<Item = &'a Heap>) -> Value {
    let programs: Vec<Value> = programs
        .iter()
        .map(|(p, hash)| json!({"what": p.what, "path": p.path, "version": version(p), "sha256": hash}))
        .collect();
    let heaps: Vec<Value> = heaps
        .map(|h| json!({"name": h.name, "kind": h.kind.name(), "version": h.version, "path": h.path, "how": h.how, "env": h.env}))
        .collect();
    json!({
        "lab": env!("CARGO_PKG_VERSION"),
        "machine": machine(),
        "heaps": heaps,
        "programs": programs,
    })
}

/// The machine alone.
pub fn machine() -> Value {
    let kinds = placement::kinds()
        .map(|(p, e)| json!({"performance": placement::write(&p), "efficiency": placement::write(&e)}));
    json!({
        "cpu": field("/proc/cpuinfo", "model name"),
        "cpus": placement::allowed().len(),
        "cpus_allowed": placement::write(&placement::allowed()),
        "core_kinds": kinds,
        "microcode": field("/proc/cpuinfo", "microcode"),
        "memory": field("/proc/meminfo", "MemTotal"),
        "swap": field("/proc/meminfo", "SwapTotal"),
        "numa_nodes": text("/sys/devices/system/node/online"),
        "kernel": text("/proc/sys/kernel/osrelease"),
        "kernel_build": text("/proc/sys/kernel/version"),
        "distribution": os_release(),
        "hypervisor": text("/sys/hypervisor/type").or_else(virtual_machine),
        "transparent_hugepages": text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "thp_defrag": text("/sys/kernel/mm/transparent_hugepage/defrag"),
        "governor": text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "boost": text("/sys/devices/system/cpu/cpufreq/boost"),
        "smt": text("/sys/devices/system/cpu/smt/active"),
        "overcommit": text("/proc/sys/vm/overcommit_memory"),
        "swappiness": text("/proc/sys/vm/swappiness"),
        "max_map_count": text("/proc/sys/vm/max_map_count"),
        "aslr": text("/proc/sys/kernel/randomize_va_space"),
        "mitigations": mitigations(),
        "command_line": text("/proc/cmdline"),
        "limits": limits(),
        "cgroup": text("/proc/self/cgroup"),
        "clocksource": text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    })
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_string())
}

/// The first line of a file that begins with `name`, after its colon.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, value) = text.lines().find(|l| l.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_string())
}

fn os_release() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME=")).map(|v| v.trim_matches('"').to_string())
}

fn virtual_machine() -> Option<String> {
    let flags = field("/proc/cpuinfo", "flags")?;
    flags.split(' ').any(|f| f == "hypervisor").then(|| "yes, of an unknown kind".to_string())
}

fn mitigations() -> Value {
    let mut found = serde_json::Map::new();
    for entry in fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Ok(text) = fs::read_to_string(entry.path()) {
            found.insert(name, text.trim().into());
        }
    }
    Value::Object(found)
}

/// Soft limits that servers run into.
fn limits() -> Value {
    let wanted = ["Max open files", "Max processes", "Max locked memory", "Max address space", "Max stack size"];
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let mut found = serde_json::Map::new();
    for name in wanted {
        if let Some(rest) = text.lines().find_map(|l| l.strip_prefix(name)) {
            found.insert(name.trim_start_matches("Max ").into(), rest.split_whitespace().next().into());
        }
    }
    Value::Object(found)
}

/// What a program says of itself; a heap has no such words.
fn version(program: &Program) -> Option<String> {
    if program.what.starts_with("heap ") {
        return None;
    }
    let out = Command::new(&program.path).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    said.lines().next().map(str::to_string).filter(|s| !s.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_face() {
        let machine = machine();
        for key in ["cpu", "kernel", "memory", "cpus_allowed"] {
            assert!(machine[key].as_str().is_some_and(|s| !s.is_empty()), "{key}");
        }
        assert!(machine["cpus"].as_u64().unwrap() >= 1);
        assert!(machine["limits"]["open files"].is_string());
    }

    #[test]
    fn programs_and_heaps_are_named() {
        let program = Program { what: "server".into(), path: "/bin/ls".into() };
        let heaps = [crate::heaps::glibc()];
        let seen = of(&[(program, "abc".into())], heaps.iter());
        assert_eq!(seen["programs"][0]["sha256"], "abc");
        assert!(seen["programs"][0]["version"].as_str().is_some_and(|v| v.contains("ls")));
        assert_eq!(seen["heaps"][0]["name"], "glibc");
    }
}
