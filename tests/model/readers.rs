//! Readers: a listing, and a query that settles a hint.

use crate::bugs::Bug;
use crate::held::read;
use crate::io::{Io, Run, Told};
use crate::store::Standing;
use crate::tree::{Id, Kind, Path, ROOT, path};

/// A listing, or a stat: one row, by the reading table.
pub fn list(io: &mut Io<'_>, at: Path) -> Run<Told> {
    let row = read(io, at)?;
    Ok(Told::Read(row.map(|row| (row.id, row.sub))))
}

/// Where a file is, from a hint that says where it was.
pub fn find(io: &mut Io<'_>, file: Id) -> Run<Told> {
    let (dir, name) = io.scene.tree().files[&file];
    let mut at = Standing { dir, name, by: 0 };
    let mut said = None;
    loop {
        if let Some(path) = look_for(io, at, file)? {
            return Ok(Told::Found(Some(path)));
        }
        match io.file(file)? {
            // Gone, or twice the same and not there in between.
            None => return Ok(Told::Found(None)),
            stands if stands == said => return Ok(Told::Found(None)),
            stands => said = stands,
        }
        at = said.unwrap_or(at);
    }
}

/// Whether the file stands at this name of this directory, wherever that is now.
fn look_for(io: &mut Io<'_>, at: Standing, file: Id) -> Run<Option<Path>> {
    let mut before: Option<Vec<Option<Standing>>> = None;
    loop {
        let (walk, dir) = walk(io, at.dir)?;
        if before.as_ref() == Some(&walk) {
            return Ok(None); // not there, between two equal walks
        }
        if let Some(dir) = dir
            && let Some(row) = read(io, dir)?.filter(|row| row.id == at.dir)
        {
            let found = row.sub.get(&(Kind::File, at.name)) == Some(&file);
            return Ok(found.then(|| dir.join(at.name)));
        }
        if io.bug(Bug::FindWalksOnce) {
            return Ok(None);
        }
        before = Some(walk);
    }
}

/// From a directory up to the root: what was read, and the path it makes.
fn walk(io: &mut Io<'_>, mut dir: Id) -> Run<(Vec<Option<Standing>>, Option<Path>)> {
    let mut steps = Vec::new();
    while dir != ROOT {
        let mut stands = io.dirid(dir)?;
        if io.bug(Bug::FindIgnoresOperations) {
            stands = stands.map(|stands| Standing { by: 0, ..stands });
        }
        steps.push(stands);
        let Some(stands) = stands else { return Ok((steps, None)) };
        dir = stands.dir;
    }
    let at = steps.iter().rev().flatten().fold(path("/"), |at, stands| at.join(stands.name));
    Ok((steps, Some(at)))
}
