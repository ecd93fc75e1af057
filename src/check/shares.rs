//! Checks the shares of every account: their index entries, their counters, and that there is what they are of.

use std::collections::HashMap;

use super::{Checker, FindingKind, ROWS, Result};
use crate::schema::CF;
use crate::schema::account::{self, Grantee, SHARE};
use crate::schema::file;
use crate::schema::ids::SecretId;
use crate::schema::secret::{SecretKind, SecretOwner};
use crate::schema::share::{self, Share, ShareTarget};
use crate::schema::usage::number;
use crate::schema::user_name::UserName;
use crate::table::{Cell, CellCursor, Change, Check, ConditionalRow, PageQuery, RowQuery, counter};

impl Checker<'_> {
    /// `is_removed`: whether the user was.
    pub(super) async fn shares(&mut self, name: &UserName, is_removed: bool) -> Result<()> {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let holder = Grantee::User(name.clone());
        let (row, family) = (holder.key(), SHARE);
        let first = PageQuery { table: account::TABLE, row, family, from, to, limit: ROWS, unchanged: Vec::new() };
        let mut pages = CellCursor::new(first);
        // Their cells come before all counters. None of one that cannot be read.
        let mut found: HashMap<SecretId, Option<Share>> = HashMap::new();
        while let Some(cells) = pages.next(self.tables).await? {
            for cell in &cells {
                match (share::from_cell(cell), share::counter_of(cell)) {
                    (Ok(Some((id, share))), _) => {
                        self.share(name, (id, &share), is_removed).await?;
                        found.insert(id, Some(share));
                    }
                    (Ok(None), Ok(Some(id))) => {
                        let owner = SecretOwner { user: name.clone(), kind: SecretKind::Share, id };
                        self.share_counter(&owner, found.get(&id).map(Option::as_ref), cell).await?;
                    }
                    (Ok(None), Ok(None)) => {}
                    (Err(error), _) | (_, Err(error)) => {
                        found.extend(share::stored_id(cell).map(|id| (id, None)));
                        self.unreadable_account(&holder.key(), &error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that a counter has its share, and is within the limit of that. What was used, nothing else tells: so a repair
    /// leaves nothing to be used.
    async fn share_counter(&mut self, owner: &SecretOwner, of: Option<Option<&Share>>, cell: &Cell) -> Result<()> {
        let column = owner.used_column();
        let (detail, change) = match (of, counter::decode(Some(&cell.value))) {
            // It cannot be read, and was reported.
            (Some(None), _) => return Ok(()),
            (None, _) => {
                let detail = "it has the counter of a share that it has not".to_owned();
                (detail, Change::delete(column.family, column.qualifier.clone()))
            }
            (Some(Some(share)), used) => {
                let limit = number(share.limit().unwrap_or(0));
                let detail = match used {
                    Ok(used) if used <= limit => return Ok(()),
                    Ok(used) => format!("the counter of a share is {used}, and its limit {limit}"),
                    Err(error) => format!("the counter of a share is none: {error}"),
                };
                (detail, Change::put(column.family, column.qualifier.clone(), counter::encode(limit)))
            }
        };
        let (holder, checks) = (Grantee::User(owner.user.clone()), vec![Check::Equals(column, cell.value.clone())]);
        let row = ConditionalRow { table: account::TABLE, row: holder.key(), checks, changes: vec![change] };
        let repaired = self.options.repair && self.apply(row).await?;
        self.account_finding(FindingKind::AccountDiffers, holder.as_str(), detail, repaired);
        Ok(())
    }

    async fn share(&mut self, name: &UserName, (id, share): (SecretId, &Share), is_removed: bool) -> Result<()> {
        let owner = SecretOwner { user: name.clone(), kind: SecretKind::Share, id };
        let holder = Grantee::User(name.clone());
        self.account_index(&holder, &share.put_index(&owner), "a share").await?;
        let detail = match share.target {
            _ if is_removed => "the user of a share was removed; its link shows nothing".to_owned(),
            ShareTarget::Dir(dir) if self.is_deleted(dir) => {
                format!("it has a share of {dir}, a directory that was deleted; its link shows nothing")
            }
            ShareTarget::File(file) if !self.is_stored(file.0.as_bytes()).await? => {
                format!("it has a share of {file}, a file that was deleted or replaced; its link shows nothing")
            }
            ShareTarget::Dir(_) | ShareTarget::File(_) => return Ok(()),
        };
        let repaired = self.may_remove() && {
            let checks = vec![Check::Equals(owner.column(), share.encode())];
            let changes = owner.delete();
            self.apply(ConditionalRow { table: account::TABLE, row: holder.key(), checks, changes }).await?
        };
        if repaired {
            self.delete(share.delete_index(&owner)).await?;
        }
        self.account_finding(FindingKind::StrayShare, holder.as_str(), detail, repaired);
        Ok(())
    }

    async fn is_stored(&self, file: &[u8]) -> Result<bool> {
        let row = self.tables.get(file::TABLE, file, &RowQuery::families(&[CF])).await?;
        Ok(!row.is_empty())
    }
}
