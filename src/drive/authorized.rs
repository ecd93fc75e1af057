//! Lookups, lists and content of what a requester may read: the rest is as if it were missing.

use bytes::Bytes;

use super::error::{DriveError, Result};
use super::model::{ListQuery, Listing, Node, NodeKind, OpenFile, StoredListing};
use super::namespace::Namespace;
use super::namespace::list;
use super::namespace::lookup::{self, children};
use super::open;
use super::rights::{Look, Sight};
use super::settings::TRIES;
use super::watch::WatchedContent;
use crate::auth::{Requester, Ways};
use crate::content::Content;
use crate::schema::dir::{self, FileEntry};
use crate::schema::{DirId, DrivePath, Name};

/// What `read` finds at a path with a look at it, which it gives back. It reads again if the look holds no more.
async fn look_at<'a, T, F>(
    ns: &'a Namespace,
    requester: &Requester,
    path: &'a DrivePath,
    read: impl Fn(Look<'a>) -> F,
) -> Result<T>
where
    F: Future<Output = (Look<'a>, Result<T>)>,
{
    for attempt in 0..TRIES {
        let (look, found) = read(Look::at(ns, requester, path, attempt).await?).await;
        if look.holds().await? {
            return found;
        }
    }
    Err(DriveError::Contended)
}

/// As [`look_at`], for one entry: the first look is at the [directories above it](Look::above).
async fn look_at_entry<'a, T, F>(
    ns: &'a Namespace,
    requester: &Requester,
    path: &'a DrivePath,
    read: impl Fn(Look<'a>) -> F,
) -> Result<T>
where
    F: Future<Output = (Look<'a>, Result<T>)>,
{
    if let Some(look) = Look::above(ns, requester, path).await? {
        let (look, found) = read(look).await;
        if found.is_ok() && look.holds().await? {
            return found;
        }
    }
    look_at(ns, requester, path, read).await
}

/// The file or directory at a path.
pub async fn stat(ns: &Namespace, requester: &Requester, path: &DrivePath) -> Result<Node> {
    look_at_entry(ns, requester, path, |look| async move {
        let found = stat_in(ns, &look.sight, path).await;
        (look, found)
    })
    .await
}

/// The file or directory at a path that the requester copies.
///
/// Errors: [`DriveError::Forbidden`] if he sees of a directory only what leads elsewhere.
pub async fn source_of_copy(ns: &Namespace, requester: &Requester, path: &DrivePath) -> Result<Node> {
    look_at(ns, requester, path, |look| async move {
        let found = match stat_in(ns, &look.sight, path).await {
            Ok(_) if !look.sight.is_whole() => Err(DriveError::Forbidden),
            found => found,
        };
        (look, found)
    })
    .await
}

/// As [`stat`], with what the requester sees at this path.
pub async fn stat_in(ns: &Namespace, sight: &Sight, path: &DrivePath) -> Result<Node> {
    let node = lookup::stat(ns, path).await?;
    if sight.shows(&node) { Ok(node) } else { Err(DriveError::NotFound) }
}

/// A page of the children of a directory.
pub async fn list(ns: &Namespace, requester: &Requester, path: &DrivePath, ask: &ListQuery) -> Result<Listing> {
    let listing = list_stored(ns, requester, path, ask).await?;
    let nodes = listing.nodes().map(|node| node?.to_owned()).collect::<Result<_>>()?;
    Ok(Listing { nodes, next: listing.next })
}

/// A page of the children of a directory, not decoded.
pub async fn list_stored(
    ns: &Namespace,
    requester: &Requester,
    path: &DrivePath,
    ask: &ListQuery,
) -> Result<StoredListing> {
    look_at(ns, requester, path, |look| async move {
        let found = match look.sight.ways_in(path) {
            Some((dir, ways)) => list_ways(ns, path, (dir, ways), ask).await,
            None if look.sight.is_whole() => list::list_stored(ns, path, ask).await,
            None => Err(DriveError::NotFound),
        };
        (look, found)
    })
    .await
}

/// A page of the directories that lead to what the requester may read.
async fn list_ways(
    ns: &Namespace,
    path: &DrivePath,
    (dir, ways): (DirId, &Ways),
    ask: &ListQuery,
) -> Result<StoredListing> {
    let mut listing = StoredListing { directory: path.clone(), cells: Vec::new(), next: None };
    if ask.kind == Some(NodeKind::File) {
        return Ok(listing);
    }
    let wanted = |name: &&Name| name.as_str().starts_with(&ask.prefix);
    let mut qualifiers: Vec<Bytes> = ways.names(dir).filter(wanted).map(dir::directory_qualifier).collect();
    qualifiers.retain(|qualifier| ask.after.as_ref().is_none_or(|after| qualifier > after));
    qualifiers.sort_unstable();
    // Some may have been removed since the ways were found: then more are read.
    let mut left = qualifiers.into_iter().peekable();
    while listing.cells.len() <= ask.limit {
        let some = left.by_ref().take(ask.limit.saturating_add(1) - listing.cells.len()).collect();
        listing.cells.extend(children(ns, path, some).await?);
        if left.peek().is_none() {
            break;
        }
    }
    if listing.cells.len() > ask.limit {
        listing.cells.truncate(ask.limit);
        listing.next = listing.cells.last().map(|cell| cell.qualifier.clone());
    }
    Ok(listing)
}

/// One version of a file: attributes and content belong together.
pub async fn open_file(ns: &Namespace, content: &Content, requester: &Requester, path: &DrivePath) -> Result<OpenFile> {
    look_at_entry(ns, requester, path, |look| async move {
        let found = if look.sight.is_whole() {
            open::open_file(ns, content, path).await
        } else {
            // He sees no files here.
            stat_in(ns, &look.sight, path).await.and(Err(DriveError::IsDirectory))
        };
        (look, found)
    })
    .await
}

/// The content of the version that was found at `path`; see [`open::open_content`].
pub async fn open_content(
    ns: &Namespace,
    content: &Content,
    requester: &Requester,
    path: &DrivePath,
    entry: &FileEntry,
) -> Result<WatchedContent> {
    look_at_entry(ns, requester, path, |look| async move {
        let found = if look.sight.is_whole() {
            let body = open::open_content(ns, content, path, entry).await;
            body.map(|body| WatchedContent::new(ns, requester, path, (&look.sight, body)))
        } else {
            Err(DriveError::NotFound)
        };
        (look, found)
    })
    .await
}
