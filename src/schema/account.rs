//! The `account` table: one row for each user, keyed by the name, and one for the grants to every user.
//!
//! One `get` reads all that a request needs to know of its user at one instant: the profile, the stamp, the usage, all
//! grants, and the session or token of the request. The row of a removed user stays, because the usage of what he has
//! created goes on changing.

use std::fmt;

use bytes::Bytes;

use super::CF;
use super::grant::Grant;
pub use super::grant::{GRANT, Grantee};
use super::ids::SecretId;
use super::timestamp::Timestamp;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::{Change, Check, Column, Row, RowQuery, counter};

/// The name of the table.
pub const TABLE: &str = "account";
/// The family of sessions: [`super::secret`].
pub const SESSION: &str = "session";
/// The family of tokens: [`super::secret`].
pub const TOKEN: &str = "token";
/// The family of shares: [`super::share`].
pub const SHARE: &str = "share";

/// The qualifier of the stamp. Every account row has this cell.
pub const STAMP: &[u8] = b"stamp";
/// The qualifier of the profile.
pub const PROFILE: &[u8] = b"profile";
/// The qualifier of the password's hash.
pub const PASSWORD: &[u8] = b"password";
/// The qualifier of the counter of bytes.
pub const BYTES: &[u8] = b"bytes";
/// The qualifier of the counter of files and directories.
pub const FILES: &[u8] = b"files";

/// The qualifier of the id of the session, token or share that was made last.
const NEWEST: &[u8] = b"newest";

/// Grants of one user.
pub const GRANTS: usize = 1_000;

/// The number of changes of an account. A plan that was decided on an account checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp of a new account.
    pub const FIRST: Self = Self(1);

    /// The stamp after a change.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The stored bytes, in the newest version.
    pub fn encode(self) -> Bytes {
        ValueWriter::new(Self::VERSION).number(self.0).done()
    }

    /// Sets it.
    pub fn put(self) -> Change {
        Change::put(CF, STAMP, self.encode())
    }

    /// The check that the account has not changed.
    pub fn check(self) -> Check {
        Check::Equals(stamp_column(), self.encode())
    }
}

impl StoredValue for Stamp {
    const NAME: &'static str = "account's stamp";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        r.number().map(Self)
    }
}

/// The cell of the stamp.
pub fn stamp_column() -> Column {
    Column::new(CF, STAMP)
}

/// The largest sums that a user may have; none: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of content.
    pub bytes: Option<u64>,
    /// Files and directories.
    pub files: Option<u64>,
}

/// What a user has: content and entries that he has created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of content.
    pub bytes: i64,
    /// Files and directories.
    pub files: i64,
}

impl Usage {
    /// The query of the counters alone.
    pub fn query() -> RowQuery {
        RowQuery::cells([BYTES, FILES].map(|qualifier| Column::new(CF, qualifier)).into())
    }

    /// The counters in a row; a missing one is 0.
    pub fn from_row(row: &Row) -> Result<Self, ValueError> {
        let number = |qualifier| {
            let value = row.get(CF, qualifier).map(AsRef::as_ref);
            counter::decode(value).map_err(|_| ValueError::Damaged { what: "account's usage" })
        };
        Ok(Self { bytes: number(BYTES)?, files: number(FILES)? })
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let add = i64::saturating_add;
        Self { bytes: add(self.bytes, other.bytes), files: add(self.files, other.files) }
    }
}

/// What is known of a user, beside the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Whether he may do everything.
    pub admin: bool,
    /// Whether he cannot log in for now.
    pub disabled: bool,
    /// Whether he was removed.
    pub removed: bool,
    /// When the account was made.
    pub created: Timestamp,
    /// His name for people; may be empty.
    pub display: String,
    /// The limits of his usage.
    pub quota: Quota,
}

const ADMIN_FLAG: u64 = 1;
const DISABLED_FLAG: u64 = 2;
const REMOVED_FLAG: u64 = 4;

