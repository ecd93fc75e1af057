//! Which rows a request touches, by layout: the key of its row is all that puts a request into a region.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::path::fold;
use rowdrive::schema::{FileId, Timestamp, dir, file, index::by_name, index::by_owner, index::by_time};
use uuid::Builder;

/// A layout whose rows lie in regions. The relational one has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyed {
    /// One table keyed by a row id that is counted up.
    RowkeyId,
    /// One table keyed by the name alone.
    Name,
    /// One table keyed by the full path.
    FullPath,
    /// Directories by full path, files by their directory's id, which is counted up, and name.
    DiridName,
    /// The drive's own: directories by full path, files by random id, indexes by time, owner and name.
    Uuid,
    /// One table keyed by the parent's random id and the name.
    Tree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Rows,
    Dir,
    File,
    Time,
    Owner,
    Name,
}

/// What a table's row keys are made of, from their first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of 8 bytes, big-endian, counted up.
    Number,
    /// Such a number and a name.
    NumberAndName,
    /// 16 random bytes.
    Random,
    /// 16 random bytes and a name.
    RandomAndName,
    Path,
    Name,
    /// As [`by_time::key`] makes it: a byte, 8 bytes of inverted milliseconds, 16 random bytes.
    Time,
    /// As [`by_owner::key`] makes it: a name reversed, a zero byte, and a time's key.
    Owner,
}

/// What a request does to a row. Only what is written is data that a table is split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Write,
    Read,
}

/// A directory of the simulated drive.
#[derive(Clone, Debug)]
pub struct Dir {
    /// Counted up over directories and files, in the order in which they are made; the root's is 0.
    pub number: u64,
    pub path: String,
}

/// A file of the simulated drive.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// As a directory's.
    pub number: u64,
    pub name: &'a str,
    pub creator: &'a str,
    /// Milliseconds since 1970.
    pub modified: i64,
    /// Milliseconds since 1970.
    pub added: i64,
}

/// What a client asks for, whatever the layout.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    Mkdir {
        parent: &'a Dir,
        dir: &'a Dir,
    },
    Create {
        dir: &'a Dir,
        file: File<'a>,
    },
    /// Attributes of a file by its path: its directories from the root down, then its name.
    Read {
        dirs: &'a [&'a Dir],
        file: u64,
        name: &'a str,
    },
}

/// Takes each row that a request touches.
pub type Touched<'a> = dyn FnMut(Access, Table, &[u8]) + 'a;

impl Keyed {
    pub const ALL: [Self; 6] = [Self::RowkeyId, Self::Name, Self::FullPath, Self::DiridName, Self::Uuid, Self::Tree];

    pub fn name(self) -> &'static str {
        match self {
            Self::RowkeyId => "rowkey-id",
            Self::Name => "name",
            Self::FullPath => "fullpath",
            Self::DiridName => "dirid-name",
            Self::Uuid => "uuid",
            Self::Tree => "tree",
        }
    }

    /// The drive's table of where each directory hangs is left out: one row a directory, random as a file's.
    pub fn tables(self) -> &'static [Table] {
        match self {
            Self::RowkeyId | Self::Name | Self::FullPath | Self::Tree => &[Table::Rows],
            Self::DiridName => &[Table::Dir, Table::File],
            Self::Uuid => &[Table::Dir, Table::File, Table::Time, Table::Owner, Table::Name],
        }
    }

    /// The tables that a read of a file by its path touches.
    pub fn tables_read(self) -> &'static [Table] {
        match self {
            Self::Uuid => &[Table::Dir],
            _ => self.tables(),
        }
    }

    pub fn shape(self, table: Table) -> Shape {
        match (self, table) {
            (Self::RowkeyId, _) => Shape::Number,
            (Self::Name, _) | (_, Table::Name) => Shape::Name,
            (Self::FullPath, _) | (_, Table::Dir) => Shape::Path,
            (Self::Tree, _) => Shape::RandomAndName,
            (Self::DiridName, _) => Shape::NumberAndName,
            (Self::Uuid, Table::Time) => Shape::Time,
            (Self::Uuid, Table::Owner) => Shape::Owner,
            (Self::Uuid, _) => Shape::Random,
        }
    }
}

impl Table {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Dir => dir::TABLE,
            Self::File => file::TABLE,
            Self::Time => by_time::TABLE,
            Self::Owner => by_owner::TABLE,
            Self::Name => by_name::TABLE,
        }
    }
}

/// The row keys of one layout on one run.
pub struct Keys {
    layout: Keyed,
    seed: u64,
}

