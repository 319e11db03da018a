//! Which row an operation asks for. The distributions and their parameters are sysbench's: low ids are the hot ones.

use clap::ValueEnum;
use rand::Rng;
use rand::distr::Distribution as _;
use rand_distr::Zipf;

/// sysbench's `--rand-zipfian-exp`.
const ZIPF_EXPONENT: f64 = 0.8;
/// sysbench's `--rand-pareto-h`: this share of the rows gets the rest of the requests.
const PARETO_H: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    Uniform,
    Zipf,
    Pareto,
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipf => "zipf",
            Distribution::Pareto => "pareto",
        })
    }
}

/// Which rows a client writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Writes {
    /// Those of its own share, every n-th of n clients: no two transactions are in each other's way.
    Own,
    /// Any.
    Any,
}

impl std::fmt::Display for Writes {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Writes::Own => "own",
            Writes::Any => "any",
        })
    }
}

/// A client's share of the ids: those that leave `place` when divided by `clients`.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub place: u64,
    pub clients: u64,
}

impl Share {
    /// The id of the share that is nearest below or above `id` in its block of `clients` ids; `id` itself where the share is empty.
    pub fn own(self, id: u64, rows: u64) -> u64 {
        let mine = id - id % self.clients + self.place;
        if mine < rows { mine } else { mine.checked_sub(self.clients).unwrap_or(id) }
    }
}

/// Draws ids in `0..rows`.
#[derive(Clone, Copy)]
pub struct Keys {
    rows: u64,
    shape: Shape,
}

#[derive(Clone, Copy)]
enum Shape {
    Uniform,
    Zipf(Zipf<f64>),
    Pareto { power: f64 },
}

impl Keys {
    pub fn new(distribution: Distribution, rows: u64) -> Keys {
        assert!(rows > 0);
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Zipf => {
                Shape::Zipf(Zipf::new(rows as f64, ZIPF_EXPONENT).expect("rows and exponent are positive"))
            }
            Distribution::Pareto => Shape::Pareto { power: PARETO_H.ln() / (1.0 - PARETO_H).ln() },
        };
        Keys { rows, shape }
    }

    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        let id = match &self.shape {
            Shape::Uniform => return rng.random_range(0..self.rows),
            Shape::Zipf(zipf) => zipf.sample(rng) as u64 - 1,
            Shape::Pareto { power } => (rng.random::<f64>().powf(*power) * self.rows as f64) as u64,
        };
        // Rounding at the far end of a float may step out by one.
        id.min(self.rows - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_do_not_meet_and_stay_inside() {
        for (rows, clients) in [(1000, 7), (20, 20), (21, 20), (5, 1)] {
            let mut owner = vec![None; rows as usize];
            for place in 0..clients {
                for id in 0..rows {
                    let own = Share { place, clients }.own(id, rows);
                    assert!(own < rows);
                    assert!(owner[own as usize].replace(place).is_none_or(|before| before == place), "{own} of {rows}");
                }
            }
        }
        // More clients than rows: those without a share write anywhere.
        assert_eq!(Share { place: 9, clients: 10 }.own(3, 5), 3);
    }
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    const DRAWS: usize = 400_000;

    /// How often each id was drawn.
    fn drawn(distribution: Distribution, rows: u64) -> Vec<usize> {
        let (keys, mut rng) = (Keys::new(distribution, rows), SmallRng::seed_from_u64(1));
        let mut counts = vec![0; rows as usize];
        (0..DRAWS).for_each(|_| counts[keys.draw(&mut rng) as usize] += 1);
        counts
    }

    fn share(counts: &[usize], of: std::ops::Range<usize>) -> f64 {
        counts[of].iter().sum::<usize>() as f64 / DRAWS as f64
    }

    #[test]
    fn uniform_gives_each_row_its_share() {
        let counts = drawn(Distribution::Uniform, 1000);
        // 400 expected, standard deviation 20.
        assert!(counts.iter().all(|n| (280..=520).contains(n)), "{counts:?}");
    }

    #[test]
    fn zipf_follows_its_law() {
        let counts = drawn(Distribution::Zipf, 1000);
        let harmonic: f64 = (1..=1000).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT)).sum();
        for rank in [1, 2, 10, 100] {
            let expected = DRAWS as f64 * (rank as f64).powf(-ZIPF_EXPONENT) / harmonic;
            let found = counts[rank - 1] as f64;
            assert!((found - expected).abs() < 6.0 * expected.sqrt(), "rank {rank}: {found}, expected {expected}");
        }
    }

    #[test]
    fn pareto_gives_a_fifth_of_the_rows_four_fifths_of_the_requests() {
        let counts = drawn(Distribution::Pareto, 1000);
        assert!((share(&counts, 0..200) - 0.8).abs() < 0.01);
        assert!((share(&counts, 0..40) - 0.64).abs() < 0.01);
    }

    #[test]
    fn one_row_is_always_the_same_row() {
        for distribution in [Distribution::Uniform, Distribution::Zipf, Distribution::Pareto] {
            assert_eq!(drawn(distribution, 1), [DRAWS]);
        }
    }

    #[test]
    fn a_seed_repeats_its_choices() {
        let keys = Keys::new(Distribution::Zipf, 50_000);
        let draw = |seed| {
            let mut rng = SmallRng::seed_from_u64(seed);
            (0..100).map(|_| keys.draw(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
