//! The same table of nodes in PostgreSQL, a process of its own: for comparison with a database that many use.
//!
//! A path is resolved by one recursive query, and a statement changes one row: a parent that goes meanwhile is caught
//! by a foreign key, a name that is taken by a unique index.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use rowdrive::schema::Timestamp;
use rowdrive::schema::file::{Attributes, ContentLocation, Digest};
use rowdrive::schema::index::by_time::Clock;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use super::{Child, Layout, List, NewFile, Node, Period, Verdict, split};

/// Connections: each takes one statement at a time.
const CONNECTIONS: usize = 32;
/// A schema of the load test's own, made anew by each run and removed by it.
const SCHEMA: &str = "
    DROP SCHEMA IF EXISTS rowdrive_loadtest CASCADE;
    CREATE SCHEMA rowdrive_loadtest;
    CREATE TABLE rowdrive_loadtest.node (
        id bigint GENERATED ALWAYS AS IDENTITY (START 1) PRIMARY KEY,
        parent bigint NOT NULL REFERENCES rowdrive_loadtest.node,
        name text COLLATE \"C\" NOT NULL,
        is_directory boolean NOT NULL,
        size bigint, mime text, creator text, modified bigint, added bigint, digest bytea,
        UNIQUE (parent, name)
    );
    CREATE INDEX node_by_name ON rowdrive_loadtest.node (name);
    CREATE INDEX node_by_modified ON rowdrive_loadtest.node (modified);
    CREATE INDEX node_by_added ON rowdrive_loadtest.node (added);
    CREATE INDEX node_by_creator ON rowdrive_loadtest.node (creator, modified);
    INSERT INTO rowdrive_loadtest.node (id, parent, name, is_directory) OVERRIDING SYSTEM VALUE VALUES (0, 0, '', true);
";
/// Keeps what was loaded, for [`RESTORE`].
const KEEP: &str = "CREATE TABLE rowdrive_loadtest.loaded AS TABLE rowdrive_loadtest.node";
const RESTORE: &str = "
    TRUNCATE rowdrive_loadtest.node;
    INSERT INTO rowdrive_loadtest.node OVERRIDING SYSTEM VALUE SELECT * FROM rowdrive_loadtest.loaded ORDER BY id";
const RESOLVE: &str = "
    WITH RECURSIVE walk (depth, id, is_directory) AS (
        SELECT 0, 0::bigint, true
        UNION ALL
        SELECT depth + 1, node.id, node.is_directory FROM walk
        JOIN rowdrive_loadtest.node ON parent = walk.id AND name = ($1::text[])[depth + 1]
        WHERE depth < cardinality($1::text[])
    )
    SELECT id, is_directory FROM walk WHERE depth = cardinality($1::text[])";
/// The path of the node `n`, for a query that selects few of them.
const PATH: &str = "
    (WITH RECURSIVE up (depth, parent, name) AS (
        SELECT 0, n.parent, n.name
        UNION ALL
        SELECT depth + 1, above.parent, above.name FROM up
        JOIN rowdrive_loadtest.node AS above ON above.id = up.parent WHERE up.name <> ''
    )
    SELECT string_agg('/' || name, '' ORDER BY depth DESC) FILTER (WHERE name <> '') FROM up)";
const SELECT: &str =
    "SELECT is_directory, size, mime, creator, modified, added, digest, name FROM rowdrive_loadtest.node";
const BELOW: &str = "
    WITH RECURSIVE below (id) AS (
        SELECT $4::bigint UNION ALL
        SELECT node.id FROM rowdrive_loadtest.node JOIN below ON parent = below.id WHERE is_directory
    )";

pub struct Postgres(Database);

struct Database {
    connections: Vec<Connection>,
    next: AtomicUsize,
}

/// A connection, and the statements that it knows: each is parsed once.
struct Connection {
    client: Client,
    known: Mutex<HashMap<String, Statement>>,
}

async fn connect(url: &str) -> Result<Client> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, io) = connected.context("no PostgreSQL answers at the address that --postgres names")?;
    tokio::spawn(io);
    Ok(client)
}

