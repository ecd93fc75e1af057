//! The drive as a share shows it: paths begin at the directory that it is of, or above the one file.
//!
//! The target is found by its id for each operation, so a share follows a move. What is below it is read at the path that
//! was found, as its requester [may](super::authorized) read it. Another directory may have come to that path meanwhile, so the read
//! counts only if the directory of the share did not move.

use std::collections::HashMap;

use bytes::Bytes;

use super::error::{DriveError, Result};
use super::model::{ListQuery, Node, NodeKind, StoredListing};
use super::namespace::{Namespace, lookup};
use super::rights::Rights;
use super::settings::TRIES;
use super::watch::WatchedContent;
use super::{authorized, granted};
use crate::auth::{DirChain, Requester};
use crate::content::{Content, ContentError};
use crate::schema::dir::{self, FileEntry};
use crate::schema::file::{self, FilePosition};
use crate::schema::share::{Share, ShareMode, ShareTarget};
use crate::schema::{DirId, DrivePath, FileId, Name, file_row};
use crate::table::{Cell, RowQuery};

/// Makes sure that the target of a requester's share is there, and that its maker may do there what the share is for.
/// `share`: as it was read before, so that it is not read again.
pub async fn find_target(ns: &Namespace, requester: &Requester, share: &Share) -> Result<()> {
    match (share.target, share.mode) {
        (ShareTarget::Dir(dir), ShareMode::Read { .. }) => {
            let stat = |at: DrivePath| async move { authorized::stat(ns, requester, &at).await };
            below(ns, dir, &DrivePath::root(), stat).await.map(|_| ())
        }
        (ShareTarget::File(id), ShareMode::Read { .. }) => file(ns, requester, id).await.map(|_| ()),
        (ShareTarget::Dir(dir), ShareMode::Upload { .. }) => {
            let uploading = &requester.uploading();
            below(ns, dir, &DrivePath::root(), |at| async move {
                // Nothing is written, so nothing is guarded.
                let _may_write = Rights::read(ns, uploading).await?.write_in(&at).await?;
                match lookup::stat(ns, &at).await? {
                    Node::Directory { entry, .. } if entry.id == dir => Ok(()),
                    _ => Err(DriveError::NotFound),
                }
            })
            .await
        }
        (ShareTarget::File(_), ShareMode::Upload { .. }) => Err(DriveError::NotFound),
    }
}

/// The file or directory at a path of the share.
pub async fn stat(ns: &Namespace, requester: &Requester, path: &DrivePath) -> Result<Node> {
    match shown_target(requester).await? {
        ShareTarget::Dir(dir) => {
            let found = below(ns, dir, path, |at| async move { authorized::stat(ns, requester, &at).await }).await?;
            Ok(at_path(found, path))
        }
        ShareTarget::File(id) => {
            let (_, found) = file(ns, requester, id).await?;
            let is_named = DrivePath::root().join(&name_of(&found)?)? == *path;
            if is_named { Ok(at_path(found, path)) } else { Err(DriveError::NotFound) }
        }
    }
}

/// A page of the children of a directory of the share.
pub async fn list_stored(
    ns: &Namespace,
    requester: &Requester,
    path: &DrivePath,
    ask: &ListQuery,
) -> Result<StoredListing> {
    match shown_target(requester).await? {
        ShareTarget::Dir(dir) => {
            let list = |at: DrivePath| async move { authorized::list_stored(ns, requester, &at, ask).await };
            let listing = below(ns, dir, path, list).await?;
            Ok(StoredListing { directory: path.clone(), ..listing })
        }
        ShareTarget::File(id) if path.is_root() => {
            let (_, found) = file(ns, requester, id).await?;
            Ok(StoredListing { directory: path.clone(), cells: only(&found, ask)?, next: None })
        }
        ShareTarget::File(_) => Err(DriveError::NotFound),
    }
}

/// The content of the version that was found at a path of the share.
pub async fn open_content(
    ns: &Namespace,
    content: &Content,
    requester: &Requester,
    path: &DrivePath,
    entry: &FileEntry,
) -> Result<WatchedContent> {
    match shown_target(requester).await? {
        ShareTarget::Dir(dir) => {
            let open =
                |at: DrivePath| async move { authorized::open_content(ns, content, requester, &at, entry).await };
            below(ns, dir, path, open).await
        }
        ShareTarget::File(id) if id == entry.id => {
            let (at_file, found) = file(ns, requester, id).await?;
            authorized::open_content(ns, content, &at_file, found.path(), entry).await
        }
        ShareTarget::File(_) => Err(ContentError::Gone(entry.id).into()),
    }
}

/// The file or directory at a path, as the target of a new share, with the directories down to it; of a file down to its
/// parent.
pub async fn new_target(ns: &Namespace, requester: &Requester, path: &DrivePath) -> Result<(DirChain, ShareTarget)> {
    for _ in 0..TRIES {
        match authorized::stat(ns, requester, path).await? {
            Node::Directory { entry, .. } => match granted::chain(ns, requester, path).await {
                Ok(chain) if chain.last().is_some_and(|(_, id)| *id == entry.id) => {
                    return Ok((chain, ShareTarget::Dir(entry.id)));
                }
                Ok(_) | Err(DriveError::IsFile) => {}
                Err(error) => return Err(error),
            },
            Node::File { entry, .. } => {
                let (parent, _) = path.split().ok_or(DriveError::NotFound)?;
                let chain = granted::chain(ns, requester, &parent).await?;
                // It may have been in another directory of this path.
                match authorized::stat(ns, requester, path).await? {
                    Node::File { entry: again, .. } if again.id == entry.id => {
                        return Ok((chain, ShareTarget::File(entry.id)));
                    }
                    _ => {}
                }
            }
        }
    }
    Err(DriveError::Contended)
}