impl Profile {
    /// Whether he counts as an admin: at least one such user stays.
    pub fn is_enabled_admin(&self) -> bool {
        self.admin && self.is_enabled()
    }

    /// Whether he may log in.
    pub fn is_enabled(&self) -> bool {
        !self.disabled && !self.removed
    }

    /// Creates or replaces the cell.
    pub fn put(&self) -> Change {
        let flags = [(self.admin, ADMIN_FLAG), (self.disabled, DISABLED_FLAG), (self.removed, REMOVED_FLAG)];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
        let value = ValueWriter::new(Self::VERSION).number(flags).time(self.created).bytes(self.display.as_bytes());
        let limit = |to: ValueWriter, limit: Option<u64>| match limit {
            None => to.number(0),
            Some(limit) => to.number(1).number(limit),
        };
        Change::put(CF, PROFILE, limit(limit(value, self.quota.bytes), self.quota.files).done())
    }
}

impl StoredValue for Profile {
    const NAME: &'static str = "account's profile";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (flags, created, display) = (r.number()?, r.time()?, r.text()?.to_owned());
        if flags > (ADMIN_FLAG | DISABLED_FLAG | REMOVED_FLAG) {
            return Err(r.damaged());
        }
        let limit = |r: &mut ValueReader<'_>| match r.number()? {
            0 => Ok(None),
            1 => r.number().map(Some),
            _ => Err(r.damaged()),
        };
        let quota = Quota { bytes: limit(r)?, files: limit(r)? };
        let is_set = |flag| flags & flag != 0;
        let (admin, disabled, removed) = (is_set(ADMIN_FLAG), is_set(DISABLED_FLAG), is_set(REMOVED_FLAG));
        Ok(Self { admin, disabled, removed, created, display, quota })
    }
}

/// The hash of a password, as a PHC string.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PasswordHash(pub String);

/// No hash appears in a log.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

impl PasswordHash {
    /// Creates or replaces the cell.
    pub fn put(&self) -> Change {
        Change::put(CF, PASSWORD, ValueWriter::new(Self::VERSION).bytes(self.0.as_bytes()).done())
    }
}

impl StoredValue for PasswordHash {
    const NAME: &'static str = "password hash";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        r.text().map(|text| Self(text.to_owned()))
    }
}

/// The cell of the password's hash.
pub fn password_column() -> Column {
    Column::new(CF, PASSWORD)
}

/// The cell of the id of the session or token that was made last.
pub fn newest_column() -> Column {
    Column::new(CF, NEWEST)
}

/// Sets it, with the new secret.
pub fn put_newest(id: SecretId) -> Change {
    Change::put(CF, NEWEST, ValueWriter::new(1).uuid(id.0).done())
}

/// An account as one `get` finds it.
#[derive(Clone, Debug)]
pub struct Account {
    /// The number of its changes.
    pub stamp: Stamp,
    /// None in the row of the grants to every user.
    pub profile: Option<Profile>,
    /// What the user has created.
    pub usage: Usage,
    /// In the order of directory ids.
    pub grants: Vec<Grant>,
}

impl Account {
    /// The query of the row, with these cells besides.
    pub fn query(more: impl IntoIterator<Item = Column>) -> RowQuery {
        Self::without_usage([BYTES, FILES].map(|q| Column::new(CF, q)).into_iter().chain(more))
    }

    /// As [`query`](Self::query), without what each upload changes: a usage of 0 is found.
    pub fn without_usage(more: impl IntoIterator<Item = Column>) -> RowQuery {
        let cells = [STAMP, PROFILE].map(|q| Column::new(CF, q)).into_iter().chain(more).collect();
        RowQuery { cells, families: vec![GRANT] }
    }

    /// The profile of a user who was not removed.
    pub fn user(&self) -> Option<&Profile> {
        self.profile.as_ref().filter(|profile| !profile.removed)
    }

