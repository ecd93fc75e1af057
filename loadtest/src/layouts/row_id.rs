//! Row key = row id, counted up; the parent's id and the name are cells, as in a table of a relational database that
//! was moved as it is, without its indexes: every question reads the whole table.
//!
//! No row can guard a name, so two clients that meet can both make it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::uuid::Uuid;
use anyhow::{Context, Result};
use rowdrive::schema::file::Attributes;
use rowdrive::schema::{CF, DirId};
use rowdrive::table::{Change, Row, RowKey, RowRange, Tables};

use super::directories::{Directories, Search};
use super::rows::{self, Rows, Stored, is_directory, modified};
use super::{Changing, Child, Layout, Node, Period, Verdict, count, split};

const TABLE: &str = "row_id";
const PARENT: &[u8] = b"p";
const NAME: &[u8] = b"n";

#[derive(Clone)]
pub struct RowId {
    rows: Rows,
    last: Arc<AtomicU64>,
    /// What a client that makes directories and then loads files into them knows.
    loaded: Arc<Mutex<HashMap<String, DirId>>>,
}

/// What a scan found out about a path.
struct Look {
    parent: Option<DirId>,
    at: Option<(RowKey, Stored)>,
}

fn cells(parent: DirId, name: &str) -> Vec<Change> {
    vec![Change::put(CF, PARENT, parent.0.as_bytes().to_vec()), Change::put(CF, NAME, name.as_bytes().to_vec())]
}

fn place(row: &Row) -> Result<(DirId, &str)> {
    let [parent, name] = [PARENT, NAME].map(|cell| row.get(CF, cell).context("a row lacks its parent or its name"));
    Ok((DirId(Uuid::from_slice(parent?)?), std::str::from_utf8(name?)?))
}

impl RowId {
    pub async fn create(tables: Tables) -> Result<Self> {
        let rows = Rows::create(tables, TABLE).await?;
        let last = rows.last_key().await?.and_then(|key| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)));
        Ok(Self { rows, last: Arc::new(AtomicU64::new(last.unwrap_or_default())), loaded: Arc::default() })
    }

    /// Shows every file, and returns all directories.
    async fn survey(
        &self,
        mut see: impl FnMut(&RowKey, &Row, DirId, &str) -> Result<()> + Send,
    ) -> Result<Directories> {
        let mut directories = Directories::default();
        let each = |key: &RowKey, row: &Row| {
            let (parent, name) = place(row)?;
            if let Some(Stored::Directory(entry)) = Stored::of(row)? {
                directories.add(entry.id, parent, name);
            }
            see(key, row, parent, name)
        };
        self.rows.scan(RowRange::all(), each).await?;
        Ok(directories)
    }

    async fn look(&self, path: &str) -> Result<Look> {
        let (parent, wanted) = split(path);
        let mut same_name = Vec::new();
        let see = |key: &RowKey, row: &Row, parent: DirId, name: &str| {
            if name == wanted {
                same_name.extend(Stored::of(row)?.map(|stored| (parent, key.clone(), stored)));
            }
            Ok(())
        };
        let directories = self.survey(see).await?;
        let parent = directories.find(parent);
        let at = same_name.into_iter().find(|(of, ..)| Some(*of) == parent).map(|(_, key, stored)| (key, stored));
        Ok(Look { parent, at })
    }

    async fn file(&self, path: &str) -> Result<Option<(RowKey, Stored)>> {
        Ok(self.look(path).await?.at.filter(|(_, stored)| matches!(stored, Stored::File(_))))
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    async fn insert(&self, id: u64, parent: DirId, name: &str, stored: &Stored) -> Result<Verdict> {
        let key = id.to_be_bytes().to_vec();
        self.rows.commit(vec![self.rows.added(key, stored, cells(parent, name))]).await
    }

    async fn add(&self, path: &str, stored: impl FnOnce(DirId) -> Stored + Send) -> Result<Verdict> {
        match self.look(path).await? {
            Look { parent: None, .. } => Ok(Verdict::Missing),
            Look { at: Some(_), .. } => Ok(Verdict::Exists),
            Look { parent: Some(parent), .. } => {
                let id = self.next();
                self.insert(id, parent, split(path).1, &stored(directory_id(id))).await
            }
        }
    }

    async fn rename(&self, old: (RowKey, Stored), to: &str) -> Result<Verdict> {
        let (key, stored) = old;
        match self.look(to).await? {
            Look { parent: None, .. } => Ok(Verdict::Missing),
            Look { at: Some(_), .. } => Ok(Verdict::Exists),
            Look { parent: Some(parent), .. } => {
                self.rows.commit(vec![self.rows.changed(key, &stored, &stored, cells(parent, split(to).1))]).await
            }
        }
    }

    /// The children of a directory: one scan to know its id, one to find them.
    async fn children<T: Send>(
        &self,
        path: &str,
        child: impl Fn(&str, &Row) -> Result<Option<T>> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        let Some(id) = self.survey(|_, _, _, _| Ok(())).await?.find(path) else { return Ok(None) };
        let mut children = Vec::new();
        let see = |_: &RowKey, row: &Row| {
            let (parent, name) = place(row)?;
            if parent == id {
                children.extend(child(name, row)?);
            }
            Ok(())
        };
        self.rows.scan(RowRange::all(), see).await?;
        Ok(Some(children))
    }
}

