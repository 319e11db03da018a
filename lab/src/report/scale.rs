//! From values to places on paper, and where an axis gets its ticks. A scale always has a range of some width: a single
//! value, an empty set or values that are not finite still give places that are finite.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Linear,
    Log,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// What an axis shows, ascending, all within the range.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// From zero to a round value at or above `most`, in about `steps` equal steps. With negative values the axis begins at
    /// a round value below them.
    pub fn linear(least: f64, most: f64, steps: usize, from: f64, to: f64) -> Self {
        let (least, most) = (finite(least).min(0.0), finite(most).max(0.0));
        let width = match most - least {
            0.0 => 1.0,
            width => width,
        };
        let step = round_step(width / steps.max(1) as f64);
        let (first, last) = ((least / step).floor(), ((least + width) / step - 1e-9).ceil());
        let ticks: Vec<f64> = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
        Self { kind: Kind::Linear, low: first * step, high: last * step, from, to, ticks }
    }

    /// Equal ratios are equal lengths; the range begins and ends at 1, 2 or 5 times a power of ten. Values that are not
    /// positive have no place on it and come to lie at its lower end.
    pub fn log(values: impl Iterator<Item = f64>, steps: usize, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for v in values.filter(|v| v.is_finite() && *v > 0.0) {
            (low, high) = (low.min(v), high.max(v));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let rounds = [1.0, 2.0, 5.0, 10.0];
        let below = |v: f64| {
            let decade = decade(v);
            rounds.iter().rev().map(|m| m * decade).find(|t| *t <= v * (1.0 + 1e-9)).unwrap_or(decade)
        };
        let above = |v: f64| {
            let decade = decade(v);
            rounds.iter().map(|m| m * decade).find(|t| *t >= v * (1.0 - 1e-9)).unwrap_or(decade * 10.0)
        };
        let (low, mut high) = (below(low), above(high));
        if high <= low * (1.0 + 1e-9) {
            high = above(low * 1.5);
        }
        let within = |multiples: &[f64]| {
            let mut ticks = vec![];
            let mut decade = decade(low);
            while decade <= high {
                ticks.extend(multiples.iter().map(|m| m * decade));
                decade *= 10.0;
            }
            ticks.retain(|t| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(t));
            ticks
        };
        let candidates = [within(&[1.0, 2.0, 5.0]), within(&[1.0, 5.0]), within(&[1.0])];
        let ticks = candidates.iter().find(|t| t.len() <= steps + 2).unwrap_or(&candidates[2]).clone();
        Self { kind: Kind::Log, low, high, from, to, ticks }
    }

    /// For counts that double: each count is a tick, as long as ticks stay `apart`; the first and the last always are.
    pub fn counts(counts: &[u32], apart: f64, from: f64, to: f64) -> Self {
        let value = |n: &u32| f64::from((*n).max(1));
        let low = counts.iter().map(value).reduce(f64::min).unwrap_or(1.0);
        let high = counts.iter().map(value).reduce(f64::max).unwrap_or(1.0);
        let (low, high) = match low < high {
            true => (low, high),
            // The only count lies in the middle.
            false => (low / 2.0, low * 2.0),
        };
        let mut scale = Self { kind: Kind::Log, low, high, from, to, ticks: vec![] };
        let mut ticks: Vec<f64> = counts.iter().map(value).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let last = ticks.last().copied();
        let mut kept: Vec<f64> = vec![];
        for t in ticks {
            let near = |a: f64, b: f64| (scale.at(a) - scale.at(b)).abs() < apart;
            let is_last = Some(t) == last;
            if is_last && kept.len() > 1 {
                kept.truncate(kept.iter().rposition(|k| !near(*k, t)).map_or(1, |i| i + 1));
            }
            if is_last || kept.last().is_none_or(|k| !near(*k, t)) {
                kept.push(t);
            }
        }
        scale.ticks = kept;
        scale
    }

    pub fn is_log(&self) -> bool {
        self.kind == Kind::Log
    }

    pub fn at(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let part = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + part * (self.to - self.from)
    }
}

fn finite(v: f64) -> f64 {
    if v.is_finite() { v } else { 0.0 }
}

/// The power of ten at or below a positive value.
fn decade(v: f64) -> f64 {
    10f64.powf((v.log10() + 1e-9).floor())
}

/// 1, 2, 2.5 or 5 times a power of ten, at or above a positive width.
fn round_step(width: f64) -> f64 {
    let decade = decade(width);
    let multiple = [1.0, 2.0, 2.5, 5.0].into_iter().find(|m| m * decade >= width * (1.0 - 1e-9)).unwrap_or(10.0);
    multiple * decade
}

