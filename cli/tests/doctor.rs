//! The doctor against real processes: which heap it finds, what it says of a server, and what it says that it may not see.

mod common;

use common::{Folder, Said, skipped, until};
use nix::unistd::geteuid;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process of a test: ended by its own number.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// MariaDB on an empty data directory in this folder, under a preload or none.
    fn mariadb(folder: &Folder, name: &str, preload: Option<&Path>) -> Option<Server> {
        for (program, package) in
            [("/usr/sbin/mariadbd", "mariadb-server-core"), ("/usr/bin/mariadb-install-db", "mariadb-server-core")]
        {
            if !Path::new(program).exists() {
                skipped(name, &format!("{package} is not installed"));
                return None;
            }
        }
        let data = folder.path("data");
        if !data.exists() {
            let mut install =
                folder.program(Path::new("/usr/bin/mariadb-install-db"), &["--no-defaults", "--skip-test-db"]);
            install.arg(format!("--datadir={}", data.display())).arg("--auth-root-authentication-method=normal");
            if geteuid().is_root() {
                install.arg("--user=root");
            }
            Said::of(install).fine();
        }
        // Folders of tests may lie deep, and a socket's path must be short.
        let socket = std::env::temp_dir().join(format!("evenkeel-{}-{name}", std::process::id()));
        let mut command = folder.program(Path::new("/usr/sbin/mariadbd"), &["--no-defaults", "--skip-networking"]);
        command.args(["--innodb-buffer-pool-size=32M", "--plugin-dir=/usr/lib/mysql/plugin"]);
        command.arg(format!("--datadir={}", data.display())).arg(format!("--socket={}", socket.display()));
        if geteuid().is_root() {
            command.arg("--user=root");
        }
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Server { child: command.spawn().unwrap(), socket };
        until("the server to listen", || {
            assert!(server.child.try_wait().unwrap().is_none(), "the server ended");
            UnixStream::connect(&server.socket).is_ok()
        });
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn doctor(folder: &Folder, pid: &str, more: &[&str]) -> Value {
    let said = folder.run(&[&["doctor", pid, "--json"], more].concat()).fine();
    serde_json::from_str(&said.out).unwrap()
}

/// The heap that the program takes its memory from, and how many objects say so.
fn bound(checkup: &Value) -> (String, u64) {
    let heap = &checkup["facts"]["heap"];
    let found = heap["found"].as_array().unwrap();
    let own: Vec<&Value> = found.iter().filter(|h| h["by_program"] == true).collect();
    assert_eq!(own.len(), 1, "{heap}");
    (own[0]["kind"].as_str().unwrap().into(), heap["read"].as_u64().unwrap())
}

/// The library of a heap. libevenkeel.so is whole in its release form only, wherever the command itself was built.
fn library(kind: &str, found: &[(String, String)]) -> Option<String> {
    if kind == "evenkeel" {
        let release = Path::new(common::EVENKEEL).parent()?.with_file_name("release").join("libevenkeel.so");
        return release.is_file().then(|| release.canonicalize().unwrap().display().to_string());
    }
    found.iter().find(|(name, _)| name == kind).map(|(_, path)| path.clone())
}

fn lacking(checkup: &Value) -> Vec<String> {
    let all = checkup["facts"]["lacking"].as_array().unwrap();
    all.iter().map(|l| format!("{}: {}", l["what"].as_str().unwrap(), l["remedy"].as_str().unwrap())).collect()
}

#[test]
fn wrong_use() {
    let folder = Folder::new("doctor-wrong");
    for (words, said) in [
        (&["doctor", "4194305"][..], &["there is no process 4194305", "pidof"][..]),
        (&["doctor", "no-such-unit-of-anyone"], &["no-such-unit-of-anyone"]),
        (&["doctor", "../x"], &["neither a PID nor the name of a service"]),
        (&["doctor", "1", "--machine"], &["cannot be used with"]),
        (&["doctor", "1", "--seconds", "-1"], &["-1"]),
        (&["doctor", "1", "--seconds", "9999"], &["--seconds 9999", "0.2 to 600"]),
        (&["doctor", "1", "--seconds", "0", "--defaults-file", "none.cnf"], &["none.cnf", "No such file"]),
    ] {
        folder.run(words).refused(2, said);
    }
    folder.assert_clean();
}

#[test]
fn any_program() {
    let folder = Folder::new("doctor-any");
    let child = folder.program(Path::new("sleep"), &["600"]).spawn().unwrap();
    let process = Server { child, socket: PathBuf::new() };
    until("sleep to start", || {
        std::fs::read_to_string(format!("/proc/{}/comm", process.pid())).is_ok_and(|c| c.trim() == "sleep")
    });
    let checkup = doctor(&folder, &process.pid(), &["--seconds", "0"]);
    assert_eq!(checkup["facts"]["process"]["name"], "sleep");
    assert_eq!(bound(&checkup).0, "glibc");
    assert!(checkup["facts"]["server"].is_null() && checkup["facts"]["profile"].is_null());
    assert_eq!(checkup["facts"]["arenas"]["count"], 1);
    assert!(checkup["facts"]["memory"]["rss"].as_f64().unwrap() > 1e5);
    for width in ["40", "60", "100", "200"] {
        let mut command = folder.evenkeel(&["doctor", &process.pid(), "--seconds", "0"]);
        let said = Said::of({
            command.env("COLUMNS", width);
            command
        })
        .fine();
        assert!(said.out.starts_with("sleep, PID "), "{}", said.out);
        let most: usize = width.parse().unwrap();
        assert!(said.out.lines().all(|l| l.chars().count() <= most), "{width}: {}", said.out);
    }
    folder.assert_clean();
}

#[test]
fn a_server_under_glibc() {
    let name = "doctor-glibc";
    let folder = Folder::new(name);
    let Some(server) = Server::mariadb(&folder, name, None) else { return };
    let checkup = doctor(&folder, &server.pid(), &["--seconds", "1"]);
    let facts = &checkup["facts"];
    let (kind, read) = bound(&checkup);
    assert_eq!(kind, "glibc");
    assert!(read >= 1, "the loader's own words were read");
    assert!(
        facts["arenas"]["count"].as_u64().unwrap() > 1,
        "its threads have arenas of their own: {}",
        facts["arenas"]
    );
    assert!(facts["arenas"]["resident"].as_f64().unwrap() <= facts["arenas"]["mapped"].as_f64().unwrap());
    assert_eq!(facts["arenas"]["exact"], true, "{}", facts["arenas"]);
    let says = &facts["server"];
    assert_eq!(says["socket"], server.socket.display().to_string());
    assert!(says["version"].as_str().unwrap().contains("MariaDB"));
    assert!(says["connections_limit"].as_f64().unwrap() > 0.0);
    let pool = says["caches"].as_array().unwrap().iter().find(|c| c["name"] == "InnoDB buffer pool").unwrap();
    assert_eq!(pool["configured"], 33_554_432.0);
    assert!(pool["holds"].as_f64().unwrap() < 33_554_432.0, "an empty pool");
    if facts["profile"].is_null() {
        assert!(lacking(&checkup).iter().any(|l| l.starts_with("a profile")), "{facts}");
    }
    let page = folder.run(&["doctor", &server.pid(), "--seconds", "0"]).fine().out;
    for word in ["heap ", "glibc", "memory ", "arenas ", "activity ", "clients ", "limits ", "MariaDB"] {
        assert!(page.contains(word), "{word:?} is not in: {page}");
    }
    // Its data are still there, and it still answers.
    assert!(UnixStream::connect(&server.socket).is_ok());
}

#[test]
fn a_server_under_a_preload() {
    let name = "doctor-preload";
    let folder = Folder::new(name);
    let found = common::libraries(&folder);
    let mut seen = 0;
    for kind in ["jemalloc", "mimalloc", "evenkeel"] {
        let Some(library) = library(kind, &found) else {
            skipped(name, &format!("{kind} is not on this machine"));
            continue;
        };
        let Some(server) = Server::mariadb(&folder, name, Some(Path::new(&library))) else { return };
        let checkup = doctor(&folder, &server.pid(), &["--seconds", "0"]);
        assert_eq!(bound(&checkup).0, kind);
        let heap = &checkup["facts"]["heap"];
        assert_eq!(heap["preload"], library.as_str());
        let used = heap["found"].as_array().unwrap().iter().filter(|h| {
            h["by_program"] == true || h["linked_in"] == true || !h["users"].as_array().unwrap().is_empty()
        });
        assert_eq!(used.count(), 1, "{heap}");
        assert!(checkup["facts"]["arenas"].is_null(), "no arena of glibc is in use");
        let advice = checkup["advice"].to_string();
        if kind == "mimalloc" {
            assert!(advice.contains("version_malloc_library"), "{advice}");
        }
        seen += 1;
    }
    assert!(seen > 0 || found.iter().all(|(n, _)| !["jemalloc", "mimalloc"].contains(&n.as_str())));
}

#[test]
fn a_program_that_was_linked_to_its_heap() {
    let name = "doctor-linked";
    let folder = Folder::new(name);
    let program = Path::new("/usr/bin/redis-server");
    if !program.exists() {
        return skipped(name, "redis-server is not installed");
    }
    let socket = std::env::temp_dir().join(format!("evenkeel-{}-{name}", std::process::id()));
    let mut command = folder.program(program, &["--port", "0", "--save", "", "--unixsocket"]);
    let child = command.arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    let server = Server { child, socket };
    until("redis to listen", || UnixStream::connect(&server.socket).is_ok());
    let checkup = doctor(&folder, &server.pid(), &["--seconds", "0"]);
    assert_eq!(bound(&checkup).0, "jemalloc", "no preload, and yet not glibc");
    assert!(checkup["facts"]["server"].is_null());
    assert!(checkup["facts"]["limits"]["sockets"].as_u64().unwrap() >= 1);
}

/// What an ordinary user may not see of another's server is named, and the rest is said.
#[test]
fn as_another_user() {
    let name = "doctor-nobody";
    let folder = Folder::new(name);
    if !geteuid().is_root() || !Path::new("/usr/bin/setpriv").exists() {
        return skipped(name, "only root can become another user, by setpriv");
    }
    // Where nobody may reach it.
    let bin = std::env::temp_dir().join(format!("evenkeel-bin-{}", std::process::id()));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::copy(common::EVENKEEL, bin.join("evenkeel")).unwrap();
    std::fs::set_permissions(&bin, PermissionsExt::from_mode(0o755)).unwrap();
    let child = folder.program(Path::new("sleep"), &["600"]).spawn().unwrap();
    let process = Server { child, socket: PathBuf::new() };
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(bin.join("evenkeel"));
    command.args(["doctor", &process.pid(), "--seconds", "0.4", "--json"]).current_dir("/").env_remove("TMPDIR");
    let said = Said::of(command).fine();
    std::fs::remove_dir_all(&bin).unwrap();
    let checkup: Value = serde_json::from_str(&said.out).unwrap();
    let lacking = lacking(&checkup);
    for what in ["its heap", "open files", "a profile"] {
        assert!(lacking.iter().any(|l| l.starts_with(what)), "{what}: {lacking:?}");
    }
    assert!(lacking.iter().all(|l| l.contains("root") || l.contains("perf")), "each says what to do: {lacking:?}");
    assert!(checkup["facts"]["heap"].is_null());
    assert!(checkup["facts"]["memory"]["rss"].as_f64().unwrap() > 1e5, "what everyone may see is there");
    assert!(checkup["facts"]["process"]["age"].as_f64().unwrap() < 3600.0);
}
