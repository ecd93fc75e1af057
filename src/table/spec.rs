//! The properties of a table, as `migrations/` declares them in TOML.

use serde::{Deserialize, Serialize};

/// What a plan may do to a table's rows. A plan that breaks it is refused before any engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A removed key may come back. Rows are created, changed and removed in `guarded` only.
    RowsReturn,
    /// The key holds a UUID never made again. Rows are created whole in `prepare` or `guarded`, changed in
    /// `guarded` under a check that finds the row there, removed whole in `guarded` or `finish`.
    MadeOnce,
    /// A cell is made once, in `prepare`, and removed once, in `finish`.
    WriteOnce,
    /// As `WriteOnce`, but made in `finish`: a row that records clean-up still to be done.
    WriteOnceLate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// LZ4, and ZSTD for the coldest level.
    #[default]
    Light,
    /// For content that is compressed already.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilySpec {
    pub name: String,
    #[serde(default)]
    pub compression: Compression,
    /// Whether point reads of absent cells are common, so that a bloom filter pays.
    #[serde(default)]
    pub bloom: bool,
    /// What its cells are like: decides the size of write buffers and blocks.
    #[serde(default)]
    pub cells: CellSize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellSize {
    #[default]
    Small,
    /// Up to [`rules::CELL`](super::rules::CELL) bytes: content.
    Large,
}

/// A table: its name, its class and its families.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    pub name: String,
    pub class: Class,
    pub families: Vec<FamilySpec>,
}

impl TableSpec {
    pub fn family(&self, name: &str) -> Option<&FamilySpec> {
        self.families.iter().find(|f| f.name == name)
    }
}
