//! A damaged database, opened for reading what is left of it. No file in its folder is ever changed.
//!
//! 1. Where it lies, passing over what cannot be read, or else up to the damage in the log: enough for a damaged log
//!    or table.
//! 2. Else in a folder beside it, where RocksDB may write: tables are linked, the rest is copied. The newest
//!    `MANIFEST` is tried first. If it is on a file system of its own, that folder is made in it; if that cannot be,
//!    tables are copied too.
//! 3. Else, or if it lost its end, without a `MANIFEST`: the logs are replayed into a new database whose column families
//!    have the same numbers, the tables of both are gathered and merged. That reads and writes everything.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rocksdb::{BottommostLevelCompaction, ColumnFamilyDescriptor, CompactOptions, DBRecoveryMode, Options};

use super::db::{Raw, family_name};
use super::files::numbered;
use super::options::Tuning;
use super::specs::Specs;
use super::{closed, logs};
use crate::table::spec::{CellSize, Compression};
use crate::table::store::Result;
use crate::table::{FamilySpec, StoreError};

/// Added to the numbers of logs and tables that are moved to another database, so that they are above its own.
const ABOVE: u64 = 1_000_000_000;
/// Tables that are open at once: they are opened when they are first read, since some cannot be.
const OPEN_TABLES: i32 = 256;

/// A database opened for reading what is left of it, and how.
pub(super) struct Left {
    pub raw: Raw,
    pub how: &'static str,
}

/// `copy`: a folder that is made anew if it is needed, and if tables can be linked there. `specs`: none if they are
/// damaged too.
///
/// Errors: `Damaged` if nothing can be read, `Failed` if there is no room for the copy.
pub(super) fn open(dir: &Path, copy: &Path, tuning: &Tuning, specs: Option<&Specs>) -> Result<Left> {
    let moved = |e: io::Error| StoreError::Failed(format!("{}: the copy cannot be made: {e}", copy.display()));
    // One that lost its end may be read as if it were whole: the tables that it named there are then passed over.
    let is_listed = !closed::is_manifest_another(dir) && logs::manifest(dir, true, None).is_ok();
    if is_listed && let Some(left) = in_place(dir, tuning, specs) {
        return Ok(left);
    }
    let copy = &place(dir, copy).map_err(moved)?;
    let attempt = copy.join("as-it-is");
    if is_listed {
        fresh(&attempt).and_then(|()| duplicate(dir, &attempt)).map_err(moved)?;
        match open_copy(&attempt, tuning, specs) {
            Ok(raw) => return Ok(Left { raw, how: "from a copy, passing over what cannot be read" }),
            Err(cause) => tracing::warn!(%cause, "its MANIFEST is of no use: tables and logs are gathered without it"),
        }
        fs::remove_dir_all(&attempt).map_err(moved)?;
    }
    let gathered = copy.join("gathered");
    fresh(&gathered).map_err(moved)?;
    replay(dir, copy, &gathered, tuning, specs).map_err(|e| broken(dir, &e))?;
    link_tables(dir, &gathered, 0).map_err(moved)?;
    let raw = merge(&gathered, tuning, specs).map_err(|e| broken(dir, &e))?;
    Ok(Left {
        raw,
        how: "from a copy gathered of all tables and logs: it may show what was deleted or replaced shortly before",
    })
}

/// Where it lies.
fn in_place(dir: &Path, tuning: &Tuning, specs: Option<&Specs>) -> Option<Left> {
    let mut options = lenient(tuning);
    match open_here(dir, &options, tuning, specs) {
        Ok(raw) => return Some(Left { raw, how: "passing over what cannot be read" }),
        Err(cause) => tracing::warn!(%cause, "it cannot be read where it lies, passing over damage"),
    }
    // RocksDB puts the rest of a long record behind damage together with what comes next, and then refuses both.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    // Without these checks it passes over damage in any mode.
    options.set_paranoid_checks(true);
    match open_here(dir, &options, tuning, specs) {
        Ok(raw) => return Some(Left { raw, how: "up to the damage in the log, without what follows it" }),
        Err(cause) => tracing::warn!(%cause, "it cannot be read where it lies: it is read from a copy"),
    }
    None
}

fn broken(dir: &Path, cause: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("{}: nothing of it can be read: {cause}", dir.display()))
}

/// Options that pass over damage.
fn lenient(tuning: &Tuning) -> Options {
    let mut options = tuning.database(false);
    options.create_missing_column_families(false);
    options.set_paranoid_checks(false);
    options.set_wal_recovery_mode(DBRecoveryMode::SkipAnyCorruptedRecord);
    options.set_max_open_files(OPEN_TABLES);
    options
}

