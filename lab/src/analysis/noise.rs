//! How far measurements of one and the same thing scatter. All in logarithms, where 0.04 is a scatter of 4 %.

use std::collections::BTreeMap;

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};
use statrs::function::gamma::digamma;

use super::table::Values;

/// A variance, and the degrees of freedom that it is known with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub variance: f64,
    pub df: f64,
}

/// So unlikely must their variances be if the cells' noise is one.
const DIFFERENT: f64 = 0.95;
/// No noise is taken for less than this: published figures are rounded, and a variance of 0 would make any difference sure.
const LEAST_VARIANCE: f64 = 1e-8;

impl Spread {
    /// Variance about the mean. None for fewer than two values.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        (values.len() > 1).then(|| Spread { variance: (squares / (n - 1.0)).max(LEAST_VARIANCE), df: n - 1.0 })
    }

    /// Of the mean of n such values.
    pub fn of_mean(self, n: usize) -> Spread {
        self.scaled(1.0 / n as f64)
    }

    pub fn scaled(self, factor: f64) -> Spread {
        Spread { variance: self.variance * factor, ..self }
    }

    /// With another, independent one (Welch and Satterthwaite).
    pub fn and(self, other: Spread) -> Spread {
        let (a, b) = (self.variance, other.variance);
        Spread { variance: a + b, df: (a + b).powi(2) / (a * a / self.df + b * b / other.df) }
    }

    pub fn sd(self) -> f64 {
        self.variance.sqrt()
    }

    /// Quantile of Student's t with its degrees of freedom.
    pub fn t(self, p: f64) -> f64 {
        if self.df > 1e6 { normal().inverse_cdf(p) } else { students(self.df).inverse_cdf(p) }
    }

    /// How far an interval reaches that ends at this quantile.
    pub fn half(self, p: f64) -> f64 {
        self.t(p) * self.sd()
    }

    /// How probable a value of t this far from 0 is, on both sides together.
    pub fn p(self, t: f64) -> f64 {
        2.0 * self.beyond(t.abs())
    }

    /// How probable a value of t above this is.
    pub fn beyond(self, t: f64) -> f64 {
        if self.df > 1e6 { normal().sf(t) } else { students(self.df).sf(t) }
    }
}

pub(super) fn normal() -> Normal {
    Normal::standard()
}

fn students(df: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, df.max(0.5)).expect("a positive number of degrees of freedom")
}

/// The variances of many cells, from which each cell's own gets its strength: a cell of three rounds knows little of its
/// noise, thirty such cells know much. Where cells differ in noise by more than chance (Bartlett's test), each keeps more of
/// its own (moderated t of Smyth 2004, as in limma).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    common: f64,
    /// Weight of the common variance, in degrees of freedom; infinite where cells do not differ.
    weight: f64,
    total_df: f64,
}

