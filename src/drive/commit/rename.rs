//! Moving a file.

use super::arrivals::Arrival;
use super::ask::{Made, Node};
use super::put::drop_version;
use super::spot::{Live, Spot, Stored, no_directory};
use super::{Drive, DriveError, Result};
use crate::schema::dir::{self, Entry};
use crate::schema::file::{self, Standing};
use crate::schema::index::Indexed;
use crate::schema::{CF, DrivePath, Name, Place};
use crate::table::{Change, Check, Column, Guarded, Outcome, Plan};

/// A path, and what was read of it.
struct End<'a> {
    parent: &'a DrivePath,
    name: &'a Name,
    live: &'a Live,
    spot: &'a Spot,
}

impl Drive {
    /// Moves a file or a directory: it keeps its id, times, creator and type. With `overwrite` a file may replace
    /// a file.
    pub async fn move_node(&self, from: &DrivePath, to: &DrivePath, overwrite: bool) -> Result<Made> {
        let (from, to) = (from.clone(), to.clone());
        self.to_the_end(|drive| async move { drive.relocate(&from, &to, overwrite).await }).await
    }

    async fn relocate(&self, from: &DrivePath, to: &DrivePath, overwrite: bool) -> Result<Made> {
        let (from_parent, from_name) = from.split().ok_or(DriveError::Root)?;
        let (to_parent, to_name) = ends(from, to)?;
        let mut patience = self.patience();
        loop {
            patience.again().await?;
            let source = self.spot(&from_parent, &from_name).await?;
            if source.parent.is_some() && source.directory.is_some() {
                return self.move_directory(from, to).await;
            }
            let (Some(source_live), Some(file)) = (&source.parent, &source.file) else {
                return Err(DriveError::NotFound);
            };
            let target = self.spot(&to_parent, &to_name).await?;
            let target_live = match self.target(&target, &to_parent, overwrite).await {
                Ok(live) if target.file.as_ref().is_none_or(|there| there.value.id != file.value.id) => live,
                // The two were read at two instants. The file itself stands at the target: somebody has just moved it
                // there, and what was read of the source is no more. The same may be why the target is refused.
                Ok(_) => continue,
                Err(error) => {
                    let again = self.spot(&from_parent, &from_name).await?;
                    if again.file.is_none_or(|there| there.bytes != file.bytes) {
                        continue;
                    }
                    return Err(error);
                }
            };
            let source_end = End { parent: &from_parent, name: &from_name, live: source_live, spot: &source };
            let target_end = End { parent: &to_parent, name: &to_name, live: target_live, spot: &target };
            // IMPORTANT: every try draws a new place, so that removing the hints of a refused one can never
            // remove those of another.
            let moved = Entry { place: Place::random(), ..file.value.clone() };
            let plan = relocate(&source_end, &target_end, file, &moved);
            let prepared = plan.prepare.clone();
            let replaces = target.file.as_ref().map(|there| there.value.id);
            let arrival = Arrival::new(moved.id, replaces, true, &prepared);
            let commit = self.inner.arrivals.counted(arrival, self.inner.tables.commit(plan));
            match self.inner.file_moves.counted(commit).await? {
                Outcome::Committed => {
                    self.dropped(target.file.as_ref());
                    let node = Node::File { path: to.clone(), entry: moved };
                    return Ok(Made { node, new: target.file.is_none() });
                }
                Outcome::Refused(refusal) => {
                    self.undo(prepared).await;
                    self.make_way_for(&refusal, &mut patience).await?;
                }
            }
        }
    }

    /// The directory that a move or copy goes to, if what stands at its end allows it.
    pub(super) async fn target<'a>(&self, target: &'a Spot, parent: &DrivePath, overwrite: bool) -> Result<&'a Live> {
        let Some(live) = &target.parent else {
            return Err(self.no_parent(parent).await);
        };
        if target.directory.is_some() || (target.file.is_some() && !overwrite) {
            return Err(DriveError::Exists);
        }
        Ok(live)
    }
}

/// The parent and name of the target, if the pair of paths makes sense at all.
pub(super) fn ends(from: &DrivePath, to: &DrivePath) -> Result<(DrivePath, Name)> {
    if from == to {
        return Err(DriveError::Exists);
    }
    if to.is_within(from) {
        return Err(DriveError::IntoItself);
    }
    to.split().ok_or(DriveError::Exists)
}

/// Move of a file: both names and the file row change at one instant; new hints before, old ones after.
fn relocate(source: &End<'_>, target: &End<'_>, file: &Stored<Entry>, moved: &Entry) -> Plan {
    let id = moved.id;
    let attributes = &moved.attributes;
    let old = Standing { dir: source.live.id, name: source.name.clone(), place: file.value.place };
    let new = Standing { dir: target.live.id, name: target.name.clone(), place: moved.place };
    let take = Change::delete(dir::SUB, dir::file_qualifier(source.name));
    let put = Change::put(dir::SUB, dir::file_qualifier(target.name), moved.encode());
    let mut source_checks = source.live.checks();
    source_checks.push(source.spot.file_check(source.name));
    let target_checks = vec![no_directory(target.name), target.spot.file_check(target.name)];
    let mut guarded = if source.parent == target.parent {
        let checks = [source_checks, target_checks].concat();
        vec![Guarded { table: dir::TABLE, row: source.parent.key(), checks, changes: vec![take, put] }]
    } else {
        let target_checks = [target.live.checks(), target_checks].concat();
        vec![
            Guarded { table: dir::TABLE, row: source.parent.key(), checks: source_checks, changes: vec![take] },
            Guarded { table: dir::TABLE, row: target.parent.key(), checks: target_checks, changes: vec![put] },
        ]
    };
    let place = Check::Equals(Column::new(CF, file::PLACE), file::encode_place(&old.place));
    guarded.push(Guarded { table: file::TABLE, row: id.key(), checks: vec![place], changes: new.row() });
    let mut finish = Indexed { id, attributes, standing: &old }.remove();
    if let Some(replaced) = &target.spot.file {
        finish.extend(drop_version(&replaced.value, target.live.id, target.name));
    }
    Plan { prepare: Indexed { id, attributes, standing: &new }.put(), guarded, finish, ..Plan::default() }
}
