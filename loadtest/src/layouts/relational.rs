//! A relational database: a table of nodes with the parent's id, unique names in a parent, and indexes by name and by
//! time of modification. SQLite, in this process, with a write-ahead log that is synced at each commit.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use rowdrive::schema::Timestamp;
use rowdrive::schema::file::{Attributes, ContentLocation, Digest};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};

use super::{Child, Layout, Node, Period, Verdict, split};

/// The root's id: it has no row.
const ROOT: i64 = 0;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS node (
        id INTEGER PRIMARY KEY,
        parent INTEGER NOT NULL,
        name TEXT NOT NULL,
        is_directory INTEGER NOT NULL,
        size INTEGER, mime TEXT, creator TEXT, modified INTEGER, added INTEGER, digest BLOB,
        UNIQUE (parent, name)
    );
    CREATE INDEX IF NOT EXISTS node_by_name ON node (name);
    CREATE INDEX IF NOT EXISTS node_by_time ON node (modified);
";
/// What a node's attributes are read from, in this order.
const SELECT: &str = "SELECT is_directory, size, mime, creator, modified, added, digest, name FROM node ";
const INSERT: &str = "INSERT INTO node (parent, name, is_directory, size, mime, creator, modified, added, digest)
                      VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8)";
const NEWEST: &str = "SELECT modified, parent, name FROM node WHERE modified >= ?1 AND modified < ?2
                      ORDER BY modified DESC LIMIT ?3";
const NEWEST_BELOW: &str = "
    WITH RECURSIVE below (id) AS (
        VALUES (?4) UNION ALL SELECT node.id FROM node JOIN below ON parent = below.id WHERE is_directory
    )
    SELECT modified, parent, name FROM node WHERE parent IN below AND modified >= ?1 AND modified < ?2
    ORDER BY modified DESC LIMIT ?3";

#[derive(Clone)]
pub struct Relational(Arc<Database>);

struct Database {
    writer: Mutex<Connection>,
    /// One for each core: a statement is at work on one at a time.
    readers: Vec<Mutex<Connection>>,
    next: std::sync::atomic::AtomicUsize,
}

impl Relational {
    /// Opens the database in this folder, and makes it if there is none. `memory`: bytes of cache, over all connections.
    pub async fn open(folder: &Path, memory: usize) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join("nodes.sqlite");
        let readers = std::thread::available_parallelism().map_or(1, usize::from);
        let pages = memory / 1024 / (readers + 1);
        let open = || -> Result<Mutex<Connection>> {
            let connection = Connection::open(&path)?;
            connection.execute_batch(&format!(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -{pages};"
            ))?;
            Ok(Mutex::new(connection))
        };
        let writer = open()?;
        writer.lock().unwrap_or_else(PoisonError::into_inner).execute_batch(SCHEMA)?;
        let readers = (0..readers).map(|_| open()).collect::<Result<Vec<_>>>()?;
        Ok(Self(Arc::new(Database { writer, readers, next: Default::default() })))
    }

    async fn read<T: Send + 'static>(&self, ask: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> Result<T> {
        let database = self.0.clone();
        let read = move || {
            let next = database.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % database.readers.len();
            let reader = database.readers.get(next).context("there is no connection")?;
            ask(&reader.lock().unwrap_or_else(PoisonError::into_inner))
        };
        tokio::task::spawn_blocking(read).await?
    }

    /// In one transaction: a statement that finds a name taken changes nothing.
    async fn write(&self, change: impl FnOnce(&Connection) -> Result<Verdict> + Send + 'static) -> Result<Verdict> {
        self.transaction(move |connection| unless_taken(change(connection))).await
    }

    async fn transaction<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = self.0.clone();
        let write = move || {
            let mut connection = database.writer.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = connection.transaction()?;
            let done = change(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        tokio::task::spawn_blocking(write).await?
    }
}

fn unless_taken(result: Result<Verdict>) -> Result<Verdict> {
    match result {
        Err(error)
            if error.downcast_ref::<rusqlite::Error>().and_then(|e| e.sqlite_error_code())
                == Some(ErrorCode::ConstraintViolation) =>
        {
            Ok(Verdict::Exists)
        }
        result => result,
    }
}

