//! The children of a directory, page by page: one range of one row.

use std::ops::Bound;

use bytes::Bytes;

use super::ask::{Kind, ListAsk, Listing, Node};
use super::held::Reading;
use super::{Drive, DriveError, Result, TRIES};
use crate::schema::DrivePath;
use crate::schema::dir::{self, DirEntry, Entry};
use crate::table::{Cell, Page, PageAsk};

impl Drive {
    pub async fn list(&self, path: &DrivePath, ask: &ListAsk) -> Result<Listing> {
        let mut nodes = Vec::new();
        let mut next = ask.after.clone();
        for (from, to) in ranges(ask) {
            if nodes.len() >= ask.limit && ask.limit > 0 {
                return Ok(Listing { nodes, next });
            }
            let fence = vec![dir::id_column(), dir::state_column()];
            let page = PageAsk {
                table: dir::TABLE,
                row: path.key(),
                family: dir::SUB,
                from,
                to,
                limit: ask.limit - nodes.len(),
                fence,
            };
            let page = self.page(&page).await?;
            nodes.reserve_exact(page.cells.len());
            for cell in &page.cells {
                nodes.push(node(path, cell)?);
            }
            // A copy: it may be a part of the whole page's bytes, and outlives the page.
            next = page.cells.last().map(|cell| Bytes::copy_from_slice(&cell.qualifier)).or(next);
            if page.more {
                return Ok(Listing { nodes, next });
            }
        }
        Ok(Listing { nodes, next: None })
    }
}

impl Node {
    /// Where a listing that has come to this entry goes on.
    pub fn place(&self) -> Option<Bytes> {
        let (_, name) = self.path().split()?;
        Some(if self.is_directory() { dir::directory_qualifier(&name) } else { dir::file_qualifier(&name) })
    }
}

impl Drive {
    /// A page of a directory's row as readers take it, fenced by `cf:id` and `cf:state`.
    async fn page(&self, ask: &PageAsk) -> Result<Page> {
        let mut held: Option<(Bytes, bool)> = None;
        for _ in 0..TRIES {
            let page = self.inner.tables.page(ask).await?;
            let [Some(_), state] = page.fence.as_slice() else { return Err(DriveError::NotFound) };
            let Some(state) = state.clone() else { return Ok(page) };
            match held.take() {
                Some((before, true)) if before == state => return Ok(page),
                Some((before, false)) if before == state => return Err(DriveError::NotFound),
                _ => {}
            }
            held = match self.reading(&state).await? {
                Reading::Live => return Ok(page),
                Reading::Absent => return Err(DriveError::NotFound),
                Reading::LiveIfStill => Some((state, true)),
                Reading::AbsentIfStill => Some((state, false)),
            };
        }
        Err(DriveError::Contended)
    }
}

type Range = (Bound<Bytes>, Bound<Bytes>);

/// The ranges of qualifiers to read, in order: one, unless a prefix splits directories from files.
fn ranges(ask: &ListAsk) -> Vec<Range> {
    let whole = |kind| dir::range(kind, &ask.prefix);
    let all = match (ask.kind, ask.prefix.is_empty()) {
        (Some(Kind::Directory), _) => vec![whole(dir::DIRECTORY)],
        (Some(Kind::File), _) => vec![whole(dir::FILE)],
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

fn node(directory: &DrivePath, cell: &Cell) -> Result<Node> {
    let (kind, name) = dir::child(&cell.qualifier)?;
    let path = directory.join(&name)?;
    if kind == dir::FILE {
        Ok(Node::File { path, entry: Entry::decode(&cell.value)? })
    } else {
        Ok(Node::Directory { path, entry: DirEntry::decode(&cell.value)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kind: Option<Kind>, prefix: &str, after: Option<&'static str>) -> Vec<Range> {
        ranges(&ListAsk { kind, prefix: prefix.into(), after: after.map(Bytes::from), limit: 1 })
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
        assert_eq!(ask(Some(Kind::File), "", Some("f_a")), [(excluded("f_a"), excluded("f`"))]);
        assert_eq!(ask(Some(Kind::Directory), "", Some("f_a")), []);
    }
}
