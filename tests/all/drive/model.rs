//! The effect of each operation on a plain tree.

use std::collections::{BTreeMap, BTreeSet};

/// Everything visible in a drive: its directories, and its files with their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub dirs: BTreeSet<String>,
    /// By path: the size, which identifies the content (see [`super::fixture::bytes`]).
    pub files: BTreeMap<String, usize>,
}

/// An operation, with paths as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A path, and the size of its content, which identifies the version.
    Put(&'static str, usize),
    /// A create, which replaces nothing.
    New(&'static str, usize),
    Mkdir(&'static str),
    Rmdir(&'static str),
    Delete(&'static str),
    /// A directory with all its contents.
    Remove(&'static str),
    Move(&'static str, &'static str, bool),
    Copy(&'static str, &'static str, bool),
}

/// Why an operation was refused, as far as the model distinguishes errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpError {
    NotFound,
    /// A node of another kind, or any node, is in the way.
    Conflict,
    Precondition,
    /// The outcome is unknown, or the drive was busy.
    Unknown,
    /// The disk is full.
    Full,
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// The part of a path after this directory, if the path is the directory or below it.
fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    path.strip_prefix(directory).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl View {
    fn is_dir(&self, path: &str) -> bool {
        path == "/" || self.dirs.contains(path)
    }

    /// Creates missing parents; a file on the path is a conflict.
    fn make_parents(&mut self, path: &str) -> Result<(), OpError> {
        let above = parent(path).to_owned();
        if self.is_dir(&above) {
            return Ok(());
        }
        if self.files.contains_key(&above) {
            return Err(OpError::Conflict);
        }
        self.make_parents(&above)?;
        self.dirs.insert(above);
        Ok(())
    }

    fn below_file(&self, path: &str) -> bool {
        let above = parent(path);
        above != "/" && (self.files.contains_key(above) || self.below_file(above))
    }

    fn target(&self, to: &str, overwrite: bool) -> Result<(), OpError> {
        let taken = self.is_dir(to) || (self.files.contains_key(to) && !overwrite);
        if taken || !self.is_dir(parent(to)) { Err(OpError::Conflict) } else { Ok(()) }
    }

    fn file(&self, path: &str) -> Result<usize, OpError> {
        self.files.get(path).copied().ok_or(OpError::NotFound)
    }

    fn copied(&self, from: &str, to: &str, overwrite: bool) -> Result<Self, OpError> {
        let mut next = self.clone();
        if !self.dirs.contains(from) {
            let size = self.file(from)?;
            self.target(to, overwrite)?;
            next.files.insert(to.into(), size);
            return Ok(next);
        }
        self.target(to, false)?;
        next.dirs.extend(self.dirs.iter().filter_map(|path| Some(format!("{to}{}", below(path, from)?))));
        let copies = self.files.iter().filter_map(|(path, size)| Some((format!("{to}{}", below(path, from)?), *size)));
        next.files.extend(copies);
        Ok(next)
    }

    /// The view after an operation.
    pub fn after(&self, op: Op) -> Result<Self, OpError> {
        let mut next = self.clone();
        match op {
            Op::Put(path, size) | Op::New(path, size) => {
                if self.is_dir(path) || self.below_file(path) {
                    return Err(OpError::Conflict);
                }
                if matches!(op, Op::New(..)) && self.files.contains_key(path) {
                    return Err(OpError::Precondition);
                }
                next.make_parents(path)?;
                next.files.insert(path.into(), size);
            }
            Op::Mkdir(path) => {
                if self.files.contains_key(path) || self.below_file(path) {
                    return Err(OpError::Conflict);
                }
                next.make_parents(path)?;
                next.dirs.insert(path.into());
            }
            Op::Rmdir(path) => {
                if self.below_file(path) {
                    return Err(OpError::Conflict);
                }
                if !self.dirs.contains(path) {
                    return Err(OpError::NotFound);
                }
                let inside = format!("{path}/");
                if self.dirs.iter().chain(self.files.keys()).any(|p| p.starts_with(&inside)) {
                    return Err(OpError::Conflict);
                }
                next.dirs.remove(path);
            }
            Op::Delete(path) => {
                if self.is_dir(path) || self.below_file(path) {
                    return Err(OpError::Conflict);
                }
                self.file(path)?;
                next.files.remove(path);
            }
            Op::Remove(path) => {
                if !self.dirs.contains(path) {
                    return Err(OpError::NotFound);
                }
                next.dirs.retain(|p| below(p, path).is_none());
                next.files.retain(|p, _| below(p, path).is_none());
            }
            Op::Move(from, to, _) if self.dirs.contains(from) => {
                self.target(to, false)?;
                let moved = |p: &String| below(p, from).map_or_else(|| p.clone(), |rest| format!("{to}{rest}"));
                next.dirs = self.dirs.iter().map(moved).collect();
                next.files = self.files.iter().map(|(p, size)| (moved(p), *size)).collect();
            }
            Op::Move(from, to, overwrite) => {
                let size = self.file(from)?;
                self.target(to, overwrite)?;
                next.files.remove(from);
                next.files.insert(to.into(), size);
            }
            Op::Copy(from, to, overwrite) => return self.copied(from, to, overwrite),
        }
        Ok(next)
    }
}
