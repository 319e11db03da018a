//! Which cells are worth a profile: those of the largest loss, and those that it is compared with.

use super::loss::{Against, Asked, losses};
use crate::analysis::Test;
use std::collections::BTreeSet;

/// A variant at a client count of a test, by the names of the analysis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chosen {
    pub test: String,
    pub variant: String,
    pub clients: u32,
}

/// The loser where it loses and where it did not yet; and beside it, at the same clients, the variant that is free of the loss or does
/// best. Without a loss: the baseline and the best, at the fewest and at the most clients.
pub fn choose(tests: &[Test], asked: Asked) -> Vec<Chosen> {
    let mut chosen = BTreeSet::new();
    for test in tests {
        let (variants, clients) = match losses(test, asked).into_iter().next() {
            Some(loss) => {
                let from = match loss.against {
                    Against::Cliff(from) | Against::Peak(from) => Some(from),
                    Against::Level => None,
                };
                let variants: Vec<String> = std::iter::once(loss.variant).chain(loss.beside).collect();
                (variants, std::iter::once(loss.clients).chain(from).collect::<Vec<u32>>())
            }
            None => {
                let last = test.clients.last().copied();
                let at_last = |v: &str| {
                    let curve = test.curves.iter().find(|c| c.variant == v)?;
                    super::loss::figure(curve, last?, test.throughput)
                };
                let others = test
                    .curves
                    .iter()
                    .map(|c| c.variant.as_str())
                    .filter(|v| *v != test.baseline && !(asked.is_twin)(v));
                let best = others.max_by(|a, b| at_last(a).unwrap_or(0.0).total_cmp(&at_last(b).unwrap_or(0.0)));
                let variants = std::iter::once(test.baseline.clone()).chain(best.map(str::to_string)).collect();
                (variants, test.clients.first().copied().into_iter().chain(last).collect())
            }
        };
        for variant in &variants {
            for clients in &clients {
                chosen.insert(Chosen { test: test.test.clone(), variant: variant.clone(), clients: *clients });
            }
        }
    }
    chosen.into_iter().collect()
}
