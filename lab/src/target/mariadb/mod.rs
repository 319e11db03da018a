//! The MariaDB target: a server of the lab's own, on a private data directory and a private socket, under a load of the lab's own driver or
//! of sysbench.
//!
//! - `prefix`: which programs; `engine`: which storage engine; `config`: its my.cnf, and what became of it.
//! - `data`: data directories, made once and copied for each life.
//! - `life`: a running server and its trials; `count`: which counter is a transaction; `sql`: the lab's connection.

mod config;
mod count;
mod data;
mod engine;
mod life;
mod prefix;
pub(crate) mod sql;

use super::embedded::Embedded;
use super::process::Process;
use super::{Program, Server, Setting};
use crate::digest;
use crate::experiment::{Experiment, Load, Mariadb as Wish, Prepare, TPCC};
use crate::heaps::glibc;
use crate::load::{self, Driver, Test};
use crate::proof;
use crate::record::{Cell, Proof};
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use config::Config;
use engine::Engine;
use life::Life;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;
use prefix::Prefix;
use sql::Sql;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take until it answers: a restored one loads its pages, a heap that logs its bindings is slow.
const START: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(120);

/// TPC-C on TidesDB is no server's: its cells are for the embedded target.
const TIDESDB: &str = "TidesDB";

pub struct Mariadb {
    /// Where an experiment compares TidesDB with the server's engines.
    tidesdb: Option<Embedded>,
    wish: Wish,
    load: Load,
    folder: PathBuf,
    driver: Rc<dyn Driver>,
}

impl Mariadb {
    pub fn new(wish: &Wish, experiment: &Experiment) -> Result<Mariadb> {
        let is_tidesdb = |e: &toml::Spanned<String>| e.get_ref() == TIDESDB;
        let tidesdb = experiment.factors.engine.iter().any(is_tidesdb);
        if tidesdb && experiment.load.tests.iter().any(|t| t.get_ref() != TPCC) {
            return Err(wrong(format!(
                "factors.engine: {TIDESDB} by itself knows only the test {TPCC}; else name its plugin"
            )));
        }
        Ok(Mariadb {
            tidesdb: tidesdb.then(|| Embedded::new(&Default::default(), &experiment.load)).transpose()?,
            wish: wish.clone(),
            load: experiment.load.clone(),
            folder: experiment.folder.clone(),
            driver: load::find(&experiment.load)?.into(),
        })
    }

    /// An engine's name, or the path of its plugin made whole.
    fn beside(&self, engine: &str) -> String {
        if engine.contains('/') { self.folder.join(engine).display().to_string() } else { engine.to_string() }
    }

    fn fragment(&self, cell: &Cell) -> Option<PathBuf> {
        (!cell.config.is_empty()).then(|| self.folder.join(&cell.config))
    }

    /// What sysbench calls the cell's test: one of its own, or a Lua file.
    fn script(&self, cell: &Cell) -> Result<String> {
        if !cell.test.ends_with(".lua") {
            return Ok(cell.test.clone());
        }
        let file = self.folder.join(&cell.test);
        let file = file.canonicalize().map_err(|e| wrong(format!("load.tests: {}: {e}", file.display())))?;
        Ok(file.display().to_string())
    }

    /// Everything that a cell fixes, looked up and checked.
    fn kit(&self, cell: &Cell) -> Result<Kit> {
        let prefix = prefix::find(&cell.server)?;
        let engine = Engine::of(&self.beside(&cell.engine));
        let plugin = engine.load(&prefix)?;
        let fragment = self.fragment(cell);
        let mut config = Config::new(&self.wish.options, fragment.as_deref())?;
        for (name, value) in plugin.into_iter().flat_map(|p| p.options) {
            config.need(name, value);
        }
        Ok(Kit { prefix, engine, config, as_published: self.wish.as_published })
    }

    fn rows(&self, cell: &Cell, kit: &Kit, up: &mut Up) -> Result<()> {
        let script = self.script(cell)?;
        up.sql.run(&format!("CREATE DATABASE IF NOT EXISTS {}", self.driver.database(&script)))?;
        let test = Test { name: &script, load: &self.load, engine: &kit.engine.sql, socket: &up.socket.path };
        self.driver.prepare(&test)
    }

