//! Creating a file, or replacing it by a new version.
//!
//! To read it: [`put`] checks, reads the body, stages the content, and stores it ([`StagedVersion`]), as copies do too. That
//! runs the retry loop with [`decide`]: read the name, check the rules, make the plan. [`receive`] reads a body alone, for
//! callers that store several at a time.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::Stream;

use super::body::{finish, read_body};
use super::reserved::Reserved;
use super::{Committer, Decision, Ids};
use crate::auth::Requester;
use crate::content::{INLINE, StagedContent, Upload};
use crate::drive::attempts::Caller;
use crate::drive::error::{DriveError, PutError, Result};
use crate::drive::file_rows::{drop_version, new_version};
use crate::drive::index_changes::IndexChange;
use crate::drive::model::{Condition, Node, PutOptions, Written};
use crate::drive::namespace::lookup::{NameLookup, lookup, no_directory};
use crate::drive::namespace::resolve::{Resolution, ResolvedParent, resolve, resolve_parent};
use crate::drive::refusals::settled;
use crate::drive::rights::Rights;
use crate::schema::dir::{self, FileEntry};
use crate::schema::file::{Attributes, ContentLocation, Digest};
use crate::schema::usage::UsageChange;
use crate::schema::{DrivePath, FileId, Name, StayId, Timestamp};
use crate::table::{Change, Plan};

/// What is stored: the path, the entry, and what the name was before.
pub(super) type Stored = (DrivePath, FileEntry, NameLookup);

/// What every attempt to store a version has in common.
pub struct NewVersion {
    pub mime: String,
    pub creator: String,
    pub modified: Option<Timestamp>,
}

/// When a version may be stored.
pub struct PutRules {
    /// The file of which this is a copy: the requester may read it until the commit.
    pub source: Option<DrivePath>,
    pub condition: Condition,
    /// Whether missing parents are made.
    pub parents: bool,
    /// Whether an existing file may be replaced; if not, it is [`DriveError::Exists`].
    pub replace: bool,
}

/// An upload whose body has come in, and which no row names yet. Dropping it stores nothing.
pub struct ReceivedUpload {
    committer: Arc<Committer>,
    requester: Requester,
    path: DrivePath,
    upload: Upload,
    digests: Vec<Digest>,
    new: NewVersion,
    rules: PutRules,
    /// What the check before the body has read.
    found: Option<NameLookup>,
    reserved: Reserved,
}

impl ReceivedUpload {
    /// Stores it under its path. The new version is durable when this returns.
    pub async fn store(self) -> Result<Written> {
        let committer = self.committer.clone();
        self.stage().await?.store(&committer).await
    }

    async fn stage(self) -> Result<StagedVersion> {
        let staged = finish(&self.committer, self.upload, &self.digests).await?;
        let Self { requester, path, new, rules, found, reserved, .. } = self;
        Ok(StagedVersion { requester, path, staged, new, rules, found, reserved })
    }
}

/// A version whose content is staged, to be stored under a path.
pub struct StagedVersion {
    pub requester: Requester,
    pub path: DrivePath,
    pub staged: StagedContent,
    pub new: NewVersion,
    pub rules: PutRules,
    /// An earlier lookup of the name, of any age, for the first attempt.
    pub found: Option<NameLookup>,
    /// What it has reserved of the quota.
    pub reserved: Reserved,
}

impl StagedVersion {
    /// Stores it, even if the caller leaves or stops to poll.
    pub async fn store(self, committer: &Arc<Committer>) -> Result<Written> {
        committer.gate.run_to_end(|caller| create_file(committer.clone(), self, caller)).await
    }

    /// As [`store`](Self::store), for a caller that polls it until it ends or drops it:
    /// [`run_here`](crate::drive::gate::Gate::run_here).
    async fn store_here(self, committer: &Arc<Committer>) -> Result<Written> {
        committer.gate.run_here(|caller| create_file(committer.clone(), self, caller)).await
    }
}

/// See [`UserDrive::put`](crate::drive::UserDrive::put). The caller polls it until it ends, or drops it.
pub async fn put<E>(
    committer: &Arc<Committer>,
    requester: &Requester,
    path: &DrivePath,
    options: PutOptions,
    body: impl Stream<Item = std::result::Result<Bytes, E>>,
) -> std::result::Result<Written, PutError<E>> {
    // IMPORTANT: refuse all that can be refused before the body is polled. Over HTTP the first poll sends `100 Continue`,
    // which makes the client send the body.
    let (found, reserved) = check_now(committer, requester, path, &options).await?;
    let received = take_in(committer, requester, path, options, (body, reserved)).await?;
    let version = ReceivedUpload { found: Some(found), ..received }.stage().await?;
    Ok(version.store_here(committer).await?)
}

