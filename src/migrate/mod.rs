//! Applies `migrations/` to a store: numbered, immutable, in order, recorded in the `meta` table.
//!
//! Each declares tables, and may name a step that changes data. A start applies those that are missing. An interrupted
//! step is run again from its beginning: every step can be repeated without harm.

mod count_usage;
mod pack_files;
mod reindex;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::schema::dir::{self, DirEntry};
use crate::schema::{CF, DirId, DrivePath, Timestamp, ValueError, index, meta};
use crate::table::{Change, Check, ConditionalRow, Outcome, Plan, RowQuery, StoreError, TableSpec, Tables};

/// All migrations, in order; the position is the number less one.
const MIGRATIONS: [(&str, &str); 7] = [
    ("0001_tree", include_str!("../../migrations/0001_tree.toml")),
    ("0002_indexes", include_str!("../../migrations/0002_indexes.toml")),
    ("0003_owner", include_str!("../../migrations/0003_owner.toml")),
    ("0004_time_attributes", include_str!("../../migrations/0004_time_attributes.toml")),
    ("0005_packed_files", include_str!("../../migrations/0005_packed_files.toml")),
    ("0006_users", include_str!("../../migrations/0006_users.toml")),
    ("0007_usage", include_str!("../../migrations/0007_usage.toml")),
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
    #[error(
        "the disk is full: {cause}. To pack the rows of {rows} files, {mebibytes} MiB must be free besides. No row was packed. \
         {}. Free disk space, then start again",
        opens(*.found, *.version)
    )]
    NoSpace { rows: u64, mebibytes: u64, cause: String, found: u32, version: u32 },
    #[error(
        "the disk is full: {cause}. The rows of {rows} files are not packed yet: {mebibytes} MiB must be free for that. Nothing \
         is lost: free disk space, then start again, and the rest is packed. Until then `rowdrive serve --degraded` serves \
         the files for reading"
    )]
    Full { rows: u64, mebibytes: u64, cause: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Value(#[from] ValueError),
}

impl MigrateError {
    /// Whether a stored row is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Store(StoreError::Damaged(_)) | Self::Value(ValueError::Damaged { .. }))
    }

    /// Whether the store accepts no more writes until it is opened again.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Store(StoreError::Stopped(_) | StoreError::Unknown { full: false, .. }))
    }
}

/// Which older programs open a store of schema `version`. `found`: its schema version before this start.
fn opens(found: u32, version: u32) -> String {
    if found == version {
        format!("The store still has schema version {version}, and an older program that knows it opens the store")
    } else {
        format!(
            "This start has brought the store from schema version {found} to {version}: an older program opens it \
             only if it knows version {version}"
        )
    }
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
    /// Packs the attributes of each file row in one cell, and its position in another one.
    PackFiles,
    /// Sets the counters of all accounts.
    CountUsage,
}

impl Step {
    /// Whether an older program would take the store for a damaged one while this step is under way. Then the number of
    /// the migration is recorded before the step too, with a mark, so that the older program refuses the store.
    fn is_fenced(self) -> bool {
        match self {
            Self::Root | Self::IndexFiles | Self::CountUsage => false,
            Self::PackFiles => true,
        }
    }

    /// Reads what the step will read, as far as it is known. An error is one that the step would end with.
    /// `found`: the schema version before this start; `version`: the present one.
    async fn check(self, tables: &Tables, found: u32, version: u32) -> Result<()> {
        match self {
            Self::Root | Self::IndexFiles | Self::CountUsage => Ok(()),
            Self::PackFiles => pack_files::check(tables, found, version).await,
        }
    }
}

/// What a store says of its migrations.
#[derive(Clone, Copy)]
struct Recorded {
    /// The last migration that was applied, or that has begun; 0 for a new store.
    version: u32,
    /// Whether it has not ended.
    is_unfinished: bool,
}

impl Recorded {
    /// The last migration that was applied. An error if this program does not know one of them.
    fn applied(self) -> Result<u32> {
        if self.version > LATEST {
            return Err(MigrateError::Newer { found: self.version, known: LATEST });
        }
        Ok(self.version - u32::from(self.is_unfinished))
    }
}

