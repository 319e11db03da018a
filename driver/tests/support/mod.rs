//! A MariaDB server of the test's own, from Debian's packages, in a temporary directory on a socket; and the driver's
//! program. A test whose machine lacks the server says `skipped: ...` and passes.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SERVER: &str = "/usr/sbin/mariadbd";
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Kept until dropped; then the server is ended by its own pid and its directory removed.
pub struct Server {
    child: Child,
    pub dir: PathBuf,
}

/// None, with the word for it, where there is no server to be had.
pub fn server() -> Option<Server> {
    server_with(&["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=64M", "--max-connections=600"])
}

pub fn server_with(options: &[&str]) -> Option<Server> {
    if !Path::new(SERVER).is_file() {
        println!("skipped: {SERVER} is not installed; apt-get install mariadb-server");
        return None;
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("evenkeel-driver-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let root = nix::unistd::geteuid().is_root();
    let data = dir.join("data");
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    install.arg(format!("--datadir={}", data.display()));
    if root {
        install.arg("--user=root");
    }
    let done = install.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let log = fs::File::create(dir.join("log")).unwrap();
    let mut command = Command::new(SERVER);
    command
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--socket={}", dir.join("socket").display()))
        .args(["--skip-networking", "--innodb-flush-log-at-trx-commit=0", "--back-log=64"])
        .arg("--max-prepared-stmt-count=262144")
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    if Path::new("/usr/lib/mysql/plugin/ha_rocksdb.so").is_file() {
        command.arg("--plugin-load-add=ha_rocksdb");
    }
    if root {
        command.arg("--user=root");
    }
    let child = command.spawn().unwrap();
    let mut server = Server { child, dir };
    let end = Instant::now() + Duration::from_secs(120);
    while !server.sql("SELECT 1").status.success() {
        assert!(Instant::now() < end && server.child.try_wait().unwrap().is_none(), "the server does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(server)
}

impl Server {
    pub fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }

    pub fn sql(&self, sql: &str) -> Output {
        let socket = format!("--socket={}", self.socket().display());
        Command::new("mariadb").args(["--no-defaults", &socket, "-uroot", "-NBe", sql]).output().unwrap()
    }

    /// The answer's text; the statement must succeed.
    pub fn ask(&self, sql: &str) -> String {
        let out = self.sql(sql);
        assert!(out.status.success(), "{sql}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_string()
    }

    pub fn has_engine(&self, engine: &str) -> bool {
        let sql =
            format!("SELECT COUNT(*) FROM information_schema.engines WHERE engine = '{engine}' AND support <> 'NO'");
        self.ask(&sql) == "1"
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn driver(&self, verb: &str, options: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-driver"));
        command.arg(verb).arg("--socket").arg(self.socket()).args(options.split_whitespace());
        command
    }

    /// Runs the driver to its end.
    pub fn drive(&self, verb: &str, options: &str) -> Output {
        self.driver(verb, options).output().unwrap()
    }

    /// Runs the driver, which must succeed; its words.
    pub fn drive_well(&self, verb: &str, options: &str) -> String {
        let out = self.drive(verb, options);
        assert!(out.status.success(), "{verb} {options}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// Events of a run with `--json`.
    pub fn events(&self, options: &str) -> Vec<Value> {
        let text = self.drive_well("run", &format!("{options} --json"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn serve(&self, options: &str) -> Serving {
        let mut command = self.driver("serve", options);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Serving { child, stdin, stdout }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A driver that answers commands.
pub struct Serving {
    pub child: Child,
    pub stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Serving {
    pub fn tell(&mut self, command: &str) {
        writeln!(self.stdin, "{command}").unwrap();
    }

    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// The next event of this name; another but `second` is a failure.
    pub fn expect(&mut self, name: &str) -> Value {
        loop {
            let event = self.next();
            match event["event"].as_str() {
                Some(found) if found == name => return event,
                Some("second") => {}
                _ => panic!("{event}, not {name}"),
            }
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn named<'a>(events: &'a [Value], name: &str) -> &'a Value {
    events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("no {name} in {events:?}"))
}
