//! What a user may do in a directory and below it.

use super::value::{ValueError, ValueReader, ValueWriter};

/// One right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// To see and download what is there.
    Read,
    /// To add, replace, move and delete files and directories in it; not the directory itself.
    Write,
    /// To give rights to other users, and to make shares.
    Share,
}

/// A set of rights. [`Right::Write`] and [`Right::Share`] include [`Right::Read`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rights(u8);

const READ: u8 = 1;
const WRITE: u8 = 2;
const SHARE: u8 = 4;

impl Right {
    fn bit(self) -> u8 {
        match self {
            Self::Read => READ,
            Self::Write => WRITE,
            Self::Share => SHARE,
        }
    }
}

impl Rights {
    /// All of them.
    pub const ALL: Self = Self(READ | WRITE | SHARE);

    /// Whether this right is in the set.
    pub fn contains(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// The rights of the set, each once.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        [Right::Read, Right::Write, Right::Share].into_iter().filter(move |right| self.contains(*right))
    }

    /// Appends one byte.
    pub(super) fn write(self, to: ValueWriter) -> ValueWriter {
        to.raw(&[self.0])
    }

    /// Reads one byte.
    pub(super) fn read(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        match *r.raw(1)? {
            [bits] if bits <= Self::ALL.0 && Self(bits).iter().collect::<Self>().0 == bits => Ok(Self(bits)),
            _ => Err(r.damaged()),
        }
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | right.bit() | READ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_and_share_include_read() {
        let write = Rights::from_iter([Right::Write]);
        assert!(write.contains(Right::Read) && write.contains(Right::Write) && !write.contains(Right::Share));
        assert_eq!(Rights::from_iter([Right::Share, Right::Write]), Rights::ALL);
        assert_eq!(Rights::from_iter([]).iter().count(), 0);
        assert_eq!(Rights::ALL.iter().collect::<Vec<_>>(), [Right::Read, Right::Write, Right::Share]);
    }

    #[test]
    fn golden_bytes() {
        let write = |rights: Rights| rights.write(ValueWriter::new(1)).done();
        let read = |value: &[u8]| Rights::read(&mut ValueReader::version_1("test", value).unwrap());
        for (rights, byte) in [(vec![], 0), (vec![Right::Read], 1), (vec![Right::Write], 3), (vec![Right::Share], 5)] {
            let rights = Rights::from_iter(rights);
            assert_eq!(write(rights).as_ref(), [1, byte]);
            assert_eq!(read(&[1, byte]), Ok(rights));
        }
        assert_eq!(write(Rights::ALL).as_ref(), [1, 7]);
        for damaged in [&[1, 2][..], &[1, 4], &[1, 6], &[1, 8], &[1]] {
            assert!(read(damaged).is_err(), "{damaged:?}");
        }
    }
}
