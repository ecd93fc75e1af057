//! Checks every index entry of secrets, shares and grants, and every name that was given: that there is such an account.

use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::schema::account::{self, Grantee};
use crate::schema::grant::{self, Grant, GrantIndexKey};
use crate::schema::secret::{self, SecretDigest, SecretKind, SecretOwner};
use crate::schema::share;
use crate::schema::{CF, user_name};
use crate::table::{Cell, Change, Column, RowChange, RowCursor, RowKey, RowQuery, RowRange};

/// The cell of an account that an index entry leads to; none if the entry cannot be decoded.
type Claim = Option<(Grantee, Column)>;

impl Checker<'_> {
    pub(super) async fn account_indexes(&mut self) -> Result<()> {
        self.index_of_accounts(secret::TABLE, secret_claim, |key, entry, stored| {
            let digest = digest_of(entry, stored);
            entry.qualifier == secret::OWNER && digest.is_some_and(|SecretDigest(digest)| key == &digest[..])
        })
        .await?;
        self.index_of_accounts(grant::TABLE, grant_claim, |key, entry, stored| {
            if share::is_index_key(key) {
                return share::from_cell(stored).is_ok_and(|of| of.is_some_and(|(_, share)| share.is_indexed_by(key)));
            }
            Grant::from_cell(stored).is_ok_and(|grant| entry.qualifier == grant.id.0[..])
        })
        .await
    }

    /// Reads all entries of an index, and the cell that each leads to.
    async fn index_of_accounts(
        &mut self,
        table: &'static str,
        claim: fn(&RowKey, &Cell) -> Claim,
        is_true: fn(&RowKey, &Cell, &Cell) -> bool,
    ) -> Result<()> {
        let mut all = RowCursor::new(table, RowRange::all(), RowQuery::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            for (key, entry) in rows.iter().flat_map(|(key, row)| row.family(CF).map(move |cell| (key, cell))) {
                let stored = match claim(key, entry) {
                    Some((holder, cell)) => {
                        let query = RowQuery::cells(vec![cell.clone()]);
                        let row = self.tables.get(account::TABLE, &holder.key(), &query).await?;
                        row.get(cell.family, &cell.qualifier)
                            .map(|value| Cell { qualifier: cell.qualifier.clone(), value: value.clone() })
                    }
                    None => None,
                };
                if !stored.is_some_and(|stored| is_true(key, entry, &stored)) {
                    self.stray_account_entry(table, key, entry).await?;
                }
            }
            (self.on_event)(CheckEvent::Rows(rows.len()));
        }
        Ok(())
    }

    async fn stray_account_entry(&mut self, table: &'static str, key: &RowKey, entry: &Cell) -> Result<()> {
        let repaired = self.may_remove();
        if repaired {
            let changes = vec![Change::delete(CF, entry.qualifier.clone())];
            self.delete(vec![RowChange { table, row: key.clone(), changes }]).await?;
        }
        // The key of a secret's entry is a SHA-256, which does not tell the secret.
        let detail = "no account has what it leads to".to_owned();
        let (kind, row) = (FindingKind::StrayIndexEntry, printable(key));
        self.record(Finding { kind, table, row, path: None, detail, repaired });
        Ok(())
    }

    /// Names that were given are never removed, and neither is the row of a user.
    pub(super) async fn user_names(&mut self) -> Result<()> {
        let mut all = RowCursor::new(user_name::TABLE, RowRange::all(), RowQuery::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            for (key, row) in &rows {
                let detail = match row.get(CF, user_name::NAME).map(|value| user_name::decode(value)) {
                    Some(Ok(name)) if name.folded_key() == *key => {
                        let account = Grantee::User(name.clone()).key();
                        let found = self.tables.cell(account::TABLE, &account, CF, account::PROFILE).await?;
                        if found.is_some() {
                            continue;
                        }
                        format!("there is no account of {name}")
                    }
                    Some(Ok(name)) => format!("it is not the row of {name}"),
                    Some(Err(error)) => error.to_string(),
                    None => "it has no name".to_owned(),
                };
                let (kind, table, row) = (FindingKind::AccountDiffers, user_name::TABLE, printable(key));
                self.record(Finding { kind, table, row, path: None, detail, repaired: false });
            }
            (self.on_event)(CheckEvent::Rows(rows.len()));
        }
        Ok(())
    }
}

fn secret_claim(_: &RowKey, entry: &Cell) -> Claim {
    let owner = SecretOwner::decode(&entry.value).ok()?;
    Some((Grantee::User(owner.user.clone()), owner.column()))
}

/// The digest of the secret that an index entry leads to.
fn digest_of(entry: &Cell, stored: &Cell) -> Option<SecretDigest> {
    match SecretOwner::decode(&entry.value).ok()?.kind {
        SecretKind::Share => share::from_cell(stored).ok().flatten().map(|(_, share)| share.digest),
        SecretKind::Session | SecretKind::Token => {
            secret::from_cell(stored).ok().flatten().map(|(_, secret)| secret.digest)
        }
    }
}

fn grant_claim(key: &RowKey, entry: &Cell) -> Claim {
    if share::is_index_key(key) {
        let owner = share::owner_of(key, &entry.qualifier).ok()?;
        return Some((Grantee::User(owner.user.clone()), owner.column()));
    }
    let GrantIndexKey { dir, holder, giver } = GrantIndexKey::decode(key).ok()?;
    Some((holder, grant::column(dir, &giver)))
}