impl Connection {
    async fn prepared(&self, text: &str) -> Result<Statement> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(text).await?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Postgres {
    /// Makes the schema `rowdrive_loadtest` in the database of this URL (`postgresql://user@host/database`).
    ///
    /// Errors if nobody answers there, or the user may not make a schema.
    pub async fn create(url: &str) -> Result<Self> {
        let made = Self::connect(url).await?;
        made.batch(SCHEMA).await.context("the schema rowdrive_loadtest cannot be made")?;
        Ok(made)
    }

    /// Opens what [`Self::create`] has made, with the rows that it had when it was compacted.
    pub async fn as_loaded(url: &str) -> Result<Self> {
        let opened = Self::connect(url).await?;
        opened.batch(RESTORE).await.context("the schema rowdrive_loadtest cannot be restored")?;
        opened.batch("VACUUM (ANALYZE) rowdrive_loadtest.node").await?;
        // Otherwise it may come while another layout is measured. Not every user may ask for it.
        opened.batch("CHECKPOINT").await.unwrap_or_default();
        Ok(opened)
    }

    /// Removes what [`Self::create`] has made.
    pub async fn remove(url: &str) -> Result<()> {
        Ok(connect(url).await?.batch_execute("DROP SCHEMA IF EXISTS rowdrive_loadtest CASCADE").await?)
    }

    async fn connect(url: &str) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection { client: connect(url).await?, known: Mutex::default() });
        }
        Ok(Self(Database { connections, next: AtomicUsize::new(0) }))
    }

    async fn batch(&self, statements: &str) -> Result<()> {
        Ok(self.connection()?.client.batch_execute(statements).await?)
    }

    fn connection(&self) -> Result<&Connection> {
        let next = self.0.next.fetch_add(1, Ordering::Relaxed) % self.0.connections.len().max(1);
        self.0.connections.get(next).context("there is no connection")
    }

    async fn query(&self, text: &str, values: Values<'_>) -> Result<Vec<Row>> {
        let connection = self.connection()?;
        Ok(connection.client.query(&connection.prepared(text).await?, values).await?)
    }

    async fn one(&self, text: &str, values: Values<'_>) -> Result<Option<Row>> {
        Ok(self.query(text, values).await?.into_iter().next())
    }

    /// The id of the node of a path, and whether it is a directory.
    async fn resolve(&self, path: &str) -> Result<Option<(i64, bool)>> {
        let names: Vec<&str> = path.split('/').skip(1).collect();
        Ok(self.one(RESOLVE, &[&names]).await?.map(|row| (row.get(0), row.get(1))))
    }

    async fn directory(&self, path: &str) -> Result<Option<i64>> {
        Ok(self.resolve(path).await?.filter(|(_, is_directory)| *is_directory).map(|(id, _)| id))
    }

    async fn file(&self, path: &str) -> Result<Option<i64>> {
        Ok(self.resolve(path).await?.filter(|(_, is_directory)| !*is_directory).map(|(id, _)| id))
    }

    async fn change(&self, text: &str, values: Values<'_>) -> Result<Verdict> {
        let connection = self.connection()?;
        match connection.client.execute(&connection.prepared(text).await?, values).await {
            Ok(0) => Ok(Verdict::Missing),
            Ok(_) => Ok(Verdict::Done),
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(Verdict::Exists),
            Err(error) if error.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION) => Ok(Verdict::Missing),
            Err(error) => Err(error.into()),
        }
    }
}

fn child(row: &Row) -> Result<Child> {
    let name = row.try_get(7)?;
    if row.try_get(0)? {
        return Ok(Child { name, node: Some(Node::Directory) });
    }
    let digest: Vec<u8> = row.try_get(6)?;
    let attributes = Attributes {
        size: row.try_get::<_, i64>(1)? as u64,
        mime: row.try_get(2)?,
        creator: row.try_get(3)?,
        modified: Timestamp::from_ms(row.try_get(4)?),
        added: Timestamp::from_ms(row.try_get(5)?),
        digest: Digest(digest.try_into().ok().context("a digest has another length")?),
        location: ContentLocation::Inline,
    };
    Ok(Child { name, node: Some(Node::File(attributes)) })
}

