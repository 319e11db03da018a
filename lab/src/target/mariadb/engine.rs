//! Storage engines: what an experiment calls them, what SQL does, and what the server must load for them.

use super::prefix::Prefix;
use crate::wrong::wrong;
use anyhow::Result;

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
