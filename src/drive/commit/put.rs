//! Creating a file, or replacing it by a new version.

use super::Committer;
use crate::content::StagedContent;
use crate::drive::attempts::{Attempts, Caller};
use crate::drive::error::{DriveError, Result};
use crate::drive::file_rows::{drop_version, new_version};
use crate::drive::index_changes::IndexChange;
use crate::drive::model::{Condition, Node, PutOptions, Written};
use crate::drive::namespace::lookup::{NameLookup, lookup, no_directory};
use crate::drive::namespace::resolve::{Resolution, ResolvedParent, resolve, resolve_parent};
use crate::drive::recovery::locks::clear_refusal;
use crate::schema::dir::{self, FileEntry};
use crate::schema::file::{Attributes, ContentLocation};
use crate::schema::{DirId, DrivePath, FileId, Name, StayId, Timestamp};
use crate::table::{Change, Outcome, Plan, RowChange, StoreError};

/// What every attempt to store a version has in common.
pub struct NewVersion {
    pub mime: String,
    pub creator: String,
    pub modified: Option<Timestamp>,
}

/// When a version may be stored.
pub struct PutRules {
    pub condition: Condition,
    /// Whether missing parents are made.
    pub parents: bool,
    /// Whether an existing file may be replaced; if not, it is [`DriveError::Exists`].
    pub replace: bool,
}

/// What a refused attempt has prepared. Its rows may have been written.
struct Prepared {
    parent: DirId,
    rows: Vec<RowChange>,
}

/// Whether an upload to this path would be stored as things are now: asked before its body is read.
pub async fn check_put(committer: &Committer, path: &DrivePath, parents: bool, condition: &Condition) -> Result<()> {
    let (parent, name) = path.split().ok_or(DriveError::IsDirectory)?;
    let rules = PutRules { condition: condition.clone(), parents, replace: true };
    let found = lookup(&committer.namespace, &parent, &name).await?;
    let missing = match found.parent {
        Some(_) => false,
        None => match resolve(&committer.namespace, &parent).await? {
            Resolution::Open { missing, .. } => !missing.is_empty(),
            Resolution::File => return Err(DriveError::ParentIsFile),
        },
    };
    rules.check(&found, missing)?;
    // The tables may be on a disk of their own.
    Ok(committer.namespace.tables.has_space().await?)
}

/// Stores a file under this path. The content must be staged; its digest is the caller's to compare.
///
/// The new version is durable when this returns. On [`DriveError::Unknown`] it may be stored or not.
pub async fn put(
    committer: &Committer,
    path: &DrivePath,
    staged: StagedContent,
    options: PutOptions,
) -> Result<Written> {
    let PutOptions { mime, creator, modified, parents, condition } = options;
    let rules = PutRules { condition, parents, replace: true };
    store(committer, path, staged, NewVersion { mime, creator, modified }, rules).await
}

/// As [`put`], for copies too.
pub async fn store(
    committer: &Committer,
    path: &DrivePath,
    staged: StagedContent,
    new: NewVersion,
    rules: PutRules,
) -> Result<Written> {
    let (this, path) = (committer.clone(), path.clone());
    let create = |caller| async move { create_file(&this, &path, staged, new, &rules, &caller).await };
    committer.gate.run_to_end(create).await
}

