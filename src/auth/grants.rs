//! Grants: given, taken back, listed.

use std::collections::HashSet;

use super::Auth;
use super::authority::Authority;
use super::credential::Credential;
use super::decide::DirChain;
use super::error::{AuthError, Result};
use super::guards;
use super::secret_bounds;
use crate::schema::CF;
use crate::schema::account::{self, Account, GRANT, GRANTS, Grantee, Stamp};
use crate::schema::dir_parent;
use crate::schema::grant::{self, Giver, Grant, GrantIndexKey};
use crate::schema::ids::{DirId, GrantId, SecretId};
use crate::schema::rights::{Right, Rights};
use crate::schema::secret::{self, SecretKind, SecretOwner};
use crate::schema::user_name::UserName;
use crate::table::{Check, ConditionalRow, Plan, RowChange, RowCursor, RowQuery, RowRange};

/// Index entries that are read at a time.
const PAGE: usize = 100;
/// Sessions, tokens or shares that are revoked together, whose index entries are removed with them. More of them stay
/// as stale entries.
const SECRETS: usize = 1_000;

/// Rights that a user has been given on a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantOnDir {
    /// The directory.
    pub dir: DirId,
    /// Who has them.
    pub holder: Grantee,
    /// Who has given them.
    pub giver: Giver,
    /// The rights.
    pub rights: Rights,
}

impl Auth {
    /// The user of this name, or every user for `*`.
    pub async fn grantee(&self, text: &str) -> Result<Grantee> {
        match text {
            "*" => Ok(Grantee::Everyone),
            _ => self.known_name(text).await?.map(Grantee::User).ok_or(AuthError::NoUser),
        }
    }

    /// Refuses who may not share the last directory of a path, before he learns by another error which users there are.
    ///
    /// Errors: [`AuthError::Forbidden`].
    pub async fn require_share(&self, authority: &Authority, chain: &DirChain) -> Result<()> {
        match giver(authority)? {
            Giver::Admins => Ok(()),
            // The change itself decides anew, and is guarded.
            Giver::User(_) => self.decide(authority, chain, Right::Share).await.map(|_| ()),
        }
    }

    /// Gives rights on the last directory of a path, in place of those that the same giver gave before. Returns whether
    /// there were none before. All admins are one giver.
    ///
    /// Errors: [`AuthError::Contended`] if the directory is not at this path any more: read the path again.
    /// [`AuthError::Forbidden`] to a user without the right to share there, or without what he gives. Only admins give
    /// the right to share, or give to every user. [`AuthError::TooManyGrants`] if the user has so many, without those
    /// on directories that were deleted: these are removed first.
    pub async fn put_grant(&self, by: &Credential, chain: &DirChain, to: &Grantee, rights: Rights) -> Result<bool> {
        let this = self;
        self.until_committed_by(by, |authority| async move {
            let giver = giver(&authority)?;
            let mut plan = this.may_give(&authority, chain, to, rights, &giver).await?;
            let (_, dir) = chain.last().ok_or(AuthError::Forbidden)?;
            let account = this.holder_of(to).await?;
            let (grants, stamp) = account.map_or((Vec::new(), None), |found| (found.grants, Some(found.stamp)));
            let old = grants.iter().find(|grant| grant.dir == *dir && grant.giver == giver);
            let ended =
                if old.is_none() && grants.len() >= GRANTS { this.of_deleted_dirs(&grants).await? } else { Vec::new() };
            if old.is_none() && grants.len() - ended.len() >= GRANTS {
                return Err(AuthError::TooManyGrants(GRANTS));
            }
            // Also on a full disk.
            plan.reserve =
                old.is_some_and(|old| old.rights != rights && rights.iter().all(|right| old.rights.contains(right)));
            let id = old.map_or_else(GrantId::random, |old| old.id);
            let grant = Grant { dir: *dir, giver, rights, id };
            if old.is_none() {
                plan.prepare = grant.put_index(to);
            }
            let check = stamp.map_or_else(|| Check::Absent(account::stamp_column()), Stamp::check);
            let mut changes = vec![stamp.map_or(Stamp::FIRST, Stamp::next).put(), grant.put()];
            changes.extend(ended.iter().map(Grant::delete));
            plan.finish = ended.iter().flat_map(|grant| grant.delete_index(to)).collect();
            let row = ConditionalRow { table: account::TABLE, row: to.key(), checks: vec![check], changes };
            guards::add_all(&mut plan, [row]);
            Ok((plan, old.is_none()))
        })
        .await
    }

