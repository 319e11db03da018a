//! A run: rounds in which every workload meets every heap once, in an order drawn anew for each round.

use crate::args::Options;
use crate::heaps::{self, Candidate, Heap};
use crate::machine;
use crate::record::{self, Record, Writer};
use crate::stats::Random;
use crate::trial;
use crate::work::{self, Part, Work};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The short form begins no round that would end later than this.
const SHORT_ENOUGH: Duration = Duration::from_secs(175);

/// Measures, and says where the figures are.
pub fn run(options: &Options) -> Result<PathBuf, String> {
    let works = chosen_works(options)?;
    work::compile_all()?;
    let heaps = chosen_heaps(options)?;

    let path = match &options.out {
        Some(path) => path.clone(),
        None => free_path(options),
    };
    let mut facts = machine::facts();
    facts.push(("rounds".into(), options.rounds.to_string()));
    facts.push(("seed".into(), options.seed.to_string()));
    let writer = Writer::create(&path, &facts)?;

    // All heaps meet a workload one after the other, and the rows of one program follow each other, so that figures
    // that are compared find the machine in the same state.
    let plan = |round: u32| -> Vec<(&Work, &Heap)> {
        let mut random = Random(options.seed.wrapping_mul(1_000_003) + u64::from(round));
        let mut programs: Vec<&str> = vec![];
        for work in works.iter().filter(|w| round == 1 || w.part != Part::Forks) {
            if !programs.contains(&work.program) {
                programs.push(work.program);
            }
        }
        random.shuffle(&mut programs);
        let mut pairs = vec![];
        for program in programs {
            let mut rows: Vec<&Work> = works.iter().copied().filter(|w| w.program == program).collect();
            random.shuffle(&mut rows);
            for work in rows {
                let mut turn: Vec<&Heap> = heaps.iter().collect();
                random.shuffle(&mut turn);
                pairs.extend(turn.into_iter().map(|heap| (work, heap)));
            }
        }
        pairs
    };
    let all: usize = (1..=options.rounds).map(|r| plan(r).len()).sum();
    let mut session = Session {
        options,
        writer,
        progress: Progress::new(all),
        records: vec![],
        repeats: if options.short { 0 } else { all / 2 },
        wasted: Duration::ZERO,
    };
    for round in 1..=options.rounds {
        // A trial that reached its limit will not do so again.
        let so_far = session.progress.began.elapsed();
        let each = so_far.saturating_sub(session.wasted) / (round - 1).max(1);
        if options.short && round > 1 && so_far + each > SHORT_ENOUGH {
            session.progress.say(&format!("round {round} is left out: the machine is slow or busy"));
            break;
        }
        session.round(round, &plan(round))?;
    }
    // What was disturbed in most rounds has one round more.
    let more: Vec<_> = plan(options.rounds + 1)
        .into_iter()
        .filter(|(work, heap)| session.wants_more(work, heap))
        .take(session.repeats)
        .collect();
    session.progress.all += more.len();
    session.round(options.rounds + 1, &more)?;
    session.progress.clear();
    Ok(path)
}

struct Session<'a> {
    options: &'a Options,
    writer: Writer,
    progress: Progress,
    records: Vec<Record>,
    /// How many disturbed trials may still be repeated: on a machine that is never calm a run has to end, too.
    repeats: usize,
    /// Spent on trials that reached their limit.
    wasted: Duration,
}

