//! Where a path's node is: by a survey of all rows, by the rows of all its names, or down the tree.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use bytes::Bytes;
use rowdrive::schema::CF;
use rowdrive::table::{ConditionalRow, RowKey};

use super::{ByParent, Key, PARENT};
use crate::layouts::rows::{Stored, equals};
use crate::layouts::split;

/// Where a path's node is, or would be.
pub(super) struct Place {
    pub parent: Bytes,
    /// Conditions on the parent's row, if it has one that can be named.
    pub guard: Option<ConditionalRow>,
    pub key: RowKey,
    pub stored: Option<Stored>,
    /// The key belongs to a node of another path.
    pub is_taken: bool,
}

impl ByParent {
    /// None if the parent directory does not exist.
    pub(super) async fn place(&self, path: &str) -> Result<Option<Place>> {
        match &self.key {
            Key::RowId { last, .. } => self.place_by_survey(path, last).await,
            Key::Name => self.place_by_names(path).await,
            Key::Tree => self.place_in_tree(path).await,
        }
    }

    async fn place_by_survey(&self, path: &str, last: &AtomicU64) -> Result<Option<Place>> {
        let (parent, name) = split(path);
        let mut same_name = Vec::new();
        let see = |key: &RowKey, stored, parent: Bytes, of: &str| {
            if of == name {
                same_name.push((parent, key.clone(), stored));
            }
            Ok(())
        };
        let directories = self.survey(see).await?;
        let Some(parent) = directories.find(self.root(), parent) else { return Ok(None) };
        let found = same_name.into_iter().find(|(of, ..)| *of == parent).map(|(_, key, stored)| (key, stored));
        let (key, stored) = match found {
            Some((key, stored)) => (key, Some(stored)),
            None => (next(last), None),
        };
        Ok(Some(Place { parent, guard: None, key, stored, is_taken: false }))
    }

    /// The rows of all names of the path at once: each must be the parent of the next.
    async fn place_by_names(&self, path: &str) -> Result<Option<Place>> {
        let keys: Vec<Bytes> = path.split('/').skip(1).map(|name| Bytes::copy_from_slice(name.as_bytes())).collect();
        let mut rows = self.rows.get_many(keys.iter().cloned()).await?;
        let (mut parent, mut guard) = (self.root(), None);
        let (Some(key), Some(own)) = (keys.last().cloned(), rows.pop()) else { return Ok(None) };
        for (key, row) in keys.iter().zip(&rows) {
            let is_child = row.get(CF, PARENT) == Some(&parent);
            let Some(stored @ Stored::Directory(_)) = Stored::from_row(row).filter(|_| is_child) else {
                return Ok(None);
            };
            guard = Some(self.rows.row(key.clone(), vec![stored.check(), equals(PARENT, parent)], vec![]));
            parent = key.clone();
        }
        let stored = Stored::from_row(&own);
        let is_here = own.get(CF, PARENT) == Some(&parent);
        // A row that is about to be made must not be its own parent.
        let is_taken = stored.is_some() && !is_here || keys.iter().rev().skip(1).any(|other| *other == key);
        Ok(Some(Place { parent, guard, key, stored: stored.filter(|_| is_here), is_taken }))
    }

    async fn place_in_tree(&self, path: &str) -> Result<Option<Place>> {
        let (mut parent, mut guard) = (self.root(), None);
        let (directory, name) = split(path);
        let key = |parent: &Bytes, name: &str| Bytes::from([parent, name.as_bytes()].concat());
        for name in directory.split('/').skip(1) {
            let at = key(&parent, name);
            let Some(stored @ Stored::Directory(_)) = Stored::from_row(&self.rows.get(&at).await?) else {
                return Ok(None);
            };
            guard = Some(self.rows.row(at.clone(), vec![stored.check()], vec![]));
            parent = self.id(&at, &stored).unwrap_or_default();
        }
        let key = key(&parent, name);
        let stored = Stored::from_row(&self.rows.get(&key).await?);
        Ok(Some(Place { parent, guard, key, stored, is_taken: false }))
    }
}

/// The next row id.
pub(super) fn next(last: &AtomicU64) -> Bytes {
    Bytes::copy_from_slice(&(last.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes())
}
