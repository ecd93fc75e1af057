//! Directories keyed by full path, files by directory id and name: a rename writes the rows of directories anew and
//! no file's, and the files of a folder are one range. Ids are counted up, so new folders' files go to one end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::uuid::Uuid;
use anyhow::Result;
use rowdrive::schema::DirId;
use rowdrive::schema::file::Attributes;
use rowdrive::table::{ConditionalRow, Row, RowKey, RowRange, Tables};

use super::full_path::FullPath;
use super::newest::Newest;
use super::rows::{self, Rows, Stored, modified};
use super::{Child, Layout, Node, Period, Verdict, split};

const DIRECTORIES: &str = "dirid_directories";
const FILES: &str = "dirid_files";

#[derive(Clone)]
pub struct DirIdName {
    directories: FullPath,
    files: Rows,
    last: Arc<AtomicU64>,
}

/// The bytes that the keys of a directory's files start with.
fn prefix(id: DirId) -> [u8; 8] {
    (id.0.as_u128() as u64).to_be_bytes()
}

fn key(directory: DirId, name: &str) -> Vec<u8> {
    [&prefix(directory)[..], name.as_bytes()].concat()
}

/// The name in a file's key.
fn name(key: &RowKey) -> Result<&str> {
    Ok(std::str::from_utf8(key.get(8..).unwrap_or_default())?)
}

impl DirIdName {
    pub async fn create(tables: Tables) -> Result<Self> {
        let files = Rows::create(tables.clone(), FILES).await?;
        let directories = FullPath::of(tables, DIRECTORIES).await?;
        let ids = directories.directories_below("").await?.into_iter().map(|(id, _)| id.0.as_u128() as u64);
        let last = Arc::new(AtomicU64::new(ids.max().unwrap_or_default()));
        Ok(Self { directories, files, last })
    }

    async fn directory(&self, path: &str) -> Result<Option<DirId>> {
        if path.is_empty() {
            return Ok(Some(DirId::ROOT));
        }
        Ok(self.directories.stored(path).await?.and_then(|stored| match stored {
            Stored::Directory(entry) => Some(entry.id),
            Stored::File(_) => None,
        }))
    }

    /// The key that a file of this path has, if its directory is there.
    async fn key(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let (parent, name) = split(path);
        Ok(self.directory(parent).await?.map(|id| key(id, name)))
    }

    async fn file(&self, path: &str) -> Result<Option<(Vec<u8>, Stored)>> {
        let Some(key) = self.key(path).await? else { return Ok(None) };
        Ok(self.files.stored(&key).await?.map(|stored| (key, stored)))
    }

    /// What a new file's place is guarded by: its directory, and no directory of its name.
    async fn ground(&self, path: &str) -> Result<Option<(Vec<u8>, Vec<ConditionalRow>)>> {
        let (Some(key), Some(mut guarded)) = (self.key(path).await?, self.directories.parent(path).await?) else {
            return Ok(None);
        };
        guarded.push(self.directories.absent(path));
        Ok(Some((key, guarded)))
    }

    /// No file of this name, where a directory is to stand.
    async fn no_file(&self, path: &str) -> Result<Option<Vec<ConditionalRow>>> {
        Ok(self.key(path).await?.map(|key| vec![self.files.absent(key)]))
    }

    /// Where each directory below this one stands, by its id, itself included.
    async fn below(&self, path: &str) -> Result<Vec<(DirId, String)>> {
        let mut found: Vec<_> = self.directory(path).await?.map(|id| (id, path.to_owned())).into_iter().collect();
        found.extend(self.directories.directories_below(path).await?);
        Ok(found)
    }

    /// What `child` takes of directories, and then of files.
    async fn children<T: Send>(
        &self,
        path: &str,
        child: impl Fn(&str, &Row) -> Result<Option<T>> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        let Some(id) = self.directory(path).await? else { return Ok(None) };
        let mut children = self.directories.children(path, "", usize::MAX, &child).await?.unwrap_or_default();
        let each = |key: &RowKey, row: &Row| {
            children.extend(child(name(key)?, row)?);
            Ok(())
        };
        self.files.list(RowRange::prefix(&prefix(id)), each).await?;
        Ok(Some(children))
    }
}

impl Layout for DirIdName {
    const NAME: &'static str = "dirid-name";

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let Some(no_file) = self.no_file(path).await? else { return Ok(Verdict::Missing) };
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let directory = Stored::directory(DirId(Uuid::from_u128(id.into())));
        self.directories.add(path, &directory, no_file).await
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        let Some((key, mut guarded)) = self.ground(path).await? else { return Ok(Verdict::Missing) };
        guarded.push(self.files.added(key, &Stored::file(attributes), vec![]));
        self.files.commit(guarded).await
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.file(path).await? {
            Some((key, old)) => {
                self.files.commit(vec![self.files.changed(key, &old, &Stored::file(attributes), vec![])]).await
            }
            None => Ok(Verdict::Missing),
        }
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        if let Some((_, stored)) = self.file(path).await? {
            return Ok(Some(stored.node()));
        }
        self.directories.stat(path).await
    }

    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        self.children(path, rows::name).await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        self.children(path, rows::child).await
    }

    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        let Some(id) = self.directory(path).await? else { return Ok(None) };
        Ok(Some(self.files.files_after(&prefix(id), after, limit).await?))
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        match self.no_file(to).await? {
            Some(no_file) => self.directories.rename(from, to, no_file).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn move_file(&self, from: &str, to: &str) -> Result<Verdict> {
        let Some((old, stored)) = self.file(from).await? else { return Ok(Verdict::Missing) };
        let Some((new, mut guarded)) = self.ground(to).await? else { return Ok(Verdict::Missing) };
        guarded.extend([self.files.added(new, &stored, vec![]), self.files.removed(old, &stored, &[])]);
        self.files.commit(guarded).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        match self.file(path).await? {
            Some((key, stored)) => self.files.commit(vec![self.files.removed(key, &stored, &[])]).await,
            None => Ok(Verdict::Missing),
        }
    }

    /// There is no order by name over folders: a read in each of them.
    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for (id, path) in self.below("").await? {
            if self.files.stored(&key(id, name)).await?.is_some() {
                found.push(format!("{path}/{name}"));
            }
        }
        Ok(found)
    }

    /// There is no order by time: the files of every folder below the directory are read.
    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut newest = Newest::new(period);
        for (id, path) in self.below(&period.under).await? {
            let see = |key: &RowKey, row: &Row| {
                if let Some(time) = modified(row)? {
                    let name = name(key)?;
                    newest.offer(time, || format!("{path}/{name}"));
                }
                Ok(())
            };
            self.files.scan(RowRange::prefix(&prefix(id)), see).await?;
        }
        Ok(newest.done())
    }
}