/// Where the targets of shares are, as far as the requester sees them.
pub async fn paths(
    ns: &Namespace,
    requester: &Requester,
    targets: &[ShareTarget],
) -> Result<HashMap<ShareTarget, DrivePath>> {
    let dir = |target: &ShareTarget| match target {
        ShareTarget::Dir(dir) => Some(*dir),
        ShareTarget::File(_) => None,
    };
    let dirs: Vec<DirId> = targets.iter().filter_map(dir).collect();
    let found = granted::paths(ns, requester, &dirs).await?;
    let mut found: HashMap<_, _> = found.into_iter().map(|(dir, path)| (ShareTarget::Dir(dir), path)).collect();
    for target in targets {
        let ShareTarget::File(id) = target else { continue };
        match find(ns, requester, *id).await {
            Ok(node) => {
                found.insert(*target, node.path().clone());
            }
            Err(DriveError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The share of a requester.
pub async fn share(requester: &Requester) -> Result<Share> {
    let access = requester.access().await?;
    access.share().map(|open| open.share.clone()).ok_or(DriveError::Unauthorized)
}

/// What the share of a requester shows. One to upload shows nothing.
async fn shown_target(requester: &Requester) -> Result<ShareTarget> {
    let share = share(requester).await?;
    match share.mode {
        ShareMode::Read { .. } => Ok(share.target),
        ShareMode::Upload { .. } => Err(DriveError::NotFound),
    }
}

/// What an operation finds at a path below a directory, wherever that is.
async fn below<T, F>(ns: &Namespace, dir: DirId, path: &DrivePath, operation: impl Fn(DrivePath) -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    for _ in 0..TRIES {
        let epoch = ns.dir_paths.moves.now();
        let links = ns.dir_paths.read_path(dir).await?;
        let found = match &links.path {
            Some(top) => operation(joined(top, path)?).await,
            None => Err(DriveError::NotFound),
        };
        if ns.dir_paths.moves.unchanged_since(epoch) || ns.dir_paths.read_path(dir).await? == links {
            return found;
        }
    }
    Err(DriveError::Contended)
}

/// A path below another one. One that would be too long has nothing.
fn joined(top: &DrivePath, path: &DrivePath) -> Result<DrivePath> {
    let mut at = top.clone();
    for name in path.names() {
        at = at.join(&name).map_err(|_| DriveError::NotFound)?;
    }
    Ok(at)
}

/// The file of a share, and who may read it where it is.
async fn file(ns: &Namespace, requester: &Requester, id: FileId) -> Result<(Requester, Node)> {
    let at_file = requester.at_file();
    let found = find(ns, &at_file, id).await?;
    Ok((at_file, found))
}

/// A file by its id, wherever it is, if the requester sees it there.
async fn find(ns: &Namespace, requester: &Requester, id: FileId) -> Result<Node> {
    let mut said = None;
    for _ in 0..TRIES {
        let Some(position) = position(ns, id).await? else { return Err(DriveError::NotFound) };
        let links = ns.dir_paths.read_path(position.dir).await?;
        if let Some(dir) = &links.path {
            match authorized::stat(ns, requester, &dir.join(&position.name)?).await {
                Ok(Node::File { path, entry }) if entry.id == id => return Ok(Node::File { path, entry }),
                Ok(_) | Err(DriveError::NotFound | DriveError::ParentMissing | DriveError::ParentIsFile) => {}
                Err(error) => return Err(error),
            }
        }
        // The same position before and after a look that did not find the file: it is hidden there, or was removed.
        let place = Some((position, links));
        if said == place {
            return Err(DriveError::NotFound);
        }
        said = place;
    }
    Err(DriveError::Contended)
}

/// The position that the row of a file names; none if there is no such file.
async fn position(ns: &Namespace, id: FileId) -> Result<Option<FilePosition>> {
    let query = RowQuery::cells(file_row::position_columns());
    let row = ns.tables.get(file::TABLE, id.0.as_bytes(), &query).await?;
    Ok(file_row::position(&row)?)
}

/// The same file or directory under another path.
fn at_path(node: Node, path: &DrivePath) -> Node {
    let path = path.clone();
    match node {
        Node::File { entry, .. } => Node::File { path, entry },
        Node::Directory { entry, .. } => Node::Directory { path, entry },
    }
}

fn name_of(node: &Node) -> Result<Name> {
    node.path().split().map(|(_, name)| name).ok_or(DriveError::Root)
}

/// The cell of the one file, if a page has it.
fn only(node: &Node, ask: &ListQuery) -> Result<Vec<Cell>> {
    let Node::File { entry, .. } = node else { return Err(DriveError::NotFound) };
    let name = name_of(node)?;
    let qualifier: Bytes = dir::file_qualifier(&name);
    let is_after = ask.after.as_ref().is_none_or(|after| qualifier > after);
    let is_asked = ask.kind != Some(NodeKind::Directory) && name.as_str().starts_with(&ask.prefix) && is_after;
    Ok(Vec::from_iter(is_asked.then(|| Cell { qualifier, value: entry.encode() })))
}
