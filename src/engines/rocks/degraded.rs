//! Opens what can be read of a damaged database, read-only. Never changes a file in its folder. Tries in this order:
//!
//! 1. In place, skipping what cannot be read, or else up to the damage in the WAL: enough for a damaged WAL or SST
//!    file.
//! 2. In a copy next to it, where RocksDB may write: SST files are hard links, the rest is copied; with the newest
//!    `MANIFEST`. If the folder is a file system of its own, the copy is made inside it; if that fails, SST files are
//!    copied too.
//! 3. Without a `MANIFEST`, also if the `MANIFEST` lost its end: the WAL is replayed into a new database whose column
//!    families have the same numbers, and the SST files of both are gathered and merged. That reads and writes
//!    everything.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rocksdb::{BottommostLevelCompaction, ColumnFamilyDescriptor, CompactOptions, DBRecoveryMode, Options};

use super::files::numbered;
use super::options::Tuning;
use super::raw::{RocksDb, family_name};
use super::tables_file::TablesFile;
use super::{clean_shutdown, wal_check};
use crate::table::spec::{CellSize, Compression};
use crate::table::store::Result;
use crate::table::{FamilySpec, StoreError};

/// Added to the numbers of WAL and SST files that are moved to another database, so that they do not collide.
const ABOVE: u64 = 1_000_000_000;
/// SST files open at once. With a bound RocksDB opens a file at its first read; without, one bad file fails the
/// opening.
const OPEN_SSTS: i32 = 256;

/// A damaged database, open read-only.
pub(super) struct DegradedDb {
    pub raw: RocksDb,
    /// How it is read, in words for the log and the operator.
    pub how: &'static str,
}

/// `copy`: the folder of the copy, created anew if one is needed and SST files can be linked there. `tables`: none if
/// `tables.json` is damaged too.
///
/// Errors: `Damaged` if nothing can be read, `Failed` if there is no space for the copy.
pub(super) fn open(dir: &Path, copy: &Path, tuning: &Tuning, tables: Option<&TablesFile>) -> Result<DegradedDb> {
    let copy_failed = |e: io::Error| StoreError::Failed(format!("{}: the copy cannot be made: {e}", copy.display()));
    // RocksDB reads a `MANIFEST` that lost its end as if it were whole, and skips the SST files that only the lost end
    // names.
    let is_listed = !clean_shutdown::is_manifest_changed(dir) && wal_check::manifest(dir, true, None).is_ok();
    if is_listed && let Some(left) = in_place(dir, tuning, tables) {
        return Ok(left);
    }
    let copy = &choose_folder(dir, copy).map_err(copy_failed)?;
    let attempt = copy.join("as-it-is");
    if is_listed {
        fresh(&attempt).and_then(|()| duplicate(dir, &attempt)).map_err(copy_failed)?;
        match open_copy(&attempt, tuning, tables) {
            Ok(raw) => return Ok(DegradedDb { raw, how: "from a copy, passing over what cannot be read" }),
            Err(cause) => {
                tracing::warn!(%cause, "its MANIFEST cannot be used: tables and logs are collected without it")
            }
        }
        fs::remove_dir_all(&attempt).map_err(copy_failed)?;
    }
    let gathered = copy.join("gathered");
    fresh(&gathered).map_err(copy_failed)?;
    replay(dir, copy, &gathered, tuning, tables).map_err(|e| broken(dir, &e))?;
    link_tables(dir, &gathered, 0).map_err(copy_failed)?;
    let raw = merge(&gathered, tuning, tables).map_err(|e| broken(dir, &e))?;
    Ok(DegradedDb {
        raw,
        how: "from a copy gathered of all tables and logs: it may show what was deleted or replaced shortly before",
    })
}

