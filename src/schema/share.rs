//! Shares: what people without an account may do by a link.
//!
//! A share is a cell of its maker's account row, in the family `share`, and is found by the SHA-256 of its secret as
//! [sessions and tokens](super::secret) are. A second cell is a [counter](crate::table::counter): the downloads that it has
//! served, or the bytes that were uploaded by it.
//!
//! A row of the table `grant` finds the shares of a user on one directory or file. Its entries are put before the cell and
//! deleted after it. So one may be early or stale: the account row decides.

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::account::{PasswordHash, SHARE};
use super::grant;
use super::ids::{DirId, FileId, SecretId};
use super::rights::Right;
use super::secret::{self, SecretDigest, SecretOwner};
use super::timestamp::Timestamp;
use super::user_name::UserName;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::{Cell, Change, RowChange, RowKey, RowRange};

/// The row keys of the index start with it.
const BY_TARGET: &[u8] = b"s";
const ENTRY: &[u8] = &[1];

/// What a share is of, wherever it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShareTarget {
    /// A directory, with all below it.
    Dir(DirId),
    /// One version of a file: a new one has another id.
    File(FileId),
}

impl ShareTarget {
    fn id(self) -> Uuid {
        match self {
            Self::Dir(DirId(id)) | Self::File(FileId(id)) => id,
        }
    }
}

/// What a share allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareMode {
    /// To list and download.
    Read {
        /// How often content is served; none: no limit.
        downloads: Option<u64>,
    },
    /// To add files, and nothing else.
    Upload {
        /// The bytes of all files together.
        bytes: u64,
    },
}

/// A share, as the account row has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The SHA-256 of the secret in its link.
    pub digest: SecretDigest,
    /// What it is of.
    pub target: ShareTarget,
    /// What it allows.
    pub mode: ShareMode,
    /// When it was made.
    pub created: Timestamp,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// None: the link is enough.
    pub password: Option<PasswordHash>,
}

const FILE_FLAG: u64 = 1;
const UPLOAD_FLAG: u64 = 2;
const EXPIRES_FLAG: u64 = 4;
const LIMIT_FLAG: u64 = 8;
const PASSWORD_FLAG: u64 = 16;

impl Share {
    /// The right that its maker needs beside the right to share.
    pub fn right(&self) -> Right {
        match self.mode {
            ShareMode::Read { .. } => Right::Read,
            ShareMode::Upload { .. } => Right::Write,
        }
    }

    /// The largest number that its counter may have; none: nothing is counted.
    pub fn limit(&self) -> Option<u64> {
        match self.mode {
            ShareMode::Read { downloads } => downloads,
            ShareMode::Upload { bytes } => Some(bytes),
        }
    }

    /// Whether it has served all its downloads. An upload share never has: without bytes left it still takes empty files.
    pub fn is_used_up(&self, used: u64) -> bool {
        matches!(self.mode, ShareMode::Read { downloads: Some(limit) } if used >= limit)
    }