/// Migrates the store to the newest schema, and adds its tables to the handle `tables`.
pub async fn up(tables: &Tables) -> Result<()> {
    up_to(tables, LATEST).await
}

/// Adds the tables of a store of the newest schema to the handle `tables`, and changes nothing.
pub async fn open(tables: &Tables) -> Result<()> {
    let migrations = declared()?;
    match recorded(tables, &migrations).await?.applied()? {
        LATEST => {}
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
    match recorded(tables, &migrations).await {
        Ok(found) => drop(found.applied()?),
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
    let version = match recorded(tables, &declared()?).await {
        // Its first start was interrupted before it created the table.
        Err(MigrateError::Store(StoreError::ReadOnly)) => 0,
        found => found.map(|found| found.applied().unwrap_or(found.version))?,
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
    let found = recorded(tables, &migrations).await?;
    let applied = found.applied()?;
    for (number, migration) in (1..=last).zip(&migrations) {
        for spec in &migration.tables {
            tables.create(spec).await?;
        }
        if applied >= number {
            continue;
        }
        let mut is_marked = found.version == number;
        if let Some(data) = &migration.data {
            tracing::info!(migration = number, "migrating");
            // IMPORTANT: before the first row changes, and after all that can be known to fail: from here on no older program
            // opens the store, even if this one cannot go on.
            if data.step.is_fenced() && !is_marked {
                data.step.check(tables, applied, number - 1).await?;
                begin(tables, number).await?;
                is_marked = true;
            }
            match data.step {
                Step::Root => make_root(tables).await?,
                Step::IndexFiles => {
                    let names = migration.tables.iter().map(|spec| spec.name.as_str());
                    reindex::fill(tables, &names.collect::<Vec<_>>()).await?;
                }
                Step::PackFiles => pack_files::pack(tables).await?,
                Step::CountUsage => count_usage::count(tables).await?,
            }
        }
        if is_marked { end(tables, number).await? } else { record(tables, number).await? }
    }
    Ok(())
}

/// Reads what the store says of its migrations.
async fn recorded(tables: &Tables, migrations: &[Migration]) -> Result<Recorded> {
    let specs = migrations.iter().flat_map(|m| &m.tables);
    for spec in specs.filter(|spec| spec.name == meta::TABLE) {
        tables.create(spec).await?;
    }
    let query = RowQuery::cells(vec![meta::column(), meta::unfinished_column()]);
    let row = tables.get(meta::TABLE, meta::SCHEMA, &query).await?;
    let version = row.get(CF, meta::VALUE).map(|value| meta::decode_version(value)).transpose()?.unwrap_or(0);
    Ok(Recorded { version, is_unfinished: version > 0 && row.get(CF, meta::UNFINISHED).is_some() })
}

/// Records that a migration is applied.
async fn record(tables: &Tables, number: u32) -> Result<()> {
    change(tables, after(number - 1), vec![put_version(number)]).await
}

/// Records that a fenced migration has begun.
async fn begin(tables: &Tables, number: u32) -> Result<()> {
    let mark = Change::put(CF, meta::UNFINISHED, meta::encode_unfinished());
    change(tables, after(number - 1), vec![put_version(number), mark]).await
}

/// Records that it has ended.
async fn end(tables: &Tables, number: u32) -> Result<()> {
    let mark = Check::Equals(meta::unfinished_column(), meta::encode_unfinished());
    change(tables, vec![is_version(number), mark], vec![Change::delete(CF, meta::UNFINISHED)]).await
}

/// The checks that this migration was the last one, and that it has ended.
fn after(number: u32) -> Vec<Check> {
    vec![is_version(number), Check::Absent(meta::unfinished_column())]
}

fn put_version(number: u32) -> Change {
    Change::put(CF, meta::VALUE, meta::encode_version(number))
}

fn is_version(number: u32) -> Check {
    match number {
        0 => Check::Absent(meta::column()),
        _ => Check::Equals(meta::column(), meta::encode_version(number)),
    }
}

/// Changes the record of the schema if the checks hold.
async fn change(tables: &Tables, checks: Vec<Check>, changes: Vec<Change>) -> Result<()> {
    let row = Bytes::from_static(meta::SCHEMA);
    let guarded = vec![ConditionalRow { table: meta::TABLE, row, checks, changes }];
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
