//! Which rows a request touches, by layout: the key of its row alone decides which region serves a request.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::path::fold;
use rowdrive::schema::{FileId, Timestamp, dir, file, index::by_name, index::by_owner, index::by_time};
use uuid::{Builder, Uuid};

/// What the row keys of a table are made of. A number has 8 bytes, big-endian, and is counted up; an id has 16 random bytes.
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
pub struct Layout {
    pub name: &'static str,
    pub tables: &'static [(&'static str, Key)],
}

const DIR: (&str, Key) = (dir::TABLE, Key::Directory(true));
const FILE: (&str, Key) = (file::TABLE, Key::Id);
const TIME: (&str, Key) = (by_time::TABLE, Key::Time);
const OWNER: (&str, Key) = (by_owner::TABLE, Key::Owner);
const NAME: (&str, Key) = (by_name::TABLE, Key::FoldedName);

pub const LAYOUTS: [Layout; 8] = [
    Layout { name: "rowkey-id", tables: &[("rows", Key::Number)] },
    Layout { name: "name", tables: &[("rows", Key::Name)] },
    Layout { name: "fullpath", tables: &[("rows", Key::Path)] },
    Layout { name: "fullpath-indexed", tables: &[("rows", Key::Path), TIME, OWNER, NAME] },
    Layout { name: "dirid-name", tables: &[(dir::TABLE, Key::Directory(false)), (file::TABLE, Key::NumberAndName)] },
    Layout { name: "uuid", tables: &[DIR, FILE] },
    Layout { name: "uuid-indexed", tables: &[DIR, FILE, TIME, OWNER, NAME] },
    Layout { name: "tree", tables: &[("rows", Key::IdAndName)] },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes a directory.
    Mkdir,
    /// Makes a file. The client has made the directory, so it knows its id.
    Create,
    /// Reads the attributes of a file by its path. The client of `rowkey-id` has the number: only a scan of the whole
    /// table finds it by path.
    Read,
}

/// A client's request for a child of a directory, the same for all layouts.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
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

impl Layout {
    /// Each row that a request touches: access, position of the table, key.
    pub fn rows(&self, request: &Request<'_>, seed: u64) -> Vec<(Access, usize, Vec<u8>)> {
        let by_directory = self.tables.iter().any(|(_, key)| matches!(key, Key::Directory(_)));
        let access = if request.action == Action::Read { Access::Read } else { Access::Write };
        let parent = request.dirs.last().map_or("", |dir| dir.path);
        let parent = if parent.is_empty() { "/" } else { parent }.as_bytes();
        let mut rows = Vec::new();
        for (table, (_, key)) in self.tables.iter().enumerate() {
            match (key, request.action) {
                (Key::Directory(false), Action::Create) => rows.push((Access::Read, table, parent.to_vec())),
                (Key::Directory(_), Action::Mkdir) => {
                    rows.extend([parent, request.path.as_bytes()].map(|key| (access, table, key.to_vec())));
                }
                (Key::Directory(_), _) => rows.push((access, table, parent.to_vec())),
                (Key::Time | Key::Owner | Key::FoldedName, Action::Mkdir | Action::Read) => {}
                (_, Action::Mkdir) if by_directory => {}
                // A walk: each directory is a row of its parent.
                (Key::IdAndName, Action::Read) => {
                    let paths = request.dirs.iter().skip(1).map(|dir| dir.path).chain([request.path]);
                    for (dir, path) in request.dirs.chunks(1).zip(paths) {
                        rows.push((access, table, key.of(&Request { dirs: dir, path, ..*request }, seed).concat()));
                    }
                }
                _ => rows.extend(key.of(request, seed).into_iter().map(|key| (access, table, key))),
            }
        }
        rows
    }
}

