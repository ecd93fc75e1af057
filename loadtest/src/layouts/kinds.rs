//! All layouts by their names: what each can do, and how it is opened.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use rowdrive::table::Tables;

use super::Layout;
use super::by_parent::ByParent;
use super::dirid_name::DirIdName;
use super::drive::DriveLayout;
use super::full_path::FullPath;
use super::uuid::{Step, Uuid};

/// A layout, as the command line names it; in the order of the worked example, then the additions and the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    Relational,
    /// On the server that --postgres names.
    #[value(name = "relational-postgresql")]
    Postgres,
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
    /// All that need no server.
    pub const ALL: [Self; 12] = [
        Self::Relational,
        Self::RowId,
        Self::Name,
        Self::FullPath,
        Self::DirIdName,
        Self::Uuid,
        Self::UuidCells,
        Self::UuidCopied,
        Self::UuidIndexed,
        Self::FullPathIndexed,
        Self::Drive,
        Self::Tree,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Relational => "relational",
            Self::Postgres => "relational-postgresql",
            Self::RowId => "rowkey-id",
            Self::Name => "name",
            Self::FullPath => "fullpath",
            Self::DirIdName => "dirid-name",
            Self::Uuid => "uuid",
            Self::UuidCells => "uuid-cells",
            Self::UuidCopied => "uuid-copied",
            Self::UuidIndexed => "uuid-indexed",
            Self::FullPathIndexed => "fullpath-indexed",
            Self::Drive => "drive",
            Self::Tree => "tree",
        }
    }

    pub fn is_in_store(self) -> bool {
        !matches!(self, Self::Relational | Self::Postgres)
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
        Ok(match self {
            Self::RowId => Arc::new(ByParent::row_id(tables).await?),
            Self::Name => Arc::new(ByParent::name(tables).await?),
            Self::FullPath => Arc::new(FullPath::bare(tables).await?),
            Self::DirIdName => Arc::new(DirIdName::create(tables).await?),
            Self::Uuid => Arc::new(Uuid::create(tables, step).await?),
            Self::UuidCells => Arc::new(Uuid::create(tables, Step { cells: true, ..step }).await?),
            Self::UuidCopied => Arc::new(Uuid::create(tables, Step { copies: true, ..step }).await?),
            Self::UuidIndexed => Arc::new(Uuid::create(tables, Step { copies: true, indexes: true, ..step }).await?),
            Self::FullPathIndexed => Arc::new(FullPath::indexed(tables).await?),
            Self::Drive => Arc::new(DriveLayout::create(tables, folder.join("content")).await?),
            Self::Tree => Arc::new(ByParent::tree(tables).await?),
            Self::Relational | Self::Postgres => None.context("a relational layout is in no store")?,
        })
    }
}
