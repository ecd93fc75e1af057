//! Row key = the parent's random id and the name, as inodes have it: a path is as many reads as it has names, a
//! rename is one row however much lies below, and nothing is found but by walking.

use anyhow::Result;
use rowdrive::schema::DirId;
use rowdrive::schema::file::Attributes;
use rowdrive::table::{Row, RowKey, RowRange, Tables};

use super::directories::Directories;
use super::newest::Newest;
use super::rows::{Rows, Stored, is_directory, modified};
use super::{Child, Layout, Node, Period, Verdict, is_within, split};

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
    async fn survey(&self, mut see: impl FnMut(&RowKey, &Row) -> Result<()> + Send) -> Result<Directories> {
        let mut all = Directories::default();
        let each = |key: &RowKey, row: &Row| {
            if !is_directory(row) {
                return see(key, row);
            }
            if let (Some(Stored::Directory(entry)), (parent, name)) = (Stored::of(row)?, parts(key)?) {
                all.add(entry.id, parent, name);
            }
            Ok(())
        };
        self.0.scan(RowRange::all(), each).await?;
        Ok(all)
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
        let Some(id) = self.directory(path).await? else { return Ok(None) };
        let mut names = Vec::new();
        self.0
            .scan(RowRange::prefix(id.0.as_bytes()), |key, _| {
                names.push(parts(key)?.1.to_owned());
                Ok(())
            })
            .await?;
        Ok(Some(names))
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        let Some(id) = self.directory(path).await? else { return Ok(None) };
        let mut children = Vec::new();
        self.0
            .scan(RowRange::prefix(id.0.as_bytes()), |key, row| {
                let name = parts(key)?.1.to_owned();
                children.extend(Stored::of(row)?.map(|stored| Child { name, node: stored.node() }));
                Ok(())
            })
            .await?;
        Ok(Some(children))
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

    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let mut parents = Vec::new();
        let see = |key: &RowKey, _: &Row| {
            let (parent, found) = parts(key)?;
            if found == name {
                parents.push(parent);
            }
            Ok(())
        };
        let directories = self.survey(see).await?;
        Ok(parents.into_iter().map(|parent| format!("{}/{name}", directories.path(parent))).collect())
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        // What lies below a directory is known when all directories are: the files have to wait until then.
        let whole = period.under.is_empty();
        let mut newest = Newest::new(period);
        let mut all = Vec::new();
        let see = |key: &RowKey, row: &Row| {
            match modified(row)? {
                Some(time) if whole => newest.offer(time, || key.clone()),
                Some(time) if (period.from..period.to).contains(&time) => all.push((time, key.clone())),
                _ => {}
            }
            Ok(())
        };
        let directories = self.survey(see).await?;
        let path = |key: &[u8]| parts(key).map(|(parent, name)| format!("{}/{name}", directories.path(parent)));
        for (time, key) in all {
            if is_within(&path(&key)?, &period.under) {
                newest.offer(time, || key);
            }
        }
        newest.done().into_iter().map(|(time, key)| Ok((time, path(&key)?))).collect()
    }
}
