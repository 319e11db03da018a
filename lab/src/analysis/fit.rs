//! A curve's law: the Universal Scalability Law and its special case without coherence, which saturates and stays. Fitted to
//! the logarithms of throughput, so that a tenth counts alike at 1 client and at 1,000; chosen by AICc.
//!
//! N / X(N) = D(N) is linear in its coefficients: D = a + b (N-1) + c N (N-1), with rate 1/a, contention b/a, coherence c/a.
//! None is below 0, and contention is at most 1, where one client already saturates. Each set of terms that lies on such a
//! bound is fitted by itself, by Gauss and Newton's steps, and the best that keeps to the bounds is taken.

use super::Fit;
use super::noise::Spread;

/// Fewer points than this tell no law from another.
pub(super) const POINTS: usize = 5;
/// No measured curve follows its law more closely than this: a prediction's error is at least this, in logarithms.
const LEAST_MISFIT: f64 = 0.01;

/// A term of D.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Term {
    Alone,
    Contention,
    Coherence,
    /// `Alone` and `Contention` with one coefficient: contention is 1.
    Serial,
}

impl Term {
    fn at(self, n: f64) -> f64 {
        match self {
            Term::Alone => 1.0,
            Term::Contention => n - 1.0,
            Term::Coherence => n * (n - 1.0),
            Term::Serial => n,
        }
    }
}

const SATURATING: [&[Term]; 3] = [&[Term::Alone, Term::Contention], &[Term::Alone], &[Term::Serial]];
const USL: [&[Term]; 3] = [
    &[Term::Alone, Term::Contention, Term::Coherence],
    &[Term::Alone, Term::Coherence],
    &[Term::Serial, Term::Coherence],
];

/// A law fitted to points, with all that a prediction needs.
#[derive(Clone, Debug)]
pub(super) struct Law {
    terms: &'static [Term],
    coefficients: Vec<f64>,
    /// Those of the law, also where some turned out to be 0.
    parameters: f64,
    squares: f64,
    clients: Vec<f64>,
}

impl Law {
    /// X(N) = rate N / (1 + contention (N-1) + coherence N (N-1)). `points`: clients, and the logarithm of throughput.
    pub fn usl(points: &[(f64, f64)]) -> Option<Law> {
        Law::best(points, USL.iter().chain(&SATURATING), 3)
    }

    /// The same without coherence.
    pub fn saturating(points: &[(f64, f64)]) -> Option<Law> {
        Law::best(points, SATURATING.iter(), 2)
    }

