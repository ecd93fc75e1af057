//! The changes of the plans accepted so far into a group.
//!
//! The checks of a later plan of the group must see these changes, and the database does not have them yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use super::keys;

/// The newest change of each cell, by (table, family) and key.
#[derive(Default)]
pub(super) struct Overlay {
    families: HashMap<(&'static str, &'static str), FamilyOverlay>,
}

#[derive(Default)]
struct FamilyOverlay {
    /// The value, or none if the cell was deleted.
    cells: BTreeMap<Vec<u8>, Option<Bytes>>,
    /// `row_start` of the rows whose cells were all deleted; entries of `cells` are newer.
    emptied: BTreeSet<Vec<u8>>,
}

/// The state of a cell after the changes of the group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OverlayCell<'a> {
    /// The group did not change it: the value is that of the database.
    Unchanged,
    Absent,
    Value(&'a Bytes),
}

impl Overlay {
    pub fn put(&mut self, table: &'static str, family: &'static str, key: Vec<u8>, value: Bytes) {
        self.family(table, family).cells.insert(key, Some(value));
    }

    pub fn delete(&mut self, table: &'static str, family: &'static str, key: Vec<u8>) {
        self.family(table, family).cells.insert(key, None);
    }

    /// Empties the row's family, and returns the keys that the group had put there.
    pub fn empty(&mut self, table: &'static str, family: &'static str, row: &[u8]) -> Vec<Vec<u8>> {
        let (from, to) = (keys::row_start(row), keys::row_end(row));
        let changed = self.family(table, family);
        let touched: Vec<Vec<u8>> = changed.cells.range(from.clone()..to).map(|(key, _)| key.clone()).collect();
        let put = touched.into_iter().filter(|key| changed.cells.remove(key).flatten().is_some()).collect();
        changed.emptied.insert(from);
        put
    }

    pub fn cell(&self, table: &'static str, family: &'static str, key: &[u8]) -> OverlayCell<'_> {
        let Some(changed) = self.families.get(&(table, family)) else {
            return OverlayCell::Unchanged;
        };
        match changed.cells.get(key) {
            Some(Some(value)) => OverlayCell::Value(value),
            Some(None) => OverlayCell::Absent,
            None if changed.has_emptied(keys::split(key).map(|(start, _)| start)) => OverlayCell::Absent,
            None => OverlayCell::Unchanged,
        }
    }

    /// Whether the group emptied the row's family: then the cells in the database no longer count.
    pub fn emptied(&self, table: &'static str, family: &'static str, row: &[u8]) -> bool {
        let changed = self.families.get(&(table, family));
        changed.is_some_and(|changed| changed.has_emptied(Some(&keys::row_start(row))))
    }

    /// Whether the group changed anything of the row's family.
    pub fn touches(&self, table: &'static str, family: &'static str, row: &[u8]) -> bool {
        let Some(changed) = self.families.get(&(table, family)) else {
            return false;
        };
        let (from, to) = (keys::row_start(row), keys::row_end(row));
        changed.has_emptied(Some(&from)) || changed.cells.range(from..to).next().is_some()
    }

    fn family(&mut self, table: &'static str, family: &'static str) -> &mut FamilyOverlay {
        self.families.entry((table, family)).or_default()
    }
}

impl FamilyOverlay {
    fn has_emptied(&self, row_start: Option<&[u8]>) -> bool {
        !self.emptied.is_empty() && row_start.is_some_and(|start| self.emptied.contains(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value() -> Bytes {
        Bytes::from_static(b"v")
    }

    #[test]
    fn the_newest_change_of_a_cell_counts() {
        let mut overlay = Overlay::default();
        let key = keys::key(b"row", b"q");
        assert_eq!(overlay.cell("t", "f", &key), OverlayCell::Unchanged);
        overlay.put("t", "f", key.clone(), value());
        assert_eq!(overlay.cell("t", "f", &key), OverlayCell::Value(&value()));
        assert_eq!(overlay.cell("t", "g", &key), OverlayCell::Unchanged);
        assert_eq!(overlay.cell("s", "f", &key), OverlayCell::Unchanged);
        overlay.delete("t", "f", key.clone());
        assert_eq!(overlay.cell("t", "f", &key), OverlayCell::Absent);
    }

    #[test]
    fn an_emptied_family_hides_only_older_cells() {
        let mut overlay = Overlay::default();
        let (old, other) = (keys::key(b"row", b"old"), keys::key(b"row\x00", b"q"));
        overlay.put("t", "f", old.clone(), value());
        overlay.put("t", "f", other.clone(), value());
        overlay.delete("t", "f", keys::key(b"row", b"gone"));
        assert!(!overlay.emptied("t", "f", b"row"));
        assert_eq!(overlay.empty("t", "f", b"row"), std::slice::from_ref(&old));
        assert!(overlay.emptied("t", "f", b"row"));
        assert!(!overlay.emptied("t", "f", b"row\x00"));
        assert_eq!(overlay.cell("t", "f", &old), OverlayCell::Absent);
        assert_eq!(overlay.cell("t", "f", &keys::key(b"row", b"stored")), OverlayCell::Absent);
        assert_eq!(overlay.cell("t", "f", &other), OverlayCell::Value(&value()));
        overlay.put("t", "f", old.clone(), value());
        assert_eq!(overlay.cell("t", "f", &old), OverlayCell::Value(&value()));
    }

    #[test]
    fn a_change_of_a_family_touches_only_its_row() {
        let mut overlay = Overlay::default();
        overlay.delete("t", "f", keys::key(b"b", b"q"));
        overlay.empty("t", "f", b"d");
        for (row, touched) in [(b"a", false), (b"b", true), (b"c", false), (b"d", true), (b"e", false)] {
            assert_eq!(overlay.touches("t", "f", row), touched, "{row:?}");
        }
        assert!(!overlay.touches("t", "g", b"b"));
        assert!(!overlay.touches("t", "f", b"b\x00"));
    }
}
