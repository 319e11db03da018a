//! A plan: every trial of an experiment, in the order in which it will run, each with a name that is a hash of what it asks for.
//!
//! - A **round** has every cell once. Within a round the lives of the servers come in a random order, from the stored seed.
//! - A **life** is one start of a server: one variant and one test, walked through all client counts, up in odd rounds and down in even
//!   ones. It is the unit of repetition: what is measured within one life is not independent.
//! - The baseline has a twin, the same heap under a second name, unless the experiment says no: the A/A pairs.
//!
//! A life stays on one host; nothing else in a plan knows where it will run.

use crate::analysis::{Question, planner};
use crate::digest;
use crate::experiment::{Experiment, Target as Wish};
use crate::heaps::{self, Heap, Kind};
use crate::placement;
use crate::profile::collect::Phases;
use crate::record::{self, Cell, Direction, Factor};
use crate::rng::Rng;
use crate::target::{Program, Target};
use crate::wrong::wrong;
use anyhow::Result;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

pub struct Plan {
    pub experiment: Experiment,
    /// The experiment as it was written.
    pub text: String,
    pub heaps: BTreeMap<String, Heap>,
    /// Programs and libraries that take part, with their hashes.
    pub programs: Vec<(Program, String)>,
    pub lives: Vec<Life>,
    /// Of a plan whose trials are profiled: how each is spent.
    pub phases: Option<Phases>,
    pub question: Question,
    /// What the reader of the verdict must know of how this plan was made: one sentence each.
    pub notes: Vec<String>,
    /// Seconds that a life takes besides its trials.
    seconds_to_start: f64,
}

/// One start of a server, and the trials that it lives through.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    pub round: u32,
    pub direction: Direction,
    /// With `clients` 0: the part that all trials share.
    pub cell: Cell,
    pub trials: Vec<Trial>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub id: String,
    /// Place in the plan, from 1.
    pub order: u32,
    pub cell: Cell,
}

impl Plan {
    /// Looks up what the experiment names on this machine.
    pub fn make(text: &str, experiment: Experiment, target: &dyn Target) -> Result<Plan> {
        let heaps = named_heaps(&experiment, &heaps::find())?;
        Plan::with(text, experiment, target, heaps)
    }

    fn with(text: &str, experiment: Experiment, target: &dyn Target, heaps: Vec<Heap>) -> Result<Plan> {
        let mut notes = Vec::new();
        let mut cells = cells(&experiment, &heaps)?;
        let wished = experiment.plan.baseline.as_ref().map(|b| b.get_ref().as_str());
        let factor = Factor::compared(&cells, wished).unwrap_or(Factor::Heap);
        let of_factor = |f: Factor, value: &str| cells.iter().any(|c| f.of(c) == value);
        // With one heap left, as by --heap, the baseline is a value of what does not vary any more.
        let fixed = |w: &&str| !of_factor(factor, w) && Factor::ALL.iter().any(|f| of_factor(*f, w));
        let wished = wished.filter(|w| !fixed(w));
        let baseline = wished.unwrap_or(factor.of(&cells[0])).to_string();
        if !of_factor(factor, &baseline) {
            let known: BTreeSet<&str> =
                Factor::ALL.iter().flat_map(|f| cells.iter().map(|c| f.of(c))).filter(|v| !v.is_empty()).collect();
            let known: Vec<&str> = known.into_iter().collect();
            return Err(wrong(format!("plan.baseline {baseline:?} is not among what is varied: {}", known.join(", "))));
        }
        let mut twins = Vec::new();
        if experiment.plan.twin {
            let originals: Vec<Cell> = cells.iter().filter(|c| factor.of(c) == baseline).cloned().collect();
            cells.extend(originals.into_iter().map(|mut cell| {
                let value = factor.of_mut(&mut cell);
                *value = record::twin(value);
                cell
            }));
            let name = factor.in_words(&baseline);
            twins.push((name.clone(), record::twin(&name)));
        }
        let mut programs: Vec<(Program, String)> = Vec::new();
        for cell in &cells {
            for program in target.programs(&cell.plain())? {
                if !programs.iter().any(|(p, _)| *p == program) {
                    let hash = digest::of_file(&program.path)?;
                    programs.push((program, hash));
                }
            }
        }
        for heap in &heaps {
            if let Some(path) = &heap.path {
                let program = Program { what: format!("heap {}", heap.name), path: path.clone() };
                programs.push((program, digest::of_file(path)?));
            }
        }
        let heaps: BTreeMap<String, Heap> = heaps.into_iter().map(|h| (h.name.clone(), h)).collect();
        let clients: Vec<u32> = {
            let mut counts: Vec<u32> = experiment.factors.clients.iter().map(|c| *c.get_ref()).collect();
            counts.sort_unstable();
            counts
        };
        let title = experiment.title.clone();
        let mut plan = Plan {
            question: Question {
                title,
                baseline: Some(factor.in_words(&baseline)),
                margin: experiment.plan.margin,
                twins,
            },
            seconds_to_start: target.seconds_to_start(),
            experiment,
            text: text.into(),
            heaps,
            programs,
            lives: Vec::new(),
            phases: None,
            notes: Vec::new(),
        };
        let rounds = plan.rounds_that_fit(cells.len(), clients.len(), &mut notes);
        plan.lay_out(rounds, &cells, &clients);
        plan.notes = notes;
        Ok(plan)
    }

