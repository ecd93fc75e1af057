//! Readers: a listing, and a query that verifies an index row.

use crate::bugs::Bug;
use crate::io::{ActorResult, Io, Reply};
use crate::locks::read;
use crate::store::Placement;
use crate::tree::{Id, Kind, Path, ROOT, path};

/// A listing, or a stat: one row, read as [`read`] describes.
pub fn list(io: &mut Io<'_>, at: Path) -> ActorResult<Reply> {
    let row = read(io, at)?;
    Ok(Reply::Read(row.map(|row| (row.id, row.sub))))
}

/// Finds a file from an index entry with a former position.
pub fn find(io: &mut Io<'_>, file: Id) -> ActorResult<Reply> {
    let (dir, name) = io.scene.tree().files[&file];
    let mut at = Placement { dir, name, by: 0 };
    let mut said = None;
    loop {
        if let Some(path) = find_in_dir(io, at, file)? {
            return Ok(Reply::Found(Some(path)));
        }
        match io.file(file)? {
            // The file is deleted, or it had the same position twice and was not there in between.
            None => return Ok(Reply::Found(None)),
            placed if placed == said => return Ok(Reply::Found(None)),
            placed => said = placed,
        }
        at = said.unwrap_or(at);
    }
}

/// The path of the file, if it has this name in this directory, wherever the directory is now.
fn find_in_dir(io: &mut Io<'_>, at: Placement, file: Id) -> ActorResult<Option<Path>> {
    let mut before: Option<Vec<Option<Placement>>> = None;
    loop {
        let (steps, dir) = lookup_path(io, at.dir)?;
        if before.as_ref() == Some(&steps) {
            return Ok(None); // not there, between two equal lookups
        }
        if let Some(dir) = dir
            && let Some(row) = read(io, dir)?.filter(|row| row.id == at.dir)
        {
            let found = row.sub.get(&(Kind::File, at.name)) == Some(&file);
            return Ok(found.then(|| dir.join(at.name)));
        }
        if io.bug(Bug::FindLooksUpOnce) {
            return Ok(None);
        }
        before = Some(steps);
    }
}

/// Follows the parents up to the root: the rows that were read, and the resulting path.
fn lookup_path(io: &mut Io<'_>, mut dir: Id) -> ActorResult<(Vec<Option<Placement>>, Option<Path>)> {
    let mut steps = Vec::new();
    while dir != ROOT {
        let mut placed = io.dirid(dir)?;
        if io.bug(Bug::FindIgnoresOperations) {
            placed = placed.map(|placed| Placement { by: 0, ..placed });
        }
        steps.push(placed);
        let Some(placed) = placed else { return Ok((steps, None)) };
        dir = placed.dir;
    }
    let at = steps.iter().rev().flatten().fold(path("/"), |at, placed| at.join(placed.name));
    Ok((steps, Some(at)))
}
