//! Directories in a table keyed by full path, with the cells `sub:d_<name>`; files in a table keyed by directory id and
//! name: a rename writes the rows of directories anew and no file's, and the files of a folder are one range. Ids are
//! counted up, so the files of new folders go to one end of the table.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use rowdrive::schema::dir;
use rowdrive::table::{Change, ConditionalRow, KeyLifecycle, Row, RowKey, RowRange, Tables};

use super::answers::Newest;
use super::dir_table::{DirTable, Slot};
use super::rows::{CONTENT, DATA, FILE, LIST, Next, Stored, Table, put_content, unpack};
use super::{Child, Layout, List, NewFile, Node, Period, Verdict};

/// Bytes of a directory's id.
const ID: usize = 8;

pub struct DirIdName {
    directories: DirTable,
    files: Table,
    last: AtomicU64,
}

/// A name, with what is in the slot of the directory table and in the file's row.
struct Place {
    slot: Slot,
    key: RowKey,
    file: Option<Stored>,
}

impl Place {
    fn is_taken(&self) -> bool {
        self.slot.is_taken() || self.file.is_some()
    }
}

impl DirIdName {
    pub async fn create(tables: &Tables) -> Result<Self> {
        let directories = DirTable::create(tables, Bytes::from_static(&[0; ID]), false).await?;
        let files = Table::create(tables, ("file_of_dir", KeyLifecycle::Reusable), &[CONTENT], &[FILE]).await?;
        let ids = directories.subtree("").await?;
        let ids = ids.iter().filter_map(|(id, _)| Some(u64::from_be_bytes(id.as_ref().try_into().ok()?)));
        let last = AtomicU64::new(ids.max().unwrap_or_default());
        Ok(Self { directories, files, last })
    }

    /// None if the parent directory does not exist.
    async fn place(&self, path: &str) -> Result<Option<Place>> {
        let Some(slot) = self.directories.slot(path).await? else { return Ok(None) };
        let key = Bytes::from([&slot.parent_id, slot.name.as_bytes()].concat());
        let file = Stored::from_row(&self.files.get(&key).await?);
        Ok(Some(Place { slot, key, file }))
    }

    async fn file(&self, path: &str) -> Result<Option<(RowKey, Stored)>> {
        let place = self.place(path).await?;
        Ok(place.and_then(|place| Some((place.key, place.file?))))
    }

    /// The rows that put a file into a place, if it is free and its directory stays.
    fn added(&self, place: &Place, stored: &Stored, content: &Bytes) -> Vec<ConditionalRow> {
        let changes = [stored.put()].into_iter().chain(put_content(content)).collect();
        vec![self.directories.row(&place.slot, vec![]), self.files.row(place.key.clone(), Stored::no_file(), changes)]
    }

    fn removed(&self, key: RowKey, stored: &Stored, has_content: bool) -> ConditionalRow {
        let content = has_content.then(|| Change::delete(CONTENT, DATA));
        self.files.row(key, vec![stored.check()], [stored.take()].into_iter().chain(content).collect())
    }
}

#[async_trait]
impl Layout for DirIdName {
    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let Some(place) = self.place(path).await? else { return Ok(Verdict::Missing) };
        let id = (self.last.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes();
        let mut rows = self.directories.made(&place.slot, &Bytes::copy_from_slice(&id));
        rows.push(self.files.row(place.key, Stored::no_file(), vec![]));
        self.files.commit(rows).await
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        let Some(place) = self.place(&file.path).await? else { return Ok(Verdict::Missing) };
        let stored = Stored::file(&file.attributes);
        match &place.file {
            None if is_new && !place.is_taken() => self.files.commit(self.added(&place, &stored, &file.content)).await,
            None if is_new => Ok(Verdict::Exists),
            None => Ok(Verdict::Missing),
            Some(_) if is_new => Ok(Verdict::Exists),
            Some(old) => {
                let changes = [stored.put()].into_iter().chain(put_content(&file.content)).collect();
                self.files.commit(vec![self.files.row(place.key, vec![old.check()], changes)]).await
            }
        }
    }

    /// The slot of the parent's row, and the file's row.
    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        let Some(place) = self.place(path).await? else { return Ok(None) };
        match &place.file {
            Some(file) => file.node().map(Some),
            None => Ok(place.slot.directory.map(|_| Node::Directory)),
        }
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        match self.file(path).await? {
            Some((key, _)) => self.files.content(&key).await.map(Some),
            None => Ok(None),
        }
    }

    /// One row for the directories, one range for the files.
    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        let mut children = Vec::new();
        let id = match ask {
            List::Page { .. } => self.directories.id(path).await?,
            List::Names | List::Attributes => {
                let all = (Bound::Unbounded, Bound::Unbounded);
                let Some((id, cells)) = self.directories.children(path, all, usize::MAX).await? else {
                    return Ok(None);
                };
                for cell in cells {
                    let name = dir::child(&cell.qualifier)?.1.as_str().to_owned();
                    children.push(Child { name, node: matches!(ask, List::Attributes).then_some(Node::Directory) });
                }
                Some(id)
            }
        };
        let Some(id) = id else { return Ok(None) };
        let mut range = RowRange::prefix(&id);
        if !ask.after().is_empty() {
            range.from = Bound::Excluded([&id, ask.after().as_bytes()].concat().into());
        }
        let each = |key: &RowKey, row: &Row| {
            let name = std::str::from_utf8(key.get(ID..).unwrap_or_default())?;
            children.extend(Stored::child(row, name, ask)?);
            Ok(if children.len() >= ask.limit() { Next::Nothing } else { Next::Row })
        };
        self.files.scan(range, LIST.min(ask.limit()), each).await?;
        Ok(Some(children))
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        let (Some(source), Some(target)) = (self.place(from).await?, self.place(to).await?) else {
            return Ok(Verdict::Missing);
        };
        if target.is_taken() {
            return Ok(Verdict::Exists);
        }
        let Some(stored) = &source.file else {
            let no_file = self.files.row(target.key, Stored::no_file(), vec![]);
            return self.directories.rename(&source.slot, &target.slot, vec![no_file]).await;
        };
        let content = self.files.content(&source.key).await?;
        let mut rows = self.added(&target, stored, &content);
        rows.push(self.removed(source.key, stored, !content.is_empty()));
        self.files.commit(rows).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        match self.file(path).await? {
            Some((key, stored)) => self.files.commit(vec![self.removed(key, &stored, true)]).await,
            None => Ok(Verdict::Missing),
        }
    }

    /// There is no order by name over folders: a read in each of them.
    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let directories = self.directories.subtree("").await?;
        for some in directories.chunks(LIST) {
            let keys = some.iter().map(|(id, _)| Bytes::from([id, name.as_bytes()].concat()));
            for ((_, path), row) in some.iter().zip(self.files.get_many(keys).await?) {
                found.extend(Stored::from_row(&row).map(|_| format!("{path}/{name}")));
            }
        }
        Ok(found)
    }

    /// There is no order by time: the files of every folder below the directory are read.
    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut newest = Newest::new(period);
        for (id, path) in self.directories.subtree(&period.under).await? {
            let each = |key: &RowKey, row: &Row| {
                if let Some(Stored::File(value)) = Stored::from_row(row) {
                    let name = std::str::from_utf8(key.get(ID..).unwrap_or_default())?;
                    newest.offer(&unpack(&value)?.0, || format!("{path}/{name}"));
                }
                Ok(Next::Row)
            };
            self.files.scan(RowRange::prefix(&id), LIST, each).await?;
        }
        Ok(newest.done())
    }
}
