//! The names in a directory: whether what each leads to is there and as it says.

use std::collections::HashSet;
use std::ops::Bound;

use super::tree::Met;
use super::{Checker, Finding, Kind, ROWS, Result, printed};
use crate::content::{Body, ContentError};
use crate::schema::dir::{self, DirEntry, Entry};
use crate::schema::file::{self, Attributes, Location, Standing};
use crate::schema::{CF, DirId, DrivePath, Name, ValueError, index, unlink};
use crate::table::{Ask, Cell, CellCursor, Change, Column, PageAsk, Plan, Row, RowChange};

/// A file's name and what it leads to.
struct Named {
    path: DrivePath,
    name: Name,
    entry: Entry,
}

impl Checker<'_> {
    pub(super) async fn names(&mut self, Met { path, entry }: &Met) -> Result<()> {
        let mut directories = HashSet::new();
        let (row, from, to) = (path.key(), Bound::Unbounded, Bound::Unbounded);
        let first = PageAsk { table: dir::TABLE, row, family: dir::SUB, from, to, limit: ROWS, fence: vec![] };
        let mut all = CellCursor::new(first);
        while let Some(cells) = all.next(self.tables).await? {
            let (mut below, mut files) = (Vec::new(), Vec::new());
            for cell in &cells {
                match read(path, cell) {
                    Ok(Child::Directory(name, at, entry)) => {
                        directories.insert(name);
                        below.push((at, entry.id));
                    }
                    Ok(Child::File(named)) => files.push(*named),
                    Err(error) => {
                        self.sound = false;
                        let what = format!("the name {}: {error}", printed(&cell.qualifier));
                        self.find(Kind::Unreadable, dir::TABLE, path.to_string(), Some(path), what);
                    }
                }
            }
            self.directories(&below).await?;
            for Named { path, .. } in files.iter().filter(|file| directories.contains(&file.name)) {
                let what = "a file and a directory have this name".to_owned();
                self.find(Kind::SameName, dir::TABLE, path.to_string(), Some(path), what);
            }
            self.named_files(entry.id, &files).await?;
            (self.tell)(super::Told::Rows(cells.len()));
        }
        Ok(())
    }

    /// Whether there are rows for the names of directories.
    async fn directories(&mut self, named: &[(DrivePath, DirId)]) -> Result<()> {
        let asks: Vec<_> = named.iter().map(|(path, _)| (path.key(), Ask::cells(vec![dir::id_column()]))).collect();
        let rows = self.rows(dir::TABLE, &asks, &|nth| named.get(nth).map(|(path, _)| path)).await?;
        for ((path, id), row) in named.iter().zip(rows) {
            let Some(row) = row else { continue };
            let found = row.get(CF, dir::ID).map(|value| dir::decode_id(value));
            let what = match found {
                Some(Ok(found)) if found == *id => continue,
                Some(Ok(found)) => format!("its name leads to directory {id}, its row is of directory {found}"),
                Some(Err(error)) => error.to_string(),
                None => format!("its name leads to directory {id}, which has no row"),
            };
            self.sound = false;
            self.find(Kind::DirectoryMissing, dir::TABLE, path.to_string(), Some(path), what);
        }
        Ok(())
    }

    async fn named_files(&mut self, dir: DirId, files: &[Named]) -> Result<()> {
        let asks: Vec<_> = files.iter().map(|file| (file.entry.id.key(), Ask::families(&[CF]))).collect();
        let rows = self.rows(file::TABLE, &asks, &|nth| files.get(nth).map(|file| &file.path)).await?;
        for (file, row) in files.iter().zip(rows) {
            self.summary.files += 1;
            self.summary.bytes += file.entry.attributes.size;
            match row {
                Some(row) => self.file_row(dir, file, &row),
                None => _ = self.known.insert(file.entry.id),
            }
            if file.entry.attributes.location == Location::Large {
                self.large(file).await?;
            }
        }
        self.hinted(dir, files).await
    }

    fn file_row(&mut self, dir: DirId, file: &Named, row: &Row) {
        let Named { path, name, entry } = file;
        let standing = Standing { dir, name: name.clone(), place: entry.place };
        let (kind, what) = if row.is_empty() {
            (Kind::FileMissing, "its file row is missing".to_owned())
        } else {
            let differs = |change: &Change| match change {
                Change::Put { qualifier, value, .. } if row.get(CF, qualifier) != Some(value) => {
                    Some(printed(qualifier))
                }
                _ => None,
            };
            let cells: Vec<_> = file::row(&entry.attributes, &standing).iter().filter_map(differs).collect();
            if cells.is_empty() {
                return;
            }
            (Kind::FileDiffers, format!("its file row says otherwise: {}", cells.join(", ")))
        };
        self.known.insert(entry.id);
        self.find(kind, file::TABLE, entry.id.to_string(), Some(path), what);
    }

    /// A file with content of its own.
    async fn large(&mut self, Named { path, entry, .. }: &Named) -> Result<()> {
        let Entry { id, attributes: Attributes { size, digest, .. }, .. } = entry;
        let mut found = self.content.open_large(*id, *size).await;
        if let (true, Ok(large)) = (self.options.content, &found) {
            let verified = Body::Large(large.clone()).verify(*id, *size, digest).await;
            found = verified.and(found);
        }
        let finding = match found {
            Ok(_) => None,
            Err(ContentError::Gone(_)) => Some((Kind::ContentMissing, "its content file is missing".to_owned())),
            Err(error @ (ContentError::Damaged { .. } | ContentError::Io(_))) => {
                Some((Kind::ContentDamaged, error.to_string()))
            }
            Err(error) => return Err(error.into()),
        };
        if let Some((kind, what)) = finding {
            self.find(kind, "content", id.to_string(), Some(path), what);
        }
        if self.left.dropped.contains(id) {
            let repaired = self.options.repair;
            if repaired {
                self.remove(vec![unlink::removal(*id)]).await?;
                self.left.dropped.remove(id);
            }
            let (kind, row) = (Kind::ContentCondemned, id.to_string());
            let detail = "its content is marked to be removed".to_owned();
            self.found(Finding { kind, table: unlink::TABLE, row, path: Some(path.to_string()), detail, repaired });
        }
        Ok(())
    }

    /// Whether the indexes know these files.
    async fn hinted(&mut self, dir: DirId, files: &[Named]) -> Result<()> {
        let expected = files.iter().flat_map(|file| {
            let hints = index::hints(dir, &file.name, &file.entry);
            hints.into_iter().map(move |hint| (file, hint))
        });
        let expected: Vec<_> = expected.collect();
        for table in index::TABLES {
            let here: Vec<_> = expected.iter().filter(|(_, hint)| hint.table == table).collect();
            let asks: Vec<_> = here.iter().map(|(_, hint)| (hint.row.clone(), Ask::cells(columns(hint)))).collect();
            let at = |nth: usize| here.get(nth).map(|(file, _)| &file.path);
            let rows = self.rows(table, &asks, &at).await?;
            let lacks = |((_, hint), row): &(&(&Named, RowChange), Option<Row>)| {
                row.as_ref().is_some_and(|row| !holds(row, hint))
            };
            let missing: Vec<_> = here.into_iter().zip(rows).filter(lacks).collect();
            // A file whose row says that it stands elsewhere has its hints there.
            let repair = self.options.repair;
            let may_put = |file: &Named| repair && !self.known.contains(&file.entry.id);
            let put = missing.iter().filter(|((file, _), _)| may_put(file)).map(|((_, hint), _)| hint.clone());
            let prepare: Vec<_> = put.collect();
            let repaired: Vec<_> = missing.iter().map(|((file, _), _)| may_put(file)).collect();
            if !prepare.is_empty() {
                self.tables.commit(Plan { prepare, ..Plan::default() }).await?;
            }
            for (((file, hint), _), repaired) in missing.into_iter().zip(repaired) {
                let (kind, row, path) = (Kind::HintMissing, printed(&hint.row), Some(file.path.to_string()));
                let detail = format!("the index {table} does not know it, or says something else");
                self.found(Finding { kind, table, row, path, detail, repaired });
            }
        }
        Ok(())
    }
}

enum Child {
    Directory(Name, DrivePath, DirEntry),
    File(Box<Named>),
}

fn read(directory: &DrivePath, cell: &Cell) -> std::result::Result<Child, ValueError> {
    let (kind, name) = dir::child(&cell.qualifier)?;
    let path = directory.join(&name).map_err(|_| ValueError::Damaged { what: "path: it is too long" })?;
    Ok(if kind == dir::FILE {
        Child::File(Box::new(Named { path, name, entry: Entry::decode(&cell.value)? }))
    } else {
        Child::Directory(name, path, DirEntry::decode(&cell.value)?)
    })
}

fn columns(hint: &RowChange) -> Vec<Column> {
    hint.changes.iter().filter_map(|c| Some(Column::new(c.family(), c.qualifier()?.clone()))).collect()
}

/// Whether a row holds what a change puts.
pub(super) fn holds(row: &Row, hint: &RowChange) -> bool {
    hint.changes.iter().all(|change| match change {
        Change::Put { family, qualifier, value } => row.get(family, qualifier) == Some(value),
        _ => true,
    })
}