    /// A plan with what guards that these rights may be given.
    async fn may_give(
        &self,
        authority: &Authority,
        chain: &DirChain,
        to: &Grantee,
        rights: Rights,
        giver: &Giver,
    ) -> Result<Plan> {
        let mut plan = Plan { guarded: vec![authority.guard()], ..Plan::default() };
        if let Giver::User(_) = giver {
            if rights.contains(Right::Share) || *to == Grantee::Everyone {
                return Err(AuthError::Forbidden);
            }
            for right in rights.iter().chain([Right::Share]) {
                self.decide(authority, chain, right).await?.guard(&mut plan);
            }
        }
        guards::add_all(&mut plan, chain.bound_last());
        Ok(plan)
    }

    /// The grants on directories that were deleted. A directory has a row in `dirid` as long as it exists; the root has
    /// none.
    async fn of_deleted_dirs(&self, grants: &[Grant]) -> Result<Vec<Grant>> {
        let query = |grant: &Grant| (grant.dir.key(), RowQuery::cells(vec![dir_parent::column()]));
        let queries: Vec<_> = grants.iter().map(query).collect();
        let rows = self.tables.get_many(dir_parent::TABLE, &queries).await?;
        let deleted = grants.iter().zip(rows).filter(|(grant, row)| grant.dir != DirId::ROOT && row.is_empty());
        Ok(deleted.map(|(grant, _)| grant.clone()).collect())
    }

    /// Takes back what was given on the last directory of a path: a user what he has given himself, an admin all.
    ///
    /// Errors: [`AuthError::NoGrant`] if there is none, also for a user who was removed.
    pub async fn delete_grant(&self, by: &Credential, chain: &DirChain, from: &Grantee) -> Result<()> {
        let this = self;
        self.until_committed_by(by, |authority| async move {
            let giver = giver(&authority)?;
            let mut plan = Plan { guarded: vec![authority.guard()], reserve: true, ..Plan::default() };
            if let Giver::User(_) = giver {
                this.decide(&authority, chain, Right::Share).await?.guard(&mut plan);
            }
            let (_, dir) = chain.last().ok_or(AuthError::Forbidden)?;
            let account = this.account_with_grants(from).await?.ok_or(AuthError::NoGrant)?;
            let is_his = |grant: &&Grant| grant.dir == *dir && (giver == Giver::Admins || grant.giver == giver);
            let ended: Vec<Grant> = account.grants.iter().filter(is_his).cloned().collect();
            add_deletion(&mut plan, from, account.stamp, &ended)?;
            Ok((plan, ()))
        })
        .await
    }

    /// The grants on the last directory of a path, not those above it.
    ///
    /// Errors: [`AuthError::Forbidden`] to a user without the right to share there.
    pub async fn grants_on(&self, by: &Credential, chain: &DirChain) -> Result<Vec<GrantOnDir>> {
        let authority = self.authority(by).await?;
        if let Giver::User(_) = giver(&authority)? {
            // Nothing is written, so nothing is guarded.
            let _may_read = self.decide(&authority, chain, Right::Share).await?;
        }
        let (_, dir) = chain.last().ok_or(AuthError::Forbidden)?;
        self.grants_in(grant::on_dir(*dir)).await
    }

    /// The grants that a user has given; those of all admins, for an admin.
    pub async fn grants_given(&self, by: &Credential) -> Result<Vec<GrantOnDir>> {
        let authority = self.authority(by).await?;
        self.grants_in(grant::given_by(&giver(&authority)?)).await
    }

    /// All grants, for an admin.
    pub async fn all_grants(&self, by: &Credential) -> Result<Vec<GrantOnDir>> {
        self.admin(by).await?;
        self.grants_in(grant::on_any_dir()).await
    }

    /// The grants that index entries lead to. An entry may be early or stale: the account row decides.
    async fn grants_in(&self, range: RowRange) -> Result<Vec<GrantOnDir>> {
        let mut cursor = RowCursor::new(grant::TABLE, range, RowQuery::families(&[CF]), PAGE);
        let mut found = Vec::new();
        while let Some(rows) = cursor.next(&self.tables).await? {
            let keys =
                rows.iter().map(|(key, _)| GrantIndexKey::decode(key)).collect::<std::result::Result<Vec<_>, _>>()?;
            let query =
                |key: &GrantIndexKey| (key.holder.key(), RowQuery::cells(vec![grant::column(key.dir, &key.giver)]));
            let queries: Vec<_> = keys.iter().map(query).collect();
            let accounts = self.tables.get_many(account::TABLE, &queries).await?;
            for (key, row) in keys.into_iter().zip(accounts) {
                for cell in row.family(GRANT) {
                    let Grant { dir, giver, rights, .. } = Grant::from_cell(cell)?;
                    found.push(GrantOnDir { dir, holder: key.holder.clone(), giver, rights });
                }
            }
        }
        Ok(found)
    }

