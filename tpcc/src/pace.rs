//! How long a person at a terminal types and thinks (clauses 5.2.5.2 and 5.2.5.4). Without it a client asks again at once,
//! and the figures are no tpmC in the standard's sense.

use crate::deck::Kind;
use crate::random::Random;
use std::time::Duration;

/// Typing before a transaction.
pub fn keying(kind: Kind) -> Duration {
    Duration::from_secs([18, 3, 2, 2, 2][kind as usize])
}

/// Thinking after it: exponential, cut off at ten times its mean.
pub fn think(kind: Kind, random: &mut Random) -> Duration {
    let mean = [12.0, 12.0, 10.0, 5.0, 5.0][kind as usize];
    Duration::from_secs_f64((-(1.0 - random.unit()).ln() * mean).min(10.0 * mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_has_its_mean_and_its_end() {
        let mut random = Random::new(1, 1);
        let all: Vec<f64> = (0..100_000).map(|_| think(Kind::Payment, &mut random).as_secs_f64()).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((11.8..12.2).contains(&mean), "{mean}");
        assert!(all.iter().all(|s| (0.0..=120.0).contains(s)));
        assert_eq!(keying(Kind::NewOrder).as_secs(), 18);
    }
}