    /// Needs a point more than parameters.
    fn best<'a>(
        points: &[(f64, f64)],
        sets: impl Iterator<Item = &'a &'static [Term]>,
        parameters: usize,
    ) -> Option<Law> {
        if points.len() <= parameters {
            return None;
        }
        let laws = sets.filter_map(|terms| Law::fitted(terms, points));
        let best = laws.filter(Law::keeps_bounds).min_by(|a, b| a.squares.total_cmp(&b.squares))?;
        Some(Law { parameters: parameters as f64, ..best })
    }

    fn keeps_bounds(&self) -> bool {
        self.coefficients.iter().all(|c| *c > 0.0) && self.contention() <= 1.0
    }

    fn fitted(terms: &'static [Term], points: &[(f64, f64)]) -> Option<Law> {
        let clients: Vec<f64> = points.iter().map(|p| p.0).collect();
        // D as it was measured; the first step starts from it, which makes it a fit of relative errors.
        let targets: Vec<f64> = points.iter().map(|(n, ln_x)| n / ln_x.exp()).collect();
        let start = regression(terms, &clients, &targets, &vec![1.0; points.len()])?;
        let of = |coefficients: Vec<f64>| {
            let law = Law { terms, coefficients, parameters: 0.0, squares: 0.0, clients: clients.clone() };
            let squares = points.iter().map(|(n, ln_x)| (ln_x - law.at(*n)).powi(2)).sum();
            Law { squares, ..law }
        };
        let mut law = of(start);
        if !law.squares.is_finite() {
            return None;
        }
        for _ in 0..50 {
            let below: Vec<f64> = clients.iter().map(|n| law.denominator(*n)).collect();
            let off: Vec<f64> = points.iter().map(|(n, ln_x)| law.at(*n) - ln_x).collect();
            let step = regression(terms, &clients, &below, &off)?;
            // Half a step, or a quarter, where a whole one leads up.
            let tries = (0..30).map(|i| 0.5f64.powi(i));
            let next = tries
                .map(|part| of(law.coefficients.iter().zip(&step).map(|(c, s)| c + part * s).collect()))
                .find(|next| next.squares < law.squares);
            match next {
                Some(next) if next.squares < (1.0 - 1e-9) * law.squares => law = next,
                _ => break,
            }
        }
        Some(law)
    }

    fn denominator(&self, n: f64) -> f64 {
        self.terms.iter().zip(&self.coefficients).map(|(t, c)| t.at(n) * c).sum()
    }

    /// The logarithm of the throughput that the law gives.
    pub fn at(&self, clients: f64) -> f64 {
        clients.ln() - self.denominator(clients).ln()
    }

    fn coefficient(&self, term: Term) -> f64 {
        self.terms.iter().zip(&self.coefficients).find(|(t, _)| **t == term).map_or(0.0, |(_, c)| *c)
    }

    fn rate(&self) -> f64 {
        1.0 / (self.coefficient(Term::Alone) + self.coefficient(Term::Serial))
    }

    fn contention(&self) -> f64 {
        self.rate() * (self.coefficient(Term::Contention) + self.coefficient(Term::Serial))
    }

    fn coherence(&self) -> f64 {
        self.rate() * self.coefficient(Term::Coherence)
    }

    /// Akaike's criterion for small samples. Infinite where the points are too few.
    pub fn aicc(&self) -> f64 {
        aicc(self.squares, self.clients.len() as f64, self.parameters)
    }

    /// The same for one more point, which the law does not explain: it costs a parameter and leaves no misfit.
    pub fn aicc_with_a_fall(&self) -> f64 {
        aicc(self.squares, self.clients.len() as f64 + 1.0, self.parameters + 1.0)
    }

    /// Error of a prediction of one more point: the law's misfit so far, and what its coefficients leave open there.
    pub fn error_at(&self, clients: f64) -> Spread {
        let df = (self.clients.len() as f64 - self.parameters).max(1.0);
        let variance = (self.squares / df).max(LEAST_MISFIT.powi(2));
        Spread { variance: variance * (1.0 + self.leverage(clients)), df }
    }

    /// g' (J'J)^-1 g, with the gradient g of ln D in the coefficients.
    fn leverage(&self, clients: f64) -> f64 {
        let gradient = |n: f64| -> Vec<f64> { self.terms.iter().map(|t| t.at(n) / self.denominator(n)).collect() };
        let g = gradient(clients);
        let rows: Vec<Vec<f64>> = self.clients.iter().map(|n| gradient(*n)).collect();
        let x = solve(products(&rows), g.clone());
        x.map_or(f64::INFINITY, |x| x.iter().zip(&g).map(|(a, b)| a * b).sum::<f64>().max(0.0))
    }
}

/// The noise is a parameter too.
fn aicc(squares: f64, n: f64, parameters: f64) -> f64 {
    let k = parameters + 1.0;
    if n - k - 1.0 < 0.5 {
        return f64::INFINITY;
    }
    n * (squares / n).max(LEAST_MISFIT.powi(2)).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0)
}

/// The coefficients of the terms, each divided by `below`, that come closest to `wanted`.
fn regression(terms: &[Term], clients: &[f64], below: &[f64], wanted: &[f64]) -> Option<Vec<f64>> {
    let rows: Vec<Vec<f64>> =
        clients.iter().zip(below).map(|(n, d)| terms.iter().map(|t| t.at(*n) / d).collect()).collect();
    let right = (0..terms.len()).map(|i| rows.iter().zip(wanted).map(|(row, w)| row[i] * w).sum()).collect();
    solve(products(&rows), right)
}