    /// The folder with this cell's data, ready to be copied: made now if it is the first to ask.
    fn prepared(&self, setting: &Setting, kit: &Kit) -> Result<PathBuf> {
        let (cell, load) = (setting.cell, &self.load);
        let schema = match cell.test.as_str() {
            script if script.ends_with(".lua") => digest::of_file(Path::new(&self.script(cell)?))?,
            TPCC => format!("{TPCC} {}", load.warehouses),
            _ => "oltp".into(),
        };
        let key = [
            &kit.prefix.server.display().to_string(),
            &kit.prefix.version,
            &kit.engine.sql,
            kit.config.wished(),
            &schema,
            &load.tables.to_string(),
            &load.rows.to_string(),
            &load.extra.join(" "),
            self.driver.name(),
        ]
        .map(|s| s.to_string());
        data::kept(setting.store, "prepared", &key, |folder| {
            let installed = self.installed(setting.store, kit)?;
            data::copy(&installed, folder)?;
            let beside = folder.with_extension("life");
            data::anew(&beside)?;
            let alone = Setting { heap: &glibc(), cpus: None, dir: &beside, ..*setting };
            let mut up = self.up(kit, &alone, folder, &[])?;
            self.rows(cell, kit, &mut up)?;
            // Nothing is left to do for those who start from here.
            up.sql.run("SET GLOBAL innodb_fast_shutdown = 0")?;
            up.down()?;
            fs::remove_dir_all(&beside).with_context(|| format!("cannot remove {}", beside.display()))
        })
    }

    /// A data directory with the system's tables only.
    fn installed(&self, store: &Path, kit: &Kit) -> Result<PathBuf> {
        let key =
            [kit.prefix.server.display().to_string(), kit.prefix.version.clone(), kit.config.wished().to_string()];
        data::kept(store, "installed", &key, |folder| {
            let beside = folder.with_extension("life");
            data::anew(&beside)?;
            data::install(&kit.prefix, kit.config.wished(), &beside, folder)?;
            fs::remove_dir_all(&beside).with_context(|| format!("cannot remove {}", beside.display()))
        })
    }

    /// Starts a server under the setting's heap and mask, and waits until it answers.
    fn up(&self, kit: &Kit, setting: &Setting, data: &Path, env: &[(&str, String)]) -> Result<Up> {
        let socket = Socket::new(setting.dir)?;
        let temporary = setting.dir.join("tmp");
        fs::create_dir_all(&temporary).with_context(|| format!("cannot make {}", temporary.display()))?;
        let mut config = kit.config.clone();
        for (key, path) in
            [("basedir", &*kit.prefix.root), ("datadir", data), ("socket", &socket.path), ("tmpdir", &temporary)]
        {
            config.need(key, path.display());
        }
        config.need("pid_file", setting.dir.join("pid").display());
        self.needs(&mut config, u64::from(setting.most_clients));
        let file = setting.dir.join("my.cnf");
        fs::write(&file, config.file()).with_context(|| format!("cannot write {}", file.display()))?;
        let log = setting.dir.join("error.log");
        let mut command = Command::new(&kit.prefix.server);
        setting.heap.put_under(&mut command);
        command.arg(format!("--defaults-file={}", file.display())).envs(env.to_vec());
        let mut process = Process::start(&mut command, setting.cpus, &log)?;
        let sql = answer(&mut process, &socket.path)?;
        Ok(Up { process, sql, socket, config, log })
    }

    /// What every configuration gets: no network, and room for all clients.
    fn needs(&self, config: &mut Config, clients: u64) {
        if geteuid().is_root() {
            config.need("user", "root");
        }
        config.need("skip_networking", "ON");
        config.need("skip_name_resolve", "ON");
        // Clients of an overloaded machine take long to say hello.
        config.need("connect_timeout", 300);
        config.need_at_least("max_connections", clients + 16);
        config.need("back_log", (clients + 16).clamp(80, 65_535));
        // Nine statements for each table of oltp_read_write, and two for the transaction; TPC-C has fewer than forty.
        let statements = clients * (9 * u64::from(self.load.tables) + 2).max(40) + 1000;
        config.need_at_least("max_prepared_stmt_count", statements.max(16_382));
        // A client uses one table at a time; as many again, since they do not share evenly.
        // Where the kernel allows fewer files than that, the server would take less than we asked for.
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
        let open = (2 * clients).max(2000).min(files.saturating_sub(clients + 100) / 2);
        config.need_at_least("table_open_cache", open);
        config.need("open_files_limit", clients + 2 * open + 1000);
        // What is dumped at an end is loaded at the next start: restored data are as warm as prepared ones.
        config.need("loose_innodb_buffer_pool_dump_pct", 100);
    }
}

