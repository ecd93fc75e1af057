//! Deleting a file, and removing an empty directory.

use super::ask::Condition;
use super::put::drop_version;
use super::spot::{Live, Stored};
use super::{Drive, DriveError, Result};
use crate::schema::dir::{self, DirEntry};
use crate::schema::{DrivePath, Name, dirid};
use crate::table::{Ask, Change, Check, Column, Guarded, Outcome, Plan, RowChange};

impl Drive {
    /// Deletes a file.
    pub async fn delete(&self, path: &DrivePath, condition: &Condition) -> Result<()> {
        let (path, condition) = (path.clone(), condition.clone());
        self.to_the_end(|drive| async move { drive.delete_file(&path, &condition).await }).await
    }

    async fn delete_file(&self, path: &DrivePath, condition: &Condition) -> Result<()> {
        let (parent, name) = path.split().ok_or(DriveError::Root)?;
        let mut patience = self.patience();
        loop {
            patience.again().await?;
            let spot = self.spot(&parent, &name).await?;
            let Some(live) = &spot.parent else {
                return Err(match self.no_parent(&parent).await {
                    DriveError::ParentMissing if condition.holds(None) => DriveError::NotFound,
                    DriveError::ParentMissing => DriveError::Precondition,
                    error => error,
                });
            };
            if spot.directory.is_some() {
                return Err(DriveError::IsDirectory);
            }
            if !condition.holds(spot.file.as_ref().map(|file| file.value.id)) {
                return Err(DriveError::Precondition);
            }
            let Some(file) = &spot.file else {
                return Err(DriveError::NotFound);
            };
            let mut checks = live.checks();
            checks.push(spot.file_check(&name));
            let changes = vec![Change::delete(dir::SUB, dir::file_qualifier(&name))];
            let plan = Plan {
                guarded: vec![Guarded { table: dir::TABLE, row: parent.key(), checks, changes }],
                finish: drop_version(&file.value, live.id, &name),
                ..Plan::default()
            };
            match self.inner.tables.commit(plan).await? {
                Outcome::Committed => {
                    self.dropped(spot.file.as_ref());
                    return Ok(());
                }
                Outcome::Refused(refusal) => self.make_way_for(&refusal, &mut patience).await?,
            }
        }
    }

    /// Removes a directory that is empty.
    pub async fn rmdir(&self, path: &DrivePath) -> Result<()> {
        let path = path.clone();
        self.to_the_end(|drive| async move { drive.remove_directory(&path).await }).await
    }

    async fn remove_directory(&self, path: &DrivePath) -> Result<()> {
        let (parent, name) = path.split().ok_or(DriveError::Root)?;
        let mut patience = self.patience();
        loop {
            patience.again().await?;
            let spot = self.spot(&parent, &name).await?;
            let Some(live) = &spot.parent else {
                return Err(match self.no_parent(&parent).await {
                    DriveError::ParentMissing => DriveError::NotFound,
                    error => error,
                });
            };
            let Some(directory) = &spot.directory else {
                return Err(DriveError::NotFound);
            };
            let ask = Ask::cells(vec![dir::id_column(), dir::state_column()]);
            // None: removed between the two reads.
            let Some(child) = Live::of(&self.row(path, &ask).await?)? else { continue };
            if child.id != directory.value.id {
                continue;
            }
            let plan = rmdir(&parent, live, &name, directory, path, &child);
            match self.inner.tables.commit(plan).await? {
                Outcome::Committed => return Ok(()),
                Outcome::Refused(refusal) if matches!(refusal.check, Check::FamilyEmpty(_)) => {
                    return Err(DriveError::NotEmpty);
                }
                Outcome::Refused(refusal) => self.make_way_for(&refusal, &mut patience).await?,
            }
        }
    }
}

/// rmdir: the directory's row goes with its name, at one instant; its id's row after it.
fn rmdir(
    parent: &DrivePath,
    live: &Live,
    name: &Name,
    directory: &Stored<DirEntry>,
    path: &DrivePath,
    child: &Live,
) -> Plan {
    let mut empty = child.checks();
    empty.push(Check::FamilyEmpty(dir::SUB));
    let mut named = live.checks();
    let qualifier = dir::directory_qualifier(name);
    named.push(Check::Equals(Column::new(dir::SUB, qualifier.clone()), directory.bytes.clone()));
    let unlink = vec![Change::delete(dir::SUB, qualifier)];
    Plan {
        guarded: vec![
            Guarded { table: dir::TABLE, row: path.key(), checks: empty, changes: dir::removal() },
            Guarded { table: dir::TABLE, row: parent.key(), checks: named, changes: unlink },
        ],
        finish: vec![RowChange { table: dirid::TABLE, row: child.id.key(), changes: dirid::removal() }],
        ..Plan::default()
    }
}
