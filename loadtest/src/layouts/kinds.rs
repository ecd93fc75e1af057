//! All layouts by their names: what each can do, and how it is opened.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::Bytes;
use clap::ValueEnum;
use rowdrive::table::Tables;

use super::Layout;
use super::dir_table::DirTable;
use super::drive::DriveLayout;
use super::indexes::Indexes;
use super::nodes::{Key, Nodes};
use super::uuid::{Step, Uuid};

/// A layout, as the command line names it; in the order of the worked example, then the additions and the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    Relational,
    #[value(name = "rowkey-id")]
    RowId,
    Name,
    #[value(name = "fullpath")]
    FullPath,
    #[value(name = "dirid-name")]
    DirIdName,
    Uuid,
    UuidCells,
    UuidCopied,
    UuidIndexed,
    #[value(name = "fullpath-indexed")]
    FullPathIndexed,
    Drive,
    Tree,
}

impl Kind {
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub fn is_in_store(self) -> bool {
        self != Self::Relational
    }

    /// Whether one name can be in two directories.
    pub fn names_repeat(self) -> bool {
        self != Self::Name
    }

    /// Whether the client says when a file was added.
    pub fn keeps_added(self) -> bool {
        self != Self::Drive
    }

    /// Opens a layout in a store, and makes what it lacks. `folder`: where a drive has its large files.
    pub async fn in_store(self, tables: &Tables, folder: &Path) -> Result<Arc<dyn Layout>> {
        let step = Step::default();
        let key = match self {
            Self::Relational => bail!("a relational layout is in no store"),
            Self::RowId => Key::RowId,
            Self::Name => Key::Name,
            Self::Tree => Key::Tree,
            Self::FullPath => Key::FullPath(None),
            Self::FullPathIndexed => Key::FullPath(Some(Indexes::create(tables, false).await?)),
            Self::DirIdName => Key::DirId(DirTable::create(tables, Bytes::from_static(&[0; 8]), false).await?),
            Self::Uuid => return Uuid::create(tables, step).await,
            Self::UuidCells => return Uuid::create(tables, Step { cells: true, ..step }).await,
            Self::UuidCopied => return Uuid::create(tables, Step { copies: true, ..step }).await,
            Self::UuidIndexed => return Uuid::create(tables, Step { copies: true, indexes: true, ..step }).await,
            Self::Drive => return Ok(Arc::new(DriveLayout::create(tables, folder.join("content")).await?)),
        };
        Ok(Arc::new(Nodes::create(tables, key).await?))
    }
}
