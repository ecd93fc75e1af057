//! Checks the counters of all accounts: that they are the sums of what each user has created.

use super::directories::LiveDirRow;
use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::schema::account::{self, Grantee, Usage};
use crate::schema::dir::{self, FileEntry};
use crate::schema::usage;
use crate::schema::user_name::UserName;
use crate::table::{CellCursor, PageQuery, Row, RowCursor, RowRange};

impl Checker<'_> {
    /// Counts a directory for its creator, without its files. The root counts for nobody.
    pub(super) fn count_directory(&mut self, LiveDirRow { path, entry }: &LiveDirRow) {
        if !path.is_root() {
            self.usage.add_directory(&entry.creator);
        }
    }

    /// Counts a deleted directory, with what its clean-up has not taken out of it. What cannot be decoded is no finding:
    /// no name leads to it. But then no sum can be proved.
    pub(super) async fn count_deleted(&mut self, directory: &LiveDirRow) -> Result<()> {
        self.count_directory(directory);
        let (row, (from, to)) = (directory.path.key(), dir::range(dir::FILE, ""));
        let first = PageQuery { table: dir::TABLE, row, family: dir::SUB, from, to, limit: ROWS, unchanged: vec![] };
        let mut files = CellCursor::new(first);
        while let Some(cells) = files.next(self.tables).await? {
            for cell in &cells {
                match FileEntry::decode(&cell.value) {
                    Ok(entry) => self.usage.add_file(&entry.attributes),
                    Err(_) => self.usage_known = false,
                }
            }
        }
        Ok(())
    }

    /// Compares the counters with what was counted. If a part of the tree cannot be read, there is nothing to compare with.
    pub(super) async fn usages(&mut self) -> Result<()> {
        if !self.tree_complete || !self.usage_known {
            return Ok(());
        }
        let mut counted = std::mem::take(&mut self.usage);
        let mut accounts = RowCursor::new(account::TABLE, RowRange::all(), Usage::query(), ROWS);
        while let Some(rows) = accounts.next(self.tables).await? {
            for (key, row) in &rows {
                // Another key is reported with its account.
                if let Ok(Grantee::User(name)) = Grantee::decode(key) {
                    self.compare_usage(&name, row, counted.remove(&name)).await?;
                }
            }
            (self.on_event)(CheckEvent::Rows(rows.len()));
        }
        for (name, usage) in counted.iter() {
            self.compare_usage(name, &Row::default(), usage).await?;
        }
        Ok(())
    }

    async fn compare_usage(&mut self, name: &UserName, row: &Row, counted: Usage) -> Result<()> {
        let Some(change) = usage::set(name, row, counted) else { return Ok(()) };
        let repaired = self.options.repair && self.apply(change).await?;
        let stored = match Usage::from_row(row) {
            Ok(Usage { bytes, files }) => format!("{bytes} bytes in {files} files and directories"),
            Err(error) => error.to_string(),
        };
        let Usage { bytes, files } = counted;
        let detail =
            format!("{bytes} bytes in {files} files and directories are of this creator, his account says: {stored}");
        let (kind, table, row) = (FindingKind::UsageDiffers, account::TABLE, printable(name.as_str().as_bytes()));
        self.record(Finding { kind, table, row, path: None, detail, repaired });
        Ok(())
    }
}
