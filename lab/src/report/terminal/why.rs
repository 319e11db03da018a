//! Why, for a terminal: the answer of each test, its three legs, and the tables behind them.

use super::out::{Column, GAP, Out, Style, Text, cut};
use crate::profile::table::View;
use crate::profile::{Kind, Profile};
use crate::report::Page;
use crate::report::why::{self as tables, THRESHOLD, Table};
use crate::why::{Sheet, Why};

/// Rows of a table: the page has them all.
const MOST: usize = 12;
/// No name of a function takes more.
const NAME: usize = 48;

/// Alone: what `evenkeel why` prints.
pub fn why(page: &Page, width: usize, color: bool) -> String {
    let mut out = Out::new(width, color);
    if let Some(why) = page.why {
        section(&mut out, why);
    }
    out.text
}

/// A published table of frames.
pub fn frames(sheet: &Sheet, threshold: f64, width: usize, color: bool) -> String {
    let mut out = Out::new(width, color);
    let shares: Vec<String> = sheet
        .variants
        .iter()
        .filter_map(|v| Some(format!("{:.1} % of {v}", 100.0 * sheet.heap_share(v).filter(|s| *s > 0.0)?)))
        .collect();
    if !shares.is_empty() {
        out.wrap("", &format!("The heap's frames hold {}.", shares.join(", ")), Style::Strong);
        out.line();
    }
    for view in [View::Exclusive, View::Inclusive] {
        show(&mut out, tables::of_sheet(sheet, view, threshold));
    }
    out.text
}

/// Folded stacks from anywhere.
pub fn stacks(profiles: &[(String, Profile)], threshold: f64, width: usize, color: bool) -> String {
    let mut out = Out::new(width, color);
    show(&mut out, Some(tables::causes_of(profiles)));
    for view in [View::Exclusive, View::Inclusive] {
        show(&mut out, tables::of_profiles(profiles, view, threshold, usize::MAX));
    }
    show(&mut out, tables::heap_frames_of(profiles, 0.005));
    out.text
}

pub(super) fn section(out: &mut Out, why: &Why) {
    for answer in &why.answers {
        out.wrap("", &answer.sentence, Style::Strong);
        out.line();
        for (i, leg) in answer.legs.iter().enumerate().filter(|_| answer.loss.is_some()) {
            let mark = match leg.holds {
                Some(true) => "holds",
                Some(false) => "no",
                None => "open",
            };
            out.wrap(&format!("{}. {mark:<6}", i + 1), &leg.words, Style::Plain);
        }
        out.line();
        for kind in [Kind::Cpu, Kind::Switches] {
            show(out, tables::causes(why, &answer.test, kind));
        }
        if let Some(views) = tables::views(why, answer) {
            show(out, tables::heap_frames(&views, Kind::Cpu, 0.005, MOST));
            show(out, tables::differences(&views, Kind::Cpu, View::Exclusive, THRESHOLD, MOST));
            let path = tables::heap_path(views.here, Kind::Cpu, 0.1);
            if !path.is_empty() {
                out.wrap("", &format!("The path to the heap, {}", tables::name(views.here)), Style::Strong);
                for (depth, frame, share) in path {
                    let lead = format!("{:5.1} %  {}", 100.0 * share, "  ".repeat(depth));
                    out.wrap(&lead, &frame, Style::Plain);
                }
                out.line();
            }
        }
        for words in tables::quality(why, &answer.test) {
            let bad = words.contains("lost too much") || words.contains("does not count");
            out.wrap("- ", &words, if bad { Style::Bad } else { Style::Quiet });
        }
        out.line();
    }
}

/// In parts below each other where the terminal is narrow.
fn show(out: &mut Out, table: Option<Table>) {
    let Some(table) = table else { return };
    out.wrap("", &table.title, Style::Strong);
    out.wrap("", &table.note, Style::Quiet);
    let style = |quiet: bool| if quiet { Style::Quiet } else { Style::Plain };
    let room = NAME.min(out.width / 2);
    let mut names = Column::new(&table.head[0]);
    names.left = true;
    names.cells = table.rows.iter().map(|r| Text::of(cut(&super::out::clean(&r.name), room), style(r.quiet))).collect();
    names.fit();
    let columns: Vec<Column> = table.head[1..]
        .iter()
        .enumerate()
        .map(|(i, head)| {
            let mut column = Column::with_head(head, out.width.saturating_sub(room + GAP).clamp(8, 40));
            column.cells = table.rows.iter().map(|r| Text::of(r.cells[i].clone(), style(r.quiet))).collect();
            column.fit();
            column
        })
        .collect();
    out.in_parts(&names, &columns);
    out.line();
}