    /// The account of someone who can have grants; none if nothing was ever given to every user.
    async fn holder_of(&self, holder: &Grantee) -> Result<Option<Account>> {
        let account = self.account_with_grants(holder).await?;
        match holder {
            Grantee::Everyone => Ok(account),
            Grantee::User(_) => account.map(Some).ok_or(AuthError::NoUser),
        }
    }

    /// The same; none also of a user who was removed.
    async fn account_with_grants(&self, holder: &Grantee) -> Result<Option<Account>> {
        let account = self.account(holder).await?;
        Ok(account.filter(|account| *holder == Grantee::Everyone || account.user().is_some()))
    }

    /// Deletes the grants that a removed user has given. They do not count any more, so a failure is only logged.
    pub(super) async fn delete_given_by(&self, removed: &UserName) {
        if let Err(error) = self.try_delete_given_by(removed).await {
            tracing::warn!(user = removed.as_str(), %error, "grants of a removed user are left; they have no effect");
        }
    }

    async fn try_delete_given_by(&self, removed: &UserName) -> Result<()> {
        let giver = Giver::User(removed.clone());
        let given = self.grants_in(grant::given_by(&giver)).await?;
        let holders: HashSet<Grantee> = given.into_iter().map(|grant| grant.holder).collect();
        let (this, giver) = (self, &giver);
        for holder in &holders {
            let deleted = self.until_committed(|| async move {
                let account = this.account_with_grants(holder).await?.ok_or(AuthError::NoGrant)?;
                let ended: Vec<Grant> = account.grants.into_iter().filter(|grant| grant.giver == *giver).collect();
                let mut plan = Plan { reserve: true, ..Plan::default() };
                add_deletion(&mut plan, holder, account.stamp, &ended)?;
                Ok((plan, ()))
            });
            match deleted.await {
                Ok(()) | Err(AuthError::NoGrant) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes the index entries of a user's secrets and of these grants, which he has.
    pub(super) async fn index_entries_of(&self, name: &UserName, grants: &[Grant]) -> Result<Vec<RowChange>> {
        let holder = Grantee::User(name.clone());
        let mut entries: Vec<RowChange> = grants.iter().flat_map(|grant| grant.delete_index(&holder)).collect();
        for kind in SecretKind::all() {
            entries.extend(self.secret_entries_of(name, kind, None).await?);
        }
        Ok(entries)
    }

    /// Deletes the index entries of a user's secrets of one kind, but for this one's.
    pub(super) async fn secret_entries_of(
        &self,
        name: &UserName,
        kind: SecretKind,
        kept: Option<SecretId>,
    ) -> Result<Vec<RowChange>> {
        let mut entries = Vec::new();
        for cell in self.secret_row(name, kind).await?.family(kind.family()).take(SECRETS) {
            if let Some(id) = secret::stored_id(&cell.qualifier)?.filter(|id| kept != Some(*id)) {
                let owner = SecretOwner { user: name.clone(), kind, id };
                entries.extend(secret_bounds::delete_index(&owner, &cell.value)?);
            }
        }
        Ok(entries)
    }
}

/// As who a user gives: an admin as one of all admins. A token for one directory gives nothing.
fn giver(authority: &Authority) -> Result<Giver> {
    let user = authority.user().filter(|_| authority.is_for_account()).ok_or(AuthError::Forbidden)?;
    Ok(if authority.is_admin() { Giver::Admins } else { Giver::User(user.clone()) })
}

/// Deletes these grants of an account.
fn add_deletion(plan: &mut Plan, holder: &Grantee, stamp: Stamp, ended: &[Grant]) -> Result<()> {
    if ended.is_empty() {
        return Err(AuthError::NoGrant);
    }
    let changes = [stamp.next().put()].into_iter().chain(ended.iter().map(Grant::delete)).collect();
    let row = ConditionalRow { table: account::TABLE, row: holder.key(), checks: vec![stamp.check()], changes };
    guards::add_all(plan, [row]);
    plan.finish.extend(ended.iter().flat_map(|grant| grant.delete_index(holder)));
    Ok(())
}
