//! Whatever happens to a sweep, its folder can be finished: signals, kill -9 at any moment, a server that dies, a full disk. What is
//! left in the end is every trial once, and no server or scratch folder.

mod common;

use common::{Folder, Running, Said, embedded, records, short, skipped, until};
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

fn is(record: &Value, outcome: &str) -> bool {
    record["outcome"]["is"] == outcome
}

#[test]
fn a_signal_leaves_a_folder_that_can_be_finished() {
    embedded();
    let folder = Folder::new("signal");
    folder.write("x.toml", &short(&[("rounds = 2", "rounds = 3"), ("seconds = 0.1", "seconds = 0.3")]));
    for (signal, out) in [(Signal::SIGINT, "int"), (Signal::SIGTERM, "term"), (Signal::SIGHUP, "hup")] {
        let running = folder.start(&["sweep", "x.toml", "--out", out]);
        until("two records", || records(&folder.path(out)).len() >= 2);
        running.signal(signal);
        let said = running.end();
        let on = format!("stopped; go on with `evenkeel sweep --resume {out}`");
        assert!(said.err.ends_with(&format!("{on}\n")), "{}", said.err);
        assert_eq!(said.code, Some(3));
        folder.assert_clean();
        let kept = records(&folder.path(out));
        assert!((2..12).contains(&kept.len()), "{} records", kept.len());
        assert!(kept.iter().all(|r| is(r, "valid")), "the trial under way must not be a record: {kept:?}");
        folder.run(&["verify", out]).refused(2, &["has not ended", &format!("evenkeel sweep --resume {out}")]);
        // What there is can be judged.
        let part = folder.run(&["report", out, "--format", "terminal"]).fine().out;
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(part.contains(&format!("{} of 12 trials are missing", 12 - kept.len())), "{part}");
        folder.run(&["sweep", "--resume", out]).fine();
        let all = folder.assert_whole(out);
        assert_eq!(all[..kept.len()], kept, "records that were there stay");
        assert!(all.iter().all(|r| is(r, "valid")));
        folder.assert_clean();
    }
}

#[test]
fn two_do_not_work_in_one_folder() {
    embedded();
    let folder = Folder::new("two");
    folder.write("x.toml", &short(&[("seconds = 0.1", "seconds = 0.5")]));
    let mut running = folder.start(&["sweep", "x.toml", "--out", "out"]);
    until("a server", || !folder.servers().is_empty());
    folder.run(&["sweep", "--resume", "out"]).refused(2, &["another evenkeel works in out", "wait until it ends"]);
    assert!(running.runs(), "the first must not be disturbed");
    running.end().fine();
    assert!(folder.assert_whole("out").iter().all(|r| is(r, "valid")));
    folder.assert_clean();
}

/// Moments come from this seed.
const SEED: u64 = 20_261_121;
const KILLS: usize = 20;

/// SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn kill_9_at_twenty_random_moments_loses_nothing() {
    embedded();
    let folder = Folder::new("kill");
    folder.write("x.toml", &short(&[("rounds = 2", "rounds = 8"), ("clients = [1, 4]", "clients = [1, 2, 4]")]));
    let mut state = SEED;
    let (mut kills, mut sweeps, mut torn) = (0, 0, 0);
    while kills < KILLS {
        sweeps += 1;
        let out = format!("out-{sweeps}");
        loop {
            let began = folder.path(&out).join("plan.json").is_file();
            let words = if began { vec!["sweep", "--resume", &out] } else { vec!["sweep", "x.toml", "--out", &out] };
            let mut running = folder.start(&words);
            if kills < KILLS {
                thread::sleep(Duration::from_millis(draw(&mut state) % 900));
            }
            if kills < KILLS && running.runs() {
                let before = records(&folder.path(&out));
                running.signal(Signal::SIGKILL);
                assert_eq!(running.end().code, None);
                kills += 1;
                torn += usize::from(folder.path(&out).join("scratch").is_file());
                let after = records(&folder.path(&out));
                assert!(after.len() >= before.len() && after[..before.len()] == before, "a record is gone");
            } else {
                running.end().fine();
                break;
            }
        }
        let all = folder.assert_whole(&out);
        assert!(all.iter().all(|r| is(r, "valid")), "{all:?}");
        folder.assert_clean();
    }
    assert!(torn > 0, "no kill hit a sweep that ran");
    println!("{KILLS} kills in {sweeps} sweeps, {torn} of them while trials ran");
}

/// What a resumed sweep finds when its lab was killed and the server did not notice: it is ended, by its pid.
#[test]
fn a_server_that_outlived_its_lab_is_ended() {
    embedded();
    let folder = Folder::new("outlived");
    folder.write("x.toml", &short(&[]));
    let running = folder.start(&["sweep", "x.toml", "--out", "out"]);
    until("a record", || !records(&folder.path("out")).is_empty());
    running.signal(Signal::SIGKILL);
    running.end();
    until("the server to notice", || folder.servers().is_empty());
    // A server of that sweep whose stdin stays open, as one does that has a child of its own.
    let scratch = PathBuf::from(fs::read_to_string(folder.path("out/scratch")).unwrap());
    assert!(scratch.starts_with(folder.path("tmp")));
    fs::create_dir_all(scratch.join("life-9")).unwrap();
    let mut left = Command::new(embedded());
    left.args(["--serve", "--rows", "1000", "--dir"])
        .arg(scratch.join("life-9/data"))
        .stdin(std::process::Stdio::piped());
    left.stdout(std::process::Stdio::null());
    let mut left = left.spawn().unwrap();
    // One that only mentions the folder is none of ours.
    let mut other = Command::new("sleep");
    other.arg("1000").arg0_mentions(&scratch);
    let mut other = other.spawn().unwrap();
    let said = folder.run(&["sweep", "--resume", "out"]);
    let others = other.try_wait().unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    let ended = left.try_wait().unwrap();
    let _ = left.kill();
    left.wait().unwrap();
    said.fine();
    assert!(ended.is_some(), "the server still ran");
    assert_eq!(others, None, "another's process was ended");
    folder.assert_whole("out");
    folder.assert_clean();
}

