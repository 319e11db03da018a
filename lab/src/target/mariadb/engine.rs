//! Storage engines: what an experiment calls them, what SQL does, and what the server must load for them.

use super::prefix::Prefix;
use crate::wrong::wrong;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// As `CREATE TABLE` and information_schema name it.
    pub sql: String,
    plugin: Option<Plugin>,
}

/// The library that brings an engine.
#[derive(Clone, Debug, PartialEq)]
enum Plugin {
    /// One of a package: library and package.
    Packaged(&'static str, &'static str),
    /// One of a person's own.
    At(PathBuf),
}

/// What the server must be told of a plugin.
pub struct Loaded {
    pub path: PathBuf,
    /// Options of the configuration, by name.
    pub options: Vec<(&'static str, String)>,
}

impl Engine {
    /// Nothing stands for InnoDB; the path of `ha_NAME.so` for the engine NAME.
    pub fn of(name: &str) -> Engine {
        if let Some(sql) = name.strip_suffix(".so").and_then(|n| n.rsplit('/').next()?.strip_prefix("ha_")) {
            return Engine { sql: sql.to_uppercase(), plugin: Some(Plugin::At(name.into())) };
        }
        match name.to_ascii_lowercase().as_str() {
            "" | "innodb" => Engine { sql: "InnoDB".into(), plugin: None },
            "myrocks" | "rocksdb" => Engine {
                sql: "ROCKSDB".into(),
                plugin: Some(Plugin::Packaged("ha_rocksdb.so", "mariadb-plugin-rocksdb")),
            },
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
    pub fn load(&self, prefix: &Prefix) -> Result<Option<Loaded>> {
        match &self.plugin {
            None => Ok(None),
            Some(Plugin::Packaged(library, package)) => {
                let path = prefix.plugin(library).ok_or_else(|| {
                    let root = prefix.root.display();
                    wrong(format!("{library} is not among the plugins of {root}; apt-get install {package}"))
                })?;
                Ok(Some(Loaded { path, options: vec![("plugin_load_add", library.trim_end_matches(".so").into())] }))
            }
            Some(Plugin::At(path)) => {
                let path = path.canonicalize().map_err(|e| wrong(format!("engine {}: {e}", path.display())))?;
                let (folder, library) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
                let options = vec![
                    ("plugin_dir", folder.display().to_string()),
                    ("plugin_load_add", library.to_string_lossy().into_owned()),
                    // The server would refuse one that calls itself less than it is.
                    ("plugin_maturity", "unknown".to_string()),
                ];
                Ok(Some(Loaded { path, options }))
            }
        }
    }
}
