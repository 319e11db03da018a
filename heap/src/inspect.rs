//! Statistics: nothing is counted on the fast path, everything is added up when someone asks.
//!
//! Exact when the heap rests; while threads work, each figure is right for some moment of the walk.
//!
//! `blocks of a bucket = live + in slots + in the depot + free in their spans`

use crate::bucket::{BUCKETS, COUNT, UNIT};
use crate::estate;
use crate::options;
use crate::os::CALLS;
use crate::pages;
use crate::slot;
use crate::span;
use crate::stats;
use crate::text::Write;
use crate::{depot, upkeep};
use core::sync::atomic::Ordering::Relaxed;

#[derive(Clone, Copy)]
pub struct Line {
    /// Blocks: in the program's hands, in slots, in the depot, free in their spans.
    pub live: usize,
    pub slots: usize,
    pub depot: usize,
    pub free: usize,
    pub spans: usize,
}

/// The heap at a moment. Bytes, unless said otherwise.
pub struct Census {
    pub buckets: [Line; COUNT],
    /// Blocks beyond the buckets: how many, and their bytes.
    pub large: (usize, usize),
    pub mapped: usize,
    pub tables: usize,
    /// Pages by state: in spans and runs, free but still ours, with the kernel. Their sum is `mapped`.
    pub pages_live: usize,
    pub pages_free: usize,
    pub pages_returned: usize,
}

pub fn census() -> Census {
    let none = Line { live: 0, slots: 0, depot: 0, free: 0, spans: 0 };
    let mut c = Census {
        buckets: [none; COUNT],
        large: (0, 0),
        mapped: estate::mapped(),
        tables: estate::tables(),
        pages_live: 0,
        pages_free: 0,
        pages_returned: 0,
    };
    let mut returned_in_spans = 0;
    span::walk(|span, free, returned| {
        let bucket = span.bucket.load(Relaxed) as usize;
        if bucket == 0 {
            c.large.0 += 1;
            c.large.1 += span.size.load(Relaxed);
        } else {
            c.buckets[bucket].free += free;
            c.buckets[bucket].spans += 1;
        }
        returned_in_spans += returned;
    });
    for (b, line) in c.buckets.iter_mut().enumerate().skip(1) {
        line.slots = (0..slot::made()).map(|cid| slot::census(cid, b).0).sum();
        line.depot = depot::census(b);
        let all = line.spans * BUCKETS[b].blocks as usize;
        line.live = all.saturating_sub(line.free + line.slots + line.depot);
    }
    let (dirty, clean) = pages::census();
    c.pages_free = dirty * UNIT;
    c.pages_returned = clean * UNIT + returned_in_spans;
    c.pages_live = c.mapped.saturating_sub(c.pages_free + c.pages_returned);
    c
}

impl Census {
    /// Bytes of live blocks in buckets; those in slots and depot; those free in spans.
    pub fn totals(&self) -> (usize, usize, usize) {
        let sum = |f: fn(&Line) -> usize| self.buckets.iter().zip(&BUCKETS).map(|(l, b)| f(l) * b.size as usize).sum();
        (sum(|l| l.live), sum(|l| l.slots + l.depot), sum(|l| l.free))
    }
}

pub fn mode() -> &'static str {
    if slot::by_rseq() { "rseq" } else { "cas" }
}

/// `"name":number`, comma before it unless it is the first.
fn pair(out: &mut impl Write, first: bool, name: &str, n: usize) {
    out.add(if first { "\"" } else { ",\"" }).add(name).add("\":").number(n);
}

fn object(out: &mut impl Write, pairs: &[(&str, usize)]) {
    out.add("{");
    for (i, (name, n)) in pairs.iter().enumerate() {
        pair(out, i == 0, name, *n);
    }
    out.add("}");
}