    /// Whether its time is over.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// The stored bytes, in the newest version.
    pub fn encode(&self) -> Bytes {
        let flags = [
            (matches!(self.target, ShareTarget::File(_)), FILE_FLAG),
            (matches!(self.mode, ShareMode::Upload { .. }), UPLOAD_FLAG),
            (self.expires.is_some(), EXPIRES_FLAG),
            (self.limit().is_some(), LIMIT_FLAG),
            (self.password.is_some(), PASSWORD_FLAG),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
        let value = ValueWriter::new(Self::VERSION).raw(&self.digest.0).number(flags).uuid(self.target.id());
        let value = self.expires.into_iter().fold(value.time(self.created), ValueWriter::time);
        let value = self.limit().into_iter().fold(value, ValueWriter::number);
        self.password.iter().fold(value, |to, PasswordHash(hash)| to.bytes(hash.as_bytes())).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }

    /// Creates the cell.
    pub fn put(&self, owner: &SecretOwner) -> Change {
        Change::put(SHARE, owner.column().qualifier, self.encode())
    }

    /// Puts the index entries: by the secret, and by the target.
    pub fn put_index(&self, owner: &SecretOwner) -> Vec<RowChange> {
        vec![owner.put_index(self.digest), self.by_target(owner, |qualifier| Change::put(CF, qualifier, ENTRY))]
    }

    /// Deletes the index entries.
    pub fn delete_index(&self, owner: &SecretOwner) -> Vec<RowChange> {
        vec![secret::delete_index(self.digest), self.by_target(owner, |qualifier| Change::delete(CF, qualifier))]
    }

    fn by_target(&self, owner: &SecretOwner, change: impl Fn(Bytes) -> Change) -> RowChange {
        let key = [BY_TARGET, self.target.id().as_bytes(), owner.user.as_str().as_bytes()].concat();
        let changes = vec![change(Bytes::copy_from_slice(owner.id.0.as_bytes()))];
        RowChange { table: grant::TABLE, row: key.into(), changes }
    }

    /// Whether a row key of the index names its target.
    pub fn is_indexed_by(&self, key: &[u8]) -> bool {
        let rest = key.strip_prefix(BY_TARGET);
        rest.is_some_and(|rest| rest.starts_with(self.target.id().as_bytes()))
    }
}

impl StoredValue for Share {
    const NAME: &'static str = "share";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let digest = r.raw(32)?.try_into().map(SecretDigest).map_err(|_| r.damaged())?;
        let (flags, id, created) = (r.number()?, r.uuid()?, r.time()?);
        if flags > (FILE_FLAG | UPLOAD_FLAG | EXPIRES_FLAG | LIMIT_FLAG | PASSWORD_FLAG) {
            return Err(r.damaged());
        }
        let is_set = |flag| flags & flag != 0;
        let target = if is_set(FILE_FLAG) { ShareTarget::File(FileId(id)) } else { ShareTarget::Dir(DirId(id)) };
        let expires = if is_set(EXPIRES_FLAG) { Some(r.time()?) } else { None };
        let limit = if is_set(LIMIT_FLAG) { Some(r.number()?) } else { None };
        let mode = match (is_set(UPLOAD_FLAG), limit) {
            (false, downloads) => ShareMode::Read { downloads },
            (true, Some(bytes)) => ShareMode::Upload { bytes },
            (true, None) => return Err(r.damaged()),
        };
        let password = if is_set(PASSWORD_FLAG) { Some(PasswordHash(r.text()?.to_owned())) } else { None };
        Ok(Self { digest, target, mode, created, expires, password })
    }
}

/// The id and the share in a cell of the family; none if the cell is a counter.
pub fn from_cell(cell: &Cell) -> Result<Option<(SecretId, Share)>, ValueError> {
    let Some(id) = secret::stored_id(&cell.qualifier)? else { return Ok(None) };
    Ok(Some((id, Share::decode(&cell.value)?)))
}

/// The id of the share in a cell of the family, which need not be readable; none if it is a counter.
pub fn stored_id(cell: &Cell) -> Option<SecretId> {
    secret::stored_id(&cell.qualifier).ok().flatten()
}

/// The id of the share whose counter a cell of the family is; none if it is a share.
pub fn counter_of(cell: &Cell) -> Result<Option<SecretId>, ValueError> {
    secret::used_id(&cell.qualifier)
}

/// The rows of all shares of a directory or file.
pub fn of_target(target: ShareTarget) -> RowRange {
    RowRange::prefix(&[BY_TARGET, target.id().as_bytes()].concat())
}

/// Whether a row key of the table of grants is one of a share.
pub fn is_index_key(key: &RowKey) -> bool {
    key.starts_with(BY_TARGET)
}

