//! The rows of a renamed directory and of all below it, under their new keys.

use std::ops::Bound;

use anyhow::Result;
use rowdrive::schema::dir;
use rowdrive::schema::{CF, DrivePath};
use rowdrive::table::{CellCursor, Change, Check, ConditionalRow, PageQuery, RowCursor, RowQuery};

use super::step::Step;
use super::{PAGE, Uuid};
use crate::layouts::Verdict;
use crate::layouts::rows::commit_groups;

impl<S: Step> Uuid<S> {
    /// Moves the rows of a directory and of all below it, page by page.
    pub(super) async fn carry(&self, from: &DrivePath, to: &DrivePath) -> Result<Verdict> {
        let mut groups = Vec::new();
        self.carry_row(from, to, Vec::new(), &mut groups).await?;
        let mut rows = RowCursor::new(dir::TABLE, from.below(), RowQuery::families(&[CF]), PAGE);
        while let Some(some) = rows.next(&self.tables).await? {
            for (key, row) in some {
                let old = DrivePath::from_key(&key)?;
                let new = old.as_str().get(from.as_str().len()..).unwrap_or_default();
                let new = DrivePath::parse(&format!("{to}{new}"))?;
                let own = row.family(CF).map(|cell| Change::put(CF, cell.qualifier.clone(), cell.value.clone()));
                self.carry_row(&old, &new, own.collect(), &mut groups).await?;
            }
        }
        commit_groups(&self.tables, groups).await
    }

    /// `own` is what the new row needs beside the children.
    async fn carry_row(
        &self,
        old: &DrivePath,
        new: &DrivePath,
        own: Vec<Change>,
        groups: &mut Vec<Vec<ConditionalRow>>,
    ) -> Result<()> {
        // There is no condition that a row of this layout does not meet.
        let any = || vec![Check::Absent(dir::lock_column())];
        let row =
            |path: &DrivePath, changes| ConditionalRow { table: dir::TABLE, row: path.key(), checks: any(), changes };
        let (mut puts, mut takes) = (own, dir::delete_cells());
        let (table, family, from, to) = (dir::TABLE, dir::SUB, Bound::Unbounded, Bound::Unbounded);
        let ask = PageQuery { table, row: old.key(), family, from, to, limit: PAGE, unchanged: vec![] };
        let mut pages = CellCursor::new(ask);
        while let Some(cells) = pages.next(&self.tables).await? {
            for cell in cells {
                takes.push(Change::delete(dir::SUB, cell.qualifier.clone()));
                puts.push(Change::put(dir::SUB, cell.qualifier, cell.value));
            }
            let (puts, takes) = (std::mem::take(&mut puts), std::mem::take(&mut takes));
            groups.push([(new, puts), (old, takes)].map(|(path, changes)| row(path, changes)).into());
        }
        Ok(())
    }
}
