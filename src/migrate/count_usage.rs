//! Counts what each user has created: the data step of migration 7.

use super::{MigrateError, Result};
use crate::schema::account::{self, Grantee, Usage};
use crate::schema::dir::{self, FileEntry, RowLock};
use crate::schema::usage::{self, UsageChange};
use crate::schema::user_name::UserName;
use crate::schema::{CF, DrivePath, ValueError, subtree_op};
use crate::table::{
    CellCursor, Column, ConditionalRow, Outcome, PageQuery, Plan, Row, RowCursor, RowKey, RowQuery, RowRange, Tables,
};

/// Users that one pass over all directories counts: a bound on memory. There are more creators than that only on a drive
/// without users, where each upload may name another one.
const USERS: usize = 100_000;
/// Rows read at a time.
const ROWS: usize = 1_000;
/// Entries of a directory read at a time.
const ENTRIES: usize = 500;
/// Account rows of a plan.
const BATCH: usize = 100;
/// Files between two lines of the log.
const FILES_A_LINE: usize = 100_000;

/// Sets the counters of all accounts to what is there. Safe to repeat: it counts anew, and sets also the counters of an
/// interrupted run whose files an older program has removed since.
///
/// A damaged entry is passed, with a line in the log: `rowdrive check` reports it.
pub async fn count(tables: &Tables) -> Result<()> {
    count_by(tables, USERS).await
}

/// As [`count`], with so many users in a pass.
async fn count_by(tables: &Tables, users: usize) -> Result<()> {
    let mut from = None;
    loop {
        let mut pass = Pass { from, before: None, users, counted: UsageChange::default(), files: 0 };
        pass.directories(tables).await?;
        let next = pass.before.clone();
        pass.put(tables).await?;
        if next.is_none() {
            return Ok(());
        }
        from = next;
    }
}

/// One pass over all directories, for users whose names follow each other.
struct Pass {
    /// The first name.
    from: Option<UserName>,
    /// The first name that is left for the next pass.
    before: Option<UserName>,
    users: usize,
    counted: UsageChange,
    files: usize,
}

impl Pass {
    async fn directories(&mut self, tables: &Tables) -> Result<()> {
        let query = RowQuery::cells([dir::ID, dir::LOCK, dir::CREATOR].map(|cell| Column::new(CF, cell)).into());
        let mut directories = RowCursor::new(dir::TABLE, RowRange::all(), query, ROWS);
        while let Some(rows) = directories.next(tables).await? {
            for (key, row) in &rows {
                if row.get(CF, dir::ID).is_some() && is_counted(tables, row).await? {
                    self.directory(tables, key, row).await?;
                }
            }
        }
        Ok(())
    }

    async fn directory(&mut self, tables: &Tables, key: &RowKey, row: &Row) -> Result<()> {
        let mut found = UsageChange::default();
        let creator = row.get(CF, dir::CREATOR).filter(|_| *key != DrivePath::root().key());
        if let Some(creator) = creator.and_then(|creator| undamaged(key, dir::decode_creator(creator)).transpose()) {
            found.add_directory(&creator?);
        }
        let (from, to) = dir::range(dir::FILE, "");
        let (table, row, family) = (dir::TABLE, key.clone(), dir::SUB);
        let first = PageQuery { table, row, family, from, to, limit: ENTRIES, unchanged: Vec::new() };
        let mut files = CellCursor::new(first);
        while let Some(cells) = files.next(tables).await? {
            for cell in &cells {
                if let Some(entry) = undamaged(key, FileEntry::decode(&cell.value))? {
                    found.add_file(&entry.attributes);
                }
                self.files += 1;
                if self.files.is_multiple_of(FILES_A_LINE) {
                    tracing::info!(files = self.files, "files are counted for their creators");
                }
            }
            self.add(&std::mem::take(&mut found));
        }
        Ok(())
    }

    fn add(&mut self, found: &UsageChange) {
        for (name, usage) in found.iter() {
            if self.has(name) {
                self.counted.add_usage(name.clone(), usage);
            }
            if self.counted.creators() > self.users {
                // His sum is not whole: the next pass counts him, and those after him.
                self.before = self.counted.pop_last().map(|(name, _)| name);
            }
        }
    }

    fn has(&self, name: &UserName) -> bool {
        self.from.as_ref().is_none_or(|from| name >= from) && self.before.as_ref().is_none_or(|before| name < before)
    }

