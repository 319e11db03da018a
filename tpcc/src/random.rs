//! The standard's random functions (clauses 2.1.6 and 4.3.2) on a generator whose numbers depend on seed and stream only:
//! the same today, on another machine, and whatever another stream does.

/// xoshiro256++.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Streams of one seed share nothing; give each table, warehouse or client its own.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut x = seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95).rotate_left(29);
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Random { state }
    }

    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In [low, high], all alike.
    pub fn uniform(&mut self, low: u32, high: u32) -> u32 {
        let width = u64::from(high - low) + 1;
        low + (((self.bits() >> 32) * width) >> 32) as u32
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// NURand(A, low, high) with its constant C (clause 2.1.6).
    pub fn nurand(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        ((self.uniform(0, a) | self.uniform(low, high)).wrapping_add(c)) % (high - low + 1) + low
    }

    /// Letters and digits, as many as `least` to `most`.
    pub fn a_string(&mut self, least: u32, most: u32) -> String {
        const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        self.string(least, most, LETTERS)
    }

    /// Digits.
    pub fn n_string(&mut self, least: u32, most: u32) -> String {
        self.string(least, most, b"0123456789")
    }

    fn string(&mut self, least: u32, most: u32, from: &[u8]) -> String {
        let length = self.uniform(least, most) as usize;
        let mut text = String::with_capacity(length);
        let mut left = 0;
        let mut bits = 0u64;
        for _ in 0..length {
            // Four characters from one draw: 16 bits each are enough for 62.
            if left == 0 {
                (bits, left) = (self.bits(), 4);
            }
            text.push(from[(((bits & 0xffff) as usize) * from.len()) >> 16] as char);
            bits >>= 16;
            left -= 1;
        }
        text
    }

    /// Four random digits and 11111 (clause 4.3.2.7).
    pub fn zip(&mut self) -> String {
        self.n_string(4, 4) + "11111"
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.uniform(0, i as u32) as usize);
        }
    }
}

/// The constants C of NURand: one for each A that the standard uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// For last names, A = 255.
    pub last: u32,
    /// For customers, A = 1023.
    pub customer: u32,
    /// For items, A = 8191.
    pub item: u32,
}

impl Constants {
    /// Every load uses this one, so that a run need not be told how its tables were loaded.
    pub const LOAD: Constants = Constants { last: 157, customer: 0, item: 0 };

    /// A run's own; for last names at the distance from the load's that clause 2.1.6.1 allows.
    pub fn of_run(seed: u64) -> Constants {
        let mut random = Random::new(seed, 0x6e75_7261_6e64);
        let last = loop {
            let last = random.uniform(0, 255);
            let distance = last.abs_diff(Self::LOAD.last);
            if (65..=119).contains(&distance) && distance != 96 && distance != 112 {
                break last;
            }
        };
        Constants { last, customer: random.uniform(0, 1023), item: random.uniform(0, 8191) }
    }
}

/// The last name of a number from 0 to 999 (clause 4.3.2.3).
pub fn last_name(number: u32) -> String {
    const PARTS: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| PARTS[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_and_stream_decide() {
        let draw = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        assert_ne!(draw(0, 0), 0);
    }

    #[test]
    fn uniform_reaches_both_ends_and_no_further() {
        let mut random = Random::new(1, 0);
        let mut seen = [0u32; 10];
        (0..100_000).for_each(|_| seen[random.uniform(5, 14) as usize - 5] += 1);
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
        assert_eq!(random.uniform(7, 7), 7);
    }

    /// The or of two draws favours numbers with many one bits: the top percent of a table gets far more than its share.
    #[test]
    fn nurand_is_not_uniform_and_stays_inside() {
        let mut random = Random::new(1, 0);
        let mut seen = vec![0u32; 3000];
        (0..300_000).for_each(|_| seen[random.nurand(1023, 123, 1, 3000) as usize - 1] += 1);
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = seen[..300].iter().sum();
        assert!((120_000..240_000).contains(&top), "the hottest tenth got {top} of 300000");
    }

    #[test]
    fn constants_keep_the_distance() {
        for seed in 0..1000 {
            let run = Constants::of_run(seed);
            let distance = run.last.abs_diff(Constants::LOAD.last);
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
            assert!(run.last <= 255 && run.customer <= 1023 && run.item <= 8191);
        }
        assert_ne!(Constants::of_run(1), Constants::of_run(2));
    }

    #[test]
    fn names_by_syllables() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
        let all: std::collections::HashSet<_> = (0..1000).map(last_name).collect();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn strings_keep_their_bounds() {
        let mut random = Random::new(9, 9);
        for _ in 0..1000 {
            let text = random.a_string(8, 16);
            assert!((8..=16).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric()));
            assert!(random.n_string(16, 16).chars().all(|c| c.is_ascii_digit()));
            assert!(random.zip().len() == 9 && random.zip().ends_with("11111"));
        }
    }
}
