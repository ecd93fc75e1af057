//! The drive itself, on the tables of [`uuid`](super::uuid): what it answers has been settled against the tables that
//! it came from, its renames happen at one instant and survive a crash, and its uploads are hashed. It is measured with
//! all of that: what it takes beside `uuid` is the price of these promises.

use std::path::PathBuf;

use anyhow::Result;
use rowdrive::drive::{
    Condition, Drive, DriveError, ListQuery, Listing, NameQuery, Node as Found, NodeKind, PutOptions, TimeQuery,
    Versions, Written, whole_body,
};
use rowdrive::migrate;
use rowdrive::schema::dir;
use rowdrive::schema::file::Attributes;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::{Name, Timestamp};
use rowdrive::table::Tables;

use super::{Child, Layout, Node, Period, Verdict, at};

/// Children of a page of a list.
const LIST: usize = if cfg!(test) { 2 } else { 1_000 };
const CREATOR: &str = "loadtest";

#[derive(Clone)]
pub struct Whole(Drive);

impl Whole {
    pub async fn create(tables: Tables, content: PathBuf) -> Result<Self> {
        migrate::up(&tables).await?;
        Ok(Self(Drive::open(tables, &content).await?))
    }

    async fn put(
        &self,
        path: &str,
        attributes: &Attributes,
        condition: Condition,
    ) -> Result<Result<Written, DriveError>> {
        let options = PutOptions {
            modified: Some(attributes.modified),
            parents: false,
            condition,
            length: Some(0),
            ..PutOptions::new(&attributes.mime, &attributes.creator)
        };
        Ok(self.0.put(&at(path)?, options, whole_body("")).await.map_err(DriveError::from))
    }

    async fn some(&self, path: &str, ask: &ListQuery) -> Result<Option<Listing>> {
        match self.0.list(&at(path)?, ask).await {
            Ok(listing) => Ok(Some(listing)),
            Err(error) => absent(error),
        }
    }

    async fn children<T>(&self, path: &str, child: impl Fn(Found) -> T) -> Result<Option<Vec<T>>> {
        let mut ask = ListQuery { kind: None, prefix: String::new(), after: None, limit: LIST };
        let mut children = Vec::new();
        loop {
            let Some(page) = self.some(path, &ask).await? else { return Ok(None) };
            children.extend(page.nodes.into_iter().map(&child));
            match page.next {
                Some(next) => ask.after = Some(next),
                None => return Ok(Some(children)),
            }
        }
    }
}

fn name(found: &Found) -> String {
    found.path().last().to_owned()
}

fn node(found: Found) -> Node {
    match found {
        Found::File { entry, .. } => Node::File(entry.attributes),
        Found::Directory { .. } => Node::Directory,
    }
}

fn child(found: Found) -> Child {
    Child { name: name(&found), node: node(found) }
}

/// What a change became; `in_the_way` if something else stands where it would have happened.
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

/// Nothing, if that is all that an error says.
fn absent<T>(error: DriveError) -> Result<Option<T>> {
    verdict(Err::<(), _>(error), Verdict::Missing).map(|_| None)
}

impl Layout for Whole {
    const NAME: &'static str = "drive";

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        match self.0.mkdir(&at(path)?, CREATOR, false).await {
            Ok(made) if !made.new => Ok(Verdict::Exists),
            made => verdict(made, Verdict::Exists),
        }
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        let condition = Condition { if_none_match: Some(Versions::Any), ..Condition::default() };
        verdict(self.put(path, attributes, condition).await?, Verdict::Exists)
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        let condition = Condition { if_match: Some(Versions::Any), ..Condition::default() };
        verdict(self.put(path, attributes, condition).await?, Verdict::Missing)
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        match self.0.stat(&at(path)?).await {
            Ok(found) => Ok(Some(node(found))),
            Err(error) => absent(error),
        }
    }

    /// A page has the attributes in any case.
    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        self.children(path, |found| name(&found)).await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        self.children(path, child).await
    }

    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        let after = if after.is_empty() { None } else { Some(dir::file_qualifier(&Name::parse(after)?)) };
        let ask = ListQuery { kind: Some(NodeKind::File), prefix: String::new(), after, limit };
        let page = self.some(path, &ask).await?;
        Ok(page.map(|page| page.nodes.into_iter().map(child).collect()))
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        verdict(self.0.move_node(&at(from)?, &at(to)?, false).await, Verdict::Exists)
    }

    async fn move_file(&self, from: &str, to: &str) -> Result<Verdict> {
        verdict(self.0.move_node(&at(from)?, &at(to)?, false).await, Verdict::Exists)
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        verdict(self.0.delete(&at(path)?, &Condition::default()).await, Verdict::Missing)
    }

    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let mut ask = NameQuery { name: name.to_owned(), prefix: false, under: None, after: None, limit: LIST };
        let mut paths = Vec::new();
        loop {
            let page = self.0.files_by_name(&ask).await?;
            // Upper and lower case are one to the drive.
            let same = page.nodes.iter().map(|found| found.path()).filter(|path| path.last() == name);
            paths.extend(same.map(|path| path.as_str().to_owned()));
            match page.next {
                Some(next) => ask.after = Some(next),
                None => return Ok(paths),
            }
        }
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut ask = TimeQuery {
            clock: Clock::Modified,
            from: Some(Timestamp::from_ms(period.from)),
            to: Some(Timestamp::from_ms(period.to)),
            under: if period.under.is_empty() { None } else { Some(at(&period.under)?) },
            creator: None,
            mime: None,
            ascending: false,
            after: None,
            limit: period.limit,
        };
        let mut files = Vec::new();
        loop {
            let page = self.0.files_by_time(&ask).await?;
            for found in page.nodes {
                if let Found::File { path, entry } = found {
                    files.push((entry.attributes.modified.ms(), path.as_str().to_owned()));
                }
            }
            ask.limit = period.limit - files.len();
            match page.next {
                Some(next) if ask.limit > 0 => ask.after = Some(next),
                _ => return Ok(files),
            }
        }
    }

    async fn close(&self) -> Result<()> {
        self.0.idle().await;
        self.0.close().await;
        Ok(())
    }
}