struct Kit {
    prefix: Prefix,
    engine: Engine,
    config: Config,
    as_published: bool,
}

impl Mariadb {
    /// The target of a cell that is not for a server.
    fn elsewhere(&self, cell: &Cell) -> Option<&Embedded> {
        self.tidesdb.as_ref().filter(|_| cell.engine == TIDESDB)
    }
}

impl super::Target for Mariadb {
    fn programs(&self, cell: &Cell) -> Result<Vec<Program>> {
        if let Some(tidesdb) = self.elsewhere(cell) {
            return tidesdb.programs(cell);
        }
        let kit = self.kit(cell)?;
        let name = if cell.server.is_empty() { "server".into() } else { format!("server {}", cell.server) };
        let mut programs = vec![
            Program { what: name, path: kit.prefix.server.clone() },
            Program { what: "load".into(), path: self.driver.program().to_path_buf() },
        ];
        if let Some(plugin) = kit.engine.load(&kit.prefix)? {
            programs.push(Program { what: format!("plugin {}", kit.engine.sql), path: plugin.path });
        }
        if let Some(path) = self.fragment(cell) {
            programs.push(Program { what: format!("config {}", cell.config), path });
        }
        if cell.test.ends_with(".lua") {
            programs.push(Program { what: format!("test {}", cell.test), path: self.script(cell)?.into() });
        }
        Ok(programs)
    }

    fn bindings(&self, setting: &Setting) -> Result<Vec<Proof>> {
        if let Some(tidesdb) = self.elsewhere(setting.cell) {
            return tidesdb.bindings(setting);
        }
        let kit = self.kit(setting.cell)?;
        let data = setting.dir.join("probe");
        data::copy(&self.installed(setting.store, &kit)?, &data)?;
        let log = setting.dir.join("bindings");
        self.up(&kit, setting, &data, &proof::log_bindings(&log))?.down()?;
        fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        Ok(vec![proof::of_bindings(setting.heap, &proof::read_bindings(&log)?)])
    }

    fn start(&self, setting: &Setting) -> Result<Box<dyn Server>> {
        if let Some(tidesdb) = self.elsewhere(setting.cell) {
            return tidesdb.start(setting);
        }
        let kit = self.kit(setting.cell)?;
        let data = setting.dir.join("data");
        let from = match self.load.prepare {
            Prepare::Restore => self.prepared(setting, &kit)?,
            Prepare::Fresh => self.installed(setting.store, &kit)?,
        };
        data::copy(&from, &data)?;
        let mut up = self.up(&kit, setting, &data, &[])?;
        if self.load.prepare == Prepare::Fresh {
            self.rows(setting.cell, &kit, &mut up)?;
        }
        Ok(Box::new(Life::new(up, kit, self.script(setting.cell)?, &self.load, self.driver.clone(), setting)))
    }

    fn seconds_to_start(&self) -> f64 {
        4.0
    }
}

/// A server that answers.
struct Up {
    process: Process,
    sql: Sql,
    socket: Socket,
    config: Config,
    log: PathBuf,
}

impl Up {
    /// Ends it in order.
    fn down(mut self) -> Result<ExitStatus> {
        // The answer may be lost with the connection.
        let _ = self.sql.run("SHUTDOWN");
        match self.process.wait(STOP)? {
            Some(status) if status.success() => Ok(status),
            Some(status) => Err(self.process.death(status)),
            None => {
                self.process.end(Duration::from_secs(10))?;
                bail!("the server did not end within {} s and was killed", STOP.as_secs())
            }
        }
    }
}

/// The path of a private socket, which must fit into 107 bytes; a folder made for it goes with it.
struct Socket {
    path: PathBuf,
    made: Option<PathBuf>,
}

impl Socket {
    fn new(dir: &Path) -> Result<Socket> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let near = dir.join("socket");
        if near.as_os_str().len() < 100 {
            return Ok(Socket { path: near, made: None });
        }
        let name = format!("evenkeel-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Socket { path: folder.join("socket"), made: Some(folder) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(folder) = &self.made {
            // A folder left in the system's temporary one is no reason to fail.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Waits until a server answers.
fn answer(process: &mut Process, socket: &Path) -> Result<Sql> {
    let end = Instant::now() + START;
    loop {
        process.alive()?;
        match Sql::connect(socket) {
            Ok(sql) => return Ok(sql),
            Err(e) if Instant::now() >= end => {
                return Err(e.context(format!("the server did not answer within {} s", START.as_secs())));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