impl Keys {
    pub fn new(layout: Keyed, seed: u64) -> Self {
        Self { layout, seed }
    }

    /// Each row that is written, and what must be read before.
    ///
    /// An import makes its directories on the way, so the layouts by parent know the parent's id. Only
    /// `dirid-name` is counted with the read of its directory's row by path, the row that the drive writes.
    pub fn touch(&self, request: &Request<'_>, touched: &mut Touched<'_>) {
        match *request {
            Request::Mkdir { parent, dir } => self.mkdir(parent, dir, touched),
            Request::Create { dir, file } => self.create(dir, file, touched),
            Request::Read { dirs, file, name } => self.read(dirs, file, name, touched),
        }
    }

    fn mkdir(&self, parent: &Dir, dir: &Dir, touched: &mut Touched<'_>) {
        let name = last(&dir.path);
        match self.layout {
            Keyed::RowkeyId => touched(Access::Write, Table::Rows, &dir.number.to_be_bytes()),
            Keyed::Name => touched(Access::Write, Table::Rows, name.as_bytes()),
            Keyed::FullPath => touched(Access::Write, Table::Rows, dir.path.as_bytes()),
            Keyed::DiridName => touched(Access::Write, Table::Dir, dir.path.as_bytes()),
            Keyed::Uuid => {
                touched(Access::Write, Table::Dir, parent.path.as_bytes());
                touched(Access::Write, Table::Dir, dir.path.as_bytes());
            }
            Keyed::Tree => touched(Access::Write, Table::Rows, &self.below(parent, name)),
        }
    }

    fn create(&self, dir: &Dir, file: File<'_>, touched: &mut Touched<'_>) {
        match self.layout {
            Keyed::RowkeyId => touched(Access::Write, Table::Rows, &file.number.to_be_bytes()),
            Keyed::Name => touched(Access::Write, Table::Rows, file.name.as_bytes()),
            Keyed::FullPath => touched(Access::Write, Table::Rows, &full_path(dir, file.name)),
            Keyed::DiridName => {
                touched(Access::Read, Table::Dir, dir.path.as_bytes());
                touched(Access::Write, Table::File, &numbered(dir, file.name));
            }
            Keyed::Uuid => self.create_in_drive(dir, file, touched),
            Keyed::Tree => touched(Access::Write, Table::Rows, &self.below(dir, file.name)),
        }
    }

    /// The seven rows of the drive: the entry, the file, two times, two times of its owner, the name.
    fn create_in_drive(&self, dir: &Dir, file: File<'_>, touched: &mut Touched<'_>) {
        let id = FileId(Builder::from_random_bytes(self.random(file.number)).into_uuid());
        touched(Access::Write, Table::Dir, dir.path.as_bytes());
        touched(Access::Write, Table::File, id.0.as_bytes());
        for (clock, ms) in [(Clock::Modified, file.modified), (Clock::Added, file.added)] {
            let at = Timestamp::from_ms(ms);
            touched(Access::Write, Table::Time, &by_time::key(clock, at, id));
            touched(Access::Write, Table::Owner, &by_owner::key(file.creator, clock, at, id));
        }
        touched(Access::Write, Table::Name, &by_name::key(&fold(file.name), id));
    }

    fn read(&self, dirs: &[&Dir], file: u64, name: &str, touched: &mut Touched<'_>) {
        let Some(dir) = dirs.last() else { return };
        match self.layout {
            // Whoever asks has the id: nothing but a scan of the whole table finds it by path.
            Keyed::RowkeyId => touched(Access::Read, Table::Rows, &file.to_be_bytes()),
            Keyed::Name => touched(Access::Read, Table::Rows, name.as_bytes()),
            Keyed::FullPath => touched(Access::Read, Table::Rows, &full_path(dir, name)),
            Keyed::DiridName => {
                touched(Access::Read, Table::Dir, dir.path.as_bytes());
                touched(Access::Read, Table::File, &numbered(dir, name));
            }
            // The directory's row holds the attributes.
            Keyed::Uuid => touched(Access::Read, Table::Dir, dir.path.as_bytes()),
            Keyed::Tree => {
                let below = dirs.iter().skip(1).map(|dir| last(&dir.path)).chain([name]);
                for (parent, name) in dirs.iter().zip(below) {
                    touched(Access::Read, Table::Rows, &self.below(parent, name));
                }
            }
        }
    }

    fn below(&self, parent: &Dir, name: &str) -> Vec<u8> {
        [&self.random(parent.number)[..], name.as_bytes()].concat()
    }

