//! Memory that is not needed goes back, by itself and soon; memory follows CPUs, not threads. Figures in KiB.
//! The bounds leave room for other machines; the time allowed is ten seconds where the heap promises two, because
//! the machine may be busy.

use crate::harness::{Check, Done, List, Mode, Program, Stop, ensure, figure, skip};

pub fn add(list: &mut List) {
    list.both("memory::empty_program", empty_program);
    // 128 MiB in blocks of 16 to 4,096 bytes, all freed; the same with 5 % left in place; and large blocks.
    list.both("memory::burst", |mode| comes_down(mode, "burst", &[], 20_000).map(drop));
    list.both("memory::burst_with_survivors", |mode| comes_down(mode, "survivors", &[], 44_000).map(drop));
    list.both("memory::burst_of_large_blocks", |mode| comes_down(mode, "large", &[], 20_000).map(drop));
    list.both("memory::burst_in_a_fork_child", |mode| comes_down(mode, "forked", &[], 20_000).map(drop));
    list.both("memory::threads_4096_hand_over_and_exit", |mode| {
        comes_down(mode, "handover", &["threads=4096"], 24_000).map(drop)
    });
    list.both("memory::threads_come_and_go", |mode| {
        let done = comes_down(mode, "churn", &["threads=3000"], 8_000)?;
        let (early, late) = (figure(&done.out, "vsz_early")?, figure(&done.out, "vsz_late")?);
        ensure(late - early < 16 * 1024, || done.tell("address space that does not grow with threads"))
    });
    list.both("memory::locked", locked);
}

fn comes_down(mode: Mode, what: &str, args: &[&str], low: i64) -> Check<Done> {
    let (what, low_arg) = (format!("what={what}"), format!("low={low}"));
    let program = Program::c("memory.c")?.args([what.as_str(), low_arg.as_str()]).args(args);
    let done = program.under(mode).limit(120).succeed()?;
    let rss = figure(&done.out, "rss")?;
    ensure(rss <= low, || done.tell(&format!("at most {low} KiB left")))?;
    Ok(done)
}

fn empty_program(mode: Mode) -> Check {
    let glibc = Program::c("hello.c")?.succeed()?;
    let ours = Program::c("hello.c")?.under(mode).succeed()?;
    let (rss, reference) = (figure(&ours.out, "rss_kib")?, figure(&glibc.out, "rss_kib")?);
    // 1.9 MiB where glibc has 1.3 to 1.6; elsewhere the loader and libc may weigh more, for both.
    let bound = (1900 * 1024 / 1000).max(reference + 400);
    ensure(rss <= bound, || ours.tell(&format!("at most {bound} KiB (glibc: {reference})")))?;
    ensure(figure(&ours.out, "vsz_kib")? < 1 << 20, || ours.tell("less than 1 GiB of address space"))
}

/// mlockall makes every writable page of every mapping resident, now and later, and refuses to give locked memory
/// back: a heap that had reserved its address space writable would be resident as a whole.
fn locked(mode: Mode) -> Check {
    let program = |mode| Ok::<_, Stop>(Program::c("memory.c")?.args(["what=mlocked", "low=20000"]).under(mode));
    let glibc = program(Mode::Glibc)?.run()?;
    if glibc.code != Some(0) || glibc.out.contains("cannot lock") {
        return skip("not enough memory may be locked here (RLIMIT_MEMLOCK)");
    }
    let ours = program(mode)?.succeed()?;
    let bound = figure(&glibc.out, "peak")? + 80_000;
    ensure(figure(&ours.out, "peak")? <= bound, || ours.tell(&format!("a peak of at most {bound} KiB")))
}