    /// The account in a row; none if there is none.
    pub fn from_row(row: &Row) -> Result<Option<Self>, ValueError> {
        let Some(stamp) = row.get(CF, STAMP) else { return Ok(None) };
        Ok(Some(Self {
            stamp: value::decode(stamp)?,
            profile: row.get(CF, PROFILE).map(|value| value::decode(value)).transpose()?,
            usage: Usage::from_row(row)?,
            grants: row.family(GRANT).map(Grant::from_cell).collect::<Result<_, _>>()?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::grant::Giver;
    use crate::schema::ids::{DirId, GrantId};
    use crate::schema::rights::Rights;
    use crate::table::Cell;

    fn value(change: Change) -> Bytes {
        match change {
            Change::Put { value, .. } => value,
            other => panic!("{other:?}"),
        }
    }

    fn profile() -> Profile {
        let quota = Quota { bytes: Some(300), files: None };
        let created = Timestamp::from_ms(1);
        Profile { admin: true, disabled: false, removed: true, created, display: "Tom".into(), quota }
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(Stamp::FIRST.next().encode().as_ref(), [1, 2]);
        assert_eq!(value::decode::<Stamp>(&[1, 2]), Ok(Stamp(2)));
        let bytes = value(profile().put());
        assert_eq!(bytes.as_ref(), b"\x01\x05\x02\x03Tom\x01\xac\x02\x00");
        assert_eq!(value::decode::<Profile>(&bytes), Ok(profile()));
        let other = Profile { admin: false, disabled: true, removed: false, quota: Quota::default(), ..profile() };
        assert_eq!(value(other.put()).as_ref(), b"\x01\x02\x02\x03Tom\x00\x00");
        assert_eq!(value::decode::<Profile>(&value(other.put())), Ok(other));
        assert!(value::decode::<Profile>(b"\x01\x08\x02\x03Tom\x00\x00").is_err());
        assert!(value::decode::<Profile>(b"\x01\x02\x02\x03Tom\x02\x00").is_err());
        let hash = PasswordHash("$x".into());
        assert_eq!(value(hash.put()).as_ref(), b"\x01\x02$x");
        assert_eq!(value::decode::<PasswordHash>(b"\x01\x02$x"), Ok(hash.clone()));
        assert_eq!(format!("{hash:?}"), "PasswordHash(..)");
        assert_eq!(value(put_newest(SecretId(uuid::Uuid::from_u128(7)))).as_ref(), [&[1][..], &[0; 15], &[7]].concat());
    }

    #[test]
    fn only_an_admin_who_may_log_in_counts() {
        let is_counted =
            |admin, disabled, removed| Profile { admin, disabled, removed, ..profile() }.is_enabled_admin();
        assert!(is_counted(true, false, false));
        assert!(!is_counted(false, false, false) && !is_counted(true, true, false) && !is_counted(true, false, true));
    }

    #[test]
    fn one_row_has_all_of_an_account() {
        let grant = Grant { dir: DirId::ROOT, giver: Giver::Admins, rights: Rights::ALL, id: GrantId([1; 8]) };
        let mut cells = vec![("cf", Cell { qualifier: BYTES.into(), value: counter::encode(7) })];
        assert!(Account::from_row(&Row::new(cells.clone())).unwrap().is_none(), "usage without an account");
        for change in [Stamp::FIRST.put(), profile().put(), grant.put()] {
            let Change::Put { family, qualifier, value } = change else { panic!("{change:?}") };
            cells.push((family, Cell { qualifier, value }));
        }
        let account = Account::from_row(&Row::new(cells.clone())).unwrap().unwrap();
        assert_eq!((account.stamp, account.profile, account.grants), (Stamp::FIRST, Some(profile()), vec![grant]));
        assert_eq!(account.usage, Usage { bytes: 7, files: 0 });
        cells.push(("cf", Cell { qualifier: FILES.into(), value: Bytes::from_static(b"7") }));
        assert!(Account::from_row(&Row::new(cells)).is_err());
    }
}
