//! The properties of a table, as `migrations/` declares them in TOML and `tables.json` keeps them.

use serde::{Deserialize, Serialize};

/// How the rows of a table are created, changed and removed. [`Tables::commit`](super::Tables::commit) refuses a plan
/// that violates it before an engine sees the plan.
///
/// The names in files are older than those of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyLifecycle {
    /// A removed key may be used again. Rows are created, changed and removed in `guarded` only.
    #[serde(rename = "rows-return")]
    Reusable,
    /// The key holds a UUID that is never generated again. Rows are created whole in `prepare` or `guarded`, changed
    /// in `guarded` under a check that finds the row, removed whole in `guarded` or `finish`.
    #[serde(rename = "made-once")]
    UniqueId,
    /// A cell is created once, in `prepare`, never changed, and removed once, in `finish`.
    #[serde(rename = "write-once")]
    Immutable,
    /// As `Immutable`, but created in `finish`: a row that records clean-up still to be done.
    #[serde(rename = "write-once-late")]
    ImmutableLate,
}

/// How the SST files of a family are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// LZ4, and ZSTD for the coldest level.
    #[default]
    Light,
    /// None: for content that is already compressed.
    None,
}

/// The properties of one column family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilySpec {
    /// Of `a-z`, `0-9`, `_` and `-`; unique within its table.
    pub name: String,
    /// How its SST files are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// Whether point reads of absent cells are common enough to pay for a bloom filter. Large cells always have one.
    #[serde(default)]
    pub bloom: bool,
    /// The typical size of its cells: it decides the size of write buffers and blocks.
    #[serde(default)]
    pub cells: CellSize,
}

/// The typical size of a family's cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellSize {
    /// Attributes and references: tens of bytes.
    #[default]
    Small,
    /// Up to [`limits::CELL_BYTES`](super::limits::CELL_BYTES): content.
    Large,
}

/// The properties of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Of `a-z`, `0-9`, `_` and `-`.
    pub name: String,
    /// How its rows are created, changed and removed.
    #[serde(rename = "class")]
    pub lifecycle: KeyLifecycle,
    /// At least one.
    pub families: Vec<FamilySpec>,
}

impl TableSpec {
    /// The family of this name.
    pub fn family(&self, name: &str) -> Option<&FamilySpec> {
        self.families.iter().find(|f| f.name == name)
    }
}
