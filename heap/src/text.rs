//! Text in a fixed buffer: for messages and statistics where nothing may be allocated. A leaf.

/// Counts everything that is added, keeps what fits.
pub struct Text<const N: usize> {
    buffer: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Text { buffer: [0; N], len: 0 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[..self.len.min(N)]
    }
}

impl<const N: usize> Write for Text<N> {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        for &b in bytes {
            if let Some(place) = self.buffer.get_mut(self.len) {
                *place = b;
            }
            self.len += 1;
        }
        self
    }
}

pub trait Write {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self;

    fn add(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    fn number(&mut self, n: usize) -> &mut Self {
        let mut digits = [0u8; 20];
        let (mut at, mut n) = (digits.len(), n);
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                return self.bytes(&digits[at..]);
            }
        }
    }

    /// As printf's %p shows it.
    fn pointer(&mut self, p: usize) -> &mut Self {
        if p == 0 {
            return self.add("(nil)");
        }
        self.add("0x");
        let first = (15 - p.leading_zeros() as usize / 4) as u32;
        for k in (0..=first).rev() {
            self.bytes(&[b"0123456789abcdef"[p >> (4 * k) & 15]]);
        }
        self
    }
}

/// A caller's buffer: as much as fits is written, all of it is counted.
pub struct Into<'a> {
    buffer: &'a mut [u8],
    pub len: usize,
}

impl<'a> Into<'a> {
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Into { buffer, len: 0 }
    }
}

impl Write for Into<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let at = self.len.min(self.buffer.len());
        let n = bytes.len().min(self.buffer.len() - at);
        self.buffer[at..at + n].copy_from_slice(&bytes[..n]);
        self.len += bytes.len();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_numbers_and_pointers() {
        let mut t = Text::<64>::new();
        t.number(0).add(" ").number(usize::MAX).add(" ").pointer(0).add(" ").pointer(0x7f00_00a0).add(" ").pointer(1);
        assert_eq!(t.as_bytes(), b"0 18446744073709551615 (nil) 0x7f0000a0 0x1");
    }

    #[test]
    fn keeps_what_fits_and_counts_the_rest() {
        let mut small = [0u8; 4];
        let mut t = Into::new(&mut small);
        t.add("abc").add("def");
        assert_eq!((t.len, &small), (6, b"abcd"));
    }
}
