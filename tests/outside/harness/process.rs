//! Running programs: one process group for each, a limit on its time, stacks of all its processes when the limit is
//! reached, and nothing left behind. Servers are a `Service`, ended by its process id when the check is over.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Check, Mode, Stop, compile, ensure, fail, head, library};

pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    mode: Mode,
    preload: bool,
    limit: Duration,
    rlimits: Vec<(libc::__rlimit_resource_t, u64)>,
    cpus: Option<Vec<usize>>,
    directory: Option<PathBuf>,
    close_standard: bool,
}

pub struct Done {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: String,
    pub err: String,
    /// Set when the limit was reached: the stacks of the group's processes, as far as gdb is there to take them.
    pub hung: Option<String>,
    pub what: String,
}

impl Program {
    pub fn at(path: impl Into<PathBuf>) -> Program {
        Program {
            path: path.into(),
            args: Vec::new(),
            env: Vec::new(),
            mode: Mode::Glibc,
            preload: true,
            limit: Duration::from_secs(60),
            rlimits: Vec::new(),
            cpus: None,
            directory: None,
            close_standard: false,
        }
    }
    /// A check program of tests/c.
    pub fn c(source: &str) -> Check<Program> {
        Ok(Program::at(compile(source, &[])?))
    }
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Program {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }
    pub fn under(mut self, mode: Mode) -> Program {
        self.mode = mode;
        self
    }
    /// The mode's settings without the preload itself: for programs that pass it on to another.
    pub fn without_preload(mut self) -> Program {
        self.preload = false;
        self
    }
    pub fn limit(mut self, seconds: u64) -> Program {
        self.limit = Duration::from_secs(seconds);
        self
    }
    pub fn rlimit(mut self, resource: libc::__rlimit_resource_t, value: u64) -> Program {
        self.rlimits.push((resource, value));
        self
    }
    pub fn cpus(mut self, cpus: &[usize]) -> Program {
        self.cpus = Some(cpus.to_vec());
        self
    }
    pub fn directory(mut self, directory: &Path) -> Program {
        self.directory = Some(directory.to_owned());
        self
    }
    /// Starts the program with descriptors 0, 1 and 2 closed.
    pub fn close_standard(mut self) -> Program {
        self.close_standard = true;
        self
    }

    fn command(&self) -> Check<Command> {
        let mut command = Command::new(&self.path);
        command.args(&self.args).stdin(Stdio::null()).process_group(0);
        // Settings of whoever runs the checks must not reach the heap.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("EVENKEEL_") || name == "LD_PRELOAD" {
                command.env_remove(name);
            }
        }
        if self.mode != Mode::Glibc && self.preload {
            command.env("LD_PRELOAD", library()?);
        }
        if self.mode == Mode::Fallback {
            command.env("EVENKEEL_RSEQ", "0");
        }
        command.env(RUN, std::process::id().to_string());
        command.envs(self.env.iter().map(|(n, v)| (n, v)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let (rlimits, cpus, close_standard) = (self.rlimits.clone(), self.cpus.clone(), self.close_standard);
        // SAFETY: between fork and exec, only async-signal-safe calls, and nothing that allocates.
        unsafe {
            command.pre_exec(move || {
                // The checks may be interrupted: their programs end with them.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if let Some(cpus) = &cpus {
                    let mut set: libc::cpu_set_t = std::mem::zeroed();
                    for &cpu in cpus {
                        libc::CPU_SET(cpu, &mut set);
                    }
                    if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) != 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                for &(resource, value) in &rlimits {
                    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
                    if libc::setrlimit(resource, &limit) != 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                if close_standard {
                    for fd in 0..3 {
                        libc::close(fd);
                    }
                }
                Ok(())
            });
        }
        Ok(command)
    }

    /// What this is, for messages; enough to run it again by hand.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        if self.mode != Mode::Glibc && self.preload {
            text.push_str("LD_PRELOAD=libevenkeel.so ");
        }
        if self.mode == Mode::Fallback {
            text.push_str("EVENKEEL_RSEQ=0 ");
        }
        for (name, value) in &self.env {
            text.push_str(&format!("{}={} ", name.to_string_lossy(), value.to_string_lossy()));
        }
        text.push_str(&self.path.file_name().unwrap_or_default().to_string_lossy());
        for arg in &self.args {
            text.push(' ');
            text.push_str(&arg.to_string_lossy());
        }
        text
    }

    pub fn run(&self) -> Check<Done> {
        let mut command = self.command()?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| Stop::Fail(format!("{}: {e}", self.describe())))?;
        let out = read_all(child.stdout.take());
        let err = read_all(child.stderr.take());
        let hung = wait_and_clear(&mut child, self.limit);
        let status = child.wait()?;
        Ok(Done {
            code: status.code(),
            signal: status.signal(),
            out: out.join().unwrap_or_default(),
            err: err.join().unwrap_or_default(),
            hung,
            what: self.describe(),
        })
    }

    /// Runs it, and wants exit code 0 and nothing reported by the heap.
    pub fn succeed(&self) -> Check<Done> {
        let done = self.run()?;
        done.succeeded()?;
        Ok(done)
    }

    /// Starts it to run beside the check. Its output goes to a file.
    pub fn start(&self, log: &Path) -> Check<Service> {
        let mut command = self.command()?;
        let file = File::create(log)?;
        command.stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().map_err(|e| Stop::Fail(format!("{}: {e}", self.describe())))?;
        Ok(Service { child, log: log.to_owned(), what: self.describe() })
    }
}

