//! Sessions and tokens, and the `secret` table, which finds their user, or the maker of a share, by the SHA-256 of the
//! secret.
//!
//! A session or a token is a cell of its user's account row, in a family of its kind. So it is read at the same instant as
//! all else of the account, and a change of the account can end all sessions at once. A second cell has the time of the
//! last use: it changes often, and no plan checks it.
//!
//! A row of the table has one index entry. It is put before the cell and deleted after it. So it may be early or stale:
//! the account row decides.

use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::account::{SESSION, SHARE, TOKEN};
use super::ids::{DirId, SecretId};
use super::rights::Rights;
use super::timestamp::Timestamp;
use super::user_name::UserName;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::{Cell, Change, Column, Row, RowChange};

/// The name of the table of index entries.
pub const TABLE: &str = "secret";
/// The qualifier of the only cell of a row.
pub const OWNER: &[u8] = b"owner";
/// The qualifier of a secret starts with it; the id follows.
const STORED: &[u8] = b"s";
/// The qualifier of the time of the last use starts with it; the id follows.
const USED: &[u8] = b"u";

/// The kinds of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretKind {
    /// Made by a login.
    Session,
    /// Made by its user, for a program.
    Token,
    /// Made by its user, for people without an account: [`super::share`].
    Share,
}

impl SecretKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::successors(Some(Self::Session), |kind| kind.next())
    }

    /// The next one of all kinds.
    fn next(self) -> Option<Self> {
        match self {
            Self::Session => Some(Self::Token),
            Self::Token => Some(Self::Share),
            Self::Share => None,
        }
    }

    /// Whether its user himself gets in by it: a share lets in anybody.
    pub fn is_of_user(self) -> bool {
        match self {
            Self::Session | Self::Token => true,
            Self::Share => false,
        }
    }

    /// The family of the account row.
    pub fn family(self) -> &'static str {
        match self {
            Self::Session => SESSION,
            Self::Token => TOKEN,
            Self::Share => SHARE,
        }
    }
}

/// In a message.
impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Token => "token",
            Self::Share => "share",
        })
    }
}

/// The SHA-256 of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecretDigest(pub [u8; 32]);

/// The only directory that a token or a share is for, and what it may do there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenScope {
    /// The directory, wherever it moves.
    pub dir: DirId,
    /// As far as its user has them.
    pub rights: Rights,
}

/// A session or a token, as the account row has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// The SHA-256 of what its user sends.
    pub digest: SecretDigest,
    /// What its user calls it; empty for a session.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// None: it may do all that its user may.
    pub scope: Option<TokenScope>,
}

const EXPIRES_FLAG: u64 = 1;
const SCOPE_FLAG: u64 = 2;

impl Secret {
    /// The stored bytes, in the newest version.
    pub fn encode(&self) -> Bytes {
        let expires = self.expires.map_or(0, |_| EXPIRES_FLAG);
        let scope = self.scope.map_or(0, |_| SCOPE_FLAG);
        let value = ValueWriter::new(Self::VERSION).raw(&self.digest.0).bytes(self.name.as_bytes()).time(self.created);
        let value = value.number(expires | scope);
        let value = self.expires.into_iter().fold(value, ValueWriter::time);
        self.scope.iter().fold(value, |to, scope| scope.rights.write(to.uuid(scope.dir.0))).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for Secret {
    const NAME: &'static str = "secret";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let digest = r.raw(32)?.try_into().map(SecretDigest).map_err(|_| r.damaged())?;
        let (name, created, flags) = (r.text()?.to_owned(), r.time()?, r.number()?);
        if flags > (EXPIRES_FLAG | SCOPE_FLAG) {
            return Err(r.damaged());
        }
        let expires = if flags & EXPIRES_FLAG == 0 { None } else { Some(r.time()?) };
        let scope = if flags & SCOPE_FLAG == 0 {
            None
        } else {
            Some(TokenScope { dir: DirId(r.uuid()?), rights: Rights::read(r)? })
        };
        Ok(Self { digest, name, created, expires, scope })
    }
}

/// The user of a secret, and which one of his it is: enough to find its cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretOwner {
    /// The user.
    pub user: UserName,
    /// The family of the cell.
    pub kind: SecretKind,
    /// The id of the secret.
    pub id: SecretId,
}