fn open_here(
    dir: &Path,
    options: &Options,
    tuning: &Tuning,
    specs: Option<&Specs>,
) -> std::result::Result<Raw, rocksdb::Error> {
    let names = Raw::list_cf(options, dir)?;
    Raw::open_cf_descriptors_read_only(options, dir, families(names, tuning, specs), false)
}

/// Opens a copy for writing, since RocksDB then puts aside what it cannot find.
fn open_copy(copy: &Path, tuning: &Tuning, specs: Option<&Specs>) -> std::result::Result<Raw, rocksdb::Error> {
    let mut options = lenient(tuning);
    // Logs that it misses are known to be missing.
    options.set_track_and_verify_wals_in_manifest(false);
    let names = Raw::list_cf(&options, copy)?;
    Raw::open_cf_descriptors(&options, copy, families(names, tuning, specs))
}

/// Column families with the options that they have in a sound store.
fn families(names: Vec<String>, tuning: &Tuning, specs: Option<&Specs>) -> Vec<ColumnFamilyDescriptor> {
    let describe = |name: String| {
        let mut options = tuning.family(&spec(&name, specs));
        options.set_disable_auto_compactions(true);
        ColumnFamilyDescriptor::new(name, options)
    };
    names.into_iter().map(describe).collect()
}

fn spec(name: &str, specs: Option<&Specs>) -> FamilySpec {
    let mut known = specs.into_iter().flat_map(Specs::families);
    known.find(|(table, family)| family_name(&table.name, &family.name) == name).map_or_else(
        || FamilySpec { name: name.to_owned(), compression: Compression::Light, bloom: false, cells: CellSize::Small },
        |(_, family)| family.clone(),
    )
}

/// The names of the column families in the order in which they were made, which is that of their numbers.
fn in_order(specs: Option<&Specs>) -> Vec<String> {
    let families = specs.into_iter().flat_map(Specs::families);
    let names = families.map(|(table, family)| family_name(&table.name, &family.name));
    std::iter::once("default".to_owned()).chain(names).collect()
}

/// Replays the logs into a database of its own, and puts its tables into `gathered`.
fn replay(
    dir: &Path,
    copy: &Path,
    gathered: &Path,
    tuning: &Tuning,
    specs: Option<&Specs>,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let replayed = copy.join("replayed");
    fresh(&replayed)?;
    let mut options = lenient(tuning);
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_track_and_verify_wals_in_manifest(false);
    let open = || Raw::open_cf_descriptors(&options, &replayed, families(in_order(specs), tuning, specs));
    drop(open()?);
    for (number, log) in numbered(dir, "log")? {
        fs::copy(log, replayed.join(format!("{:06}.log", ABOVE + number)))?;
    }
    // Replaying ends with everything in tables.
    drop(open()?);
    link_tables(&replayed, gathered, ABOVE)?;
    Ok(fs::remove_dir_all(replayed)?)
}

/// Makes a database of the tables in the folder.
///
/// IMPORTANT: they are merged before anything is read: RocksDB puts them all on one level, where a read of one key
/// ends at the first table that holds it, which need not be the one with the newest version.
fn merge(
    gathered: &Path,
    tuning: &Tuning,
    specs: Option<&Specs>,
) -> std::result::Result<Raw, Box<dyn std::error::Error>> {
    let mut options = lenient(tuning);
    options.create_missing_column_families(true);
    Raw::repair(&options, gathered)?;
    let mut names = Raw::list_cf(&options, gathered)?;
    let missing: Vec<_> = in_order(specs).into_iter().filter(|name| !names.contains(name)).collect();
    names.extend(missing);
    let raw = Raw::open_cf_descriptors(&options, gathered, families(names.clone(), tuning, specs))?;
    let mut whole = CompactOptions::default();
    whole.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    for name in names {
        let Some(family) = raw.cf_handle(&name) else { continue };
        raw.compact_range_cf_opt(&family, None::<&[u8]>, None::<&[u8]>, &whole);
        let left = raw.property_int_value_cf(&family, "rocksdb.num-files-at-level0")?;
        if left.is_none_or(|left| left > 0) {
            return Err(format!("the tables of {name} could not be merged: there may be no room for it").into());
        }
    }
    Ok(raw)
}

/// Makes the folder of the copy anew where tables can be linked to, or else where it was to be.
fn place(dir: &Path, copy: &Path) -> io::Result<PathBuf> {
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

/// An empty folder, for this user alone.
fn fresh(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(dir)
}

/// The files that RocksDB needs; `CURRENT` names the newest `MANIFEST`.
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

/// Links the tables of a folder under their numbers and `above`; copies them where there are no links.
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
