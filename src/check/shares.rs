//! Checks the shares of every account: their index entries, and that there is what they are of.

use super::{Checker, FindingKind, ROWS, Result};
use crate::schema::CF;
use crate::schema::account::{self, Grantee, SHARE};
use crate::schema::file;
use crate::schema::ids::SecretId;
use crate::schema::secret::{SecretKind, SecretOwner};
use crate::schema::share::{self, Share, ShareTarget};
use crate::schema::user_name::UserName;
use crate::table::{CellCursor, Check, ConditionalRow, PageQuery, RowQuery};

impl Checker<'_> {
    /// `is_removed`: whether the user was.
    pub(super) async fn shares(&mut self, name: &UserName, is_removed: bool) -> Result<()> {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let holder = Grantee::User(name.clone());
        let (row, family) = (holder.key(), SHARE);
        let first = PageQuery { table: account::TABLE, row, family, from, to, limit: ROWS, unchanged: Vec::new() };
        let mut pages = CellCursor::new(first);
        while let Some(cells) = pages.next(self.tables).await? {
            for cell in &cells {
                match share::from_cell(cell) {
                    Ok(None) => {}
                    Ok(Some((id, share))) => self.share(name, (id, &share), is_removed).await?,
                    Err(error) => self.unreadable_account(&holder.key(), &error),
                }
            }
        }
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