    /// The same machine, heaps and load, for profiles: only these cells, in rounds of their own.
    pub fn profiled(mut self, cells: &[Cell], rounds: u32, phases: Phases) -> Plan {
        self.phases = Some(phases);
        self.experiment.load.seconds = phases.window();
        self.experiment.load.idle = 0.0;
        let variants: BTreeSet<Cell> = cells.iter().map(|c| Cell { clients: 0, ..c.clone() }).collect();
        let mut rng = Rng::seeded(self.experiment.plan.seed);
        self.lives.clear();
        let mut order = 0;
        for round in 1..=rounds {
            let direction = if round % 2 == 1 { Direction::Up } else { Direction::Down };
            let mut variants: Vec<&Cell> = variants.iter().collect();
            rng.shuffle(&mut variants);
            for variant in variants {
                let of_variant = |c: &&Cell| Cell { clients: 0, ..(*c).clone() } == *variant;
                let mut counts: Vec<u32> = cells.iter().filter(of_variant).map(|c| c.clients).collect();
                counts.sort_unstable();
                counts.dedup();
                self.live(round, direction, variant, &counts, &mut order);
            }
        }
        self
    }

    /// Appends one life, which walks through `counts`, given rising.
    fn live(&mut self, round: u32, direction: Direction, variant: &Cell, counts: &[u32], order: &mut u32) {
        let mut counts = counts.to_vec();
        if direction == Direction::Down {
            counts.reverse();
        }
        let trials = counts
            .into_iter()
            .map(|clients| {
                *order += 1;
                let cell = Cell { clients, ..variant.clone() };
                Trial { id: self.name(&cell, round, direction), order: *order, cell }
            })
            .collect();
        self.lives.push(Life { round, direction, cell: variant.clone(), trials });
    }

    /// As many rounds as are wished, or as the time allows, but two at least.
    fn rounds_that_fit(&self, lives: usize, counts: usize, notes: &mut Vec<String>) -> u32 {
        let wish = self.experiment.plan.rounds;
        let Some(limit) = self.experiment.plan.at_most else { return wish };
        let round = lives as f64 * (self.seconds_to_start + counts as f64 * self.seconds_a_trial());
        let fit = ((limit / round) as u32).clamp(2.min(wish), wish);
        if fit < wish {
            notes.push(format!("{fit} rounds instead of {wish}, to end within {limit:.0} s ({lives} lives a round)."));
        }
        fit
    }

