//! Writes HTML and SVG. Everything that is not a literal of this program goes through `escape` on its way: text and
//! attributes by construction, since only `&'static str` can be written raw. So no name or message from a record can
//! become markup.

use std::fmt::{self, Display, Write};

#[derive(Default)]
pub struct Markup(String);

/// An element whose start tag is being written. It is closed by `done`, `text`, `with` or `raw`.
#[must_use]
pub struct Element<'m> {
    out: &'m mut Markup,
    tag: &'static str,
}

impl Markup {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn el(&mut self, tag: &'static str) -> Element<'_> {
        self.0.push('<');
        self.0.push_str(tag);
        Element { out: self, tag }
    }

    /// An element with nothing but text in it.
    pub fn leaf(&mut self, tag: &'static str, text: impl Display) {
        self.el(tag).text(text);
    }

    pub fn text(&mut self, text: impl Display) {
        escape(&mut self.0, text);
    }

    pub fn raw(&mut self, literal: &'static str) {
        self.0.push_str(literal);
    }

    pub fn append(&mut self, other: &Markup) {
        self.0.push_str(&other.0);
    }

    pub fn finish(self) -> String {
        self.0
    }
}

impl<'m> Element<'m> {
    pub fn at(self, name: &'static str, value: impl Display) -> Self {
        self.out.0.push(' ');
        self.out.0.push_str(name);
        self.out.0.push_str("=\"");
        escape(&mut self.out.0, value);
        self.out.0.push('"');
        self
    }

    /// A coordinate: tenths of a pixel are enough.
    pub fn px(self, name: &'static str, value: f64) -> Self {
        self.at(name, Px(value))
    }

    pub fn class(self, name: impl Display) -> Self {
        self.at("class", name)
    }

    pub fn done(self) {
        self.out.0.push_str("/>");
    }

    pub fn text(self, text: impl Display) {
        self.with(|m| m.text(text));
    }

    pub fn raw(self, literal: &'static str) {
        self.with(|m| m.raw(literal));
    }

    pub fn with(self, inner: impl FnOnce(&mut Markup)) {
        self.out.0.push('>');
        inner(self.out);
        self.out.0.push_str("</");
        self.out.0.push_str(self.tag);
        self.out.0.push('>');
    }
}

pub struct Px(pub f64);

impl Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round();
        match tenths % 10.0 == 0.0 {
            true => write!(f, "{:.0}", tenths / 10.0 + 0.0),
            false => write!(f, "{:.1}", tenths / 10.0),
        }
    }
}

fn escape(out: &mut String, value: impl Display) {
    struct Escape<'s>(&'s mut String);
    impl Write for Escape<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for c in text.chars() {
                match c {
                    '<' => self.0.push_str("&lt;"),
                    '>' => self.0.push_str("&gt;"),
                    '&' => self.0.push_str("&amp;"),
                    '"' => self.0.push_str("&quot;"),
                    '\'' => self.0.push_str("&#39;"),
                    '\n' | '\t' => self.0.push(c),
                    // Neither HTML nor XML has a way to write them.
                    c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => self.0.push('\u{fffd}'),
                    c => self.0.push(c),
                }
            }
            Ok(())
        }
    }
    // Writing to a String cannot fail; a Display that fails leaves what it wrote.
    let _ = write!(Escape(out), "{value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut m = Markup::new();
        m.el("p").at("title", "\"><script>").with(|m| {
            m.text("<script>alert('&')</script>\u{1b}[31m");
            m.el("br").done();
        });
        assert_eq!(
            m.finish(),
            "<p title=\"&quot;&gt;&lt;script&gt;\">&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;\u{fffd}[31m<br/></p>"
        );
    }

    #[test]
    fn coordinates_are_short() {
        let shown = |v| Px(v).to_string();
        assert_eq!([shown(3.0), shown(3.04), shown(-0.01), shown(2.55), shown(1e3)], ["3", "3", "0", "2.6", "1000"]);
        assert_eq!(shown(-2.25), "-2.3");
    }
}
