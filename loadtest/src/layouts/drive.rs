//! The drive itself, on tables as those of `uuid-indexed`: its answers are verified against the directory table, its
//! renames happen at one instant and survive a crash, and its uploads are hashed. What it takes beside `uuid-indexed`
//! is the price of these promises.

use std::path::PathBuf;

use anyhow::Result;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use rowdrive::drive::{
    Condition, Drive, DriveError, ListQuery, NameQuery, Node as Found, NodeKind, PutOptions, TimeQuery, Versions,
    whole_body,
};
use rowdrive::migrate;
use rowdrive::schema::dir;
use rowdrive::schema::{DrivePath, Name, Timestamp};
use rowdrive::table::Tables;

use super::rows::LIST;
use super::{Child, Layout, List, NewFile, Node, Period, Verdict};

pub struct DriveLayout(Drive);

impl DriveLayout {
    pub async fn create(tables: &Tables, content: PathBuf) -> Result<Self> {
        migrate::up(tables).await?;
        Ok(Self(Drive::open(tables.clone(), &content).await?))
    }
}

fn at(path: &str) -> Result<DrivePath> {
    Ok(if path.is_empty() { DrivePath::root() } else { DrivePath::parse(path)? })
}

fn node(found: Found) -> Node {
    match found {
        Found::File { entry, .. } => Node::File(entry.attributes),
        Found::Directory { .. } => Node::Directory,
    }
}

/// What a change became; `in_the_way` if something else has the path that it would have taken.
fn verdict<T>(result: Result<T, DriveError>, in_the_way: Verdict) -> Result<Verdict> {
    match result {
        Ok(_) => Ok(Verdict::Done),
        Err(DriveError::NotFound | DriveError::ParentMissing | DriveError::ParentIsFile) => Ok(Verdict::Missing),
        Err(DriveError::Exists | DriveError::IsFile | DriveError::IsDirectory | DriveError::Precondition) => {
            Ok(in_the_way)
        }
        Err(error) => Err(error.into()),
    }
}

/// An answer, or none if the error says no more than that there is none.
fn found<T>(result: Result<T, DriveError>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => verdict(Err::<(), _>(error), Verdict::Missing).map(|_| None),
    }
}

#[async_trait]
impl Layout for DriveLayout {
    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        match self.0.unrestricted().mkdir(&at(path)?, "loadtest", false).await {
            Ok(made) if !made.new => Ok(Verdict::Exists),
            made => verdict(made, Verdict::Exists),
        }
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        let any = Some(Versions::Any);
        let condition = match is_new {
            true => Condition { if_none_match: any, ..Condition::default() },
            false => Condition { if_match: any, ..Condition::default() },
        };
        let options = PutOptions {
            modified: Some(file.attributes.modified),
            parents: false,
            condition,
            length: Some(file.content.len() as u64),
            ..PutOptions::new(&file.attributes.mime, &file.attributes.creator)
        };
        let stored = self.0.unrestricted().put(&at(&file.path)?, options, whole_body(file.content.clone())).await;
        verdict(stored.map_err(DriveError::from), if is_new { Verdict::Exists } else { Verdict::Missing })
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        Ok(found(self.0.unrestricted().stat(&at(path)?).await)?.map(node))
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        let Some(file) = found(self.0.unrestricted().open_file(&at(path)?).await)? else { return Ok(None) };
        let size = file.entry.attributes.size;
        let content: BytesMut = file.body.stream(0, size).try_collect().await?;
        Ok(Some(content.freeze()))
    }

    /// A page has the attributes in any case.
    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        let (is_page, (after, limit)) = (matches!(ask, List::Page { .. }), ask.page());
        let after = if after.is_empty() { None } else { Some(dir::file_qualifier(&Name::parse(after)?)) };
        let (kind, limit) = (is_page.then_some(NodeKind::File), limit.min(LIST));
        let mut query = ListQuery { kind, prefix: String::new(), after, limit };
        let mut children = Vec::new();
        loop {
            let Some(page) = found(self.0.unrestricted().list(&at(path)?, &query).await)? else { return Ok(None) };
            children.extend(page.nodes.into_iter().map(|found| {
                let name = found.path().last().to_owned();
                Child { name, node: (!matches!(ask, List::Names)).then(|| node(found)) }
            }));
            match page.next {
                Some(next) if !is_page => query.after = Some(next),
                _ => return Ok(Some(children)),
            }
        }
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        verdict(self.0.unrestricted().move_node(&at(from)?, &at(to)?, false).await, Verdict::Exists)
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        verdict(self.0.unrestricted().delete(&at(path)?, &Condition::default()).await, Verdict::Missing)
    }

    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let mut query = NameQuery { name: name.to_owned(), prefix: false, under: None, after: None, limit: LIST };
        let mut paths = Vec::new();
        loop {
            let page = self.0.unrestricted().files_by_name(&query).await?;
            // Upper and lower case are one to the drive.
            let same = page.nodes.iter().map(|found| found.path()).filter(|path| path.last() == name);
            paths.extend(same.map(|path| path.as_str().to_owned()));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(paths),
            }
        }
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut query = TimeQuery {
            clock: period.clock,
            from: Some(Timestamp::from_ms(period.from)),
            to: Some(Timestamp::from_ms(period.to)),
            under: if period.under.is_empty() { None } else { Some(at(&period.under)?) },
            creator: period.creator.clone(),
            mime: None,
            ascending: false,
            after: None,
            limit: period.limit,
        };
        let mut files = Vec::new();
        loop {
            let page = self.0.unrestricted().files_by_time(&query).await?;
            for found in page.nodes {
                if let Found::File { path, entry } = found
                    && let Some(time) = period.time(&entry.attributes)
                {
                    files.push((time, path.as_str().to_owned()));
                }
            }
            query.limit = period.limit - files.len();
            match page.next {
                Some(next) if query.limit > 0 => query.after = Some(next),
                _ => return Ok(files),
            }
        }
    }

    async fn idle(&self) {
        self.0.idle().await;
    }

    async fn close(&self) -> Result<()> {
        self.0.idle().await;
        self.0.close().await;
        Ok(())
    }
}
