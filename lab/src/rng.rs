//! The order of a sweep, and resampling: SplitMix64 and a shuffle, kept here so that a stored seed gives the same order, and the same
//! records the same intervals, with every version of every library.

pub struct Rng(u64);

impl Rng {
    pub fn seeded(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The same values, the same numbers.
    pub fn seeded_by(values: &[f64]) -> Rng {
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
        for v in values {
            rng.0 ^= v.to_bits();
            rng.draw();
        }
        rng
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not 0. The bias of the multiplication is below n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.draw()) * n as u128) >> 64) as usize
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_an_order() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..20).collect();
            Rng::seeded(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
}