impl Pool {
    /// `shared`: how many cells were made of each value: differences from one baseline share its values. `alike`: how many cells
    /// one independent cell is worth less for the company it keeps (see `company`), 1 or more.
    pub fn of(cells: &[Spread], shared: usize, alike: f64) -> Option<Pool> {
        let sum: f64 = cells.iter().map(|c| c.df).sum();
        if sum == 0.0 {
            return None;
        }
        // Two differences with one baseline correlate by 1/2, their squares by 1/4.
        let total_df = sum / (1.0 + (shared as f64 - 1.0) / 4.0) / alike;
        let pooled = cells.iter().map(|c| c.variance * c.df).sum::<f64>() / sum;
        let alike = Pool { common: pooled, weight: f64::INFINITY, total_df };
        let n = cells.len() as f64;
        let inverses: f64 = cells.iter().map(|c| 1.0 / c.df).sum();
        let bartlett = (sum * pooled.ln() - cells.iter().map(|c| c.df * c.variance.ln()).sum::<f64>())
            / (1.0 + (inverses - 1.0 / sum) / (3.0 * (n - 1.0)));
        if cells.len() < 2 || bartlett < chi_squared(n - 1.0).inverse_cdf(DIFFERENT) {
            return Some(alike);
        }
        let logs: Vec<f64> = cells.iter().map(|c| c.variance.ln() - digamma(c.df / 2.0) + (c.df / 2.0).ln()).collect();
        let mean = logs.iter().sum::<f64>() / n;
        let by_chance = cells.iter().map(|c| trigamma(c.df / 2.0)).sum::<f64>() / n;
        let beyond_chance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0) - by_chance;
        if beyond_chance <= 0.0 {
            return Some(alike);
        }
        let half = trigamma_inverse(beyond_chance);
        // Smyth's weight is twice as much. It supposes that the variances come from one distribution; those of a server come
        // in two kinds, before and after it saturates, and half the weight keeps the false alarms near their 5 % there.
        Some(Pool { common: (mean + digamma(half) - half.ln()).exp(), weight: half, total_df })
    }

    /// What is known of a cell's noise, `own` being what its own rounds say.
    pub fn spread(&self, own: Option<Spread>) -> Spread {
        let own = own.unwrap_or(Spread { variance: self.common, df: 0.0 });
        if self.weight.is_infinite() {
            return Spread { variance: self.common, df: self.total_df };
        }
        let df = self.weight + own.df;
        Spread { variance: (self.weight * self.common + own.df * own.variance) / df, df: df.min(self.total_df) }
    }

    /// Of the difference of two cells' means, each given by its own spread and number of rounds.
    pub fn difference(&self, a: (Option<Spread>, usize), b: (Option<Spread>, usize)) -> Spread {
        let error = self.spread(a.0).of_mean(a.1).and(self.spread(b.0).of_mean(b.1));
        // Where noise is alike both come from one pool, and no more is known than that pool knows.
        let df = if self.weight.is_infinite() { self.total_df } else { error.df.min(self.total_df) };
        Spread { df, ..error }
    }

    /// The noise of a cell like most.
    pub fn typical(&self) -> Spread {
        self.spread(None)
    }
}

/// What is measured within one life of a server is not independent: a life that is slow at 8 clients may be slow at 64. Given the
/// values of each variant by client count and round, this is what the squares of `n` client counts that correlate by r are worth
/// less than `n` independent ones: 1 + (n - 1) r^2.
pub(super) fn company(values: &Values) -> f64 {
    let (mut products, mut pairs, mut squares, mut cells) = (0.0, 0.0, 0.0, 0.0);
    let mut counts = 0usize;
    for variant in values {
        let centred: Vec<BTreeMap<u32, f64>> = variant
            .iter()
            .filter(|cell| cell.len() > 1)
            .map(|cell| {
                let mean = cell.values().sum::<f64>() / cell.len() as f64;
                cell.iter().map(|(round, v)| (*round, v - mean)).collect()
            })
            .collect();
        counts = counts.max(centred.len());
        for (at, cell) in centred.iter().enumerate() {
            squares += cell.values().map(|v| v * v).sum::<f64>();
            cells += 1.0;
            for other in &centred[..at] {
                products += cell.iter().filter_map(|(round, v)| Some(v * other.get(round)?)).sum::<f64>();
                pairs += 1.0;
            }
        }
    }
    if pairs == 0.0 || squares == 0.0 {
        return 1.0;
    }
    let correlation = ((products / pairs) / (squares / cells)).clamp(0.0, 1.0);
    1.0 + (counts as f64 - 1.0) * correlation.powi(2)
}

