//! `tables.json`: the tables of a folder and their properties.
//!
//! RocksDB requires the options of every column family to open a database, before anything can be read from it, so the
//! specs cannot be stored inside. The file is written before the column families of a table are created, and again
//! afterwards to record that they exist. So a crash in between leaves a table that the next start creates empty, and is
//! distinct from a database that has lost a column family.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use crate::table::store::Result;
use crate::table::{FamilySpec, StoreError, TableSpec};

const NAME: &str = "tables.json";
/// The version of this file and of the keys in the database. Any other is refused.
const FORMAT: u32 = 1;

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TablesJson {
    format: u32,
    tables: Vec<TableSpec>,
    /// The names of the tables whose column families exist.
    made: BTreeSet<String>,
}

/// The tables of one folder, as in the file.
pub(super) struct TablesFile {
    dir: PathBuf,
    content: TablesJson,
}

impl TablesFile {
    /// Reads the file. A folder without it is new: it has no tables.
    ///
    /// Errors: `Damaged` if the file cannot be parsed, `Failed` if it cannot be read or is of another version.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        let content = match fs::read(&path) {
            Ok(bytes) => parse(&path, &bytes)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => TablesJson { format: FORMAT, ..TablesJson::default() },
            Err(e) => return Err(StoreError::Failed(format!("{}: {e}", path.display()))),
        };
        Ok(Self { dir: dir.to_owned(), content })
    }

    /// No tables, as in a new folder, even if there is a file.
    pub fn empty(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), content: TablesJson { format: FORMAT, ..TablesJson::default() } }
    }

    pub fn specs(&self) -> &[TableSpec] {
        &self.content.tables
    }

    /// All families, each with its table, in the order in which the tables were created.
    pub fn families(&self) -> impl Iterator<Item = (&TableSpec, &FamilySpec)> {
        self.specs().iter().flat_map(|table| table.families.iter().map(move |family| (table, family)))
    }

    /// The tables whose column families exist.
    pub fn created(&self) -> impl Iterator<Item = &TableSpec> {
        self.specs().iter().filter(|table| self.is_created(&table.name))
    }

    /// Whether all column families of the table exist.
    pub fn is_created(&self, table: &str) -> bool {
        self.content.made.contains(table)
    }

    /// Adds a table, durably. An existing one must have the same properties.
    pub fn add(&mut self, spec: &TableSpec) -> Result<()> {
        if let Some(there) = self.specs().iter().find(|t| t.name == spec.name) {
            let same = there == spec;
            return if same { Ok(()) } else { Err(StoreError::OtherSpec(spec.name.clone(), format!("{there:?}"))) };
        }
        let mut content = self.content.clone();
        content.tables.push(spec.clone());
        self.replace(content)
    }

    /// Records, durably, that the column families of the table exist.
    pub fn set_created(&mut self, table: &str) -> Result<()> {
        if self.is_created(table) {
            return Ok(());
        }
        let mut content = self.content.clone();
        content.made.insert(table.to_owned());
        self.replace(content)
    }

    /// Writes the file into another folder.
    pub fn save_to(&self, dir: &Path) -> Result<()> {
        write(dir, &self.content).map_err(|e| StoreError::Failed(format!("{}: {e}", dir.join(NAME).display())))
    }

    fn replace(&mut self, content: TablesJson) -> Result<()> {
        write(&self.dir, &content)
            .map_err(|e| StoreError::Failed(format!("{}: {e}", self.dir.join(NAME).display())))?;
        self.content = content;
        Ok(())
    }
}

fn write(dir: &Path, content: &TablesJson) -> io::Result<()> {
    // IMPORTANT: durable when it returns, or a crash can leave column families that the file does not name.
    files::replace(dir, NAME, &serde_json::to_vec_pretty(content)?)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<TablesJson> {
    let damaged = |e: serde_json::Error| StoreError::Damaged(format!("{}: {e}", path.display()));
    let content: serde_json::Value = serde_json::from_slice(bytes).map_err(damaged)?;
    match content.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format != u64::from(FORMAT) => {
            Err(StoreError::Failed(format!("{}: format {format} is of another version", path.display())))
        }
        _ => whole(path, serde_json::from_value(content).map_err(damaged)?),
    }
}

/// Each table that exists has its properties in the file. Otherwise one of its two names is damaged, and the file would
/// open as a store without that table.
fn whole(path: &Path, content: TablesJson) -> Result<TablesJson> {
    let is_listed = |name: &&String| content.tables.iter().any(|table| table.name == **name);
    match content.made.iter().find(|name| !is_listed(name)) {
        Some(name) => Err(StoreError::Damaged(format!("{}: the table {name} has no properties", path.display()))),
        None => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::KeyLifecycle;

    fn spec(name: &str, lifecycle: KeyLifecycle) -> TableSpec {
        let family =
            FamilySpec { name: "cf".into(), compression: Default::default(), bloom: true, cells: Default::default() };
        TableSpec { name: name.into(), lifecycle, families: vec![family] }
    }

    #[test]
    fn added_tables_are_loaded_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut tables = TablesFile::load(dir.path()).unwrap();
        assert!(tables.specs().is_empty());
        tables.add(&spec("a", KeyLifecycle::Reusable)).unwrap();
        tables.add(&spec("b", KeyLifecycle::UniqueId)).unwrap();
        tables.add(&spec("a", KeyLifecycle::Reusable)).unwrap();
        tables.set_created("b").unwrap();
        let tables = TablesFile::load(dir.path()).unwrap();
        assert_eq!(tables.specs(), [spec("a", KeyLifecycle::Reusable), spec("b", KeyLifecycle::UniqueId)]);
        assert!(!tables.is_created("a") && tables.is_created("b"));
    }

    #[test]
    fn other_properties_are_refused_and_change_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut tables = TablesFile::load(dir.path()).unwrap();
        tables.add(&spec("a", KeyLifecycle::Reusable)).unwrap();
        assert!(matches!(tables.add(&spec("a", KeyLifecycle::UniqueId)), Err(StoreError::OtherSpec(..))));
        assert_eq!(TablesFile::load(dir.path()).unwrap().specs(), [spec("a", KeyLifecycle::Reusable)]);
    }

    #[test]
    fn a_damaged_name_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let mut tables = TablesFile::load(dir.path()).unwrap();
        tables.add(&spec("file", KeyLifecycle::UniqueId)).unwrap();
        tables.set_created("file").unwrap();
        let sound = fs::read_to_string(dir.path().join(NAME)).unwrap();
        assert_eq!(sound.matches("\"file\"").count(), 2);
        let (first, last) = (sound.replacen("\"file\"", "\"film\"", 1), sound.rfind("\"file\"").unwrap());
        let second = [&sound[..last], "\"film\"", &sound[last + 6..]].concat();
        for damaged in [first, second] {
            fs::write(dir.path().join(NAME), damaged).unwrap();
            assert!(matches!(TablesFile::load(dir.path()), Err(StoreError::Damaged(_))));
        }
    }

    #[test]
    fn an_unreadable_file_is_damage_and_another_format_is_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), b"{\"format\":1,\"tab").unwrap();
        assert!(matches!(TablesFile::load(dir.path()), Err(StoreError::Damaged(_))));
        fs::write(dir.path().join(NAME), b"{\"format\":2,\"tables\":{}}").unwrap();
        assert!(matches!(TablesFile::load(dir.path()), Err(StoreError::Failed(_))));
    }
}
