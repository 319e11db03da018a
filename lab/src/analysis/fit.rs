//! A curve's law: the Universal Scalability Law and its special case without coherence, which saturates and stays. Fitted to
//! the logarithms of throughput, so that a tenth counts alike at 1 client and at 1,000; chosen by AICc.

use super::Fit;
use super::noise::Spread;

/// Fewer points than this tell no law from another.
pub(super) const POINTS: usize = 5;
/// A coefficient below this part of 1 over its largest factor changes nothing: it is 0, and no parameter was spent.
const NOTHING: f64 = 1e-3;
/// No measured curve follows its law more closely than this: a prediction's error is at least this, in logarithms.
const LEAST_MISFIT: f64 = 0.01;

/// A law fitted to points, with all that a prediction needs.
#[derive(Clone, Debug)]
pub(super) struct Law {
    pub ln_rate: f64,
    pub contention: f64,
    pub coherence: f64,
    coherent: bool,
    squares: f64,
    points: Vec<f64>,
}

impl Law {
    /// X(N) = rate N / (1 + contention (N-1) + coherence N (N-1)). Needs four points.
    pub fn usl(points: &[(f64, f64)]) -> Option<Law> {
        (points.len() >= 4).then(|| Law::fitted(points, true))
    }

    /// The same without coherence. Needs three points.
    pub fn saturating(points: &[(f64, f64)]) -> Option<Law> {
        (points.len() >= 3).then(|| Law::fitted(points, false))
    }

    /// `points`: clients, and the logarithm of throughput. The rate follows from the two coefficients; they are searched on a
    /// grid of their logarithms, which is then drawn together around its best point.
    fn fitted(points: &[(f64, f64)], coherent: bool) -> Law {
        let most = points.iter().map(|p| p.0).fold(2.0, f64::max);
        // From "changes nothing at the most clients" to "1", where one client already saturates.
        let (mut low_s, mut high_s) = ((NOTHING / 10.0 / most).ln(), 0.0);
        let (mut low_k, mut high_k) =
            if coherent { ((NOTHING / 10.0 / most / most).ln(), 0.0) } else { (f64::NEG_INFINITY, f64::NEG_INFINITY) };
        let (bound_s, bound_k) = ((low_s, high_s), (low_k, high_k));
        let steps_s = 24;
        let steps_k = if coherent { 24 } else { 1 };
        let mut best = (f64::INFINITY, 0.0, 0.0);
        while high_s - low_s > 1e-7 {
            for i in 0..=steps_s {
                for j in 0..steps_k {
                    let s: f64 = low_s + (high_s - low_s) * f64::from(i) / f64::from(steps_s);
                    let k = if coherent { low_k + (high_k - low_k) * f64::from(j) / 23.0 } else { f64::NEG_INFINITY };
                    let squares = misfit(points, s.exp(), k.exp()).1;
                    if squares < best.0 {
                        best = (squares, s, k);
                    }
                }
            }
            let around = |at: f64, low: f64, high: f64, bound: (f64, f64)| {
                let reach = (high - low) / 6.0;
                ((at - reach).max(bound.0), (at + reach).min(bound.1))
            };
            (low_s, high_s) = around(best.1, low_s, high_s, bound_s);
            if coherent {
                (low_k, high_k) = around(best.2, low_k, high_k, bound_k);
            }
        }
        let zero = |x: f64, factor: f64| if x * factor < NOTHING { 0.0 } else { x };
        let contention = zero(best.1.exp(), most);
        let coherence = if coherent { zero(best.2.exp(), most * most) } else { 0.0 };
        let (ln_rate, squares) = misfit(points, contention, coherence);
        Law { ln_rate, contention, coherence, coherent, squares, points: points.iter().map(|p| p.0).collect() }
    }

    /// The logarithm of the throughput that the law gives.
    pub fn at(&self, clients: f64) -> f64 {
        self.ln_rate + shape(clients, self.contention, self.coherence)
    }

    fn parameters(&self) -> f64 {
        if self.coherent { 3.0 } else { 2.0 }
    }