    fn lay_out(&mut self, rounds: u32, cells: &[Cell], clients: &[u32]) {
        let mut rng = Rng::seeded(self.experiment.plan.seed);
        let mut order = 0;
        for round in 1..=rounds {
            let direction = if round % 2 == 1 { Direction::Up } else { Direction::Down };
            let mut cells = cells.to_vec();
            rng.shuffle(&mut cells);
            for cell in cells {
                self.live(round, direction, &cell, clients, &mut order);
            }
        }
    }

    /// SHA-256 of everything that a trial asks for; its first 20 digits are name enough.
    fn name(&self, cell: &Cell, round: u32, direction: Direction) -> String {
        let heap = &self.heaps[&cell.plain().heap];
        let hashes: BTreeMap<&str, &str> = self
            .programs
            .iter()
            .filter(|(p, _)| !p.what.starts_with("heap ") || p.what == format!("heap {}", heap.name))
            .map(|(p, hash)| (p.what.as_str(), hash.as_str()))
            .collect();
        let asked = json!({
            "schema": crate::record::SCHEMA,
            "target": self.experiment.target,
            "load": self.experiment.load,
            "placement": self.experiment.placement,
            "cell": cell,
            "round": round,
            "direction": direction,
            "seed": self.experiment.plan.seed,
            "programs": hashes,
            "heap_env": heap.env,
        });
        digest::of_text(&asked.to_string())[..20].to_string()
    }

    pub fn trials(&self) -> impl Iterator<Item = (&Life, &Trial)> {
        self.lives.iter().flat_map(|l| l.trials.iter().map(move |t| (l, t)))
    }

    pub fn rounds(&self) -> u32 {
        self.lives.iter().map(|l| l.round).max().unwrap_or(0)
    }

    /// What one trial takes: warm-up, window, rest, and a little for clients to come and go.
    pub fn seconds_a_trial(&self) -> f64 {
        let load = &self.experiment.load;
        // To be quiet; for the embedded target also a new table.
        let settle = match self.experiment.target {
            Wish::Mariadb(_) => 2.0,
            Wish::Embedded(_) => 0.45,
            Wish::Command(_) => 0.5,
        };
        load.warmup + load.seconds + load.idle + settle
    }

    /// What this plan can tell apart, if one measurement scatters by `noise`.
    pub fn sweep(&self, noise: f64) -> planner::Sweep {
        let trials = self.trials().count() as u32;
        let rounds = self.rounds().max(1);
        let counts: BTreeSet<u32> = self.trials().map(|(_, t)| t.cell.clients).collect();
        let variants: BTreeSet<&Cell> = self.lives.iter().map(|l| &l.cell).collect();
        let tests: BTreeSet<&str> = variants.iter().map(|c| c.test.as_str()).collect();
        planner::Sweep {
            noise,
            variants: (variants.len() / tests.len().max(1)).saturating_sub(1) as u32,
            client_counts: counts.len() as u32,
            rounds,
            seconds_a_trial: self.seconds() / f64::from(trials.max(1)),
            trials_a_round: trials / rounds,
        }
    }

    /// How long the whole will take, as far as can be known before.
    pub fn seconds(&self) -> f64 {
        self.lives.iter().map(|l| self.seconds_to_start + l.trials.len() as f64 * self.seconds_a_trial()).sum()
    }
}

/// The heaps that an experiment asks for, under the names that it uses.
fn named_heaps(experiment: &Experiment, found: &[Heap]) -> Result<Vec<Heap>> {
    let mut heaps: Vec<Heap> = Vec::new();
    for wanted in &experiment.factors.heap {
        let wanted = wanted.get_ref();
        if wanted == "all" {
            heaps.extend(found.iter().filter(|h| h.kind != Kind::Other).cloned());
        } else if let Some(named) = experiment.heaps.get(wanted) {
            let mut heap = heaps::resolve(&experiment.beside(named.heap.get_ref()), found)?;
            heap.name.clone_from(wanted);
            heap.env.extend(named.env.clone());
            heaps.push(heap);
        } else {
            heaps.push(heaps::resolve(&experiment.beside(wanted), found)?);
        }
    }
    let mut named: Vec<Heap> = Vec::new();
    for heap in heaps {
        match named.iter().find(|h| h.name == heap.name) {
            Some(same) if (&same.path, &same.env) == (&heap.path, &heap.env) => {}
            Some(_) => {
                let what = "factors.heap: two heaps are called";
                let advice = "give one a name of its own: [heaps.NAME] with heap = \"PATH\"";
                return Err(wrong(format!("{what} {}; {advice}", heap.name)));
            }
            None => named.push(heap),
        }
    }
    Ok(named)
}

