//! The two tables: directories keyed by full path with a cell for each child, files keyed by random UUID, and the
//! indexes by time, creator and name that go with them. Keys, cells and values are the drive's own; they are written
//! as those of the other layouts are, each change at one instant but for renames.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ops::Bound;

use anyhow::{Context, Result};
use bytes::Bytes;
use rowdrive::migrate;
use rowdrive::schema::dir::{self, DirEntry, FileEntry};
use rowdrive::schema::dir_parent::{self, DirParent};
use rowdrive::schema::file::{self, Attributes, FilePosition};
use rowdrive::schema::index::IndexRows;
use rowdrive::schema::index::by_name::{self, NameIndexEntry};
use rowdrive::schema::index::by_time::{self, Clock, TimeIndexEntry};
use rowdrive::schema::{CF, DirId, DrivePath, FileId, Name, StayId, Timestamp};
use rowdrive::table::{
    CellCursor, Change, Check, Column, ConditionalRow, PageQuery, Plan, RowChange, RowCursor, RowQuery, Tables,
};

use super::rows::{commit, commit_groups};
use super::{Child, Layout, Node, Period, Verdict, at, is_within};

/// Cells or rows that are read at a time.
const PAGE: usize = if cfg!(test) { 2 } else { 1_000 };
const CREATOR: &str = "loadtest";

#[derive(Clone)]
pub struct Uuid(Tables);

/// A name in a directory that is there, and what stands at it.
struct Spot {
    parent: DrivePath,
    id: DirId,
    name: Name,
    directory: Option<DirEntry>,
    file: Option<FileEntry>,
}

impl Spot {
    fn is_taken(&self) -> bool {
        self.directory.is_some() || self.file.is_some()
    }

    fn position(&self, stay: StayId) -> FilePosition {
        FilePosition { dir: self.id, name: self.name.clone(), stay }
    }

    fn link(&self) -> DirParent {
        DirParent { parent: self.id, name: self.name.clone(), operation: dir::NO_OPERATION }
    }

    /// Changes of the directory's row, if it is still the same directory and these hold.
    fn row(&self, mut checks: Vec<Check>, changes: Vec<Change>) -> ConditionalRow {
        checks.push(Check::Equals(dir::id_column(), dir::encode_id(self.id)));
        ConditionalRow { table: dir::TABLE, row: self.parent.key(), checks, changes }
    }

    fn no_directory(&self) -> Check {
        Check::Absent(Column::new(dir::SUB, dir::directory_qualifier(&self.name)))
    }

    /// Nothing stands here, or just this file.
    fn file_is(&self, file: Option<&FileEntry>) -> Check {
        let column = Column::new(dir::SUB, dir::file_qualifier(&self.name));
        file.map_or(Check::Absent(column.clone()), |file| Check::Equals(column, file.encode()))
    }

    fn put_file(&self, file: &FileEntry) -> ConditionalRow {
        let put = Change::put(dir::SUB, dir::file_qualifier(&self.name), file.encode());
        self.row(vec![self.no_directory(), self.file_is(self.file.as_ref())], vec![put])
    }

    fn take_file(&self, file: &FileEntry) -> ConditionalRow {
        let take = Change::delete(dir::SUB, dir::file_qualifier(&self.name));
        self.row(vec![self.file_is(Some(file))], vec![take])
    }

    fn put_directory(&self, directory: &DirEntry) -> ConditionalRow {
        let put = Change::put(dir::SUB, dir::directory_qualifier(&self.name), directory.encode());
        self.row(vec![self.no_directory(), self.file_is(None)], vec![put])
    }

    fn take_directory(&self, directory: &DirEntry) -> ConditionalRow {
        let column = Column::new(dir::SUB, dir::directory_qualifier(&self.name));
        let take = Change::delete(dir::SUB, column.qualifier.clone());
        self.row(vec![Check::Equals(column, directory.encode())], vec![take])
    }

    /// The rows of a file that stands here no more.
    fn dropped(&self, file: &FileEntry) -> Vec<RowChange> {
        let mut rows = indexed(file, &self.position(file.stay)).delete();
        let changes = file::delete_cells(file.attributes.location);
        rows.push(RowChange { table: file::TABLE, row: file.id.key(), changes });
        rows
    }
}