fn directory_id(row: u64) -> DirId {
    DirId(Uuid::from_u128(row.into()))
}

impl Layout for RowId {
    const NAME: &'static str = "rowkey-id";

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        self.add(path, Stored::directory).await
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        self.add(path, |_| Stored::file(attributes)).await
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.file(path).await? {
            Some((key, old)) => {
                self.rows.commit(vec![self.rows.changed(key, &old, &Stored::file(attributes), vec![])]).await
            }
            None => Ok(Verdict::Missing),
        }
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        Ok(self.look(path).await?.at.map(|(_, stored)| stored.node()))
    }

    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        self.children(path, rows::name).await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        self.children(path, rows::child).await
    }

    /// There is no order by name: the whole folder is read and sorted for each page.
    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        let following = |name: &str, row: &Row| if name > after { rows::file(name, row) } else { Ok(None) };
        let mut files = self.children(path, following).await?;
        if let Some(files) = &mut files {
            files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            files.truncate(limit);
        }
        Ok(files)
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        match self.look(from).await?.at {
            Some(old @ (_, Stored::Directory(_))) => self.rename(old, to).await,
            _ => Ok(Verdict::Missing),
        }
    }

    async fn move_file(&self, from: &str, to: &str) -> Result<Verdict> {
        match self.file(from).await? {
            Some(old) => self.rename(old, to).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        match self.file(path).await? {
            Some((key, stored)) => self.rows.commit(vec![self.rows.removed(key, &stored, &[PARENT, NAME])]).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn find(&self, wanted: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let see = |_: &RowKey, row: &Row, parent: DirId, name: &str| {
            if name == wanted && !is_directory(row) {
                found.push((parent, name.to_owned()));
            }
            Ok(())
        };
        let directories = self.survey(see).await?;
        Ok(found.iter().map(|spot| directories.path_of(spot)).collect())
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut search = Search::new(period);
        let see = |_: &RowKey, row: &Row, parent: DirId, name: &str| {
            modified(row)?.into_iter().for_each(|modified| search.offer(modified, parent, name));
            Ok(())
        };
        let directories = self.survey(see).await?;
        Ok(search.done(&directories))
    }

    async fn load_directory(&self, path: &str) -> Result<Verdict> {
        let id = self.next();
        let (parent, name) = split(path);
        let parent = self.known(parent)?;
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), directory_id(id));
        self.insert(id, parent, name, &Stored::directory(directory_id(id))).await
    }

    /// By a client that knows the ids of its directories, and that nothing has the names.
    async fn load(&self, files: &[(String, Attributes)], at_a_time: usize) -> Result<u64> {
        let mut inserts: Vec<Changing<'_>> = Vec::with_capacity(files.len());
        for (path, attributes) in files {
            let (parent, name) = split(path);
            let (id, parent) = (self.next(), self.known(parent)?);
            inserts.push(Box::pin(async move { self.insert(id, parent, name, &Stored::file(attributes)).await }));
        }
        count(inserts, at_a_time).await
    }
}

impl RowId {
    fn known(&self, path: &str) -> Result<DirId> {
        if path.is_empty() {
            return Ok(DirId::ROOT);
        }
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.get(path).copied().with_context(|| format!("{path} was not loaded"))
    }
}
