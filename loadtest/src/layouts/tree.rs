//! Row key = the parent's random id and the name, as inodes have it: a path is as many reads as it has names, a
//! rename is one row however much lies below, and nothing is found but by walking.

use anyhow::Result;
use rowdrive::schema::DirId;
use rowdrive::schema::file::Attributes;
use rowdrive::table::{Row, RowKey, RowRange, Tables};

use super::directories::{Directories, Search};
use super::rows::{self, Rows, Stored, is_directory, modified};
use super::{Child, Layout, Node, Period, Verdict, split};

const TABLE: &str = "tree";
const ID: usize = 16;

#[derive(Clone)]
pub struct Tree(Rows);

fn key(parent: DirId, name: &str) -> Vec<u8> {
    [parent.0.as_bytes(), name.as_bytes()].concat()
}

/// The parent and the name that a key says.
fn parts(key: &[u8]) -> Result<(DirId, &str)> {
    let (parent, name) = key.split_at_checked(ID).unwrap_or_default();
    Ok((DirId(::uuid::Uuid::from_slice(parent)?), std::str::from_utf8(name)?))
}

impl Tree {
    pub async fn create(tables: Tables) -> Result<Self> {
        Ok(Self(Rows::create(tables, TABLE).await?))
    }

    async fn directory(&self, path: &str) -> Result<Option<DirId>> {
        let mut id = DirId::ROOT;
        for name in path.split('/').skip(1) {
            match self.0.stored(&key(id, name)).await? {
                Some(Stored::Directory(entry)) => id = entry.id,
                _ => return Ok(None),
            }
        }
        Ok(Some(id))
    }

    /// The key of a path, if its parent is there.
    async fn key(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let (parent, name) = split(path);
        Ok(self.directory(parent).await?.map(|id| key(id, name)))
    }

    async fn stored(&self, path: &str) -> Result<Option<(Vec<u8>, Stored)>> {
        let Some(key) = self.key(path).await? else { return Ok(None) };
        Ok(self.0.stored(&key).await?.map(|stored| (key, stored)))
    }

    async fn file(&self, path: &str) -> Result<Option<(Vec<u8>, Stored)>> {
        Ok(self.stored(path).await?.filter(|(_, stored)| matches!(stored, Stored::File(_))))
    }

    async fn add(&self, path: &str, stored: &Stored) -> Result<Verdict> {
        match self.key(path).await? {
            Some(key) => self.0.commit(vec![self.0.added(key, stored, vec![])]).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn rename(&self, old: (Vec<u8>, Stored), to: &str) -> Result<Verdict> {
        let Some(new) = self.key(to).await? else { return Ok(Verdict::Missing) };
        let (old, stored) = old;
        self.0.commit(vec![self.0.added(new, &stored, vec![]), self.0.removed(old, &stored, &[])]).await
    }

    /// Shows all files, and returns all directories.
    async fn survey(&self, mut see: impl FnMut(&Row, DirId, &str) -> Result<()> + Send) -> Result<Directories> {
        let mut all = Directories::default();
        let each = |key: &RowKey, row: &Row| {
            let (parent, name) = parts(key)?;
            if !is_directory(row) {
                return see(row, parent, name);
            }
            if let Some(Stored::Directory(entry)) = Stored::of(row)? {
                all.add(entry.id, parent, name);
            }
            Ok(())
        };
        self.0.scan(RowRange::all(), each).await?;
        Ok(all)
    }

    /// What `child` takes of the children of a directory, in the order of their names.
    async fn children<T: Send>(
        &self,
        path: &str,
        child: impl Fn(&str, &Row) -> Result<Option<T>> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        let Some(id) = self.directory(path).await? else { return Ok(None) };
        let mut children = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            children.extend(child(parts(key)?.1, row)?);
            Ok(())
        };
        self.0.list(RowRange::prefix(id.0.as_bytes()), each).await?;
        Ok(Some(children))
    }
}

impl Layout for Tree {
    const NAME: &'static str = "tree";

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        self.add(path, &Stored::directory(DirId::random())).await
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        self.add(path, &Stored::file(attributes)).await
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.file(path).await? {
            Some((key, old)) => self.0.commit(vec![self.0.changed(key, &old, &Stored::file(attributes), vec![])]).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        Ok(self.stored(path).await?.map(|(_, stored)| stored.node()))
    }

    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        self.children(path, rows::name).await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        self.children(path, rows::child).await
    }

    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        let Some(id) = self.directory(path).await? else { return Ok(None) };
        Ok(Some(self.0.files_after(id.0.as_bytes(), after, limit).await?))
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        match self.stored(from).await? {
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
            Some((key, stored)) => self.0.commit(vec![self.0.removed(key, &stored, &[])]).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn find(&self, wanted: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let see = |_: &Row, parent: DirId, name: &str| {
            if name == wanted {
                found.push((parent, name.to_owned()));
            }
            Ok(())
        };
        let directories = self.survey(see).await?;
        Ok(found.iter().map(|spot| directories.path_of(spot)).collect())
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut search = Search::new(period);
        let see = |row: &Row, parent: DirId, name: &str| {
            modified(row)?.into_iter().for_each(|modified| search.offer(modified, parent, name));
            Ok(())
        };
        let directories = self.survey(see).await?;
        Ok(search.done(&directories))
    }
}
