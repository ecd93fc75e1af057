//! Applies `migrations/` to a store: numbered, immutable, in order, recorded in the `meta` table.
//!
//! Each declares tables, and may name a step that changes data. A start applies those that are missing. An interrupted
//! step is run again from its beginning: every step can be repeated without harm.

mod reindex;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::schema::dir::{self, DirEntry};
use crate::schema::{CF, DirId, DrivePath, Timestamp, ValueError, index, meta};
use crate::table::{Check, ConditionalRow, Outcome, Plan, StoreError, TableSpec, Tables};

/// All migrations, in order; the position is the number less one.
const MIGRATIONS: [(&str, &str); 4] = [
    ("0001_tree", include_str!("../../migrations/0001_tree.toml")),
    ("0002_indexes", include_str!("../../migrations/0002_indexes.toml")),
    ("0003_owner", include_str!("../../migrations/0003_owner.toml")),
    ("0004_time_attributes", include_str!("../../migrations/0004_time_attributes.toml")),
];

/// The number of the newest migration of this program.
pub const LATEST: u32 = MIGRATIONS.len() as u32;

/// Why a store could not be brought to the newest schema.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the store has schema version {found}, this program knows up to {known}: use a newer rowdrive")]
    Newer { found: u32, known: u32 },
    #[error("the store has schema version {found}, this program needs {known}: `rowdrive serve` brings it up to date")]
    Older { found: u32, known: u32 },
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
    data: Option<DataStep>,
}

impl Migration {
    /// A table that is to be filled as an index, although it is none of [`index::TABLES`]: it would stay empty.
    fn unknown_index(&self) -> Option<&str> {
        let is_index_step = self.data.as_ref().is_some_and(|data| matches!(data.step, Step::IndexFiles));
        let mut names = self.tables.iter().filter(|_| is_index_step).map(|spec| spec.name.as_str());
        names.find(|name| !index::TABLES.contains(name))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DataStep {
    step: Step,
}

/// A change of data, by its name in a migration.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Step {
    /// Creates the root directory.
    Root,
    /// Fills the tables of this migration with the index entries of all files.
    IndexFiles,
}

/// Migrates the store to the newest schema, and adds its tables to the handle `tables`.
pub async fn up(tables: &Tables) -> Result<()> {
    up_to(tables, LATEST).await
}

/// Adds the tables of a store of the newest schema to the handle `tables`, and changes nothing.
pub async fn open(tables: &Tables) -> Result<()> {
    let migrations = declared()?;
    match version(tables, &migrations).await? {
        LATEST => {}
        found if found > LATEST => return Err(MigrateError::Newer { found, known: LATEST }),
        found => return Err(MigrateError::Older { found, known: LATEST }),
    }
    for spec in migrations.iter().flat_map(|migration| &migration.tables) {
        tables.create(spec).await?;
    }
    Ok(())
}

/// Adds the tables of a damaged store to the handle `tables`, as far as they exist, and changes nothing.
pub async fn open_degraded(tables: &Tables) -> Result<()> {
    let migrations = declared()?;
    match version(tables, &migrations).await {
        Ok(found) if found > LATEST => return Err(MigrateError::Newer { found, known: LATEST }),
        Ok(_) => {}
        Err(cause) => tracing::warn!(%cause, "the version of its schema cannot be read"),
    }
    for spec in migrations.iter().flat_map(|migration| &migration.tables) {
        if let Err(cause) = tables.create(spec).await {
            tracing::warn!(table = spec.name, %cause, "a table cannot be read");
        }
    }
    Ok(())
}

/// Which migrations of a store are applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MigrationStatus {
    /// The number of the last migration applied; 0 for a new store. Above `known` if a newer program has written it.
    pub version: u32,
    /// [`LATEST`].
    pub known: u32,
    /// All migrations of this program, in order.
    pub migrations: Vec<KnownMigration>,
}

/// A migration, and whether it is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KnownMigration {
    /// The number, from 1.
    pub number: u32,
    /// The name, without the number.
    pub name: &'static str,
    /// Whether the store has this migration.
    pub applied: bool,
}

/// Which migrations are applied. A store that is open read-only is not changed; any other gets the table `meta` if it
/// lacks it.
pub async fn status(tables: &Tables) -> Result<MigrationStatus> {
    let version = match version(tables, &declared()?).await {
        // Its first start was interrupted before it created the table.
        Err(MigrateError::Store(StoreError::ReadOnly)) => 0,
        found => found?,
    };
    let known = |(number, (name, _)): (u32, (&'static str, _))| {
        let name = name.split_once('_').map_or(name, |(_number, name)| name);
        KnownMigration { number, name, applied: number <= version }
    };
    Ok(MigrationStatus { version, known: LATEST, migrations: (1..).zip(MIGRATIONS).map(known).collect() })
}

fn declared() -> Result<Vec<Migration>> {
    let mut migrations = Vec::new();
    for (name, text) in MIGRATIONS {
        let failed = |cause: String| MigrateError::Declaration { name, cause };
        let migration = toml::from_str::<Migration>(text).map_err(|cause| failed(cause.to_string()))?;
        if let Some(unknown) = migration.unknown_index() {
            return Err(failed(format!("this program has no index {unknown}")));
        }
        migrations.push(migration);
    }
    Ok(migrations)
}

/// Applies the migrations up to number `last`, for tests of the later ones.
pub async fn up_to(tables: &Tables, last: u32) -> Result<()> {
    let migrations = declared()?;
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
                Step::IndexFiles => {
                    let names = migration.tables.iter().map(|spec| spec.name.as_str());
                    reindex::fill(tables, &names.collect::<Vec<_>>()).await?;
                }
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
    let guarded = vec![ConditionalRow { table: meta::TABLE, row, checks: vec![check], changes: vec![value] }];
    match tables.commit(Plan { guarded, ..Plan::default() }).await? {
        Outcome::Committed => Ok(()),
        Outcome::Refused(_) => Err(MigrateError::Raced),
    }
}

/// Creates the root directory. The plan is refused if there is one.
async fn make_root(tables: &Tables) -> Result<()> {
    let root = DirEntry { id: DirId::ROOT, creator: "rowdrive".to_owned(), created: Timestamp::now() };
    let checks = vec![Check::Absent(dir::id_column())];
    let row = DrivePath::root().key();
    let guarded = vec![ConditionalRow { table: dir::TABLE, row, checks, changes: root.put_cells() }];
    tables.commit(Plan { guarded, ..Plan::default() }).await?;
    Ok(())
}
