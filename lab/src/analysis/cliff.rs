//! Where adding clients loses throughput beyond what saturation and noise explain.
//!
//! Walking up the client counts, a law is fitted to the points before each. A point is the foot of a cliff if it
//! 1. lies a fifth or more below the point before it,
//! 2. lies a fifth or more below what both laws predict there, and certainly below: outside the interval of prediction,
//!    corrected for the number of places looked at,
//! 3. and no later point comes back up: a dip is not a cliff.

use super::fit::{Law, chosen};
use super::noise::Spread;
use super::{Cliff, Estimate};

/// What is left after a fall of a fifth.
const FALL: f64 = 0.8;
/// A law of fewer points predicts nothing.
const POINTS_BEFORE: usize = 4;

/// A point of a curve: clients, the logarithm of throughput, its squared error where it is known, rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Height {
    pub clients: u32,
    pub ln: f64,
    pub variance: f64,
    pub rounds: u32,
}

/// The first cliff, and how many points lie before it. `points` rise in clients.
pub(super) fn cliff(points: &[Height]) -> Option<(Cliff, usize)> {
    let places = points.len().saturating_sub(POINTS_BEFORE);
    let certain = 1.0 - 0.025 / places.max(1) as f64;
    (POINTS_BEFORE..points.len()).find_map(|foot| {
        let (before, here) = (points[foot - 1], points[foot]);
        let lost = here.ln - before.ln;
        let stays = points[foot + 1..].iter().all(|p| p.ln - before.ln <= FALL.ln());
        if lost > FALL.ln() || !stays {
            return None;
        }
        let known: Vec<(f64, f64)> = points[..foot].iter().map(|p| (f64::from(p.clients), p.ln)).collect();
        let clients = f64::from(here.clients);
        let against = |law: &Law| {
            let error = law.error_at(clients);
            (here.ln - law.at(clients), Spread { variance: error.variance + here.variance, df: error.df })
        };
        let laws = [Law::usl(&known)?, Law::saturating(&known)?];
        let beyond = |law: &Law| {
            let (below, error) = against(law);
            below <= FALL.ln() && below + error.t(certain) * error.sd() < 0.0
        };
        if !laws.iter().all(beyond) {
            return None;
        }
        // With too few points to choose a law, the one that blames least.
        let milder = laws.iter().max_by(|a, b| against(a).0.total_cmp(&against(b).0))?;
        let (below, error) = against(chosen(&known).as_ref().unwrap_or(milder));
        let half = error.t(0.975) * error.sd();
        let factor = Estimate {
            median: below.exp(),
            low: (below - half).exp(),
            high: (below + half).exp(),
            rounds: here.rounds,
        };
        Some((Cliff { before: before.clients, after: here.clients, factor }, foot))
    })
}
