//! Operations on whole subtrees: moving a directory, deleting one with all it holds.
//!
//! They touch more rows than a plan may guard. A record in the `op` table stands for them all, and its change to
//! *committed* is the one instant at which the subtree is gone from one path and there at the other:
//!
//! 1. the record: prepared
//! 2. `close`: each row of the subtree is marked, top-down, before its children are listed
//! 3. `stage`: a move makes each row anew at its new path, marked too
//! 4. the instant: record, names in both parents, the directory's link to its parent
//! 5. `finish`: new rows lose their mark, then old rows go, and the record last
//!
//! `undo`: what is not committed and never will be is aborted, and its marks are found by scanning both subtrees.

mod batch;
mod close;
mod closed;
mod finish;
mod keys;
mod records;
mod stage;
mod undo;

use super::ask::{Made, Node};
use super::held::Patience;
use super::relocate::ends;
use super::spot::{Live, Spot, Stored, no_directory};
use super::{Drive, DriveError, Result, TRIES};
use crate::schema::dir::{self, DirEntry};
use crate::schema::dirid::{self, DirLink};
use crate::schema::op::{self, Kind, Phase, What};
use crate::schema::{CF, DirId, DrivePath, Name, OpId};
use crate::table::{Change, Check, Column, Guarded, Outcome, Plan, RowChange, StoreError};
use batch::Batch;
pub(super) use keys::Keys;
pub(super) use records::Settling;

/// An operation at work, with its record written.
struct Operation<'a> {
    drive: &'a Drive,
    id: OpId,
    what: What,
    patience: Patience,
    /// Cells of the subtree that were met so far: what the finish will cost.
    cells: usize,
}

/// Why an operation did not commit.
enum Stopped {
    /// It did not and will not: undo it.
    Failed(DriveError),
    /// Whether it did is not known: the next start finds out.
    Unknown(DriveError),
}

/// The directory that an operation is about, as its parent names it.
struct Root {
    entry: Stored<DirEntry>,
    parent: DrivePath,
    name: Name,
}

impl Drive {
    /// Moves a directory; runs to its end.
    pub(super) async fn move_directory(&self, from: &DrivePath, to: &DrivePath) -> Result<Made> {
        ends(from, to)?;
        let entry = self.operate(from, &Kind::Move { to: to.clone() }).await?;
        Ok(Made { node: Node::Directory { path: to.clone(), entry }, new: true })
    }

    /// Deletes a directory with all that it holds.
    pub async fn delete_subtree(&self, path: &DrivePath) -> Result<()> {
        let path = path.clone();
        let delete = |drive: Self| async move { drive.operate(&path, &Kind::Delete).await };
        self.to_the_end(delete).await.map(|_| ())
    }

