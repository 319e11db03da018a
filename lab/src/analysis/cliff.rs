//! Where adding clients loses throughput beyond what saturation and noise explain.
//!
//! Walking up the client counts, the better law for the points before each is fitted to them. A point is the foot of a
//! cliff if
//! 1. it lies a fifth or more below the point before it, and no later point comes back up: a dip is not a cliff;
//! 2. it lies a fifth or more below what the law predicts there, and certainly below: the interval of prediction holds what
//!    the law misses of the points before, what its coefficients leave open, and the noise of the point itself;
//! 3. one smooth law through all points up to it explains them less well (AICc) than the law and a fall.

use super::fit::{Law, POINTS, chosen};
use super::noise::Spread;
use super::{Cliff, Estimate};

/// What is left after a fall of a fifth.
const FALL: f64 = 0.8;
/// One-sided, for each place.
const CERTAIN: f64 = 0.995;

/// A point of a curve: clients, the logarithm of throughput, its error where that is known, rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Height {
    pub clients: u32,
    pub ln: f64,
    pub error: Option<Spread>,
    pub rounds: u32,
}

/// The first cliff, and how many points lie before it. `points` rise in clients.
pub(super) fn cliff(points: &[Height]) -> Option<(Cliff, usize)> {
    (POINTS..points.len()).find_map(|foot| {
        let (before, here) = (points[foot - 1], points[foot]);
        let comes_back = points[foot..].iter().any(|p| p.ln - before.ln > FALL.ln());
        if comes_back {
            return None;
        }
        let known: Vec<(f64, f64)> = points[..=foot].iter().map(|p| (f64::from(p.clients), p.ln)).collect();
        let law = chosen(&known[..foot])?;
        let below = here.ln - law.at(f64::from(here.clients));
        let misfit = law.error_at(f64::from(here.clients));
        let error = here.error.map_or(misfit, |own| misfit.and(own));
        let certain = below + error.half(CERTAIN) < 0.0;
        let smooth = Law::usl(&known)?.aicc() < law.aicc_with_a_fall();
        if below > FALL.ln() || !certain || smooth {
            return None;
        }
        let half = error.half(0.975);
        let factor = Estimate {
            median: below.exp(),
            low: (below - half).exp(),
            high: (below + half).exp(),
            rounds: here.rounds,
        };
        Some((Cliff { before: before.clients, after: here.clients, factor }, foot))
    })
}
