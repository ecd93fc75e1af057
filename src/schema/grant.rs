//! Grants, and the `grant` table, which finds them by directory and by giver.
//!
//! A grant is a cell of its holder's account row, in the family `grant`. Its qualifier is the directory's id and the
//! giver. So a user has one grant for each directory and giver, and one `get` reads all of them.
//!
//! The table has two rows for each grant, with one index entry each. An entry is put before the grant and deleted after
//! it. So it may be early or stale: the account row decides. The qualifier is the id of the grant, which is new whenever
//! the grant is given anew: an entry is made once and removed once.

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::ids::{DirId, GrantId};
use super::rights::Rights;
use super::user_name::UserName;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::{Cell, Change, Column, RowChange, RowRange};

/// The family of grants in the table of accounts.
pub const GRANT: &str = "grant";
/// The name of the table of index entries.
pub const TABLE: &str = "grant";
const BY_DIR: &[u8] = b"d";
const BY_GIVER: &[u8] = b"g";
const ENTRY: &[u8] = &[1];

/// Who can have grants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grantee {
    /// Every user.
    Everyone,
    /// One user.
    User(UserName),
}

impl Grantee {
    /// The name of the user, or `*`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Everyone => "*",
            Self::User(name) => name.as_str(),
        }
    }

    /// The row key of the account.
    pub fn key(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_str().as_bytes())
    }

    /// Decodes a row key.
    pub(super) fn parse(key: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(key).ok()?;
        if text == "*" { Some(Self::Everyone) } else { UserName::parse(text).ok().map(Self::User) }
    }

    /// Decodes a row key.
    pub fn decode(key: &[u8]) -> Result<Self, ValueError> {
        Self::parse(key).ok_or(ValueError::Damaged { what: "account's key" })
    }
}

/// Who has given a grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Giver {
    /// An admin, whichever.
    Admins,
    /// A user who has the right to share.
    User(UserName),
}

impl Giver {
    /// The name in keys and qualifiers: empty for admins.
    fn text(&self) -> &str {
        match self {
            Self::Admins => "",
            Self::User(name) => name.as_str(),
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        if text.is_empty() { Some(Self::Admins) } else { UserName::parse(text).ok().map(Self::User) }
    }
}

/// Rights of a user on a directory and all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The directory, wherever it moves.
    pub dir: DirId,
    /// Who has given them.
    pub giver: Giver,
    /// The rights.
    pub rights: Rights,
    /// The id of the grant.
    pub id: GrantId,
}

/// The value of a grant's cell.
struct GrantValue {
    rights: Rights,
    id: GrantId,
}

impl StoredValue for GrantValue {
    const NAME: &'static str = "grant";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let rights = Rights::read(r)?;
        let id = r.raw(8)?.try_into().map(GrantId).map_err(|_| r.damaged())?;
        Ok(Self { rights, id })
    }
}

/// The cell of a grant in its holder's account row.
pub fn column(dir: DirId, giver: &Giver) -> Column {
    Column::new(GRANT, [dir.0.as_bytes().as_slice(), giver.text().as_bytes()].concat())
}

impl Grant {
    /// The grant in a cell of an account row.
    pub fn from_cell(cell: &Cell) -> Result<Self, ValueError> {
        let damaged = ValueError::Damaged { what: "grant's qualifier" };
        let (dir, giver) = cell.qualifier.split_first_chunk().ok_or(damaged.clone())?;
        let (dir, giver) = (DirId(Uuid::from_bytes(*dir)), Giver::parse(giver).ok_or(damaged)?);
        let GrantValue { rights, id } = value::decode(&cell.value)?;
        Ok(Self { dir, giver, rights, id })
    }

    /// Creates or replaces the cell.
    pub fn put(&self) -> Change {
        let value = self.rights.write(ValueWriter::new(GrantValue::VERSION)).raw(&self.id.0).done();
        Change::put(GRANT, column(self.dir, &self.giver).qualifier, value)
    }

    /// Deletes the cell.
    pub fn delete(&self) -> Change {
        Change::delete(GRANT, column(self.dir, &self.giver).qualifier)
    }

    /// Puts both index entries.
    pub fn put_index(&self, holder: &Grantee) -> Vec<RowChange> {
        self.index(holder, |qualifier| Change::put(CF, qualifier, ENTRY))
    }

    /// Deletes both index entries.
    pub fn delete_index(&self, holder: &Grantee) -> Vec<RowChange> {
        self.index(holder, |qualifier| Change::delete(CF, qualifier))
    }

    fn index(&self, holder: &Grantee, change: impl Fn(Bytes) -> Change) -> Vec<RowChange> {
        let (dir, giver) = (self.dir.0.as_bytes().as_slice(), self.giver.text().as_bytes());
        let by_dir = [BY_DIR, dir, holder.as_str().as_bytes(), &[0], giver].concat();
        let by_giver = [BY_GIVER, giver, &[0], dir, holder.as_str().as_bytes()].concat();
        let row = |key: Vec<u8>| RowChange {
            table: TABLE,
            row: key.into(),
            changes: vec![change(Bytes::copy_from_slice(&self.id.0))],
        };
        vec![row(by_dir), row(by_giver)]
    }
}

/// An index entry: the grant that it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantIndexKey {
    /// The directory.
    pub dir: DirId,
    /// Who has the grant.
    pub holder: Grantee,
    /// Who has given it.
    pub giver: Giver,
}