    /// Akaike's criterion for small samples. Infinite where the points are too few.
    pub fn aicc(&self) -> f64 {
        aicc(self.squares, self.points.len() as f64, self.parameters())
    }

    /// The same for one more point, which the law does not explain: it costs a parameter and leaves no misfit.
    pub fn aicc_with_a_fall(&self) -> f64 {
        aicc(self.squares, self.points.len() as f64 + 1.0, self.parameters() + 1.0)
    }

    /// Error of a prediction of one more point: the law's misfit so far, and what its coefficients leave open there.
    pub fn error_at(&self, clients: f64) -> Spread {
        let df = (self.points.len() as f64 - self.parameters()).max(1.0);
        let variance = (self.squares / df).max(LEAST_MISFIT.powi(2));
        Spread { variance: variance * (1.0 + self.leverage(clients)), df }
    }

    /// g' (J'J)^-1 g, with the gradient of the law in its coefficients other than 0.
    fn leverage(&self, clients: f64) -> f64 {
        let gradient = |n: f64| {
            let below = 1.0 + self.contention * (n - 1.0) + self.coherence * n * (n - 1.0);
            let mut g = vec![1.0];
            if self.contention > 0.0 {
                g.push(-(n - 1.0) * self.contention / below);
            }
            if self.coherence > 0.0 {
                g.push(-n * (n - 1.0) * self.coherence / below);
            }
            g
        };
        let g = gradient(clients);
        let mut normal = vec![vec![0.0; g.len()]; g.len()];
        for row in self.points.iter().map(|n| gradient(*n)) {
            for i in 0..g.len() {
                for j in 0..g.len() {
                    normal[i][j] += row[i] * row[j];
                }
            }
        }
        solve(normal, g.clone()).map_or(1.0, |x| x.iter().zip(&g).map(|(a, b)| a * b).sum::<f64>().max(0.0))
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

fn shape(n: f64, contention: f64, coherence: f64) -> f64 {
    n.ln() - (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0)).ln()
}

/// The best rate's logarithm, and the sum of squares that it leaves.
fn misfit(points: &[(f64, f64)], contention: f64, coherence: f64) -> (f64, f64) {
    let (mut sum, mut squares) = (0.0, 0.0);
    for (n, ln_x) in points {
        let off = ln_x - shape(*n, contention, coherence);
        sum += off;
        squares += off * off;
    }
    let mean = sum / points.len() as f64;
    // In two steps, since the difference of two large sums would lose the small one.
    if squares > 0.0 {
        squares = points.iter().map(|(n, ln_x)| (ln_x - shape(*n, contention, coherence) - mean).powi(2)).sum();
    }
    (mean, squares)
}

/// Gauss elimination with pivots, for the few unknowns of a law. None if they are not determined.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Option<Vec<f64>> {
    let n = b.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|x, y| a[*x][i].abs().total_cmp(&a[*y][i].abs()))?;
        if a[pivot][i].abs() < 1e-12 {
            return None;
        }
        a.swap(i, pivot);
        b.swap(i, pivot);
        let (row, known) = (a[i].clone(), b[i]);
        for r in i + 1..n {
            let f = a[r][i] / row[i];
            a[r].iter_mut().zip(&row).for_each(|(x, y)| *x -= f * y);
            b[r] -= f * known;
        }
    }
    for i in (0..n).rev() {
        let rest: f64 = (i + 1..n).map(|c| a[i][c] * b[c]).sum();
        b[i] = (b[i] - rest) / a[i][i];
    }
    Some(b)
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
            Some(l) if l.coherent => {
                Fit::Usl { rate: l.ln_rate.exp(), contention: l.contention, coherence: l.coherence, aicc: l.aicc() }
            }
            // rate N / (1 + s (N-1)) = (rate / s) N / ((1 - s) / s + N)
            Some(l) => {
                let s = l.contention.max(1e-9);
                Fit::Saturating { peak: l.ln_rate.exp() / s, half: (1.0 - s) / s, aicc: l.aicc() }
            }
        }
    }
}
