//! The CSV file: one line per trial, written as it ends, with the machine's facts in comments above.

use crate::trial::HUNG_AT_END;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What a trial left. Figures that its workload does not give are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub round: u32,
    pub order: u32,
    pub work: String,
    pub heap: String,
    pub version: String,
    pub status: String,
    pub figures: Vec<Option<f64>>,
}

/// The columns of figures, by the names the workloads print them under.
pub const FIGURES: [&str; 21] = [
    "threads",
    "ops",
    "cpu_ns_per_op",
    "wall_s",
    "rss_kib",
    "peak_kib",
    "p50_ns",
    "p999_ns",
    "p9999_ns",
    "max_ns",
    "full_kib",
    "soon_kib",
    "late_kib",
    "start_us",
    "glibc_us",
    "delta_us",
    "hangs",
    "crashes",
    "displaced",
    "others_pct",
    "hop_ns",
];

/// Percent of the machine that others may use beside a calm trial.
const OTHERS_AT_MOST: f64 = 10.0;
/// Times the shortest round trip between two CPUs of the whole run. Near and far differ by a factor of four.
const HOP_AT_MOST: f64 = 2.5;

/// The shortest round trip between two CPUs among these trials.
pub fn nearest(records: &[Record]) -> Option<f64> {
    records.iter().filter_map(|r| r.figure("hop_ns")).min_by(f64::total_cmp)
}

impl Record {
    pub fn figure(&self, name: &str) -> Option<f64> {
        let at = FIGURES.iter().position(|f| *f == name)?;
        *self.figures.get(at)?
    }

    /// Do its figures count? They do when the workload hung only after all was measured.
    pub fn was_measured(&self) -> bool {
        self.status == "ok" || self.status == HUNG_AT_END
    }

    /// Was the machine quiet, and were its CPUs as near to each other as they were at best?
    pub fn was_calm(&self, nearest: Option<f64>) -> bool {
        let alone = self.figure("others_pct").is_none_or(|o| o <= OTHERS_AT_MOST);
        let near = match (self.figure("hop_ns"), nearest) {
            (Some(hop), Some(nearest)) => hop <= HOP_AT_MOST * nearest,
            _ => true,
        };
        alone && near
    }

    pub fn set(&mut self, name: &str, value: Option<f64>) {
        if let Some(at) = FIGURES.iter().position(|f| *f == name) {
            self.figures[at] = value;
        }
    }

    fn line(&self) -> String {
        let mut line = format!(
            "{},{},{},{},{},{}",
            self.round,
            self.order,
            self.work,
            self.heap,
            plain(&self.version),
            plain(&self.status)
        );
        for figure in &self.figures {
            match figure {
                Some(value) => write!(line, ",{value}").unwrap_or(()),
                None => line.push(','),
            }
        }
        line
    }
}

/// A text that needs no quoting.
fn plain(text: &str) -> String {
    text.replace([',', '\n', '"'], " ")
}

fn head() -> String {
    format!("round,order,work,heap,version,status,{}", FIGURES.join(","))
}

/// The figures of a workload's line, in the order of the columns.
pub fn figures(words: &[(&str, &str)]) -> Vec<Option<f64>> {
    FIGURES
        .iter()
        .map(|name| {
            let (_, text) = words.iter().find(|(key, _)| key == name)?;
            text.parse().ok()
        })
        .collect()
}

pub struct Writer {
    file: File,
    path: PathBuf,
}

impl Writer {
    pub fn create(path: &Path, facts: &[(String, String)]) -> Result<Writer, String> {
        let say = |why: std::io::Error| format!("{}: {why}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(say)?;
        }
        let mut writer = Writer { file: File::create(path).map_err(say)?, path: path.into() };
        for (key, value) in facts {
            writer.put(&format!("# {key}: {value}"))?;
        }
        writer.put(&head())?;
        Ok(writer)
    }

    pub fn add(&mut self, record: &Record) -> Result<(), String> {
        self.put(&record.line())
    }

    /// No buffer: a run that is broken off leaves all its trials behind.
    fn put(&mut self, line: &str) -> Result<(), String> {
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(|why| format!("{}: {why}", self.path.display()))
    }
}

pub struct Results {
    pub facts: Vec<(String, String)>,
    pub records: Vec<Record>,
}

impl Results {
    /// How many rounds were done, what was disturbed and done once more left aside.
    pub fn rounds(&self) -> u32 {
        let done = self.records.iter().map(|r| r.round).max().unwrap_or(0);
        self.fact("rounds").parse().map_or(done, |planned: u32| planned.min(done))
    }