/// Everything there is to say, as one JSON object. `docs/statistics.md` explains each name.
pub fn json(out: &mut impl Write) {
    let c = census();
    let (live, cached, free) = c.totals();
    out.add("{\"version\":\"").add(env!("CARGO_PKG_VERSION"));
    out.add("\",\"mode\":\"").add(mode()).add("\",\"upkeep\":\"").add(upkeep::state()).add("\",\"bytes\":");
    object(
        out,
        &[("mapped", c.mapped), ("tables", c.tables), ("live", live + c.large.1), ("cached", cached), ("free", free)],
    );
    out.add(",\"pages\":");
    object(
        out,
        &[
            ("live", c.pages_live),
            ("free", c.pages_free),
            ("returned", c.pages_returned),
            ("huge", pages::huge() * estate::CHUNK),
        ],
    );
    out.add(",\"buckets\":[");
    let mut first = true;
    for (b, line) in c.buckets.iter().enumerate().filter(|(_, l)| l.spans > 0) {
        let it = &BUCKETS[b];
        out.add(if first { "" } else { "," });
        first = false;
        let (size, blocks) = (it.size as usize, line.spans * it.blocks as usize);
        object(
            out,
            &[
                ("bucket", b),
                ("size", size),
                ("live", line.live),
                ("slots", line.slots),
                ("depot", line.depot),
                ("free", line.free),
                ("spans", line.spans),
                ("bytes", line.spans * it.span()),
                ("waste", line.spans * it.span() - blocks * size),
            ],
        );
    }
    out.add("],\"large\":");
    object(out, &[("blocks", c.large.0), ("bytes", c.large.1)]);
    out.add(",\"slots\":[");
    for cid in 0..slot::made() {
        let blocks = |f: fn(usize, usize) -> usize| (1..COUNT).map(|b| f(cid, b)).sum::<usize>();
        out.add(if cid == 0 { "" } else { "," });
        object(
            out,
            &[
                ("cid", cid),
                ("blocks", blocks(|cid, b| slot::census(cid, b).0)),
                ("bytes", blocks(|cid, b| slot::census(cid, b).0 * BUCKETS[b].size as usize)),
                ("room", slot::room_bytes(cid)),
                ("bound", options::SLOT_BYTES.get()),
            ],
        );
    }
    let n = |counter: &stats::Counter| counter.load(Relaxed) as usize;
    out.add("],\"calls\":");
    object(
        out,
        &[
            ("mmap", n(&CALLS.mmap)),
            ("munmap", n(&CALLS.munmap)),
            ("madvise", n(&CALLS.madvise)),
            ("membarrier", n(&CALLS.membarrier)),
            ("futex", n(&CALLS.futex)),
            ("other", n(&CALLS.other)),
        ],
    );
    pair(out, false, "waits", n(&stats::WAITS));
    pair(out, false, "refills", n(&stats::REFILLS));
    pair(out, false, "flushes", n(&stats::FLUSHES));
    pair(out, false, "drains", n(&stats::DRAINS));
    pair(out, false, "wrong_frees", n(&stats::WRONG));
    out.add(",\"purge\":");
    object(
        out,
        &[
            ("calls", n(&stats::PURGES)),
            ("bytes", n(&stats::PURGED)),
            ("ticks_ago", stats::tick().wrapping_sub(stats::PURGED_AT.load(Relaxed)) as usize),
        ],
    );
    out.add(",\"options\":{");
    for (i, option) in options::ALL.iter().enumerate() {
        pair(out, i == 0, option.name, option.get());
    }
    out.add("}}\n");
}

/// The same in glibc's malloc_info shape: one heap, its sizes, its totals.
pub fn xml(out: &mut impl Write) {
    let c = census();
    let (live, cached, free) = c.totals();
    out.add("<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (b, line) in c.buckets.iter().enumerate().filter(|(_, l)| l.spans > 0) {
        let (size, idle) = (BUCKETS[b].size as usize, line.slots + line.depot + line.free);
        out.add("  <size from=\"").number(if b == 1 { 1 } else { BUCKETS[b - 1].size as usize + 1 });
        out.add("\" to=\"").number(size).add("\" total=\"").number(idle * size);
        out.add("\" count=\"").number(idle).add("\"/>\n");
    }
    out.add("</sizes>\n</heap>\n");
    let mut line = |tag: &str, kind: &str, count: Option<usize>, size: usize| {
        out.add("<").add(tag).add(" type=\"").add(kind);
        if let Some(n) = count {
            out.add("\" count=\"").number(n);
        }
        out.add("\" size=\"").number(size).add("\"/>\n");
    };
    line("total", "fast", Some(c.buckets.iter().map(|l| l.slots + l.depot).sum()), cached);
    line("total", "rest", Some(c.buckets.iter().map(|l| l.free).sum()), free);
    line("total", "mmap", Some(c.large.0), c.large.1);
    line("system", "current", None, c.pages_live + c.pages_free);
    line("system", "max", None, c.mapped);
    line("aspace", "total", None, c.mapped);
    line("aspace", "mprotect", None, c.mapped);
    line("aspace", "live", None, live + c.large.1);
    out.add("</malloc>\n");
}

/// A page for a person.
pub fn text(out: &mut impl Write) {
    let c = census();
    let (live, cached, free) = c.totals();
    out.add("evenkeel ").add(env!("CARGO_PKG_VERSION")).add(", slots by ").add(mode());
    out.add(", upkeep ").add(upkeep::state()).add("\n");
    let mut row = |name: &str, bytes: usize| {
        out.add(name).number(bytes >> 10).add(" KiB\n");
    };
    row("mapped            ", c.mapped);
    row("  pages in use    ", c.pages_live);
    row("  pages free      ", c.pages_free);
    row("  pages returned  ", c.pages_returned);
    row("tables, mapped    ", c.tables);
    row("blocks live       ", live + c.large.1);
    row("  of them large   ", c.large.1);
    row("blocks cached     ", cached);
    row("blocks free       ", free);
    out.add("bucket    size      live     slots     depot      free     spans\n");
    for (b, line) in c.buckets.iter().enumerate().filter(|(_, l)| l.spans > 0) {
        column(out, 6, b);
        column(out, 8, BUCKETS[b].size as usize);
        for n in [line.live, line.slots, line.depot, line.free, line.spans] {
            column(out, 10, n);
        }
        out.add("\n");
    }
}

fn column(out: &mut impl Write, width: usize, n: usize) {
    let digits = n.checked_ilog10().map_or(1, |d| d as usize + 1);
    (digits..width).for_each(|_| {
        out.add(" ");
    });
    out.number(n);
}