fn indexed<'a>(file: &'a FileEntry, position: &'a FilePosition) -> IndexRows<'a> {
    IndexRows { id: file.id, attributes: &file.attributes, position }
}

/// A plan names a row once.
fn both(one: ConditionalRow, other: ConditionalRow) -> Vec<ConditionalRow> {
    if one.row != other.row {
        return vec![one, other];
    }
    let (checks, changes) = ([one.checks, other.checks].concat(), [one.changes, other.changes].concat());
    vec![ConditionalRow { table: one.table, row: one.row, checks, changes }]
}

impl Uuid {
    pub async fn create(tables: Tables) -> Result<Self> {
        migrate::up(&tables).await?;
        Ok(Self(tables))
    }

    /// What the parent's row says of a path; none if there is no such row.
    async fn spot(&self, path: &str) -> Result<Option<Spot>> {
        let Some((parent, name)) = at(path)?.split() else { return Ok(None) };
        let [file, directory] = [dir::file_qualifier(&name), dir::directory_qualifier(&name)];
        let asked = [file.clone(), directory.clone()].map(|qualifier| Column::new(dir::SUB, qualifier));
        let ask = RowQuery::cells(asked.into_iter().chain([dir::id_column()]).collect());
        let row = self.0.get(dir::TABLE, &parent.key(), &ask).await?;
        let Some(id) = row.get(CF, dir::ID) else { return Ok(None) };
        Ok(Some(Spot {
            id: dir::decode_id(id)?,
            file: row.get(dir::SUB, &file).map(|value| FileEntry::decode(value)).transpose()?,
            directory: row.get(dir::SUB, &directory).map(|value| DirEntry::decode(value)).transpose()?,
            parent,
            name,
        }))
    }

    /// Stores a file where there is none, or over the one that is there.
    async fn put(&self, spot: &Spot, attributes: &Attributes) -> Result<Verdict> {
        let file = FileEntry { id: FileId::random(), stay: StayId::CREATED, attributes: attributes.clone() };
        let position = spot.position(file.stay);
        let mut prepare = indexed(&file, &position).put();
        let changes = file::put_cells(attributes, &position);
        prepare.push(RowChange { table: file::TABLE, row: file.id.key(), changes });
        let finish = spot.file.as_ref().map(|old| spot.dropped(old)).unwrap_or_default();
        commit(&self.0, Plan { prepare, guarded: vec![spot.put_file(&file)], finish, ..Plan::default() }).await
    }

    /// What `child` takes of cells of a directory's row; none if there is no such directory.
    async fn children<T>(
        &self,
        path: &str,
        (from, to): (Bound<Bytes>, Bound<Bytes>),
        limit: usize,
        child: impl Fn(&[u8], Name, &[u8]) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let (table, family, unchanged) = (dir::TABLE, dir::SUB, vec![dir::id_column()]);
        let mut ask = PageQuery { table, row: at(path)?.key(), family, from, to, limit: limit.min(PAGE), unchanged };
        let mut children = Vec::new();
        loop {
            let page = self.0.page(&ask).await?;
            if page.unchanged.iter().any(Option::is_none) {
                return Ok(None);
            }
            for cell in &page.cells {
                let (kind, name) = dir::child(&cell.qualifier)?;
                children.push(child(kind, name, &cell.value)?);
            }
            match page.cells.last() {
                Some(last) if page.more && children.len() < limit => {
                    ask.from = Bound::Excluded(last.qualifier.clone());
                }
                _ => return Ok(Some(children)),
            }
        }
    }

    /// The path of a directory, by the links from it up to the root.
    async fn path(&self, id: DirId, known: &mut HashMap<DirId, DirParent>) -> Result<String> {
        let (mut names, mut at) = (Vec::new(), id);
        while at != DirId::ROOT {
            let link = match known.entry(at) {
                Slot::Occupied(known) => known.into_mut(),
                Slot::Vacant(new) => {
                    let link = self.0.cell(dir_parent::TABLE, &at.key(), CF, dir_parent::PARENT).await?;
                    new.insert(DirParent::decode(&link.context("a directory has no link")?)?)
                }
            };
            names.push(link.name.clone());
            at = link.parent;
        }
        Ok(names.iter().rev().flat_map(|name| ["/", name.as_str()]).collect())
    }

