//! The store: `get` of one row and `commit` of guarded rows are atomic, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};

use crate::accounts::AccountRequest;
use crate::tree::{Children, Id, Kind, Name, Path, Request, Resolved, Tree};

/// The id of a subtree operation: the smaller of two is older.
pub type OpId = u8;

/// The lock of a directory row, in its cell `cf:state`.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum RowLock {
    Unlocked,
    Source(OpId),
    Copy(OpId),
}

impl RowLock {
    pub fn op(self) -> Option<OpId> {
        match self {
            Self::Unlocked => None,
            Self::Source(op) | Self::Copy(op) => Some(op),
        }
    }
}

/// A row of `dir`.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Row {
    pub id: Id,
    pub lock: RowLock,
    pub sub: Children,
}

/// A row of `dirid` or `file`: the parent directory, the name in it, and the actor that wrote the row.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Placement {
    pub dir: Id,
    pub name: Name,
    pub by: u8,
}

/// A row of `op`.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Record {
    Missing,
    Prepared,
    Committed,
    Aborted,
}

pub type User = u8;

/// The right to write in a directory and below it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub dir: Id,
    /// The user who has given it; none if it was an admin.
    pub by: Option<User>,
    /// Whether its holder may give the right to others.
    pub share: bool,
}

/// A row of `account`.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Account {
    /// Each change of the row raises it.
    pub stamp: u8,
    pub admin: bool,
    /// The row of a removed user stays, so that the name is not given again.
    pub removed: bool,
    pub grants: BTreeSet<Grant>,
}

impl Account {
    pub fn is_admin(&self) -> bool {
        self.admin && !self.removed
    }
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Key {
    Dir(Path),
    DirId(Id),
    File(Id),
    Op(OpId),
    Account(User),
    /// The row with the number of admins.
    Admins,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Check {
    AbsentRow,
    Id(Id),
    Lock(RowLock),
    Free(Kind, Name),
    Entry(Kind, Name, Id),
    Empty,
    Placed(Placement),
    Record(Record),
    NoAccount,
    Stamp(u8),
    /// The number of admins; 0 while there was never a user.
    Admins(u8),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Change {
    Put(Row),
    Remove,
    Lock(RowLock),
    Link(Kind, Name, Id),
    Unlink(Kind, Name),
    Place(Placement),
    Record(Record),
    Account(Account),
    Admins(u8),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Guarded {
    pub key: Key,
    pub checks: Vec<Check>,
    pub changes: Vec<Change>,
}

pub fn guarded(key: Key, checks: &[Check], changes: &[Change]) -> Guarded {
    Guarded { key, checks: checks.to_vec(), changes: changes.to_vec() }
}

/// What a plan means once it is committed.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Meaning {
    /// A request, and the ids that the plan assumes.
    Tree(Request, Resolved),
    Account(AccountRequest),
}

/// An actor's request takes effect.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Effect {
    pub actor: usize,
    /// The user whose request it is; none: anonymous.
    pub asker: Option<User>,
    pub meaning: Meaning,
}

/// Guarded rows: all checks hold and all changes happen at one instant, or none do.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Plan {
    pub rows: Vec<Guarded>,
    /// Set in the plan that makes a request take effect.
    pub effect: Option<Effect>,
}

pub fn plan(rows: Vec<Guarded>) -> Plan {
    Plan { rows, effect: None }
}

/// A failed check, and the lock of its row at that time.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Refusal {
    pub key: Key,
    pub check: Check,
    pub lock: RowLock,
}

#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Store {
    pub dir: BTreeMap<Path, Row>,
    pub dirid: BTreeMap<Id, Placement>,
    pub file: BTreeMap<Id, Placement>,
    pub op: BTreeMap<OpId, Record>,
    pub accounts: BTreeMap<User, Account>,
    pub admins: u8,
}

impl Store {
    /// The tables of this tree, without locks.
    pub fn new(tree: &Tree, accounts: &BTreeMap<User, Account>) -> Self {
        let row = |(path, (id, sub))| (path, Row { id, lock: RowLock::Unlocked, sub });
        let placement = |(id, (dir, name)): (&Id, &(Id, Name))| (*id, Placement { dir: *dir, name: *name, by: 0 });
        Self {
            dir: tree.rows().into_iter().map(row).collect(),
            dirid: tree.dirs.iter().map(placement).collect(),
            file: tree.files.iter().map(placement).collect(),
            op: BTreeMap::new(),
            accounts: accounts.clone(),
            admins: number_of_admins(accounts),
        }
    }

    pub fn record(&self, op: OpId) -> Record {
        self.op.get(&op).copied().unwrap_or(Record::Missing)
    }

