//! Adds a file to the directory of an upload share. Nothing is replaced: if its name is taken, it gets a number.
//!
//! To read it: [`add`] checks, reads the body and stages the content, as [`put`](super::put) does, and runs the retry loop
//! with the decision of that. Each attempt finds the directory by its id, and the name that is free there now. No name is
//! looked up before: what refuses an upload must not take longer if its name is taken.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;

use super::Committer;
use super::Decision;
use super::body::{finish, read_body};
use super::put::{NewVersion, PutRules, conclude, decide};
use super::reserved::Reserved;
use crate::auth::{Access, Requester};
use crate::budget::Budget;
use crate::content::StagedContent;
use crate::drive::attempts::Caller;
use crate::drive::error::{DriveError, PutError, Result};
use crate::drive::model::{Condition, PutOptions, Written};
use crate::drive::namespace::Namespace;
use crate::drive::namespace::dir_paths::DirPath;
use crate::drive::namespace::lookup::{NameLookup, lookup};
use crate::drive::rights::Rights;
use crate::drive::settings::TRIES;
use crate::schema::path::{NAME_BYTES, PATH_BYTES, PathError};
use crate::schema::share::ShareTarget;
use crate::schema::usage::UsageChange;
use crate::schema::{DirId, DrivePath, FileId, Name};

/// An extension is shorter: what is longer belongs to the name.
const EXTENSION_BYTES: usize = 32;

/// The numbers of names of which up to so many are taken are low ones, found in steps that double. Then they are random: a
/// stranger who takes the names of all steps takes no time from others.
const DENSE: u32 = 1 << 20;
/// Names that are looked up at most to find one that is free: 20 steps up, as many back, and random ones.
const LOOKUPS: usize = 60;

/// A new file is stored, or nothing.
const RULES: PutRules = PutRules {
    source: None,
    condition: Condition { if_match: None, if_none_match: None },
    parents: false,
    replace: false,
};

/// Where the directory is.
struct Place {
    path: DrivePath,
    /// Read before all else.
    links: DirPath,
}

impl Place {
    /// None if it moves meanwhile.
    ///
    /// Errors: [`DriveError::NotFound`] if it is gone.
    async fn read(ns: &Namespace, dir: DirId) -> Result<Option<Self>> {
        let links = ns.dir_paths.read_path(dir).await?;
        if let Some(path) = links.path.clone() {
            return Ok(Some(Self { path, links }));
        }
        let is_gone = ns.dir_paths.read_path(dir).await? == links;
        if is_gone { Err(DriveError::NotFound) } else { Ok(None) }
    }

    /// Whether an error is of this place: it need not be of the directory, if that has moved meanwhile.
    async fn has(&self, ns: &Namespace, dir: DirId, error: &DriveError) -> Result<bool> {
        use DriveError::{Forbidden, NotFound, ParentIsFile, ParentMissing};
        let is_of_path = matches!(error, Forbidden | NotFound | ParentIsFile | ParentMissing);
        Ok(!is_of_path || ns.dir_paths.read_path(dir).await? == self.links)
    }

    /// Bytes that the path of a file has for its name.
    fn room(&self) -> usize {
        NAME_BYTES.min(PATH_BYTES.saturating_sub(self.path.before_slash().len() + 1))
    }
}

/// See [`UserDrive::add`](crate::drive::UserDrive::add). `memory`: what its buffers are of. The caller polls it until it
/// ends, or drops it.
pub async fn add<E>(
    committer: &Arc<Committer>,
    (requester, memory): (&Requester, Budget),
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
    let upload = committer.content.upload().of_stranger(memory);
    let upload = read_body(committer, upload, (length, body), &mut reserved).await?;
    let (staged, new) = (finish(committer, upload, &digests).await?, NewVersion { mime, creator, modified });
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
        let reserved = reserve(committer, rights.access(), options).await?;
        let Some(place) = Place::read(ns, dir).await? else { continue };
        // The commit decides anew, and is guarded.
        let may_write = rights.write_in(&place.path).await;
        if let Err(error) = &may_write
            && !place.has(ns, dir, error).await?
        {
            continue;
        }
        let _may_write = may_write?;
        numbered(name, 1, place.room())?;
        ns.tables.has_space().await?;
        return Ok(reserved);
    }
    Err(DriveError::Contended)
}

