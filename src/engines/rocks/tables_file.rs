//! `tables.json`: which tables the folder holds, and with what properties.
//!
//! RocksDB wants the options of every column family when a database is opened, before anything can be read
//! from it, so the specs cannot live inside. The file is written before the column families of a table are
//! made, and says afterwards that they were: a crash in between leaves a table that the next start makes empty,
//! and a database that has lost a column family is told from that.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use crate::table::store::Result;
use crate::table::{FamilySpec, StoreError, TableSpec};

const NAME: &str = "tables.json";
/// The format of this file and of the keys in the database; any other is refused.
const FORMAT: u32 = 1;

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    tables: Vec<TableSpec>,
    /// The names of those whose column families were made.
    made: BTreeSet<String>,
}

/// The tables of one folder, as the file has them.
pub(super) struct Specs {
    dir: PathBuf,
    content: Content,
}

impl Specs {
    /// Reads the file. Without it the folder is new: no tables.
    ///
    /// Errors: `Damaged` if it cannot be understood, `Failed` if it cannot be read or is of another version.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        let content = match fs::read(&path) {
            Ok(bytes) => parse(&path, &bytes)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Content { format: FORMAT, ..Content::default() },
            Err(e) => return Err(StoreError::Failed(format!("{}: {e}", path.display()))),
        };
        Ok(Self { dir: dir.to_owned(), content })
    }

    /// As of a new folder, whatever the file says.
    pub fn none(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), content: Content { format: FORMAT, ..Content::default() } }
    }

    pub fn tables(&self) -> &[TableSpec] {
        &self.content.tables
    }

    /// All families, each with its table, in the order in which the tables were made.
    pub fn families(&self) -> impl Iterator<Item = (&TableSpec, &FamilySpec)> {
        self.tables().iter().flat_map(|table| table.families.iter().map(move |family| (table, family)))
    }

    /// Whether all column families of the table were made.
    pub fn is_made(&self, table: &str) -> bool {
        self.content.made.contains(table)
    }

    /// Adds a table, durably. One that is there already must have the same properties.
    pub fn add(&mut self, spec: &TableSpec) -> Result<()> {
        if let Some(there) = self.tables().iter().find(|t| t.name == spec.name) {
            let same = there == spec;
            return if same { Ok(()) } else { Err(StoreError::OtherSpec(spec.name.clone(), format!("{there:?}"))) };
        }
        let mut content = self.content.clone();
        content.tables.push(spec.clone());
        self.replace(content)
    }

    /// Notes, durably, that the column families of the table were made.
    pub fn made(&mut self, table: &str) -> Result<()> {
        if self.is_made(table) {
            return Ok(());
        }
        let mut content = self.content.clone();
        content.made.insert(table.to_owned());
        self.replace(content)
    }

    /// Writes the file in another folder.
    pub fn save_to(&self, dir: &Path) -> Result<()> {
        write(dir, &self.content).map_err(|e| StoreError::Failed(format!("{}: {e}", dir.join(NAME).display())))
    }

    fn replace(&mut self, content: Content) -> Result<()> {
        write(&self.dir, &content)
            .map_err(|e| StoreError::Failed(format!("{}: {e}", self.dir.join(NAME).display())))?;
        self.content = content;
        Ok(())
    }
}

fn write(dir: &Path, content: &Content) -> io::Result<()> {
    // IMPORTANT: durable when it returns; otherwise a crash can leave the column families without the name.
    files::replace(dir, NAME, &serde_json::to_vec_pretty(content)?)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Content> {
    let damaged = |e: serde_json::Error| StoreError::Damaged(format!("{}: {e}", path.display()));
    let content: serde_json::Value = serde_json::from_slice(bytes).map_err(damaged)?;
    match content.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format != u64::from(FORMAT) => {
            Err(StoreError::Failed(format!("{}: format {format} is of another version", path.display())))
        }
        _ => serde_json::from_value(content).map_err(damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Class;

    fn spec(name: &str, class: Class) -> TableSpec {
        let family =
            FamilySpec { name: "cf".into(), compression: Default::default(), bloom: true, cells: Default::default() };
        TableSpec { name: name.into(), class, families: vec![family] }
    }

    #[test]
    fn what_was_added_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut specs = Specs::load(dir.path()).unwrap();
        assert!(specs.tables().is_empty());
        specs.add(&spec("a", Class::RowsReturn)).unwrap();
        specs.add(&spec("b", Class::MadeOnce)).unwrap();
        specs.add(&spec("a", Class::RowsReturn)).unwrap();
        specs.made("b").unwrap();
        let specs = Specs::load(dir.path()).unwrap();
        assert_eq!(specs.tables(), [spec("a", Class::RowsReturn), spec("b", Class::MadeOnce)]);
        assert!(!specs.is_made("a") && specs.is_made("b"));
    }

    #[test]
    fn other_properties_are_refused_and_change_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut specs = Specs::load(dir.path()).unwrap();
        specs.add(&spec("a", Class::RowsReturn)).unwrap();
        assert!(matches!(specs.add(&spec("a", Class::MadeOnce)), Err(StoreError::OtherSpec(..))));
        assert_eq!(Specs::load(dir.path()).unwrap().tables(), [spec("a", Class::RowsReturn)]);
    }

    #[test]
    fn a_file_that_is_no_spec_is_damage_and_another_format_is_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), b"{\"format\":1,\"tab").unwrap();
        assert!(matches!(Specs::load(dir.path()), Err(StoreError::Damaged(_))));
        fs::write(dir.path().join(NAME), b"{\"format\":2,\"tables\":{}}").unwrap();
        assert!(matches!(Specs::load(dir.path()), Err(StoreError::Failed(_))));
    }
}