/// Every combination of variants but the clients. A factor that is not varied is empty in the cell.
fn cells(experiment: &Experiment, heaps: &[Heap]) -> Result<Vec<Cell>> {
    let factors = &experiment.factors;
    let values = |list: &[toml::Spanned<String>]| -> Vec<String> {
        if list.is_empty() { vec![String::new()] } else { list.iter().map(|s| s.get_ref().clone()).collect() }
    };
    for file in experiment.files() {
        let path = experiment.folder.join(file);
        if !path.is_file() {
            return Err(wrong(format!("{file}: there is no file {}", path.display())));
        }
    }
    for cpus in &factors.cpus {
        let wish = &experiment.placement;
        placement::sides(wish.server.as_deref(), wish.client.as_deref(), cpus.get_ref())
            .map_err(|why| wrong(format!("factors.cpus: {why}; leave it out, or fit it in with --scale")))?;
    }
    let configs = values(&factors.config);
    let mut cells = Vec::new();
    for test in &experiment.load.tests {
        for heap in heaps {
            for server in values(&factors.server) {
                for engine in values(&factors.engine) {
                    for config in &configs {
                        for cpus in values(&factors.cpus) {
                            cells.push(Cell {
                                test: test.get_ref().clone(),
                                heap: heap.name.clone(),
                                server: server.clone(),
                                engine: engine.clone(),
                                config: config.clone(),
                                cpus,
                                clients: 0,
                            });
                        }
                    }
                }
            }
        }
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Proof;
    use crate::target::{Server, Setting};

    struct Nothing;

    impl Target for Nothing {
        fn programs(&self, _: &Cell) -> Result<Vec<Program>> {
            Ok(vec![Program { what: "server".into(), path: "/bin/true".into() }])
        }
        fn bindings(&self, _: &Setting) -> Result<Vec<Proof>> {
            Ok(Vec::new())
        }
        fn start(&self, _: &Setting) -> Result<Box<dyn Server>> {
            anyhow::bail!("never")
        }
        fn seconds_to_start(&self) -> f64 {
            1.0
        }
    }

    fn plan(change: impl Fn(&str) -> String) -> Result<Plan> {
        let text = change(
            "title = \"t\"\n[target.embedded]\n[load]\ntests = [\"oltp\"]\nseconds = 1\nwarmup = 0\nidle = 0\n\
             [factors]\nheap = [\"glibc\", \"one\"]\nclients = [1, 8, 64]\n\
             [heaps.one]\nheap = \"glibc\"\nenv = { MALLOC_ARENA_MAX = \"1\" }\n[plan]\nrounds = 4\n",
        );
        let experiment = Experiment::read("x.toml", &text)?;
        let heaps = named_heaps(&experiment, &[heaps::glibc()])?;
        Plan::with(&text, experiment, &Nothing, heaps)
    }

    #[test]
    fn every_round_has_every_cell_once() {
        let plan = plan(str::to_string).unwrap();
        assert_eq!((plan.lives.len(), plan.trials().count(), plan.rounds()), (12, 36, 4));
        for round in 1..=4 {
            let cells: Vec<&Cell> = plan.trials().filter(|(l, _)| l.round == round).map(|(_, t)| &t.cell).collect();
            assert_eq!(cells.len(), 9);
            assert_eq!(cells.iter().collect::<BTreeSet<_>>().len(), 9);
        }
        let ids: BTreeSet<&String> = plan.trials().map(|(_, t)| &t.id).collect();
        assert_eq!(ids.len(), 36);
        let orders: Vec<u32> = plan.trials().map(|(_, t)| t.order).collect();
        assert_eq!(orders, (1..=36).collect::<Vec<_>>());
    }

    #[test]
    fn directions_alternate_and_orders_differ_by_seed() {
        let clients = |l: &Life| l.trials.iter().map(|t| t.cell.clients).collect::<Vec<_>>();
        let one = plan(str::to_string).unwrap();
        for life in &one.lives {
            let up = life.round % 2 == 1;
            assert_eq!(clients(life), if up { [1, 8, 64] } else { [64, 8, 1] });
            assert_eq!(life.direction == Direction::Up, up);
        }
        let heaps = |p: &Plan| p.lives.iter().map(|l| l.cell.heap.clone()).collect::<Vec<_>>();
        let again = plan(str::to_string).unwrap();
        let other = plan(|t| format!("{t}seed = 2\n")).unwrap();
        assert_eq!(heaps(&one), heaps(&again));
        assert_ne!(heaps(&one), heaps(&other));
        assert_eq!(one.lives, again.lives);
    }

    #[test]
    fn a_name_changes_with_what_is_asked() {
        let id = |p: &Plan| p.lives[0].trials[0].id.clone();
        let one = plan(str::to_string).unwrap();
        let other = plan(|t| t.replace("seconds = 1", "seconds = 2")).unwrap();
        assert_ne!(id(&one), id(&other));
    }

    #[test]
    fn the_baseline_has_a_twin() {
        let one = plan(str::to_string).unwrap();
        assert_eq!(one.question.twins, [("glibc".to_string(), "glibc (twin)".to_string())]);
        let of = |heap: &str| one.lives.iter().filter(|l| l.cell.heap == heap).count();
        assert_eq!((of("glibc"), of("glibc (twin)"), of("one")), (4, 4, 4));
        let alone = plan(|t| format!("{t}twin = false\nbaseline = \"one\"\n")).unwrap();
        assert_eq!((alone.lives.len(), alone.question.baseline.as_deref()), (8, Some("one")));
        let said = plan(|t| format!("{t}baseline = \"two\"\n")).err().map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(said, "plan.baseline \"two\" is not among what is varied: glibc, one");
    }

    #[test]
    fn what_is_compared_need_not_be_heaps() {
        let cpus = |t: &str| t.replace("heap = [\"glibc\", \"one\"]", "heap = [\"glibc\"]\ncpus = [\"0-0\", \"0-1\"]");
        let one = plan(cpus).unwrap();
        assert_eq!(one.question.twins, [("cpus 0-0".to_string(), "cpus 0-0 (twin)".to_string())]);
        assert_eq!(one.question.baseline.as_deref(), Some("cpus 0-0"));
        let of = |cpus: &str| one.lives.iter().filter(|l| l.cell.cpus == cpus).count();
        assert_eq!((of("0-0"), of("0-0 (twin)"), of("0-1")), (4, 4, 4));
        let other = plan(|t| format!("{}baseline = \"0-1\"\n", cpus(t))).unwrap();
        assert_eq!(other.question.twins[0].1, "cpus 0-1 (twin)");
        assert!(other.lives.iter().all(|l| !l.cell.plain().cpus.contains("twin")));
    }

    #[test]
    fn a_limit_of_time_takes_rounds_away() {
        // Three lives of 1 + 3 * 1.45 s are 16.05 s a round.
        let plan = plan(|t| format!("{t}at_most = 40\n")).unwrap();
        assert_eq!(plan.rounds(), 2);
        assert!(plan.notes[0].starts_with("2 rounds instead of 4"), "{:?}", plan.notes);
        assert!((plan.seconds() - 32.1).abs() < 1e-6, "{}", plan.seconds());
    }
}
