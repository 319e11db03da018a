//! An experiment: the TOML file in which a person says what to run. It is checked whole before anything runs; whatever is wrong is
//! said with its line and what to do.
//!
//! `read` knows the text only; whether heaps and programs are on this machine is for `plan`.

use crate::placement;
use crate::wrong::wrong;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use toml::Spanned;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The question, in a few words.
    pub title: String,
    /// Where the parameters come from, what to expect.
    #[serde(default)]
    pub about: String,
    pub target: Target,
    pub load: Load,
    pub factors: Factors,
    #[serde(default)]
    pub plan: Rounds,
    #[serde(default)]
    pub placement: Placement,
    /// Profiles after the last round, in rounds of their own: what `evenkeel why` does.
    pub profile: Option<Profile>,
    /// Heaps with settings, or from a path, under a name of their own.
    #[serde(default)]
    pub heaps: BTreeMap<String, NamedHeap>,
    /// What the experiment's paths are relative to: the folder of its file.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// What is run: one of the tables `[target.embedded]`, `[target.mariadb]`, `[target.command]`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Target {
    Embedded(Embedded),
    Mariadb(Mariadb),
    Command(CommandTarget),
}

/// TidesDB in a process of its own (`evenkeel-embedded`); what is not said is that program's default.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Embedded {
    pub rows: Option<u64>,
    pub value_bytes: Option<u32>,
    pub range_rows: Option<u64>,
    pub result_kib: Option<u32>,
    pub distribution: Option<String>,
    pub writes: Option<String>,
    pub mix: Option<String>,
    pub write_buffer_mib: Option<u32>,
    pub cache_mib: Option<u32>,
}

/// MariaDB or MySQL from an installed prefix, on a private data directory.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Mariadb {
    /// Lines of the server's configuration, as `name = value`.
    #[serde(default)]
    pub options: BTreeMap<String, toml::Value>,
    /// The fragment is what someone published: what it says twice, and what the server makes otherwise of it, is reported, and the trial
    /// counts. Else it does not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_published: bool,
}

/// Any server: a command that starts it, and how to know that it is ready.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CommandTarget {
    /// `{dir}` stands for the private folder, `{port}` for a free one, `{clients}` for the most clients to come.
    pub start: Vec<String>,
    /// Run until it succeeds; `{dir}` and `{port}` as above.
    pub ready: Vec<String>,
    /// The load: `{dir}`, `{port}`, `{clients}`, `{seconds}`, `{seed}` and `{test}` are filled in.
    pub load: Vec<String>,
    /// A regular expression whose first group is the rate; its last match in the load's words counts.
    pub rate: String,
    /// The same for the 99th percentile of latency, in milliseconds.
    pub p99_ms: Option<String>,
    /// Seconds that the server may take until it is ready.
    #[serde(default = "default_start_s")]
    pub start_s: f64,
}

fn default_start_s() -> f64 {
    30.0
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// sysbench's test names or paths of Lua files; `oltp` is the embedded target's own.
    pub tests: Vec<Spanned<String>>,
    /// Seconds before the window, once every client is connected.
    #[serde(default = "default_warmup")]
    pub warmup: f64,
    /// Seconds of the measured window.
    pub seconds: f64,
    /// Seconds of rest after each trial, at the end of which idle memory is read.
    #[serde(default = "default_idle")]
    pub idle: f64,
    /// The longest wait for dirty pages and I/O to be quiet before a trial.
    #[serde(default = "default_settle")]
    pub settle_at_most: f64,
    #[serde(default = "default_tables")]
    pub tables: u32,
    #[serde(default = "default_rows")]
    pub rows: u64,
    #[serde(default = "default_percentile")]
    pub percentile: u32,
    #[serde(default = "default_ps_mode")]
    pub ps_mode: String,
    #[serde(default = "default_rand_type")]
    pub rand_type: String,
    /// `restore`: a prepared data directory is copied back for each life of a server; `fresh`: prepared anew each time.
    #[serde(default)]
    pub prepare: Prepare,
    /// Further options for sysbench.
    #[serde(default)]
    pub extra: Vec<String>,
    /// Which program acts as the clients of MariaDB. Without it: the lab's own for TPC-C, sysbench for its tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// TPC-C: warehouses.
    #[serde(default = "default_warehouses", skip_serializing_if = "is_default_warehouses")]
    pub warehouses: u32,
    /// TPC-C: the five transactions as stored procedures.
    #[serde(default, skip_serializing_if = "is_false")]
    pub procedures: bool,
    /// TPC-C: with the standard's keying and think times.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paced: bool,
    /// Open loop, with the lab's own driver: so many transactions a second, each counted from when it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How much of the tables the lab's own driver checks after a load and after each trial.
    #[serde(default, skip_serializing_if = "Checks::is_full")]
    pub checks: Checks,
}

