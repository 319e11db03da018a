//! The statistics: exact when asked for, and consistent with themselves; purge on demand.

use serde_json::Value;

use crate::harness::{Check, List, Mode, Program, Stop, ensure, fail};
use crate::interface::stats;

pub fn add(list: &mut List) {
    // Exact while the heap rests: a pass of upkeep may just then have blocks in its hands.
    list.both("statistics::exact", |mode| exact(mode).or_else(|_| exact(mode)).or_else(|_| exact(mode)));
    list.both("statistics::like_snprintf", |mode| stats("snprintf")?.under(mode).succeed().map(drop));
    list.both("statistics::purge", |mode| stats("purge")?.under(mode).succeed().map(drop));
    list.both("statistics::no_upkeep", |mode| {
        // Without the helper thread nothing goes back by itself, and everything still works.
        let program = Program::c("memory.c")?.args(["what=burst", "low=1000000"]).under(mode);
        program.env("EVENKEEL_UPKEEP", "0").succeed()?;
        stats("purge")?.under(mode).env("EVENKEEL_UPKEEP", "0").succeed().map(drop)
    });
}

fn number(value: &Value, path: &[&str]) -> Check<i64> {
    let mut at = value;
    for name in path {
        at = &at[name];
    }
    at.as_i64().map_or_else(|| fail(format!("no number {} in the statistics", path.join("."))), Ok)
}
fn rows<'a>(value: &'a Value, name: &str) -> Check<&'a [Value]> {
    value[name].as_array().map_or_else(|| fail(format!("no list {name} in the statistics")), |v| Ok(v.as_slice()))
}

/// What must hold in any one statistics.
fn consistent(s: &Value) -> Check {
    let sum = |list: &str, f: &dyn Fn(&Value) -> Check<i64>| -> Check<i64> {
        rows(s, list)?.iter().try_fold(0, |total, row| Ok(total + f(row)?))
    };
    let equal = |what: &str, a: i64, b: i64| ensure(a == b, || format!("{what}: {a} is not {b}"));
    let pages = number(s, &["pages", "live"])? + number(s, &["pages", "free"])? + number(s, &["pages", "returned"])?;
    equal("pages live + free + returned = bytes mapped", pages, number(s, &["bytes", "mapped"])?)?;
    for row in rows(s, "buckets")? {
        let n = |name: &str| number(row, &[name]);
        for name in ["live", "slots", "depot", "free", "spans", "waste"] {
            ensure(n(name)? >= 0, || format!("{name} below zero in {row}"))?;
        }
        let blocks = n("live")? + n("slots")? + n("depot")? + n("free")?;
        equal(&format!("blocks * size + waste = bytes in {row}"), blocks * n("size")? + n("waste")?, n("bytes")?)?;
    }
    let of = |name: &'static str| move |row: &Value| Ok(number(row, &["size"])? * number(row, &[name])?);
    let large = number(s, &["large", "bytes"])?;
    equal("bytes live", sum("buckets", &of("live"))? + large, number(s, &["bytes", "live"])?)?;
    let cached = sum("buckets", &of("slots"))? + sum("buckets", &of("depot"))?;
    equal("bytes cached", cached, number(s, &["bytes", "cached"])?)?;
    equal("bytes free", sum("buckets", &of("free"))?, number(s, &["bytes", "free"])?)?;
    let in_slots = sum("slots", &|row| number(row, &["blocks"]))?;
    equal("blocks in slots", in_slots, sum("buckets", &|row| number(row, &["slots"]))?)?;
    for row in rows(s, "slots")? {
        let n = |name: &str| number(row, &[name]);
        ensure(n("bytes")? <= n("bound")?, || format!("a slot holds more than its bound: {row}"))?;
    }
    for path in [&["waits"][..], &["calls", "madvise"], &["calls", "mmap"], &["purge", "calls"], &["purge", "bytes"]] {
        ensure(number(s, path)? >= 0, || path.join("."))?;
    }
    Ok(())
}

fn exact(mode: Mode) -> Check {
    let done = stats("live")?.under(mode).succeed()?;
    let parsed = |name: &str| -> Check<Value> {
        let text = done.out.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(" {")).unwrap_or_default();
        let value = serde_json::from_str(&format!("{{{text}"));
        let value: Value = value.map_err(|e| Stop::Fail(format!("statistics \"{name}\" are no JSON: {e}: {text}")))?;
        consistent(&value).map_err(|why| match why {
            Stop::Fail(why) => Stop::Fail(format!("statistics \"{name}\": {why}")),
            skip => skip,
        })?;
        Ok(value)
    };
    let before = parsed("before")?;
    if mode == Mode::Fallback {
        ensure(before["mode"] == "cas", || format!("mode {} is not \"cas\"", before["mode"]))?;
    }
    for when in ["all", "half", "after", "purged"] {
        let now = parsed(when)?;
        // (usable size, blocks) that the program says live; several request sizes may share a bucket.
        let mut expected = std::collections::BTreeMap::<i64, i64>::new();
        for line in done.out.lines() {
            if let ["expect", w, size, count] = line.split(' ').collect::<Vec<_>>()[..]
                && w == when
            {
                *expected.entry(size.parse().unwrap_or(-1)).or_default() += count.parse::<i64>().unwrap_or(-1);
            }
        }
        ensure(expected.is_empty() == (when == "after" || when == "purged"), || format!("expectations for {when}"))?;
        let mut different = Vec::new();
        let live = |s: &Value, size: i64| -> Check<i64> {
            rows(s, "buckets")?
                .iter()
                .filter(|row| row["size"] == size)
                .try_fold(0, |total, row| Ok(total + number(row, &["live"])?))
        };
        let mut sizes: Vec<i64> =
            rows(&now, "buckets")?.iter().chain(rows(&before, "buckets")?).filter_map(|r| r["size"].as_i64()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (mut large_blocks, mut large_bytes) = (0, 0);
        for (&size, &count) in &expected {
            if !sizes.contains(&size) {
                large_blocks += count;
                large_bytes += count * size;
            }
        }
        for &size in &sizes {
            let (got, wanted) = (live(&now, size)? - live(&before, size)?, expected.get(&size).copied().unwrap_or(0));
            if got != wanted {
                different.push(format!("blocks of {size}: {got} more live, not {wanted}"));
            }
        }
        for (name, wanted) in [("blocks", large_blocks), ("bytes", large_bytes)] {
            let got = number(&now, &["large", name])? - number(&before, &["large", name])?;
            if got != wanted {
                different.push(format!("large {name}: {got} more, not {wanted}"));
            }
        }
        ensure(different.is_empty(), || format!("statistics \"{when}\":\n{}", different.join("\n")))?;
    }
    Ok(())
}
