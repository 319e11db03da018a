//! Profiles and the verdict on them: recorded output of perf, published stacks and tables, invented losses.

mod synthetic;

use lab::analysis::{Analysis, Naming, Question, analyse};
use lab::import::{self, Source};
use lab::profile::cause::Cause;
use lab::profile::collect::{Profiled, Stacks};
use lab::profile::symbols::Symbols;
use lab::profile::table::{View, compare};
use lab::profile::{Kind, Profile, folded, script};
use lab::record::{Cell, Factor, Figures, Record};
use lab::why::{self, Answer, Asked, Blame, Sheet};
use std::collections::HashMap;

fn recorded(name: &str) -> String {
    let path = format!("{}/tests/recorded/perf/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn published(name: &str) -> String {
    let path = format!("{}/../experiments/published/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_sample_that_perf_printed_is_kept() {
    for (name, event) in [("cpu.txt", ": cpu-clock:"), ("switches.txt", ": sched:sched_switch:")] {
        let text = recorded(name);
        let headers = text.lines().filter(|l| l.contains(event)).count() as u64;
        let frames = text.lines().filter(|l| l.starts_with('\t')).count() as u64;
        let script = script::read(&text, &mut Symbols::none());
        assert_eq!(script.samples, headers, "{name}");
        let of = |p: &Profile| p.stacks().map(|(stack, weight)| stack.len() as u64 * weight).sum::<u64>();
        let added = if name == "cpu.txt" { 0 } else { headers };
        assert_eq!(of(&script.cpu) + of(&script.switches), frames + added, "{name}: frames");
        assert_eq!(script.cpu.total() + script.switches.total(), headers, "{name}");
        assert_eq!(script.lost, 0);
    }
    let text = recorded("switches.txt");
    let script = script::read(&text, &mut Symbols::none());
    assert_eq!(script.left, text.matches("PERF_RECORD_SWITCH OUT").count() as u64);
    assert!(script.off_cpu.total() > 0 && script.left > 10 * script.samples, "one of twenty switches was sampled");
    // Every state is one of the three, and the control's lock is seen as the heap's.
    let roots: Vec<&str> = script.switches.stacks().map(|(s, _)| script.switches.name(s[0])).collect();
    assert!(roots.iter().all(|r| ["[preempted]", "[waiting]", "[blocked]"].contains(r)));
}

#[test]
fn recorded_stacks_have_their_causes() {
    let script = script::read(&recorded("cpu.txt"), &mut Symbols::none());
    let causes = why::causes(&script.cpu);
    let heap: u64 = causes.iter().filter(|(c, _)| c.is_heap()).map(|(_, w)| w).sum();
    assert_eq!(causes.values().sum::<u64>(), script.cpu.total());
    assert!(heap * 2 > script.cpu.total(), "the bad heap on purpose takes most: {causes:?}");
    assert!(causes[&Cause::HeapPageFault] > 0 && causes[&Cause::Work] > 0);
}

/// Sums a function's weight from the text of the folded file alone.
fn from_the_file(text: &str, function: &str, view: View) -> u64 {
    text.lines()
        .filter_map(|line| {
            let (stack, weight) = line.rsplit_once(' ')?;
            let mut frames = stack.split(';');
            let hit = match view {
                View::Inclusive => frames.any(|f| f == function),
                View::Exclusive => frames.next_back() == Some(function),
            };
            hit.then(|| weight.parse::<u64>().unwrap())
        })
        .sum()
}

#[test]
fn every_figure_of_the_tables_is_found_in_the_folded_file() {
    let cpu = script::read(&recorded("cpu.txt"), &mut Symbols::none()).cpu;
    let switches = script::read(&recorded("switches.txt"), &mut Symbols::none()).switches;
    for profile in [&cpu, &switches] {
        let text = folded::write(profile);
        let again = folded::read("again", &text).unwrap();
        for view in [View::Inclusive, View::Exclusive] {
            let (rows, _) = compare(&[vec![&again]], view, 0.0);
            assert!(view == View::Exclusive || rows.len() > 20);
            assert!(!rows.is_empty());
            for row in rows {
                let share = row.shares[0].unwrap();
                assert_eq!(share.weight, from_the_file(&text, &row.function, view), "{}", row.function);
                assert!((share.share - share.weight as f64 / profile.total() as f64).abs() < 1e-12);
            }
        }
    }
}

fn segment_heap() -> (Analysis, Sheet) {
    let text = published("segment-heap-sysbench.csv");
    let sources = [Source { path: "segment-heap-sysbench.csv", text: &text, heap: None }];
    let imported = import::import(&sources).unwrap();
    let question = Question { baseline: Some("nt-heap".into()), ..imported.question };
    let sheet = why::read_sheet("segment-heap-stacks.csv", &published("segment-heap-stacks.csv")).unwrap();
    (analyse(&question, &imported.records), sheet)
}

#[test]
fn the_nt_heap_is_to_blame_for_its_cliffs_and_point_select_has_none() {
    let (analysis, sheet) = segment_heap();
    let share = |v: &str| (1000.0 * sheet.heap_share(v).unwrap()).round() / 10.0;
    assert_eq!((share("nt-heap"), share("small-blocks"), share("segment-heap")), (51.5, 51.3, 2.4));
    let answers =
        why::answers(&analysis.tests, &[], Some(&sheet), Asked { is_twin: &|_| false, cpus: None, heap_alone: true });
    let of = |test: &str| answers.iter().find(|a| a.test.starts_with(test) && a.test.contains("12900K")).unwrap();
    for test in ["oltp_read_only", "oltp_read_write"] {
        let answer = of(test);
        assert_eq!(answer.blame, Blame::Heap, "{}", answer.sentence);
        assert_eq!(answer.legs.iter().map(|l| l.holds).collect::<Vec<_>>(), [Some(true); 3]);
        assert!(answer.sentence.starts_with("The heap is to blame: nt-heap falls off a cliff"), "{}", answer.sentence);
        assert!(
            answer.sentence.contains("51 % of nt-heap's stacks or")
                || answer.sentence.contains("52 % of nt-heap's stacks")
        );
        assert!((answer.share.unwrap() - 0.5153).abs() < 1e-9);
    }
    let answer = of("oltp_point_select");
    assert_eq!(answer.blame, Blame::NoLoss, "{}", answer.sentence);
    assert!(answer.sentence.starts_with("No cliff"));
}

#[test]
fn a_renamed_mutex_is_one_row_and_what_remains_is_less_sleeping_and_more_busy_waiting() {
    let sheet = why::read_sheet("mdev-16168-profile.csv", &published("mdev-16168-profile.csv")).unwrap();
    for view in [View::Exclusive, View::Inclusive] {
        let (rows, pairs) = sheet.paired(view);
        let mutex: Vec<_> = pairs.iter().filter(|p| p.before == "TTASEventMutex<GenericPolicy>::enter").collect();
        assert_eq!(mutex.len(), 1, "{pairs:?}");
        assert_eq!(mutex[0].now, "PolicyMutex<TTASEventMutex<GenericPolicy> >::enter");
        let row = rows.iter().find(|r| r.function == mutex[0].before).unwrap();
        assert!(row.change.abs() < 0.021, "what were the largest rows is now {:.4}", row.change);
    }
    let (rows, _) = sheet.paired(View::Exclusive);
    let named: Vec<(&str, f64)> =
        rows.iter().take(2).map(|r| (r.function.as_str(), (1e4 * r.change).round() / 100.0)).collect();
    assert_eq!(named, [("SleepConditionVariableCS", -5.41), ("ut_delay", 4.02)]);
    assert_eq!(lab::profile::cause::of_frame("ut_delay"), Some(Cause::BusyWait));
}

/// A sweep of two heaps at 8 and 64 clients, and the profiles of its cells: what 1,000 transactions burn, by stack.
struct Invented {
    /// What the two names are values of.
    factor: Factor,
    tps: HashMap<(&'static str, u32), f64>,
    stacks: HashMap<(&'static str, u32), Vec<(&'static str, u64)>>,
}

const SELECT: &str = "libc.so.6!start_thread;mariadbd!do_command;mariadbd!dispatch_command;mariadbd!row_search_mvcc";
const MALLOC: &str =
    "libc.so.6!start_thread;mariadbd!do_command;mariadbd!dispatch_command;mariadbd!my_malloc;heap.so!malloc";
const LATCH: &str =
    "libc.so.6!start_thread;mariadbd!do_command;mariadbd!dispatch_command;mariadbd!sux_lock<ssux_lock>::s_lock";

impl Invented {
    fn record(&self, heap: &str, clients: u32, round: u32, tps: f64) -> Record {
        let noise = 1.0 + 0.004 * (f64::from(round) - 3.0);
        let mut cell = Cell { test: "oltp".into(), clients, ..Cell::default() };
        *self.factor.of_mut(&mut cell) = heap.into();
        Record {
            trial: format!("{heap}-{clients}-{round}"),
            cell,
            round,
            figures: Figures { tps: Some(tps * noise), ..Figures::default() },
            ..synthetic::record(heap, clients, round, tps)
        }
    }

    fn answer(&self) -> Answer {
        let mut records = Vec::new();
        let mut profiled = Vec::new();
        let mut files: HashMap<String, Profile> = HashMap::new();
        for round in 1..=5 {
            for heap in ["glibc", "other"] {
                for clients in [8, 64] {
                    let tps = self.tps[&(heap, clients)];
                    records.push(self.record(heap, clients, round, tps));
                    let Some(stacks) = self.stacks.get(&(heap, clients)).filter(|_| round < 3) else { continue };
                    let file = format!("{heap}-{clients}-{round}");
                    let text: String = stacks.iter().map(|(s, w)| format!("{s} {w}\n")).collect();
                    let profile = folded::read(&file, &text).unwrap();
                    let samples = profile.total();
                    // A unit of weight is a microsecond of 1,000 transactions: 1 ms.
                    let stacks = Stacks {
                        kind: Kind::Cpu,
                        file: file.clone(),
                        samples,
                        lost: 0,
                        nowhere: 0,
                        each: 1e-3,
                        seconds: 1000.0 / tps,
                        unwound: "dwarf".into(),
                    };
                    files.insert(file, profile);
                    let profile = Profiled { stacks: vec![stacks], phases: Vec::new() };
                    profiled.push(Record { profile: Some(profile), ..self.record(heap, clients, round, tps) });
                }
            }
        }
        let question =
            Question { title: "t".into(), baseline: Some("glibc".into()), margin: Some(0.02), twins: Vec::new() };
        let analysis = analyse(&question, &records);
        let naming = Naming::of(&records.iter().collect::<Vec<_>>(), Some("glibc"));
        let spots = why::spots(&profiled, &naming, &|file| files.get(file).cloned());
        let asked = Asked { is_twin: &|_| false, cpus: Some(2), heap_alone: naming.is_heap_alone() };
        why::answers(&analysis.tests, &spots, None, asked).remove(0)
    }
}

fn tps(a: [f64; 2], b: [f64; 2]) -> HashMap<(&'static str, u32), f64> {
    [(("glibc", 8), a[0]), (("glibc", 64), a[1]), (("other", 8), b[0]), (("other", 64), b[1])].into()
}

#[test]
fn a_heap_whose_frames_grow_with_its_loss_is_to_blame() {
    let answer = Invented {
        factor: Factor::Heap,
        tps: tps([2000.0, 2000.0], [2000.0, 1000.0]),
        stacks: [
            (("glibc", 64), vec![(SELECT, 900), (MALLOC, 30)]),
            (("other", 64), vec![(SELECT, 910), (MALLOC, 900)]),
            (("other", 8), vec![(SELECT, 900), (MALLOC, 30)]),
        ]
        .into(),
    }
    .answer();
    assert_eq!(answer.blame, Blame::Heap, "{}", answer.sentence);
    assert!((answer.share.unwrap() - 900.0 / 1810.0).abs() < 1e-9);
}

#[test]
fn what_engines_or_servers_differ_by_is_never_the_heaps() {
    for factor in [Factor::Engine, Factor::Server, Factor::Config] {
        let answer = Invented {
            factor,
            tps: tps([2000.0, 2000.0], [2000.0, 1000.0]),
            stacks: [
                (("glibc", 64), vec![(SELECT, 900), (MALLOC, 30)]),
                (("other", 64), vec![(SELECT, 910), (MALLOC, 900)]),
            ]
            .into(),
        }
        .answer();
        assert_eq!(answer.blame, Blame::Open, "{}", answer.sentence);
        assert_eq!(answer.legs[1].holds, None);
        assert!(!answer.sentence.contains("only the heap differs"), "{}", answer.sentence);
    }
}

#[test]
fn a_loss_that_goes_with_the_heap_but_is_not_in_its_frames_is_not_the_heaps() {
    let answer = Invented {
        factor: Factor::Heap,
        tps: tps([2000.0, 2000.0], [2000.0, 1000.0]),
        stacks: [
            (("glibc", 64), vec![(SELECT, 900), (MALLOC, 30), (LATCH, 20)]),
            (("other", 64), vec![(SELECT, 900), (MALLOC, 31), (LATCH, 900)]),
            (("other", 8), vec![(SELECT, 900), (MALLOC, 30)]),
        ]
        .into(),
    }
    .answer();
    assert_eq!((answer.blame, answer.cause), (Blame::NotTheHeap, Some(Cause::Latch)), "{}", answer.sentence);
    assert!(answer.sentence.contains("latches"), "{}", answer.sentence);
}

#[test]
fn what_falls_alike_under_every_heap_is_not_the_heaps() {
    let answer = Invented {
        factor: Factor::Heap,
        tps: tps([2000.0, 1000.0], [2050.0, 1010.0]),
        stacks: [
            (("glibc", 8), vec![(SELECT, 450), (MALLOC, 20)]),
            (("glibc", 64), vec![(SELECT, 900), (MALLOC, 30)]),
            (("other", 8), vec![(SELECT, 450), (MALLOC, 20)]),
            (("other", 64), vec![(SELECT, 900), (MALLOC, 30)]),
        ]
        .into(),
    }
    .answer();
    assert_eq!((answer.blame, answer.cause), (Blame::NotTheHeap, Some(Cause::Work)), "{}", answer.sentence);
    assert!(answer.sentence.contains("falls alike"), "{}", answer.sentence);
}

#[test]
fn without_profiles_the_third_leg_is_open() {
    let answer =
        Invented { factor: Factor::Heap, tps: tps([2000.0, 2000.0], [2000.0, 1000.0]), stacks: HashMap::new() }
            .answer();
    assert_eq!(answer.blame, Blame::Open, "{}", answer.sentence);
    assert!(answer.sentence.contains("evenkeel why"));
}

#[test]
fn no_loss_blames_nothing() {
    let answer =
        Invented { factor: Factor::Heap, tps: tps([2000.0, 2000.0], [2000.0, 2000.0]), stacks: HashMap::new() }
            .answer();
    assert_eq!(answer.blame, Blame::NoLoss, "{}", answer.sentence);
}