/// Moves labels apart until none is nearer than `leading` to the next, as little as that takes and within the range if
/// they fit there.
pub fn spread(wanted: &[f64], leading: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // Groups of labels that touch: each is centred on the mean of what its labels want.
    let mut groups: Vec<(Vec<usize>, f64)> = vec![];
    let half = |n: usize| (n as f64 - 1.0) * leading / 2.0;
    let centre = |members: &[usize]| {
        let mean = members.iter().map(|i| wanted[*i]).sum::<f64>() / members.len() as f64;
        let reach = half(members.len());
        mean.clamp(low + reach, (high - reach).max(low + reach))
    };
    for i in order {
        groups.push((vec![i], centre(&[i])));
        while let [.., (upper, a), (lower, b)] = groups.as_slice() {
            if b - half(lower.len()) - (a + half(upper.len())) >= leading {
                break;
            }
            let members: Vec<usize> = upper.iter().chain(lower).copied().collect();
            let middle = centre(&members);
            groups.truncate(groups.len() - 2);
            groups.push((members, middle));
        }
    }
    let mut places = vec![0.0; wanted.len()];
    for (members, middle) in groups {
        let first = middle - half(members.len());
        for (n, i) in members.into_iter().enumerate() {
            places[i] = first + n as f64 * leading;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_begin_at_zero_and_end_round() {
        let s = Scale::linear(0.0, 87_300.0, 5, 100.0, 0.0);
        assert_eq!(s.ticks, [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0, 100_000.0]);
        assert_eq!((s.at(0.0), s.at(50_000.0), s.at(100_000.0)), (100.0, 50.0, 0.0));
        assert_eq!(Scale::linear(3.0, 0.5, 5, 0.0, 1.0).ticks.last(), Some(&0.5));
        assert_eq!(Scale::linear(-0.2, 0.1, 3, 0.0, 1.0).ticks.first(), Some(&-0.2));
        // Exactly a multiple of the step needs no further one.
        assert_eq!(Scale::linear(0.0, 100.0, 5, 0.0, 1.0).ticks.last(), Some(&100.0));
    }

    #[test]
    fn nothing_or_one_value_still_gives_places() {
        for s in [
            Scale::linear(0.0, 0.0, 5, 0.0, 10.0),
            Scale::linear(f64::NAN, f64::INFINITY, 5, 0.0, 10.0),
            Scale::log(std::iter::empty(), 5, 0.0, 10.0),
            Scale::log([0.0, -1.0, f64::NAN].into_iter(), 5, 0.0, 10.0),
            Scale::log([5.0].into_iter(), 5, 0.0, 10.0),
            Scale::counts(&[], 10.0, 0.0, 10.0),
            Scale::counts(&[0], 10.0, 0.0, 10.0),
        ] {
            for v in [0.0, -1.0, 1.0, 5.0, f64::NAN, f64::INFINITY] {
                assert!((0.0..=10.0).contains(&s.at(v)), "{s:?} at {v}");
            }
        }
        assert_eq!(Scale::counts(&[64], 10.0, 0.0, 10.0).at(64.0), 5.0);
    }

    #[test]
    fn log_axes_step_in_1_2_5() {
        let s = Scale::log([0.7, 43.0].into_iter(), 6, 0.0, 2.0);
        assert_eq!(s.ticks, [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert!((s.at(5.0) - 1.0).abs() < 1e-9);
        // More decades, fewer ticks in each.
        let s = Scale::log([1.0, 100_000.0].into_iter(), 6, 0.0, 1.0);
        assert_eq!(s.ticks, [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]);
    }

    #[test]
    fn counts_keep_first_and_last_and_never_crowd() {
        let counts = [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 512];
        let s = Scale::counts(&counts, 40.0, 0.0, 200.0);
        assert_eq!((s.ticks.first(), s.ticks.last()), (Some(&1.0), Some(&512.0)));
        for pair in s.ticks.windows(2) {
            assert!(s.at(pair[1]) - s.at(pair[0]) >= 40.0, "{:?}", s.ticks);
        }
        assert_eq!(Scale::counts(&counts, 0.0, 0.0, 200.0).ticks.len(), counts.len());
        assert_eq!(Scale::counts(&[1, 2], 1000.0, 0.0, 200.0).ticks, [1.0, 2.0]);
    }

    #[test]
    fn labels_move_apart_but_not_out() {
        let places = spread(&[10.0, 11.0, 50.0, 99.0, 100.0], 12.0, 0.0, 100.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        for pair in sorted.windows(2) {
            assert!(pair[1] - pair[0] >= 12.0 - 1e-9, "{places:?}");
        }
        assert!(places.iter().all(|p| (0.0..=100.0).contains(p)), "{places:?}");
        assert_eq!(places[2], 50.0);
        assert!(places[0] < places[1] && places[3] < places[4]);
    }
}
