//! Queries by name and by time with the indexes: they find a directory's id, and its path by the links up to the root.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use anyhow::{Context, Result};
use rowdrive::schema::dir_parent::{self, DirParent};
use rowdrive::schema::index::by_name::{self, NameIndexEntry};
use rowdrive::schema::index::by_time::{self, Clock, TimeIndexEntry};
use rowdrive::schema::{CF, DirId, Name, Timestamp};
use rowdrive::table::{RowCursor, RowQuery};

use super::step::Step;
use super::{PAGE, Uuid};
use crate::layouts::{Period, is_within};

impl<S: Step> Uuid<S> {
    /// The path of a directory, by the links from it up to the root.
    async fn path(&self, id: DirId, known: &mut HashMap<DirId, DirParent>) -> Result<String> {
        let (mut names, mut at) = (Vec::new(), id);
        while at != DirId::ROOT {
            let link = match known.entry(at) {
                Slot::Occupied(known) => known.into_mut(),
                Slot::Vacant(new) => {
                    let link = self.tables.cell(dir_parent::TABLE, &at.key(), CF, dir_parent::PARENT).await?;
                    new.insert(DirParent::decode(&link.context("a directory has no link")?)?)
                }
            };
            names.push(link.name.clone());
            at = link.parent;
        }
        Ok(names.iter().rev().flat_map(|name| ["/", name.as_str()]).collect())
    }

    pub(super) async fn find_in_index(&self, wanted: &str) -> Result<Vec<String>> {
        let (mut found, mut known) = (Vec::new(), HashMap::new());
        let range = by_name::exact(&Name::parse(wanted)?.folded());
        let mut rows = RowCursor::new(by_name::TABLE, range, RowQuery::families(&[CF]), PAGE);
        while let Some(some) = rows.next(&self.tables).await? {
            for hint in some.iter().flat_map(|(_, row)| row.family(CF)) {
                let hint = NameIndexEntry::decode(&hint.value)?;
                if hint.name.as_str() == wanted {
                    found.push(format!("{}/{wanted}", self.path(hint.dir, &mut known).await?));
                }
            }
        }
        Ok(found)
    }

    pub(super) async fn period_in_index(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let (mut found, mut known) = (Vec::new(), HashMap::new());
        let [from, to] = [period.from, period.to].map(Timestamp::from_ms);
        let range = by_time::range(Clock::Modified, Some(from), Some(to));
        let mut rows = RowCursor::new(by_time::TABLE, range, RowQuery::families(&[CF]), period.limit);
        while let Some(some) = rows.next(&self.tables).await? {
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