/// See [`UserDrive::receive`](crate::drive::UserDrive::receive).
pub async fn receive<E>(
    committer: &Arc<Committer>,
    requester: &Requester,
    path: &DrivePath,
    options: PutOptions,
    body: impl Stream<Item = std::result::Result<Bytes, E>>,
) -> std::result::Result<ReceivedUpload, PutError<E>> {
    // A content file would be written in vain. What is smaller reserves nothing of a quota: the commit decides.
    let mut reserved = Reserved::default();
    if options.length.is_none_or(|length| length > INLINE as u64) {
        (_, reserved) = check_now(committer, requester, path, &options).await?;
    }
    take_in(committer, requester, path, options, (body, reserved)).await
}

async fn take_in<E>(
    committer: &Arc<Committer>,
    requester: &Requester,
    path: &DrivePath,
    options: PutOptions,
    (body, mut reserved): (impl Stream<Item = std::result::Result<Bytes, E>>, Reserved),
) -> std::result::Result<ReceivedUpload, PutError<E>> {
    let rules = PutRules::of(&options);
    let PutOptions { mime, creator, modified, length, digests, .. } = options;
    let upload = read_body(committer, committer.content.upload(), (length, body), &mut reserved).await?;
    let new = NewVersion { mime, creator, modified };
    let (committer, requester, path) = (committer.clone(), requester.clone(), path.clone());
    Ok(ReceivedUpload { committer, requester, path, upload, digests, new, rules, found: None, reserved })
}

/// Checks that files may be stored below a directory, which is there or can be made, as things are now.
pub async fn check_below(committer: &Committer, requester: &Requester, path: &DrivePath) -> Result<()> {
    let ns = &committer.namespace;
    let check = || async {
        // Nothing is written, so nothing is guarded.
        let _may_write = Rights::read(ns, requester).await?.write_in(path).await?;
        match resolve(ns, path).await? {
            Resolution::Open { .. } => Ok(ns.tables.has_space().await?),
            Resolution::File => Err(DriveError::ParentIsFile),
        }
    };
    settled(ns, requester, &[path], check).await
}

/// As [`check_early`]. A refusal is of an instant at which the requester might ask.
async fn check_now(
    committer: &Committer,
    requester: &Requester,
    path: &DrivePath,
    options: &PutOptions,
) -> Result<(NameLookup, Reserved)> {
    let (parent, _) = path.split().ok_or(DriveError::IsDirectory)?;
    let check = || check_early(committer, requester, path, options);
    settled(&committer.namespace, requester, &[&parent], check).await
}

/// Checks now what the commit will check again, so that a refused upload is not sent. Returns what it has read of the name,
/// and what it has reserved of the quota.
async fn check_early(
    committer: &Committer,
    requester: &Requester,
    path: &DrivePath,
    options: &PutOptions,
) -> Result<(NameLookup, Reserved)> {
    let (parent, name) = path.split().ok_or(DriveError::IsDirectory)?;
    // The commit decides anew, and is guarded.
    let rights = Rights::read(&committer.namespace, requester).await?;
    let _may_write = rights.write_in(&parent).await?;
    let found = lookup(&committer.namespace, &parent, &name).await?;
    let missing = match found.parent {
        Some(_) => 0,
        None => match resolve(&committer.namespace, &parent).await? {
            Resolution::Open { missing, .. } => missing.len(),
            Resolution::File => return Err(DriveError::ParentIsFile),
        },
    };
    PutRules::of(options).check(&found, missing > 0)?;
    let PutOptions { creator, length, .. } = options;
    let mut usage = UsageChange::default();
    usage.add_content(creator, length.unwrap_or(0));
    (0..missing).for_each(|_| usage.add_directory(creator));
    if let Some(replaced) = &found.file {
        usage.take_file(&replaced.value.attributes);
    }
    let reserved = Reserved::new(&committer.under_way, rights.access(), &usage, *length).await?;
    // The tables may be on a disk of their own.
    committer.namespace.tables.has_space().await?;
    Ok((found, reserved))
}

