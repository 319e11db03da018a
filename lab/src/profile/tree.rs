//! Stacks merged from their roots: what a flamegraph draws, and the path that most of the weight takes.

use super::{Frame, Profile};
use std::collections::HashMap;

/// A node and the weight of all stacks that pass it. Children come heaviest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub frame: Frame,
    pub weight: u64,
    /// Of the stacks that end here.
    pub own: u64,
    pub children: Vec<Node>,
}

/// The roots of a profile. `keep` says from which frame of a stack on it is wanted; None leaves it out.
pub fn roots(profile: &Profile, keep: impl Fn(&[Frame]) -> Option<usize>) -> Vec<Node> {
    let mut arena = Arena::default();
    for (stack, weight) in profile.stacks() {
        if let Some(from) = keep(stack) {
            arena.add(&stack[from..], weight);
        }
    }
    arena.nodes(0)
}

/// Nodes by number while they grow; 0 is the root of all.
struct Arena {
    nodes: Vec<(Frame, u64, u64)>,
    children: Vec<Vec<usize>>,
    places: HashMap<(usize, Frame), usize>,
}

impl Default for Arena {
    fn default() -> Self {
        Arena { nodes: vec![(0, 0, 0)], children: vec![Vec::new()], places: HashMap::new() }
    }
}

impl Arena {
    fn add(&mut self, stack: &[Frame], weight: u64) {
        let mut at = 0;
        for frame in stack {
            let next = self.nodes.len();
            let child = *self.places.entry((at, *frame)).or_insert(next);
            if child == next {
                self.nodes.push((*frame, 0, 0));
                self.children.push(Vec::new());
                self.children[at].push(child);
            }
            at = child;
            self.nodes[at].1 += weight;
        }
        self.nodes[at].2 += weight;
    }

    fn nodes(&self, at: usize) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.children[at]
            .iter()
            .map(|&child| {
                let (frame, weight, own) = self.nodes[child];
                Node { frame, weight, own, children: self.nodes(child) }
            })
            .collect();
        nodes.sort_by(|a, b| b.weight.cmp(&a.weight).then(a.frame.cmp(&b.frame)));
        nodes
    }
}

/// One line of a path: how deep it stands, the frame, its weight.
pub type Step = (usize, Frame, u64);

/// The path that dominates: from the root along every child that holds at least `least` of the whole. A run of frames that only pass
/// the weight on stays as deep as it is; a fork goes deeper.
pub fn dominating(roots: &[Node], least: f64) -> Vec<Step> {
    let total: u64 = roots.iter().map(|n| n.weight).sum();
    let floor = (total as f64 * least).max(1.0);
    let mut steps = Vec::new();
    walk(roots, 0, floor, &mut steps);
    steps
}

fn walk(nodes: &[Node], depth: usize, floor: f64, steps: &mut Vec<Step>) {
    let heavy: Vec<&Node> = nodes.iter().filter(|n| n.weight as f64 >= floor).collect();
    for node in &heavy {
        steps.push((depth, node.frame, node.weight));
        let forks = node.children.iter().filter(|c| c.weight as f64 >= floor).count() > 1;
        walk(&node.children, depth + usize::from(forks), floor, steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::folded;

    #[test]
    fn weights_add_up_at_every_node() {
        let profile = folded::read("t", "a;b;c 5\na;b 2\na;d 1\ne 1\n").unwrap();
        let roots = roots(&profile, |_| Some(0));
        let name = |n: &Node| profile.name(n.frame).to_string();
        assert_eq!(
            roots.iter().map(|n| (name(n), n.weight, n.own)).collect::<Vec<_>>(),
            [("a".into(), 8, 0), ("e".into(), 1, 1)]
        );
        fn check(node: &Node) {
            assert_eq!(node.weight, node.own + node.children.iter().map(|c| c.weight).sum::<u64>());
            node.children.iter().for_each(check);
        }
        roots.iter().for_each(check);
        let steps: Vec<(usize, String)> =
            dominating(&roots, 0.2).into_iter().map(|(d, f, _)| (d, profile.name(f).to_string())).collect();
        assert_eq!(steps, [(0, "a".to_string()), (0, "b".into()), (0, "c".into())]);
    }

    #[test]
    fn a_part_of_the_stacks() {
        let profile = folded::read("t", "a;m;x 5\na;b 2\nz;m;y 1\n").unwrap();
        let m = profile.names().iter().position(|n| n == "m").unwrap() as Frame;
        let roots = roots(&profile, |s| s.iter().position(|f| *f == m));
        assert_eq!((roots.len(), roots[0].weight, roots[0].children.len()), (1, 6, 2));
    }
}
