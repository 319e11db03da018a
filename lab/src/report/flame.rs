//! Flamegraphs: stacks as boxes whose widths are their weights, the root below. Drawn as SVG that reads without its script; the script
//! adds search and zoom.
//!
//! - A frame that the heap owns (it, or under it) has the heap's colour.
//! - Against another profile a box shows how its function's share changed, inclusive or by itself; within the error of sampling it has no
//!   colour. What vanished is seen in the flamegraph of the other profile.

use super::markup::Markup;
use crate::profile::cause::Causes;
use crate::profile::table::{Counts, View};
use crate::profile::tree::{self, Node};
use crate::profile::{Frame, Profile, parts};
use std::collections::HashMap;

pub const CSS: &str = include_str!("flame.css");
pub const JS: &str = include_str!("flame.js");

const WIDTH: f64 = 1160.0;
const ROW: f64 = 17.0;
/// Narrower boxes are not drawn; what they hold is part of the box below.
const NARROWEST: f64 = 0.0008;
/// Of the letters in a box.
const LETTER: f64 = 6.4;

/// What boxes are compared with, if with anything.
pub struct Against<'a> {
    pub name: &'a str,
    pub counts: &'a Counts,
    /// Names that functions have there.
    pub call: &'a HashMap<String, String>,
}

/// All boxes of a profile but those of stacks that `keep` does not want.
pub fn draw(profile: &Profile, keep: impl Fn(&[Frame]) -> bool, against: Option<&Against>) -> Option<Markup> {
    let draw = Draw::of(profile, keep, against)?;
    let mut m = Markup::new();
    draw.svg(&mut m, None);
    Some(m)
}

/// A flamegraph as a file of its own.
pub fn alone(title: &str, profile: &Profile, against: Option<&Against>) -> Option<String> {
    let draw = Draw::of(profile, |_| true, against)?;
    let mut m = Markup::new();
    m.raw("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
    draw.svg(&mut m, Some(title));
    m.raw("\n");
    Some(m.finish())
}

fn depth(node: &Node, total: f64) -> usize {
    let wide = node.children.iter().filter(|c| c.weight as f64 >= NARROWEST * total);
    1 + wide.map(|c| depth(c, total)).max().unwrap_or(0)
}

struct Draw<'a> {
    profile: &'a Profile,
    roots: Vec<Node>,
    causes: Causes,
    total: u64,
    against: Option<&'a Against<'a>>,
    own: Counts,
    depth: usize,
}

impl<'a> Draw<'a> {
    fn of(profile: &'a Profile, keep: impl Fn(&[Frame]) -> bool, against: Option<&'a Against<'a>>) -> Option<Draw<'a>> {
        let roots = tree::roots(profile, |stack| keep(stack).then_some(0));
        let total: u64 = roots.iter().map(|n| n.weight).sum();
        if total == 0 {
            return None;
        }
        let depth = roots.iter().map(|n| depth(n, total as f64)).max().unwrap_or(0);
        let own = Counts::of(&[profile], &HashMap::new());
        Some(Draw { profile, roots, causes: Causes::of(profile), total, against, own, depth })
    }

    /// With a title it stands alone, and brings its style and script.
    fn svg(&self, m: &mut Markup, alone: Option<&str>) {
        let height = (self.depth as f64 + 1.0) * ROW + 2.0;
        let differs = if self.against.is_some() { " differs" } else { "" };
        let svg = m.el("svg").at("viewBox", format!("0 0 {WIDTH} {height}")).at("role", "img");
        let Some(title) = alone else {
            let label = format!("flamegraph of {} units of weight", self.total);
            svg.class("flame").at("aria-label", label).with(|m| self.boxes(m));
            return;
        };
        svg.at("xmlns", "http://www.w3.org/2000/svg").class(format!("flame alone{differs}")).with(|m| {
            m.leaf("title", title);
            m.el("style").with(|m| {
                m.raw(super::plot::CSS);
                m.raw(CSS);
            });
            self.boxes(m);
            m.el("script").with(|m| {
                m.raw("//<![CDATA[\n");
                m.raw(JS);
                m.raw("//]]>\n");
            });
        });
    }

    fn boxes(&self, m: &mut Markup) {
        // The row of all stacks.
        m.el("g").class("all").with(|m| {
            m.leaf("title", format!("all: {}", self.total));
            self.shape(m, 0.0, WIDTH, 0, "all");
        });
        self.nodes(m, &self.roots, 0.0, 1, false);
    }

    fn y(&self, row: usize) -> f64 {
        (self.depth - row.min(self.depth)) as f64 * ROW + 1.0
    }

    fn nodes(&self, m: &mut Markup, nodes: &[Node], from: f64, row: usize, in_heap: bool) {
        let mut x = from;
        for node in nodes {
            let width = node.weight as f64 / self.total as f64 * WIDTH;
            if width >= NARROWEST * WIDTH {
                let heap = in_heap || self.causes.is_heap(node.frame);
                self.node(m, node, x, width, row, heap);
                self.nodes(m, &node.children, x, row + 1, heap);
            }
            x += width;
        }
    }

    fn node(&self, m: &mut Markup, node: &Node, x: f64, width: f64, row: usize, heap: bool) {
        let name = self.profile.name(node.frame);
        let (object, function) = parts(name);
        let share = 100.0 * node.weight as f64 / self.total as f64;
        let mut title = format!("{name}\n{share:.2} % ({})", node.weight);
        let mut class = match object {
            _ if heap => "h".to_string(),
            Some("kernel") => "k".to_string(),
            _ => String::new(),
        };
        if let Some(against) = self.against {
            let (inclusive, words) = self.change(name, View::Inclusive, against);
            let (exclusive, by_itself) = self.change(name, View::Exclusive, against);
            class += &format!(" i{inclusive} x{exclusive}");
            title += &format!("\nthe function, inclusive: {words}\nby itself: {by_itself}");
        }
        m.el("g").class(class.trim()).with(|m| {
            m.leaf("title", title);
            self.shape(m, x, width, row, function);
        });
    }

    /// A step from -4 to 4 (as 0 to 8), and the change in words.
    fn change(&self, name: &str, view: View, against: &Against) -> (usize, String) {
        let there = against.call.get(name).map_or(name, String::as_str);
        let of = |counts: &Counts, name: &str| counts.share(name, view).unwrap_or_else(|| counts.share_of(0));
        let (now, was) = (of(&self.own, name), of(against.counts, there));
        let change = now.share - was.share;
        let error = now.error.hypot(was.error);
        let step = match change.abs() {
            c if c <= error => 0,
            c if c < 0.01 => 1,
            c if c < 0.03 => 2,
            c if c < 0.10 => 3,
            _ => 4,
        };
        let words = format!(
            "{:.1} %, {:.1} % in {}{}",
            100.0 * now.share,
            100.0 * was.share,
            against.name,
            if step == 0 { " (within the error)" } else { "" }
        );
        (if change < 0.0 { 4 - step } else { 4 + step }, words)
    }

    fn shape(&self, m: &mut Markup, x: f64, width: f64, row: usize, text: &str) {
        let y = self.y(row);
        m.el("rect").px("x", x).px("y", y).px("width", width).px("height", ROW - 1.0).done();
        let room = ((width - 5.0) / LETTER).max(0.0) as usize;
        if room >= 3 {
            m.el("text").px("x", x + 3.0).px("y", y + 12.0).text(fit(text, room));
        }
    }
}

fn fit(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_string();
    }
    text.chars().take(room - 1).chain(['…']).collect()
}
