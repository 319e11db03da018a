//! Real programs on this heap, each checked for right results: where the result is a function of the input, it is
//! compared with a run under glibc. Servers run in a directory of their own, on a Unix socket, and are ended.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::{
    Check, List, Mode, Program, Scratch, Service, Stop, ensure, fail, head, installed, is_root, repository, skip, soak,
};

pub fn add(list: &mut List) {
    list.both("programs::shell", |mode| same_as_glibc("bash", "bash", "shell.sh", mode, &[]));
    list.both("programs::git", |mode| {
        installed("git", "git")?;
        same_as_glibc("bash", "bash", "git.sh", mode, &[])
    });
    list.both("programs::compiler", compiler);
    list.both("programs::python_sqlite_load", |mode| {
        same_as_glibc("python3", "python3", "sqlite_load.py", mode, &[("PYTHONMALLOC", "malloc")])
    });
    for module in ["test_json", "test_threading", "test_sqlite3"] {
        list.both(&format!("programs::python::{module}"), move |mode| python_module(module, mode));
    }
    list.both("programs::redis", redis);
    list.both("programs::mariadb", mariadb);
}

/// Runs a script of tests/scripts in an empty directory under glibc and under Evenkeel and compares the output.
fn same_as_glibc(interpreter: &str, package: &str, script: &str, mode: Mode, env: &[(&str, &str)]) -> Check {
    let interpreter = installed(interpreter, package)?;
    let script = repository().join("tests/scripts").join(script);
    let run = |mode: Mode| {
        let scratch = Scratch::new("script")?;
        let mut program = Program::at(&interpreter).args([&script]).directory(scratch.path()).under(mode).limit(180);
        for (name, value) in env {
            program = program.env(name, value);
        }
        program.succeed()
    };
    let (wanted, got) = (run(Mode::Glibc)?, run(mode)?);
    ensure(!wanted.out.is_empty() && got.out == wanted.out, || {
        got.tell(&format!("the output under glibc:\n{}", head(&wanted.out, 40)))
    })
}

/// The compiler, the assembler and the linker on this heap produce the same bytes.
fn compiler(mode: Mode) -> Check {
    let compiler = installed("c++", "g++")?;
    let source = repository().join("tests/c/operators.cpp");
    // One directory for both: its name is in the debug information.
    let scratch = Scratch::new("compile")?;
    let run = |mode: Mode| {
        let flags = ["-std=c++17", "-O1", "-g", "-w", "-fno-builtin", "-pthread", "-frandom-seed=1"];
        let program = Program::at(&compiler).args(flags).args([&source]).args(["-o", "program"]);
        program.directory(scratch.path()).under(mode).limit(180).succeed()?;
        Program::at(scratch.join("program")).args(["containers"]).under(mode).succeed()?;
        Ok::<_, Stop>(fs::read(scratch.join("program"))?)
    };
    ensure(run(Mode::Glibc)? == run(mode)?, || "the compiler's output differs".into())
}

/// An interpreter that has the module of Python's own tests: Debian's first, then whatever python3 is on the PATH.
fn python_with(module: &str) -> Check<PathBuf> {
    let candidates = [Ok(PathBuf::from("/usr/bin/python3")), installed("python3", "python3")];
    for python in candidates.into_iter().filter_map(Result::ok) {
        let probe = format!("import importlib.util, sys; sys.exit(not importlib.util.find_spec('test.{module}'))");
        let found = std::process::Command::new(&python).args(["-c", &probe]).output();
        if found.is_ok_and(|o| o.status.success()) {
            return Ok(python);
        }
    }
    skip(format!(
        "no python3 here has test.{module} (package libpython3.11-testsuite; Debian 12 leaves out test_sqlite3)"
    ))
}

