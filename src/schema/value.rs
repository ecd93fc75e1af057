//! The bytes of stored values: a version byte, then fields in order.
//!
//! Numbers are LEB128, signed ones zigzag first (as Protocol Buffers encode them); byte strings have their
//! length before them. A value of a version that this program does not know is the error [`ValueError::Newer`].
//!
//! To change the form of a value: keep the old type with its own [`StoredValue`], give the new one the next `VERSION`,
//! and let its `upgrade` convert the old type. Each version knows only the one before, so a value of any age is
//! upgraded step by step, and the callers of [`decode`] do not change.

use uuid::Uuid;

use super::ids::StayId;
use super::timestamp::Timestamp;

/// A stored value that cannot be read.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("a stored {what} has version {found}, this program knows up to {known}: use a newer rowdrive")]
    Newer { what: &'static str, found: u8, known: u8 },
    #[error("a stored {what} is damaged")]
    Damaged { what: &'static str },
}

/// A type that is stored behind a version byte.
pub trait StoredValue: Sized {
    /// The name of the value in errors.
    const NAME: &'static str;
    /// The version that is written.
    const VERSION: u8 = 1;

    /// Reads the fields of this version.
    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError>;

    /// Reads an older version and converts it. With `Old` as the type of the version before, this is
    /// `Old::read_version(version, r).map(Self::from)`. Version 1 has no version before it.
    fn upgrade(_version: u8, r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        Err(r.damaged())
    }

    /// Reads the fields of this version or an older one.
    fn read_version(version: u8, r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        if version == Self::VERSION { Self::read_fields(r) } else { Self::upgrade(version, r) }
    }
}

/// Decodes a stored value of any known version.
pub fn decode<T: StoredValue>(value: &[u8]) -> Result<T, ValueError> {
    let (version, mut r) = ValueReader::new(T::NAME, T::VERSION, value)?;
    let decoded = T::read_version(version, &mut r)?;
    r.end()?;
    Ok(decoded)
}

/// Decodes a stored value of type `Of` by `read`, whose result may borrow texts from the value. An older version, whose
/// fields differ, is an error.
pub fn decode_newest<'a, Of: StoredValue, T>(
    value: &'a [u8],
    read: impl FnOnce(&mut ValueReader<'a>) -> Result<T, ValueError>,
) -> Result<T, ValueError> {
    let (version, mut r) = ValueReader::new(Of::NAME, Of::VERSION, value)?;
    if version < Of::VERSION {
        return Err(r.damaged());
    }
    let decoded = read(&mut r)?;
    r.end()?;
    Ok(decoded)
}

/// Writes a value field by field.
pub struct ValueWriter(Vec<u8>);

impl ValueWriter {
    /// Starts a value with this version byte.
    pub fn new(version: u8) -> Self {
        Self(vec![version])
    }

    /// Appends 16 bytes.
    pub fn uuid(mut self, uuid: Uuid) -> Self {
        self.0.extend_from_slice(uuid.as_bytes());
        self
    }

    /// Appends bytes without their length.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a number (LEB128).
    pub fn number(mut self, mut number: u64) -> Self {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    /// Appends milliseconds (zigzag, LEB128).
    pub fn time(self, time: Timestamp) -> Self {
        let ms = time.ms();
        self.number(((ms << 1) ^ (ms >> 63)) as u64)
    }

    /// Appends the length and the bytes.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.number(bytes.len() as u64).raw(bytes)
    }

    /// Appends the length and the bytes of a stay id.
    pub fn stay_id(self, stay: &StayId) -> Self {
        self.bytes(stay.as_bytes())
    }

    /// The finished value.
    pub fn done(self) -> bytes::Bytes {
        self.0.into()
    }
}

/// Reads a value field by field, in the order in which it was written.
pub struct ValueReader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> ValueReader<'a> {
    /// Reads the version byte. `what` names the value in errors.
    pub fn new(what: &'static str, known: u8, value: &'a [u8]) -> Result<(u8, Self), ValueError> {
        match value.split_first() {
            Some((&found, _)) if found > known => Err(ValueError::Newer { what, found, known }),
            Some((&version, rest)) if version > 0 => Ok((version, Self { what, rest })),
            _ => Err(ValueError::Damaged { what }),
        }
    }

    /// Reads the version byte of a value that has had one version so far: a cell of a single field.
    pub fn version_1(what: &'static str, value: &'a [u8]) -> Result<Self, ValueError> {
        Self::new(what, 1, value).map(|(_, r)| r)
    }

    /// The error that says that this value is damaged.
    pub fn damaged(&self) -> ValueError {
        ValueError::Damaged { what: self.what }
    }

    /// Reads this many bytes.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], ValueError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads 16 bytes.
    pub fn uuid(&mut self) -> Result<Uuid, ValueError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(Uuid::from_bytes(*bytes))
    }

    /// Reads a number (LEB128). Most are short lengths, and have one byte.
    #[inline]
    pub fn number(&mut self) -> Result<u64, ValueError> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_number().ok_or_else(|| self.damaged()),
        }
    }

    /// Reads a number of several bytes: up to 8 at once, if so many bytes are left.
    fn long_number(&mut self) -> Option<u64> {
        let Some(word) = self.rest.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
            return self.number_by_bytes();
        };
        // Has the high bit of each byte in which that is 0: such a byte ends a number. If none of the eight does, the number
        // is longer, or damaged.
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.number_by_bytes();
        }
        // The bytes up to the first end and with it, 7 bits of each.
        let sevens = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
        // Joins neighbours: eight pieces of 7 bits, four of 14, two of 28, one of 56.
        let pairs = (sevens & 0x007f_007f_007f_007f) | ((sevens & 0x7f00_7f00_7f00_7f00) >> 1);
        let fours = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
        let number = (fours & 0x0000_0000_0fff_ffff) | ((fours & 0x0fff_ffff_0000_0000) >> 4);
        self.rest = self.rest.get(ends.trailing_zeros() as usize / 8 + 1..)?;
        Some(number)
    }

    /// Reads a number byte by byte; none if it is damaged.
    fn number_by_bytes(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads milliseconds (zigzag, LEB128).
    pub fn time(&mut self) -> Result<Timestamp, ValueError> {
        let zigzag = self.number()?;
        let ms = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        Ok(Timestamp::from_ms(ms))
    }

    /// Reads a length and as many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], ValueError> {
        let len = self.number()?;
        let len = usize::try_from(len).map_err(|_| self.damaged())?;
        self.raw(len)
    }

    /// Reads a length and as many bytes of UTF-8.
    pub fn text(&mut self) -> Result<&'a str, ValueError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.damaged())
    }

    /// Reads a stay id.
    pub fn stay_id(&mut self) -> Result<StayId, ValueError> {
        let bytes = self.bytes()?;
        StayId::from_bytes(bytes).ok_or_else(|| self.damaged())
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
        let value = ValueWriter::new(1).number(0).number(300).time(Timestamp::from_ms(-1)).bytes(b"ab").done();
        assert_eq!(value.as_ref(), [1, 0, 0xac, 2, 1, 2, b'a', b'b']);
        let (version, mut r) = ValueReader::new("test", 1, &value).unwrap();
        assert_eq!((version, r.number(), r.number()), (1, Ok(0), Ok(300)));
        assert_eq!((r.time(), r.text()), (Ok(Timestamp::from_ms(-1)), Ok("ab")));
        assert_eq!(r.end(), Ok(()));
    }

    #[test]
    fn extremes_and_damage() {
        for ms in [i64::MIN, i64::MAX, 0, -1] {
            let value = ValueWriter::new(1).time(Timestamp::from_ms(ms)).done();
            let (_, mut r) = ValueReader::new("test", 1, &value).unwrap();
            assert_eq!(r.time().unwrap().ms(), ms);
        }
        assert!(matches!(ValueReader::new("test", 1, &[2]), Err(ValueError::Newer { found: 2, known: 1, .. })));
        assert!(matches!(ValueReader::new("test", 1, &[]), Err(ValueError::Damaged { .. })));
        assert!(matches!(ValueReader::new("test", 1, &[0]), Err(ValueError::Damaged { .. })));
        let (_, mut r) = ValueReader::new("test", 1, &[1, 5, 0]).unwrap();
        assert!(r.bytes().is_err());
        let (_, mut r) = ValueReader::new("test", 1, &[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).unwrap();
        assert!(r.number().is_err());
        let (_, r) = ValueReader::new("test", 1, &[1, 5]).unwrap();
        assert!(r.end().is_err());
    }

    /// Numbers of each length, with few and with many bytes after them, are read as byte by byte.
    #[test]
    fn numbers_are_read_whatever_follows() {
        let lengths =
            (0..64).map(|bit| 1u64 << bit).flat_map(|n| [n - 1, n, n | 1, n | (n >> 3), n.wrapping_mul(0x9e37_79b9)]);
        for number in lengths.chain([u64::MAX]) {
            let value = ValueWriter::new(1).number(number).done();
            for after in [&[][..], &[0], &[0x80; 3], &[0xff; 7], &[0x7f; 20], &[0xff; 20]] {
                let bytes = [&value, after].concat();
                let (_, mut r) = ValueReader::new("test", 1, &bytes).unwrap();
                assert_eq!((r.number(), r.raw(after.len()), r.end()), (Ok(number), Ok(after), Ok(())), "{number}");
            }
            // Cut short, and longer than it needs to be: a zero that is written as more bits.
            for cut in 1..value.len() {
                let (_, mut r) = ValueReader::new("test", 1, &value[..cut]).unwrap();
                assert_eq!(r.number(), Err(r.damaged()), "{number} of {cut} bytes");
            }
        }
        for zeros in 0..10 {
            let bytes = [&[1, 0x85][..], &vec![0x80; zeros], &[0; 9]].concat();
            let (_, mut r) = ValueReader::new("test", 1, &bytes).unwrap();
            let expected = if zeros < 9 { Ok(5) } else { Err(r.damaged()) };
            assert_eq!(r.number(), expected, "{zeros}");
            assert!(zeros == 9 || r.raw(8) == Ok(&[0; 8]) && r.end() == Ok(()), "{zeros}");
        }
    }

    /// A value of which the second version adds a text, and the third doubles the number.
    #[test]
    fn older_versions_are_upgraded_step_by_step() {
        #[derive(Debug, PartialEq)]
        struct First(u64);
        #[derive(Debug, PartialEq)]
        struct Second(u64, String);
        #[derive(Debug, PartialEq)]
        struct Third(u64, String);
        impl StoredValue for First {
            const NAME: &'static str = "test";
            fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
                Ok(Self(r.number()?))
            }
        }
        impl StoredValue for Second {
            const NAME: &'static str = "test";
            const VERSION: u8 = 2;
            fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
                Ok(Self(r.number()?, r.text()?.to_owned()))
            }
            fn upgrade(version: u8, r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
                First::read_version(version, r).map(|old| Self(old.0, "none".to_owned()))
            }
        }
        impl StoredValue for Third {
            const NAME: &'static str = "test";
            const VERSION: u8 = 3;
            fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
                Ok(Self(r.number()?, r.text()?.to_owned()))
            }
            fn upgrade(version: u8, r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
                Second::read_version(version, r).map(|old| Self(2 * old.0, old.1))
            }
        }
        fn newest(value: &[u8]) -> Result<(u64, &str), ValueError> {
            decode_newest::<Third, _>(value, |r| Ok((r.number()?, r.text()?)))
        }
        assert_eq!(decode::<Third>(&[1, 5]), Ok(Third(10, "none".into())));
        assert_eq!(decode::<Third>(&[2, 5, 1, b'a']), Ok(Third(10, "a".into())));
        assert_eq!(decode::<Third>(&[3, 5, 1, b'a']), Ok(Third(5, "a".into())));
        assert!(matches!(decode::<Third>(&[4, 5]), Err(ValueError::Newer { found: 4, known: 3, .. })));
        for damaged in [&[][..], &[0, 5], &[1], &[1, 5, 0], &[2, 5], &[3, 5]] {
            assert!(matches!(decode::<Third>(damaged), Err(ValueError::Damaged { .. })), "{damaged:?}");
        }
        assert_eq!(newest(&[3, 5, 1, b'a']), Ok((5, "a")));
        assert!(matches!(newest(&[4, 5, 1, b'a']), Err(ValueError::Newer { found: 4, known: 3, .. })));
        for damaged in [&[][..], &[0, 5], &[1, 5], &[2, 5, 1, b'a'], &[3, 5], &[3, 5, 1, b'a', 0]] {
            assert!(matches!(newest(damaged), Err(ValueError::Damaged { .. })), "{damaged:?}");
        }
    }
}
