//! The server's configuration: what the load needs, then what the experiment wishes, then the fragment that is varied. What is asked
//! for twice is reported, and what the server made of each wish is compared with it.
//!
//! Names are kept as the server's variables have them: `-` is `_`, and `loose_` is left out.

use crate::record::Proof;
use crate::wrong::wrong;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One wish of the experiment.
#[derive(Clone, Debug, PartialEq)]
struct Wish {
    key: String,
    /// None: the name alone, which turns it on.
    value: Option<String>,
    /// In which of the two texts it stands, for duplicates.
    source: String,
    line: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// What the lab and the load need: paths, and room for all clients.
    base: Vec<(String, String)>,
    /// Which of `base` are sizes that may be larger than asked for.
    least: Vec<&'static str>,
    wishes: Vec<Wish>,
    /// The wishes as they are written into my.cnf.
    text: String,
}

/// The groups of an option file that the server reads.
const GROUPS: [&str; 5] = ["mysqld", "server", "mariadb", "mariadbd", "galera"];

/// What the lab alone decides: a wish for one of these could lead it to somebody's data, or lead somebody to its server.
const OURS: [&str; 9] =
    ["datadir", "socket", "pid_file", "basedir", "tmpdir", "skip_networking", "port", "bind_address", "user"];

/// Options that may well be given more than once.
const REPEATABLE: [&str; 4] = ["plugin_load_add", "binlog_do_db", "binlog_ignore_db", "performance_schema_instrument"];

impl Config {
    pub fn new(options: &BTreeMap<String, toml::Value>, fragment: Option<&Path>) -> Result<Config> {
        let mut config = Config::default();
        let source = "[target.mariadb] options";
        for (key, value) in options {
            let values = match value {
                toml::Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            for value in values {
                let value = match value {
                    toml::Value::String(text) => text.clone(),
                    toml::Value::Integer(n) => n.to_string(),
                    toml::Value::Float(n) => n.to_string(),
                    toml::Value::Boolean(on) => if *on { "ON" } else { "OFF" }.to_string(),
                    _ => return Err(wrong(format!("{source}: {key}: say a text, a number, true or false"))),
                };
                config.text.push_str(&format!("{key} = {value}\n"));
                config.wishes.push(Wish { key: name(key), value: Some(value), source: source.into(), line: 0 });
            }
        }
        if let Some(path) = fragment {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            config.wishes.extend(read(&file, &text)?);
            config.text.push_str(&format!("# {file}\n{}\n", text.trim_end()));
        }
        if let Some(wish) = config.wishes.iter().find(|w| OURS.contains(&w.key.as_str())) {
            return Err(wrong(format!("{}: {} is for the lab to set; remove it", wish.place(), wish.key)));
        }
        Ok(config)
    }

    /// What the experiment wishes, without what the lab adds: it decides what prepared data look like.
    pub fn wished(&self) -> &str {
        &self.text
    }

    /// Something the lab needs, unless the experiment says it otherwise.
    pub fn need(&mut self, key: &str, value: impl ToString) {
        if !self.wishes.iter().any(|w| w.key == name(key)) {
            self.base.push((key.into(), value.to_string()));
        }
    }

    /// The same for room: more is as good.
    pub fn need_at_least(&mut self, key: &'static str, value: u64) {
        self.need(key, value);
        self.least.push(key);
    }

    /// The option file.
    pub fn file(&self) -> String {
        let base: String = self.base.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!("[mysqld]\n{base}# The experiment's.\n{}", self.text)
    }

    /// A name that stands twice in one text with different values: which one did its author mean? What the fragment says again is
    /// meant so, and only told.
    pub fn duplicates(&self) -> Proof {
        let mut found = Vec::new();
        let mut holds = true;
        for (at, wish) in self.wishes.iter().enumerate().filter(|(_, w)| !repeatable(&w.key)) {
            for earlier in self.wishes[..at].iter().filter(|e| e.key == wish.key) {
                let same = same(&earlier.value(), &wish.value());
                holds &= same || earlier.source != wish.source;
                let (key, first, last) = (&wish.key, earlier.value(), wish.value());
                found.push(format!("{key} is {first} in {} and {last} in {}", earlier.place(), wish.place()));
            }
        }
        let found = if found.is_empty() { "no".to_string() } else { found.join("; ") };
        Proof { what: "configuration says something twice".into(), wanted: "no".into(), found, holds }
    }

    /// What is in effect against what was wished. As someone published it, a wish is only reported.
    pub fn in_effect(&self, variables: &BTreeMap<String, String>, as_published: bool) -> Vec<Proof> {
        let mut last: BTreeMap<&str, String> = BTreeMap::new();
        for wish in self.wishes.iter().filter(|w| !repeatable(&w.key)) {
            last.insert(&wish.key, wish.value());
        }
        let wished = last.into_iter().map(|(key, value)| {
            let proof = effect(key, &value, variables, false);
            Proof { holds: proof.holds || as_published, ..proof }
        });
        let needed = self.base.iter().filter(|(key, _)| self.least.contains(&key.as_str()));
        let needed = needed.map(|(key, value)| effect(&name(key), value, variables, true));
        needed.chain(wished).collect()
    }
}

impl Wish {
    fn place(&self) -> String {
        if self.line == 0 { self.source.clone() } else { format!("{}:{}", self.source, self.line) }
    }

