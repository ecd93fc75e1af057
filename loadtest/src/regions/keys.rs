//! Which rows a request touches, by layout: the key of its row alone decides which region serves a request.
//!
//! A row that has only a condition is read: who makes a child has one on its directory, as in `layouts`. `rowkey-id`
//! has none, and the root has a row only where directories have a table.

use std::cell::LazyCell;
use std::ops::Range;

use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::path::fold;
use rowdrive::schema::{FileId, Timestamp, dir, file, index::by_name, index::by_owner, index::by_time};
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// What the row keys of a table are made of. A number has 8 bytes, big-endian, and is counted up; an id has 16 random
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Number,
    Name,
    Path,
    /// The number of the directory, and the name.
    NumberAndName,
    Id,
    /// The id of the directory, and the name.
    IdAndName,
    /// The path of a directory, whose row has a cell for each directory in it; with true, for each file too.
    Directory(bool),
    /// As [`by_time::key`]: a byte, 8 bytes of inverted milliseconds, the id.
    Time,
    /// As [`by_owner::key`]: the creator reversed, a zero byte, a time's key.
    Owner,
    /// As [`by_name::key`]: the folded name, a zero byte, a byte, the id.
    FoldedName,
}

/// A layout: its tables by name.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyLayout {
    pub name: &'static str,
    pub tables: &'static [(&'static str, Key)],
}

const DIR: (&str, Key) = (dir::TABLE, Key::Directory(true));
const FILE: (&str, Key) = (file::TABLE, Key::Id);
const TIME: (&str, Key) = (by_time::TABLE, Key::Time);
const OWNER: (&str, Key) = (by_owner::TABLE, Key::Owner);
const NAME: (&str, Key) = (by_name::TABLE, Key::FoldedName);

pub const LAYOUTS: [KeyLayout; 8] = [
    KeyLayout { name: "rowkey-id", tables: &[("rows", Key::Number)] },
    KeyLayout { name: "name", tables: &[("rows", Key::Name)] },
    KeyLayout { name: "fullpath", tables: &[("rows", Key::Path)] },
    KeyLayout { name: "fullpath-indexed", tables: &[("rows", Key::Path), TIME, OWNER, NAME] },
    KeyLayout { name: "dirid-name", tables: &[(dir::TABLE, Key::Directory(false)), (file::TABLE, Key::NumberAndName)] },
    KeyLayout { name: "uuid", tables: &[DIR, FILE] },
    KeyLayout { name: "uuid-indexed", tables: &[DIR, FILE, TIME, OWNER, NAME] },
    KeyLayout { name: "tree", tables: &[("rows", Key::IdAndName)] },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Mkdir,
    /// Of a file. The client has made the directory, so it knows its id.
    Create,
    /// Of a file's attributes by its path; of `rowkey-id` by its number, since only a scan of the table finds the path.
    Read,
}

/// A client's request for a child of a directory, the same for all layouts.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRequest<'a> {
    pub action: Action,
    /// From the root down.
    pub dirs: &'a [Dir<'a>],
    /// Counted up over directories and files in the order of their creation.
    pub number: u64,
    /// Of the child.
    pub path: &'a str,
    pub creator: &'a str,
    /// Milliseconds since 1970.
    pub modified: i64,
    pub added: i64,
}

/// The root has number 0 and an empty path.
#[derive(Clone, Copy, Debug)]
pub struct Dir<'a> {
    pub number: u64,
    pub path: &'a str,
}

/// Whether a request reads a row or writes it. Only a written row is data by which a table is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Write,
    Read,
}

impl KeyLayout {
    /// Each row that a request touches: access, position of the table, key.
    pub fn rows(&self, request: &SimulatedRequest<'_>, seed: u64) -> Vec<(Access, usize, Vec<u8>)> {
        let access = if request.action == Action::Read { Access::Read } else { Access::Write };
        let parent = request.dirs.last().map_or("", |dir| dir.path);
        let parent = if parent.is_empty() { "/" } else { parent };
        // One id for all keys of a file, and none for those without.
        let own = LazyCell::new(|| FileId(id(request.number, seed)));
        let (own, mut rows) = (|| *own, Vec::new());
        for (table, (_, key)) in self.tables.iter().enumerate() {
            let mut row = |access: Access, key: Vec<u8>| rows.push((access, table, key));
            match (key, request.action) {
                // A new file writes no cell of its directory there, and a new directory has no file's name.
                (Key::Directory(false), Action::Create) => row(Access::Read, parent.into()),
                (Key::NumberAndName, Action::Mkdir) => row(Access::Read, key.of(request, seed, own).concat()),
                (Key::Directory(_), action) => {
                    row(access, parent.into());
                    if action == Action::Mkdir {
                        row(access, request.path.into());
                    }
                }
                (Key::Id | Key::Time | Key::Owner | Key::FoldedName, Action::Mkdir) => {}
                (Key::Time | Key::Owner | Key::FoldedName, Action::Read) => {}
                // A walk, of which what makes a child needs the last two steps: each directory is a row of its parent.
                (Key::Name | Key::Path | Key::IdAndName, action) => {
                    let steps = match (key, action) {
                        (_, Action::Mkdir | Action::Create) => 2,
                        (Key::IdAndName, Action::Read) => request.dirs.len(),
                        (_, Action::Read) => 1,
                    };
                    let paths = request.dirs.iter().skip(1).map(|dir| dir.path).chain([request.path]);
                    let walk = request.dirs.chunks(1).zip(paths).skip(request.dirs.len().saturating_sub(steps));
                    for (dirs, path) in walk {
                        let access = if path == request.path { access } else { Access::Read };
                        row(access, key.of(&SimulatedRequest { dirs, path, ..*request }, seed, own).concat());
                    }
                }
                _ => key.of(request, seed, own).into_iter().for_each(|key| row(access, key)),
            }
        }
        rows
    }
}