/// The retry loop of its own, not [`Committer::until_committed`]: rows that a refused attempt has prepared are not
/// removed but put again, since they hold the content of the file. So they have to be removed by every way out.
async fn create_file(
    committer: &Committer,
    path: &DrivePath,
    mut staged: StagedContent,
    new: NewVersion,
    rules: &PutRules,
    caller: &Caller,
) -> Result<Written> {
    let (parent, name) = path.split().ok_or(DriveError::IsDirectory)?;
    let mut prepared: Option<Prepared> = None;
    let mut added = None;
    let mut attempts = Attempts::new(caller, committer.lock_wait);
    loop {
        let decided = match attempts.next().await {
            Ok(()) => decide(committer, &parent, &name, rules, &new.creator).await,
            Err(contended) => Err(contended),
        };
        let (resolved, found) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                abandon(committer, prepared.take()).await;
                return Err(error);
            }
        };
        // IMPORTANT: prepared rows may only be put again byte for byte. If the parent is another directory by now they
        // would differ, so the file starts anew under a new id.
        if let Some(old) = prepared.take_if(|prepared| prepared.parent != resolved.id()) {
            abandon(committer, Some(old)).await;
            staged.rename(FileId::random()).await?;
        }
        let added = *added.get_or_insert_with(committer.clock);
        let attributes = Attributes {
            size: staged.size,
            mime: new.mime.clone(),
            creator: new.creator.clone(),
            modified: new.modified.unwrap_or(added),
            added,
            digest: staged.digest,
            location: staged.location(),
        };
        let entry = FileEntry { id: staged.id(), stay: StayId::CREATED, attributes };
        let plan = put_plan(&resolved, &found, &name, &entry, staged.inline());
        let rows = plan.prepare.clone();
        // From here on the file in `new/` must outlive this process: the plan may link it.
        staged.keep();
        let commit = committer.namespace.tables.commit(plan);
        let outcome = match &found.file {
            Some(old) => {
                let change = IndexChange::new(staged.id(), Some(old.value.id), false, &rows);
                committer.index_changes.counted(change, commit).await
            }
            None => commit.await,
        };
        match outcome {
            Ok(Outcome::Committed) => return Ok(committed(committer, path, entry, found).await),
            // It may be committed: the collector finds out whether its content is linked, as soon as the store can
            // tell, or else the next start does.
            Err(error @ StoreError::Unknown { full, .. }) => {
                if full && staged.location() == ContentLocation::Large {
                    committer.gc.settle(staged.id());
                }
                return Err(error.into());
            }
            Ok(Outcome::Refused(refusal)) => {
                staged.release();
                let refused = Prepared { parent: resolved.id(), rows };
                if let Err(error) = clear_refusal(&committer.recovery, &refusal, &mut attempts).await {
                    abandon(committer, Some(refused)).await;
                    return Err(error);
                }
                prepared = Some(refused);
            }
            Err(error) => {
                staged.release();
                return Err(error.into());
            }
        }
    }
}

async fn abandon(committer: &Committer, prepared: Option<Prepared>) {
    if let Some(prepared) = prepared {
        committer.delete_prepared(prepared.rows).await;
    }
}

/// After the commit: no failure here changes the answer.
async fn committed(committer: &Committer, path: &DrivePath, entry: FileEntry, found: NameLookup) -> Written {
    let id = entry.id;
    committer.metrics.stored(&entry.attributes);
    if entry.attributes.location == ContentLocation::Large
        && let Err(error) = committer.content.promote(id).await
    {
        tracing::warn!(%error, file = %id, "content stays where it was staged until the next start");
    }
    let new = found.file.is_none();
    committer.unlink_dropped(found.file.as_ref());
    Written { node: Node::File { path: path.clone(), entry }, new }
}

/// The parent, and what it says of the name: the version that is replaced, with the check for it.
async fn decide(
    committer: &Committer,
    parent: &DrivePath,
    name: &Name,
    rules: &PutRules,
    creator: &str,
) -> Result<(ResolvedParent, NameLookup)> {
    let mut found = lookup(&committer.namespace, parent, name).await?;
    let resolved = match found.parent.take() {
        Some(live) => ResolvedParent::found(parent, live),
        None => resolve_parent(&committer.namespace, parent, creator, committer.clock).await?,
    };
    rules.check(&found, !resolved.missing.is_empty())?;
    Ok((resolved, found))
}

impl PutRules {
    /// `missing`: whether parents are missing.
    fn check(&self, found: &NameLookup, missing: bool) -> Result<()> {
        if found.directory.is_some() {
            return Err(DriveError::IsDirectory);
        }
        let current = found.file.as_ref().map(|file| file.value.id);
        if !self.condition.holds(current) {
            return Err(DriveError::Precondition);
        }
        if current.is_some() && !self.replace {
            return Err(DriveError::Exists);
        }
        if missing && !self.parents {
            return Err(DriveError::ParentMissing);
        }
        Ok(())
    }
}

/// Content, file row and index rows are prepared; the entry is the commit point, with the parents that are missing.
fn put_plan(
    resolved: &ResolvedParent,
    found: &NameLookup,
    name: &Name,
    entry: &FileEntry,
    inline: Option<bytes::Bytes>,
) -> Plan {
    let mut plan = Plan { prepare: new_version(entry, resolved.id(), name, inline), ..Plan::default() };
    let put = Change::put(dir::SUB, dir::file_qualifier(name), entry.encode());
    resolved.add_to(&mut plan, vec![no_directory(name), found.file_check(name)], vec![put]);
    if let Some(old) = &found.file {
        plan.finish.extend(drop_version(&old.value, resolved.id(), name));
    }
    plan
}