trait Mentions {
    fn arg0_mentions(&mut self, path: &Path);
}

impl Mentions for Command {
    /// Its command line holds the path, as an editor's would that has a file of it open.
    fn arg0_mentions(&mut self, path: &Path) {
        std::os::unix::process::CommandExt::arg0(self, path.join("life-1/stderr.log"));
    }
}

#[test]
fn a_server_that_is_killed_is_a_failed_record() {
    embedded();
    let folder = Folder::new("server");
    let changes =
        [("twin = true", "twin = false"), ("clients = [1, 4]", "clients = [2, 60]"), ("seconds = 0.1", "seconds = 1")];
    folder.write("x.toml", &short(&changes));
    let running = folder.start(&["sweep", "x.toml", "--out", "out", "--fail-on", "invalid"]);
    // Two lives; each loses its server while 60 clients work.
    let mut killed: Vec<i32> = Vec::new();
    until("two servers with 60 clients", || {
        let busy = |pid: &i32| fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() >= 60);
        if let Some(pid) = folder.servers().into_iter().find(|pid| busy(pid) && !killed.contains(pid)) {
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
            killed.push(pid);
        }
        killed.len() == 2
    });
    let said = running.end();
    assert_eq!(said.code, Some(1), "--fail-on invalid: {said:?}");
    assert_eq!(
        said.err.matches("glibc, 60 clients: failed: the server died (signal: 9 (SIGKILL))").count(),
        2,
        "{}",
        said.err
    );
    let all = folder.assert_whole("out");
    for record in &all {
        let lost = record["cell"]["clients"] == 60;
        assert!(is(record, if lost { "failed" } else { "valid" }), "{record}");
        assert!(!lost || record["outcome"]["why"].as_str().unwrap().starts_with("the server died"), "{record}");
        assert!(!lost || record["figures"] == serde_json::json!({}), "a failed trial has no figures");
    }
    assert!(said.out.contains("SIGKILL"), "the table names what does not count: {}", said.out);
    folder.assert_clean();
}

/// A small file system of its own; gone when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: PathBuf) -> Result<Disk, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("only root can mount a small file system".into());
        }
        fs::create_dir_all(&path).unwrap();
        let said: Said =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "none"]).arg(&path).output().unwrap().into();
        if said.code == Some(0) { Ok(Disk(path)) } else { Err(format!("cannot mount: {}", said.err.trim())) }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_sweep_and_room_finishes_it() {
    embedded();
    let folder = Folder::new("disk");
    let disk = match Disk::mount(folder.path("disk")) {
        Ok(disk) => disk,
        Err(why) => return skipped("a_full_disk_ends_the_sweep_and_room_finishes_it", &why),
    };
    folder.write("x.toml", &short(&[("rounds = 2", "rounds = 5")]));
    // Room for the first files and a few trials: how many, is the file system's matter.
    fs::write(disk.0.join("ballast"), vec![0; 192 << 10]).unwrap();
    let said = folder.run(&["sweep", "x.toml", "--out", "disk/out"]);
    let on = "the sweep broke off; go on with `evenkeel sweep --resume disk/out`";
    said.refused(3, &["No space left on device", on]);
    folder.assert_clean();
    let kept = records(&disk.0.join("out"));
    assert!((1..20).contains(&kept.len()), "{} records", kept.len());
    assert!(kept.iter().all(|r| is(r, "valid")), "a full disk is no server's fault: {kept:?}");
    // Still full: the same again, and nothing is lost by it.
    folder.run(&["sweep", "--resume", "disk/out"]).refused(3, &["No space left on device"]);
    fs::remove_file(disk.0.join("ballast")).unwrap();
    folder.run(&["sweep", "--resume", "disk/out"]).fine();
    let all = folder.assert_whole("disk/out");
    assert_eq!(all[..kept.len()], kept);
    assert!(all.iter().all(|r| is(r, "valid")), "{all:?}");
    folder.assert_clean();
}

/// A folder that the sweep cannot write into.
#[test]
fn a_folder_without_leave_is_said_before_anything_runs() {
    embedded();
    if nix::unistd::geteuid().is_root() {
        return skipped("a_folder_without_leave_is_said_before_anything_runs", "root may write everywhere");
    }
    let folder = Folder::new("leave");
    folder.write("x.toml", &short(&[]));
    let mut closed = Command::new("sh");
    closed.args(["-c", "mkdir shut && chmod 500 shut"]).current_dir(&folder.0);
    Said::of(closed).fine();
    folder.run(&["sweep", "x.toml", "--out", "shut/out"]).refused(3, &["cannot make shut/out", "Permission denied"]);
    folder.assert_clean();
}

/// A lab that is stopped twice does not wait for anything.
#[test]
fn a_second_ctrl_c_does_not_wait() {
    embedded();
    let folder = Folder::new("twice");
    folder.write("x.toml", &short(&[("seconds = 0.1", "seconds = 60"), ("idle = 0", "idle = 60")]));
    let running: Running = folder.start(&["sweep", "x.toml", "--out", "out"]);
    until("a server", || !folder.servers().is_empty());
    running.signal(Signal::SIGINT);
    thread::sleep(Duration::from_millis(5));
    running.signal(Signal::SIGINT);
    let said = running.end();
    assert!([Some(130), Some(3)].contains(&said.code), "{said:?}");
    until("the server to notice", || folder.servers().is_empty());
}
