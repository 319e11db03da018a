//! What a MariaDB or MySQL server says of itself, over its local socket. It is asked for its variables and counters, and nothing else.

use super::facts::{Cache, Lacking, Server};
use super::reach::{Reach, name_of};
use crate::target::mariadb::sql::{OWN, Sql};
use crate::wrong::wrong;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server that hangs is not asked for longer.
const ANSWER: Duration = Duration::from_secs(10);
/// Programs that speak this protocol, by how their names begin.
const PROGRAMS: [&str; 4] = ["mariadbd", "mysqld", "mariadb-embedded", "mysql-embedded"];
/// How far the server's own age may lie from that of the process.
const AGE: f64 = 120.0;

/// Who to log in as.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<String>,
    pub socket: Option<String>,
}

impl Login {
    /// From the groups that clients read of a file of options.
    pub fn read(path: &Path) -> Result<Login> {
        let text = fs::read_to_string(path).map_err(|e| wrong(format!("{}: {e}", path.display())))?;
        Ok(Login::of(&text))
    }

    fn of(text: &str) -> Login {
        let mut login = Login::default();
        let mut ours = false;
        for line in text.lines().map(str::trim) {
            if let Some(group) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                ours = ["client", "client-server", "client-mariadb", "mysql", "mariadb-client"].contains(&group);
            } else if ours && let Some((name, value)) = line.split_once('=') {
                let value = Some(value.trim().trim_matches(['"', '\'']).to_string());
                match name.trim() {
                    "user" => login.user = value,
                    "password" => login.password = value,
                    "socket" => login.socket = value,
                    _ => {}
                }
            }
        }
        login
    }
}

/// Whether a process is such a server.
pub fn is_one(name: &str) -> bool {
    PROGRAMS.iter().any(|p| name.starts_with(p))
}

pub fn look(reach: &Reach, age: f64, login: &Login, lacking: &mut Vec<Lacking>) -> Option<Server> {
    let mut lack =
        |why: String, remedy: String| lacking.push(Lacking { what: "the server's own figures".into(), why, remedy });
    let sockets = match &login.socket {
        Some(path) => vec![PathBuf::from(path)],
        None => sockets(reach),
    };
    if sockets.is_empty() {
        lack(
            "no local socket of it was found".into(),
            "name its socket in a file of options: --defaults-file FILE with [client] and socket=PATH".into(),
        );
        return None;
    }
    let user = login.user.clone().unwrap_or_else(|| name_of(nix::unistd::geteuid().as_raw()));
    let mut last = None;
    for socket in &sockets {
        // A container's sockets are seen through it.
        let within = reach.path("root").join(socket.strip_prefix("/").unwrap_or(socket));
        let path = if socket.exists() { socket.clone() } else { within };
        match ask(&path, &user, login.password.as_deref()) {
            Ok((_, Some(uptime))) if (uptime - age).abs() > AGE => {
                last = Some(format!("the server at {} is another one", socket.display()));
            }
            Ok((mut server, _)) => {
                server.socket = socket.display().to_string();
                return Some(server);
            }
            Err(e) => last = Some(format!("{} as {user}: {}", socket.display(), said(&e.root_cause().to_string()))),
        }
    }
    lack(
        last.unwrap_or_default(),
        "log in as a user that may: --defaults-file FILE with [client], user= and password=".into(),
    );
    None
}

/// What a server said, out of what its driver makes of it: `MySqlError { ERROR 1045 (28000): Access denied .. }`.
fn said(error: &str) -> &str {
    let inner = error.split_once("{ ").map_or(error, |(_, rest)| rest.trim_end_matches(" }"));
    inner.split_once("): ").map_or(inner, |(_, said)| said)
}

fn ask(socket: &Path, user: &str, password: Option<&str>) -> Result<(Server, Option<f64>)> {
    let mut sql = Sql::connect_as(socket, user, password, ANSWER)?;
    let variables = sql.variables()?;
    let mut status = sql.counters()?;
    if variables.contains_key("rocksdb_block_cache_size")
        && let Ok(usage) =
            sql.one("SELECT VALUE FROM information_schema.ROCKSDB_DBSTATS WHERE STAT_TYPE = 'DB_BLOCK_CACHE_USAGE'")
    {
        status.insert("rocksdb_block_cache_usage".into(), usage);
    }
    let mut server = of(&variables, &status);
    if server.memory_used.is_none() {
        // MySQL counts elsewhere, if it was told to; all caches are in there.
        let sum =
            "SELECT SUM(CURRENT_NUMBER_OF_BYTES_USED) FROM performance_schema.memory_summary_global_by_event_name";
        server.memory_used = sql.one(sum).ok().and_then(|t| t.parse().ok()).filter(|b| *b > 0.0);
    }
    let uptime = status.get("uptime").and_then(|t| t.parse().ok());
    Ok((server, uptime))
}

