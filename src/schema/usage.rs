//! Changes of the usage of users: what a plan adds to the counters of their accounts, and takes from them.
//!
//! An entry counts for its creator: a file as one file with its bytes, a directory as one file of 0 bytes. The root counts
//! for nobody. A creator is counted if a user may have his name, also before there is such a user; `anonymous` and other
//! names are not.

use std::collections::BTreeMap;

use super::CF;
use super::account::{self, BYTES, FILES, Grantee, Quota, Usage};
use super::file::Attributes;
use super::user_name::UserName;
use crate::table::{Change, Check, Column, ConditionalRow, Row, counter};

/// What is added to the usage of each creator. Negative numbers take away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageChange(BTreeMap<UserName, Usage>);

impl UsageChange {
    /// Adds a file.
    pub fn add_file(&mut self, attributes: &Attributes) {
        self.add_content(&attributes.creator, attributes.size);
    }

    /// Adds a file of so many bytes.
    pub fn add_content(&mut self, creator: &str, size: u64) {
        self.add(creator, number(size), 1);
    }

    /// Takes a file off.
    pub fn take_file(&mut self, attributes: &Attributes) {
        self.add(&attributes.creator, -number(attributes.size), -1);
    }

    /// Adds a directory.
    pub fn add_directory(&mut self, creator: &str) {
        self.add(creator, 0, 1);
    }

    /// Takes a directory off.
    pub fn take_directory(&mut self, creator: &str) {
        self.add(creator, 0, -1);
    }

    /// Adds all of another change.
    pub fn merge(&mut self, other: &Self) {
        for (name, usage) in &other.0 {
            self.add_usage(name.clone(), *usage);
        }
    }

    /// What is added to the usage of this user.
    pub fn of(&self, user: &UserName) -> Usage {
        self.0.get(user).copied().unwrap_or_default()
    }

    /// Takes out a user, with what is added to his usage.
    pub fn remove(&mut self, user: &UserName) -> Usage {
        self.0.remove(user).unwrap_or_default()
    }

    /// All creators, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&UserName, Usage)> {
        self.0.iter().map(|(name, usage)| (name, *usage))
    }

    /// Takes out the creator whose name is the last one.
    pub fn pop_last(&mut self) -> Option<(UserName, Usage)> {
        self.0.pop_last()
    }

    /// The number of creators.
    pub fn creators(&self) -> usize {
        self.0.len()
    }

    /// The account rows of a plan: one for each creator whose sums change. `limited`: a user whose sums must not pass this
    /// quota, as far as they grow.
    pub fn rows(&self, limited: Option<(&UserName, Quota)>) -> Vec<ConditionalRow> {
        let quota = |name| limited.filter(|(user, _)| *user == name).map(|(_, quota)| quota).unwrap_or_default();
        self.iter().filter_map(|(name, usage)| row(name, usage, quota(name))).collect()
    }

    fn add(&mut self, creator: &str, bytes: i64, files: i64) {
        if let Some(name) = UserName::of_creator(creator) {
            self.add_usage(name, Usage { bytes, files });
        }
    }

    /// Adds to the usage of one creator.
    pub fn add_usage(&mut self, name: UserName, usage: Usage) {
        let sum = self.0.entry(name).or_default();
        *sum = sum.plus(usage);
    }
}

/// The account row of one creator.
fn row(name: &UserName, usage: Usage, quota: Quota) -> Option<ConditionalRow> {
    let counters = [(BYTES, usage.bytes, quota.bytes), (FILES, usage.files, quota.files)];
    let counters: Vec<_> = counters.into_iter().filter(|(_, amount, _)| *amount != 0).collect();
    if counters.is_empty() {
        return None;
    }
    let checks = counters.iter().map(|(qualifier, amount, limit)| {
        let counter = Column::new(CF, *qualifier);
        match limit.filter(|_| *amount > 0) {
            Some(limit) => Check::fits(counter, *amount, number(limit)),
            // It always holds: a guarded row needs a check.
            None => Check::AtMost(counter, i64::MAX),
        }
    });
    Some(ConditionalRow {
        table: account::TABLE,
        row: Grantee::User(name.clone()).key(),
        checks: checks.collect(),
        changes: counters.iter().map(|(qualifier, amount, _)| Change::add(CF, *qualifier, *amount)).collect(),
    })
}

