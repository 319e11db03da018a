//! A checkup, for a terminal: what was found, a table of the profile, what to try, and what could not be seen.

use super::out::{Column, Out, Style, Text, clean};
use crate::analysis::words::{bytes, list, percent, span, two_digits};
use crate::doctor::Checkup;
use crate::doctor::advice::{Advice, Grade};
use crate::doctor::facts::{Activity, Arenas, Facts, Heap, Heaps, Limits, Memory, Profiled, Server, Side};
use crate::placement;
use crate::profile::cause::Cause;
use crate::report::words::{counted, whole};

/// Room for the words in front of the lines.
const LEAD: usize = 13;
/// Shares below this are left out of the table.
const SMALL: f64 = 0.01;
/// Waits of which fewer were seen say nothing.
const FEW: u64 = 20;

pub fn doctor(checkup: &Checkup, width: usize, color: bool) -> String {
    let mut out = Out::new(width, color);
    let facts = &checkup.facts;
    title(&mut out, facts);
    out.line();
    for (name, text) in lines(facts) {
        out.wrap(&format!("{name:LEAD$}"), &text, Style::Plain);
    }
    if let Some(seen) = &facts.profile {
        out.line();
        profile(&mut out, seen);
    }
    if !checkup.advice.is_empty() {
        out.line();
    }
    for advice in &checkup.advice {
        say(&mut out, advice);
    }
    if !facts.lacking.is_empty() {
        out.line();
        out.wrap("", "Not seen", Style::Strong);
        for lacking in &facts.lacking {
            out.wrap("- ", &format!("{}: {}; {}", lacking.what, lacking.why, lacking.remedy), Style::Plain);
        }
    }
    out.text
}

fn title(out: &mut Out, facts: &Facts) {
    let p = &facts.process;
    let threads = counted(p.threads as usize, "thread", "threads");
    let words = format!("{}, PID {}, as {}, {threads}, up {}", clean(&p.name), p.pid, p.user, age(p.age));
    out.wrap("", &words, Style::Strong);
    let version = facts.server.as_ref().map(|s| format!("version {}, {}", s.version, s.socket));
    let program = p.program.as_ref().map(|p| p.to_string());
    let more: Vec<String> = program.into_iter().chain(version).collect();
    if !more.is_empty() {
        out.wrap("", &more.join("; "), Style::Quiet);
    }
}

/// What was found, each kind in a line with its name.
fn lines(facts: &Facts) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(heaps) = &facts.heap {
        let mut name = "heap";
        for heap in heaps.in_use() {
            lines.push((name, of_heap(heap)));
            name = "";
        }
        lines.push((name, how(heaps)));
        if !heaps.settings.is_empty() {
            let all: Vec<String> = heaps.settings.iter().map(|(n, v)| format!("{n}={v}")).collect();
            lines.push(("settings", all.join(" ")));
        }
    }
    lines.extend(facts.memory.as_ref().map(|m| ("memory", of_memory(m))));
    lines.extend(facts.server.as_ref().and_then(|s| Some(("it counts", of_server(s)?))));
    lines.extend(facts.arenas.as_ref().map(|a| ("arenas", of_arenas(a))));
    lines.extend(facts.activity.as_ref().map(|a| ("activity", of_activity(a, &facts.limits))));
    lines.push(("clients", clients(facts)));
    lines.push(("limits", of_limits(&facts.limits)));
    lines.push(("machine", machine(&facts.limits)));
    lines.retain(|(_, text)| !text.is_empty());
    lines
}

fn of_heap(heap: &Heap) -> String {
    let version = heap.version.as_ref().map(|v| format!(" {v}")).unwrap_or_default();
    let libraries = || counted(heap.users.len(), "library", "libraries");
    let by = match (heap.by_program, heap.users.len()) {
        (true, 0) => "in the program".to_string(),
        (true, _) => format!("in the program and {}", libraries()),
        (false, 0) => format!("for the use of {} alone", crate::doctor::short(&heap.object)),
        (false, 1) => format!("in {}", crate::doctor::short(&heap.users[0])),
        (false, _) => format!("in {}", libraries()),
    };
    format!("{}{version}, {by} ({}: {})", heap.name, heap.object, heap.how)
}

