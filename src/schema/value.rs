//! The bytes of stored values: a version byte, then fields in order.
//!
//! Numbers are LEB128, signed ones zigzag first (as Protocol Buffers encode them); byte strings carry their
//! length before them. A value of a newer version than the code knows is an error that says so.

use uuid::Uuid;

use super::ids::Place;
use super::timestamp::Timestamp;

/// A stored value that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("a stored {what} has version {found}, this program knows up to {known}: use a newer rowdrive")]
    Newer { what: &'static str, found: u8, known: u8 },
    #[error("a stored {what} is damaged")]
    Damaged { what: &'static str },
}

/// Writes a value field by field.
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn new(version: u8) -> Self {
        Self(vec![version])
    }

    pub fn uuid(mut self, uuid: Uuid) -> Self {
        self.0.extend_from_slice(uuid.as_bytes());
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn number(mut self, mut number: u64) -> Self {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    pub fn time(self, time: Timestamp) -> Self {
        let ms = time.ms();
        self.number(((ms << 1) ^ (ms >> 63)) as u64)
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.number(bytes.len() as u64).raw(bytes)
    }

    pub fn place(self, place: &Place) -> Self {
        self.bytes(place.as_bytes())
    }

    pub fn done(self) -> bytes::Bytes {
        self.0.into()
    }
}

/// Reads a value field by field, in the order in which it was written.
pub struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads the version byte. `what` names the value in errors.
    pub fn new(what: &'static str, known: u8, value: &'a [u8]) -> Result<(u8, Self), ValueError> {
        match value.split_first() {
            Some((&found, _)) if found > known => Err(ValueError::Newer { what, found, known }),
            Some((&version, rest)) if version > 0 => Ok((version, Self { what, rest })),
            _ => Err(ValueError::Damaged { what }),
        }
    }

    pub fn damaged(&self) -> ValueError {
        ValueError::Damaged { what: self.what }
    }

    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], ValueError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(head)
    }

    pub fn uuid(&mut self) -> Result<Uuid, ValueError> {
        let bytes = self.raw(16)?;
        Uuid::from_slice(bytes).map_err(|_| self.damaged())
    }

    pub fn number(&mut self) -> Result<u64, ValueError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.raw(1)? else {
                return Err(self.damaged());
            };
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(self.damaged());
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.damaged())
    }

    pub fn time(&mut self) -> Result<Timestamp, ValueError> {
        let zigzag = self.number()?;
        let ms = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        Ok(Timestamp::from_ms(ms))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], ValueError> {
        let len = self.number()?;
        let len = usize::try_from(len).map_err(|_| self.damaged())?;
        self.raw(len)
    }

    pub fn text(&mut self) -> Result<&'a str, ValueError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.damaged())
    }

    pub fn place(&mut self) -> Result<Place, ValueError> {
        let bytes = self.bytes()?;
        Place::from_bytes(bytes).ok_or_else(|| self.damaged())
    }

    /// Checks that nothing follows.
    pub fn end(self) -> Result<(), ValueError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let value = Writer::new(1).number(0).number(300).time(Timestamp::from_ms(-1)).bytes(b"ab").done();
        assert_eq!(value.as_ref(), [1, 0, 0xac, 2, 1, 2, b'a', b'b']);
        let (version, mut r) = Reader::new("test", 1, &value).unwrap();
        assert_eq!((version, r.number(), r.number()), (1, Ok(0), Ok(300)));
        assert_eq!((r.time(), r.text()), (Ok(Timestamp::from_ms(-1)), Ok("ab")));
        assert_eq!(r.end(), Ok(()));
    }

    #[test]
    fn extremes_and_damage() {
        for ms in [i64::MIN, i64::MAX, 0, -1] {
            let value = Writer::new(1).time(Timestamp::from_ms(ms)).done();
            let (_, mut r) = Reader::new("test", 1, &value).unwrap();
            assert_eq!(r.time().unwrap().ms(), ms);
        }
        assert!(matches!(Reader::new("test", 1, &[2]), Err(ValueError::Newer { found: 2, known: 1, .. })));
        assert!(matches!(Reader::new("test", 1, &[]), Err(ValueError::Damaged { .. })));
        assert!(matches!(Reader::new("test", 1, &[0]), Err(ValueError::Damaged { .. })));
        let (_, mut r) = Reader::new("test", 1, &[1, 5, 0]).unwrap();
        assert!(r.bytes().is_err());
        let (_, mut r) = Reader::new("test", 1, &[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).unwrap();
        assert!(r.number().is_err());
        let (_, r) = Reader::new("test", 1, &[1, 5]).unwrap();
        assert!(r.end().is_err());
    }
}
