//! Sweeps that were run on a noisy machine of two shared cores, judged again: a heap that is bad on purpose is worse there too, and
//! glibc against itself raises no alarm. `recorded/` holds their records without series and proofs.

use lab::analysis::{Question, Verdict, analyse};
use lab::bundle;
use lab::record::Record;
use lab::selftest::{SEEDS, control_is_worse, false_alarms};
use std::path::Path;

fn recorded(name: &str) -> Vec<Record> {
    bundle::records(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)).unwrap()
}

fn question() -> Question {
    Question {
        title: String::new(),
        baseline: Some("glibc".into()),
        margin: None,
        twins: vec![("glibc".into(), "glibc (twin)".into())],
    }
}

#[test]
fn glibc_against_itself_raises_no_alarm_in_20_of_20_ways() {
    for name in ["selftest.jsonl", "try.jsonl"] {
        assert_eq!(false_alarms(&recorded(name), SEEDS), 0, "{name}");
    }
}

#[test]
fn glibc_and_its_twin_do_not_differ() {
    for name in ["selftest.jsonl", "try.jsonl"] {
        let analysis = analyse(&question(), &recorded(name));
        let of_twin = analysis.tests.iter().flat_map(|t| &t.comparisons).filter(|c| c.variant == "glibc (twin)");
        let verdicts: Vec<Verdict> = of_twin.filter(|c| c.metric.is_throughput()).map(|c| c.verdict).collect();
        assert!(!verdicts.is_empty());
        assert!(verdicts.iter().all(|v| matches!(v, Verdict::Equivalent | Verdict::Undecided)), "{name}: {verdicts:?}");
    }
}

#[test]
fn the_control_is_worse() {
    let (worse, sentence) = control_is_worse(&question(), &recorded("selftest.jsonl"));
    assert!(worse, "{sentence}");
}