/// Sets the counters of a user to this usage; none if they are right. `row`: his account row with its counters as they were
/// read, also if they are damaged.
pub fn set(name: &UserName, row: &Row, usage: Usage) -> Option<ConditionalRow> {
    if Usage::from_row(row) == Ok(usage) {
        return None;
    }
    let stored = |qualifier| match row.get(CF, qualifier) {
        None => Check::Absent(Column::new(CF, qualifier)),
        Some(value) => Check::Equals(Column::new(CF, qualifier), value.clone()),
    };
    Some(ConditionalRow {
        table: account::TABLE,
        row: Grantee::User(name.clone()).key(),
        checks: [BYTES, FILES].map(stored).into(),
        changes: [(BYTES, usage.bytes), (FILES, usage.files)]
            .map(|(q, n)| Change::put(CF, q, counter::encode(n)))
            .into(),
    })
}

/// Whether a check is that of a quota: it is refused only by one.
pub fn is_quota(table: &str, check: &Check) -> bool {
    let is_counter = |column: &Column| column.family == CF && [BYTES, FILES].contains(&column.qualifier.as_ref());
    table == account::TABLE && matches!(check, Check::AtMost(column, _) if is_counter(column))
}

/// A size or a limit as a counter has it.
pub fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::file::{ContentLocation, Digest};
    use super::super::timestamp::Timestamp;
    use super::*;

    fn file(creator: &str, size: u64) -> Attributes {
        let (time, digest) = (Timestamp::from_ms(1), Digest([0; 32]));
        let location = ContentLocation::Inline;
        let (mime, creator) = ("text/plain".to_owned(), creator.to_owned());
        Attributes { size, mime, creator, modified: time, added: time, digest, location }
    }

    fn name(text: &str) -> UserName {
        UserName::parse(text).unwrap()
    }

    fn at_most(qualifier: &'static [u8], limit: i64) -> Check {
        Check::AtMost(Column::new(CF, qualifier), limit)
    }

    #[test]
    fn a_replacement_takes_from_the_old_creator_and_adds_to_the_new() {
        let mut change = UsageChange::default();
        change.take_file(&file("eva", 300));
        change.add_file(&file("tom", 100));
        change.add_directory("tom");
        change.add_directory("anonymous");
        let rows = change.rows(None);
        let keys: Vec<&[u8]> = rows.iter().map(|row| row.row.as_ref()).collect();
        assert_eq!(keys, [b"eva", b"tom"]);
        assert_eq!(rows[0].changes, [Change::add(CF, BYTES, -300), Change::add(CF, FILES, -1)]);
        assert_eq!(rows[1].changes, [Change::add(CF, BYTES, 100), Change::add(CF, FILES, 2)]);
        assert!(rows.iter().flat_map(|row| &row.checks).all(|check| matches!(check, Check::AtMost(_, i64::MAX))));
        change.take_file(&file("tom", 100));
        change.take_directory("tom");
        assert_eq!(change.rows(None).len(), 1, "what does not change has no row");
    }

    #[test]
    fn only_what_grows_is_limited_and_only_for_the_user() {
        let quota = Quota { bytes: Some(1_000), files: Some(u64::MAX) };
        let mut change = UsageChange::default();
        change.add_file(&file("tom", 100));
        change.add_file(&file("eva", 100));
        let rows = change.rows(Some((&name("tom"), quota)));
        assert_eq!(rows[0].checks, [at_most(BYTES, i64::MAX), at_most(FILES, i64::MAX)]);
        assert_eq!(rows[1].checks, [at_most(BYTES, 900), at_most(FILES, i64::MAX - 1)]);
        change.take_file(&file("tom", 300));
        let rows = change.rows(Some((&name("tom"), quota)));
        assert_eq!(rows[1].checks, [at_most(BYTES, i64::MAX)], "no file more, and less bytes");
        assert!(is_quota(account::TABLE, &rows[1].checks[0]) && !is_quota("dir", &rows[1].checks[0]));
        assert!(!is_quota(account::TABLE, &at_most(b"downloads", 1)));
    }
}