    /// Moves the rows of a directory and of all below it, page by page.
    async fn carry(&self, from: &DrivePath, to: &DrivePath) -> Result<Verdict> {
        let mut groups = Vec::new();
        self.carry_row(from, to, Vec::new(), &mut groups).await?;
        let mut rows = RowCursor::new(dir::TABLE, from.below(), RowQuery::families(&[CF]), PAGE);
        while let Some(some) = rows.next(&self.0).await? {
            for (key, row) in some {
                let old = DrivePath::from_key(&key)?;
                let new = old.as_str().get(from.as_str().len()..).unwrap_or_default();
                let new = DrivePath::parse(&format!("{to}{new}"))?;
                let own = row.family(CF).map(|cell| Change::put(CF, cell.qualifier.clone(), cell.value.clone()));
                self.carry_row(&old, &new, own.collect(), &mut groups).await?;
            }
        }
        commit_groups(&self.0, groups).await
    }

    /// `own` is what the new row needs beside the children.
    async fn carry_row(
        &self,
        old: &DrivePath,
        new: &DrivePath,
        own: Vec<Change>,
        groups: &mut Vec<Vec<ConditionalRow>>,
    ) -> Result<()> {
        // There is no condition that a row of this layout does not meet.
        let any = || vec![Check::Absent(dir::lock_column())];
        let row =
            |path: &DrivePath, changes| ConditionalRow { table: dir::TABLE, row: path.key(), checks: any(), changes };
        let (mut puts, mut takes) = (own, dir::delete_cells());
        let (table, family, from, to) = (dir::TABLE, dir::SUB, Bound::Unbounded, Bound::Unbounded);
        let ask = PageQuery { table, row: old.key(), family, from, to, limit: PAGE, unchanged: vec![] };
        let mut pages = CellCursor::new(ask);
        while let Some(cells) = pages.next(&self.0).await? {
            for cell in cells {
                takes.push(Change::delete(dir::SUB, cell.qualifier.clone()));
                puts.push(Change::put(dir::SUB, cell.qualifier, cell.value));
            }
            let (puts, takes) = (std::mem::take(&mut puts), std::mem::take(&mut takes));
            groups.push([(new, puts), (old, takes)].map(|(path, changes)| row(path, changes)).into());
        }
        Ok(())
    }
}

fn child(kind: &[u8], name: Name, value: &[u8]) -> Result<Child> {
    let node = if kind == dir::FILE { Node::File(FileEntry::decode(value)?.attributes) } else { Node::Directory };
    Ok(Child { name: name.as_str().to_owned(), node })
}