impl Session<'_> {
    fn round(&mut self, round: u32, pairs: &[(&Work, &Heap)]) -> Result<(), String> {
        for (order, (work, heap)) in (1..).zip(pairs) {
            self.trial(round, order, work, heap)?;
            self.progress.done += 1;
        }
        Ok(())
    }

    /// One trial, and up to two more in its place when the machine was not calm. All of them are kept.
    fn trial(&mut self, round: u32, order: u32, work: &Work, heap: &Heap) -> Result<(), String> {
        self.progress.show(round, self.options.rounds, work, heap);
        let mut record = Record {
            round,
            order,
            work: work.row.into(),
            heap: heap.name.clone(),
            version: heap.version.clone(),
            status: "not tried again".into(),
            figures: record::figures(&[]),
        };
        if self.is_hopeless(work, heap) {
            return self.keep(record);
        }
        for attempt in 0.. {
            let began = Instant::now();
            measure(&mut record, work, heap, self.options.timeout, &self.progress);
            self.keep(record.clone())?;
            let calm = record.was_calm(record::nearest(&self.records));
            if self.is_hopeless(work, heap) {
                self.wasted += began.elapsed();
            }
            let over = calm || !record.was_measured() || work.part == Part::Forks;
            if over || attempt == 2 || self.repeats == 0 {
                break;
            }
            self.repeats -= 1;
        }
        Ok(())
    }

    fn keep(&mut self, record: Record) -> Result<(), String> {
        self.writer.add(&record)?;
        self.records.push(record);
        Ok(())
    }

    fn trials(&self, work: &Work, heap: &Heap) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |r| r.work == work.row && r.heap == heap.name)
    }

    /// What did not end once costs its whole time limit each time: once is enough to know.
    fn is_hopeless(&self, work: &Work, heap: &Heap) -> bool {
        self.trials(work, heap).any(|r| r.status == "timeout" || r.status.starts_with("over "))
    }

    fn wants_more(&self, work: &Work, heap: &Heap) -> bool {
        let nearest = record::nearest(&self.records);
        let calm = self.trials(work, heap).filter(|r| r.was_calm(nearest)).count();
        let failed = self.trials(work, heap).any(|r| !r.was_measured());
        work.part != Part::Forks && !failed && calm <= self.options.rounds as usize / 2
    }
}

fn measure(record: &mut Record, work: &Work, heap: &Heap, limit: Duration, progress: &Progress) {
    let args: Vec<String> = work.args.split_whitespace().map(String::from).collect();
    let limit = limit * work.patience();
    let hop = hop();
    let busy = Busy::now();
    let preload = work.part != Part::Starts;
    let outcome = trial::execute(&work::program(work.program), &args, heap, preload, limit);
    let words = trial::words(&outcome.output);
    record.figures = record::figures(&words);
    record.set("others_pct", busy.by_others(outcome.lasted));
    // The longer of before and after: a trial during which the CPUs were moved is not a calm one.
    record.set("hop_ns", hop.zip(self::hop()).map(|(a, b)| a.max(b)));
    record.status = outcome.status;
    if record.status == "ok" && words.is_empty() {
        record.status = "no figures".into();
    }
    if record.status != "ok" {
        progress.say(&format!(
            "{} under {}: {} after {:.1} s{}{}",
            work.row,
            heap.name,
            record.status,
            outcome.lasted.as_secs_f64(),
            if outcome.complaint.is_empty() { "" } else { ": " },
            outcome.complaint
        ));
    }
}

/// How far the first two CPUs are from each other just now; None when there is but one.
fn hop() -> Option<f64> {
    let glibc = heaps::plain();
    let limit = Duration::from_secs(2);
    let outcome = trial::execute(&work::program("hop"), &[], &glibc, false, limit);
    let words = trial::words(&outcome.output);
    words.iter().find(|(key, _)| *key == "hop_ns")?.1.parse().ok()
}

/// CPU time used since the machine started: by all, and by this process with its children. Counted in ticks of
/// 1/100 second.
struct Busy {
    all: Option<f64>,
    own: Option<f64>,
}

impl Busy {
    fn now() -> Busy {
        let read = |path| std::fs::read_to_string(path).ok();
        Busy {
            all: read("/proc/stat").and_then(|text| all_ticks(&text)),
            own: read("/proc/self/stat").and_then(|text| own_ticks(&text)),
        }
    }

    /// How much of the machine's CPU time others had since, in percent.
    fn by_others(&self, lasted: Duration) -> Option<f64> {
        let now = Busy::now();
        let others = (now.all? - self.all?) - (now.own? - self.own?);
        let whole = lasted.as_secs_f64() * 100.0 * machine::cpus() as f64;
        // In less, a single tick would be more than a percent or two.
        let enough = lasted > Duration::from_millis(150);
        enough.then(|| (others / whole * 100.0).clamp(0.0, 100.0).round())
    }
}

