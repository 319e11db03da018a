//! From a folder to its analysis, as `report`, `verify` and the end of a sweep do it: records alone, and the question that was asked.

use crate::analysis::{Analysis, Verdict, analyse, planner};
use crate::bundle::{self, Planned};
use crate::environment;
use crate::experiment::Experiment;
use crate::record::Record;
use crate::report::Page;
use anyhow::Result;
use std::path::{Path, PathBuf};

pub struct Judged {
    pub planned: Planned,
    pub records: Vec<Record>,
    pub analysis: Analysis,
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
    let environment = bundle::environment(folder);
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
        name,
        redo,
    })
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
            folder: &self.name,
            redo: &self.redo,
        }
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
