//! Renames: of one row, and of what must follow a directory.

use anyhow::Result;
use bytes::Bytes;
use rowdrive::schema::CF;
use rowdrive::table::{Plan, Row, RowCursor, RowKey, RowQuery, RowRange};

use super::place::Place;
use super::{Key, Nodes, PARENT};
use crate::layouts::dir_table::Slot;
use crate::layouts::rows::{Groups, LIST, SCAN, guarded};
use crate::layouts::stored::{CONTENT, DATA, Stored};
use crate::layouts::{Verdict, split};

impl Nodes {
    pub(super) async fn rename_row(&self, from: &str, to: &str, (key, stored): (RowKey, Stored)) -> Result<Verdict> {
        let mut room = match self.room(to, Some(&key)).await? {
            Ok(room) => room,
            Err(verdict) => return Ok(verdict),
        };
        if room.key == key {
            room.guards.push(self.rows.row(key, vec![stored.check()], room.cells));
            return self.rows.commit(guarded(room.guards)).await;
        }
        let content = if stored.is_file() { self.rows.content(&key).await? } else { Bytes::new() };
        self.rows.commit(self.moved((from, to), (key, stored), room, &content)?).await
    }

    /// A node goes to the row of another path, with the content that it has.
    fn moved(
        &self,
        (from, to): (&str, &str),
        (key, stored): (RowKey, Stored),
        room: Place,
        content: &Bytes,
    ) -> Result<Plan> {
        let (mut plan, mut new) = (Plan::default(), stored.clone());
        if stored.is_file() {
            self.index(&mut plan, Some((from, &stored)), Some((to, &mut new)))?;
        }
        plan.guarded = self.added(room, &new, content);
        plan.guarded.push(self.rows.removed(key, &stored, !content.is_empty()));
        Ok(plan)
    }

    pub(super) async fn rename_directory(&self, from: &str, to: &str, node: (RowKey, Stored)) -> Result<Verdict> {
        if let Key::DirId(directories) = &self.key {
            let Some((target, place)) = self.slot(directories, to).await? else { return Ok(Verdict::Missing) };
            if place.stored.is_some() {
                return Ok(Verdict::Exists);
            }
            let (parent, name) = split(from);
            let parent_id = node.0.slice(..node.0.len() - name.len());
            let (parent, name) = (parent.to_owned(), name.to_owned());
            let source = Slot { parent, parent_id, name, directory: Some(node.1.value), file: None };
            let no_file = self.rows.row(place.key, self.rows.no_node(), vec![]);
            return directories.rename(&source, &target, vec![no_file]).await;
        }
        let verdict = self.rename_row(from, to, node).await?;
        let (old, new) = (split(from).1, split(to).1);
        match self.key {
            Key::FullPath(_) if verdict == Verdict::Done => self.carry(from, to).await?,
            Key::Name if verdict == Verdict::Done && old != new => self.adopt(old, new).await?,
            _ => {}
        }
        Ok(verdict)
    }

    /// Moves the rows below a directory, whose keys are paths.
    async fn carry(&self, from: &str, to: &str) -> Result<()> {
        let mut groups = Groups::new(&self.rows);
        let (below, query) = (RowRange::prefix(format!("{from}/").as_bytes()), RowQuery::families(&[CF, CONTENT]));
        let mut rows = RowCursor::new(self.rows.name, below, query, LIST);
        while let Some(some) = rows.next(&self.rows.tables).await? {
            for (key, row) in some {
                let Some(stored) = Stored::from_row(&row) else { continue };
                let old = std::str::from_utf8(&key)?;
                let new = format!("{to}{}", old.get(from.len()..).unwrap_or_default());
                let content = row.get(CONTENT, DATA).cloned().unwrap_or_default();
                let room = Place { key: new.clone().into(), ..Place::default() };
                groups.add(self.moved((old, &new), (key.clone(), stored), room, &content)?).await?;
            }
        }
        groups.done().await
    }

    /// The children of a folder whose id has become another, since it is its name.
    async fn adopt(&self, old: &str, new: &str) -> Result<()> {
        let (new, mut groups) = (Bytes::copy_from_slice(new.as_bytes()), Groups::new(&self.rows));
        let mut rows = RowCursor::new(self.rows.name, RowRange::all(), RowQuery::families(&[CF]), SCAN);
        let is_child = |(_, row): &(RowKey, Row)| row.get(CF, PARENT).is_some_and(|parent| parent == old);
        while let Some(some) = rows.next(&self.rows.tables).await? {
            for (key, _) in some.into_iter().filter(is_child) {
                let row = self.rows.row(key, Vec::new(), self.cells(&new, ""));
                groups.add(guarded(vec![row])).await?;
            }
        }
        groups.done().await
    }
}