/// The share that an index entry leads to.
pub fn owner_of(key: &[u8], qualifier: &[u8]) -> Result<SecretOwner, ValueError> {
    let damaged = ValueError::Damaged { what: "share index key" };
    let user = key.strip_prefix(BY_TARGET).and_then(|rest| rest.get(16..)).ok_or(damaged.clone())?;
    let user = std::str::from_utf8(user).ok().and_then(|name| UserName::parse(name).ok());
    let id = Uuid::from_slice(qualifier).ok();
    let (user, id) = user.zip(id).ok_or(damaged)?;
    Ok(SecretOwner { user, kind: secret::SecretKind::Share, id: SecretId(id) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::secret::SecretKind;

    fn share() -> Share {
        Share {
            digest: SecretDigest([7; 32]),
            target: ShareTarget::Dir(DirId(Uuid::from_bytes([5; 16]))),
            mode: ShareMode::Read { downloads: None },
            created: Timestamp::from_ms(1),
            expires: None,
            password: None,
        }
    }

    fn owner() -> SecretOwner {
        let (user, id) = (UserName::parse("tom").unwrap(), SecretId(Uuid::from_bytes([6; 16])));
        SecretOwner { user, kind: SecretKind::Share, id }
    }

    #[test]
    fn golden_bytes() {
        let bytes = [[1].as_slice(), &[7; 32], &[0], &[5; 16], &[2]].concat();
        assert_eq!(share().encode().as_ref(), bytes);
        assert_eq!(Share::decode(&bytes), Ok(share()));
        let full = Share {
            target: ShareTarget::File(FileId(Uuid::from_bytes([5; 16]))),
            mode: ShareMode::Read { downloads: Some(300) },
            expires: Some(Timestamp::from_ms(2)),
            password: Some(PasswordHash("$x".into())),
            ..share()
        };
        let bytes = [[1].as_slice(), &[7; 32], &[29], &[5; 16], b"\x02\x04\xac\x02\x02$x"].concat();
        assert_eq!(full.encode().as_ref(), bytes);
        assert_eq!(Share::decode(&bytes), Ok(full));
        assert!(Share::decode(&bytes[..bytes.len() - 1]).is_err());
        let upload = Share { mode: ShareMode::Upload { bytes: 9 }, ..share() };
        assert_eq!(Share::decode(&upload.encode()), Ok(upload.clone()));
        assert_eq!((upload.right(), upload.limit()), (Right::Write, Some(9)));
        assert_eq!((share().right(), share().limit()), (Right::Read, None));
        for flags in [UPLOAD_FLAG, 32] {
            let bytes = [[1].as_slice(), &[7; 32], &[flags as u8], &[5; 16], &[2]].concat();
            assert!(Share::decode(&bytes).is_err(), "{flags}");
        }
    }

    #[test]
    fn index_entries_lead_to_the_cell() {
        let (share, owner) = (share(), owner());
        let [by_secret, by_target] = <[RowChange; 2]>::try_from(share.put_index(&owner)).unwrap();
        let value = [&[1, 2], [6; 16].as_slice(), b"\x03tom"].concat();
        assert_eq!(by_secret.changes, [Change::put("cf", "owner", value.clone())]);
        assert_eq!(SecretOwner::decode(&value), Ok(owner.clone()));
        assert_eq!(
            (by_target.table, by_target.row.as_ref()),
            ("grant", [b"s", &[5; 16][..], b"tom"].concat().as_ref())
        );
        assert_eq!(by_target.changes, [Change::put("cf", vec![6; 16], vec![1])]);
        assert_eq!(owner_of(&by_target.row, &[6; 16]), Ok(owner.clone()));
        assert!(of_target(share.target).contains(&by_target.row) && is_index_key(&by_target.row));
        assert!(share.is_indexed_by(&by_target.row) && !share.is_indexed_by(b"s"));
        assert_eq!(share.delete_index(&owner).len(), 2);
        for damaged in [b"".as_slice(), b"s", b"d", &[b"s", &[5; 16][..]].concat()] {
            assert!(owner_of(damaged, &[6; 16]).is_err(), "{damaged:?}");
        }
        let Change::Put { family, qualifier, value } = share.put(&owner) else { panic!("a put") };
        assert_eq!((family, qualifier.as_ref()), ("share", [b"s".as_slice(), &[6; 16]].concat().as_ref()));
        assert_eq!(from_cell(&Cell { qualifier, value }), Ok(Some((owner.id, share))));
        let counter = Cell { qualifier: owner.used_column().qualifier, value: Bytes::from_static(&[0; 8]) };
        assert_eq!(from_cell(&counter), Ok(None));
    }
}
