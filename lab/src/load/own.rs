//! The lab's own driver, `evenkeel-driver`, as the load: TPC-C and sysbench's OLTP tests, thousands of clients in one process.
//!
//! It prints JSON, one event a line: `begun` once all clients work, `second`s, `result`, and `checked` after it has looked whether the tables
//! are whole. What it counts belongs to its own window, which opens a moment before the lab's.

use super::{Driver, Report, Run, Running, Test, last_error, raise_open_files};
use crate::experiment::TPCC;
use crate::placement;
use crate::record::{Figures, Proof};
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = "evenkeel-driver";

pub struct Own {
    program: PathBuf,
}

impl Own {
    pub fn find() -> Result<Own> {
        let own = std::env::current_exe().context("cannot tell where this program lies")?;
        // Tests run from target/release/deps.
        let near = own.ancestors().skip(1).take(2).map(|d| d.join(PROGRAM)).find(|p| p.is_file());
        let program = near.ok_or_else(|| {
            wrong(format!("{PROGRAM} is not beside {}; build it: cargo build --release -p {PROGRAM}", own.display()))
        })?;
        Ok(Own { program })
    }

    fn command(&self, verb: &str, test: &Test) -> Command {
        let mut command = Command::new(&self.program);
        let load = test.load;
        command
            .arg(verb)
            .args(["--test", test.name])
            .arg("--socket")
            .arg(test.socket)
            .args(["--checks", load.checks.word()]);
        if test.name != TPCC {
            command.args(["--tables", &load.tables.to_string(), "--table-size", &load.rows.to_string()]);
            command.args(["--distribution", &load.rand_type]);
        }
        command
    }
}

impl Driver for Own {
    fn name(&self) -> &'static str {
        PROGRAM
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn database(&self, test: &str) -> &'static str {
        if test == TPCC { "tpcc" } else { "sbtest" }
    }

    fn prepare(&self, test: &Test) -> Result<()> {
        let mut command = self.command("prepare", test);
        command.args(["--engine", test.engine]).args(["--loaders", &placement::allowed().len().max(1).to_string()]);
        if test.name == TPCC {
            command.args(["--warehouses", &test.load.warehouses.to_string()]);
        }
        let out = command.stdin(Stdio::null()).output().context("cannot start the driver")?;
        if !out.status.success() {
            let text = [out.stdout, out.stderr].concat();
            bail!("{PROGRAM} prepare ({}): {}", out.status, last_error(&String::from_utf8_lossy(&text)));
        }
        Ok(())
    }

    fn run(&self, test: &Test, run: &Run, output: &Path) -> Result<Running> {
        raise_open_files(u64::from(run.clients) + 256);
        let mut command = self.command("run", test);
        let seconds = (run.window + run.slack).as_secs_f64();
        command.args(["--json", "--clients", &run.clients.to_string(), "--seed", &run.seed.to_string()]).args([
            "--seconds",
            &seconds.to_string(),
            "--warmup",
            &run.warmup.as_secs_f64().to_string(),
        ]);
        if let Some(rate) = test.load.rate {
            command.args(["--rate", &rate.to_string()]);
        }
        if test.load.procedures {
            command.arg("--procedures");
        }
        if test.load.paced {
            command.arg("--paced");
        }
        Running::start(&mut command, run.cpus, output)
    }

    fn started(&self, said: &str) -> bool {
        said.contains("\"event\":\"begun\"")
    }

    fn report(&self, said: &str) -> Report {
        let events: Vec<Value> = said.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
        let find = |name: &str| events.iter().rev().find(|e| e["event"] == name);
        let checked = find("checked");
        let mut report = Report {
            reconnects: Some(0.0),
            proofs: vec![Proof {
                what: "data whole after the trial".into(),
                wanted: "yes".into(),
                found: checked.and_then(|c| c["what"].as_str()).unwrap_or("the load did not say").to_string(),
                holds: checked.is_some_and(|c| c["holds"] == true),
            }],
            ..Report::default()
        };
        let Some(result) = find("result") else {
            report.marks.push("the load gave no figures".into());
            return report;
        };
        report.figures = figures(result);
        let errors = report.figures.errors.unwrap_or(0.0);
        report.proofs.push(Proof {
            what: "transactions that failed for good".into(),
            wanted: "0".into(),
            found: errors.to_string(),
            holds: errors == 0.0,
        });
        report
    }

    /// Full checks read every row of the larger tables.
    fn to_end(&self) -> Duration {
        Duration::from_secs(600)
    }
}

/// The figures of a `result`, as the driver and the embedded load word it.
pub fn figures(result: &Value) -> Figures {
    let number = |name: &str| result[name].as_f64();
    let latency = |name: &str| result["latency_ms"][name].as_f64();
    let of_kind = |kind: &str, name: &str| result["kinds"][kind]["latency_ms"][name].as_f64();
    let errors = result["errors"].as_object();
    Figures {
        tps_reported: number("tps"),
        latency_mean_ms: latency("mean"),
        latency_p50_ms: latency("p50"),
        latency_p95_ms: latency("p95"),
        latency_p99_ms: latency("p99"),
        latency_p999_ms: latency("p999"),
        errors: errors.map(|e| e.values().filter_map(Value::as_f64).fold(0.0, |a, b| a + b)),
        retries: number("retries"),
        nopm: number("nopm"),
        tpm: number("tpm"),
        neworder_mean_ms: of_kind("new_order", "mean"),
        neworder_p95_ms: of_kind("new_order", "p95"),
        payment_mean_ms: of_kind("payment", "mean"),
        payment_p95_ms: of_kind("payment", "p95"),
        delivery_mean_ms: of_kind("delivery", "mean"),
        delivery_p95_ms: of_kind("delivery", "p95"),
        ..Figures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_says_becomes_figures_and_proofs() {
        let said = concat!(
            "{\"event\":\"ready\",\"driver\":\"x\"}\n",
            "{\"event\":\"begun\",\"clients\":8,\"connect_s\":0.1}\n",
            "{\"event\":\"result\",\"tps\":100.5,\"nopm\":2700.0,\"tpm\":6030.0,\"errors\":{\"1213\":2},\"retries\":3,",
            "\"latency_ms\":{\"mean\":1.5,\"p50\":1,\"p95\":3,\"p99\":4,\"p999\":5,\"max\":9},",
            "\"kinds\":{\"new_order\":{\"latency_ms\":{\"mean\":7.5,\"p95\":8.5}}}}\n",
            "{\"event\":\"checked\",\"holds\":true,\"what\":\"all hold\"}\n",
        );
        let own = Own { program: "x".into() };
        assert!(own.started(said) && !own.started("{\"event\":\"ready\"}"));
        let report = own.report(said);
        let f = &report.figures;
        assert_eq!(
            (f.tps_reported, f.nopm, f.neworder_p95_ms, f.errors),
            (Some(100.5), Some(2700.0), Some(8.5), Some(2.0))
        );
        assert_eq!(report.proofs.iter().map(|p| p.holds).collect::<Vec<_>>(), [true, false]);
        let cut = own.report("{\"event\":\"begun\"}\n");
        assert!(!cut.proofs[0].holds && cut.marks.len() == 1 && cut.figures.nopm.is_none());
    }
}
