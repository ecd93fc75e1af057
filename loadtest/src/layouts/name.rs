//! Row key = name; the parent's path is a cell. A name is found at once, but there is room for one node of a name in
//! the whole drive, and a folder's children are wherever their names are: every list reads the whole table.

use anyhow::Result;
use rowdrive::schema::file::Attributes;
use rowdrive::schema::{CF, DirId};
use rowdrive::table::{Change, Check, Column, ConditionalRow, Row, RowKey, RowRange, Tables};

use super::newest::Newest;
use super::rows::{self, Rows, Stored, is_directory, modified};
use super::{Child, Layout, Node, Period, Verdict, is_within, split};

const TABLE: &str = "name";
const PARENT: &[u8] = b"p";

#[derive(Clone)]
pub struct Name(Rows);

/// The value of the parent's cell: its path with a slash, since the root's has no byte.
fn cell(parent: &str) -> Vec<u8> {
    [parent.as_bytes(), b"/"].concat()
}

fn cells(parent: &str) -> Vec<Change> {
    vec![Change::put(CF, PARENT, cell(parent))]
}

/// The path of a row's parent.
fn parent(row: &Row) -> Result<&str> {
    let path = row.get(CF, PARENT).and_then(|cell| cell.strip_suffix(b"/"));
    Ok(std::str::from_utf8(path.unwrap_or_default())?)
}

impl Name {
    pub async fn create(tables: Tables) -> Result<Self> {
        Ok(Self(Rows::create(tables, TABLE).await?))
    }

    async fn stored(&self, path: &str) -> Result<Option<Stored>> {
        let (wanted, name) = split(path);
        let row = self.0.get(name.as_bytes()).await?;
        if parent(&row)? == wanted { Stored::of(&row) } else { Ok(None) }
    }

    async fn file(&self, path: &str) -> Result<Option<Stored>> {
        Ok(self.stored(path).await?.filter(|stored| matches!(stored, Stored::File(_))))
    }

    async fn is_there(&self, directory: &str) -> Result<bool> {
        Ok(directory.is_empty() || matches!(self.stored(directory).await?, Some(Stored::Directory(_))))
    }

    /// A path's parent, which must stay where it is; nothing for the root, which has no row.
    async fn ground(&self, path: &str) -> Result<Option<Vec<ConditionalRow>>> {
        let (directory, _) = split(path);
        if directory.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let (above, name) = split(directory);
        match self.stored(directory).await? {
            Some(stored @ Stored::Directory(_)) => Ok(Some(vec![self.standing(name.to_owned(), above, &stored)])),
            _ => Ok(None),
        }
    }

    /// A row that must stay what it is and where it is.
    fn standing(&self, key: impl Into<RowKey>, parent: &str, stored: &Stored) -> ConditionalRow {
        let mut kept = self.0.kept(key, stored);
        kept.checks.push(Check::Equals(Column::new(CF, PARENT), cell(parent).into()));
        kept
    }

    async fn add(&self, path: &str, stored: &Stored) -> Result<Verdict> {
        let Some(mut guarded) = self.ground(path).await? else { return Ok(Verdict::Missing) };
        let (parent, name) = split(path);
        if split(parent).1 == name {
            return Ok(Verdict::Exists);
        }
        guarded.push(self.0.added(name.to_owned(), stored, cells(parent)));
        self.0.commit(guarded).await
    }

    /// Its own row alone.
    async fn rename(&self, from: &str, stored: &Stored, to: &str) -> Result<Verdict> {
        let Some(mut guarded) = self.ground(to).await? else { return Ok(Verdict::Missing) };
        let ((_, old), (parent, new)) = (split(from), split(to));
        if old == new {
            guarded.push(self.0.changed(old.to_owned(), stored, stored, cells(parent)));
        } else if split(parent).1 == new {
            return Ok(Verdict::Exists);
        } else {
            guarded.push(self.0.added(new.to_owned(), stored, cells(parent)));
            guarded.push(self.0.removed(old.to_owned(), stored, &[PARENT]));
        }
        self.0.commit(guarded).await
    }

    /// What `child` takes of the children of a directory, in the order of their names.
    async fn children<T: Send>(
        &self,
        path: &str,
        child: impl Fn(&str, &Row) -> Result<Option<T>> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        if !self.is_there(path).await? {
            return Ok(None);
        }
        let mut children = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            if parent(row)? == path {
                children.extend(child(std::str::from_utf8(key)?, row)?);
            }
            Ok(())
        };
        self.0.scan(RowRange::all(), each).await?;
        Ok(Some(children))
    }
}

impl Layout for Name {
    const NAME: &'static str = "name";
    const NAMES_REPEAT: bool = false;

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        self.add(path, &Stored::directory(DirId::random())).await
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        self.add(path, &Stored::file(attributes)).await
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.file(path).await? {
            Some(old) => {
                let name = split(path).1.to_owned();
                self.0.commit(vec![self.0.changed(name, &old, &Stored::file(attributes), vec![])]).await
            }
            None => Ok(Verdict::Missing),
        }
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        Ok(self.stored(path).await?.map(Stored::node))
    }

    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        self.children(path, rows::name).await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        self.children(path, rows::child).await
    }

    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        let following = |name: &str, row: &Row| if name > after { rows::file(name, row) } else { Ok(None) };
        let mut files = self.children(path, following).await?;
        files.iter_mut().for_each(|files| files.truncate(limit));
        Ok(files)
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        let Some(root @ Stored::Directory(_)) = self.stored(from).await? else { return Ok(Verdict::Missing) };
        let verdict = self.rename(from, &root, to).await?;
        if verdict != Verdict::Done {
            return Ok(verdict);
        }
        let mut moved = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            let old = parent(row)?;
            if let (true, Some(stored)) = (is_within(old, from), Stored::of(row)?) {
                let new = format!("{to}{}", old.get(from.len()..).unwrap_or_default());
                moved.push(vec![self.0.changed(key.clone(), &stored, &stored, cells(&new))]);
            }
            Ok(())
        };
        self.0.scan(RowRange::all(), each).await?;
        self.0.commit_groups(moved).await
    }

    async fn move_file(&self, from: &str, to: &str) -> Result<Verdict> {
        match self.file(from).await? {
            Some(stored) => self.rename(from, &stored, to).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        match self.file(path).await? {
            Some(stored) => {
                let name = split(path).1.to_owned();
                self.0.commit(vec![self.0.removed(name, &stored, &[PARENT])]).await
            }
            None => Ok(Verdict::Missing),
        }
    }

    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let row = self.0.get(name.as_bytes()).await?;
        let found = !row.is_empty() && !is_directory(&row);
        Ok(if found { vec![format!("{}/{name}", parent(&row)?)] } else { Vec::new() })
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut newest = Newest::new(period);
        let each = |key: &RowKey, row: &Row| {
            if let Some(time) = modified(row)?
                && is_within(parent(row)?, &period.under)
            {
                let path = format!("{}/{}", parent(row)?, std::str::from_utf8(key)?);
                newest.offer(time, || path);
            }
            Ok(())
        };
        self.0.scan(RowRange::all(), each).await?;
        Ok(newest.done())
    }
}
