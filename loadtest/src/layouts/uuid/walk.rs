//! Queries by name and by time without indexes: every directory is read.

use std::collections::HashMap;
use std::vec::IntoIter;

use anyhow::{Context, Result};
use rowdrive::schema::dir;
use rowdrive::schema::file::{self, Attributes};
use rowdrive::schema::{CF, DrivePath, Name};
use rowdrive::table::{CellCursor, Column, PageQuery, RowCursor, RowQuery, RowRange, Tables};

use super::spot::FileCell;
use super::step::Step;
use super::{PAGE, Uuid};
use crate::layouts::newest::Newest;
use crate::layouts::{Period, at};

/// All files of a directory and below it, page by page.
struct FileWalk {
    directories: IntoIter<DrivePath>,
    current: Option<(DrivePath, CellCursor)>,
}

impl FileWalk {
    async fn below(tables: &Tables, under: &str) -> Result<Self> {
        let under = at(under)?;
        let mut rows = RowCursor::new(dir::TABLE, under.below(), RowQuery::cells(vec![dir::id_column()]), PAGE);
        let mut directories = vec![under];
        while let Some(some) = rows.next(tables).await? {
            for (key, _) in some {
                directories.push(DrivePath::from_key(&key)?);
            }
        }
        Ok(Self { directories: directories.into_iter(), current: None })
    }

    /// The paths and cells of the next files; none at the end.
    async fn next<S: Step>(&mut self, tables: &Tables) -> Result<Option<Vec<(String, FileCell)>>> {
        loop {
            let Some((path, mut pages)) = self.current.take().or_else(|| self.directories.next().map(files_of)) else {
                return Ok(None);
            };
            let Some(cells) = pages.next(tables).await? else { continue };
            let files = cells.iter().map(|cell| {
                let (_, name) = dir::child(&cell.qualifier)?;
                Ok((below(&path, name.as_str()), FileCell::decode::<S>(&cell.value)?))
            });
            let files = files.collect::<Result<_>>()?;
            self.current = Some((path, pages));
            return Ok(Some(files));
        }
    }
}

/// The path of a child.
fn below(directory: &DrivePath, name: &str) -> String {
    if directory.is_root() { format!("/{name}") } else { format!("{directory}/{name}") }
}

/// The pages of a directory's files.
fn files_of(path: DrivePath) -> (DrivePath, CellCursor) {
    let (from, to) = dir::range(dir::FILE, "");
    let (table, family, row) = (dir::TABLE, dir::SUB, path.key());
    let ask = PageQuery { table, row, family, from, to, limit: PAGE, unchanged: vec![] };
    (path, CellCursor::new(ask))
}

impl<S: Step> Uuid<S> {
    /// Asks every directory for the name.
    pub(super) async fn find_in_directories(&self, wanted: &str) -> Result<Vec<String>> {
        let cell = Column::new(dir::SUB, dir::file_qualifier(&Name::parse(wanted)?));
        let mut rows = RowCursor::new(dir::TABLE, RowRange::all(), RowQuery::cells(vec![cell]), PAGE);
        let mut found = Vec::new();
        while let Some(some) = rows.next(&self.tables).await? {
            for (key, _) in some {
                found.push(below(&DrivePath::from_key(&key)?, wanted));
            }
        }
        Ok(found)
    }

    pub(super) async fn period_in_directories(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        if !S::COPIES && period.under.is_empty() {
            return self.period_in_files(period).await;
        }
        let mut newest = Newest::new(period);
        let mut walk = FileWalk::below(&self.tables, &period.under).await?;
        while let Some(files) = walk.next::<S>(&self.tables).await? {
            let (paths, cells): (Vec<_>, Vec<_>) = files.into_iter().unzip();
            for (path, attributes) in paths.into_iter().zip(self.attributes(cells).await?) {
                newest.offer(attributes.modified.ms(), || path);
            }
        }
        Ok(newest.done())
    }

    /// The attributes of files: from their cells, or else from the file table.
    pub(super) async fn attributes(&self, files: Vec<FileCell>) -> Result<Vec<Attributes>> {
        if S::COPIES {
            return Ok(files.into_iter().filter_map(|file| Some(file.entry?.attributes)).collect());
        }
        let queries: Vec<_> = files.iter().map(|file| (file.id.key(), RowQuery::families(&[CF]))).collect();
        let rows = self.tables.get_many(file::TABLE, &queries).await?;
        rows.iter().map(|row| Attributes::from_row(row)?.context("a file has no row")).collect()
    }

    /// Reads the whole file table, which has no paths, and then directories until those of all found files are known.
    async fn period_in_files(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut newest = Newest::new(period);
        let mut rows = RowCursor::new(file::TABLE, RowRange::all(), RowQuery::families(&[CF]), PAGE);
        while let Some(some) = rows.next(&self.tables).await? {
            for (key, row) in &some {
                let attributes = Attributes::from_row(row)?.context("a file row has no attributes")?;
                newest.offer(attributes.modified.ms(), || key.clone());
            }
        }
        let found = newest.done();
        let mut paths: HashMap<_, Option<String>> = found.iter().map(|(_, key)| (key.clone(), None)).collect();
        let (mut unknown, mut walk) = (paths.len(), FileWalk::below(&self.tables, "").await?);
        while unknown > 0
            && let Some(files) = walk.next::<S>(&self.tables).await?
        {
            for (path, FileCell { id, .. }) in files {
                if let Some(unnamed @ None) = paths.get_mut(&id.key()) {
                    *unnamed = Some(path);
                    unknown -= 1;
                }
            }
        }
        let named = found.into_iter().map(|(modified, key)| {
            let path = paths.remove(&key).flatten().context("a file has no name")?;
            Ok((modified, path))
        });
        named.collect()
    }
}
