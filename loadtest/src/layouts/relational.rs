//! A relational database: a table of nodes with the parent's id, unique names in a parent, and indexes by name and by
//! time of modification. SQLite, in this process, with a write-ahead log that is synced at each commit.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use rowdrive::schema::Timestamp;
use rowdrive::schema::file::{Attributes, ContentLocation, Digest};
use rowdrive::schema::index::by_time::Clock;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, params};

use super::{Child, Layout, List, NewFile, Node, Period, Verdict, split};

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
    CREATE INDEX IF NOT EXISTS node_by_modified ON node (modified);
    CREATE INDEX IF NOT EXISTS node_by_added ON node (added);
    CREATE INDEX IF NOT EXISTS node_by_creator ON node (creator, modified);
";
/// What a node's attributes are read from, in this order.
const SELECT: &str = "SELECT is_directory, size, mime, creator, modified, added, digest, name FROM node ";
const INSERT: &str = "INSERT INTO node (parent, name, is_directory, size, mime, creator, modified, added, digest)
                      VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8)";
/// All directories below ?4.
const BELOW: &str = "WITH RECURSIVE below (id) AS (
    VALUES (?4) UNION ALL SELECT node.id FROM node JOIN below ON parent = below.id WHERE is_directory
)";

pub struct Relational(Arc<Database>);

struct Database {
    writer: Mutex<Connection>,
    /// One for each core: a statement is at work on one at a time.
    readers: Vec<Mutex<Connection>>,
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
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -{pages};
                 PRAGMA mmap_size = {memory};"
            ))?;
            Ok(Mutex::new(connection))
        };
        let writer = open()?;
        writer.lock().unwrap_or_else(PoisonError::into_inner).execute_batch(SCHEMA)?;
        let readers = (0..readers).map(|_| open()).collect::<Result<Vec<_>>>()?;
        Ok(Self(Arc::new(Database { writer, readers })))
    }

    /// On the client's own thread, as a store answers what it has in memory.
    async fn read<T>(&self, ask: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        // There are as many readers as threads, so one of them is free.
        let free = self.0.readers.iter().find_map(|reader| reader.try_lock().ok());
        let first = || Some(self.0.readers.first()?.lock().unwrap_or_else(PoisonError::into_inner));
        let reader = free.or_else(first).context("there is no connection")?;
        ask(&reader)
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
            // A deferred one fails if a reader holds the write lock for a moment, as SQLite's readers may.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
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

/// The id of the node of a path, and whether it is a directory: a look-up for each name.
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
        return Ok(Child { name, node: Some(Node::Directory) });
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
    Ok(Child { name, node: Some(Node::File(attributes)) })
}

/// Renames a node, whatever it is: its row alone.
fn rename(connection: &Connection, id: Option<i64>, to: &str) -> Result<Verdict> {
    let (parent, name) = split(to);
    let (Some(id), Some(parent)) = (id, directory(connection, parent)?) else { return Ok(Verdict::Missing) };
    let mut update = connection.prepare_cached("UPDATE node SET parent = ?1, name = ?2 WHERE id = ?3")?;
    update.execute(params![parent, name, id])?;
    Ok(Verdict::Done)
}

/// Stores a file, or replaces it.
fn put(connection: &Connection, file: &NewFile, is_new: bool) -> Result<Verdict> {
    if is_new {
        let (parent, name) = split(&file.path);
        let Some(parent) = directory(connection, parent)? else { return Ok(Verdict::Missing) };
        return insert(connection, parent, name, &file.attributes);
    }
    let Some(id) = self::file(connection, &file.path)? else { return Ok(Verdict::Missing) };
    let Attributes { size, mime, creator, modified, added, digest, .. } = &file.attributes;
    let mut update = connection.prepare_cached(
        "UPDATE node SET size = ?1, mime = ?2, creator = ?3, modified = ?4, added = ?5, digest = ?6 WHERE id = ?7",
    )?;
    update.execute(params![*size as i64, mime, creator, modified.ms(), added.ms(), digest.0, id])?;
    Ok(Verdict::Done)
}

