//! What the fuzz targets do with an input, so that tests/corpus.rs does the same.

use super::shadow::{Shadow, anything_left, ops as decode};
use heap::bucket::{self, BUCKETS};
use heap::options::ALL;
use heap::text::Into;
use heap::{inspect, stats};
use serde_json::Value;
use std::sync::atomic::Ordering::Relaxed;

/// The operations against the shadow heap, and a clean heap at the end.
pub fn ops(data: &[u8]) {
    let mut shadow = Shadow::default();
    decode(data).for_each(|op| shadow.apply(op));
    shadow.check_census();
    shadow.close();
    assert_eq!(anything_left(), None);
}

/// The operations, and every figure of the statistics checked that somebody else knows as well.
pub fn json(data: &[u8]) {
    let mut shadow = Shadow::default();
    let before = stats::WRONG.load(Relaxed) as usize;
    decode(data).for_each(|op| shadow.apply(op));
    let text = statistics();
    let json: Value = serde_json::from_slice(&text).expect("the statistics are not JSON");
    let number =
        |path: &str| json.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path}")) as usize;

    let (mut counts, large_bytes) = shadow.counts();
    let large = std::mem::take(&mut counts[0]);
    assert_eq!((number("/large/blocks"), number("/large/bytes")), (large, large_bytes));
    let (mut live, mut cached, mut free) = (large_bytes, 0, 0);
    for line in json["buckets"].as_array().unwrap() {
        let n = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("no {name} in {line}")) as usize;
        let b = n("bucket");
        let it = &BUCKETS[b];
        assert_eq!((n("size"), n("live")), (bucket::size(b), std::mem::take(&mut counts[b])), "{line}");
        assert_eq!(n("live") + n("slots") + n("depot") + n("free"), n("spans") * it.blocks as usize, "{line}");
        assert_eq!(n("bytes"), n("spans") * it.span());
        assert_eq!(n("waste"), n("bytes") - n("spans") * (it.blocks * it.size) as usize);
        live += n("live") * n("size");
        cached += (n("slots") + n("depot")) * n("size");
        free += n("free") * n("size");
    }
    assert!(counts.iter().all(|n| *n == 0), "a bucket with live blocks is missing");
    assert_eq!((number("/bytes/live"), number("/bytes/cached"), number("/bytes/free")), (live, cached, free));
    assert_eq!(number("/pages/live") + number("/pages/free") + number("/pages/returned"), number("/bytes/mapped"));
    let slots = json["slots"].as_array().unwrap();
    let sum = |name: &str| slots.iter().map(|slot| slot[name].as_u64().unwrap() as usize).sum::<usize>();
    assert!(sum("bytes") <= cached && sum("bytes") <= sum("room"), "slots hold more than is cached, or than they may");
    assert_eq!(number("/wrong_frees"), before + shadow.wrong);
    for option in ALL {
        assert_eq!(number(&format!("/options/{}", option.name)), option.get());
    }
    assert_eq!(json["mode"], inspect::mode());
    shadow.close();
    assert_eq!(anything_left(), None);
}

/// The text of the statistics, and nothing written beyond the buffer when it is too small.
fn statistics() -> Vec<u8> {
    let mut whole = vec![0; 1 << 16];
    let mut out = Into::new(&mut whole);
    inspect::json(&mut out);
    let len = out.len;
    assert!(len < whole.len());
    whole.truncate(len);
    let mut part = vec![b'#'; len / 2];
    let mut out = Into::new(&mut part[..len / 3]);
    inspect::json(&mut out);
    assert!(out.len > len / 2 && part[..len / 3] == whole[..len / 3] && part[len / 3..].iter().all(|b| *b == b'#'));
    whole
}
