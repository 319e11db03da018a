//! One trial: one process, under one heap, with a limit on its time.

use crate::heaps::Heap;
use crate::machine;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub struct Outcome {
    /// "ok", or in one or two words what went wrong.
    pub status: String,
    pub output: String,
    /// The first line that the process wrote to standard error.
    pub complaint: String,
    pub lasted: Duration,
}

/// All was measured, and then the process did not end.
pub const HUNG_AT_END: &str = "hung at end";
const SIGALRM: i32 = 14;

/// Enough for any line a workload prints; a heap that floods its standard error is not kept whole.
const KEPT: u64 = 64 * 1024;

/// `preload`: the process itself runs under the heap. Otherwise it only gets to know the heap, by BENCH_HEAP.
pub fn execute(program: &Path, args: &[String], heap: &Heap, preload: bool, limit: Duration) -> Outcome {
    let mut command = Command::new(program);
    command.args(args).env_remove("LD_PRELOAD").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(heap.env.iter().map(|(k, v)| (k, v)));
    match &heap.lib {
        Some(lib) if preload => command.env("LD_PRELOAD", lib),
        Some(lib) => command.env("BENCH_HEAP", lib),
        None => command.env_remove("BENCH_HEAP"),
    };
    let began = Instant::now();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(why) => {
            return Outcome {
                status: "not started".into(),
                output: String::new(),
                complaint: why.to_string(),
                lasted: Duration::ZERO,
            };
        }
    };
    let output = child.stdout.take().map(reader);
    let complaint = child.stderr.take().map(reader);
    let ended = wait(&mut child, began, limit);
    let lasted = began.elapsed();
    let text = |reader: Option<thread::JoinHandle<String>>| reader.and_then(|r| r.join().ok()).unwrap_or_default();
    let output = text(output);
    Outcome {
        status: ended.map_or_else(|why| why, |status| verdict(status, !words(&output).is_empty())),
        output,
        complaint: text(complaint).lines().next().unwrap_or("").to_string(),
        lasted,
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = vec![];
        let _ = pipe.by_ref().take(KEPT).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The status of a process that ended by itself, or why it was ended.
fn wait(child: &mut Child, began: Instant, limit: Duration) -> Result<ExitStatus, String> {
    let most = machine::memory_to_spare();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Ok(status);
        }
        let why = if began.elapsed() > limit {
            "timeout".to_string()
        } else if let Some(most) = most.filter(|most| machine::memory_of(child.id()) > *most) {
            format!("over {} GiB", most >> 30)
        } else {
            // Seldom enough not to disturb what is measured beside it.
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        let _ = child.kill();
        let _ = child.wait();
        return Err(why);
    }
}

/// The exit statuses and the alarm are those of `work/work.h`.
fn verdict(status: ExitStatus, measured: bool) -> String {
    match (status.code(), status.signal()) {
        (_, Some(SIGALRM)) if measured => HUNG_AT_END.into(),
        (Some(0), _) => "ok".into(),
        (Some(3), _) => "corrupt".into(),
        (Some(4), _) => "no memory".into(),
        (Some(5), _) => "setup failed".into(),
        (Some(code), _) => format!("exit {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "unknown".into(),
    }
}

/// The "key=value" words of the last line that begins with "work=".
pub fn words(output: &str) -> Vec<(&str, &str)> {
    output
        .lines()
        .rev()
        .find(|line| line.starts_with("work="))
        .map(|line| line.split_whitespace().filter_map(|w| w.split_once('=')).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, seconds: f64) -> Outcome {
        let heap = crate::heaps::plain();
        let args = ["-c".to_string(), script.to_string()];
        execute(Path::new("/bin/sh"), &args, &heap, true, Duration::from_secs_f64(seconds))
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(shell("echo work=x; exit 0", 5.0).status, "ok");
        assert_eq!(shell("exit 3", 5.0).status, "corrupt");
        assert_eq!(shell("exit 4", 5.0).status, "no memory");
        assert_eq!(shell("exit 77", 5.0).status, "exit 77");
        assert_eq!(shell("kill -SEGV $$", 5.0).status, "signal 11");
        assert_eq!(shell("kill -ALRM $$", 5.0).status, "signal 14");
        let late = shell("echo work=x; kill -ALRM $$", 5.0);
        assert_eq!(late.status, HUNG_AT_END);
    }

    #[test]
    fn a_hang_is_ended() {
        let outcome = shell("exec sleep 30", 0.1);
        assert_eq!(outcome.status, "timeout");
        assert!(outcome.lasted < Duration::from_secs(5));
    }

    #[test]
    fn a_complaint_is_kept() {
        assert_eq!(shell("echo bad pointer >&2; exit 1", 5.0).complaint, "bad pointer");
    }

    #[test]
    fn the_line_is_found_among_others() {
        let found = words("warning: x\nwork=pair ops=5 cpu_ns_per_op=1.5\nbye\n");
        assert_eq!(found, [("work", "pair"), ("ops", "5"), ("cpu_ns_per_op", "1.5")]);
        assert!(words("nothing").is_empty());
    }
}