    pub fn fact(&self, name: &str) -> &str {
        self.facts.iter().find(|(key, _)| key == name).map_or("unknown", |(_, value)| value)
    }
}

pub fn read(path: &Path) -> Result<Results, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&text).map_err(|why| format!("{}: {why}", path.display()))
}

/// Columns are found by name, so that files with fewer or other figures can still be read.
pub fn parse(text: &str) -> Result<Results, String> {
    let mut facts = vec![];
    let mut records = vec![];
    let mut columns: Option<Vec<&str>> = None;
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: &str| format!("line {}: {why}", number + 1);
        if let Some(comment) = line.strip_prefix('#') {
            if let Some((key, value)) = comment.split_once(':') {
                facts.push((key.trim().into(), value.trim().into()));
            }
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.split(',').collect();
        let Some(names) = &columns else {
            if !cells.contains(&"work") || !cells.contains(&"heap") {
                return Err(wrong("expected the names of the columns"));
            }
            columns = Some(cells);
            continue;
        };
        if cells.len() != names.len() {
            return Err(wrong(&format!("{} cells under {} names", cells.len(), names.len())));
        }
        let cell = |name: &str| {
            let at = names.iter().position(|n| *n == name)?;
            Some(cells[at].trim()).filter(|c| !c.is_empty())
        };
        let text = |name: &str| cell(name).unwrap_or("").to_string();
        let count =
            |name: &str| cell(name).unwrap_or("0").parse::<u32>().map_err(|_| wrong(&format!("{name} is no number")));
        let mut figures = vec![];
        for name in FIGURES {
            figures.push(match cell(name) {
                None => None,
                Some(value) => Some(value.parse::<f64>().map_err(|_| wrong(&format!("{name} is no number")))?),
            });
        }
        records.push(Record {
            round: count("round")?,
            order: count("order")?,
            work: text("work"),
            heap: text("heap"),
            version: text("version"),
            status: text("status"),
            figures,
        });
    }
    if columns.is_none() {
        return Err("no names of columns".into());
    }
    Ok(Results { facts, records })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        Record {
            round: 2,
            order: 17,
            work: "pair".into(),
            heap: "glibc".into(),
            version: "2.36".into(),
            status: "ok".into(),
            figures: figures(&[("threads", "1"), ("cpu_ns_per_op", "5.25"), ("other", "9")]),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = format!("# machine: a: b, 2 CPUs\n{}\n{}\n", head(), sample().line());
        let results = parse(&text).unwrap();
        assert_eq!(results.records, [sample()]);
        assert_eq!(results.fact("machine"), "a: b, 2 CPUs");
        assert_eq!(results.records[0].figure("cpu_ns_per_op"), Some(5.25));
        assert_eq!(results.records[0].figure("rss_kib"), None);
        assert_eq!(results.records[0].figure("no such thing"), None);
    }

    #[test]
    fn calm_is_quiet_and_near() {
        let trial = |others: &str, hop: &str| Record {
            figures: figures(&[("others_pct", others), ("hop_ns", hop)]),
            ..sample()
        };
        let all = [trial("0", "80"), trial("0", "320"), trial("40", "90")];
        let nearest = nearest(&all);
        assert_eq!(nearest, Some(80.0));
        let calm: Vec<bool> = all.iter().map(|r| r.was_calm(nearest)).collect();
        assert_eq!(calm, [true, false, false]);
        assert!(sample().was_calm(None));
    }

    #[test]
    fn a_comma_in_a_status_does_no_harm() {
        let mut record = sample();
        record.status = "exit 1, \"bad\"".into();
        let results = parse(&format!("{}\n{}\n", head(), record.line())).unwrap();
        assert_eq!(results.records[0].figure("threads"), Some(1.0));
    }

    #[test]
    fn other_columns_are_passed_over() {
        let text = "work,heap,status,wall_s,colour\npair,x,ok,0.5,red\n";
        let results = parse(text).unwrap();
        assert_eq!(results.records[0].figure("wall_s"), Some(0.5));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let why = |text: &str| parse(text).err().unwrap();
        assert!(why("").contains("names"));
        assert!(why("1,2,3\n").contains("line 1"));
        assert!(why("work,heap,status,wall_s\npair,x,ok\n").contains("line 2"));
        assert!(why("work,heap,status,wall_s\npair,x,ok,fast\n").contains("wall_s"));
    }
}
