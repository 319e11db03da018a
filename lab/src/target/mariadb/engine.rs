//! Storage engines: what an experiment calls them, what SQL does, and what the server must load for them.

use super::prefix::Prefix;
use crate::wrong::wrong;
use anyhow::Result;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// As `CREATE TABLE` and information_schema name it.
    pub sql: String,
    /// The plugin that brings it, and its package.
    plugin: Option<(&'static str, &'static str)>,
}

impl Engine {
    /// Nothing stands for InnoDB.
    pub fn of(name: &str) -> Engine {
        match name.to_ascii_lowercase().as_str() {
            "" | "innodb" => Engine { sql: "InnoDB".into(), plugin: None },
            "myrocks" | "rocksdb" => {
                Engine { sql: "ROCKSDB".into(), plugin: Some(("ha_rocksdb", "mariadb-plugin-rocksdb")) }
            }
            "aria" => Engine { sql: "Aria".into(), plugin: None },
            _ => Engine { sql: name.into(), plugin: None },
        }
    }

    /// When a commit is on the disk, by the variables in effect.
    pub fn durability(&self, variables: &BTreeMap<String, String>) -> String {
        let get = |name: &str| variables.get(name).map(String::as_str);
        let at_commit = |flush: Option<&str>| match flush {
            Some("0") => "commits reach the disk within about a second",
            Some("1") | Some("3") => "each commit is on the disk",
            Some("2") => "each commit is with the system, on the disk within about a second",
            _ => "unknown",
        };
        let sql = self.sql.to_ascii_lowercase();
        let mut words = match sql.as_str() {
            "innodb" => at_commit(get("innodb_flush_log_at_trx_commit")).to_string(),
            "rocksdb" => at_commit(get("rocksdb_flush_log_at_trx_commit")).to_string(),
            "aria" => "no transactions; each statement is in the log, on the disk at a checkpoint".to_string(),
            _ => return "unknown".into(),
        };
        if sql == "innodb" && get("innodb_doublewrite").is_some_and(|v| v == "OFF" || v == "0") {
            words += "; a torn page is lost (no doublewrite)";
        }
        if get("log_bin").is_some_and(|v| v == "ON") && get("sync_binlog") != Some("1") {
            words += "; the binary log is not flushed at commits";
        }
        words
    }

    /// What the server must load; an error that names the package if it is not there.
    pub fn load(&self, prefix: &Prefix) -> Result<Option<&'static str>> {
        let Some((plugin, package)) = self.plugin else { return Ok(None) };
        if prefix.plugin(&format!("{plugin}.so")).is_none() {
            let root = prefix.root.display();
            return Err(wrong(format!("{plugin}.so is not among the plugins of {root}; apt-get install {package}")));
        }
        Ok(Some(plugin))
    }
}