    /// Sets the counters of all users of this pass.
    async fn put(mut self, tables: &Tables) -> Result<()> {
        let mut accounts = RowCursor::new(account::TABLE, RowRange::all(), Usage::query(), ROWS);
        while let Some(rows) = accounts.next(tables).await? {
            let mut changed = Vec::new();
            for (key, row) in &rows {
                if let Ok(Grantee::User(name)) = Grantee::decode(key)
                    && self.has(&name)
                {
                    changed.extend(usage::set(&name, row, self.counted.remove(&name)));
                }
            }
            commit(tables, &changed).await?;
        }
        let none = Row::default();
        let new: Vec<_> = self.counted.iter().filter_map(|(name, usage)| usage::set(name, &none, usage)).collect();
        commit(tables, &new).await
    }
}

/// Whether a directory row and its files are counted. Nothing else changes the store during a migration.
async fn is_counted(tables: &Tables, row: &Row) -> Result<bool> {
    let Some(lock) = row.get(CF, dir::LOCK) else { return Ok(true) };
    let lock = RowLock::decode(lock)?;
    let query = RowQuery::cells(subtree_op::columns());
    let record = subtree_op::decode_record(&tables.get(subtree_op::TABLE, lock.op().0.as_bytes(), &query).await?)?;
    Ok(lock.is_counted(record.as_ref()))
}

/// None of a damaged value, with a line in the log.
fn undamaged<T>(key: &RowKey, decoded: std::result::Result<T, ValueError>) -> Result<Option<T>> {
    match decoded {
        Ok(value) => Ok(Some(value)),
        Err(ValueError::Damaged { what }) => {
            tracing::warn!(row = %key.escape_ascii(), what, "a damaged entry is not counted for its creator");
            Ok(None)
        }
        Err(newer @ ValueError::Newer { .. }) => Err(newer.into()),
    }
}

async fn commit(tables: &Tables, rows: &[ConditionalRow]) -> Result<()> {
    for guarded in rows.chunks(BATCH) {
        // On a full disk it may use the reserve: without the sums no program opens the store.
        let plan = Plan { guarded: guarded.to_vec(), reserve: true, ..Plan::default() };
        if tables.commit(plan).await? != Outcome::Committed {
            return Err(MigrateError::Raced);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engines::memory::Memory;
    use crate::migrate::up;
    use crate::schema::dir::DirEntry;
    use crate::schema::{DirId, Timestamp};
    use crate::table::{Change, Check, counter};

    /// A directory of each creator.
    async fn make(tables: &Tables, creators: &[&str]) {
        let row = |creator: &&str| {
            let (id, created) = (DirId::random(), Timestamp::from_ms(1));
            let entry = DirEntry { id, creator: (*creator).to_owned(), created };
            let row = DrivePath::parse(&format!("/of-{}", creator.replace(' ', "-"))).unwrap().key();
            ConditionalRow {
                table: dir::TABLE,
                row,
                checks: vec![Check::Absent(dir::id_column())],
                changes: entry.put_cells(),
            }
        };
        commit(tables, &creators.iter().map(row).collect::<Vec<_>>()).await.unwrap();
    }

    #[tokio::test]
    async fn users_are_counted_in_as_many_passes_as_the_memory_needs() {
        let creators = ["e", "b", "anonymous", "d", "a", "two words", "c", "B"];
        for users in 1..7 {
            let tables = Tables::new(Arc::new(Memory::default()));
            up(&tables).await.unwrap();
            make(&tables, &creators).await;
            // Sums that are wrong, of users with and without files.
            let wrong = |name: &str| ConditionalRow {
                table: account::TABLE,
                row: name.as_bytes().to_vec().into(),
                checks: vec![Check::Absent(account::stamp_column())],
                changes: vec![Change::put(CF, account::BYTES, counter::encode(7))],
            };
            commit(&tables, &["a", "d", "da", "zoe"].map(wrong)).await.unwrap();
            count_by(&tables, users).await.unwrap();
            let all =
                RowCursor::new(account::TABLE, RowRange::all(), Usage::query(), ROWS).rest(&tables).await.unwrap();
            let counted: Vec<_> = all
                .iter()
                .map(|(key, row)| (std::str::from_utf8(key).unwrap(), Usage::from_row(row).unwrap()))
                .map(|(name, usage)| (name, usage.bytes, usage.files))
                .collect();
            let expected =
                ["B", "a", "b", "c", "d", "da", "e", "zoe"].map(|name| (name, 0, i64::from(creators.contains(&name))));
            assert_eq!(counted, expected, "{users} in a pass");
        }
    }
}