#[async_trait]
impl Layout for Postgres {
    /// Compacts the table and its indexes, and keeps a copy of the rows.
    async fn compact(&self) -> Result<Option<u64>> {
        self.batch("VACUUM (FULL, ANALYZE) rowdrive_loadtest.node").await?;
        let size = "SELECT pg_total_relation_size('rowdrive_loadtest.node')";
        let bytes = self.one(size, &[]).await?.context("no size")?.get::<_, i64>(0) as u64;
        self.batch(KEEP).await?;
        Ok(Some(bytes))
    }

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let (parent, name) = split(path);
        let Some(parent) = self.directory(parent).await? else { return Ok(Verdict::Missing) };
        let insert = "INSERT INTO rowdrive_loadtest.node (parent, name, is_directory) VALUES ($1, $2, true)";
        self.change(insert, &[&parent, &name]).await
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        let Attributes { size, mime, creator, modified, added, digest, .. } = &file.attributes;
        let (size, digest, modified, added) = (*size as i64, digest.0.as_slice(), modified.ms(), added.ms());
        if is_new {
            let (parent, name) = split(&file.path);
            let Some(parent) = self.directory(parent).await? else { return Ok(Verdict::Missing) };
            let insert = "INSERT INTO rowdrive_loadtest.node
                (parent, name, is_directory, size, mime, creator, modified, added, digest)
                VALUES ($1, $2, false, $3, $4, $5, $6, $7, $8)";
            return self.change(insert, &[&parent, &name, &size, mime, creator, &modified, &added, &digest]).await;
        }
        let Some(id) = self.file(&file.path).await? else { return Ok(Verdict::Missing) };
        let update = "UPDATE rowdrive_loadtest.node
            SET size = $1, mime = $2, creator = $3, modified = $4, added = $5, digest = $6 WHERE id = $7";
        self.change(update, &[&size, mime, creator, &modified, &added, &digest, &id]).await
    }

    /// Content is measured in the store's layouts alone.
    async fn read(&self, _path: &str) -> Result<Option<Bytes>> {
        Ok(None)
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        let Some((id, _)) = self.resolve(path).await? else { return Ok(None) };
        let found = self.one(&format!("{SELECT} WHERE id = $1"), &[&id]).await?;
        Ok(found.map(|row| child(&row)).transpose()?.and_then(|child| child.node))
    }

    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        let Some(id) = self.directory(path).await? else { return Ok(None) };
        let all = format!("{SELECT} WHERE parent = $1 AND id <> 0");
        let found = match ask {
            List::Names => {
                let select = "SELECT name FROM rowdrive_loadtest.node WHERE parent = $1 AND id <> 0";
                let rows = self.query(select, &[&id]).await?;
                return Ok(Some(rows.iter().map(|row| Child { name: row.get(0), node: None }).collect()));
            }
            List::Attributes => self.query(&all, &[&id]).await?,
            List::Page { after, limit } => {
                let page = format!("{all} AND name > $2 AND NOT is_directory ORDER BY name LIMIT $3");
                self.query(&page, &[&id, after, &(*limit as i64)]).await?
            }
        };
        found.iter().map(child).collect::<Result<_>>().map(Some)
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        let id = self.resolve(from).await?.map(|(id, _)| id);
        let (parent, name) = split(to);
        let (Some(id), Some(parent)) = (id, self.directory(parent).await?) else { return Ok(Verdict::Missing) };
        let update = "UPDATE rowdrive_loadtest.node SET parent = $1, name = $2 WHERE id = $3";
        self.change(update, &[&parent, &name, &id]).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        match self.file(path).await? {
            Some(id) => self.change("DELETE FROM rowdrive_loadtest.node WHERE id = $1", &[&id]).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let select = format!("SELECT {PATH} FROM rowdrive_loadtest.node AS n WHERE name = $1 AND NOT is_directory");
        Ok(self.query(&select, &[&name]).await?.iter().map(|row| row.get(0)).collect())
    }

    async fn period(&self, ask: &Period) -> Result<Vec<(i64, String)>> {
        let Period { clock, creator, from, to, under, limit } = ask;
        let Some(root) = self.directory(under).await? else { return Ok(Vec::new()) };
        let time = if *clock == Clock::Modified { "modified" } else { "added" };
        let (with, below) =
            if under.is_empty() { ("", "$4::bigint = 0") } else { (BELOW, "parent IN (SELECT id FROM below)") };
        let creator_is = if creator.is_some() { "creator = $5::text" } else { "$5::text IS NULL" };
        let select = format!(
            "{with} SELECT {time}, {PATH} FROM (
                SELECT {time}, parent, name FROM rowdrive_loadtest.node
                WHERE {time} >= $1 AND {time} < $2 AND {below} AND {creator_is} ORDER BY {time} DESC LIMIT $3
            ) AS n"
        );
        let found = self.query(&select, &[from, to, &(*limit as i64), &root, creator]).await?;
        Ok(found.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}