/// Opens it in place.
fn in_place(dir: &Path, tuning: &Tuning, tables: Option<&TablesFile>) -> Option<DegradedDb> {
    let mut options = lenient(tuning);
    match open_here(dir, &options, tuning, tables) {
        Ok(raw) => return Some(DegradedDb { raw, how: "passing over what cannot be read" }),
        Err(cause) => tracing::warn!(%cause, "it cannot be read in place, not even without the damaged parts"),
    }
    // RocksDB joins the rest of a long record after the damage with the next record, and then refuses both.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    // Without paranoid checks RocksDB skips damage in any mode.
    options.set_paranoid_checks(true);
    match open_here(dir, &options, tuning, tables) {
        Ok(raw) => return Some(DegradedDb { raw, how: "up to the damage in the log, without what follows it" }),
        Err(cause) => tracing::warn!(%cause, "it cannot be read in place: it is read from a copy"),
    }
    None
}

fn broken(dir: &Path, cause: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("{}: nothing of it can be read: {cause}", dir.display()))
}

/// Options that skip damage.
fn lenient(tuning: &Tuning) -> Options {
    let mut options = tuning.database(false);
    options.create_missing_column_families(false);
    options.set_paranoid_checks(false);
    options.set_wal_recovery_mode(DBRecoveryMode::SkipAnyCorruptedRecord);
    options.set_max_open_files(OPEN_SSTS);
    options
}

fn open_here(
    dir: &Path,
    options: &Options,
    tuning: &Tuning,
    tables: Option<&TablesFile>,
) -> std::result::Result<RocksDb, rocksdb::Error> {
    let names = RocksDb::list_cf(options, dir)?;
    RocksDb::open_cf_descriptors_read_only(options, dir, families(names, tuning, tables), false)
}

/// Opens a copy for writing: RocksDB then ignores SST files that it cannot find.
fn open_copy(
    copy: &Path,
    tuning: &Tuning,
    tables: Option<&TablesFile>,
) -> std::result::Result<RocksDb, rocksdb::Error> {
    let mut options = lenient(tuning);
    // Missing WAL files are no further damage here.
    options.set_track_and_verify_wals_in_manifest(false);
    let names = RocksDb::list_cf(&options, copy)?;
    RocksDb::open_cf_descriptors(&options, copy, families(names, tuning, tables))
}

/// Column families with the options that they have in a sound store.
fn families(names: Vec<String>, tuning: &Tuning, tables: Option<&TablesFile>) -> Vec<ColumnFamilyDescriptor> {
    let describe = |name: String| {
        let mut options = tuning.family(&spec(&name, tables));
        options.set_disable_auto_compactions(true);
        ColumnFamilyDescriptor::new(name, options)
    };
    names.into_iter().map(describe).collect()
}

fn spec(name: &str, tables: Option<&TablesFile>) -> FamilySpec {
    let mut known = tables.into_iter().flat_map(TablesFile::families);
    known.find(|(table, family)| family_name(&table.name, &family.name) == name).map_or_else(
        || FamilySpec { name: name.to_owned(), compression: Compression::Light, bloom: false, cells: CellSize::Small },
        |(_, family)| family.clone(),
    )
}

/// The names of the column families in the order of their creation, which is that of their numbers.
fn in_order(tables: Option<&TablesFile>) -> Vec<String> {
    let families = tables.into_iter().flat_map(TablesFile::families);
    let names = families.map(|(table, family)| family_name(&table.name, &family.name));
    std::iter::once("default".to_owned()).chain(names).collect()
}

/// Replays the WAL into a database of its own, and links its SST files into `gathered`.
fn replay(
    dir: &Path,
    copy: &Path,
    gathered: &Path,
    tuning: &Tuning,
    tables: Option<&TablesFile>,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let replayed = copy.join("replayed");
    fresh(&replayed)?;
    let mut options = lenient(tuning);
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_track_and_verify_wals_in_manifest(false);
    let open = || RocksDb::open_cf_descriptors(&options, &replayed, families(in_order(tables), tuning, tables));
    drop(open()?);
    for (number, log) in numbered(dir, "log")? {
        fs::copy(log, replayed.join(format!("{:06}.log", ABOVE + number)))?;
    }
    // The replay ends with a flush: everything is in SST files.
    drop(open()?);
    link_tables(&replayed, gathered, ABOVE)?;
    Ok(fs::remove_dir_all(replayed)?)
}

