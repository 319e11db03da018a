//! The texts of `c` and `pad`: groups of eleven digits with dashes between.

use tpcc::Random;

/// Groups in `c`, 119 characters.
pub const C: usize = 10;
/// Groups in `pad`, 59 characters.
pub const PAD: usize = 5;

const DIGITS: usize = 11;

pub fn put(groups: usize, random: &mut Random, out: &mut String) {
    for group in 0..groups {
        if group > 0 {
            out.push('-');
        }
        // Eleven digits need 37 bits; the rest of the draw makes up for 10^11 being no power of two.
        let mut number = ((u128::from(random.bits()) * 100_000_000_000) >> 64) as u64;
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
        digits.iter().for_each(|&digit| out.push(digit as char));
    }
}

pub fn new(groups: usize, random: &mut Random) -> String {
    let mut text = String::with_capacity(groups * (DIGITS + 1));
    put(groups, random, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_digits() {
        let mut random = Random::new(1, 2);
        let (c, pad) = (new(C, &mut random), new(PAD, &mut random));
        assert_eq!((c.len(), pad.len()), (119, 59));
        assert!(c.split('-').all(|group| group.len() == 11 && group.bytes().all(|b| b.is_ascii_digit())));
        assert_ne!(c[..11], c[12..23]);
    }
}