impl SecretOwner {
    /// The cell of the secret in its user's account row.
    pub fn column(&self) -> Column {
        Column::new(self.kind.family(), qualifier(STORED, self.id))
    }

    /// The cell of its last use; of a share its counter.
    pub fn used_column(&self) -> Column {
        Column::new(self.kind.family(), qualifier(USED, self.id))
    }

    /// Creates the cell.
    pub fn put(&self, secret: &Secret) -> Change {
        Change::put(self.kind.family(), qualifier(STORED, self.id), secret.encode())
    }

    /// Sets the time of the last use.
    pub fn put_used(&self, used: Timestamp) -> Change {
        Change::put(self.kind.family(), qualifier(USED, self.id), ValueWriter::new(1).time(used).done())
    }

    /// The time of the last use, in an account row.
    pub fn last_use(&self, row: &Row) -> Result<Option<Timestamp>, ValueError> {
        let used = self.used_column();
        row.get(used.family, &used.qualifier).map(|value| decode_used(value)).transpose()
    }

    /// Deletes both cells.
    pub fn delete(&self) -> Vec<Change> {
        [STORED, USED].map(|cell| Change::delete(self.kind.family(), qualifier(cell, self.id))).into()
    }

    /// Puts the index entry.
    pub fn put_index(&self, digest: SecretDigest) -> RowChange {
        let kind = match self.kind {
            SecretKind::Session => 0,
            SecretKind::Token => 1,
            SecretKind::Share => 2,
        };
        let value = ValueWriter::new(Self::VERSION).number(kind).uuid(self.id.0);
        let value = value.bytes(self.user.as_str().as_bytes()).done();
        row(digest, Change::put(CF, OWNER, value))
    }

    /// Decodes an index entry.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for SecretOwner {
    const NAME: &'static str = "secret's owner";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let kind = match r.number()? {
            0 => SecretKind::Session,
            1 => SecretKind::Token,
            2 => SecretKind::Share,
            _ => return Err(r.damaged()),
        };
        let id = SecretId(r.uuid()?);
        Ok(Self { user: UserName::read(r)?, kind, id })
    }
}

/// Deletes an index entry.
pub fn delete_index(digest: SecretDigest) -> RowChange {
    row(digest, Change::delete(CF, OWNER))
}

fn row(digest: SecretDigest, change: Change) -> RowChange {
    RowChange { table: TABLE, row: Bytes::copy_from_slice(&digest.0), changes: vec![change] }
}

/// Decodes the time of a last use.
pub fn decode_used(value: &[u8]) -> Result<Timestamp, ValueError> {
    let mut r = ValueReader::version_1("secret's last use", value)?;
    let used = r.time()?;
    r.end()?;
    Ok(used)
}

/// The id and the secret in a cell of one of the families; none if the cell is a last use.
pub fn from_cell(cell: &Cell) -> Result<Option<(SecretId, Secret)>, ValueError> {
    let Some(id) = stored_id(&cell.qualifier)? else { return Ok(None) };
    Ok(Some((id, Secret::decode(&cell.value)?)))
}

/// The id in the qualifier of a secret; none if it is that of a last use.
pub fn stored_id(qualifier: &[u8]) -> Result<Option<SecretId>, ValueError> {
    let Some(id) = qualifier.strip_prefix(STORED) else { return Ok(None) };
    let id = Uuid::from_slice(id).map_err(|_| ValueError::Damaged { what: "secret's qualifier" })?;
    Ok(Some(SecretId(id)))
}

/// The id of the secret and the time in a cell of one of the families; none if the cell is a secret.
pub fn use_from_cell(cell: &Cell) -> Result<Option<(SecretId, Timestamp)>, ValueError> {
    let Some(id) = used_id(&cell.qualifier)? else { return Ok(None) };
    Ok(Some((id, decode_used(&cell.value)?)))
}

