//! The naive layout: one table, one row for each file and folder, keyed by its full path.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use rowdrive::schema::dir::Entry;
use rowdrive::schema::file::Attributes;
use rowdrive::schema::{DrivePath, FileId, Place};
use rowdrive::table::spec::{CellSize, Compression};
use rowdrive::table::{
    Ask, Change, Check, Class, Column, FamilySpec, Guarded, Outcome, Plan, RowRange, ScanAsk, TableSpec, Tables,
};

const TABLE: &str = "naive";
const CF: &str = "cf";
const C: &str = "c";
/// The value that the uuid layout stores in a directory's row for a file: both lists read the same bytes.
const FILE: &[u8] = b"f";
const DIRECTORY: &[u8] = b"d";

#[derive(Clone)]
pub struct Naive {
    tables: Arc<Tables>,
}

impl Naive {
    pub async fn create(tables: Tables) -> anyhow::Result<Self> {
        let family =
            |name: &str, compression, bloom, cells| FamilySpec { name: name.into(), compression, bloom, cells };
        let families = vec![
            family(CF, Compression::Light, true, CellSize::Small),
            family(C, Compression::None, false, CellSize::Large),
        ];
        tables.create(&TableSpec { name: TABLE.into(), class: Class::RowsReturn, families }).await?;
        Ok(Self { tables: Arc::new(tables) })
    }

    async fn put(&self, path: String, cells: Vec<Change>) -> anyhow::Result<()> {
        let checks = vec![FILE, DIRECTORY].into_iter().map(|q| Check::Absent(Column::new(CF, q))).collect();
        let guarded = vec![Guarded { table: TABLE, row: path.clone().into(), checks, changes: cells }];
        match self.tables.commit(Plan { guarded, ..Plan::default() }).await? {
            Outcome::Committed => Ok(()),
            Outcome::Refused(_) => anyhow::bail!("{path} is there already"),
        }
    }

    pub async fn mkdir(&self, path: String) -> anyhow::Result<()> {
        self.put(path, vec![Change::put(CF, DIRECTORY, vec![1])]).await
    }

    pub async fn create_file(&self, path: String, attributes: Attributes, content: Bytes) -> anyhow::Result<()> {
        let entry = Entry { id: FileId::random(), place: Place::CREATED, attributes };
        let cells = vec![Change::put(CF, FILE, entry.encode()), Change::put(C, b"data".as_ref(), content)];
        self.put(path, cells).await
    }

    pub async fn stat(&self, path: String) -> anyhow::Result<Attributes> {
        let found = self.tables.cell(TABLE, path.as_bytes(), CF, FILE).await?;
        Ok(Entry::decode(&found.ok_or_else(|| anyhow::anyhow!("{path} is missing"))?)?.attributes)
    }

    /// Scans the rows below the folder, leaping over what lies in its subfolders. Returns how many children.
    pub async fn list(&self, path: String, attributes: bool) -> anyhow::Result<usize> {
        let path = DrivePath::parse(&path)?;
        let mut range = path.below();
        let mut children = 0;
        loop {
            let ask =
                ScanAsk { table: TABLE, range: range.clone(), ask: Ask::families(&[CF]), limit: 1_000, reverse: false };
            let rows = self.tables.scan(&ask).await?;
            let Some((last, _)) = rows.last() else {
                return Ok(children);
            };
            range.from = Bound::Excluded(last.clone());
            for (key, row) in &rows {
                children += 1;
                if row.get(CF, DIRECTORY).is_some() {
                    range.from = Bound::Included([key.as_ref(), b"0"].concat().into());
                    break;
                }
                if attributes && let Some(value) = row.get(CF, FILE) {
                    std::hint::black_box(Entry::decode(value)?);
                }
            }
        }
    }

    /// There is no order by time in this layout: the whole table is scanned and sorted. Returns how many.
    pub async fn time_range(&self, from: i64, to: i64, limit: usize) -> anyhow::Result<usize> {
        let mut range = RowRange::all();
        let mut found = Vec::new();
        loop {
            let ask = Ask::cells(vec![Column::new(CF, FILE)]);
            let ask = ScanAsk { table: TABLE, range: range.clone(), ask, limit: 10_000, reverse: false };
            let rows = self.tables.scan(&ask).await?;
            let Some((last, _)) = rows.last() else { break };
            range.from = Bound::Excluded(last.clone());
            for (key, row) in &rows {
                let Some(value) = row.get(CF, FILE) else { continue };
                let attributes = Entry::decode(value)?.attributes;
                if (from..to).contains(&attributes.modified.ms()) {
                    found.push((attributes.modified, key.clone()));
                }
            }
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.truncate(limit);
        Ok(found.len())
    }

    /// The row keys that storing a file writes, by table.
    pub fn keys(path: &str) -> Vec<(&'static str, Vec<u8>)> {
        vec![(TABLE, path.as_bytes().to_vec())]
    }
}
