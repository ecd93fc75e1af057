//! Adds a file to the directory of an upload share. Nothing is replaced: if its name is taken, it gets a number.
//!
//! To read it: [`add`] checks, reads the body and stages the content, as [`put`](super::put) does, and runs the retry loop
//! with the decision of that. Each attempt finds the directory by its id, and the name that is free there now.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;

use super::Committer;
use super::Decision;
use super::put::{NewVersion, PutRules, conclude, decide, finish, read_body};
use super::reserved::Reserved;
use crate::auth::{Access, Requester};
use crate::content::StagedContent;
use crate::drive::attempts::Caller;
use crate::drive::error::{DriveError, PutError, Result};
use crate::drive::model::{Condition, PutOptions, Written};
use crate::drive::namespace::Namespace;
use crate::drive::namespace::dir_paths::DirPath;
use crate::drive::namespace::lookup::{NameLookup, lookup};
use crate::drive::rights::Rights;
use crate::drive::settings::TRIES;
use crate::schema::path::{NAME_BYTES, PATH_BYTES};
use crate::schema::share::ShareTarget;
use crate::schema::usage::UsageChange;
use crate::schema::{DirId, DrivePath, Name};

/// An extension is shorter: what is longer belongs to the name.
const EXTENSION_BYTES: usize = 32;

/// A new file is stored, or nothing.
const RULES: PutRules = PutRules {
    source: None,
    condition: Condition { if_match: None, if_none_match: None },
    parents: false,
    replace: false,
};

/// Where a file can be added.
struct Place {
    parent: DrivePath,
    name: Name,
    /// Nothing has this name.
    found: Option<NameLookup>,
    /// Read before all else.
    links: DirPath,
}

impl Place {
    /// Whether an error is of this place: it need not be of the directory, if that has moved meanwhile.
    async fn has(&self, ns: &Namespace, dir: DirId, error: &DriveError) -> Result<bool> {
        use DriveError::{Forbidden, NotFound, ParentIsFile, ParentMissing};
        let is_of_path = matches!(error, Forbidden | NotFound | ParentIsFile | ParentMissing);
        Ok(!is_of_path || ns.dir_paths.read_path(dir).await? == self.links)
    }
}

/// See [`UserDrive::add`](crate::drive::UserDrive::add). The caller polls it until it ends, or drops it.
pub async fn add<E>(
    committer: &Arc<Committer>,
    requester: &Requester,
    name: &Name,
    options: PutOptions,
    body: impl Stream<Item = std::result::Result<Bytes, E>>,
) -> std::result::Result<Written, PutError<E>> {
    let requester = requester.uploading();
    // His bytes are counted by the share, and his files by his quota.
    let maker = requester.user().ok_or(DriveError::Forbidden)?.as_str().to_owned();
    let options = PutOptions { creator: maker, ..options };
    // IMPORTANT: refuse all that can be refused before the body is polled, as `put` does.
    let mut reserved = check_early(committer, &requester, name, &options).await?;
    let PutOptions { mime, creator, modified, length, digests, .. } = options;
    let upload = read_body(committer.content.upload(), length, body, &mut reserved).await?;
    let (staged, new) = (finish(upload, &digests).await?, NewVersion { mime, creator, modified });
    let adding = |caller| store(committer.clone(), requester, name.clone(), (staged, new, reserved), caller);
    Ok(committer.gate.run_here(adding).await?)
}

/// Checks now what the commit will check again. Returns what it has reserved.
async fn check_early(
    committer: &Committer,
    requester: &Requester,
    name: &Name,
    options: &PutOptions,
) -> Result<Reserved> {
    let ns = &committer.namespace;
    for _ in 0..TRIES {
        let rights = Rights::read(ns, requester).await?;
        let dir = target(rights.access())?;
        // Before the place: a refusal must not take longer if the name is taken.
        let reserved = reserve(committer, rights.access(), options).await?;
        let Some(place) = find_place(ns, dir, name).await? else { continue };
        // The commit decides anew, and is guarded.
        let may_write = rights.write_in(&place.parent).await;
        if let Err(error) = &may_write
            && !place.has(ns, dir, error).await?
        {
            continue;
        }
        let _may_write = may_write?;
        ns.tables.has_space().await?;
        return Ok(reserved);
    }
    Err(DriveError::Contended)
}

/// Refuses what has no room now by its length. A stranger holds only what he has sent: one who sends slowly would else take
/// all that is left to the maker, for as long as he likes.
async fn reserve(committer: &Committer, access: &Access, options: &PutOptions) -> Result<Reserved> {
    let mut usage = UsageChange::default();
    usage.add_content(&options.creator, 0);
    let reserved = Reserved::new(&committer.under_way, access, &usage, None).await?;
    reserved.check_room(options.length.unwrap_or(0))?;
    Ok(reserved)
}