fn list(connection: &Connection, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
    let Some(id) = directory(connection, path)? else { return Ok(None) };
    let all = |where_: &str| format!("{SELECT} WHERE parent = ?1 {where_}");
    let children = match ask {
        List::Names => {
            let mut select = connection.prepare_cached("SELECT name FROM node WHERE parent = ?1")?;
            let names = select.query_map([id], |row| Ok(Child { name: row.get(0)?, node: None }))?;
            names.collect::<rusqlite::Result<_>>()?
        }
        List::Attributes => {
            connection.prepare_cached(&all(""))?.query_map([id], child)?.collect::<rusqlite::Result<_>>()?
        }
        List::Page { after, limit } => {
            let page = all("AND name > ?2 AND NOT is_directory ORDER BY name LIMIT ?3");
            let mut select = connection.prepare_cached(&page)?;
            select.query_map(params![id, after, *limit as i64], child)?.collect::<rusqlite::Result<_>>()?
        }
    };
    Ok(Some(children))
}

fn period(
    connection: &Connection,
    Period { clock, creator, from, to, under, limit }: &Period,
) -> Result<Vec<(i64, String)>> {
    let Some(root) = directory(connection, under)? else { return Ok(Vec::new()) };
    let time = if *clock == Clock::Modified { "modified" } else { "added" };
    let (with, below) = if root == ROOT { ("", "?4 = ?4") } else { (BELOW, "parent IN below") };
    let creator_is = if creator.is_some() { "creator = ?5" } else { "?5 IS NULL" };
    let mut select = connection.prepare_cached(&format!(
        "{with} SELECT {time}, parent, name FROM node
         WHERE {time} >= ?1 AND {time} < ?2 AND {below} AND {creator_is} ORDER BY {time} DESC LIMIT ?3"
    ))?;
    let file = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let files = select.query_map(params![from, to, *limit as i64, root, creator], file)?;
    let files: Vec<(i64, i64, String)> = files.collect::<rusqlite::Result<_>>()?;
    let path = |(time, parent, name)| Ok((time, format!("{}/{name}", path_of(connection, parent)?)));
    files.into_iter().map(path).collect()
}

#[async_trait]
impl Layout for Relational {
    /// Compacts the database, and writes the log into it.
    async fn compact(&self) -> Result<Option<u64>> {
        let database = self.0.clone();
        let compact = move || {
            let writer = database.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.execute_batch("VACUUM; ANALYZE")?;
            writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            let path = writer.path().context("the database has no file")?;
            Ok(Some(std::fs::metadata(path)?.len()))
        };
        tokio::task::spawn_blocking(compact).await?
    }

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let path = path.to_owned();
        self.write(move |connection| {
            let (parent, name) = split(&path);
            let Some(parent) = directory(connection, parent)? else { return Ok(Verdict::Missing) };
            let insert = "INSERT INTO node (parent, name, is_directory) VALUES (?1, ?2, 1)";
            connection.prepare_cached(insert)?.execute(params![parent, name])?;
            Ok(Verdict::Done)
        })
        .await
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        let file = file.clone();
        self.write(move |connection| put(connection, &file, is_new)).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        self.read(|connection| {
            let (parent, name) = split(path);
            let Some(parent) = directory(connection, parent)? else { return Ok(None) };
            let mut select = connection.prepare_cached(&format!("{SELECT} WHERE parent = ?1 AND name = ?2"))?;
            Ok(select.query_row(params![parent, name], child).optional()?.and_then(|child| child.node))
        })
        .await
    }

    /// Content is measured in the store's layouts alone.
    async fn read(&self, _path: &str) -> Result<Option<Bytes>> {
        Ok(None)
    }

    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        self.read(|connection| list(connection, path, ask)).await
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.write(move |connection| rename(connection, resolve(connection, &from)?.map(|(id, _)| id), &to)).await
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
        self.read(|connection| {
            let select = "SELECT parent FROM node WHERE name = ?1 AND NOT is_directory";
            let mut select = connection.prepare_cached(select)?;
            let parents = select.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
            parents.into_iter().map(|parent| Ok(format!("{}/{name}", path_of(connection, parent)?))).collect()
        })
        .await
    }

    async fn period(&self, ask: &Period) -> Result<Vec<(i64, String)>> {
        self.read(|connection| period(connection, ask)).await
    }

    /// All in one transaction.
    async fn load(&self, files: &[NewFile], _at_a_time: usize) -> Result<u64> {
        let files = files.to_vec();
        self.transaction(move |connection| {
            let mut stored = 0;
            for file in &files {
                stored += u64::from(unless_taken(put(connection, file, true))? == Verdict::Done);
            }
            Ok(stored)
        })
        .await
    }
}
