//! Bytes of packets: what is read is checked for its length, for a server may send anything.

use super::{Error, Param, Value};

pub fn broken(what: &str) -> Error {
    Error::Lost(format!("the server's answer is not understood: {what}"))
}

/// Reads one packet from its start.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(packet: &'a [u8]) -> Self {
        Reader { rest: packet }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        if count > self.rest.len() {
            return Err(broken("a packet is too short"));
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.bytes(1)?[0])
    }

    /// Little-endian, of 1 to 8 bytes.
    pub fn uint(&mut self, bytes: usize) -> Result<u64, Error> {
        let mut wide = [0u8; 8];
        wide[..bytes].copy_from_slice(self.bytes(bytes)?);
        Ok(u64::from_le_bytes(wide))
    }

    pub fn u16(&mut self) -> Result<u16, Error> {
        Ok(self.uint(2)? as u16)
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(self.uint(4)? as u32)
    }

    /// A number that tells its own length; None is SQL's NULL in a text row.
    pub fn length(&mut self) -> Result<Option<u64>, Error> {
        Ok(match self.u8()? {
            0xfb => None,
            0xfc => Some(self.uint(2)?),
            0xfd => Some(self.uint(3)?),
            0xfe => Some(self.uint(8)?),
            0xff => return Err(broken("a length")),
            small => Some(small.into()),
        })
    }

    pub fn number(&mut self) -> Result<u64, Error> {
        self.length()?.ok_or_else(|| broken("a number that is missing"))
    }

    /// Bytes that tell their own length.
    pub fn text(&mut self) -> Result<Option<&'a [u8]>, Error> {
        self.length()?.map(|length| self.bytes(length as usize)).transpose()
    }

    /// Up to a zero byte or the end.
    pub fn until_zero(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|&b| b == 0).unwrap_or(self.rest.len());
        let text = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        text
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// What a result's columns are, as far as reading binary rows needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    kind: u8,
    unsigned: bool,
}

pub fn column(packet: &[u8]) -> Result<Column, Error> {
    let mut reader = Reader::new(packet);
    for _ in 0..6 {
        reader.text()?;
    }
    reader.number()?;
    reader.bytes(2 + 4)?;
    let kind = reader.u8()?;
    let flags = reader.u16()?;
    Ok(Column { kind, unsigned: flags & 0x20 != 0 })
}

pub fn binary_row(packet: &[u8], columns: &[Column], into: &mut Vec<Value>) -> Result<(), Error> {
    let mut reader = Reader::new(packet);
    reader.u8()?;
    let nulls = reader.bytes((columns.len() + 9) / 8)?;
    for (at, column) in columns.iter().enumerate() {
        if nulls[(at + 2) / 8] & (1 << ((at + 2) % 8)) != 0 {
            into.push(Value::Null);
            continue;
        }
        let mut int = |bytes: usize| -> Result<Value, Error> {
            let raw = reader.uint(bytes)?;
            let shift = 64 - 8 * bytes as u32;
            Ok(Value::Int(if column.unsigned { raw as i64 } else { ((raw << shift) as i64) >> shift }))
        };
        into.push(match column.kind {
            1 => int(1)?,
            2 | 13 => int(2)?,
            3 | 9 => int(4)?,
            8 => int(8)?,
            4 => Value::Float(f32::from_bits(reader.u32()?).into()),
            5 => Value::Float(f64::from_bits(reader.uint(8)?)),
            6 => Value::Null,
            7 | 10 | 11 | 12 => {
                let length = reader.u8()?;
                reader.bytes(length.into())?;
                Value::Time
            }
            _ => reader.text()?.map_or(Value::Null, |text| Value::Text(text.to_vec())),
        });
    }
    Ok(())
}

pub fn text_row(packet: &[u8], columns: usize, into: &mut Vec<Value>) -> Result<(), Error> {
    let mut reader = Reader::new(packet);
    for _ in 0..columns {
        into.push(reader.text()?.map_or(Value::Null, |text| Value::Text(text.to_vec())));
    }
    Ok(())
}

/// The kind that is announced for a placeholder.
pub fn kind_of(param: &Param) -> u8 {
    match param {
        Param::Int(_) => 3,
        // NULL is announced as text: where text follows in a later execution nothing needs to be announced again.
        Param::Text(_) | Param::Null => 253,
    }
}

pub fn put_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..=250 => out.push(length as u8),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&(length as u64).to_le_bytes());
        }
    }
}

/// The values of an execution: which are NULL, their kinds if they must be announced, then each.
pub fn put_params(out: &mut Vec<u8>, params: &[Param], announce: bool) {
    let nulls = out.len();
    out.resize(nulls + params.len().div_ceil(8), 0);
    out.push(announce.into());
    if announce {
        params.iter().for_each(|param| out.extend_from_slice(&[kind_of(param), 0]));
    }
    for (at, param) in params.iter().enumerate() {
        match param {
            Param::Int(number) => out.extend_from_slice(&number.to_le_bytes()),
            Param::Text(text) => {
                put_length(out, text.len());
                out.extend_from_slice(text.as_bytes());
            }
            Param::Null => out[nulls + at / 8] |= 1 << (at % 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for length in [0usize, 250, 251, 255, 65_535, 65_536, 1 << 20] {
            let mut out = Vec::new();
            put_length(&mut out, length);
            assert_eq!(Reader::new(&out).number().unwrap(), length as u64);
        }
        assert_eq!(Reader::new(&[0xfb]).length().unwrap(), None);
    }

    #[test]
    fn rows() {
        let columns = [3, 8, 253, 246, 12].map(|kind| Column { kind, unsigned: false });
        // Null: the third, bit 4 of the map.
        let mut packet = vec![0, 0b0001_0000];
        packet.extend((-5i32).to_le_bytes());
        packet.extend(7i64.to_le_bytes());
        packet.extend([4, b'1', b'.', b'2', b'5', 4, 0, 0, 0, 0]);
        let mut row = Vec::new();
        binary_row(&packet, &columns, &mut row).unwrap();
        let text = Value::Text(b"1.25".to_vec());
        assert_eq!(row, [Value::Int(-5), Value::Int(7), Value::Null, text, Value::Time]);
        row.clear();
        text_row(&[1, b'9', 0xfb], 2, &mut row).unwrap();
        assert_eq!((row[0].int(), &row[1]), (Some(9), &Value::Null));
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        let columns = [Column { kind: 3, unsigned: false }];
        for packet in [&[][..], &[0], &[0, 0], &[0, 0, 1, 2, 3]] {
            assert!(binary_row(packet, &columns, &mut Vec::new()).is_err());
        }
        assert!(text_row(&[9, b'x'], 1, &mut Vec::new()).is_err());
        assert!(column(&[3, b'd', b'e', b'f']).is_err());
    }

    #[test]
    fn params() {
        let mut out = Vec::new();
        put_params(&mut out, &[Param::Int(1), Param::Null, Param::Text("ab")], true);
        assert_eq!(out, [0b10, 1, 3, 0, 253, 0, 253, 0, 1, 0, 0, 0, 2, b'a', b'b']);
    }
}