/// All but idle and waiting; time taken by other machines on the same host is among it.
fn all_ticks(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|t| t.parse().ok()).collect();
    let [user, nice, system, _idle, _wait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

fn own_ticks(stat: &str) -> Option<f64> {
    // The second field, the name in brackets, may hold spaces.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|t| t.parse::<f64>().ok()).sum()
}

fn chosen_works(options: &Options) -> Result<Vec<&'static Work>, String> {
    for name in &options.only {
        if work::named(name).next().is_none() {
            return Err(format!("no workload is called '{name}'; 'bench list' shows them"));
        }
    }
    let asked = |w: &Work| options.only.iter().any(|name| work::named(name).any(|n| n.row == w.row));
    Ok(work::ALL
        .iter()
        .filter(|w| match options.only.is_empty() {
            true => !options.short || w.in_short,
            false => asked(w),
        })
        .collect())
}

fn chosen_heaps(options: &Options) -> Result<Vec<Heap>, String> {
    let wanted = |name: &str| match options.heaps.is_empty() {
        true => !options.short || !heaps::is_peer(name) || heaps::SHORT.contains(&name),
        false => options.heaps.iter().any(|h| h == name),
    };
    let mut candidates = heaps::subjects(options);
    candidates.extend(heaps::peers());
    for name in &options.heaps {
        if !candidates.iter().any(|c| c.name == *name) {
            let known: Vec<_> = candidates.iter().map(|c| c.name.as_str()).collect();
            return Err(format!("no heap is called '{name}'; there are {}", known.join(", ")));
        }
    }
    let mut heaps = vec![];
    for Candidate { name, heap } in candidates {
        if !wanted(&name) {
            continue;
        }
        match heap {
            Ok(heap) => {
                eprintln!("  {name:<13} {}", heap.version);
                heaps.push(heap);
            }
            Err(why) => eprintln!("  {name:<13} absent: {why}"),
        }
    }
    if heaps.is_empty() {
        return Err("no heap to measure".into());
    }
    Ok(heaps)
}

/// Whole runs are kept beside the sources; trials of a part go where `cargo clean` takes them.
fn free_path(options: &Options) -> PathBuf {
    let whole = !options.short && options.only.is_empty() && options.heaps.is_empty();
    let folder = match whole {
        true => machine::bench_dir().join("results"),
        false => machine::target().join("bench/results"),
    };
    let name = format!("{}-{}cpu", machine::today(), machine::cpus());
    let mut path = folder.join(format!("{name}.csv"));
    let mut n = 2;
    while path.exists() {
        path = folder.join(format!("{name}-{n}.csv"));
        n += 1;
    }
    path
}

/// One line on a terminal's standard error, written over again and again; nothing elsewhere.
struct Progress {
    terminal: bool,
    began: Instant,
    done: usize,
    all: usize,
}

impl Progress {
    fn new(all: usize) -> Progress {
        Progress { terminal: std::io::stderr().is_terminal(), began: Instant::now(), done: 0, all }
    }

    fn show(&self, round: u32, rounds: u32, work: &Work, heap: &Heap) {
        if !self.terminal {
            return;
        }
        let left = match self.done {
            0 => "?".to_string(),
            done => {
                let each = self.began.elapsed().as_secs_f64() / done as f64;
                let seconds = (each * (self.all - done) as f64).round() as u64;
                format!("{}:{:02}", seconds / 60, seconds % 60)
            }
        };
        eprint!(
            "\r\x1b[K{}/{} round {round}/{rounds}  {} under {}  {left} left",
            self.done + 1,
            self.all,
            work.row,
            heap.name
        );
        let _ = std::io::stderr().flush();
    }

    fn say(&self, line: &str) {
        self.clear();
        eprintln!("{line}");
    }

    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_added_up() {
        let stat = "cpu  10 20 30 1000 500 1 2 4 0 0\ncpu0 1 1 1\n";
        assert_eq!(all_ticks(stat), Some(67.0));
        assert_eq!(all_ticks(""), None);
        let own = "7 (a b) c) S 1 7 7 0 -1 4 0 0 0 0 100 20 3 4 20 0 1 0";
        assert_eq!(own_ticks(own), Some(127.0));
    }
}