/// One module of Python's own tests. Objects come from malloc one by one (PYTHONMALLOC), not from Python's pools.
/// What fails under glibc as well is not held against the heap.
fn python_module(module: &str, mode: Mode) -> Check {
    let python = python_with(module)?;
    let run = |mode: Mode| {
        let scratch = Scratch::new("python")?;
        let program = Program::at(&python).args(["-m", "test", "--timeout=250", module]);
        let program = program.env("PYTHONMALLOC", "malloc").env("TMPDIR", scratch.path());
        program.directory(scratch.path()).under(mode).limit(280).run()
    };
    let got = run(mode)?;
    ensure(got.hung.is_none(), || got.tell("an end"))?;
    // Some tests provoke an abort on purpose, so stderr is searched for reports of the heap in any case.
    let clean = !got.err.contains("evenkeel: ") && !got.out.contains("evenkeel: ");
    ensure(clean, || got.tell("nothing reported by the heap"))?;
    if got.code == Some(0) {
        return Ok(());
    }
    let failures = |text: &str| -> std::collections::BTreeSet<String> {
        let failed = |l: &&str| l.starts_with("FAIL: ") || l.starts_with("ERROR: ");
        text.lines().filter(failed).map(str::to_owned).collect()
    };
    let reference = run(Mode::Glibc)?;
    let own: Vec<String> = failures(&format!("{}\n{}", got.out, got.err))
        .difference(&failures(&format!("{}\n{}", reference.out, reference.err)))
        .cloned()
        .collect();
    if own.is_empty() && reference.code == got.code {
        return Ok(());
    }
    fail(format!("fails under this heap and not under glibc: {own:?}\n{}", got.tell("no new failure")))
}

/// A few words of the Redis protocol: enough to check values, and to have several commands under way.
struct RedisClient {
    reader: BufReader<UnixStream>,
}

impl RedisClient {
    fn connect(socket: &Path) -> std::io::Result<RedisClient> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        Ok(RedisClient { reader: BufReader::new(stream) })
    }
    fn send(&mut self, command: &[&[u8]]) -> std::io::Result<()> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(*word);
            bytes.extend(b"\r\n");
        }
        self.reader.get_mut().write_all(&bytes)
    }
    /// A simple reply, an error, an integer as text, or a string; None is null.
    fn reply(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let line = line.trim_end();
        let Some(length) = line.strip_prefix('$') else {
            return Ok(Some(line.as_bytes().to_vec()));
        };
        let Ok(length) = length.parse::<usize>() else {
            return Ok(None);
        };
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Some(bytes))
    }
    fn ask(&mut self, command: &[&[u8]]) -> std::io::Result<Option<Vec<u8>>> {
        self.send(command)?;
        self.reply()
    }
}

const REDIS_KEYS: usize = 6000;
fn redis_value(i: usize) -> Vec<u8> {
    let length = if i.is_multiple_of(50) { 30_000 + i } else { i * 7 % 900 };
    (0..length).map(|j| ((i * 31 + j) % 251) as u8).collect()
}

fn redis_check_values(client: &mut RedisClient) -> Check {
    for i in 0..REDIS_KEYS {
        let got = client.ask(&[b"GET", format!("check:{i}").as_bytes()])?;
        ensure(got == Some(redis_value(i)), || format!("the value of check:{i} is not what was set"))?;
    }
    Ok(())
}

fn redis_start(server: &Path, scratch: &Scratch, log: &str, mode: Mode) -> Check<(Service, RedisClient)> {
    let socket = scratch.join("redis.sock");
    let _ = fs::remove_file(&socket);
    let program = Program::at(server)
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--unixsocket"])
        .args([&socket])
        .args(["--dir"])
        .args([scratch.path()])
        .directory(scratch.path())
        .under(mode);
    let mut service = program.start(&scratch.join(log))?;
    let mut client = None;
    service.until(60, "does not answer", || {
        client = RedisClient::connect(&socket).ok();
        // While it loads a file it answers -LOADING.
        client.as_mut().is_some_and(|c| c.ask(&[b"PING"]).is_ok_and(|r| r.as_deref() == Some(b"+PONG")))
    })?;
    service.has_library()?;
    match client {
        Some(client) => Ok((service, client)),
        None => fail("no client"),
    }
}

