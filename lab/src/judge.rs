//! From a folder to its analysis, as `report`, `verify` and the end of a sweep do it: records alone, and the question that was asked.

use crate::analysis::{Analysis, Naming, Verdict, analyse, planner};
use crate::bundle::{self, Planned};
use crate::environment;
use crate::experiment::Experiment;
use crate::placement;
use crate::profile::{Profile, folded};
use crate::record::{Cell, Outcome, Record};
use crate::report::Page;
use crate::why::{self, Asked, Why};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub struct Judged {
    pub planned: Planned,
    pub records: Vec<Record>,
    pub analysis: Analysis,
    /// Where there are profiles.
    pub why: Option<Why>,
    pub experiment: String,
    pub environment: serde_json::Value,
    name: String,
    redo: Vec<String>,
}

pub fn judge(folder: &Path) -> Result<Judged> {
    let planned = bundle::planned(folder)?;
    let records = bundle::records(folder)?;
    let mut analysis = analyse(&planned.question, &records);
    analysis.limits.extend(planned.notes.iter().cloned());
    let environment = bundle::environment(folder);
    let profiled = bundle::profiles(folder)?;
    let why = if profiled.is_empty() {
        None
    } else {
        Some(why(folder, &planned, &records, &profiled, &analysis, &environment)?)
    };
    let missing = planned.trials.iter().filter(|t| !records.iter().any(|r| r.trial == **t)).count();
    if missing > 0 {
        analysis.limits.push(format!(
            "The sweep has not ended: {missing} of {} trials are missing; `evenkeel sweep --resume {}` goes on.",
            planned.trials.len(),
            folder.display()
        ));
    }
    let name = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let again = match environment["imported_from"].as_array() {
        Some(files) => files.iter().filter_map(|f| f.as_str()).fold("evenkeel import".to_string(), |c, f| c + " " + f),
        None => format!("evenkeel sweep {name}/{}{}", bundle::EXPERIMENT, planned.changes.as_options()),
    };
    let redo = vec![format!("evenkeel verify {name}"), format!("evenkeel report {name}"), again];
    Ok(Judged {
        experiment: bundle::experiment(folder).unwrap_or_default(),
        environment,
        planned,
        records,
        analysis,
        why,
        name,
        redo,
    })
}

fn why(
    folder: &Path,
    planned: &Planned,
    records: &[Record],
    profiled: &[Record],
    analysis: &Analysis,
    environment: &serde_json::Value,
) -> Result<Why> {
    let mut stacks: BTreeMap<&str, Profile> = BTreeMap::new();
    for file in profiled.iter().filter_map(|r| r.profile.as_ref()).flat_map(|p| &p.stacks) {
        let path = folder.join(&file.file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if !text.trim().is_empty() {
            stacks.insert(&file.file, folded::read(&path.display().to_string(), &text)?);
        }
    }
    let naming = naming(planned, records);
    let spots = why::spots(profiled, &naming, &|file| stacks.get(file).cloned());
    let is_twin = |variant: &str| planned.question.twins.iter().any(|(_, twin)| twin == variant);
    let asked = Asked { is_twin: &is_twin, cpus: cpus(environment), heap_alone: naming.is_heap_alone() };
    let answers = why::answers(&analysis.tests, &spots, None, asked);
    Ok(Why { answers, spots, tolls: why::tolls(profiled) })
}

/// How many CPUs the machine has that a sweep ran on.
fn cpus(environment: &serde_json::Value) -> Option<usize> {
    placement::parse(environment["machine"]["cpus_allowed"].as_str()?).ok().map(|cpus| cpus.len())
}

fn naming(planned: &Planned, records: &[Record]) -> Naming {
    let valid: Vec<&Record> = records.iter().filter(|r| r.outcome == Outcome::Valid).collect();
    Naming::of(&valid, planned.question.baseline.as_deref())
}

/// What earlier sweeps of `results` say of how far one measurement of this load scatters on this machine: the newest that asked the same
/// of the same target. The folder, and the noise as a fraction.
pub fn known_noise(results: &Path, experiment: &Experiment) -> Option<(PathBuf, f64)> {
    let mut folders: Vec<PathBuf> = results.read_dir().ok()?.flatten().map(|e| e.path()).collect();
    folders.sort_by_key(|f| std::fs::metadata(f.join(bundle::RECORDS)).and_then(|m| m.modified()).ok());
    let here = environment::machine();
    let is_here = |there: &serde_json::Value| ["cpu", "cpus_allowed", "memory"].iter().all(|k| there[k] == here[k]);
    folders.into_iter().rev().find_map(|folder| {
        let planned = bundle::planned(&folder).ok()?;
        let text = bundle::experiment(&folder).ok()?;
        let (before, _) = Experiment::read("", &text).ok()?.changed(&planned.changes).ok()?;
        let same = before.target == experiment.target && before.load == experiment.load;
        if !same || !is_here(&bundle::environment(&folder)["machine"]) {
            return None;
        }
        let noise = planner::noise(&planned.question, &bundle::records(&folder).ok()?)?;
        Some((folder, noise))
    })
}

impl Judged {
    pub fn page(&self) -> Page<'_> {
        Page {
            analysis: &self.analysis,
            records: &self.records,
            experiment_toml: &self.experiment,
            environment: &self.environment,
            why: self.why.as_ref(),
            folder: &self.name,
            redo: &self.redo,
        }
    }

    /// The cells that are worth a profile; or those of the variants and client counts that are named.
    pub fn to_profile(&self, variants: &[String], clients: &[u32]) -> Vec<Cell> {
        let naming = naming(&self.planned, &self.records);
        let asked =
            Asked { is_twin: &|v| self.is_twin(v), cpus: cpus(&self.environment), heap_alone: naming.is_heap_alone() };
        let chosen = why::choose(&self.analysis.tests, asked);
        let is_chosen = |cell: &Cell| {
            let (test, variant) = (naming.test(cell), naming.variant(cell));
            let of_variant = |v: &String| chosen.iter().any(|c| c.test == test && c.variant == *v);
            let of_clients = |n: u32| chosen.iter().any(|c| c.test == test && c.clients == n);
            let wanted = if variants.is_empty() { of_variant(&variant) } else { variants.contains(&variant) };
            wanted && if clients.is_empty() { of_clients(cell.clients) } else { clients.contains(&cell.clients) }
        };
        let cells: BTreeSet<&Cell> = self.records.iter().map(|r| &r.cell).filter(|c| is_chosen(c)).collect();
        cells.into_iter().cloned().collect()
    }

    /// Variants that are the baseline measured again; a verdict on them is about the noise.
    fn is_twin(&self, variant: &str) -> bool {
        self.planned.question.twins.iter().any(|(_, twin)| twin == variant)
    }

    /// Whether any variant is worse than the baseline in throughput, anywhere.
    pub fn any_worse(&self) -> bool {
        let tests = self.analysis.tests.iter();
        tests
            .flat_map(|t| &t.comparisons)
            .any(|c| c.metric.is_throughput() && c.verdict == Verdict::Worse && !self.is_twin(&c.variant))
    }

    pub fn any_cliff(&self) -> bool {
        self.analysis.tests.iter().flat_map(|t| &t.curves).any(|c| c.shape.cliff.is_some())
    }
}