/// From its variables and counters, their names in lower case.
fn of(variables: &BTreeMap<String, String>, status: &BTreeMap<String, String>) -> Server {
    let set = |name: &str| variables.get(name)?.parse::<f64>().ok();
    let now = |name: &str| status.get(name)?.parse::<f64>().ok();
    let times = |a: Option<f64>, b: Option<f64>| Some(a? * b?);
    let mut caches = Vec::new();
    let mut cache = |name: &str, configured: Option<f64>, holds: Option<f64>, counted: bool| {
        if let Some(configured) = configured.filter(|c| *c > 0.0) {
            caches.push(Cache { name: name.into(), configured, holds: holds.map(|h| h.min(configured)), counted });
        }
    };
    let page = set("innodb_page_size");
    let free = times(now("innodb_buffer_pool_pages_free"), page);
    let pool = set("innodb_buffer_pool_size");
    // Pages that hold data, and those that hold what belongs to them.
    let held = free.zip(pool).map(|(free, pool)| pool - free).or(now("innodb_buffer_pool_bytes_data"));
    cache("InnoDB buffer pool", pool, held, true);
    let aria = times(now("aria_pagecache_blocks_used"), set("aria_block_size"));
    cache("Aria page cache", set("aria_pagecache_buffer_size"), aria, true);
    let keys = times(now("key_blocks_used"), set("key_cache_block_size"));
    cache("MyISAM key cache", set("key_buffer_size"), keys, true);
    // It takes its memory without the server's counting.
    cache("RocksDB block cache", set("rocksdb_block_cache_size"), now("rocksdb_block_cache_usage"), false);
    Server {
        version: variables.get("version").cloned().unwrap_or_default(),
        socket: String::new(),
        heap_by_its_word: variables.get("version_malloc_library").cloned(),
        memory_used: now("memory_used"),
        caches,
        connections: now("threads_connected").map(|n| (n - OWN).max(0.0)),
        connections_most: now("max_used_connections"),
        connections_limit: set("max_connections"),
    }
}

/// Paths of sockets that may be its own: those that it listens on, if we may see its files; else those of its command line and the
/// usual place, as far as someone listens there.
fn sockets(reach: &Reach) -> Vec<PathBuf> {
    let listening = listening(&reach.text("net/unix").unwrap_or_default());
    let files = fs::read_dir(reach.path("fd")).ok().map(|entries| {
        let links = entries.flatten().filter_map(|e| fs::read_link(e.path()).ok());
        links.filter_map(|l| inode_of(&l.to_string_lossy())).collect::<BTreeSet<u64>>()
    });
    let all = listening.iter();
    match files {
        Some(own) => all.filter(|(inode, _)| own.contains(inode)).map(|(_, path)| path.clone()).collect(),
        None => {
            let command = reach.text("cmdline").unwrap_or_default();
            let named = command.split('\0').filter_map(|w| w.strip_prefix("--socket="));
            let usual = [
                "/run/mysqld/mysqld.sock",
                "/var/run/mysqld/mysqld.sock",
                "/tmp/mysql.sock",
                "/var/lib/mysql/mysql.sock",
            ];
            let wanted: Vec<PathBuf> = named.chain(usual).map(PathBuf::from).collect();
            all.filter(|(_, path)| wanted.contains(path)).map(|(_, path)| path.clone()).collect()
        }
    }
}

/// `socket:[1091752]`
fn inode_of(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// From `net/unix`: sockets with a path on which someone listens for streams.
fn listening(text: &str) -> Vec<(u64, PathBuf)> {
    /// `__SO_ACCEPTCON`
    const LISTENS: u64 = 0x10000;
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let flags = u64::from_str_radix(words.nth(3)?, 16).ok()?;
        let stream = words.next()? == "0001";
        let inode = words.nth(1)?.parse().ok()?;
        let path = words.next()?;
        (flags & LISTENS != 0 && stream && path.starts_with('/')).then(|| (inode, PathBuf::from(path)))
    };
    text.lines().skip(1).filter_map(one).collect()
}

/// Reads a file of options, if one was named.
pub fn login(file: Option<&Path>) -> Result<Login> {
    file.map_or_else(|| Ok(Login::default()), |path| Login::read(path).context("--defaults-file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_server_listens() {
        let found = listening(include_str!("recorded/unix"));
        assert_eq!(found, [(1_091_752, PathBuf::from("/srv/db/s"))]);
        assert_eq!(inode_of("socket:[1091752]"), Some(1_091_752));
        assert_eq!(inode_of("anon_inode:[eventpoll]"), None);
    }

    #[test]
    fn what_a_server_says() {
        let error =
            "MySqlError { ERROR 1045 (28000): Access denied for user 'nobody'@'localhost' (using password: NO) }";
        assert_eq!(said(error), "Access denied for user 'nobody'@'localhost' (using password: NO)");
        assert_eq!(said("Connection refused"), "Connection refused");
    }

    #[test]
    fn files_of_options() {
        let login = Login::of("[mysqld]\nuser=mysql\n[client]\nuser = watch\npassword='a=b'\nport=1\n# socket=no\n");
        let text = |t: &str| Some(t.to_string());
        assert_eq!(login, Login { user: text("watch"), password: text("a=b"), socket: None });
    }

    #[test]
    fn caches_count_as_what_they_hold() {
        let read = |text: &str| -> BTreeMap<String, String> {
            text.lines().filter_map(|l| l.split_once('\t')).map(|(n, v)| (n.to_ascii_lowercase(), v.into())).collect()
        };
        let mut counters = read(include_str!("recorded/counters"));
        counters.insert("rocksdb_block_cache_usage".into(), "88".into());
        let server = of(&read(include_str!("recorded/variables")), &counters);
        assert!(server.version.starts_with("10.11"));
        assert_eq!(server.heap_by_its_word.as_deref(), Some("system"));
        let names: Vec<&str> = server.caches.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["InnoDB buffer pool", "Aria page cache", "MyISAM key cache", "RocksDB block cache"]);
        let (used, resident) = (server.memory_used.unwrap(), server.resident().unwrap());
        // 444 MB by its own count, of which 403 MB are caches of three engines, all but empty.
        assert!(used > 4.4e8 && resident < 6e7, "{resident}");
        assert!(is_one("mariadbd") && is_one("mysqld") && !is_one("redis-server"));
    }
}
