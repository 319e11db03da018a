//! What the process has used so far, from the kernel.

use crate::Failure;
use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;
use std::ops::Sub;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    pub cpu_s: f64,
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
    pub minor_faults: i64,
    pub major_faults: i64,
}

impl Usage {
    pub fn now() -> Result<Usage, Failure> {
        let used = getrusage(UsageWho::RUSAGE_SELF).map_err(|e| Failure::run(format!("getrusage: {e}")))?;
        let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        Ok(Usage {
            cpu_s: seconds(used.user_time()) + seconds(used.system_time()),
            voluntary_switches: used.voluntary_context_switches(),
            involuntary_switches: used.involuntary_context_switches(),
            minor_faults: used.minor_page_faults(),
            major_faults: used.major_page_faults(),
        })
    }
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, before: Usage) -> Usage {
        Usage {
            cpu_s: self.cpu_s - before.cpu_s,
            voluntary_switches: self.voluntary_switches - before.voluntary_switches,
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
        }
    }
}

/// The highest resident size of the process so far, in bytes; `None` where /proc does not say.
pub fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