/// redis-server under redis-benchmark and a writer of its own, with BGSAVE (a fork that copies the whole heap) while
/// both write; then every value is read back, from the server and from a second one that loads what was saved.
fn redis(mode: Mode) -> Check {
    let server = installed("redis-server", "redis-server")?;
    let benchmark = installed("redis-benchmark", "redis-tools")?;
    let scratch = Scratch::new("redis")?;
    let (service, mut client) = redis_start(&server, &scratch, "first.log", mode)?;
    let load = Program::at(benchmark)
        .args(["-s"])
        .args([scratch.join("redis.sock")])
        .args([
            "-q",
            "-c",
            "20",
            "-P",
            "8",
            "-r",
            "20000",
            "-d",
            "300",
            "-n",
            if soak() { "2000000" } else { "120000" },
        ])
        .args(["-t", "set,get,incr,lpush,rpop,sadd,hset,zadd,mset"])
        .under(mode)
        .limit(240);
    let load = std::thread::spawn(move || load.run());
    let mut saves = 0;
    for i in 0..REDIS_KEYS {
        let reply = client.ask(&[b"SET", format!("check:{i}").as_bytes(), &redis_value(i)])?;
        ensure(reply.as_deref() == Some(b"+OK"), || format!("SET check:{i}: {reply:?}"))?;
        if i % 500 == 250 {
            // Refused while one is still under way; that is fine.
            let reply = client.ask(&[b"BGSAVE"])?.unwrap_or_default();
            saves += usize::from(reply.starts_with(b"+Background saving started"));
        }
    }
    redis_check_values(&mut client)?;
    let load = load.join().map_err(|_| Stop::Fail("the load's thread ended badly".into()))??;
    load.succeeded()?;
    ensure(saves > 0, || "no BGSAVE was started".into())?;
    // One more, of the final state, waited for.
    let info = |client: &mut RedisClient| -> Check<String> {
        Ok(String::from_utf8_lossy(&client.ask(&[b"INFO", b"persistence"])?.unwrap_or_default()).into_owned())
    };
    let wait_for_save = |client: &mut RedisClient| -> Check {
        for _ in 0..600 {
            let text = info(client)?;
            if text.contains("rdb_bgsave_in_progress:0") {
                return ensure(text.contains("rdb_last_bgsave_status:ok"), || format!("BGSAVE failed:\n{text}"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        fail("BGSAVE did not end in a minute")
    };
    wait_for_save(&mut client)?;
    client.ask(&[b"BGSAVE"])?;
    wait_for_save(&mut client)?;
    redis_check_values(&mut client)?;
    let size = client.ask(&[b"DBSIZE"])?;
    drop(client);
    service.end(60)?;

    let (service, mut client) = redis_start(&server, &scratch, "second.log", mode)?;
    redis_check_values(&mut client)?;
    ensure(client.ask(&[b"DBSIZE"])? == size, || "the saved file has another number of keys".into())?;
    ensure(client.ask(&[b"FLUSHALL"])?.as_deref() == Some(b"+OK"), || "FLUSHALL".into())?;
    drop(client);
    service.end(60)
}

const TABLES: usize = 4;
const TABLE_ROWS: usize = 5000;

/// mariadbd under sysbench's oltp_read_write: no error, every row still there and every table sound, the checksums
/// the same after a restart.
fn mariadb(mode: Mode) -> Check {
    let server = installed("mariadbd", "mariadb-server-core")?;
    let install = installed("mariadb-install-db", "mariadb-server-core")?;
    let client = installed("mariadb", "mariadb-client-core")?;
    let sysbench = installed("sysbench", "sysbench")?;
    let scratch = Scratch::new("maria")?;
    let (data, socket) = (scratch.join("data"), scratch.join("s"));
    let data_arg = format!("--datadir={}", data.display());
    let socket_arg = format!("--socket={}", socket.display());
    let user: &[&str] = if is_root() { &["--user=root"] } else { &[] };
    Program::at(install)
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"])
        .args([&data_arg])
        .args(user)
        .args(["--innodb-log-file-size=8M"])
        // A server that starts removes the temporary tables it finds in its directory, another's too.
        .env("TMPDIR", scratch.path().display().to_string())
        .directory(scratch.path())
        .limit(180)
        .succeed()?;

    let query = |sql: &str| -> Check<String> {
        let program = Program::at(&client).args(["--no-defaults", "-uroot", "-N", "-B"]).args([&socket_arg]);
        Ok(program.args(["-e", sql]).under(mode).limit(120).succeed()?.out)
    };
    let start = |log: &str| -> Check<Service> {
        let program = Program::at(&server)
            .args(["--no-defaults", "--skip-networking", "--skip-name-resolve", "--innodb-buffer-pool-size=64M"])
            .args(["--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0", "--max-connections=100"])
            .args([&data_arg, &socket_arg])
            .args([format!("--tmpdir={}", scratch.path().display())])
            .args([format!("--pid-file={}", scratch.join("pid").display())])
            .args(user)
            .directory(scratch.path())
            .under(mode);
        let mut service = program.start(&scratch.join(log))?;
        service.until(120, "does not answer", || UnixStream::connect(&socket).is_ok() && query("select 1").is_ok())?;
        service.has_library()?;
        Ok(service)
    };
    let service = start("first.log")?;
    query("create database sbtest")?;
    let bench = |command: &str, time: &str| {
        Program::at(&sysbench)
            .args(["oltp_read_write", "--mysql-user=root", "--mysql-db=sbtest", "--db-driver=mysql"])
            .args([format!("--mysql-socket={}", socket.display())])
            .args([format!("--tables={TABLES}"), format!("--table-size={TABLE_ROWS}")])
            .args(["--threads=16", "--rand-seed=7", time, command])
            .under(mode)
            .limit(300)
            .succeed()
    };
    bench("prepare", "--time=0")?;
    let done = bench("run", if soak() { "--time=60" } else { "--time=6" })?;
    let transactions = done.out.lines().find(|l| l.trim_start().starts_with("transactions:")).unwrap_or_default();
    let count: u64 = transactions.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    ensure(count > 100 && !done.out.contains("FATAL"), || done.tell("transactions without errors"))?;

    // Big sorts and temporary tables beside it: the blocks of 16 KiB to 8 MiB.
    let sorted = query(
        "select count(*), max(length(g)) from (select k % 100 b, group_concat(c order by id desc) g \
         from sbtest.sbtest1 group by b) t; \
         select count(distinct a.c) from sbtest.sbtest1 a join sbtest.sbtest2 b on a.id = b.id order by a.pad",
    )?;
    ensure(sorted.starts_with("100\t"), || format!("the sorts gave {sorted}"))?;
    let checksums = |count_rows: bool| -> Check<String> {
        let mut all = String::new();
        for table in 1..=TABLES {
            let name = format!("sbtest.sbtest{table}");
            let sound = query(&format!("check table {name} extended"))?;
            ensure(sound.trim_end().ends_with("OK"), || sound)?;
            if count_rows {
                // Each transaction deletes a row and puts it back.
                let rows = query(&format!("select count(*) from {name}"))?;
                ensure(rows.trim() == TABLE_ROWS.to_string(), || format!("{name} has {rows} rows"))?;
            }
            all.push_str(&query(&format!("checksum table {name} extended"))?);
        }
        Ok(all)
    };
    let before = checksums(true)?;
    service.end(120)?;
    let service = start("second.log")?;
    let after = checksums(true)?;
    ensure(before == after, || format!("checksums after a restart:\n{after}before:\n{before}"))?;
    service.end(120)
}