/// Refuses what has no room now by its length. A stranger holds only the bytes that he has sent: one who sends slowly would
/// else take all that is left to the maker, for as long as he likes. The file itself is counted at the commit.
async fn reserve(committer: &Committer, access: &Access, options: &PutOptions) -> Result<Reserved> {
    let mut reserved = Reserved::new(&committer.under_way, access, &UsageChange::default(), None).await?;
    reserved.check_room(options.length.unwrap_or(0)).await?;
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
        let Some(place) = Place::read(ns, dir).await? else { return Ok(Decision::Again) };
        let Some((name, found)) = free_name(ns, dir, &place, name).await? else { return Ok(Decision::Again) };
        let (at, looked_up) = ((&place.path, &name), (ids, Some(found)));
        match decide((committer, requester), at, looked_up, staged, new, &RULES).await {
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

/// A name that is free in the directory, as it was looked up; none if the directory moves meanwhile.
///
/// What is taken is read in steps that double, and then halve: of a hundred files of one name 14 are read. In between names
/// may be free again, so the number need not be the lowest.
async fn free_name(ns: &Namespace, dir: DirId, place: &Place, name: &Name) -> Result<Option<(Name, NameLookup)>> {
    let (mut taken, mut free, mut found) = (0, 1, None);
    for _ in 0..LOOKUPS {
        let number = match found {
            None => free,
            Some(_) if taken + 1 < free && free <= DENSE => taken + (free - taken) / 2,
            Some(_) => break,
        };
        let name = numbered(name, number, place.room())?;
        let looked_up = lookup(ns, &place.path, &name).await?;
        if looked_up.parent.as_ref().is_none_or(|live| live.id != dir) {
            return Ok(None);
        }
        if looked_up.file.is_none() && looked_up.directory.is_none() {
            (free, found) = (number, Some((name, looked_up)));
            continue;
        }
        taken = number;
        if found.is_none() {
            free = if number < DENSE { 2 * number } else { random_number() };
        }
    }
    Ok(found)
}

/// More than [`DENSE`] but by chance.
fn random_number() -> u32 {
    FileId::random().0.as_fields().0 | DENSE
}

/// `a.jpg` as `a (2).jpg`. The first one has no number. `room`: bytes, a name that would be longer is cut before its number.
///
/// Errors: the path would be too long with the longest number, whatever this one is: else it would show that a name is taken.
fn numbered(name: &Name, number: u32, room: usize) -> Result<Name> {
    let text = name.as_str();
    let dot = text.rfind('.').filter(|dot| *dot > 0 && text.len() - dot <= EXTENSION_BYTES);
    let (stem, extension) = text.split_at(dot.unwrap_or(text.len()));
    let with_number = |number: u32| format!(" ({number}){extension}");
    let least = stem.chars().next().map_or(0, char::len_utf8) + with_number(u32::MAX).len();
    if room < least {
        return Err(PathError::TooLong(PATH_BYTES - room + least).into());
    }
    let end = if number < 2 { extension.to_owned() } else { with_number(number) };
    let stem = stem.get(..stem.floor_char_boundary(room - end.len())).unwrap_or_default();
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
            (&format!("{}.jpg", &long[..251]), u32::MAX, format!("{} ({}).jpg", &long[..238], u32::MAX)),
        ] {
            let found = numbered(&Name::parse(name).unwrap(), number, NAME_BYTES).unwrap();
            assert_eq!(found.as_str(), expected);
        }
        for (number, expected) in
            [(1, "long name is l.jpg"), (2, "long name  (2).jpg"), (u32::MAX, "l (4294967295).jpg")]
        {
            let found = numbered(&Name::parse("long name is long.jpg").unwrap(), number, 18).unwrap();
            assert_eq!(found.as_str(), expected);
        }
        // Whether a name is taken does not show where its path is almost too long.
        for number in [1, 2, u32::MAX] {
            for (name, least) in [("a.jpg", 18), ("\u{fc}", 15), ("a", 14)] {
                let found = |room| numbered(&Name::parse(name).unwrap(), number, room);
                assert!(found(least).is_ok() && found(least - 1).is_err(), "{name} {number}");
            }
        }
    }
}
