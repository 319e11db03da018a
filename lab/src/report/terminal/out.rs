//! Lines and tables of a terminal. No line is wider than asked for; what comes from records cannot move the cursor or change colours.

use crate::analysis::Verdict;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between two columns.
pub(super) const GAP: usize = 2;
/// Below that, no table can be read.
const NARROWEST: usize = 40;

/// Whatever would not show as itself in its place becomes �: control characters, and what changes the writing direction.
pub(super) fn clean(text: &str) -> String {
    let strange = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if strange(c) { '\u{fffd}' } else { c }).collect()
}

/// As much of a text as fits, with … if that is not all.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    out + "…"
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Style {
    Plain,
    Strong,
    Quiet,
    Good,
    Bad,
}

impl Style {
    pub(super) fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Better => Style::Good,
            Verdict::Worse => Style::Bad,
            Verdict::Equivalent | Verdict::Undecided => Style::Quiet,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Strong => "\x1b[1m",
            Style::Quiet => "\x1b[2m",
            Style::Good => "\x1b[34m",
            Style::Bad => "\x1b[31m",
        }
    }
}

/// A cell: pieces of text in styles.
pub(super) struct Text(pub(super) Vec<(String, Style)>);

impl Text {
    pub(super) fn of(text: impl Into<String>, style: Style) -> Self {
        Self(vec![(text.into(), style)])
    }

    pub(super) fn push(&mut self, text: String, style: Style) {
        self.0.push((text, style));
    }

    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.width()).sum()
    }

    pub(super) fn shown(&self) -> String {
        self.0.iter().map(|(text, _)| text.as_str()).collect()
    }
}

pub(super) struct Column {
    pub(super) head: String,
    pub(super) cells: Vec<Text>,
    pub(super) width: usize,
    pub(super) left: bool,
}

impl Column {
    pub(super) fn new(head: &str) -> Self {
        Column::with_head(head, 24)
    }

    /// Whose head may take so much.
    pub(super) fn with_head(head: &str, most: usize) -> Self {
        let head = cut(&clean(head), most);
        Self { width: head.width(), head, cells: vec![], left: false }
    }

    pub(super) fn fit(&mut self) {
        self.width = self.cells.iter().map(Text::width).max().unwrap_or(0).max(self.head.width());
    }
}

pub(super) struct Out {
    pub(super) text: String,
    pub(super) width: usize,
    pub(super) color: bool,
}

impl Out {
    pub(super) fn new(width: usize, color: bool) -> Out {
        Out { text: String::new(), width: width.max(NARROWEST), color }
    }

    pub(super) fn line(&mut self) {
        let end = self.text.trim_end_matches(' ').len();
        self.text.truncate(end);
        self.text.push('\n');
    }

    pub(super) fn put(&mut self, text: &str, style: Style) {
        match self.color && style != Style::Plain && !text.trim().is_empty() {
            true => self.text.extend([style.code(), text, "\x1b[0m"]),
            false => self.text.push_str(text),
        }
    }

    /// Filled lines; those after the first stand under the first word.
    pub(super) fn wrap(&mut self, lead: &str, text: &str, style: Style) {
        let room = self.width - lead.width();
        let mut lines = vec![String::new()];
        for word in clean(text).split(' ').filter(|w| !w.is_empty()) {
            for piece in pieces(word, room) {
                let last = lines.len() - 1;
                let gap = usize::from(!lines[last].is_empty());
                if lines[last].width() + gap + piece.width() > room {
                    lines.push(piece);
                } else {
                    lines[last].push_str(&" "[..gap]);
                    lines[last].push_str(&piece);
                }
            }
        }
        for (i, line) in lines.iter().enumerate() {
            let lead = if i == 0 { lead.into() } else { " ".repeat(lead.width()) };
            self.put(&lead, Style::Plain);
            self.put(line, style);
            self.line();
        }
    }

    /// As many columns beside each other as there is room for; the rest below, with the rows' names again.
    pub(super) fn in_parts(&mut self, names: &Column, columns: &[Column]) {
        let mut part: Vec<&Column> = vec![names];
        let mut used = names.width;
        for column in columns {
            if used + GAP + column.width > self.width && part.len() > 1 {
                self.table(&part);
                self.line();
                part.truncate(1);
                used = names.width;
            }
            used += GAP + column.width;
            part.push(column);
        }
        self.table(&part);
    }

    pub(super) fn table(&mut self, columns: &[&Column]) {
        let rows = columns.iter().map(|c| c.cells.len()).max().unwrap_or(0);
        let last = columns.len().saturating_sub(1);
        let pad = |n: usize| " ".repeat(n);
        for (i, c) in columns.iter().enumerate() {
            let space = c.width - c.head.width();
            let (before, after) = if c.left { (0, space) } else { (space, 0) };
            self.put(&pad(before), Style::Plain);
            self.put(&c.head, Style::Quiet);
            self.put(&pad(if i == last { 0 } else { after + GAP }), Style::Plain);
        }
        self.line();
        for row in 0..rows {
            for (i, c) in columns.iter().enumerate() {
                let Some(cell) = c.cells.get(row) else { continue };
                // A name that is wider than the terminal is cut; nothing else is.
                let whole = cell.width() <= self.width;
                let space = c.width.saturating_sub(cell.width());
                let (before, after) = if c.left { (0, space) } else { (space, 0) };
                self.put(&pad(before), Style::Plain);
                match whole {
                    true => cell.0.iter().for_each(|(text, style)| self.put(text, *style)),
                    false => self.put(&cut(&cell.shown(), self.width), Style::Plain),
                }
                self.put(&pad(if i == last { 0 } else { after + GAP }), Style::Plain);
            }
            self.line();
        }
    }
}

/// A word as it is, or in parts if it is wider than a line.
fn pieces(word: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for c in word.chars() {
        let w = c.width().unwrap_or(0);
        if used + w > room && used > 0 {
            pieces.push(String::new());
            used = 0;
        }
        used += w;
        if let Some(last) = pieces.last_mut() {
            last.push(c);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_and_wrap_by_display_width() {
        assert_eq!(cut("jemalloc", 8), "jemalloc");
        assert_eq!(cut("jemalloc", 5), "jema…");
        assert_eq!(cut("堆堆堆堆", 5), "堆堆…");
        let mut out = Out { text: String::new(), width: 10, color: false };
        out.wrap("- ", "one two three averyverylongword", Style::Plain);
        assert_eq!(
            out.text,
            "- one two\n  three\n  averyver\n  ylongword\n"
                .replace("averyver\n  ylongword", "averyver\n  ylongwor\n  d")
        );
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(clean("a\x1b[2Jb\r\n\u{202e}c"), "a�[2Jb���c");
    }
}
