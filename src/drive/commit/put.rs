//! Creating a file, or replacing it by a new version.

use super::arrivals::Arrival;
use super::ask::{Condition, Made, Node, PutOptions};
use super::ground::{Ground, Way};
use super::spot::{Spot, Stored, no_directory};
use super::{Drive, DriveError, Result};
use crate::content::Staged;
use crate::schema::dir::{self, Entry};
use crate::schema::file::{self, Attributes, Location, Standing};
use crate::schema::index::Indexed;
use crate::schema::{DirId, DrivePath, FileId, Name, Place, Timestamp, unlink};
use crate::table::{Change, Outcome, Plan, RowChange, StoreError};

/// What may be done about a path, as it stands now.
struct Decision {
    ground: Ground,
    /// The version that is replaced, and the check that it still is there.
    spot: Spot,
}

/// A new version, the same over all tries.
pub(super) struct NewFile {
    pub mime: String,
    pub creator: String,
    pub modified: Option<Timestamp>,
}

/// When a new version may be put.
pub(super) struct Terms {
    pub condition: Condition,
    /// Whether missing parents are made.
    pub parents: bool,
    /// Whether a file that is there may be replaced; if not, it is [`DriveError::Exists`].
    pub replace: bool,
}

/// What an earlier try prepared.
struct Draft {
    parent: DirId,
    prepared: Vec<RowChange>,
}

impl Drive {
    /// Whether an upload to this path could be stored as things stand: asked before its body is read.
    pub async fn check_put(&self, path: &DrivePath, parents: bool, condition: &Condition) -> Result<()> {
        let (parent, name) = path.split().ok_or(DriveError::IsDirectory)?;
        let terms = Terms { condition: condition.clone(), parents, replace: true };
        self.decide(&parent, &name, &terms, "").await?;
        // The tables may be on a disk of their own.
        Ok(self.inner.tables.room().await?)
    }

    /// Stores a file under this path. The content must be staged; its digest is the caller's to compare.
    ///
    /// The new version is durable when this returns. On [`StoreError::Unknown`] it may be there or not.
    pub async fn put(&self, path: &DrivePath, staged: Staged, options: PutOptions) -> Result<Made> {
        let PutOptions { mime, creator, modified, parents, condition } = options;
        let terms = Terms { condition, parents, replace: true };
        self.store(path, staged, NewFile { mime, creator, modified }, terms).await
    }

    pub(super) async fn store(&self, path: &DrivePath, staged: Staged, new: NewFile, terms: Terms) -> Result<Made> {
        let path = path.clone();
        self.to_the_end(|drive| async move { drive.create_file(&path, staged, new, &terms).await }).await
    }

    async fn create_file(&self, path: &DrivePath, mut staged: Staged, new: NewFile, terms: &Terms) -> Result<Made> {
        let (parent, name) = path.split().ok_or(DriveError::IsDirectory)?;
        let mut draft: Option<Draft> = None;
        let mut added = None;
        let mut patience = self.patience();
        loop {
            let decided = match patience.again().await {
                Ok(()) => self.decide(&parent, &name, terms, &new.creator).await,
                Err(contended) => Err(contended),
            };
            let Decision { ground, spot } = match decided {
                Ok(decision) => decision,
                Err(error) => {
                    self.abandon(draft.take()).await;
                    return Err(error);
                }
            };
            // IMPORTANT: rows prepared by a refused try may be there. The same bytes may be put again; if the
            // parent is another directory by now they would differ, so the file starts anew under a new id.
            if let Some(old) = draft.take_if(|draft| draft.parent != ground.id()) {
                self.abandon(Some(old)).await;
                staged.rename(FileId::random()).await?;
            }
            let added = *added.get_or_insert_with(self.inner.settings.clock);
            let attributes = Attributes {
                size: staged.size,
                mime: new.mime.clone(),
                creator: new.creator.clone(),
                modified: new.modified.unwrap_or(added),
                added,
                digest: staged.digest,
                location: staged.location(),
            };
            let entry = Entry { id: staged.id(), place: Place::CREATED, attributes };
            let plan = create(&ground, &spot, &name, &entry, staged.inline());
            let prepared = plan.prepare.clone();
            staged.hold();
            let commit = self.inner.tables.commit(plan);
            let outcome = match &spot.file {
                Some(old) => {
                    let arrival = Arrival::new(staged.id(), Some(old.value.id), false, &prepared);
                    self.inner.arrivals.counted(arrival, commit).await
                }
                None => commit.await,
            };
            match outcome {
                Ok(Outcome::Committed) => return Ok(self.stored(path, entry, spot).await),
                // It may be committed: clean-up finds out what becomes of its content, if the store can tell before
                // its next start, or else that does.
                Err(error @ StoreError::Unknown { full, .. }) => {
                    if full && staged.location() == Location::Large {
                        self.inner.unlinker.settle(staged.id());
                    }
                    return Err(error.into());
                }
                Ok(Outcome::Refused(refusal)) => {
                    staged.let_go();
                    let refused = Draft { parent: ground.id(), prepared };
                    if let Err(error) = self.make_way_for(&refusal, &mut patience).await {
                        self.abandon(Some(refused)).await;
                        return Err(error);
                    }
                    draft = Some(refused);
                }
                Err(error) => {
                    staged.let_go();
                    return Err(error.into());
                }
            }
        }
    }