    pub fn lock(&self, key: Key) -> RowLock {
        match key {
            Key::Dir(path) => self.dir.get(&path).map_or(RowLock::Unlocked, |row| row.lock),
            _ => RowLock::Unlocked,
        }
    }

    /// Whether readers see a row with this lock, given the current record of its operation.
    pub fn is_live(&self, lock: RowLock) -> bool {
        match lock {
            RowLock::Unlocked => true,
            RowLock::Source(op) => self.record(op) != Record::Committed,
            RowLock::Copy(op) => self.record(op) == Record::Committed,
        }
    }

    /// The tree that a reader would see at this instant.
    pub fn seen(&self) -> BTreeMap<Path, (Id, Children)> {
        let live = self.dir.iter().filter(|(_, row)| self.is_live(row.lock));
        live.map(|(path, row)| (*path, (row.id, row.sub.clone()))).collect()
    }

    fn holds(&self, key: Key, check: Check) -> bool {
        let row = |test: &dyn Fn(&Row) -> bool| match key {
            Key::Dir(path) => self.dir.get(&path).is_some_and(test),
            _ => panic!("{check:?} of {key:?}"),
        };
        match (key, check) {
            (Key::Dir(path), Check::AbsentRow) => !self.dir.contains_key(&path),
            (Key::Op(op), Check::Record(record)) => self.record(op) == record,
            (Key::DirId(id), Check::Placed(placement)) => self.dirid.get(&id) == Some(&placement),
            (Key::File(id), Check::Placed(placement)) => self.file.get(&id) == Some(&placement),
            (Key::Account(user), Check::NoAccount) => !self.accounts.contains_key(&user),
            (Key::Account(user), Check::Stamp(stamp)) => self.accounts.get(&user).is_some_and(|a| a.stamp == stamp),
            (Key::Admins, Check::Admins(number)) => self.admins == number,
            (_, Check::Id(id)) => row(&|row| row.id == id),
            (_, Check::Lock(lock)) => row(&|row| row.lock == lock),
            (_, Check::Free(kind, name)) => row(&|row| !row.sub.contains_key(&(kind, name))),
            (_, Check::Entry(kind, name, id)) => row(&|row| row.sub.get(&(kind, name)) == Some(&id)),
            (_, Check::Empty) => row(&|row| row.sub.is_empty()),
            _ => panic!("{check:?} of {key:?}"),
        }
    }

    fn change(&mut self, key: Key, change: Change) {
        match (key, change) {
            (Key::Dir(path), Change::Put(row)) => _ = self.dir.insert(path, row),
            (Key::Dir(path), Change::Remove) => _ = self.dir.remove(&path),
            (Key::Dir(path), change) => {
                // A seeded bug may change a missing row.
                let Some(row) = self.dir.get_mut(&path) else { return };
                match change {
                    Change::Lock(lock) => row.lock = lock,
                    Change::Link(kind, name, id) => _ = row.sub.insert((kind, name), id),
                    Change::Unlink(kind, name) => _ = row.sub.remove(&(kind, name)),
                    change => panic!("{change:?} of {key:?}"),
                }
            }
            (Key::DirId(id), Change::Place(placement)) => _ = self.dirid.insert(id, placement),
            (Key::DirId(id), Change::Remove) => _ = self.dirid.remove(&id),
            (Key::File(id), Change::Place(placement)) => _ = self.file.insert(id, placement),
            (Key::File(id), Change::Remove) => _ = self.file.remove(&id),
            (Key::Op(op), Change::Record(record)) => _ = self.op.insert(op, record),
            (Key::Op(op), Change::Remove) => _ = self.op.remove(&op),
            (Key::Account(user), Change::Account(account)) => _ = self.accounts.insert(user, account),
            (Key::Admins, Change::Admins(number)) => self.admins = number,
            (key, change) => panic!("{change:?} of {key:?}"),
        }
    }

    pub fn commit(&mut self, plan: &Plan) -> Result<(), Refusal> {
        for Guarded { key, checks, .. } in &plan.rows {
            if let Some(check) = checks.iter().find(|check| !self.holds(*key, **check)) {
                return Err(Refusal { key: *key, check: *check, lock: self.lock(*key) });
            }
        }
        for Guarded { key, changes, .. } in &plan.rows {
            for change in changes {
                self.change(*key, change.clone());
            }
        }
        Ok(())
    }
}

pub fn number_of_admins(accounts: &BTreeMap<User, Account>) -> u8 {
    u8::try_from(accounts.values().filter(|account| account.is_admin()).count()).expect("few admins")
}