    /// Each try is an operation of its own: one that gave way to an older one, or whose paths changed before it
    /// held them, is undone and begun anew.
    async fn operate(&self, from: &DrivePath, kind: &Kind) -> Result<DirEntry> {
        let mut patience = self.patience();
        loop {
            // An operation that has no record yet waits like any writer.
            while self.make_way_at(from, &mut patience).await? {}
            let root = self.root_of(from).await?;
            if let Kind::Move { to } = kind
                && let Err(error) = self.free_target(to).await
            {
                // Source and target were read at two instants: perhaps this very directory has just moved there.
                if self.root_of(from).await?.entry.bytes != root.entry.bytes {
                    continue;
                }
                return Err(error);
            }
            let what = What { from: from.clone(), root: root.entry.value.id, kind: kind.clone() };
            match self.attempt(&root, what).await {
                Ok(()) => return Ok(root.entry.value),
                Err(DriveError::Contended) => patience.wait().await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn root_of(&self, from: &DrivePath) -> Result<Root> {
        let (parent, name) = from.split().ok_or(DriveError::Root)?;
        let spot = self.spot(&parent, &name).await?;
        match (spot.parent, spot.directory) {
            (Some(_), Some(entry)) => Ok(Root { entry, parent, name }),
            _ => Err(DriveError::NotFound),
        }
    }

    /// The parent of the target and what it says of the name, if a directory may come there.
    async fn free_target(&self, to: &DrivePath) -> Result<(DrivePath, Name, Spot)> {
        let (parent, name) = to.split().ok_or(DriveError::Exists)?;
        let spot = self.spot(&parent, &name).await?;
        self.target(&spot, &parent, false).await?;
        Ok((parent, name, spot))
    }

    async fn attempt(&self, root: &Root, what: What) -> Result<()> {
        let id = OpId::now();
        // IMPORTANT: owned before its record can be met, so that nobody takes it for one of a dead process.
        let owner = self.inner.running.own(id);
        let preparing = self.inner.metrics.preparing();
        let row = Guarded {
            table: op::TABLE,
            row: id.key(),
            checks: vec![Check::Absent(op::phase_column())],
            changes: what.row(),
        };
        let reserve = what.makes_room();
        let recorded = self.inner.tables.commit(Plan { guarded: vec![row], reserve, ..Plan::default() }).await;
        let mut operation = Operation { drive: self, id, what, patience: self.patience_of(id), cells: 0 };
        let done = match recorded {
            Ok(Outcome::Committed) => operation.run(root).await,
            Ok(Outcome::Refused(_)) => return Err(DriveError::Contended),
            Err(error @ StoreError::Unknown { .. }) => Err(Stopped::Failed(error.into())),
            Err(error) => return Err(error.into()),
        };
        let Operation { what, cells, .. } = operation;
        match done {
            Ok(()) => {
                drop(preparing);
                self.finish_in_time(owner, what, cells).await;
                Ok(())
            }
            // Its record tells what became of it: it is settled as one of an earlier process is.
            Err(Stopped::Unknown(error)) => {
                drop(owner);
                self.settle_records();
                Err(error)
            }
            Err(Stopped::Failed(error)) => {
                let undone = self.undo_operation(id, &what).await;
                drop(owner);
                self.or_later(id, undone);
                Err(error)
            }
        }
    }
}

impl Operation<'_> {
    async fn run(&mut self, root: &Root) -> std::result::Result<(), Stopped> {
        self.close().await.map_err(Stopped::Failed)?;
        if let Kind::Move { to } = self.what.kind.clone() {
            self.stage(&to).await.map_err(Stopped::Failed)?;
        }
        self.commit(root).await
    }

    /// The instant.
    async fn commit(&mut self, root: &Root) -> std::result::Result<(), Stopped> {
        let moves = &self.drive.inner.walks.moves;
        for _ in 0..TRIES {
            let plan = self.instant(root).await.map_err(Stopped::Failed)?;
            moves.begin();
            let outcome = self.send(plan).await;
            // What is not known to have ended may yet happen: then nothing is quiet any more.
            if !matches!(outcome, Err(Stopped::Unknown(_))) {
                moves.end();
            }
            match outcome? {
                Outcome::Committed => return Ok(()),
                Outcome::Refused(refusal) if refusal.table == op::TABLE => {
                    return Err(Stopped::Failed(DriveError::Contended));
                }
                Outcome::Refused(refusal) => {
                    self.drive.make_way_for(&refusal, &mut self.patience).await.map_err(Stopped::Failed)?;
                }
            }
        }
        Err(Stopped::Failed(DriveError::Contended))
    }

    /// Sends the commit until it is known what became of it; its record tells.
    async fn send(&self, plan: Plan) -> std::result::Result<Outcome, Stopped> {
        let mut cause = None;
        for _ in 0..TRIES {
            match self.drive.inner.tables.commit(plan.clone()).await {
                Ok(outcome) if cause.is_none() || outcome == Outcome::Committed => return Ok(outcome),
                // Refused after an unknown answer: perhaps by itself.
                Ok(refused) => match self.drive.record(self.id).await {
                    Ok(Some((Phase::Committed, _))) => return Ok(Outcome::Committed),
                    Ok(Some(_)) => return Ok(refused),
                    Ok(None) | Err(_) => break,
                },
                Err(error @ StoreError::Unknown { .. }) => cause = Some(error),
                Err(error) if cause.is_none() => return Err(Stopped::Failed(error.into())),
                // IMPORTANT: that this try was refused, as by a store that takes no more writes, does not tell what
                // became of the one before: the answer stays that nobody knows.
                Err(_) => {}
            }
        }
        Err(Stopped::Unknown(cause.map_or(DriveError::Contended, DriveError::from)))
    }

    /// The plan of the instant, by the parents as they are now.
    async fn instant(&self, root: &Root) -> Result<Plan> {
        let (drive, id) = (self.drive, root.entry.value.id);
        let source = drive.spot(&root.parent, &root.name).await?;
        let Some(live) = source.parent.as_ref() else { return Err(DriveError::Contended) };
        if source.directory.as_ref().is_none_or(|found| found.bytes != root.entry.bytes) {
            return Err(DriveError::Contended);
        }
        let qualifier = dir::directory_qualifier(&root.name);
        let mut checks = live.checks();
        checks.push(Check::Equals(Column::new(dir::SUB, qualifier.clone()), root.entry.bytes.clone()));
        let mut source_row = Guarded {
            table: dir::TABLE,
            row: root.parent.key(),
            checks,
            changes: vec![Change::delete(dir::SUB, qualifier)],
        };
        let mut guarded = vec![op::decide(self.id, Phase::Committed)];
        if let Kind::Move { to } = &self.what.kind {
            let (parent, name, spot) = drive.free_target(to).await?;
            let Some(target) = spot.parent.as_ref() else { return Err(DriveError::Contended) };
            let put = Change::put(dir::SUB, dir::directory_qualifier(&name), root.entry.bytes.clone());
            let free = vec![no_directory(&name), spot.file_check(&name)];
            if parent == root.parent {
                source_row.checks.extend(free);
                source_row.changes.push(put);
            } else {
                let checks = [target.checks(), free].concat();
                guarded.push(Guarded { table: dir::TABLE, row: parent.key(), checks, changes: vec![put] });
            }
            guarded.push(self.link(id, live, target, &name).await?);
        }
        guarded.push(source_row);
        Ok(Plan { guarded, reserve: self.what.makes_room(), ..Plan::default() })
    }

    /// The directory's link to its parent, from the old one to the new one.
    async fn link(&self, root: DirId, from: &Live, to: &Live, name: &Name) -> Result<Guarded> {
        let stored = self.drive.inner.tables.cell(dirid::TABLE, root.0.as_bytes(), CF, dirid::LINK).await?;
        let stored = stored.ok_or(DriveError::Contended)?;
        if DirLink::decode(&stored)?.parent != from.id {
            return Err(DriveError::Contended);
        }
        let link = DirLink { parent: to.id, name: name.clone(), operation: self.id.0 };
        let checks = vec![Check::Equals(dirid::column(), stored)];
        Ok(Guarded { table: dirid::TABLE, row: root.key(), checks, changes: link.row() })
    }
}

impl Operation<'_> {
    /// Commits a batch; what others hold is got out of its way.
    async fn commit_all(&mut self, batch: &mut Batch<'_>) -> Result<()> {
        for _ in 0..TRIES {
            let refused = batch.commit().await?;
            if refused.is_empty() {
                return Ok(());
            }
            for (row, refusal) in refused {
                self.drive.make_way_for(&refusal, &mut self.patience).await?;
                batch.add(row);
            }
        }
        Err(DriveError::Contended)
    }
}

/// The path at the target of what lies at `path` below `from`.
fn rebased(path: &DrivePath, from: &DrivePath, to: &DrivePath) -> Result<DrivePath> {
    let rest = path.as_str().get(from.as_str().len()..).unwrap_or_default();
    DrivePath::parse(&format!("{}{rest}", to.as_str())).map_err(|_| DriveError::Outgrown)
}

/// The removal of a record.
fn forget(id: OpId) -> Plan {
    Plan { finish: vec![RowChange { table: op::TABLE, row: id.key(), changes: op::removal() }], ..Plan::default() }
}