impl Key {
    /// The keys of a child's own rows: two where there are two times.
    fn of(self, request: &SimulatedRequest<'_>, seed: u64, own: impl Fn() -> FileId) -> Vec<Vec<u8>> {
        let name = request.path.rsplit('/').next().unwrap_or_default();
        let parent = request.dirs.last().map_or(0, |dir| dir.number);
        let times = [(Clock::Modified, request.modified), (Clock::Added, request.added)];
        let times = times.map(|(clock, ms)| (clock, Timestamp::from_ms(ms)));
        match self {
            Self::Number => vec![request.number.to_be_bytes().to_vec()],
            Self::Name => vec![name.into()],
            Self::Path | Self::Directory(_) => vec![request.path.into()],
            Self::NumberAndName => vec![[&parent.to_be_bytes()[..], name.as_bytes()].concat()],
            Self::Id => vec![own().key().into()],
            Self::IdAndName => vec![[id(parent, seed).as_bytes(), name.as_bytes()].concat()],
            Self::Time => times.map(|(clock, at)| by_time::key(clock, at, own()).into()).into(),
            Self::Owner => times.map(|(clock, at)| by_owner::key(request.creator, clock, at, own()).into()).into(),
            Self::FoldedName => vec![by_name::key(&fold(name), own()).into()],
        }
    }

    /// The leading component, which names a group of rows: a folder, a creator, a time.
    pub fn lead(self, key: &[u8]) -> Range<usize> {
        match self {
            Self::Number | Self::NumberAndName => 0..8,
            Self::Time => 1..9,
            _ => 0..key.iter().position(|byte| *byte == 0).unwrap_or(key.len()),
        }
    }
}

/// The random id that belongs to a number: reads find what imports made.
fn id(number: u64, seed: u64) -> Uuid {
    Builder::from_random_bytes(hash(&[seed, number].map(u64::to_be_bytes).concat())).into_uuid()
}

/// The first half of SHA-256.
pub fn hash(key: &[u8]) -> [u8; 16] {
    Sha256::digest(key).first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a request for a child of `/a`: with `<1>` for the id of 1, `0` and `T` for the first bytes of
    /// numbers and of times.
    fn rows(layout: &KeyLayout, action: Action) -> String {
        let dirs = &[Dir { number: 0, path: "" }, Dir { number: 1, path: "/a" }];
        let request = SimulatedRequest { action, dirs, number: 2, path: "/a/B", creator: "eva", modified: 5, added: 6 };
        let text = |(access, table, key): (Access, usize, Vec<u8>)| {
            let mut text = key.escape_ascii().to_string().replace(&r"\x00".repeat(7), "0");
            for number in 0..=2 {
                text = text.replace(&id(number, 1).as_bytes().escape_ascii().to_string(), &format!("<{number}>"));
            }
            let text = text.replace(&format!(r"\x7f{}", r"\xff".repeat(6)), "T");
            format!("{access:?} {} {text}", layout.tables[table].0)
        };
        layout.rows(&request, 1).into_iter().map(text).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_layout_touches_its_own_rows() {
        let index = [
            r"Write time \x00T\xfa<2>, Write time \x01T\xf9<2>, Write owner ave\x00\x00T\xfa<2>",
            r"Write owner ave\x00\x01T\xf9<2>, Write name b\x00f<2>",
        ]
        .join(", ");
        let expected = [
            r"rowkey-id: Write rows 0\x02; Write rows 0\x02; Read rows 0\x02",
            r"name: Read rows a, Write rows B; Read rows a, Write rows B; Read rows B",
            r"fullpath: Read rows /a, Write rows /a/B; Read rows /a, Write rows /a/B; Read rows /a/B",
            r"fullpath-indexed: Read rows /a, Write rows /a/B; Read rows /a, Write rows /a/B, INDEX; Read rows /a/B",
            r"dirid-name: Write dir /a, Write dir /a/B, Read FILE; Read dir /a, Write FILE; Read dir /a, Read FILE",
            r"uuid: Write dir /a, Write dir /a/B; Write dir /a, Write file <2>; Read dir /a, Read file <2>",
            r"uuid-indexed: Write dir /a, Write dir /a/B; Write dir /a, Write file <2>, INDEX; Read dir /a, Read file <2>",
            r"tree: Read rows <0>a, Write rows <1>B; Read rows <0>a, Write rows <1>B; Read rows <0>a, Read rows <1>B",
        ];
        for (layout, expected) in LAYOUTS.iter().zip(expected) {
            let found = [Action::Mkdir, Action::Create, Action::Read].map(|action| rows(layout, action));
            let expected = expected.replace("INDEX", &index).replace("FILE", r"file 0\x01B");
            assert_eq!(format!("{}: {}", layout.name, found.join("; ")), expected);
        }
    }
}
