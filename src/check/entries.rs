//! Checks the entries of a directory: that each leads to an existing file or directory, and agrees with its row.

use std::collections::HashSet;
use std::ops::Bound;

use super::directories::LiveDirRow;
use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::content::{Body, ContentError};
use crate::schema::dir::{self, DirEntry, FileEntry};
use crate::schema::file::{self, Attributes, ContentLocation, FilePosition};
use crate::schema::{CF, DirId, DrivePath, Name, ValueError, index, pending_unlink};
use crate::table::{Cell, CellCursor, Change, Column, PageQuery, Plan, Row, RowChange, RowQuery};

/// A file entry, with its path and name.
struct NamedFile {
    path: DrivePath,
    name: Name,
    entry: FileEntry,
}

impl Checker<'_> {
    pub(super) async fn entries(&mut self, LiveDirRow { path, entry }: &LiveDirRow) -> Result<()> {
        let mut directories = HashSet::new();
        let (row, from, to) = (path.key(), Bound::Unbounded, Bound::Unbounded);
        let first = PageQuery { table: dir::TABLE, row, family: dir::SUB, from, to, limit: ROWS, unchanged: vec![] };
        let mut all = CellCursor::new(first);
        while let Some(cells) = all.next(self.tables).await? {
            let (mut below, mut files) = (Vec::new(), Vec::new());
            for cell in &cells {
                match decode_child(path, cell) {
                    Ok(DirChild::Directory(name, at, entry)) => {
                        directories.insert(name);
                        below.push((at, entry.id));
                    }
                    Ok(DirChild::File(named)) => files.push(*named),
                    Err(error) => {
                        let what = format!("the name {}: {error}", printable(&cell.qualifier));
                        self.report_unreadable(dir::TABLE, path.to_string(), Some(path), what);
                    }
                }
            }
            self.check_child_directories(&below).await?;
            for NamedFile { path, .. } in files.iter().filter(|file| directories.contains(&file.name)) {
                let what = "a file and a directory have this name".to_owned();
                self.report(FindingKind::SameName, dir::TABLE, path.to_string(), Some(path), what);
            }
            self.check_files(entry.id, &files).await?;
            (self.on_event)(CheckEvent::Rows(cells.len()));
        }
        Ok(())
    }

    /// Checks that there is a row for each entry of a directory.
    async fn check_child_directories(&mut self, named: &[(DrivePath, DirId)]) -> Result<()> {
        let queries: Vec<_> =
            named.iter().map(|(path, _)| (path.key(), RowQuery::cells(vec![dir::id_column()]))).collect();
        let rows = self.read_rows(dir::TABLE, &queries, &|nth| named.get(nth).map(|(path, _)| path)).await?;
        for ((path, id), row) in named.iter().zip(rows) {
            let Some(row) = row else { continue };
            let found = row.get(CF, dir::ID).map(|value| dir::decode_id(value));
            let what = match found {
                Some(Ok(found)) if found == *id => continue,
                Some(Ok(found)) => format!("its name leads to directory {id}, its row is of directory {found}"),
                Some(Err(error)) => error.to_string(),
                None => format!("its name leads to directory {id}, which has no row"),
            };
            self.tree_complete = false;
            self.report(FindingKind::DirectoryMissing, dir::TABLE, path.to_string(), Some(path), what);
        }
        Ok(())
    }

    async fn check_files(&mut self, dir: DirId, files: &[NamedFile]) -> Result<()> {
        let queries: Vec<_> = files.iter().map(|file| (file.entry.id.key(), RowQuery::families(&[CF]))).collect();
        let rows = self.read_rows(file::TABLE, &queries, &|nth| files.get(nth).map(|file| &file.path)).await?;
        for (file, row) in files.iter().zip(rows) {
            self.summary.files += 1;
            self.summary.bytes += file.entry.attributes.size;
            self.usage.add_file(&file.entry.attributes);
            match row {
                Some(row) => self.check_file_row(dir, file, &row),
                None => _ = self.reported_files.insert(file.entry.id),
            }
            if file.entry.attributes.location == ContentLocation::Large {
                self.check_content_file(file).await?;
            }
        }
        self.check_index_rows(dir, files).await
    }

    fn check_file_row(&mut self, dir: DirId, file: &NamedFile, row: &Row) {
        let NamedFile { path, name, entry } = file;
        let position = FilePosition { dir, name: name.clone(), stay: entry.stay };
        let (kind, what) = if row.is_empty() {
            (FindingKind::FileMissing, "its file row is missing".to_owned())
        } else {
            let differs = |change: &Change| match change {
                Change::Put { qualifier, value, .. } if row.get(CF, qualifier) != Some(value) => {
                    Some(printable(qualifier))
                }
                _ => None,
            };
            let cells: Vec<_> = file::put_cells(&entry.attributes, &position).iter().filter_map(differs).collect();
            if cells.is_empty() {
                return;
            }
            (FindingKind::FileDiffers, format!("its file row differs: {}", cells.join(", ")))
        };
        self.reported_files.insert(entry.id);
        self.report(kind, file::TABLE, entry.id.to_string(), Some(path), what);
    }

    /// Checks the content file of a file.
    async fn check_content_file(&mut self, NamedFile { path, entry, .. }: &NamedFile) -> Result<()> {
        let FileEntry { id, attributes: Attributes { size, digest, .. }, .. } = entry;
        let mut found = self.content.open_file(*id, *size).await;
        if let (true, Ok(large)) = (self.options.content, &found) {
            let verified = Body::Large(large.clone()).verify(*id, *size, digest).await;
            found = verified.and(found);
        }
        let finding = match found {
            Ok(_) => None,
            Err(ContentError::Gone(_)) => Some((FindingKind::ContentMissing, "its content file is missing".to_owned())),
            Err(error @ (ContentError::Damaged { .. } | ContentError::Io(_))) => {
                Some((FindingKind::ContentDamaged, error.to_string()))
            }
            Err(error) => return Err(error.into()),
        };
        if let Some((kind, what)) = finding {
            self.report(kind, "content", id.to_string(), Some(path), what);
        }
        if self.pending.unlinks.contains(id) {
            let repaired = self.options.repair;
            if repaired {
                self.delete(vec![pending_unlink::delete(*id)]).await?;
                self.pending.unlinks.remove(id);
            }
            let (kind, row) = (FindingKind::ContentPendingUnlink, id.to_string());
            let detail = "its content is to be removed".to_owned();
            self.record(Finding {
                kind,
                table: pending_unlink::TABLE,
                row,
                path: Some(path.to_string()),
                detail,
                repaired,
            });
        }
        Ok(())
    }

    /// Checks that every index has these files.
    async fn check_index_rows(&mut self, dir: DirId, files: &[NamedFile]) -> Result<()> {
        let expected = files.iter().flat_map(|file| {
            let rows_of_file = index::put_rows(dir, &file.name, &file.entry);
            rows_of_file.into_iter().map(move |entry_row| (file, entry_row))
        });
        let expected: Vec<_> = expected.collect();
        for table in index::TABLES {
            let here: Vec<_> = expected.iter().filter(|(_, entry_row)| entry_row.table == table).collect();
            let queries: Vec<_> = here
                .iter()
                .map(|(_, entry_row)| (entry_row.row.clone(), RowQuery::cells(columns(entry_row))))
                .collect();
            let at = |nth: usize| here.get(nth).map(|(file, _)| &file.path);
            let rows = self.read_rows(table, &queries, &at).await?;
            let lacks = |((_, entry_row), row): &(&(&NamedFile, RowChange), Option<Row>)| {
                row.as_ref().is_some_and(|row| !has_cells(row, entry_row))
            };
            let missing: Vec<_> = here.into_iter().zip(rows).filter(lacks).collect();
            // No repair for a file whose row gives another position: its index entries may be of that position.
            let repair = self.options.repair;
            let may_put = |file: &NamedFile| repair && !self.reported_files.contains(&file.entry.id);
            let put =
                missing.iter().filter(|((file, _), _)| may_put(file)).map(|((_, entry_row), _)| entry_row.clone());
            let prepare: Vec<_> = put.collect();
            let repaired: Vec<_> = missing.iter().map(|((file, _), _)| may_put(file)).collect();
            if !prepare.is_empty() {
                self.tables.commit(Plan { prepare, ..Plan::default() }).await?;
            }
            for (((file, entry_row), _), repaired) in missing.into_iter().zip(repaired) {
                let (kind, row, path) =
                    (FindingKind::IndexEntryMissing, printable(&entry_row.row), Some(file.path.to_string()));
                let detail = format!("the index {table} has no entry of it, or one with another value");
                self.record(Finding { kind, table, row, path, detail, repaired });
            }
        }
        Ok(())
    }
}

enum DirChild {
    Directory(Name, DrivePath, DirEntry),
    File(Box<NamedFile>),
}

fn decode_child(directory: &DrivePath, cell: &Cell) -> std::result::Result<DirChild, ValueError> {
    let (kind, name) = dir::child(&cell.qualifier)?;
    let path = directory.join(&name).map_err(|_| ValueError::Damaged { what: "path: it is too long" })?;
    Ok(if kind == dir::FILE {
        DirChild::File(Box::new(NamedFile { path, name, entry: FileEntry::decode(&cell.value)? }))
    } else {
        DirChild::Directory(name, path, DirEntry::decode(&cell.value)?)
    })
}

fn columns(entry_row: &RowChange) -> Vec<Column> {
    entry_row.changes.iter().filter_map(|c| Some(Column::new(c.family(), c.qualifier()?.clone()))).collect()
}

/// Whether a row has the cells that a change puts.
pub(super) fn has_cells(row: &Row, entry_row: &RowChange) -> bool {
    entry_row.changes.iter().all(|change| match change {
        Change::Put { family, qualifier, value } => row.get(family, qualifier) == Some(value),
        _ => true,
    })
}
