//! CSV as RFC 4180 has it: commas, quotes doubled inside quotes, LF or CRLF. Every field keeps its place.

use super::{Error, Source};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub text: String,
    pub line: usize,
    pub column: usize,
}

impl Field {
    pub fn error(&self, source: &Source, what: impl Into<String>) -> Error {
        Error { path: source.path.into(), line: self.line, column: self.column, what: what.into() }
    }
}

/// All rows that are not empty; a line that begins with # is a remark.
pub(super) fn rows(source: &Source) -> Result<Vec<Vec<Field>>, Error> {
    let mut reader = Reader { rest: source.text.strip_prefix('\u{feff}').unwrap_or(source.text), line: 1, column: 1 };
    let mut rows = Vec::new();
    while !reader.rest.is_empty() {
        if reader.rest.starts_with('#') {
            while !matches!(reader.next(), Some('\n') | None) {}
            continue;
        }
        let row = reader.row(source)?;
        if row.iter().any(|f| !f.text.is_empty()) {
            rows.push(row);
        }
    }
    Ok(rows)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        (self.line, self.column) = if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        Some(c)
    }

    fn row(&mut self, source: &Source) -> Result<Vec<Field>, Error> {
        let mut row = Vec::new();
        loop {
            let mut field = Field { text: String::new(), line: self.line, column: self.column };
            if self.rest.starts_with('"') {
                self.next();
                loop {
                    match self.next() {
                        Some('"') if self.rest.starts_with('"') => field.text.extend(self.next()),
                        Some('"') => break,
                        Some(c) => field.text.push(c),
                        None => return Err(field.error(source, "a quote that is never closed")),
                    }
                }
                if !matches!(self.rest.chars().next(), None | Some(',' | '\r' | '\n')) {
                    return Err(
                        field.error(source, "text after the closing quote; expected a comma or the end of the line")
                    );
                }
            }
            let end = loop {
                match self.next() {
                    Some('\r') if self.rest.starts_with('\n') => {}
                    end @ (Some(',' | '\n') | None) => break end,
                    Some(c) => field.text.push(c),
                }
            };
            field.text = field.text.trim().to_string();
            row.push(field);
            if end != Some(',') {
                return Ok(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<Vec<String>> {
        let rows = rows(&Source { path: "t.csv", text, heap: None }).expect("rows");
        rows.into_iter().map(|r| r.into_iter().map(|f| f.text).collect()).collect()
    }

    #[test]
    fn quotes_commas_and_line_ends() {
        let expected = vec![vec!["a", "b,c", "d\"e"], vec!["1", "", "x\ny"], vec!["last", "", ""]];
        assert_eq!(texts("a,\"b,c\",\"d\"\"e\"\r\n# remark\n\n1,,\"x\ny\"\nlast,,"), expected);
        assert_eq!(texts("\u{feff}a,b\n"), vec![vec!["a", "b"]]);
    }

    #[test]
    fn places_are_those_of_the_file() {
        let rows = rows(&Source { path: "t.csv", text: "ab,\"c\nd\",e\nf,g", heap: None }).expect("rows");
        let places: Vec<(usize, usize)> = rows.iter().flatten().map(|f| (f.line, f.column)).collect();
        assert_eq!(places, [(1, 1), (1, 4), (2, 4), (3, 1), (3, 3)]);
        let open = super::rows(&Source { path: "t.csv", text: "a,\"b", heap: None }).expect_err("open");
        assert_eq!(open.to_string(), "t.csv:1:3: a quote that is never closed");
    }
}