impl Key {
    /// The keys of a child's own rows: two where there are two times.
    fn of(self, request: &Request<'_>, seed: u64) -> Vec<Vec<u8>> {
        let name = request.path.rsplit('/').next().unwrap_or_default();
        let (parent, own) = (request.dirs.last().map_or(0, |dir| dir.number), FileId(id(request.number, seed)));
        let times = [(Clock::Modified, request.modified), (Clock::Added, request.added)];
        let times = times.map(|(clock, ms)| (clock, Timestamp::from_ms(ms)));
        match self {
            Self::Number => vec![request.number.to_be_bytes().to_vec()],
            Self::Name => vec![name.into()],
            Self::Path | Self::Directory(_) => vec![request.path.into()],
            Self::NumberAndName => vec![[&parent.to_be_bytes()[..], name.as_bytes()].concat()],
            Self::Id => vec![own.key().into()],
            Self::IdAndName => vec![[id(parent, seed).as_bytes(), name.as_bytes()].concat()],
            Self::Time => times.map(|(clock, at)| by_time::key(clock, at, own).into()).into(),
            Self::Owner => times.map(|(clock, at)| by_owner::key(request.creator, clock, at, own).into()).into(),
            Self::FoldedName => vec![by_name::key(&fold(name), own).into()],
        }
    }

    /// The component that names the group of rows which lie together: a folder, a creator, a time.
    pub fn lead(self, key: &[u8]) -> Range<usize> {
        let end = match self {
            Self::Number | Self::NumberAndName => 8,
            Self::Id | Self::IdAndName => 16,
            Self::Path | Self::Directory(_) => key.iter().rposition(|byte| *byte == b'/').unwrap_or(key.len()),
            Self::Name | Self::FoldedName | Self::Owner => key.iter().position(|byte| *byte == 0).unwrap_or(key.len()),
            Self::Time => return 1..9,
        };
        0..end
    }
}

/// The random id that belongs to a number: a generator for each, so that reads find what imports made.
fn id(number: u64, seed: u64) -> Uuid {
    let mut random = StdRng::seed_from_u64(seed.rotate_left(32) ^ number);
    Builder::from_random_bytes(random.random()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row that a request of a child of `/a` touches, with the ids of 1 and 2 as `<1>` and `<2>`.
    fn rows(layout: &Layout, action: Action) -> String {
        let dirs = &[Dir { number: 0, path: "" }, Dir { number: 1, path: "/a" }];
        let request = Request { action, dirs, number: 2, path: "/a/B", creator: "eva", modified: 5, added: 6 };
        let text = |(access, table, key): (Access, usize, Vec<u8>)| {
            let mut text = key.escape_ascii().to_string();
            for number in 0..=2 {
                text = text.replace(&id(number, 1).as_bytes().escape_ascii().to_string(), &format!("<{number}>"));
            }
            format!("{access:?} {} {text}", layout.tables[table].0)
        };
        layout.rows(&request, 1).into_iter().map(text).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_layout_touches_its_own_rows() {
        let all = |name: &str| {
            let layout = LAYOUTS.iter().find(|layout| layout.name == name).unwrap();
            [Action::Mkdir, Action::Create, Action::Read].map(|action| rows(layout, action))
        };
        let one = |key: &str| ["Write", "Write", "Read"].map(|access| format!("{access} rows {key}"));
        assert_eq!(all("rowkey-id"), one(r"\x00\x00\x00\x00\x00\x00\x00\x02"));
        assert_eq!((all("name"), all("fullpath")), (one("B"), one("/a/B")));
        assert_eq!(all("tree"), ["Write rows <1>B", "Write rows <1>B", "Read rows <0>a, Read rows <1>B"]);
        let mkdir = "Write dir /a, Write dir /a/B";
        let file = r"file \x00\x00\x00\x00\x00\x00\x00\x01B";
        let dirid = [mkdir.to_owned(), format!("Read dir /a, Write {file}"), format!("Read dir /a, Read {file}")];
        assert_eq!(all("dirid-name"), dirid);
        let [create, read] = ["Write dir /a, Write file <2>", "Read dir /a, Read file <2>"];
        assert_eq!(all("uuid"), [mkdir, create, read]);
        let index = [
            r"Write time \x00\x7f\xff\xff\xff\xff\xff\xff\xfa<2>, Write time \x01\x7f\xff\xff\xff\xff\xff\xff\xf9<2>",
            r"Write owner ave\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xfa<2>",
            r"Write owner ave\x00\x01\x7f\xff\xff\xff\xff\xff\xff\xf9<2>, Write name b\x00f<2>",
        ]
        .join(", ");
        assert_eq!(all("uuid-indexed"), [mkdir, &format!("{create}, {index}"), read]);
        assert_eq!(
            all("fullpath-indexed"),
            ["Write rows /a/B", &format!("Write rows /a/B, {index}"), "Read rows /a/B"]
        );
    }
}