impl Load {
    /// The program that acts as the clients.
    pub fn driver(&self) -> Driver {
        let tpcc = self.tests.iter().any(|t| t.get_ref() == TPCC);
        self.driver.unwrap_or(if tpcc { Driver::Evenkeel } else { Driver::Sysbench })
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    Evenkeel,
    Sysbench,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Checks {
    #[default]
    Full,
    Quick,
    None,
}

impl Checks {
    /// As the load programs have it.
    pub fn word(self) -> &'static str {
        match self {
            Checks::Full => "full",
            Checks::Quick => "quick",
            Checks::None => "none",
        }
    }

    fn is_full(&self) -> bool {
        *self == Checks::Full
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Prepare {
    #[default]
    Restore,
    Fresh,
}

fn default_warmup() -> f64 {
    5.0
}
fn default_idle() -> f64 {
    2.0
}
fn default_settle() -> f64 {
    60.0
}
fn default_tables() -> u32 {
    4
}
fn default_warehouses() -> u32 {
    1
}
fn is_default_warehouses(n: &u32) -> bool {
    *n == default_warehouses()
}
fn is_false(value: &bool) -> bool {
    !value
}
fn default_rows() -> u64 {
    100_000
}
fn default_percentile() -> u32 {
    99
}
fn default_ps_mode() -> String {
    "auto".into()
}
fn default_rand_type() -> String {
    "uniform".into()
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factors {
    /// Names of heaps, names from `[heaps]`, paths of libraries; `all` stands for every heap found.
    pub heap: Vec<Spanned<String>>,
    pub clients: Vec<Spanned<u32>>,
    /// CPUs of the server: `0-3`, or a plain number for the first so many.
    #[serde(default)]
    pub cpus: Vec<Spanned<String>>,
    #[serde(default)]
    pub engine: Vec<Spanned<String>>,
    /// `installed`, or names of `evenkeel fetch-server`, or prefixes.
    #[serde(default)]
    pub server: Vec<Spanned<String>>,
    /// Paths of configuration fragments, relative to the experiment's file.
    #[serde(default)]
    pub config: Vec<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NamedHeap {
    /// A name or a path.
    pub heap: Spanned<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Rounds {
    pub rounds: u32,
    pub seed: u64,
    /// The heap that the others are compared with; or the server, config, engine or CPUs, where these are what is compared.
    pub baseline: Option<Spanned<String>>,
    /// Measures the baseline twice in every round, as if it were two: the A/A pairs that tell the noise.
    pub twin: bool,
    /// A difference that would not matter, as a fraction; else it comes from the A/A pairs.
    pub margin: Option<f64>,
    /// Seconds that the whole may take: rounds are left out to keep to it.
    pub at_most: Option<f64>,
}

impl Default for Rounds {
    fn default() -> Self {
        Rounds { rounds: 5, seed: 1, baseline: None, twin: true, margin: None, at_most: None }
    }
}

/// Which cells are profiled, and for how long. Without variants or clients: those of the largest loss and those beside it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    pub rounds: u32,
    /// Of each phase: CPU, quiet, switches, quiet.
    pub seconds: f64,
    /// Variants, as the report names them.
    pub variants: Vec<String>,
    pub clients: Vec<u32>,
}

impl Default for Profile {
    fn default() -> Self {
        Profile { rounds: 3, seconds: 2.0, variants: Vec::new(), clients: Vec::new() }
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Placement {
    /// CPUs of the server; `auto` keeps server and client apart where there are CPUs enough.
    pub server: Option<String>,
    pub client: Option<String>,
}

impl Experiment {
    /// Reads and checks a text; `name` is the file's, for messages.
    pub fn read(name: &str, text: &str) -> Result<Experiment> {
        let experiment: Experiment = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |s| line_of(text, s.start));
            let advice = advice(e.message());
            wrong(format!("{name}:{line}: {}{advice}", e.message().trim_end()))
        })?;
        experiment.check(&|at: Place, what: String| wrong(format!("{name}:{}: {what}", at.line(text))))?;
        refuse_what_means_nothing(name, text, &experiment)?;
        Ok(experiment)
    }

    /// With paths relative to `folder`.
    pub fn within(self, folder: &Path) -> Experiment {
        Experiment { folder: folder.to_path_buf(), ..self }
    }

    /// A name, or a path made whole.
    pub fn beside(&self, name: &str) -> String {
        if name.contains('/') { self.folder.join(name).display().to_string() } else { name.to_string() }
    }

    /// Files that belong to the experiment: fragments of configuration and scripts of tests, relative to its folder.
    pub fn files(&self) -> Vec<&str> {
        let scripts = self.load.tests.iter().filter(|t| t.get_ref().ends_with(".lua"));
        scripts.chain(&self.factors.config).map(|f| f.get_ref().as_str()).filter(|f| !f.is_empty()).collect()
    }

    fn check(&self, bad: &dyn Fn(Place, String) -> anyhow::Error) -> Result<()> {
        let start = |s: &Spanned<String>| Place::At(s.span().start);
        if self.factors.heap.is_empty() {
            return Err(bad(Place::Key("factors.heap"), "factors.heap is empty: name a heap, or \"all\"".into()));
        }
        if self.factors.clients.is_empty() {
            return Err(bad(
                Place::Key("factors.clients"),
                "factors.clients is empty: give client counts, as [1, 8, 64]".into(),
            ));
        }
        if let Some(c) = self.factors.clients.iter().find(|c| !CLIENTS.contains(c.get_ref())) {
            let (least, most) = (CLIENTS.start(), CLIENTS.end());
            return Err(bad(Place::At(c.span().start), format!("{} clients: say {least} to {most}", c.get_ref())));
        }
        twice(self.factors.clients.iter().map(|c| (Place::At(c.span().start), c.get_ref().to_string())), bad)?;
        let factors = &self.factors;
        for list in [&factors.heap, &factors.cpus, &factors.engine, &factors.server, &factors.config, &self.load.tests]
        {
            twice(list.iter().map(|s| (start(s), s.get_ref().clone())), bad)?;
        }
        for file in self.load.tests.iter().filter(|t| t.get_ref().ends_with(".lua")).chain(&factors.config) {
            let path = Path::new(file.get_ref());
            if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                let what = "say a path below the experiment's folder: the results take a copy of it";
                return Err(bad(start(file), format!("{:?}: {what}", file.get_ref())));
            }
        }
        for cpus in &self.factors.cpus {
            if cpus.get_ref().parse() == Ok(0usize) {
                return Err(bad(start(cpus), "0 CPUs: a plain number is a count; CPU 0 is \"0-0\"".into()));
            }
            placement::parse(cpus.get_ref()).map_err(|e| bad(start(cpus), e.to_string()))?;
        }
        for (key, list) in [("placement.server", &self.placement.server), ("placement.client", &self.placement.client)]
        {
            if let Some(list) = list.as_ref().filter(|l| *l != "auto") {
                placement::parse(list).map_err(|e| bad(Place::Key(key), format!("{key}: {e}")))?;
            }
        }
        if self.load.tests.is_empty() {
            return Err(bad(Place::Key("load.tests"), "load.tests is empty: name a test".into()));
        }
        for test in &self.load.tests {
            let name = test.get_ref().as_str();
            let known = match &self.target {
                Target::Embedded(_) => ["oltp", TPCC].contains(&name),
                Target::Mariadb(_) if self.load.driver() == Driver::Evenkeel => OWN_TESTS.contains(&name),
                Target::Mariadb(_) => SYSBENCH_TESTS.contains(&name) || name.ends_with(".lua"),
                Target::Command(_) => true,
            };
            if !known {
                let tests = match &self.target {
                    Target::Embedded(_) => format!("oltp, {TPCC}"),
                    _ if self.load.driver() == Driver::Evenkeel => {
                        format!("{} with the lab's own driver (load.driver)", OWN_TESTS.join(", "))
                    }
                    _ => format!("{}, or the path of a Lua file", SYSBENCH_TESTS.join(", ")),
                };
                return Err(bad(start(test), format!("unknown test {name:?}: this target knows {tests}")));
            }
        }
        for (what, value, least) in [
            ("load.seconds", self.load.seconds, 0.1),
            ("load.warmup", self.load.warmup, 0.0),
            ("load.idle", self.load.idle, 0.0),
            ("load.settle_at_most", self.load.settle_at_most, 0.0),
        ] {
            if !(least..=86_400.0).contains(&value) {
                return Err(bad(Place::Key(what), format!("{what} is {value}: say {least} to 86400 seconds")));
            }
        }
        if !(1..=100).contains(&self.load.percentile) {
            return Err(bad(
                Place::Key("load.percentile"),
                format!("load.percentile is {}: say 1 to 100", self.load.percentile),
            ));
        }
        if !(1..=100_000).contains(&self.load.warehouses) {
            let what = format!("load.warehouses is {}: say 1 to 100000", self.load.warehouses);
            return Err(bad(Place::Key("load.warehouses"), what));
        }
        if self.load.rate.is_some_and(|r| !(0.001..=1e7).contains(&r)) {
            return Err(bad(Place::Key("load.rate"), "load.rate is a number of transactions a second".into()));
        }
        for (key, value) in [("load.tables", u64::from(self.load.tables)), ("load.rows", self.load.rows)] {
            if value == 0 {
                return Err(bad(Place::Key(key), format!("{key} must be at least 1")));
            }
        }
        if !(1..=1000).contains(&self.plan.rounds) {
            return Err(bad(Place::Key("plan.rounds"), format!("plan.rounds is {}: say 1 to 1000", self.plan.rounds)));
        }
        if self.plan.at_most.is_some_and(|s| !(1.0..=1e7).contains(&s)) {
            return Err(bad(Place::Key("plan.at_most"), "plan.at_most is a number of seconds".into()));
        }
        if let Some(profile) = &self.profile {
            if !(1..=100).contains(&profile.rounds) {
                let what = format!("profile.rounds is {}: say 1 to 100", profile.rounds);
                return Err(bad(Place::Key("profile.rounds"), what));
            }
            if !PHASE.contains(&profile.seconds) {
                let what = format!("profile.seconds is {}: say {} to {}", profile.seconds, PHASE.start(), PHASE.end());
                return Err(bad(Place::Key("profile.seconds"), what));
            }
            if let Some(n) = profile.clients.iter().find(|n| !self.factors.clients.iter().any(|c| c.get_ref() == *n)) {
                let what = format!("profile.clients: {n} is not among factors.clients");
                return Err(bad(Place::Key("profile.clients"), what));
            }
        }
        if self.plan.margin.is_some_and(|m| !(0.0..1.0).contains(&m)) {
            return Err(bad(Place::Key("plan.margin"), "plan.margin is a fraction: 0.05 means 5 %".into()));
        }
        if matches!(self.target, Target::Embedded(_)) {
            for (what, list) in [("engine", &self.factors.engine), ("server", &self.factors.server)] {
                if let Some(first) = list.first() {
                    return Err(bad(start(first), format!("factors.{what} means nothing to the embedded target")));
                }
            }
        }
        Ok(())
    }
}

/// Seconds that a phase of a profile may take.
pub const PHASE: RangeInclusive<f64> = 0.2..=600.0;

/// What the command line changes of an experiment; kept with the plan, so that a resumed sweep and a reader know it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Multiplies rows, seconds and the server's sizes, and fits counts of CPUs in: published parameters on a smaller machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heaps: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<u32>,
}

impl Changes {
    /// The same as options of `evenkeel sweep`.
    pub fn as_options(&self) -> String {
        let mut text = String::new();
        if let Some(scale) = self.scale {
            text += &format!(" --scale {scale}");
        }
        if let Some(rounds) = self.rounds {
            text += &format!(" --rounds {rounds}");
        }
        if let Some(seed) = self.seed {
            text += &format!(" --seed {seed}");
        }
        if !self.heaps.is_empty() {
            text += &format!(" --heap '{}'", self.heaps.join(","));
        }
        if !self.clients.is_empty() {
            let list: Vec<String> = self.clients.iter().map(u32::to_string).collect();
            text += &format!(" --clients {}", list.join(","));
        }
        text
    }
}

impl Experiment {
    /// The experiment with changes made; says in sentences what a reader must know of them.
    pub fn changed(mut self, changes: &Changes) -> Result<(Experiment, Vec<String>)> {
        let mut notes = Vec::new();
        let spanned = |s: &String| Spanned::new(0..0, s.clone());
        if let Some(scale) = changes.scale {
            if !(0.001..=1000.0).contains(&scale) {
                return Err(wrong(format!("--scale {scale}: say 0.001 to 1000")));
            }
            notes.push(self.scale(scale));
        }
        if let Some(rounds) = changes.rounds {
            if !(1..=1000).contains(&rounds) {
                return Err(wrong(format!("--rounds {rounds}: say 1 to 1000")));
            }
            self.plan.rounds = rounds;
        }
        if let Some(seed) = changes.seed {
            self.plan.seed = seed;
        }
        if !changes.heaps.is_empty() {
            self.factors.heap = changes.heaps.iter().map(spanned).collect();
            if self
                .plan
                .baseline
                .as_ref()
                .is_some_and(|b| !changes.heaps.contains(b.get_ref()) && !changes.heaps.contains(&"all".to_string()))
            {
                self.plan.baseline = None;
            }
        }
        if !changes.clients.is_empty() {
            let mut seen = BTreeSet::new();
            for clients in &changes.clients {
                if !CLIENTS.contains(clients) {
                    return Err(wrong(format!("--clients {clients}: say {} to {}", CLIENTS.start(), CLIENTS.end())));
                }
                if !seen.insert(clients) {
                    return Err(wrong(format!("--clients names {clients} twice; repeats are --rounds")));
                }
            }
            self.factors.clients = changes.clients.iter().map(|c| Spanned::new(0..0, *c)).collect();
        }
        Ok((self, notes))
    }
}

impl Experiment {
    /// Published parameters on a smaller machine; says in a sentence what became of them.
    fn scale(&mut self, scale: f64) -> String {
        let mut said = vec![];
        let fewer = |rows: u64| ((rows as f64 * scale) as u64).max(1_000);
        match &mut self.target {
            Target::Embedded(wish) => {
                wish.rows = wish.rows.map(fewer);
                said.extend(wish.rows.map(|rows| format!("{rows} rows")));
            }
            Target::Mariadb(wish) => {
                let load = &mut self.load;
                if load.tests.iter().any(|t| t.get_ref() == TPCC) {
                    load.warehouses = ((f64::from(load.warehouses) * scale).ceil() as u32).max(1);
                    said.push(format!("{} warehouses", load.warehouses));
                }
                if load.tests.iter().any(|t| t.get_ref() != TPCC) {
                    load.rows = fewer(load.rows);
                    said.push(format!("{} rows a table", load.rows));
                }
                for (key, value) in &mut wish.options {
                    if let Some(less) = value.as_str().and_then(|v| scaled_size(v, scale)) {
                        said.push(format!("{key} {less}"));
                        *value = less.into();
                    }
                }
            }
            Target::Command(_) => {}
        }
        let load = &mut self.load;
        load.seconds = (load.seconds * scale).max(2.0f64.min(load.seconds));
        load.warmup = (load.warmup * scale).max(1.0f64.min(load.warmup));
        load.idle = (load.idle * scale).max(0.5f64.min(load.idle));
        said.push(format!("windows of {:.1} s", load.seconds));
        let have = placement::allowed().len();
        let most = self.factors.cpus.iter().filter_map(|c| c.get_ref().parse::<usize>().ok()).max().unwrap_or(0);
        if most > have {
            let mut counts: Vec<usize> = Vec::new();
            for wish in self.factors.cpus.iter().filter_map(|c| c.get_ref().parse::<usize>().ok()) {
                let count = ((wish * have) as f64 / most as f64).round().max(1.0) as usize;
                if !counts.contains(&count) {
                    counts.push(count);
                }
            }
            said.push(format!(
                "the server on {} CPUs",
                counts.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
            ));
            self.factors.cpus = counts.iter().map(|c| Spanned::new(0..0, c.to_string())).collect();
        }
        format!(
            "Scaled by {scale} for this machine: {}; the unscaled parameters are in the experiment.",
            said.join(", ")
        )
    }
}

/// A size as `20G`, smaller; at least 32 MiB, and as it was if it was less.
fn scaled_size(text: &str, scale: f64) -> Option<String> {
    let unit = match text.chars().last()?.to_ascii_uppercase() {
        'M' => 1.0,
        'G' => 1024.0,
        _ => return None,
    };
    let mib = text[..text.len() - 1].parse::<f64>().ok()? * unit;
    Some(format!("{}M", (mib * scale).round().max(32.0f64.min(mib))))
}

const CLIENTS: RangeInclusive<u32> = 1..=65_536;

/// TPC-C, by its name in experiments.
pub const TPCC: &str = "tpcc";

/// What the lab's own driver knows.
const OWN_TESTS: [&str; 9] = [
    TPCC,
    "oltp_read_only",
    "oltp_read_write",
    "oltp_point_select",
    "oltp_update_non_index",
    "oltp_update_index",
    "oltp_insert",
    "oltp_delete",
    "oltp_write_only",
];

pub const SYSBENCH_TESTS: [&str; 10] = [
    "oltp_read_only",
    "oltp_read_write",
    "oltp_point_select",
    "oltp_update_non_index",
    "oltp_update_index",
    "oltp_insert",
    "oltp_delete",
    "oltp_write_only",
    "select_random_points",
    "select_random_ranges",
];

fn twice(items: impl Iterator<Item = (Place, String)>, bad: &dyn Fn(Place, String) -> anyhow::Error) -> Result<()> {
    let mut seen = BTreeSet::new();
    for (at, item) in items {
        if !seen.insert(item.clone()) {
            return Err(bad(at, format!("{item} stands here twice; repeats are plan.rounds")));
        }
    }
    Ok(())
}

/// What an error is about: a place in the text, or the key `table.name`.
enum Place {
    At(usize),
    Key(&'static str),
}

impl Place {
    fn line(&self, text: &str) -> usize {
        match self {
            Place::At(at) => line_of(text, *at),
            Place::Key(key) => line_of_key(text, key).unwrap_or(1),
        }
    }
}

/// The line on which a key of a table is given a value.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let (table, name) = key.split_once('.')?;
    let is_table = |l: &str| l.trim().strip_prefix('[').is_some_and(|l| l.split(']').next() == Some(table));
    let first = text.lines().position(is_table)?;
    let is_key = |l: &str| l.split_once('=').is_some_and(|(k, _)| k.trim() == name);
    let inside = text.lines().skip(first + 1).take_while(|l| !l.trim_start().starts_with('['));
    inside.into_iter().position(is_key).map(|at| first + 1 + at + 1)
}

/// Keys that a target would pass over in silence.
fn refuse_what_means_nothing(name: &str, text: &str, experiment: &Experiment) -> Result<()> {
    const OF_SYSBENCH: [&str; 7] =
        ["load.tables", "load.rows", "load.percentile", "load.ps_mode", "load.rand_type", "load.prepare", "load.extra"];
    const OF_OWN: [&str; 6] =
        ["load.driver", "load.warehouses", "load.procedures", "load.paced", "load.rate", "load.checks"];
    let (target, more): (&str, &[&str]) = match experiment.target {
        Target::Mariadb(_) => return refuse_what_the_driver_does_not_know(name, text, experiment),
        Target::Embedded(_) => ("embedded", &["placement.client"]),
        Target::Command(_) => ("command", &[]),
    };
    let embedded = matches!(experiment.target, Target::Embedded(_));
    let tpcc = embedded && experiment.load.tests.iter().any(|t| t.get_ref() == TPCC);
    let of_own: &[&str] = if tpcc { &["load.driver", "load.procedures", "load.rate"] } else { &OF_OWN };
    match OF_SYSBENCH.iter().chain(of_own).chain(more).find_map(|key| Some((key, line_of_key(text, key)?))) {
        Some((key, line)) => {
            Err(wrong(format!("{name}:{line}: {key} means nothing to the {target} target; remove the line")))
        }
        None => Ok(()),
    }
}

/// Keys that only the other program for MariaDB knows.
fn refuse_what_the_driver_does_not_know(name: &str, text: &str, experiment: &Experiment) -> Result<()> {
    let tpcc = experiment.load.tests.iter().all(|t| t.get_ref() == TPCC);
    let (driver, keys): (&str, &[&str]) = match experiment.load.driver() {
        Driver::Sysbench => {
            ("sysbench", &["load.warehouses", "load.procedures", "load.paced", "load.rate", "load.checks"])
        }
        Driver::Evenkeel if tpcc => {
            ("TPC-C", &["load.percentile", "load.ps_mode", "load.extra", "load.tables", "load.rows", "load.rand_type"])
        }
        Driver::Evenkeel => ("the lab's own driver", &["load.percentile", "load.ps_mode", "load.extra"]),
    };
    match keys.iter().find_map(|key| Some((key, line_of_key(text, key)?))) {
        Some((key, line)) => Err(wrong(format!("{name}:{line}: {key} means nothing to {driver}; remove the line"))),
        None => Ok(()),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// serde says what it found; here is what to do.
fn advice(message: &str) -> &'static str {
    if message.contains("unknown field") {
        "; mend the spelling or remove the line"
    } else if message.contains("missing field") {
        "; add it to this table"
    } else if message.contains("unknown variant") {
        "; use one of those"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
title = "t"
[target.embedded]
rows = 1000
[load]
tests = ["oltp"]
seconds = 1.5
[factors]
heap = ["glibc", "all"]
clients = [1, 8]
[heaps.one-arena]
heap = "glibc"
env = { GLIBC_TUNABLES = "glibc.malloc.arena_max=1" }
"#;

    fn error(text: &str) -> String {
        let e = Experiment::read("x.toml", text).unwrap_err();
        assert!(e.is::<crate::wrong::Wrong>());
        e.to_string()
    }

    #[test]
    fn a_good_one_is_read() {
        let e = Experiment::read("x.toml", GOOD).unwrap();
        assert_eq!((e.plan.rounds, e.plan.twin, e.load.seconds), (5, true, 1.5));
        assert!(matches!(&e.target, Target::Embedded(t) if t.rows == Some(1000)));
        assert_eq!(e.heaps["one-arena"].heap.get_ref(), "glibc");
    }

    #[test]
    fn a_scaled_one_says_what_it_became() {
        let text = GOOD
            .replace("[target.embedded]\nrows = 1000", "[target.mariadb.options]\na = \"20G\"\nb = \"16M\"\nc = 5")
            .replace("\"oltp\"]", "\"oltp_read_only\"]\nrows = 50_000")
            .replace("clients = [1, 8]", "clients = [1, 8]\ncpus = [\"400\", \"800\"]");
        let changes = Changes { scale: Some(0.1), ..Changes::default() };
        let (e, notes) = Experiment::read("x.toml", &text).unwrap().changed(&changes).unwrap();
        let have = placement::allowed().len();
        let half = (have as f64 / 2.0).round().max(1.0) as usize;
        let cpus: Vec<&str> = e.factors.cpus.iter().map(|c| c.get_ref().as_str()).collect();
        assert_eq!(cpus.last().copied(), Some(have.to_string().as_str()));
        assert_eq!(cpus[0], half.to_string());
        assert_eq!((e.load.rows, e.load.seconds), (5_000, 1.5));
        assert!(
            notes[0].starts_with(
                "Scaled by 0.1 for this machine: 5000 rows a table, a 2048M, b 16M, windows of 1.5 s, the server on"
            ),
            "{}",
            notes[0]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let with = |from: &str, to: &str| error(&GOOD.replace(from, to));
        for (from, to, line, what) in [
            ("rows = 1000", "rwos = 1000", 4, "unknown field `rwos`"),
            ("[target.embedded]", "[target.postgres]", 3, "unknown variant `postgres`"),
            ("title = \"t\"", "", 1, "missing field `title`"),
            ("\"oltp\"", "\"oltp_read_only\"", 6, "unknown test"),
            ("seconds = 1.5", "seconds = \"long\"", 7, "invalid type"),
            ("clients = [1, 8]", "clients = [1, 8, 8]", 10, "8 stands here twice"),
            ("clients = [1, 8]", "clients = [0]", 10, "0 clients"),
            ("title = \"t\"", "title = ", 2, ""),
        ] {
            let said = with(from, to);
            assert!(said.starts_with(&format!("x.toml:{line}: ")) && said.contains(what), "{said}");
        }
        assert!(with("clients = [1, 8]", "clients = []").contains("x.toml:10: factors.clients is empty"));
        assert!(with("seconds = 1.5", "seconds = 1.5\nrows = 5").contains("x.toml:8: load.rows means nothing"));
        assert!(with("clients = [1, 8]", "clients = [1]\ncpus = [\"0\"]").contains("x.toml:11: 0 CPUs"));
        assert!(with("clients = [1, 8]", "clients = [1]\nconfig = [\"../a.cnf\"]").contains("below the experiment"));
        assert!(with("clients = [1, 8]", "clients = [1]\nengine = [\"InnoDB\"]").contains("embedded"));
        assert!(with("seconds = 1.5", "seconds = -1").contains("load.seconds"));
    }
}
