//! The children of a directory, page by page: one range of one row.

use std::ops::Bound;

use bytes::Bytes;

use super::{Namespace, visibility};
use crate::drive::error::Result;
use crate::drive::model::{ListQuery, Node, NodeKind, StoredListing};
use crate::schema::DrivePath;
use crate::schema::dir::{self, DirEntry, FileEntry};
use crate::table::{Cell, Page, PageQuery};

/// A page of the children of a directory, not decoded.
///
/// Id and lock of the directory are unchanged while a page is read: its children belong to one directory at one
/// instant. Two pages have no common instant; a child that is made or removed between them may be missing.
pub async fn list_stored(ns: &Namespace, path: &DrivePath, ask: &ListQuery) -> Result<StoredListing> {
    let mut listing = StoredListing { directory: path.clone(), cells: Vec::new(), next: ask.after.clone() };
    for range in ranges(ask) {
        let left = ask.limit - listing.cells.len();
        if left == 0 && ask.limit > 0 {
            return Ok(listing);
        }
        let page = page(ns, path, range, left).await?;
        if listing.cells.is_empty() {
            listing.cells = page.cells;
        } else {
            listing.cells.extend(page.cells);
        }
        // Copied, or this one qualifier would keep the bytes of the whole page in memory.
        let last = listing.cells.last().map(|cell| Bytes::copy_from_slice(&cell.qualifier));
        listing.next = last.or(listing.next);
        if page.more {
            return Ok(listing);
        }
    }
    Ok(StoredListing { next: None, ..listing })
}

/// A page of the cells of files of a directory, not decoded: those after this qualifier.
///
/// Errors: [`DriveError::NotFound`](crate::drive::error::DriveError::NotFound) if there is no such directory.
pub async fn file_cells(ns: &Namespace, path: &DrivePath, after: Option<Bytes>, limit: usize) -> Result<Page> {
    let (first, end) = dir::range(dir::FILE, "");
    page(ns, path, (after.map_or(first, Bound::Excluded), end), limit).await
}

async fn page(ns: &Namespace, path: &DrivePath, (from, to): Range, limit: usize) -> Result<Page> {
    let (table, row, family) = (dir::TABLE, path.key(), dir::SUB);
    let mut query = PageQuery { table, row, family, from, to, limit, unchanged: Vec::new() };
    if let Some(since) = ns.live_dirs.since(path) {
        let page = ns.tables.page(&query).await?;
        if ns.live_dirs.unchanged_since(since) {
            return Ok(page);
        }
    }
    let epoch = ns.live_dirs.now();
    query.unchanged = vec![dir::id_column(), dir::lock_column()];
    let page = visibility::page(ns, &query).await?;
    ns.live_dirs.found(path, epoch);
    Ok(page)
}

type Range = (Bound<Bytes>, Bound<Bytes>);

/// The ranges of qualifiers to read, in order: one, unless a prefix splits directories from files.
fn ranges(ask: &ListQuery) -> Vec<Range> {
    let whole = |kind| dir::range(kind, &ask.prefix);
    let all = match (ask.kind, ask.prefix.is_empty()) {
        (Some(NodeKind::Directory), _) => vec![whole(dir::DIRECTORY)],
        (Some(NodeKind::File), _) => vec![whole(dir::FILE)],
        (None, true) => vec![(Bound::Unbounded, Bound::Unbounded)],
        (None, false) => vec![whole(dir::DIRECTORY), whole(dir::FILE)],
    };
    let Some(after) = &ask.after else { return all };
    let ahead = |(from, to): Range| match (&from, &to) {
        (_, Bound::Excluded(end)) if end <= after => None,
        (Bound::Included(start), _) if start > after => Some((from, to)),
        _ => Some((Bound::Excluded(after.clone()), to)),
    };
    all.into_iter().filter_map(ahead).collect()
}

/// The file or directory of a cell.
pub fn node(directory: &DrivePath, cell: &Cell) -> Result<Node> {
    let (kind, name) = dir::child(&cell.qualifier)?;
    let path = directory.join(&name)?;
    if kind == dir::FILE {
        Ok(Node::File { path, entry: FileEntry::decode(&cell.value)? })
    } else {
        Ok(Node::Directory { path, entry: DirEntry::decode(&cell.value)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kind: Option<NodeKind>, prefix: &str, after: Option<&'static str>) -> Vec<Range> {
        ranges(&ListQuery { kind, prefix: prefix.into(), after: after.map(Bytes::from), limit: 1 })
    }

    #[test]
    fn ranges_go_on_after_the_last_name() {
        let included = |s: &'static str| Bound::Included(Bytes::from(s));
        let excluded = |s: &'static str| Bound::Excluded(Bytes::from(s));
        assert_eq!(ask(None, "", None), [(Bound::Unbounded, Bound::Unbounded)]);
        assert_eq!(ask(None, "", Some("d_x")), [(excluded("d_x"), Bound::Unbounded)]);
        assert_eq!(ask(None, "x", None), [(included("d_x"), excluded("d_y")), (included("f_x"), excluded("f_y"))]);
        assert_eq!(
            ask(None, "x", Some("d_xa")),
            [(excluded("d_xa"), excluded("d_y")), (included("f_x"), excluded("f_y"))]
        );
        assert_eq!(ask(None, "x", Some("f_xa")), [(excluded("f_xa"), excluded("f_y"))]);
        assert_eq!(ask(Some(NodeKind::File), "", Some("f_a")), [(excluded("f_a"), excluded("f`"))]);
        assert_eq!(ask(Some(NodeKind::Directory), "", Some("f_a")), []);
    }
}