fn how(heaps: &Heaps) -> String {
    let mut text = match (heaps.in_use().next(), heaps.read, heaps.reckoned) {
        (None, ..) => "no heap was recognised: the program may have one of its own".to_string(),
        (_, 0, 0) => String::new(),
        (_, read, 0) => format!("read from {}", counted(read, "object", "objects")),
        (_, 0, _) => "reckoned by the loader's order, not read".into(),
        (_, read, reckoned) => {
            format!("read from {}; {reckoned} more have not called it yet", counted(read, "object", "objects"))
        }
    };
    if let Some(preload) = &heaps.preload {
        text += &format!("; LD_PRELOAD at its start: {preload}");
    }
    text
}

fn of_memory(m: &Memory) -> String {
    let mut parts = vec![format!("RSS {}", bytes(m.rss))];
    parts.extend(m.peak.map(|p| format!("peak {}", bytes(p))));
    parts.extend(m.pss.map(|p| format!("PSS {}", bytes(p))));
    parts.push(format!("anonymous {}", bytes(m.anonymous)));
    parts.push(format!("swap {}", bytes(m.swap)));
    parts.extend(m.lazy_free.map(|l| format!("LazyFree {}", bytes(l))));
    parts.extend(m.huge.map(|h| format!("huge pages {}", bytes(h))));
    parts.join(", ")
}

fn of_server(server: &Server) -> Option<String> {
    let used = server.memory_used?;
    let caches: Vec<String> = server
        .caches
        .iter()
        .map(|c| match c.holds {
            Some(holds) => format!("{} {} of {}", c.name, bytes(holds), bytes(c.configured)),
            None => format!("{} {}", c.name, bytes(c.configured)),
        })
        .collect();
    let resident = server.resident()?;
    Some(format!(
        "{} as used, caches as configured; with caches as filled ({}): {}",
        bytes(used),
        list(&caches),
        bytes(resident)
    ))
}

fn of_arenas(a: &Arenas) -> String {
    let most = a.most.map(|m| format!(" of at most {m} ({})", a.most_why)).unwrap_or_default();
    let counted = if a.exact { "" } else { ", as their areas tell" };
    let mut text = format!(
        "{}{most}{counted}; main {} resident of {}; the others {} resident of {} mapped and {} reserved",
        a.count,
        bytes(a.main_resident),
        bytes(a.main_mapped),
        bytes(a.resident),
        bytes(a.mapped),
        bytes(a.reserved)
    );
    if let (Some(free), Some(top)) = (a.free, a.top) {
        text += &format!("; {} of what is mapped are free, {} of that at their tops", bytes(free), bytes(top));
    }
    if let Some(back) = a.pages {
        text += &format!(", {} of it whole pages in memory", bytes(back));
    }
    text
}

fn of_activity(a: &Activity, limits: &Limits) -> String {
    let mut text = format!("{} of {} CPUs", two_digits(a.cpus), limits.cpus.len());
    if let (Some(own), Some(forced)) = (a.voluntary_switches, a.involuntary_switches) {
        text += &format!(", {} switches/s ({} of them preempted)", whole(own + forced), whole(forced));
    }
    text + &format!(", {} page faults/s, over {}", whole(a.page_faults), span(a.seconds))
}

fn clients(facts: &Facts) -> String {
    if let Some(server) = &facts.server {
        let part = |n: Option<f64>, text: &str| n.map(|n| text.replace('#', &whole(n)));
        let parts = [
            part(server.connections, "# connected"),
            part(server.connections_most, "# at most since its start"),
            part(server.connections_limit, "limit #"),
        ];
        return parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    }
    facts.limits.sockets.map_or(String::new(), |n| counted(n, "open socket", "open sockets"))
}

fn of_limits(l: &Limits) -> String {
    let of = |what: &str, used: Option<f64>, most: Option<f64>, write: &dyn Fn(f64) -> String| match (used, most) {
        (Some(used), Some(most)) => Some(format!("{what} {} of {}", write(used), write(most))),
        (Some(used), None) => Some(format!("{what} {}", write(used))),
        (None, Some(most)) => Some(format!("{what} at most {}", write(most))),
        (None, None) => None,
    };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(of("open files", l.files, l.files_most, &whole));
    parts.extend(of("processes and threads of its user", None, l.tasks_most, &whole));
    parts.extend(of("memory of its group", l.group_memory, l.group_memory_most, &bytes));
    parts.extend(l.group_cpus.map(|c| format!("its group may use {} CPUs", two_digits(c))));
    parts.extend(l.oom_score.map(|s| {
        let adjusted = l.oom_score_adjustment.filter(|a| *a != 0).map(|a| format!(", adjusted by {a}"));
        format!("OOM score {s}{}", adjusted.unwrap_or_default())
    }));
    parts.join("; ")
}