    async fn abandon(&self, draft: Option<Draft>) {
        if let Some(draft) = draft {
            self.undo(draft.prepared).await;
        }
    }

    /// After the commit: nothing here can make the answer wrong any more.
    async fn stored(&self, path: &DrivePath, entry: Entry, spot: Spot) -> Made {
        let id = entry.id;
        self.inner.metrics.stored(&entry.attributes);
        if entry.attributes.location == Location::Large
            && let Err(error) = self.inner.content.settle(id).await
        {
            tracing::warn!(%error, file = %id, "content stays where it was staged until the next start");
        }
        let new = spot.file.is_none();
        self.dropped(spot.file.as_ref());
        Made { node: Node::File { path: path.clone(), entry }, new }
    }

    /// Tells the unlinker of a version that a committed plan has dropped.
    pub(super) fn dropped(&self, old: Option<&Stored<Entry>>) {
        if let Some(old) = old.filter(|old| old.value.attributes.location == Location::Large) {
            self.inner.unlinker.unlink(old.value.id);
        }
    }

    async fn decide(&self, parent: &DrivePath, name: &Name, terms: &Terms, creator: &str) -> Result<Decision> {
        let mut spot = self.spot(parent, name).await?;
        let ground = match spot.parent.take() {
            Some(live) => Ground::found(parent, live),
            None => self.ground(parent, creator).await?,
        };
        if spot.directory.is_some() {
            return Err(DriveError::IsDirectory);
        }
        let current = spot.file.as_ref().map(|file| file.value.id);
        if !terms.condition.holds(current) {
            return Err(DriveError::Precondition);
        }
        if current.is_some() && !terms.replace {
            return Err(DriveError::Exists);
        }
        if !ground.missing.is_empty() && !terms.parents {
            return Err(DriveError::ParentMissing);
        }
        Ok(Decision { ground, spot })
    }

    /// Why nothing can be found below `parent`, which is no directory: an error in any case.
    pub(super) async fn no_parent(&self, parent: &DrivePath) -> DriveError {
        match self.way(parent).await {
            Ok(Way::File) => DriveError::ParentIsFile,
            Ok(Way::Open { .. }) => DriveError::ParentMissing,
            Err(error) => error,
        }
    }
}

/// create, overwrite: content, file row and hints are prepared; the entry is the commit point.
fn create(ground: &Ground, spot: &Spot, name: &Name, entry: &Entry, inline: Option<bytes::Bytes>) -> Plan {
    let mut plan = Plan::default();
    let standing = Standing { dir: ground.id(), name: name.clone(), place: entry.place };
    let mut cells = file::row(&entry.attributes, &standing);
    cells.extend(inline.map(|data| Change::put(file::C, file::DATA, data)));
    plan.prepare.push(RowChange { table: file::TABLE, row: entry.id.key(), changes: cells });
    plan.prepare.extend(Indexed { id: entry.id, attributes: &entry.attributes, standing: &standing }.put());
    let put = Change::put(dir::SUB, dir::file_qualifier(name), entry.encode());
    ground.build(&mut plan, vec![no_directory(name), spot.file_check(name)], vec![put]);
    if let Some(old) = &spot.file {
        plan.finish.extend(drop_version(&old.value, ground.id(), name));
    }
    plan
}

/// The clean-up of a version that no name reaches any more: its hints, its row, its content.
pub(super) fn drop_version(old: &Entry, dir: DirId, name: &Name) -> Vec<RowChange> {
    let standing = Standing { dir, name: name.clone(), place: old.place };
    let mut rows = Indexed { id: old.id, attributes: &old.attributes, standing: &standing }.remove();
    // IMPORTANT: before the file row goes, which is all that leads to the content by now.
    if old.attributes.location == Location::Large {
        rows.push(unlink::make(old.id));
    }
    let changes = file::removal(old.attributes.location);
    rows.push(RowChange { table: file::TABLE, row: old.id.key(), changes });
    rows
}