async fn store(
    committer: Arc<Committer>,
    requester: Requester,
    name: Name,
    (staged, new, reserved): (StagedContent, NewVersion, Reserved),
    caller: Caller,
) -> Result<Written> {
    // IMPORTANT: before the plan is sent, as for `put`.
    drop(reserved);
    let (ns, committer, requester, staged, new, name) =
        (&committer.namespace, &committer, &requester, &staged, &new, &name);
    let stored = committer.until_committed(&caller, |ids| async move {
        let access = requester.access().await?;
        let mut usage = UsageChange::default();
        usage.add_content(&new.creator, staged.size);
        // The plan checks it too, but does not tell which check of the account was refused.
        let added = access.user().map(|user| usage.of(user)).unwrap_or_default();
        if access.limits().iter().any(|limited| !limited.fits(Default::default(), added)) {
            return Err(DriveError::Quota);
        }
        let dir = target(&access)?;
        let Some(mut place) = find_place(ns, dir, name).await? else { return Ok(Decision::Again) };
        let (found, at) = (place.found.take(), (&place.parent, &place.name));
        match decide((committer, requester), at, (ids, found), staged, new, &RULES).await {
            Err(error) if !place.has(ns, dir, &error).await? => Ok(Decision::Again),
            decided => decided,
        }
    });
    conclude(committer, staged, stored.await).await
}

/// The directory of the share.
fn target(access: &Access) -> Result<DirId> {
    match access.share().map(|open| open.share.target) {
        Some(ShareTarget::Dir(dir)) => Ok(dir),
        Some(ShareTarget::File(_)) | None => Err(DriveError::Forbidden),
    }
}

/// A free name in the directory, where that is now; none if it moves meanwhile.
///
/// What is taken is read in steps that double, and then halve: of a hundred files of one name 14 are read. In between names
/// may be free again, so the number need not be the lowest.
async fn find_place(ns: &Namespace, dir: DirId, name: &Name) -> Result<Option<Place>> {
    let links = ns.dir_paths.read_path(dir).await?;
    let Some(parent) = links.path.clone() else {
        let is_gone = ns.dir_paths.read_path(dir).await? == links;
        return if is_gone { Err(DriveError::NotFound) } else { Ok(None) };
    };
    // Which names are taken would show if only those without a number had room in the path.
    let room = NAME_BYTES.min(PATH_BYTES.saturating_sub(parent.before_slash().len() + 1));
    let (mut taken, mut free, mut place) = (0, 1, None);
    while place.is_none() || taken + 1 < free {
        let number = if place.is_none() { free } else { taken + (free - taken) / 2 };
        let name = numbered(name, number, room)?;
        let found = lookup(ns, &parent, &name).await?;
        if found.parent.as_ref().is_none_or(|live| live.id != dir) {
            return Ok(None);
        }
        if found.file.is_none() && found.directory.is_none() {
            let place_there = Place { parent: parent.clone(), name, found: Some(found), links: links.clone() };
            (free, place) = (number, Some(place_there));
        } else {
            taken = number;
            free = if place.is_none() { number * 2 } else { free };
        }
    }
    Ok(place)
}

/// `a.jpg` as `a (2).jpg`. The first one has no number. `room`: bytes, a name that would be longer is cut before its number.
fn numbered(name: &Name, number: u64, room: usize) -> Result<Name> {
    let text = name.as_str();
    if number < 2 && text.len() <= room {
        return Ok(name.clone());
    }
    let number = if number < 2 { String::new() } else { format!(" ({number})") };
    let dot = text.rfind('.').filter(|dot| *dot > 0 && text.len() - dot <= EXTENSION_BYTES);
    let (stem, extension) = text.split_at(dot.unwrap_or(text.len()));
    let end = [&number, extension].concat();
    let stem = stem.get(..stem.floor_char_boundary(room.saturating_sub(end.len()))).unwrap_or_default();
    Ok(Name::parse(&[stem, &end].concat())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_before_the_extension() {
        let long = "x".repeat(255);
        let umlauts = "\u{fc}".repeat(127);
        for (name, number, expected) in [
            ("a.jpg", 1, "a.jpg".to_owned()),
            ("a.jpg", 2, "a (2).jpg".to_owned()),
            ("a", 10, "a (10)".to_owned()),
            (".profile", 2, ".profile (2)".to_owned()),
            ("a.tar.gz", 3, "a.tar (3).gz".to_owned()),
            ("a (2).jpg", 2, "a (2) (2).jpg".to_owned()),
            ("a.", 2, "a (2).".to_owned()),
            (&format!("a.{}", "x".repeat(40)), 2, format!("a.{} (2)", "x".repeat(40))),
            (&long, 2, format!("{} (2)", &long[..251])),
            (&umlauts, 2, format!("{} (2)", "\u{fc}".repeat(125))),
            (&format!("{}.jpg", &long[..251]), u64::MAX, format!("{} ({}).jpg", &long[..228], u64::MAX)),
        ] {
            let found = numbered(&Name::parse(name).unwrap(), number, NAME_BYTES).unwrap();
            assert_eq!(found.as_str(), expected);
        }
        for (number, expected) in [(1, "long .jpg"), (2, "l (2).jpg")] {
            let found = numbered(&Name::parse("long name.jpg").unwrap(), number, 9).unwrap();
            assert_eq!(found.as_str(), expected);
        }
    }
}