fn machine(l: &Limits) -> String {
    let mut parts = vec![format!("CPUs {} (of {} here)", placement::write(&l.cpus), l.cpus_here)];
    if l.nodes > 1 {
        parts.push(format!("{} NUMA nodes", l.nodes));
    }
    let off = if l.huge_pages_of_process == Some(false) { ", but never for this process" } else { "" };
    parts.extend(l.huge_pages.as_ref().map(|h| format!("huge pages {h}{off}")));
    parts.join("; ")
}

fn profile(out: &mut Out, seen: &Profiled) {
    let half = span(seen.seconds / f64::from(seen.phases));
    let title = format!("Profile of {}", span(seen.seconds));
    out.wrap("", &title, Style::Strong);
    let lost = match seen.lost {
        0 => "none lost".to_string(),
        _ => format!("about {} of the machine's events lost", percent(seen.lost_share())),
    };
    let mut note = format!(
        "{} samples, {lost}; CPU: {} CPUs over {half}",
        whole(seen.samples as f64),
        two_digits(seen.cpu.seconds)
    );
    if let Some(waits) = seen.waits.as_ref().filter(|w| w.samples >= FEW) {
        note += &format!(
            "; waits: {} threads on average, over another {half}, without those at rest or only waiting for a CPU",
            two_digits(waits.seconds)
        );
    }
    out.wrap("", &note, Style::Quiet);
    if seen.cpu.samples == 0 {
        return;
    }
    let share = |side: &Side, cause: Cause| side.causes.iter().find(|(c, _)| *c == cause).map_or(0.0, |(_, s)| *s);
    let cell = |s: f64| {
        if s > 0.0 { Text::of(percent(s), Style::Plain) } else { Text::of("–", Style::Quiet) }
    };
    let sides: Vec<(&str, &Side)> =
        [("CPU", Some(&seen.cpu)), ("waits", seen.waits.as_ref().filter(|w| w.samples >= FEW))]
            .into_iter()
            .filter_map(|(name, side)| Some((name, side?)))
            .collect();
    let shown: Vec<Cause> = Cause::ALL
        .into_iter()
        .filter(|c| sides.iter().any(|(_, s)| share(s, *c) >= SMALL || c.is_heap() && share(s, *c) > 0.0))
        .collect();
    let mut names = Column::new("cause");
    names.left = true;
    names.cells.push(Text::of("the heap, all of it", Style::Strong));
    names.cells.extend(shown.iter().map(|c| Text::of(c.name(), Style::Plain)));
    names.fit();
    let mut columns = vec![names];
    for (name, side) in &sides {
        let mut column = Column::new(name);
        column.cells.push(Text::of(
            format!("{} ±{}", percent(side.heap.share), two_digits(100.0 * side.heap.error)),
            Style::Strong,
        ));
        column.cells.extend(shown.iter().map(|c| cell(share(side, *c))));
        column.fit();
        columns.push(column);
    }
    out.table(&columns.iter().collect::<Vec<_>>());
}

fn say(out: &mut Out, advice: &Advice) {
    let (mark, style) = match advice.grade {
        Grade::Bad => ("! ", Style::Bad),
        Grade::Worth => ("> ", Style::Strong),
        Grade::Note => ("- ", Style::Plain),
        Grade::Fine => ("= ", Style::Plain),
    };
    out.wrap(mark, &format!("{}: {}.", advice.about, advice.says), style);
    if let Some(attempt) = &advice.attempt {
        out.wrap("  Try: ", &format!("{attempt}."), Style::Plain);
    }
}

fn age(seconds: f64) -> String {
    if seconds < 48.0 * 3600.0 { span(seconds) } else { format!("{:.0} days", seconds / 86_400.0) }
}
