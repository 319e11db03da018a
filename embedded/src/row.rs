//! A row, as sysbench's sbtest has it: an id, a number `k`, and filler in place of the text columns. The filler follows from
//! id and stamp, so that every byte of a row can be checked.
//!
//! Key: the id, 8 bytes, big-endian (TidesDB orders keys by bytes). Value: id, k, stamp, then filler words, little-endian.

pub const MIN: u32 = 32;
pub const MAX: u32 = 65_536;

const WORD: usize = 8;
const HEAD: usize = 3 * WORD;

pub fn key(id: u64) -> [u8; WORD] {
    id.to_be_bytes()
}

pub fn id_of(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// Writes the row into `row`, whose length stays.
pub fn write(row: &mut [u8], id: u64, k: u64, stamp: u64) {
    let (head, fill) = row.split_at_mut(HEAD);
    for (word, value) in head.chunks_exact_mut(WORD).zip([id, k, stamp]) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    for (n, word) in fill.chunks_mut(WORD).enumerate() {
        word.copy_from_slice(&filler(id, stamp, n).to_le_bytes()[..word.len()]);
    }
}

/// The row's `k`, if the row has this id and length and its last filler word is right: what a client checks of each row
/// that it reads.
pub fn k(row: &[u8], id: u64, length: usize) -> Option<u64> {
    let stamp = word(row, 2)?;
    let (n, last) = row[HEAD..].chunks(WORD).enumerate().next_back()?;
    let whole = row.len() == length && word(row, 0)? == id && *last == filler(id, stamp, n).to_le_bytes()[..last.len()];
    if whole { word(row, 1) } else { None }
}

/// As `k`, with every byte checked.
pub fn k_of_checked(row: &[u8], id: u64, length: usize) -> Option<u64> {
    let (k, stamp) = (k(row, id, length)?, word(row, 2)?);
    let right = |(n, word): (usize, &[u8])| *word == filler(id, stamp, n).to_le_bytes()[..word.len()];
    row[HEAD..].chunks(WORD).enumerate().all(right).then_some(k)
}

fn word(row: &[u8], n: usize) -> Option<u64> {
    Some(u64::from_le_bytes(row.get(n * WORD..(n + 1) * WORD)?.try_into().ok()?))
}

/// SplitMix64's finisher over id, stamp and place.
fn filler(id: u64, stamp: u64, n: usize) -> u64 {
    let mut x = id.rotate_left(32) ^ stamp.wrapping_add((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_ids() {
        assert!(key(255) < key(256));
        assert_eq!(id_of(&key(1 << 40)), Some(1 << 40));
        assert_eq!(id_of(b"short"), None);
    }

    #[test]
    fn any_changed_byte_is_found() {
        for length in [MIN as usize, 33, 188, 4096] {
            let mut row = vec![0; length];
            write(&mut row, 7, 3, 99);
            assert_eq!((k(&row, 7, length), k_of_checked(&row, 7, length)), (Some(3), Some(3)));
            for place in (0..length).filter(|place| !(8..16).contains(place)) {
                row[place] ^= 1;
                assert_eq!(k_of_checked(&row, 7, length), None, "byte {place} of {length}");
                row[place] ^= 1;
            }
            assert_eq!(k(&row, 8, length), None);
            assert_eq!(k(&row[..length - 1], 7, length), None);
            assert_eq!(k(&[], 7, length), None);
        }
    }
}