/// J'J.
fn products(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = rows.first().map_or(0, Vec::len);
    (0..n).map(|i| (0..n).map(|j| rows.iter().map(|r| r[i] * r[j]).sum()).collect()).collect()
}

/// Solves a x = b with Cholesky's factors of a, scaled to a diagonal of 1. None if the unknowns are not determined.
fn solve(a: Vec<Vec<f64>>, b: Vec<f64>) -> Option<Vec<f64>> {
    let n = b.len();
    let scale: Vec<f64> = (0..n).map(|i| a[i][i].sqrt()).collect();
    let mut factor = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| factor[i][k] * factor[j][k]).sum();
            let rest = a[i][j] / (scale[i] * scale[j]) - known;
            factor[i][j] = match i == j {
                true if rest > 1e-13 => rest.sqrt(),
                true => return None,
                false => rest / factor[j][j],
            };
        }
    }
    let mut x: Vec<f64> = b.iter().zip(&scale).map(|(b, s)| b / s).collect();
    for i in 0..n {
        let known: f64 = (0..i).map(|k| factor[i][k] * x[k]).sum();
        x[i] = (x[i] - known) / factor[i][i];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| factor[k][i] * x[k]).sum();
        x[i] = (x[i] - known) / factor[i][i];
    }
    Some(x.iter().zip(&scale).map(|(x, s)| x / s).collect())
}

/// The law that explains the points best for the parameters that it takes.
pub(super) fn chosen(points: &[(f64, f64)]) -> Option<Law> {
    if points.len() < POINTS {
        return None;
    }
    let (usl, saturating) = (Law::usl(points)?, Law::saturating(points)?);
    Some(if usl.aicc() < saturating.aicc() { usl } else { saturating })
}

impl From<Option<Law>> for Fit {
    fn from(law: Option<Law>) -> Fit {
        match law {
            None => Fit::None,
            Some(l) if l.parameters > 2.0 => {
                Fit::Usl { rate: l.rate(), contention: l.contention(), coherence: l.coherence(), aicc: l.aicc() }
            }
            // rate N / (1 + s (N-1)) = (rate / s) N / ((1 - s) / s + N)
            Some(l) => {
                let s = l.contention().max(1e-9);
                Fit::Saturating { peak: l.rate() / s, half: (1.0 - s) / s, aicc: l.aicc() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..11).map(|i| f64::from(1 << i)).map(|n| (n, law(n).ln())).collect()
    }

    #[test]
    fn a_law_is_found_again() {
        for (rate, s, k) in [(1000.0, 0.05, 1e-4), (20.0, 0.3, 3e-6), (7e4, 0.01, 2e-3), (500.0, 0.0, 1e-5)] {
            let law = Law::usl(&points(|n| rate * n / (1.0 + s * (n - 1.0) + k * n * (n - 1.0)))).expect("a law");
            assert!((law.rate() / rate - 1.0).abs() < 1e-3, "{law:?}");
            assert!((law.contention() - s).abs() < 1e-3 * s + 1e-6, "{law:?}");
            assert!((law.coherence() / k - 1.0).abs() < 1e-3, "{law:?}");
        }
    }

    #[test]
    fn what_saturates_has_no_coherence() {
        let points = points(|n| 5000.0 * n / (8.0 + n));
        match Fit::from(chosen(&points)) {
            Fit::Saturating { peak, half, .. } => {
                assert!((peak / 5000.0 - 1.0).abs() < 1e-4 && (half / 8.0 - 1.0).abs() < 1e-4, "{peak} {half}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn leverage_is_that_of_regression_on_the_gradient() {
        // With a rate alone to fit, a prediction's error grows by 1/n.
        let flat = Law::saturating(&points(|_| 100.0)).expect("a law");
        assert!((flat.contention() - 1.0).abs() < 1e-3);
        let exact = Law::usl(&points(|n| 10.0 * n)).expect("a law");
        assert_eq!((exact.contention(), exact.coherence()), (0.0, 0.0));
        assert!((exact.leverage(2048.0) - 1.0 / 11.0).abs() < 1e-9);
    }
}