impl GrantIndexKey {
    /// The grant that a row key names.
    pub fn decode(key: &[u8]) -> Result<Self, ValueError> {
        Self::parse(key).ok_or(ValueError::Damaged { what: "grant index key" })
    }

    fn parse(key: &[u8]) -> Option<Self> {
        let split = |names: &[u8]| names.iter().position(|byte| *byte == 0);
        if let Some(rest) = key.strip_prefix(BY_DIR) {
            let (dir, names) = rest.split_first_chunk()?;
            let (holder, giver) = names.split_at_checked(split(names)?)?;
            let giver = Giver::parse(giver.get(1..)?)?;
            return Some(Self { dir: DirId(Uuid::from_bytes(*dir)), holder: Grantee::parse(holder)?, giver });
        }
        let rest = key.strip_prefix(BY_GIVER)?;
        let (giver, rest) = rest.split_at_checked(split(rest)?)?;
        let (dir, holder) = rest.get(1..)?.split_first_chunk()?;
        let giver = Giver::parse(giver)?;
        Some(Self { dir: DirId(Uuid::from_bytes(*dir)), holder: Grantee::parse(holder)?, giver })
    }
}

/// The rows of all grants on a directory.
pub fn on_dir(dir: DirId) -> RowRange {
    RowRange::prefix(&[BY_DIR, dir.0.as_bytes()].concat())
}

/// The rows of all grants, by directory.
pub fn on_any_dir() -> RowRange {
    RowRange::prefix(BY_DIR)
}

/// The rows of all grants that this giver has given.
pub fn given_by(giver: &Giver) -> RowRange {
    RowRange::prefix(&[BY_GIVER, giver.text().as_bytes(), &[0]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::rights::Right;

    fn user(name: &str) -> UserName {
        UserName::parse(name).unwrap()
    }

    fn grant(giver: Giver) -> Grant {
        let rights = Rights::from_iter([Right::Write]);
        Grant { dir: DirId(Uuid::from_bytes([5; 16])), giver, rights, id: GrantId([9; 8]) }
    }

    fn cell(grant: &Grant) -> Cell {
        match grant.put() {
            Change::Put { qualifier, value, .. } => Cell { qualifier, value },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn golden_bytes() {
        let given = grant(Giver::User(user("eva")));
        let stored = cell(&given);
        assert_eq!(stored.qualifier.as_ref(), [&[5; 16], b"eva".as_slice()].concat());
        assert_eq!(stored.value.as_ref(), [[1, 3].as_slice(), &[9; 8]].concat());
        assert_eq!(Grant::from_cell(&stored), Ok(given.clone()));
        let by_admin = grant(Giver::Admins);
        assert_eq!(cell(&by_admin).qualifier.as_ref(), [5; 16]);
        assert_eq!(Grant::from_cell(&cell(&by_admin)), Ok(by_admin));
        let short = Cell { qualifier: Bytes::from_static(&[5; 15]), ..stored.clone() };
        let other_giver = Cell { qualifier: [&[5; 16], b"/".as_slice()].concat().into(), ..stored.clone() };
        let cut = Cell { value: stored.value.slice(..9), ..stored };
        assert!([short, other_giver, cut].iter().all(|cell| Grant::from_cell(cell).is_err()));
    }

    #[test]
    fn everyone_is_no_user() {
        let tom = Grantee::User(user("tom"));
        assert_eq!((Grantee::Everyone.key().as_ref(), tom.key().as_ref()), (b"*".as_slice(), b"tom".as_slice()));
        assert_eq!([Grantee::decode(b"*"), Grantee::decode(b"tom")], [Ok(Grantee::Everyone), Ok(tom)]);
        assert!(Grantee::decode(b"").is_err() && Grantee::decode(b"**").is_err());
    }

    #[test]
    fn both_index_rows_lead_to_the_grant() {
        for (giver, holder, by_dir, by_giver) in [
            (Giver::User(user("eva")), Grantee::User(user("tom")), b"tom\0eva".as_slice(), b"geva\0".as_slice()),
            (Giver::Admins, Grantee::Everyone, b"*\0", b"g\0"),
        ] {
            let given = grant(giver);
            let rows = given.put_index(&holder);
            let keys: Vec<&[u8]> = rows.iter().map(|row| row.row.as_ref()).collect();
            let named = holder.as_str().as_bytes();
            assert_eq!(keys, [[b"d", [5; 16].as_slice(), by_dir].concat(), [by_giver, &[5; 16], named].concat()]);
            assert!(rows.iter().all(|row| row.changes == [Change::put("cf", vec![9; 8], vec![1])]));
            assert!(given.delete_index(&holder).iter().all(|row| row.changes == [Change::delete("cf", vec![9; 8])]));
            let expected = GrantIndexKey { dir: given.dir, holder, giver: given.giver.clone() };
            assert!(keys.iter().all(|key| GrantIndexKey::decode(key).as_ref() == Ok(&expected)));
            assert!(on_dir(given.dir).contains(keys[0]) && given_by(&given.giver).contains(keys[1]));
        }
        for damaged in [b"".as_slice(), b"d", b"x", b"g\0", &[b"d", [5; 16].as_slice(), b"tom"].concat()] {
            assert!(GrantIndexKey::decode(damaged).is_err(), "{damaged:?}");
        }
        let longer = Grant { giver: Giver::User(user("eva2")), ..grant(Giver::Admins) };
        let rows = longer.put_index(&Grantee::Everyone);
        assert!(!given_by(&Giver::User(user("eva"))).contains(&rows[1].row), "a name that starts with the giver's");
    }
}