/// The id of what stands at a path, and whether it is a directory: a look-up for each name.
fn resolve(connection: &Connection, path: &str) -> Result<Option<(i64, bool)>> {
    let mut step = connection.prepare_cached("SELECT id, is_directory FROM node WHERE parent = ?1 AND name = ?2")?;
    let mut at = (ROOT, true);
    for name in path.split('/').skip(1) {
        let found = step.query_row(params![at.0, name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match found {
            Some(found) => at = found,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

fn directory(connection: &Connection, path: &str) -> Result<Option<i64>> {
    Ok(resolve(connection, path)?.filter(|(_, is_directory)| *is_directory).map(|(id, _)| id))
}

fn file(connection: &Connection, path: &str) -> Result<Option<i64>> {
    Ok(resolve(connection, path)?.filter(|(_, is_directory)| !*is_directory).map(|(id, _)| id))
}

fn path_of(connection: &Connection, mut directory: i64) -> Result<String> {
    let mut step = connection.prepare_cached("SELECT parent, name FROM node WHERE id = ?1")?;
    let mut names = Vec::new();
    while directory != ROOT {
        let (parent, name): (i64, String) = step.query_row([directory], |row| Ok((row.get(0)?, row.get(1)?)))?;
        names.push(name);
        directory = parent;
    }
    Ok(names.iter().rev().flat_map(|name| ["/", name]).collect())
}

fn insert(connection: &Connection, parent: i64, name: &str, attributes: &Attributes) -> Result<Verdict> {
    let Attributes { size, mime, creator, modified, added, digest, .. } = attributes;
    let values = params![parent, name, *size as i64, mime, creator, modified.ms(), added.ms(), digest.0];
    connection.prepare_cached(INSERT)?.execute(values)?;
    Ok(Verdict::Done)
}

/// A row of [`SELECT`].
fn child(row: &Row<'_>) -> rusqlite::Result<Child> {
    let name = row.get(7)?;
    if row.get(0)? {
        return Ok(Child { name, node: Node::Directory });
    }
    let attributes = Attributes {
        size: row.get::<_, i64>(1)? as u64,
        mime: row.get(2)?,
        creator: row.get(3)?,
        modified: Timestamp::from_ms(row.get(4)?),
        added: Timestamp::from_ms(row.get(5)?),
        digest: Digest(row.get(6)?),
        location: ContentLocation::Inline,
    };
    Ok(Child { name, node: Node::File(attributes) })
}

/// Renames a node, whatever it is: its row alone.
fn rename(connection: &Connection, id: Option<i64>, to: &str) -> Result<Verdict> {
    let (parent, name) = split(to);
    let (Some(id), Some(parent)) = (id, directory(connection, parent)?) else { return Ok(Verdict::Missing) };
    let mut update = connection.prepare_cached("UPDATE node SET parent = ?1, name = ?2 WHERE id = ?3")?;
    update.execute(params![parent, name, id])?;
    Ok(Verdict::Done)
}

impl Layout for Relational {
    const NAME: &'static str = "relational";

    /// Compacts the database, and writes the log into it.
    async fn settle(&self) -> Result<Option<u64>> {
        let database = self.0.clone();
        let settle = move || {
            let writer = database.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.execute_batch("VACUUM")?;
            writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            let path = writer.path().context("the database has no file")?;
            Ok(Some(std::fs::metadata(path)?.len()))
        };
        tokio::task::spawn_blocking(settle).await?
    }

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let path = path.to_owned();
        self.write(move |connection| {
            let (parent, name) = split(&path);
            let Some(parent) = directory(connection, parent)? else { return Ok(Verdict::Missing) };
            let mut insert =
                connection.prepare_cached("INSERT INTO node (parent, name, is_directory) VALUES (?1, ?2, 1)")?;
            insert.execute(params![parent, name])?;
            Ok(Verdict::Done)
        })
        .await
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        let (path, attributes) = (path.to_owned(), attributes.clone());
        self.write(move |connection| {
            let (parent, name) = split(&path);
            match directory(connection, parent)? {
                Some(parent) => insert(connection, parent, name, &attributes),
                None => Ok(Verdict::Missing),
            }
        })
        .await
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        let (path, attributes) = (path.to_owned(), attributes.clone());
        self.write(move |connection| {
            let Some(id) = file(connection, &path)? else { return Ok(Verdict::Missing) };
            let Attributes { size, mime, creator, modified, added, digest, .. } = &attributes;
            let mut update = connection.prepare_cached(
                "UPDATE node SET size = ?1, mime = ?2, creator = ?3, modified = ?4, added = ?5, digest = ?6
                 WHERE id = ?7",
            )?;
            update.execute(params![*size as i64, mime, creator, modified.ms(), added.ms(), digest.0, id])?;
            Ok(Verdict::Done)
        })
        .await
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        let path = path.to_owned();
        self.read(move |connection| {
            let (parent, name) = split(&path);
            if path.is_empty() {
                return Ok(Some(Node::Directory));
            }
            let Some(parent) = directory(connection, parent)? else { return Ok(None) };
            let mut select = connection.prepare_cached(&format!("{SELECT} WHERE parent = ?1 AND name = ?2"))?;
            Ok(select.query_row(params![parent, name], child).optional()?.map(|child| child.node))
        })
        .await
    }

    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        let path = path.to_owned();
        self.read(move |connection| {
            let Some(id) = directory(connection, &path)? else { return Ok(None) };
            let mut select = connection.prepare_cached("SELECT name FROM node WHERE parent = ?1")?;
            let names = select.query_map([id], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            Ok(Some(names))
        })
        .await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        let path = path.to_owned();
        self.read(move |connection| {
            let Some(id) = directory(connection, &path)? else { return Ok(None) };
            let mut select = connection.prepare_cached(&format!("{SELECT} WHERE parent = ?1"))?;
            let children = select.query_map([id], child)?.collect::<rusqlite::Result<_>>()?;
            Ok(Some(children))
        })
        .await
    }

    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        let (path, after) = (path.to_owned(), after.to_owned());
        self.read(move |connection| {
            let Some(id) = directory(connection, &path)? else { return Ok(None) };
            let mut select = connection.prepare_cached(&format!(
                "{SELECT} WHERE parent = ?1 AND name > ?2 AND NOT is_directory ORDER BY name LIMIT ?3"
            ))?;
            let page = select.query_map(params![id, after, limit as i64], child)?.collect::<rusqlite::Result<_>>()?;
            Ok(Some(page))
        })
        .await
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.write(move |connection| rename(connection, directory(connection, &from)?, &to)).await
    }

    async fn move_file(&self, from: &str, to: &str) -> Result<Verdict> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.write(move |connection| rename(connection, file(connection, &from)?, &to)).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        let path = path.to_owned();
        self.write(move |connection| {
            let Some(id) = file(connection, &path)? else { return Ok(Verdict::Missing) };
            connection.prepare_cached("DELETE FROM node WHERE id = ?1")?.execute([id])?;
            Ok(Verdict::Done)
        })
        .await
    }

    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let name = name.to_owned();
        self.read(move |connection| {
            let mut select =
                connection.prepare_cached("SELECT parent FROM node WHERE name = ?1 AND NOT is_directory")?;
            let parents = select.query_map([&name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
            parents.into_iter().map(|parent| Ok(format!("{}/{name}", path_of(connection, parent)?))).collect()
        })
        .await
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let Period { from, to, under, limit } = period.clone();
        self.read(move |connection| {
            let Some(root) = directory(connection, &under)? else { return Ok(Vec::new()) };
            let found = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let limit = limit as i64;
            let files: Vec<(i64, i64, String)> = if root == ROOT {
                let mut select = connection.prepare_cached(NEWEST)?;
                select.query_map(params![from, to, limit], found)?.collect::<rusqlite::Result<_>>()?
            } else {
                let mut select = connection.prepare_cached(NEWEST_BELOW)?;
                select.query_map(params![from, to, limit, root], found)?.collect::<rusqlite::Result<_>>()?
            };
            let path = |(time, parent, name)| Ok((time, format!("{}/{name}", path_of(connection, parent)?)));
            files.into_iter().map(path).collect()
        })
        .await
    }

    /// All in one transaction.
    async fn load(&self, files: &[(String, Attributes)], _at_a_time: usize) -> Result<u64> {
        let files = files.to_vec();
        self.transaction(move |connection| {
            let mut stored = 0;
            for (path, attributes) in &files {
                let (parent, name) = split(path);
                let parent = directory(connection, parent)?.with_context(|| format!("{parent} was not loaded"))?;
                let verdict = unless_taken(insert(connection, parent, name, attributes))?;
                stored += u64::from(verdict == Verdict::Done);
            }
            Ok(stored)
        })
        .await
    }
}