/// Creates a database of the SST files in the folder.
///
/// IMPORTANT: merge them before the first read: RocksDB puts them all on one level, where a point read ends at the
/// first file that holds the key, which need not be the one with the newest version.
fn merge(
    gathered: &Path,
    tuning: &Tuning,
    tables: Option<&TablesFile>,
) -> std::result::Result<RocksDb, Box<dyn std::error::Error>> {
    let mut options = lenient(tuning);
    options.create_missing_column_families(true);
    RocksDb::repair(&options, gathered)?;
    let mut names = RocksDb::list_cf(&options, gathered)?;
    let missing: Vec<_> = in_order(tables).into_iter().filter(|name| !names.contains(name)).collect();
    names.extend(missing);
    let raw = RocksDb::open_cf_descriptors(&options, gathered, families(names.clone(), tuning, tables))?;
    let mut whole = CompactOptions::default();
    whole.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    for name in names {
        let Some(family) = raw.cf_handle(&name) else { continue };
        raw.compact_range_cf_opt(&family, None::<&[u8]>, None::<&[u8]>, &whole);
        let left = raw.property_int_value_cf(&family, "rocksdb.num-files-at-level0")?;
        if left.is_none_or(|left| left > 0) {
            return Err(format!("the tables of {name} could not be merged: there may be no disk space for it").into());
        }
    }
    Ok(raw)
}

/// Creates the folder of the copy where SST files can be linked, or else at `copy`. Replaces an older folder.
fn choose_folder(dir: &Path, copy: &Path) -> io::Result<PathBuf> {
    let is_linked = |at: &Path| -> io::Result<bool> {
        fresh(at)?;
        let Some((_, table)) = numbered(dir, "sst")?.into_iter().next() else { return Ok(true) };
        let probe = at.join("probe");
        if fs::hard_link(table, &probe).is_err() {
            return Ok(false);
        }
        fs::remove_file(probe).map(|()| true)
    };
    let inside = dir.join(copy.file_name().unwrap_or_default());
    match is_linked(copy) {
        Ok(true) => Ok(copy.to_owned()),
        made => match is_linked(&inside) {
            Ok(true) => {
                let _ = fs::remove_dir(copy);
                Ok(inside)
            }
            _ => made.map(|_| copy.to_owned()),
        },
    }
}

/// Creates an empty folder for this user alone. Removes an older one.
fn fresh(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(dir)
}

/// Copies or links the files that RocksDB needs, with a `CURRENT` that names the newest `MANIFEST`.
fn duplicate(dir: &Path, to: &Path) -> io::Result<()> {
    link_tables(dir, to, 0)?;
    for (number, log) in numbered(dir, "log")? {
        fs::copy(log, to.join(format!("{number:06}.log")))?;
    }
    let mut newest = None;
    for file in fs::read_dir(dir)? {
        let path = file?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix("MANIFEST-")?.parse::<u64>().ok());
        newest = newest.max(number.map(|number| (number, path)));
    }
    let Some((number, manifest)) = newest else { return Ok(()) };
    let name = format!("MANIFEST-{number:06}");
    fs::copy(manifest, to.join(&name))?;
    fs::write(to.join("CURRENT"), format!("{name}\n"))
}

/// Links the SST files of a folder under their numbers plus `above`; copies them where links are not possible.
fn link_tables(dir: &Path, to: &Path, above: u64) -> io::Result<()> {
    for (number, table) in numbered(dir, "sst")? {
        let to = to.join(format!("{:06}.sst", number + above));
        match fs::hard_link(&table, &to) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => fs::copy(table, to)?,
            linked => linked.map(|()| 0)?,
        };
    }
    Ok(())
}
