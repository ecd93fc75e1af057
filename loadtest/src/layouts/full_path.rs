//! Row key = full path, files and directories in one table: reads by path are one row, a folder is a range in which
//! everything below its subfolders lies too, and a rename writes every row below it anew.

use std::ops::Bound;

use anyhow::Result;
use rowdrive::schema::DirId;
use rowdrive::schema::file::Attributes;
use rowdrive::table::{ConditionalRow, Row, RowKey, RowRange, Tables};

use super::newest::Newest;
use super::rows::{self, LIST, Rows, Stored, is_directory, modified};
use super::{Child, Layout, Node, Period, Verdict, split};

const TABLE: &str = "full_path";

#[derive(Clone)]
pub struct FullPath(Rows);

impl FullPath {
    pub async fn create(tables: Tables) -> Result<Self> {
        Self::of(tables, TABLE).await
    }

    pub async fn of(tables: Tables, table: &'static str) -> Result<Self> {
        Ok(Self(Rows::create(tables, table).await?))
    }

    pub async fn stored(&self, path: &str) -> Result<Option<Stored>> {
        self.0.stored(path.as_bytes()).await
    }

    /// The parent's row, which must stay as it is; nothing for the root, which has none.
    pub async fn parent(&self, path: &str) -> Result<Option<Vec<ConditionalRow>>> {
        let (parent, _) = split(path);
        if parent.is_empty() {
            return Ok(Some(Vec::new()));
        }
        match self.0.stored(parent.as_bytes()).await? {
            Some(stored @ Stored::Directory(_)) => Ok(Some(vec![self.0.kept(parent.to_owned(), &stored)])),
            _ => Ok(None),
        }
    }

    /// The directories below a path.
    pub async fn directories_below(&self, path: &str) -> Result<Vec<(DirId, String)>> {
        let mut found = Vec::new();
        let see = |key: &RowKey, row: &Row| {
            if let Some(Stored::Directory(entry)) = Stored::of(row)? {
                found.push((entry.id, std::str::from_utf8(key)?.to_owned()));
            }
            Ok(())
        };
        self.0.scan(below(path), see).await?;
        Ok(found)
    }

    /// A row that must not be there.
    pub fn absent(&self, path: &str) -> ConditionalRow {
        self.0.absent(path.to_owned())
    }

    /// Adds a node, while rows of other tables are so.
    pub async fn add(&self, path: &str, stored: &Stored, others: Vec<ConditionalRow>) -> Result<Verdict> {
        let Some(mut guarded) = self.parent(path).await? else { return Ok(Verdict::Missing) };
        guarded.extend(others);
        guarded.push(self.0.added(path.to_owned(), stored, Vec::new()));
        self.0.commit(guarded).await
    }

    /// Renames a directory, while rows of other tables are so: its own row first, then what lies below.
    pub async fn rename(&self, from: &str, to: &str, others: Vec<ConditionalRow>) -> Result<Verdict> {
        let Some(root @ Stored::Directory(_)) = self.stored(from).await? else {
            return Ok(Verdict::Missing);
        };
        let Some(mut first) = self.parent(to).await? else { return Ok(Verdict::Missing) };
        first.extend(others);
        first.extend([self.0.added(to.to_owned(), &root, vec![]), self.0.removed(from.to_owned(), &root, &[])]);
        let verdict = self.0.commit(first).await?;
        if verdict != Verdict::Done {
            return Ok(verdict);
        }
        let mut moved = Vec::new();
        self.0
            .scan(below(from), |key, row| {
                let Some(stored) = Stored::of(row)? else { return Ok(()) };
                let new = [to.as_bytes(), key.get(from.len()..).unwrap_or_default()].concat();
                moved.push(vec![self.0.added(new, &stored, vec![]), self.0.removed(key.clone(), &stored, &[])]);
                Ok(())
            })
            .await?;
        self.0.commit_groups(moved).await
    }