    fn value(&self) -> String {
        self.value.clone().unwrap_or_else(|| "ON".into())
    }
}

fn repeatable(key: &str) -> bool {
    REPEATABLE.contains(&key) || key.starts_with("replicate_")
}

fn name(key: &str) -> String {
    let key = key.trim().replace('-', "_");
    key.strip_prefix("loose_").map_or(key.clone(), str::to_string)
}

/// The lines of a fragment that the server will read. Without a group they belong to the server.
fn read(file: &str, text: &str) -> Result<Vec<Wish>> {
    let mut wishes = Vec::new();
    let mut ours = true;
    for (line, text) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if text.starts_with('!') {
            let what = "other files are not followed; put their lines here, so that the result has them";
            return Err(wrong(format!("{file}:{line}: {what}")));
        }
        if let Some(group) = text.strip_prefix('[') {
            let group = group.split(']').next().unwrap_or_default();
            if GROUPS.iter().any(|g| group.strip_prefix(g).is_some_and(|rest| rest.starts_with('-'))) {
                let what = "a group for one release; put its lines into [mysqld], or into a fragment for that release";
                return Err(wrong(format!("{file}:{line}: [{group}]: {what}")));
            }
            ours = GROUPS.contains(&group);
        } else if ours {
            let (key, value) = match text.split_once('=') {
                Some((key, value)) => (key, Some(bare(value))),
                None => (text.split(" #").next().unwrap_or(text), None),
            };
            wishes.push(Wish { key: name(key), value, source: file.into(), line });
        }
    }
    Ok(wishes)
}

/// A value without its comment and its quotes.
fn bare(value: &str) -> String {
    let value = value.trim();
    for quote in ['\'', '"'] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|v| v.split(quote).next()) {
            return inner.to_string();
        }
    }
    value.split(" #").next().unwrap_or(value).trim_end().to_string()
}

fn effect(key: &str, wanted: &str, variables: &BTreeMap<String, String>, at_least: bool) -> Proof {
    let what = format!("variable {key}");
    // `skip_x` is a variable of its own, or the opposite of x.
    let opposite = ["skip_", "disable_"].iter().find_map(|p| key.strip_prefix(p));
    let (found, holds) = match (variables.get(key), opposite.and_then(|k| variables.get(k))) {
        (Some(found), _) if at_least => (found.clone(), number(found) >= number(wanted)),
        (Some(found), _) => (found.clone(), same_variable(key, wanted, found)),
        (None, Some(found)) => (found.clone(), same(found, "OFF") == same(wanted, "ON")),
        // The server refuses to start with an option that it does not know, so this one it knows and does not show.
        (None, None) => ("no variable shows it".into(), true),
    };
    let wanted = if at_least { format!("{wanted} or more") } else { wanted.to_string() };
    Proof { what, wanted, found, holds }
}

fn same_variable(key: &str, wanted: &str, found: &str) -> bool {
    // Only the named switches were wished.
    if key == "optimizer_switch" {
        let found: Vec<&str> = found.split(',').collect();
        return wanted.split(',').all(|w| found.contains(&w.trim()));
    }
    same(wanted, found)
}

/// Whether two spellings mean one value.
fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim(), b.trim());
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return a == b;
    }
    let list = |text: &str| {
        let mut items: Vec<String> =
            text.split(',').map(|i| i.trim().trim_end_matches('/').to_ascii_lowercase()).collect();
        items.sort();
        items
    };
    list(a) == list(b)
}

/// A number with the server's suffixes, or a switch.
fn number(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "on" | "true" | "yes" => return Some(1.0),
        "off" | "false" | "no" => return Some(0.0),
        _ => {}
    }
    let power = "kmgtpe".find(text.chars().last()?);
    let digits = if power.is_some() { &text[..text.len() - 1] } else { text.as_str() };
    let plain = digits.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    let number: f64 = digits.parse().ok().filter(|_| plain)?;
    Some(number * 1024f64.powi(power.map_or(0, |p| p as i32 + 1)))
}
