//! Moving and copying a file.

use futures_util::{StreamExt, pin_mut};

use super::ask::{Condition, Made, Node};
use super::put::{NewFile, Terms, drop_version};
use super::spot::{Live, Spot, Stored, no_directory};
use super::{Drive, DriveError, Result, TRIES};
use crate::content::{ContentError, Staged};
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
    /// Moves a file: it keeps its id, times, creator and type. With `overwrite` it may replace a file.
    pub async fn move_node(&self, from: &DrivePath, to: &DrivePath, overwrite: bool) -> Result<Made> {
        let (from, to) = (from.clone(), to.clone());
        self.to_the_end(|drive| async move { drive.move_file(&from, &to, overwrite).await }).await
    }

    async fn move_file(&self, from: &DrivePath, to: &DrivePath, overwrite: bool) -> Result<Made> {
        let (from_parent, from_name) = from.split().ok_or(DriveError::Root)?;
        let (to_parent, to_name) = ends(from, to)?;
        for _ in 0..TRIES {
            let source = self.spot(&from_parent, &from_name).await?;
            let (Some(source_live), Some(file)) = (&source.parent, &source.file) else {
                return Err(missing(&source));
            };
            let target = self.spot(&to_parent, &to_name).await?;
            let target_live = self.target(&target, &to_parent, overwrite).await?;
            let source_end = End { parent: &from_parent, name: &from_name, live: source_live, spot: &source };
            let target_end = End { parent: &to_parent, name: &to_name, live: target_live, spot: &target };
            // IMPORTANT: every try draws a new place, so that removing the hints of a refused one can never
            // remove those of another.
            let moved = Entry { place: Place::random(), ..file.value.clone() };
            let plan = relocate(&source_end, &target_end, file, &moved);
            let prepared = plan.prepare.clone();
            match self.inner.tables.commit(plan).await? {
                Outcome::Committed => {
                    self.dropped(target.file.as_ref());
                    let node = Node::File { path: to.clone(), entry: moved };
                    return Ok(Made { node, new: target.file.is_none() });
                }
                Outcome::Refused(_) => self.undo(prepared).await,
            }
        }
        Err(DriveError::Contended)
    }

    /// Copies a file: a new version with the content, `modified` and type of the source.
    pub async fn copy_node(&self, from: &DrivePath, to: &DrivePath, overwrite: bool, creator: &str) -> Result<Made> {
        let (from_parent, from_name) = from.split().ok_or(DriveError::Root)?;
        let (to_parent, to_name) = ends(from, to)?;
        let source = self.spot(&from_parent, &from_name).await?;
        if source.parent.is_none() || source.file.is_none() {
            return Err(missing(&source));
        }
        // Asked before the content is copied, and again by the commit.
        let target = self.spot(&to_parent, &to_name).await?;
        self.target(&target, &to_parent, overwrite).await?;
        let (staged, attributes) = self.copy_content(from).await?;
        let new = NewFile { mime: attributes.mime, creator: creator.to_owned(), modified: Some(attributes.modified) };
        let terms = Terms { condition: Condition::default(), parents: false, replace: overwrite };
        match self.store(to, staged, new, terms).await {
            Err(DriveError::IsDirectory) => Err(DriveError::Exists),
            other => other,
        }
    }

    /// The content of a file staged anew, every byte of it verified on the way.
    async fn copy_content(&self, from: &DrivePath) -> Result<(Staged, file::Attributes)> {
        for _ in 0..TRIES {
            let opened = self.open_file(from).await?;
            let attributes = opened.entry.attributes;
            let mut upload = self.upload();
            let stream = opened.body.stream(0, attributes.size);
            pin_mut!(stream);
            let mut gone = false;
            while let Some(chunk) = stream.next().await {
                match chunk {
                    Ok(bytes) => upload.write(bytes).await?,
                    Err(ContentError::Gone(_)) => {
                        gone = true; // replaced meanwhile: copy the new version
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if gone {
                continue;
            }
            let staged = upload.finish().await?;
            if staged.digest != attributes.digest {
                let what = "the content differs from its digest".to_owned();
                return Err(ContentError::Damaged { id: opened.entry.id, what }.into());
            }
            return Ok((staged, attributes));
        }
        Err(DriveError::Contended)
    }

    /// The directory that a move or copy goes to, if what stands at its end allows it.
    async fn target<'a>(&self, target: &'a Spot, parent: &DrivePath, overwrite: bool) -> Result<&'a Live> {
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
fn ends(from: &DrivePath, to: &DrivePath) -> Result<(DrivePath, Name)> {
    if from == to {
        return Err(DriveError::Exists);
    }
    if to.is_within(from) {
        return Err(DriveError::IntoItself);
    }
    to.split().ok_or(DriveError::Exists)
}

/// Why there is no file to move or copy.
fn missing(source: &Spot) -> DriveError {
    match (&source.parent, &source.directory) {
        (Some(_), Some(_)) => DriveError::Subtree,
        _ => DriveError::NotFound,
    }
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
    Plan { prepare: Indexed { id, attributes, standing: &new }.put(), guarded, finish }
}