impl Layout for Uuid {
    const NAME: &'static str = "uuid";

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let Some(spot) = self.spot(path).await? else { return Ok(Verdict::Missing) };
        let entry = DirEntry { id: DirId::random(), creator: CREATOR.into(), created: Timestamp::from_ms(0) };
        let link = spot.link();
        let prepare = vec![RowChange { table: dir_parent::TABLE, row: entry.id.key(), changes: link.put_cells() }];
        let checks = vec![Check::Absent(dir::id_column())];
        let row = ConditionalRow { table: dir::TABLE, row: at(path)?.key(), checks, changes: entry.put_cells() };
        commit(&self.0, Plan { prepare, guarded: vec![spot.put_directory(&entry), row], ..Plan::default() }).await
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.spot(path).await? {
            None => Ok(Verdict::Missing),
            Some(spot) if spot.is_taken() => Ok(Verdict::Exists),
            Some(spot) => self.put(&spot, attributes).await,
        }
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.spot(path).await? {
            Some(spot) if spot.file.is_some() => self.put(&spot, attributes).await,
            _ => Ok(Verdict::Missing),
        }
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        let Some(spot) = self.spot(path).await? else { return Ok(None) };
        let file = spot.file.map(|file| Node::File(file.attributes));
        Ok(file.or_else(|| spot.directory.map(|_| Node::Directory)))
    }

    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.children(path, all, usize::MAX, |_, name, _| Ok(name.as_str().to_owned())).await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        self.children(path, (Bound::Unbounded, Bound::Unbounded), usize::MAX, child).await
    }

    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        let (first, end) = dir::range(dir::FILE, "");
        let from = if after.is_empty() { first } else { Bound::Excluded(dir::file_qualifier(&Name::parse(after)?)) };
        self.children(path, (from, end), limit, child).await
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        let (Some(source), Some(target)) = (self.spot(from).await?, self.spot(to).await?) else {
            return Ok(Verdict::Missing);
        };
        let Some(entry) = &source.directory else { return Ok(Verdict::Missing) };
        let (from, to) = (at(from)?, at(to)?);
        let mut guarded = both(source.take_directory(entry), target.put_directory(entry));
        let checks = vec![Check::Absent(dir::id_column())];
        guarded.push(ConditionalRow { table: dir::TABLE, row: to.key(), checks, changes: entry.put_cells() });
        let [old, new] = [source.link(), target.link()];
        let checks = vec![Check::Equals(dir_parent::column(), old.encode())];
        guarded.push(ConditionalRow {
            table: dir_parent::TABLE,
            row: entry.id.key(),
            checks,
            changes: new.put_cells(),
        });
        match commit(&self.0, Plan { guarded, ..Plan::default() }).await? {
            Verdict::Done => self.carry(&from, &to).await,
            refused => Ok(refused),
        }
    }

    async fn move_file(&self, from: &str, to: &str) -> Result<Verdict> {
        let (Some(source), Some(target)) = (self.spot(from).await?, self.spot(to).await?) else {
            return Ok(Verdict::Missing);
        };
        let Some(file) = &source.file else { return Ok(Verdict::Missing) };
        if target.is_taken() {
            return Ok(Verdict::Exists);
        }
        let moved = FileEntry { stay: StayId::random(), ..file.clone() };
        let (old, new) = (source.position(file.stay), target.position(moved.stay));
        let mut guarded = both(source.take_file(file), target.put_file(&moved));
        let place = Check::Equals(Column::new(CF, file::STAY), file::encode_stay(&old.stay));
        guarded.push(ConditionalRow {
            table: file::TABLE,
            row: file.id.key(),
            checks: vec![place],
            changes: new.put_cells(),
        });
        let (prepare, finish) = (indexed(file, &new).put(), indexed(file, &old).delete());
        commit(&self.0, Plan { prepare, guarded, finish, ..Plan::default() }).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        let Some(spot) = self.spot(path).await? else { return Ok(Verdict::Missing) };
        let Some(file) = &spot.file else { return Ok(Verdict::Missing) };
        let (guarded, finish) = (vec![spot.take_file(file)], spot.dropped(file));
        commit(&self.0, Plan { guarded, finish, ..Plan::default() }).await
    }

    async fn find(&self, wanted: &str) -> Result<Vec<String>> {
        let (mut found, mut known) = (Vec::new(), HashMap::new());
        let range = by_name::exact(&Name::parse(wanted)?.folded());
        let mut rows = RowCursor::new(by_name::TABLE, range, RowQuery::families(&[CF]), PAGE);
        while let Some(some) = rows.next(&self.0).await? {
            for hint in some.iter().flat_map(|(_, row)| row.family(CF)) {
                let hint = NameIndexEntry::decode(&hint.value)?;
                if hint.name.as_str() == wanted {
                    found.push(format!("{}/{wanted}", self.path(hint.dir, &mut known).await?));
                }
            }
        }
        Ok(found)
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let (mut found, mut known) = (Vec::new(), HashMap::new());
        let [from, to] = [period.from, period.to].map(Timestamp::from_ms);
        let range = by_time::range(Clock::Modified, Some(from), Some(to));
        let mut rows = RowCursor::new(by_time::TABLE, range, RowQuery::families(&[CF]), period.limit);
        while let Some(some) = rows.next(&self.0).await? {
            for (key, row) in &some {
                let (modified, _) = by_time::decode_key(key)?;
                for hint in row.family(CF) {
                    let hint = TimeIndexEntry::decode(&hint.value)?;
                    let directory = self.path(hint.dir, &mut known).await?;
                    if found.len() < period.limit && is_within(&directory, &period.under) {
                        found.push((modified.ms(), format!("{directory}/{}", hint.name)));
                    }
                }
            }
            if found.len() == period.limit {
                break;
            }
        }
        Ok(found)
    }
}