async fn create_file(committer: Arc<Committer>, version: StagedVersion, caller: Caller) -> Result<Written> {
    let StagedVersion { requester, path, staged, new, rules, found, reserved } = version;
    // IMPORTANT: before the plan is sent. Otherwise its content would count twice once the plan is committed, and refuse
    // another upload that fits.
    drop(reserved);
    let (parent, name) = path.split().ok_or(DriveError::IsDirectory)?;
    let found = Mutex::new(found.filter(|found| found.parent.is_some()));
    let decide = |ids| {
        // The checks of the plan are of what was read, whenever that was: if it is no longer so, the plan is refused, and
        // the next attempt reads again.
        let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
        decide((&committer, &requester), (&parent, &name), (ids, found), &staged, &new, &rules)
    };
    let looked_at: Vec<&DrivePath> = [&parent].into_iter().chain(&rules.source).collect();
    let (decide, looked_at) = (&decide, looked_at.as_slice());
    let settle = |ids| settled(&committer.namespace, &requester, looked_at, move || decide(ids));
    let stored = committer.until_committed(&caller, settle).await;
    conclude(&committer, &staged, stored).await
}

/// After the last attempt.
pub(super) async fn conclude(committer: &Committer, staged: &StagedContent, stored: Result<Stored>) -> Result<Written> {
    match stored {
        Ok((path, entry, found)) => Ok(committed(committer, path, entry, found).await),
        Err(error) => {
            // The plan may be committed. Garbage collection reads whether a row names the content, as soon as the store
            // answers again. After a failed sync the store does not answer again, and the next start reads it.
            if matches!(error, DriveError::Unknown { full: true, .. }) && staged.location() == ContentLocation::Large {
                committer.gc.verify_staged(staged.id());
            }
            Err(error)
        }
    }
}

/// After the commit: no failure here changes the answer.
async fn committed(committer: &Committer, path: DrivePath, entry: FileEntry, found: NameLookup) -> Written {
    let id = entry.id;
    committer.metrics.stored(&entry.attributes);
    if entry.attributes.location == ContentLocation::Large
        && let Err(error) = committer.content.promote(id).await
    {
        tracing::warn!(%error, file = %id, "content stays where it was staged until the next start");
    }
    let new = found.file.is_none();
    committer.unlink_dropped(found.file.as_ref());
    Written { node: Node::File { path, entry }, new }
}

/// The plan, the path and the entry that it puts, and what the name was before. Reads the name, unless it was `found` before.
pub(super) async fn decide<'a>(
    (committer, requester): (&Committer, &Requester),
    (parent, name): (&DrivePath, &Name),
    (ids, found): (Ids, Option<NameLookup>),
    staged: &'a StagedContent,
    new: &NewVersion,
    rules: &PutRules,
) -> Result<Decision<'a, Stored>> {
    if ids == Ids::New {
        staged.rename(FileId::random()).await?;
    }
    let rights = Rights::read(&committer.namespace, requester).await?;
    let permissions = match &rules.source {
        None => vec![rights.write_in(parent).await?],
        Some(source) => vec![rights.write_from(source, parent).await?, rights.read_file(source).await?],
    };
    let mut found = match found {
        Some(found) => found,
        None => lookup(&committer.namespace, parent, name).await?,
    };
    let resolved = match found.parent.take() {
        Some(live) => ResolvedParent::found(parent, live),
        None => resolve_parent(&committer.namespace, parent, &new.creator, committer.clock).await?,
    };
    rules.check(&found, !resolved.missing.is_empty())?;
    let added = (committer.clock)();
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
    let mut plan = put_plan(&resolved, &found, name, &entry, staged.inline());
    permissions.iter().for_each(|permission| permission.guard(&mut plan));
    let mut usage = UsageChange::default();
    usage.add_file(&entry.attributes);
    resolved.count(&mut usage);
    if let Some(replaced) = &found.file {
        usage.take_file(&replaced.value.attributes);
    }
    rights.count(&mut plan, &usage);
    let replaces = found.file.as_ref().map(|old| old.value.id);
    let change = replaces.map(|old| IndexChange::new(staged.id(), Some(old), false, &plan.prepare));
    let answer = (parent.join(name)?, entry, found);
    Ok(Decision::Commit { plan, change, content: Some(staged), answer })
}

impl PutRules {
    fn of(options: &PutOptions) -> Self {
        Self { source: None, condition: options.condition.clone(), parents: options.parents, replace: true }
    }

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
    inline: Option<Bytes>,
) -> Plan {
    let mut plan = Plan { prepare: new_version(entry, resolved.id(), name, inline), ..Plan::default() };
    let put = Change::put(dir::SUB, dir::file_qualifier(name), entry.encode());
    resolved.add_to(&mut plan, vec![no_directory(name), found.file_check(name)], vec![put]);
    if let Some(old) = &found.file {
        plan.finish.extend(drop_version(&old.value, resolved.id(), name));
    }
    plan
}
