//! How much memory the kernel counts for a process, and what of it is of which kind.

use super::areas::field;
use super::facts::Memory;

/// From `status`, which everyone may read, and `smaps_rollup`, which needs the right to look into the process.
pub fn read(status: &str, rollup: Option<&str>) -> Option<Memory> {
    let of = |text: &str, name: &str| text.lines().find_map(|l| field(l, name)).map(|b| b as f64);
    let rolled = |name: &str| of(rollup?, name);
    let rss = rolled("Rss").or_else(|| of(status, "VmRSS"))?;
    Some(Memory {
        rss,
        // The kernel counts it by batches of pages, and may lag behind.
        peak: of(status, "VmHWM").map(|p| p.max(rss)),
        anonymous: rolled("Anonymous").or_else(|| of(status, "RssAnon"))?,
        swap: rolled("Swap").or_else(|| of(status, "VmSwap")).unwrap_or(0.0),
        pss: rolled("Pss"),
        lazy_free: rolled("LazyFree"),
        huge: rolled("AnonHugePages"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = include_str!("recorded/status");
    const ROLLUP: &str = include_str!("recorded/smaps_rollup");

    #[test]
    fn all_of_it_or_what_everyone_sees() {
        let all = read(STATUS, Some(ROLLUP)).unwrap();
        assert!(all.pss.unwrap() <= all.rss && all.anonymous < all.rss && all.peak.unwrap() > 0.0);
        assert_eq!((all.lazy_free, all.swap), (Some(0.0), 0.0));
        let some = read(STATUS, None).unwrap();
        assert_eq!((some.pss, some.lazy_free, some.huge), (None, None, None));
        assert!((some.anonymous - all.anonymous).abs() < 0.1 * all.anonymous, "{some:?}");
        assert_eq!(read("Name:\tkthreadd\n", None), None, "a thread of the kernel has no memory");
    }
}
