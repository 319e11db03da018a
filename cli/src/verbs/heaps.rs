//! `evenkeel heaps`: the heaps of this machine.

use crate::{Ended, screen};
use anyhow::Result;
use lab::heaps;

/// List the heaps found on this machine: version, path, and how each was recognised
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  evenkeel heaps\n  evenkeel heaps --json")]
pub struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<Ended> {
    let found = heaps::find();
    if args.json {
        let list: Vec<_> = found
            .iter()
            .map(|h| {
                serde_json::json!({
                    "name": h.name, "kind": h.kind.name(), "version": h.version, "path": h.path, "how": h.how,
                })
            })
            .collect();
        screen::say(&(serde_json::to_string_pretty(&list)? + "\n"))?;
        return Ok(Ended::Fine);
    }
    let wide = |f: fn(&heaps::Heap) -> usize| found.iter().map(f).max().unwrap_or(0);
    let (name, version) = (wide(|h| h.name.len()), wide(|h| h.version.len()));
    let mut lines = String::new();
    for heap in &found {
        let path = heap.path.as_ref().map_or_else(|| "-".to_string(), |p| p.display().to_string());
        lines += &format!("{:name$}  {:version$}  {path}  ({})\n", heap.name, heap.version, heap.how);
    }
    screen::say(&lines)?;
    let missing: Vec<&str> =
        [("jemalloc", "libjemalloc2"), ("tcmalloc", "libtcmalloc-minimal4"), ("mimalloc", "libmimalloc2.0")]
            .into_iter()
            .filter(|(kind, _)| !found.iter().any(|h| h.kind.name() == *kind))
            .map(|(_, package)| package)
            .collect();
    if !missing.is_empty() {
        screen::note(&format!("not here: apt-get install {}", missing.join(" ")));
    }
    Ok(Ended::Fine)
}