/// The id in the qualifier of a last use or, of a share, a counter; none if it is that of a secret.
pub(super) fn used_id(qualifier: &[u8]) -> Result<Option<SecretId>, ValueError> {
    let Some(id) = qualifier.strip_prefix(USED) else { return Ok(None) };
    let id = Uuid::from_slice(id).map_err(|_| ValueError::Damaged { what: "qualifier of a secret's last use" })?;
    Ok(Some(SecretId(id)))
}

fn qualifier(cell: &[u8], id: SecretId) -> Bytes {
    [cell, id.0.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::rights::Right;

    fn secret() -> Secret {
        let scope = TokenScope { dir: DirId(Uuid::from_bytes([5; 16])), rights: Rights::from_iter([Right::Read]) };
        Secret {
            digest: SecretDigest([7; 32]),
            name: "phone".into(),
            created: Timestamp::from_ms(1),
            expires: Some(Timestamp::from_ms(2)),
            scope: Some(scope),
        }
    }

    fn owner(kind: SecretKind) -> SecretOwner {
        SecretOwner { user: UserName::parse("tom").unwrap(), kind, id: SecretId(Uuid::from_bytes([6; 16])) }
    }

    #[test]
    fn golden_bytes() {
        let bytes = [[1].as_slice(), &[7; 32], b"\x05phone\x02\x03\x04", &[5; 16], &[1]].concat();
        assert_eq!(secret().encode().as_ref(), bytes);
        assert_eq!(Secret::decode(&bytes), Ok(secret()));
        assert!(Secret::decode(&bytes[..bytes.len() - 1]).is_err());
        let session = Secret { name: String::new(), expires: None, scope: None, ..secret() };
        let bytes = [[1].as_slice(), &[7; 32], b"\x00\x02\x00"].concat();
        assert_eq!(session.encode().as_ref(), bytes);
        assert_eq!(Secret::decode(&bytes), Ok(session));
        let unknown_flag = [[1].as_slice(), &[7; 32], b"\x00\x02\x04"].concat();
        assert!(Secret::decode(&unknown_flag).is_err());
    }

    #[test]
    fn the_index_entry_leads_to_the_cell() {
        for (kind, byte, family) in [(SecretKind::Session, 0, "session"), (SecretKind::Token, 1, "token")] {
            let owner = owner(kind);
            let bytes = [&[1, byte], [6; 16].as_slice(), b"\x03tom"].concat();
            let row = owner.put_index(SecretDigest([7; 32]));
            assert_eq!((row.table, row.row.as_ref()), ("secret", [7; 32].as_slice()));
            assert_eq!(row.changes, [Change::put("cf", "owner", bytes.clone())]);
            assert_eq!(delete_index(SecretDigest([7; 32])).changes, [Change::delete("cf", "owner")]);
            assert_eq!(SecretOwner::decode(&bytes), Ok(owner.clone()));
            let stored = [b"s".as_slice(), &[6; 16]].concat();
            assert_eq!(owner.column(), Column::new(family, stored.clone()));
            let cell = Cell { qualifier: stored.into(), value: secret().encode() };
            assert_eq!(from_cell(&cell), Ok(Some((owner.id, secret()))));
        }
        assert!(SecretOwner::decode(&[&[1, 3], [6; 16].as_slice(), b"\x03tom"].concat()).is_err());
        let session = owner(SecretKind::Session);
        let Change::Put { qualifier, value, .. } = session.put_used(Timestamp::from_ms(3)) else { panic!("a put") };
        assert_eq!(
            (qualifier.as_ref(), value.as_ref()),
            ([b"u".as_slice(), &[6; 16]].concat().as_slice(), &[1, 6][..])
        );
        assert_eq!(decode_used(&value), Ok(Timestamp::from_ms(3)));
        assert_eq!(session.delete().len(), 2);
        assert_eq!(from_cell(&Cell { qualifier, value }), Ok(None));
    }
}
