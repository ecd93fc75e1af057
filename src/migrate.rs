//! Applies `migrations/` to a store: numbered, immutable, in order, recorded in the `meta` table.
//!
//! Each declares tables, and may name a step that changes data. Start-up applies what is missing; a step
//! that was interrupted is run again from its start, and may, since every step is harmless to repeat.

use bytes::Bytes;
use serde::Deserialize;

use crate::schema::dir::{self, DirEntry, Entry};
use crate::schema::file::Standing;
use crate::schema::index::Indexed;
use crate::schema::{CF, DirId, DrivePath, Timestamp, ValueError, meta};
use crate::table::rules::PAGE_CELLS;
use crate::table::{Ask, Check, Guarded, Outcome, PageAsk, Plan, RowChange, RowRange, ScanAsk};
use crate::table::{StoreError, TableSpec, Tables};

/// All migrations, in order; the position is the number less one.
const MIGRATIONS: [(&str, &str); 2] = [
    ("0001_tree", include_str!("../migrations/0001_tree.toml")),
    ("0002_indexes", include_str!("../migrations/0002_indexes.toml")),
];

/// The number of the newest migration that this program knows.
pub const LATEST: u32 = MIGRATIONS.len() as u32;

/// Hints written by one plan of the back-fill.
const BACKFILL: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the store has schema version {found}, this program knows up to {known}: use a newer rowdrive")]
    Newer { found: u32, known: u32 },
    #[error("migration {name} cannot be read: {cause}")]
    Declaration { name: &'static str, cause: String },
    #[error("the store was migrated by another process at the same time: start again")]
    Raced,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Value(#[from] ValueError),
}

type Result<T> = std::result::Result<T, MigrateError>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Migration {
    tables: Vec<TableSpec>,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    step: Step,
}

/// A change of data, by the name that a migration gives it.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Step {
    Root,
    IndexFiles,
}

/// Brings the store to the newest schema and makes its tables known to `tables`.
pub async fn up(tables: &Tables) -> Result<()> {
    up_to(tables, LATEST).await
}

/// Brings the store to the schema that had `last` migrations, for tests of the later ones.
pub async fn up_to(tables: &Tables, last: u32) -> Result<()> {
    let mut migrations = Vec::new();
    for (name, text) in MIGRATIONS {
        let declared = toml::from_str::<Migration>(text);
        migrations.push(declared.map_err(|cause| MigrateError::Declaration { name, cause: cause.to_string() })?);
    }
    let version = version(tables, &migrations).await?;
    if version > LATEST {
        return Err(MigrateError::Newer { found: version, known: LATEST });
    }
    for (number, migration) in (1..=last).zip(&migrations) {
        for spec in &migration.tables {
            tables.create(spec).await?;
        }
        if version >= number {
            continue;
        }
        if let Some(data) = &migration.data {
            tracing::info!(migration = number, "migrating");
            match data.step {
                Step::Root => make_root(tables).await?,
                Step::IndexFiles => index_files(tables).await?,
            }
        }
        record(tables, number).await?;
    }
    Ok(())
}

/// The number of the last migration applied; 0 for a new store.
async fn version(tables: &Tables, migrations: &[Migration]) -> Result<u32> {
    let specs = migrations.iter().flat_map(|m| &m.tables);
    for spec in specs.filter(|spec| spec.name == meta::TABLE) {
        tables.create(spec).await?;
    }
    let stored = tables.cell(meta::TABLE, meta::SCHEMA, CF, meta::VALUE).await?;
    Ok(stored.map(|value| meta::decode_version(&value)).transpose()?.unwrap_or(0))
}

async fn record(tables: &Tables, number: u32) -> Result<()> {
    let check = match number {
        1 => Check::Absent(meta::column()),
        _ => Check::Equals(meta::column(), meta::encode_version(number - 1)),
    };
    let value = crate::table::Change::put(CF, meta::VALUE, meta::encode_version(number));
    let row = Bytes::from_static(meta::SCHEMA);
    let guarded = vec![Guarded { table: meta::TABLE, row, checks: vec![check], changes: vec![value] }];
    match tables.commit(Plan { guarded, ..Plan::default() }).await? {
        Outcome::Committed => Ok(()),
        Outcome::Refused(_) => Err(MigrateError::Raced),
    }
}

/// The root directory; refused if it is there.
async fn make_root(tables: &Tables) -> Result<()> {
    let root = DirEntry { id: DirId::ROOT, creator: "rowdrive".to_owned(), created: Timestamp::now() };
    let checks = vec![Check::Absent(dir::id_column())];
    let row = DrivePath::root().key();
    let guarded = vec![Guarded { table: dir::TABLE, row, checks, changes: root.row() }];
    tables.commit(Plan { guarded, ..Plan::default() }).await?;
    Ok(())
}

/// Writes every file's hints from the entries of the directory table.
async fn index_files(tables: &Tables) -> Result<()> {
    let mut range = RowRange::all();
    loop {
        let ask = Ask::cells(vec![dir::id_column()]);
        let scan = ScanAsk { table: dir::TABLE, range: range.clone(), ask, limit: 1_000, reverse: false };
        let rows = tables.scan(&scan).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        range.from = std::ops::Bound::Excluded(last.clone());
        for (key, row) in &rows {
            if let Some(id) = row.get(CF, dir::ID) {
                index_directory(tables, key.clone(), dir::decode_id(id)?).await?;
            }
        }
    }
}

async fn index_directory(tables: &Tables, row: Bytes, dir: DirId) -> Result<()> {
    let (mut from, to) = dir::range(dir::FILE, "");
    loop {
        let limit = PAGE_CELLS.min(BACKFILL);
        let ask = PageAsk {
            table: dir::TABLE,
            row: row.clone(),
            family: dir::SUB,
            from,
            to: to.clone(),
            limit,
            fence: vec![],
        };
        let page = tables.page(&ask).await?;
        let mut prepare: Vec<RowChange> = Vec::new();
        for cell in &page.cells {
            let (_, name) = dir::child(&cell.qualifier)?;
            let Entry { id, place, attributes } = Entry::decode(&cell.value)?;
            let standing = Standing { dir, name, place };
            prepare.extend(Indexed { id, attributes: &attributes, standing: &standing }.put());
        }
        if !prepare.is_empty() {
            tables.commit(Plan { prepare, ..Plan::default() }).await?;
        }
        match page.cells.last() {
            Some(last) if page.more => from = std::ops::Bound::Excluded(last.qualifier.clone()),
            _ => return Ok(()),
        }
    }
}
