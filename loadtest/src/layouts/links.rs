//! From the id of a directory to its path: a row for each directory, with its parent's id and its name.

use std::collections::HashMap;

use anyhow::{Context, Result};
use bytes::Bytes;
use rowdrive::schema::{CF, DirId};
use rowdrive::table::{Change, ConditionalRow, KeyLifecycle, RowChange, Tables};

use super::dir_table::Slot;
use super::rows::{Table, equals};

/// The cell: the parent's id, and the name.
const LINK: &[u8] = b"p";
/// Bytes of an id.
const ID: usize = 16;

pub struct Links(Table);

/// Links that a query has read.
pub type Known = HashMap<Bytes, Bytes>;

/// Where a directory or a file is: its directory's id, and its name.
pub fn position(slot: &Slot) -> Bytes {
    [&slot.parent_id, slot.name.as_bytes()].concat().into()
}

impl Links {
    pub async fn create(tables: &Tables) -> Result<Self> {
        Ok(Self(Table::create(tables, ("parent", KeyLifecycle::UniqueId), &[], &[LINK]).await?))
    }

    /// The row of a new directory.
    pub fn put(&self, id: &Bytes, slot: &Slot) -> RowChange {
        RowChange { table: self.0.name, row: id.clone(), changes: vec![Change::put(CF, LINK, position(slot))] }
    }

    /// The row of a directory that moves.
    pub fn changed(&self, id: &Bytes, source: &Slot, target: &Slot) -> ConditionalRow {
        let (check, put) = (equals(LINK, position(source)), Change::put(CF, LINK, position(target)));
        self.0.row(id.clone(), vec![check], vec![put])
    }

    /// The path of a position, by the links from its directory up to the root.
    pub async fn path(&self, position: &[u8], known: &mut Known) -> Result<String> {
        let (id, name) = position.split_at_checked(ID).context("a position is cut off")?;
        let (mut names, mut id) = (vec![Bytes::copy_from_slice(name)], Bytes::copy_from_slice(id));
        while id != DirId::ROOT.key() {
            let link = match known.get(&id) {
                Some(link) => link.clone(),
                None => {
                    let row = self.0.get(&id).await?;
                    let link = row.get(CF, LINK).context("a directory has no link")?.clone();
                    known.insert(id, link.clone());
                    link
                }
            };
            id = link.slice(..ID.min(link.len()));
            names.push(link.slice(id.len()..));
        }
        let names: Result<Vec<&str>, _> = names.iter().rev().map(|name| std::str::from_utf8(name)).collect();
        Ok(names?.into_iter().flat_map(|name| ["/", name]).collect())
    }
}
