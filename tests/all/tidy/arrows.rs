//! Which file uses which, with re-exports followed to the definition, and the resulting arrows between rooms.
//!
//! A *room* is a module: a file, or a folder with its `mod.rs`, the room's door. An arrow points from a room to a room
//! with names that the first one uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::source::Source;

/// The sources, by module.
pub struct House<'a> {
    by_module: BTreeMap<&'a [String], &'a Source>,
}

/// An arrow between files.
pub type Arrow<'a> = (&'a Source, &'a Source);

impl<'a> House<'a> {
    pub fn new(sources: &'a [Source]) -> Self {
        Self { by_module: sources.iter().map(|source| (source.module.as_slice(), source)).collect() }
    }

    /// The file that defines the item of a path: the deepest module on the path, or the origin of a re-export there.
    fn definition(&self, path: &[String], depth: usize) -> Option<&'a Source> {
        let length = (0..=path.len()).rev().find(|n| self.by_module.contains_key(&path[..*n]))?;
        let source = self.by_module[&path[..length]];
        let Some(name) = path.get(length) else { return Some(source) };
        let export = source.exports.iter().find(|(exported, to)| exported == name && to.as_slice() != path);
        match export {
            Some((_, to)) if depth < 8 => self.definition(to, depth + 1),
            _ => Some(source),
        }
    }

    /// Every arrow between two files.
    pub fn arrows(&self) -> Vec<Arrow<'a>> {
        let mut found = Vec::new();
        for source in self.by_module.values().filter(|source| !source.module.is_empty()) {
            for path in &source.paths {
                let Some(to) = self.definition(path, 0).filter(|to| !to.module.is_empty()) else { continue };
                if to.path != source.path {
                    found.push((*source, to));
                }
            }
        }
        found
    }

    /// The arrows between the rooms directly inside a room; the door of the room itself is called `mod`.
    pub fn rooms_inside(&self, room: &[String]) -> BTreeMap<String, BTreeSet<String>> {
        let name = |source: &Source| {
            let rest = source.module.strip_prefix(room)?;
            Some(rest.first().cloned().unwrap_or_else(|| "mod".into()))
        };
        let mut rooms = BTreeMap::new();
        for source in self.by_module.values().filter(|source| !source.module.is_empty()) {
            if let Some(name) = name(source) {
                rooms.entry(name).or_insert_with(BTreeSet::new);
            }
        }
        for (from, to) in self.arrows() {
            if let (Some(from), Some(to)) = (name(from), name(to))
                && from != to
            {
                rooms.get_mut(&from).unwrap().insert(to);
            }
        }
        rooms
    }

    /// Files that can be reached from themselves. A door may use the files of its own room: those arrows do not count.
    pub fn circles(&self) -> Vec<Vec<PathBuf>> {
        let mut to: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = BTreeMap::new();
        for (from, target) in self.arrows() {
            let is_door = from.path.ends_with("mod.rs") && target.module.starts_with(&from.module);
            if !is_door {
                to.entry(&from.path).or_default().insert(&target.path);
            }
        }
        let reachable = |start| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(at) = open.pop() {
                for next in to.get(at).into_iter().flatten() {
                    if seen.insert(*next) {
                        open.push(*next);
                    }
                }
            }
            seen
        };
        let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = to.keys().map(|from| (*from, reachable(*from))).collect();
        let mut circles = BTreeSet::new();
        for (from, all) in &reached {
            let circle = all.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(from)));
            let circle: Vec<PathBuf> = circle.map(|path| (*path).clone()).collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}