    /// 16 bytes that belong to this number: a generator of its own each, so that reads find what imports made.
    fn random(&self, number: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        StdRng::seed_from_u64(self.seed.rotate_left(32) ^ number).fill_bytes(&mut bytes);
        bytes
    }
}

fn numbered(dir: &Dir, name: &str) -> Vec<u8> {
    [&dir.number.to_be_bytes()[..], name.as_bytes()].concat()
}

fn full_path(dir: &Dir, name: &str) -> Vec<u8> {
    [dir.path.as_bytes(), b"/", name.as_bytes()].concat()
}

fn last(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(layout: Keyed, request: &Request<'_>) -> Vec<(Access, &'static str, Vec<u8>)> {
        let mut all = Vec::new();
        Keys::new(layout, 1).touch(request, &mut |access, table, key| all.push((access, table.name(), key.to_vec())));
        all
    }

    #[test]
    fn a_created_file_touches_the_rows_of_its_layout() {
        let dir = Dir { number: 258, path: "/home/a".into() };
        let file = File { number: 259, name: "B.jpg", creator: "eva", modified: 5, added: 6 };
        let create = Request::Create { dir: &dir, file };
        let one = |layout| touches(layout, &create).swap_remove(0);
        assert_eq!(one(Keyed::RowkeyId), (Access::Write, "rows", vec![0, 0, 0, 0, 0, 0, 1, 3]));
        assert_eq!(one(Keyed::Name), (Access::Write, "rows", b"B.jpg".to_vec()));
        assert_eq!(one(Keyed::FullPath), (Access::Write, "rows", b"/home/a/B.jpg".to_vec()));
        let id = Keys::new(Keyed::Tree, 1).random(258);
        assert_eq!(one(Keyed::Tree), (Access::Write, "rows", [&id[..], b"B.jpg"].concat()));
        let both = touches(Keyed::DiridName, &create);
        assert_eq!(both[0], (Access::Read, "dir", b"/home/a".to_vec()));
        assert_eq!(both[1], (Access::Write, "file", b"\0\0\0\0\0\0\x01\x02B.jpg".to_vec()));

        let rows = touches(Keyed::Uuid, &create);
        let tables: Vec<&str> = rows.iter().map(|(_, table, _)| *table).collect();
        assert_eq!(tables, ["dir", "file", "time", "owner", "time", "owner", "name"]);
        assert_eq!(rows[0].2, b"/home/a");
        let (owner, name) = (&rows[3].2, &rows[6].2);
        assert!(owner.starts_with(b"ave\0") && name.starts_with(b"b.jpg\0f") && name.ends_with(&rows[1].2));
        assert_eq!(by_time::decode_key(&rows[2].2).unwrap().0.ms(), 5);
        assert_eq!(by_time::decode_key(&rows[4].2).unwrap().0.ms(), 6);
    }

    #[test]
    fn a_read_touches_what_its_path_is_found_by() {
        let (root, home) = (Dir { number: 0, path: "/".into() }, Dir { number: 1, path: "/home".into() });
        let read = Request::Read { dirs: &[&root, &home], file: 2, name: "b" };
        assert_eq!(touches(Keyed::Uuid, &read), [(Access::Read, "dir", b"/home".to_vec())]);
        assert_eq!(touches(Keyed::FullPath, &read), [(Access::Read, "rows", b"/home/b".to_vec())]);
        assert_eq!(touches(Keyed::RowkeyId, &read), [(Access::Read, "rows", vec![0, 0, 0, 0, 0, 0, 0, 2])]);
        assert_eq!(touches(Keyed::DiridName, &read).len(), 2);
        let walk = touches(Keyed::Tree, &read);
        assert_eq!(walk.len(), 2);
        assert!(walk[0].2.ends_with(b"home") && walk[1].2.ends_with(b"b"));
        // What was made is what is read.
        assert_eq!(touches(Keyed::Tree, &Request::Mkdir { parent: &root, dir: &home })[0].2, walk[0].2);
    }

    #[test]
    fn a_new_directory_is_written_to_its_parent_too_in_the_drive() {
        let (root, home) = (Dir { number: 0, path: "/".into() }, Dir { number: 1, path: "/home".into() });
        let mkdir = Request::Mkdir { parent: &root, dir: &home };
        let rows: Vec<Vec<u8>> = touches(Keyed::Uuid, &mkdir).into_iter().map(|(_, _, key)| key).collect();
        assert_eq!(rows, [b"/".to_vec(), b"/home".to_vec()]);
    }
}
