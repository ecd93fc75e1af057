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
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row, TransactionBehavior, params};

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
/// Of the node ?1; its name, ?2, stays.
const UPDATE: &str = "UPDATE node SET size = ?3, mime = ?4, creator = ?5, modified = ?6, added = ?7, digest = ?8
                      WHERE id = ?1";
const BELOW: &str = "WITH RECURSIVE below (id) AS (
    VALUES (?4) UNION ALL SELECT node.id FROM node JOIN below ON parent = below.id WHERE is_directory
)";

pub struct Relational {
    writer: Arc<Mutex<Connection>>,
    /// One for each core: a statement is at work on one at a time.
    readers: Vec<Mutex<Connection>>,
}

impl Relational {
    /// Opens the database in this folder, and makes it if there is none. `memory`: bytes of cache, over all
    /// connections.
    pub async fn open(folder: &Path, memory: usize) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join("nodes.sqlite");
        let readers = std::thread::available_parallelism().map_or(1, usize::from);
        let pages = memory / 1024 / (readers + 1);
        let open = |schema: &str| -> Result<Mutex<Connection>> {
            let connection = Connection::open(&path)?;
            connection.execute_batch(&format!(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -{pages};
                 PRAGMA mmap_size = {memory}; {schema}"
            ))?;
            Ok(Mutex::new(connection))
        };
        let writer = open(SCHEMA)?;
        let readers = (0..readers).map(|_| open("")).collect::<Result<Vec<_>>>()?;
        Ok(Self { writer: Arc::new(writer), readers })
    }

    /// On the client's own thread, as a store answers what it has in memory.
    fn read<T>(&self, ask: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        // There are as many readers as threads, so one of them is free.
        let free = self.readers.iter().find_map(|reader| reader.try_lock().ok());
        let first = || Some(self.readers.first()?.lock().unwrap_or_else(PoisonError::into_inner));
        let reader = free.or_else(first).context("there is no connection")?;
        ask(&reader)
    }

    /// In one transaction.
    async fn write<T: Send + 'static>(&self, run: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> Result<T> {
        let writer = self.writer.clone();
        let write = move || {
            let mut connection = writer.lock().unwrap_or_else(PoisonError::into_inner);
            // A deferred one fails if a reader holds the write lock for a moment, as SQLite's readers may.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = run(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        tokio::task::spawn_blocking(write).await?
    }
}

fn select<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    Ok(connection.prepare_cached(sql)?.query_map(parameters, row)?.collect::<rusqlite::Result<_>>()?)
}

/// A statement that finds a name taken changes nothing.
fn execute(connection: &Connection, sql: &str, parameters: impl Params) -> Result<Verdict> {
    match connection.prepare_cached(sql)?.execute(parameters) {
        Ok(_) => Ok(Verdict::Done),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Ok(Verdict::Exists),
        Err(error) => Err(error.into()),
    }
}

