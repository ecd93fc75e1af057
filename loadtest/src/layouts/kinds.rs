//! All layouts by their names: what each can do, and how it is opened.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::ValueEnum;
use rowdrive::table::Tables;

use super::Layout;
use super::drive::DriveLayout;
use super::nodes::Nodes;
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
        let step = match self {
            Self::Relational => bail!("a relational layout is in no store"),
            Self::RowId => return Ok(Arc::new(Nodes::row_id(tables).await?)),
            Self::Name => return Ok(Arc::new(Nodes::name(tables).await?)),
            Self::Tree => return Ok(Arc::new(Nodes::tree(tables).await?)),
            Self::FullPath => return Ok(Arc::new(Nodes::full_path(tables, false).await?)),
            Self::FullPathIndexed => return Ok(Arc::new(Nodes::full_path(tables, true).await?)),
            Self::DirIdName => return Ok(Arc::new(Nodes::dir_id(tables).await?)),
            Self::Drive => return Ok(Arc::new(DriveLayout::create(tables, folder.join("content")).await?)),
            Self::Uuid => Step::default(),
            Self::UuidCells => Step { cells: true, ..Step::default() },
            Self::UuidCopied => Step { copies: true, ..Step::default() },
            Self::UuidIndexed => Step { copies: true, indexes: true, ..Step::default() },
        };
        Ok(Arc::new(Uuid::create(tables, step).await?))
    }
}
