//! The drive's own layout: a directory table keyed by path, a file table keyed by random UUID, and the
//! indexes, written by the drive itself.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rowdrive::drive::{Condition, Drive, FilesAsk, ListAsk, PutOptions};
use rowdrive::migrate;
use rowdrive::schema::file::{self, Attributes};
use rowdrive::schema::time::{self, Clock};
use rowdrive::schema::{DrivePath, FileId, Timestamp, dir, name, owner};
use rowdrive::table::Tables;

#[derive(Clone)]
pub struct UuidLayout {
    drive: Arc<Drive>,
}

impl UuidLayout {
    pub async fn create(tables: Tables, content: &Path) -> anyhow::Result<Self> {
        migrate::up(&tables).await?;
        Ok(Self { drive: Arc::new(Drive::open(tables, content).await?) })
    }

    pub async fn mkdir(&self, path: String) -> anyhow::Result<()> {
        self.drive.mkdir(&DrivePath::parse(&path)?, "loadtest", false).await?;
        Ok(())
    }

    pub async fn create_file(&self, path: String, attributes: Attributes, content: Bytes) -> anyhow::Result<()> {
        let mut upload = self.drive.upload();
        upload.write(content).await?;
        let staged = upload.finish().await?;
        let options = PutOptions {
            mime: attributes.mime,
            creator: attributes.creator,
            modified: Some(attributes.modified),
            parents: false,
            condition: Condition::default(),
        };
        self.drive.put(&DrivePath::parse(&path)?, staged, options).await?;
        Ok(())
    }

    pub async fn stat(&self, path: String) -> anyhow::Result<()> {
        self.drive.stat(&DrivePath::parse(&path)?).await?;
        Ok(())
    }

    /// Returns how many children. A page carries the attributes in any case.
    pub async fn list(&self, path: String) -> anyhow::Result<usize> {
        let path = DrivePath::parse(&path)?;
        let mut ask = ListAsk { kind: None, prefix: String::new(), after: None, limit: 1_000 };
        let mut children = 0;
        loop {
            let page = self.drive.list(&path, &ask).await?;
            children += page.nodes.len();
            match page.next {
                Some(next) => ask.after = Some(next),
                None => return Ok(children),
            }
        }
    }

    pub async fn time_range(&self, from: i64, to: i64, limit: usize) -> anyhow::Result<usize> {
        let ask = FilesAsk {
            clock: Clock::Modified,
            from: Some(Timestamp::from_ms(from)),
            to: Some(Timestamp::from_ms(to)),
            under: None,
            creator: None,
            mime: None,
            ascending: false,
            after: None,
            limit,
        };
        Ok(self.drive.files(&ask).await?.nodes.len())
    }

    pub async fn close(&self) {
        self.drive.close().await;
    }

    /// The row keys that storing a file writes, by table.
    pub fn keys(dir: &str, file_name: &str, modified: i64) -> Vec<(&'static str, Vec<u8>)> {
        let id = FileId::random();
        let modified = Timestamp::from_ms(modified);
        vec![
            (dir::TABLE, dir.as_bytes().to_vec()),
            (file::TABLE, id.key().to_vec()),
            (time::TABLE, time::key(Clock::Modified, modified, id).to_vec()),
            (owner::TABLE, owner::key("loadtest", Clock::Modified, modified, id).to_vec()),
            (name::TABLE, name::key(file_name, id).to_vec()),
        ]
    }
}