/// Noise of one measurement where every cell was measured once: how far each lies from the straight line between its
/// neighbours on the axis of clients (from its one neighbour, if there are but two), less what all variants have in common
/// there. Places where a variant breaks away (a cliff) are told from noise by their size and left out.
pub(super) fn along_clients(logs: &Values, clients: &[u32]) -> Option<Spread> {
    let single = |v: usize, c: usize| logs[v][c].values().next().copied();
    let places = match clients.len() {
        0 | 1 => Vec::new(),
        2 => vec![(0, 1, 1)],
        n => (1..n - 1).map(|c| (c - 1, c, c + 1)).collect(),
    };
    // One spread for each place, over the variants there.
    let mut found: Vec<Spread> = Vec::new();
    for (left, here, right) in places {
        let x = |c: usize| f64::from(clients[c].max(1)).ln();
        let share = if here == right { 0.0 } else { (x(here) - x(left)) / (x(right) - x(left)) };
        let scale = (1.0 + share.powi(2) + (1.0 - share).powi(2)).sqrt();
        let off: Vec<f64> = (0..logs.len())
            .filter_map(|v| {
                let line = (1.0 - share) * single(v, left)? + share * single(v, right)?;
                Some((single(v, here)? - line) / scale)
            })
            .collect();
        found.extend(Spread::of(&off));
    }
    let middle = super::estimate::median(
        &found.iter().map(|s| s.variance * s.df / chi_squared(s.df).inverse_cdf(0.5)).collect::<Vec<_>>(),
    );
    let kept: Vec<Spread> =
        found.iter().copied().filter(|s| s.variance * s.df <= middle * chi_squared(s.df).inverse_cdf(0.995)).collect();
    let squares: f64 = kept.iter().map(|s| s.variance * s.df).sum();
    let sum: f64 = kept.iter().map(|s| s.df).sum();
    // Neighbouring places share their points: so many independent ones they are worth (Gasser, Sroka and Jennen-Steinmetz
    // 1986: the variance of this estimate is 35/18 of that of independent values).
    let worth = if clients.len() > 2 { 1.0f64.max(sum * 18.0 / 35.0) } else { sum };
    (sum > 0.0).then(|| Spread { variance: (squares / sum).max(LEAST_VARIANCE), df: worth })
}

fn chi_squared(df: f64) -> ChiSquared {
    ChiSquared::new(df).expect("a positive number of degrees of freedom")
}

/// Second derivative of ln gamma, for x > 0.
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))
}

/// The x at which trigamma is y, for y > 0: it falls all the way, so halving an interval finds it.
fn trigamma_inverse(y: f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, 1e6f64);
    for _ in 0..100 {
        let x = (low * high).sqrt();
        if trigamma(x) > y { low = x } else { high = x }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_holds_its_known_values() {
        let pi = std::f64::consts::PI;
        assert!((trigamma(1.0) - pi * pi / 6.0).abs() < 1e-9);
        assert!((trigamma(0.5) - pi * pi / 2.0).abs() < 1e-9);
        for x in [0.3, 1.0, 7.5, 40.0] {
            assert!((trigamma_inverse(trigamma(x)) / x - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn cells_of_one_noise_are_pooled_and_a_noisy_cell_keeps_its_own() {
        let alike: Vec<Spread> = (0..20).map(|i| Spread { variance: 1.0 + 0.01 * f64::from(i), df: 4.0 }).collect();
        let pool = Pool::of(&alike, 1, 1.0).expect("twenty cells");
        assert_eq!(pool.typical().df, 80.0);
        assert!((pool.typical().variance - 1.095).abs() < 1e-9);
        let mut one_noisy = alike;
        one_noisy.push(Spread { variance: 400.0, df: 4.0 });
        let pool = Pool::of(&one_noisy, 1, 1.0).expect("cells");
        assert!(pool.spread(one_noisy.last().copied()).variance > 10.0 * pool.typical().variance);
    }

    #[test]
    fn what_moves_together_is_worth_less() {
        let cell = |values: [f64; 4]| (1..).zip(values).collect::<BTreeMap<u32, f64>>();
        let up = [1.0, 2.0, 3.0, 4.0];
        assert!((company(&vec![vec![cell(up), cell(up), cell(up)]]) - 3.0).abs() < 1e-12);
        // Two that have nothing to do with each other.
        assert_eq!(company(&vec![vec![cell([1.0, -1.0, 1.0, -1.0]), cell([1.0, 1.0, -1.0, -1.0])]]), 1.0);
        assert_eq!(company(&vec![vec![cell(up)]]), 1.0);
        assert_eq!(company(&vec![vec![BTreeMap::new(), cell(up)]]), 1.0);
    }
}
