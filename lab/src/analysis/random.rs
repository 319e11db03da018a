//! Random numbers for resampling: SplitMix64, seeded from the data, so that the same records give the same intervals.

pub(super) struct Random(u64);

impl Random {
    pub fn seeded_by(values: &[f64]) -> Random {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for v in values {
            random.0 ^= v.to_bits();
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 <= index < n. The bias of the multiplication is below n / 2^64.
    pub fn index(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}
