//! Where a server's programs lie: Debian's, or an unpacked prefix of MariaDB or MySQL, in any of their layouts.

use crate::fetch;
use crate::load::in_path;
use crate::wrong::wrong;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    pub root: PathBuf,
    pub server: PathBuf,
    /// The script that makes the system's tables; without one the server does it itself, as MySQL's.
    pub install: Option<PathBuf>,
    /// As `--version` says it, which is also the beginning of `SELECT VERSION()`.
    pub version: String,
}

/// `installed` or nothing: Debian's. A version: one that was fetched. A path: a prefix.
pub fn find(name: &str) -> Result<Prefix> {
    if name.is_empty() || name == "installed" {
        let server = in_path("mariadbd").or_else(|| in_path("mysqld")).ok_or_else(|| {
            wrong("no MariaDB is installed; apt-get install mariadb-server-core mariadb-client-core, or name a prefix in factors.server")
        })?;
        // /usr/sbin/mariadbd belongs to /usr.
        let root = server.ancestors().nth(2).unwrap_or(Path::new("/usr")).to_path_buf();
        return with(root, server);
    }
    let root = if name.contains('/') {
        PathBuf::from(name)
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        let root = fetch::folder(name)?;
        if !root.is_dir() {
            return Err(wrong(format!("server {name} is not here; evenkeel fetch-server {name}")));
        }
        root
    } else {
        return Err(wrong(format!("server {name:?}: say \"installed\", a version, or the path of a prefix")));
    };
    let server = ["bin", "sbin", "libexec"]
        .iter()
        .flat_map(|d| ["mariadbd", "mysqld"].map(|p| root.join(d).join(p)))
        .find(|p| p.is_file())
        .ok_or_else(|| {
            wrong(format!("no bin/mariadbd, sbin/mariadbd, libexec/mariadbd or mysqld below {}", root.display()))
        })?;
    with(root, server)
}

fn with(root: PathBuf, server: PathBuf) -> Result<Prefix> {
    let version = version(&server)?;
    let install = ["scripts", "bin", "sbin"]
        .iter()
        .flat_map(|d| ["mariadb-install-db", "mysql_install_db"].map(|p| root.join(d).join(p)))
        .find(|p| p.is_file());
    if install.is_none() && version.contains("MariaDB") {
        return Err(wrong(format!("no mariadb-install-db in scripts/ or bin/ of {}", root.display())));
    }
    Ok(Prefix { root, server, install, version })
}

fn version(server: &Path) -> Result<String> {
    let out = Command::new(server).args(["--no-defaults", "--version"]).output();
    let out = out.with_context(|| format!("cannot start {}", server.display()))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    version_in(&text).map(str::to_string).ok_or_else(|| {
        let said = [out.stdout, out.stderr].concat();
        wrong(format!("{} --version says {:?}", server.display(), String::from_utf8_lossy(&said).trim()))
    })
}

/// From `mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)`.
fn version_in(text: &str) -> Option<&str> {
    text.split_once(" Ver ")?.1.split_whitespace().next()
}

impl Prefix {
    /// A plugin's library, wherever this layout has its plugins.
    pub fn plugin(&self, library: &str) -> Option<PathBuf> {
        let folders = [
            "lib/mysql/plugin",
            "lib64/mysql/plugin",
            "lib/plugin",
            "lib64/plugin",
            "lib/mariadb/plugin",
            "libs/plugin",
        ];
        let multiarch = format!("lib/{}-linux-gnu/mariadb19/plugin", std::env::consts::ARCH);
        folders
            .iter()
            .copied()
            .chain([multiarch.as_str()])
            .map(|d| self.root.join(d).join(library))
            .find(|p| p.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let debian = "/usr/sbin/mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)";
        assert_eq!(version_in(debian), Some("10.11.19-MariaDB-0+deb12u1"));
        let old = "./bin/mysqld  Ver 10.2.11-MariaDB for Linux on x86_64 (MariaDB Server)";
        assert_eq!(version_in(old), Some("10.2.11-MariaDB"));
        let mysql = "/usr/sbin/mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)";
        assert_eq!(version_in(mysql), Some("8.0.36"));
        assert_eq!(version_in("usage: ..."), None);
    }

    #[test]
    fn a_name_that_is_nothing_says_what_to_do() {
        assert!(find("mariadb").unwrap_err().to_string().contains("\"installed\", a version, or the path"));
        assert!(find("/no/such/prefix").unwrap_err().to_string().contains("no bin/mariadbd"));
        assert!(find("1.2.3").unwrap_err().to_string().contains("evenkeel fetch-server 1.2.3"));
    }
}