    async fn is_there(&self, directory: &str) -> Result<bool> {
        Ok(directory.is_empty() || is_directory(&self.0.get(directory.as_bytes()).await?))
    }

    /// What `child` takes of the children whose names follow `after`, in the order of their names, until there are
    /// `limit` of it; none if there is no such directory.
    pub async fn children<T: Send>(
        &self,
        path: &str,
        after: &str,
        limit: usize,
        child: impl Fn(&str, &Row) -> Result<Option<T>> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        if !self.is_there(path).await? {
            return Ok(None);
        }
        let prefix = format!("{path}/");
        let mut range = below(path);
        if !after.is_empty() {
            range.from = Bound::Excluded(format!("{prefix}{after}").into());
        }
        let mut children = Vec::new();
        while children.len() < limit {
            let rows = self.0.some(&range, limit.min(LIST)).await?;
            let Some((last, _)) = rows.last() else { break };
            range.from = Bound::Excluded(last.clone());
            for (key, row) in &rows {
                let name = std::str::from_utf8(key.get(prefix.len()..).unwrap_or_default())?;
                // A folder's own rows stand somewhere behind it: all are leapt over, since `0` follows `/`.
                if let Some((folder, _)) = name.split_once('/') {
                    range.from = Bound::Included(format!("{prefix}{folder}0").into());
                    break;
                }
                children.extend(child(name, row)?);
            }
        }
        children.truncate(limit);
        Ok(Some(children))
    }
}

/// All rows below a path.
fn below(path: &str) -> RowRange {
    let bound = |end: &str| RowKey::from(format!("{path}{end}"));
    RowRange { from: Bound::Included(bound("/")), to: Bound::Excluded(bound("0")) }
}

impl Layout for FullPath {
    const NAME: &'static str = "fullpath";

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        self.add(path, &Stored::directory(DirId::random()), vec![]).await
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        self.add(path, &Stored::file(attributes), vec![]).await
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.stored(path).await? {
            Some(old @ Stored::File(_)) => {
                self.0.commit(vec![self.0.changed(path.to_owned(), &old, &Stored::file(attributes), vec![])]).await
            }
            _ => Ok(Verdict::Missing),
        }
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        Ok(self.stored(path).await?.map(Stored::node))
    }

    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        self.children(path, "", usize::MAX, rows::name).await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        self.children(path, "", usize::MAX, rows::child).await
    }

    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        self.children(path, after, limit, rows::file).await
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        self.rename(from, to, vec![]).await
    }

    async fn move_file(&self, from: &str, to: &str) -> Result<Verdict> {
        let Some(stored @ Stored::File(_)) = self.stored(from).await? else {
            return Ok(Verdict::Missing);
        };
        let Some(mut guarded) = self.parent(to).await? else { return Ok(Verdict::Missing) };
        guarded.extend([self.0.added(to.to_owned(), &stored, vec![]), self.0.removed(from.to_owned(), &stored, &[])]);
        self.0.commit(guarded).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        match self.stored(path).await? {
            Some(stored @ Stored::File(_)) => self.0.commit(vec![self.0.removed(path.to_owned(), &stored, &[])]).await,
            _ => Ok(Verdict::Missing),
        }
    }

    /// There is no order by name: every row is read.
    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        self.0
            .scan(RowRange::all(), |key, row| {
                let path = std::str::from_utf8(key)?;
                if split(path).1 == name && !is_directory(row) {
                    found.push(path.to_owned());
                }
                Ok(())
            })
            .await?;
        Ok(found)
    }

    /// There is no order by time: every row below the directory is read.
    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut newest = Newest::new(period);
        self.0
            .scan(below(&period.under), |key, row| {
                if let Some(modified) = modified(row)? {
                    newest.offer(modified, || key.clone());
                }
                Ok(())
            })
            .await?;
        let named = newest.done().into_iter().map(|(time, key)| Ok((time, String::from_utf8(key.to_vec())?)));
        named.collect()
    }
}
