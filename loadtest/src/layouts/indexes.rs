//! The index rows of a file: two by time and two by creator and time (of modification and of addition), one by name.
//! The keys are the drive's own; the value is the file's position, as the layout knows it: its path, or the id of its
//! directory and its name, from which links lead up to the root.
//!
//! An entry is one cell that is never changed: a file that moves gets cells of another qualifier, its `stay`, before
//! its row changes, and loses the old ones afterwards.

use std::collections::HashMap;

use anyhow::{Context, Result};
use bytes::Bytes;
use rowdrive::schema::file::Attributes;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::index::{by_name, by_owner, by_time};
use rowdrive::schema::{CF, DirId, FileId, Name, StayId, Timestamp};
use rowdrive::table::{Change, ConditionalRow, KeyLifecycle, Row, RowChange, RowCursor, RowKey, RowQuery, Tables};

use super::rows::{LIST, Next, Table};
use super::stored::{equals, pack, unpack};
use super::{Period, is_within, split};

/// The cell of a link: the parent's id, and the name.
const LINK: &[u8] = b"p";
const ID: usize = 16;

/// Names one position of one version of a file, in the values of its directory and of its rows.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    pub file: FileId,
    pub stay: StayId,
}

impl Ids {
    pub fn new() -> Self {
        Self { file: FileId::random(), stay: StayId::CREATED }
    }

    /// The same version at another position.
    pub fn moved(self) -> Self {
        Self { stay: StayId::random(), ..self }
    }

    /// Attributes, and these ids after them.
    pub fn pack(self, attributes: &Attributes) -> Bytes {
        [&pack(attributes), &self.file.0.as_bytes()[..], self.stay.as_bytes()].concat().into()
    }

    pub fn unpack(value: &[u8]) -> Result<(Attributes, Self)> {
        let (attributes, ids) = unpack(value)?;
        let (file, stay) = ids.split_at_checked(ID).context("a file lacks its ids")?;
        let stay = StayId::from_bytes(stay).context("a file lacks its stay")?;
        Ok((attributes, Self { file: FileId(uuid::Uuid::from_slice(file)?), stay }))
    }
}

pub struct Indexes {
    time: Table,
    owner: Table,
    name: Table,
    /// A row for each directory, with its parent's id and its name; none if positions are paths.
    links: Option<Table>,
}

impl Indexes {
    pub async fn create(tables: &Tables, has_links: bool) -> Result<Self> {
        let create = async |name| Table::create(tables, (name, KeyLifecycle::Immutable), &[], &[]).await;
        let (time, owner, name) =
            (create(by_time::TABLE).await?, create(by_owner::TABLE).await?, create(by_name::TABLE).await?);
        let links = match has_links {
            true => Some(Table::create(tables, ("parent", KeyLifecycle::UniqueId), &[], &[LINK]).await?),
            false => None,
        };
        Ok(Self { time, owner, name, links })
    }

    /// What a plan does before a file is at a position, or, without one, after it has left.
    pub fn rows(&self, ids: Ids, attributes: &Attributes, name: &str, at: Option<Bytes>) -> Result<Vec<RowChange>> {
        let cell = ids.stay.qualifier();
        let change = at.map_or_else(|| Change::delete(CF, cell.clone()), |at| Change::put(CF, cell.clone(), at));
        let Attributes { modified, added, creator, .. } = attributes;
        let row = |table: &Table, row| RowChange { table: table.name, row, changes: vec![change.clone()] };
        let mut rows = vec![row(&self.name, by_name::key(&Name::parse(name)?.folded(), ids.file))];
        for (clock, time) in [(Clock::Modified, *modified), (Clock::Added, *added)] {
            rows.push(row(&self.time, by_time::key(clock, time, ids.file)));
            rows.push(row(&self.owner, by_owner::key(creator, clock, time, ids.file)));
        }
        Ok(rows)
    }

    pub fn link(&self, id: &Bytes, position: Bytes) -> Option<RowChange> {
        let changes = vec![Change::put(CF, LINK, position)];
        Some(RowChange { table: self.links.as_ref()?.name, row: id.clone(), changes })
    }

    pub fn relink(&self, id: &Bytes, from: Bytes, to: Bytes) -> Option<ConditionalRow> {
        Some(self.links.as_ref()?.row(id.clone(), vec![equals(LINK, from)], vec![Change::put(CF, LINK, to)]))
    }

    /// The path of a position, with the links that other positions needed.
    async fn path(&self, position: &Bytes, known: &mut HashMap<Bytes, Bytes>) -> Result<String> {
        let Some(links) = &self.links else { return Ok(std::str::from_utf8(position)?.to_owned()) };
        let mut up = position.clone();
        let mut path = String::new();
        loop {
            let (id, name) = (up.slice(..ID.min(up.len())), up.get(ID..).context("a position is cut off")?);
            path = format!("/{}{path}", std::str::from_utf8(name)?);
            if id == DirId::ROOT.key() {
                return Ok(path);
            }
            up = match known.get(&id) {
                Some(link) => link.clone(),
                None => links.get(&id).await?.get(CF, LINK).context("a directory has no link")?.clone(),
            };
            known.insert(id, up.clone());
        }
    }

    /// The paths of all files of this name. Upper and lower case are one to the index.
    pub async fn find(&self, name: &str) -> Result<Vec<String>> {
        let mut positions = Vec::new();
        let each = |_: &RowKey, row: &Row| {
            positions.extend(row.family(CF).map(|cell| cell.value.clone()));
            Ok(Next::Row)
        };
        self.name.scan(by_name::exact(&Name::parse(name)?.folded()), LIST, each).await?;
        let (mut paths, mut known) = (Vec::new(), HashMap::new());
        for position in positions {
            paths.push(self.path(&position, &mut known).await?);
        }
        paths.retain(|path| split(path).1 == name);
        Ok(paths)
    }

    /// The times and paths of the files of a period, page by page until enough of them are below its directory.
    pub async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let [from, to] = [period.from, period.to].map(|time| Some(Timestamp::from_ms(time)));
        let time = by_time::range(period.clock, from, to);
        let (table, range) = match &period.creator {
            Some(creator) => (&self.owner, by_owner::range(creator, time)),
            None => (&self.time, time),
        };
        let decode = if period.creator.is_some() { by_owner::decode_key } else { by_time::decode_key };
        let (mut found, mut known) = (Vec::new(), HashMap::new());
        let mut rows = RowCursor::new(table.name, range, RowQuery::families(&[CF]), period.limit);
        while let Some(page) = rows.next(&table.tables).await? {
            let is_last = page.len() < period.limit;
            for (key, row) in page {
                for cell in row.family(CF) {
                    let path = self.path(&cell.value, &mut known).await?;
                    found.extend(is_within(&path, &period.under).then_some((decode(&key)?.0.ms(), path)));
                }
            }
            if is_last || found.len() >= period.limit {
                break;
            }
        }
        found.truncate(period.limit);
        Ok(found)
    }
}
