//! Checks every account: its name, the index entries of its secrets and grants, the directories of its grants; and the
//! number of admins. [`super::account_indexes`] looks for index entries that no account has.

use bytes::Bytes;

use super::entries::has_cells;
use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::schema::account::{self, Account, GRANT, Grantee};
use crate::schema::grant::Grant;
use crate::schema::secret::{self, SecretKind, SecretOwner};
use crate::schema::user_name::{self, UserName};
use crate::schema::{CF, DirId, ValueError, meta};
use crate::table::{
    CellCursor, Change, Check, ConditionalRow, PageQuery, Plan, RowChange, RowCursor, RowKey, RowQuery, RowRange,
};

impl Checker<'_> {
    pub(super) async fn accounts(&mut self) -> Result<()> {
        let mut all = RowCursor::new(account::TABLE, RowRange::all(), RowQuery::families(&[CF, GRANT]), ROWS);
        let mut admins = 0;
        while let Some(rows) = all.next(self.tables).await? {
            for (key, row) in &rows {
                match (Grantee::decode(key), Account::from_row(row)) {
                    (Ok(holder), Ok(account)) => admins += self.account(&holder, account).await?,
                    (Err(error), _) | (_, Err(error)) => self.unreadable_account(key, &error),
                }
            }
            (self.on_event)(CheckEvent::Rows(rows.len()));
        }
        self.admins(admins).await
    }

    pub(super) fn unreadable_account(&mut self, key: &RowKey, error: &ValueError) {
        self.report_unreadable(account::TABLE, printable(key), None, error.to_string());
    }

    /// The number of admins who can log in that this account is.
    async fn account(&mut self, holder: &Grantee, account: Option<Account>) -> Result<u64> {
        // There is a usage alone if files were stored in this name before there was such a user.
        let Some(account) = account else { return Ok(0) };
        for grant in &account.grants {
            self.account_index(holder, &grant.put_index(holder), "the grant on a directory").await?;
        }
        self.stray_grants(holder, &account).await?;
        let Grantee::User(name) = holder else { return Ok(0) };
        self.name_of(name).await?;
        for kind in SecretKind::all() {
            match kind {
                SecretKind::Session | SecretKind::Token => self.secrets(name, kind).await?,
                SecretKind::Share => self.shares(name, account.user().is_none()).await?,
            }
        }
        Ok(account.profile.is_some_and(|profile| profile.is_enabled_admin()).into())
    }

    async fn name_of(&mut self, name: &UserName) -> Result<()> {
        let row = name.make_row();
        let found = self.tables.cell(user_name::TABLE, &row.row, CF, user_name::NAME).await?;
        let detail = match found.as_deref().map(user_name::decode) {
            Some(Ok(found)) if found == *name => return Ok(()),
            Some(Ok(other)) => format!("its name was given to {other}"),
            Some(Err(error)) => error.to_string(),
            None => "its name is not among those that were given".to_owned(),
        };
        let repaired = found.is_none() && self.options.repair && self.apply(row).await?;
        self.account_finding(FindingKind::AccountDiffers, name.as_str(), detail, repaired);
        Ok(())
    }

    async fn secrets(&mut self, name: &UserName, kind: SecretKind) -> Result<()> {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let holder = Grantee::User(name.clone());
        let (row, family) = (holder.key(), kind.family());
        let first = PageQuery { table: account::TABLE, row, family, from, to, limit: ROWS, unchanged: Vec::new() };
        let mut pages = CellCursor::new(first);
        while let Some(cells) = pages.next(self.tables).await? {
            for cell in &cells {
                match secret::from_cell(cell) {
                    Ok(None) => {}
                    Ok(Some((id, secret))) => {
                        let owner = SecretOwner { user: name.clone(), kind, id };
                        self.account_index(&holder, &[owner.put_index(secret.digest)], "a session or token").await?;
                    }
                    Err(error) => self.unreadable_account(&holder.key(), &error),
                }
            }
        }
        Ok(())
    }

    /// Reports the index entries that are missing, and puts them.
    pub(super) async fn account_index(&mut self, holder: &Grantee, entries: &[RowChange], of: &str) -> Result<()> {
        for entry in entries {
            let found = self.tables.get(entry.table, &entry.row, &RowQuery::families(&[CF])).await?;
            if has_cells(&found, entry) {
                continue;
            }
            if self.options.repair {
                self.tables.commit(Plan { prepare: vec![entry.clone()], ..Plan::default() }).await?;
            }
            let detail = format!("no index entry in the table {} leads to {of}", entry.table);
            self.account_finding(FindingKind::AccountIndexEntryMissing, holder.as_str(), detail, self.options.repair);
        }
        Ok(())
    }

    /// Notes the grants on directories that do not exist: the delete of a directory leaves them. They give no right, and no
    /// directory gets such an id again. A repair removes them.
    async fn stray_grants(&mut self, holder: &Grantee, account: &Account) -> Result<()> {
        let gone: Vec<&Grant> = account.grants.iter().filter(|grant| self.is_deleted(grant.dir)).collect();
        let repaired = !gone.is_empty() && self.may_remove() && {
            let mut changes = vec![account.stamp.next().put()];
            changes.extend(gone.iter().map(|grant| grant.delete()));
            let checks = vec![account.stamp.check()];
            self.apply(ConditionalRow { table: account::TABLE, row: holder.key(), checks, changes }).await?
        };
        if repaired {
            self.delete(gone.iter().flat_map(|grant| grant.delete_index(holder)).collect()).await?;
        }
        for grant in gone {
            let detail = format!("it has a grant on {}, a directory that was deleted; it gives no right", grant.dir);
            self.account_finding(FindingKind::StrayGrant, holder.as_str(), detail, repaired);
        }
        Ok(())
    }

    /// Whether there is no such directory, and no operation is about to end its delete.
    pub(super) fn is_deleted(&self, dir: DirId) -> bool {
        !self.paths.contains_key(&dir) && !self.pending.deleted_dirs.contains(&dir)
    }

    /// Compares the stored number of admins with those that there are.
    async fn admins(&mut self, counted: u64) -> Result<()> {
        let stored = self.tables.cell(meta::TABLE, meta::USERS, CF, meta::ADMINS).await?;
        let number = match stored.as_deref().map(meta::decode_admins) {
            None if counted == 0 => return Ok(()),
            Some(Ok(number)) if number == counted => return Ok(()),
            Some(Ok(number)) => number.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "none".to_owned(),
        };
        let detail = format!("{counted} admins can log in, but the stored number is {number}");
        let repaired = self.options.repair && counted > 0 && self.tree_complete && {
            let check = stored.map_or_else(
                || Check::Absent(meta::admins_column()),
                |stored| Check::Equals(meta::admins_column(), stored),
            );
            let changes = vec![Change::put(CF, meta::ADMINS, meta::encode_admins(counted))];
            let row = Bytes::from_static(meta::USERS);
            self.apply(ConditionalRow { table: meta::TABLE, row, checks: vec![check], changes }).await?
        };
        let (kind, table, row) = (FindingKind::AccountDiffers, meta::TABLE, printable(meta::USERS));
        self.record(Finding { kind, table, row, path: None, detail, repaired });
        Ok(())
    }

    pub(super) fn account_finding(&mut self, kind: FindingKind, name: &str, detail: String, repaired: bool) {
        let row = printable(name.as_bytes());
        self.record(Finding { kind, table: account::TABLE, row, path: None, detail, repaired });
    }
}