impl Done {
    pub fn succeeded(&self) -> Check {
        if let Some(stacks) = &self.hung {
            return fail(format!("{}: did not end\n{}{stacks}", self.what, head(&self.err, 20)));
        }
        ensure(self.code == Some(0), || self.tell("exit code 0"))?;
        ensure(!self.err.contains("evenkeel: "), || self.tell("nothing reported"))
    }
    /// "wanted ..., got ...": the outcome and the output, for messages.
    pub fn tell(&self, wanted: &str) -> String {
        let ended = match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => "an unknown end".into(),
        };
        format!(
            "{}\nwanted {wanted}, got {ended}{}\nstdout:\n{}stderr:\n{}",
            self.what,
            if self.hung.is_some() { " (after its time was up)" } else { "" },
            head(&self.out, 25),
            head(&self.err, 25)
        )
    }
}

/// A server under test. Ended when dropped.
pub struct Service {
    child: Child,
    log: PathBuf,
    what: String,
}

impl Service {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
    /// Whether the library is mapped in the server, so that a result says something about it.
    pub fn has_library(&self) -> Check {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid()))?;
        let library = library()?.to_string_lossy().into_owned();
        ensure(maps.contains(&library), || format!("{}: {library} is not mapped", self.what))
    }
    /// Waits until `ready` says so; fails when the server ends before, or when it takes too long.
    pub fn until(&mut self, seconds: u64, what: &str, mut ready: impl FnMut() -> bool) -> Check {
        let end = Instant::now() + Duration::from_secs(seconds);
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                return fail(format!("{}: ended with {status}\n{}", self.what, head(&self.log(), 40)));
            }
            if Instant::now() > end {
                let stacks = stacks_of_group(self.pid());
                return fail(format!("{}: {what} after {seconds} s\n{}{stacks}", self.what, head(&self.log(), 40)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
    /// Asks it to end, with SIGTERM, and wants a clean end and no report of the heap.
    pub fn end(mut self, seconds: u64) -> Check {
        // SAFETY: the child was not waited for yet, so its id is still its own.
        unsafe { libc::kill(self.pid() as i32, libc::SIGTERM) };
        self.ended(seconds)
    }
    /// Waits for the end that something else brought about.
    pub fn ended(&mut self, seconds: u64) -> Check {
        let hung = wait_and_clear(&mut self.child, Duration::from_secs(seconds));
        let status = self.child.wait()?;
        let log = self.log();
        if let Some(stacks) = hung {
            return fail(format!("{}: did not end\n{}{stacks}", self.what, head(&log, 20)));
        }
        ensure(status.success(), || format!("{}: ended with {status}\n{}", self.what, head(&log, 40)))?;
        ensure(!log.contains("evenkeel: "), || format!("{}: reported\n{}", self.what, head(&log, 40)))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            kill_group(self.pid());
            let _ = self.child.wait();
        }
    }
}

fn read_all<R: Read + Send + 'static>(from: Option<R>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// In the environment of everything that the checks start, to know their own again.
const RUN: &str = "CHECKS_RUN";

/// Ends what is still there of a run, by process id, and says what that was. A process that left its group (a
/// daemon, a new session) is found by its environment; one whose first thread has ended has that only in the others.
pub fn sweep() -> Vec<String> {
    let token = format!("{RUN}={}", std::process::id()).into_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let tasks = std::fs::read_dir(entry.path().join("task")).into_iter().flatten().flatten();
        let environments = tasks.filter_map(|task| std::fs::read(task.path().join("environ")).ok());
        if environments.into_iter().any(|e| e.split(|&b| b == 0).any(|variable| variable == token)) {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(format!("{pid} {}", name.trim()));
            // SAFETY: a signal to a process that this run started.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    found
}

fn kill_group(leader: u32) {
    // SAFETY: the leader has not been waited for, so the group id cannot have passed to strangers.
    unsafe { libc::kill(-(leader as i32), libc::SIGKILL) };
}

/// Waits for the leader without reaping it, so that its group can be cleared of what it left while the group's id
/// is still certainly its own. Returns the stacks if the time was up.
fn wait_and_clear(child: &mut Child, limit: Duration) -> Option<String> {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_micros(500);
    let mut hung = None;
    loop {
        // SAFETY: siginfo_t is plain data; waitid fills it.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, child.id(), &mut info, flags) == 0 && info.si_pid() != 0
        };
        if ended {
            break;
        }
        if Instant::now() > end {
            hung = Some(stacks_of_group(child.id()));
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    kill_group(child.id());
    hung
}

/// Stacks of the processes of a group, for a hang's message. Without gdb: what the kernel says they wait in.
fn stacks_of_group(leader: u32) -> String {
    let mut text = String::new();
    let mut members: Vec<u32> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name, in brackets, may hold anything; the group is the third field after it.
        let group = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2)?.parse::<u32>().ok());
        if group == Some(leader) {
            members.push(pid);
        }
    }
    members.sort_unstable();
    for pid in members.into_iter().take(4) {
        // Also for a process whose first thread has ended, which gdb cannot attach to.
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let state = read("stat").rsplit_once(") ").map_or(String::new(), |(_, rest)| rest[..1].to_owned());
            let (task, name) = (task.file_name().display().to_string(), read("comm"));
            text.push_str(&format!("process {pid} task {task} {:?} {state} in {}\n", name.trim(), read("wchan")));
        }
        let gdb = Command::new("timeout")
            .args(["20", "gdb", "-q", "-batch", "-ex", "set pagination off", "-ex", "thread apply all bt 12", "-p"])
            .arg(pid.to_string())
            .env_remove("LD_PRELOAD")
            .output();
        if let Ok(gdb) = gdb {
            let frames = String::from_utf8_lossy(&gdb.stdout).into_owned();
            let frames: Vec<&str> =
                frames.lines().filter(|l| l.starts_with('#') || l.starts_with("Thread ")).take(120).collect();
            text.push_str(&head(&frames.join("\n"), 120));
        }
    }
    text
}