/// The id of the node of a path, and whether it is a directory: a look-up for each name.
fn resolve(connection: &Connection, path: &str) -> Result<Option<(i64, bool)>> {
    let mut step = connection.prepare_cached("SELECT id, is_directory FROM node WHERE parent = ?1 AND name = ?2")?;
    let mut at = (ROOT, true);
    for name in path.split('/').skip(1) {
        let found = step.query_row(params![at.0, name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some(found) = found else { return Ok(None) };
        at = found;
    }
    Ok(Some(at))
}

/// The id of a directory, or of a file.
fn id(connection: &Connection, path: &str, of_directory: bool) -> Result<Option<i64>> {
    Ok(resolve(connection, path)?.filter(|(_, is_directory)| *is_directory == of_directory).map(|(id, _)| id))
}

fn path_of(connection: &Connection, mut directory: i64, name: &str) -> Result<String> {
    let mut step = connection.prepare_cached("SELECT parent, name FROM node WHERE id = ?1")?;
    let mut path = format!("/{name}");
    while directory != ROOT {
        let (parent, name): (i64, String) = step.query_row([directory], |row| Ok((row.get(0)?, row.get(1)?)))?;
        path = format!("/{name}{path}");
        directory = parent;
    }
    Ok(path)
}

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

fn put(connection: &Connection, file: &NewFile, is_new: bool) -> Result<Verdict> {
    let (parent, name) = split(&file.path);
    let (sql, id) = match is_new {
        true => (INSERT, id(connection, parent, true)?),
        false => (UPDATE, id(connection, &file.path, false)?),
    };
    let Some(id) = id else { return Ok(Verdict::Missing) };
    let Attributes { size, mime, creator, modified, added, digest, .. } = &file.attributes;
    let values = params![id, name, *size as i64, mime, creator, modified.ms(), added.ms(), digest.0];
    execute(connection, sql, values)
}

#[async_trait]
impl Layout for Relational {
    /// Compacts the database, and writes the log into it.
    async fn compact(&self) -> Result<Option<u64>> {
        let writer = self.writer.clone();
        let compact = move || {
            let writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
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
            let Some(parent) = id(connection, parent, true)? else { return Ok(Verdict::Missing) };
            let insert = "INSERT INTO node (parent, name, is_directory) VALUES (?1, ?2, 1)";
            execute(connection, insert, params![parent, name])
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
            let Some(parent) = id(connection, parent, true)? else { return Ok(None) };
            let sql = format!("{SELECT} WHERE parent = ?1 AND name = ?2");
            let child = connection.prepare_cached(&sql)?.query_row(params![parent, name], child).optional()?;
            Ok(child.and_then(|child| child.node))
        })
    }

    /// Content is measured in the store's layouts alone.
    async fn read(&self, _path: &str) -> Result<Option<Bytes>> {
        Ok(None)
    }

    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        self.read(|connection| {
            let Some(id) = id(connection, path, true)? else { return Ok(None) };
            let name = |row: &Row<'_>| Ok(Child { name: row.get(0)?, node: None });
            let children = match ask {
                List::Names => select(connection, "SELECT name FROM node WHERE parent = ?1", [id], name)?,
                List::Attributes => select(connection, &format!("{SELECT} WHERE parent = ?1"), [id], child)?,
                List::Page { after, limit } => {
                    let page = "WHERE parent = ?1 AND name > ?2 AND NOT is_directory ORDER BY name LIMIT ?3";
                    select(connection, &format!("{SELECT} {page}"), params![id, after, *limit as i64], child)?
                }
            };
            Ok(Some(children))
        })
    }

    /// Whatever the node is: its row alone.
    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.write(move |connection| {
            let (node, (parent, name)) = (resolve(connection, &from)?, split(&to));
            let (Some((id, _)), Some(parent)) = (node, id(connection, parent, true)?) else {
                return Ok(Verdict::Missing);
            };
            let update = "UPDATE node SET parent = ?1, name = ?2 WHERE id = ?3";
            execute(connection, update, params![parent, name, id])
        })
        .await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        let path = path.to_owned();
        self.write(move |connection| {
            let Some(id) = id(connection, &path, false)? else { return Ok(Verdict::Missing) };
            execute(connection, "DELETE FROM node WHERE id = ?1", [id])
        })
        .await
    }

    async fn find(&self, name: &str) -> Result<Vec<String>> {
        self.read(|connection| {
            let sql = "SELECT parent FROM node WHERE name = ?1 AND NOT is_directory";
            let parents = select(connection, sql, [name], |row| row.get(0))?;
            parents.into_iter().map(|parent| path_of(connection, parent, name)).collect()
        })
    }

    async fn period(&self, Period { clock, creator, from, to, under, limit }: &Period) -> Result<Vec<(i64, String)>> {
        self.read(|connection| {
            let Some(root) = id(connection, under, true)? else { return Ok(Vec::new()) };
            let time = if *clock == Clock::Modified { "modified" } else { "added" };
            let (with, below) = if root == ROOT { ("", "?4 = ?4") } else { (BELOW, "parent IN below") };
            let creator_is = if creator.is_some() { "creator = ?5" } else { "?5 IS NULL" };
            let sql = format!(
                "{with} SELECT {time}, parent, name FROM node
                 WHERE {time} >= ?1 AND {time} < ?2 AND {below} AND {creator_is} ORDER BY {time} DESC LIMIT ?3"
            );
            let asked = params![from, to, *limit as i64, root, creator];
            let files = select(connection, &sql, asked, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let path = |(time, parent, name): (_, _, String)| Ok((time, path_of(connection, parent, &name)?));
            files.into_iter().map(path).collect()
        })
    }

    /// All in one transaction.
    async fn load(&self, files: &[NewFile], _at_a_time: usize) -> Result<u64> {
        let files = files.to_vec();
        self.write(move |connection| {
            let add = |sum, file: &NewFile| Ok(sum + u64::from(put(connection, file, true)? == Verdict::Done));
            files.iter().try_fold(0, add)
        })
        .await
    }
}
