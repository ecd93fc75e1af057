//! The state of a drive at one instant, decoded from its rows: accounts with grants and secrets, and the tree with ids.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use rowdrive::schema::account::{self, Grantee, Profile};
use rowdrive::schema::dir::{self, DirEntry, FileEntry, RowLock};
use rowdrive::schema::grant::Giver;
use rowdrive::schema::ids::SecretId;
use rowdrive::schema::rights::Rights;
use rowdrive::schema::secret::{self, SecretKind, TokenScope};
use rowdrive::schema::share::{self, ShareTarget};
use rowdrive::schema::subtree_op::{self, Phase};
use rowdrive::schema::user_name::UserName;
use rowdrive::schema::{CF, DirId, DrivePath, FileId, Timestamp};
use rowdrive::table::{Row, RowKey};

use super::recorder::{Event, StoredRow};

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Dir(DirId),
    File(FileId),
}

impl Entry {
    pub fn dir(self) -> Option<DirId> {
        match self {
            Self::Dir(id) => Some(id),
            Self::File(_) => None,
        }
    }
}

pub type Nodes = BTreeMap<DrivePath, Entry>;

/// The tree as readers see it, the root included.
#[derive(Debug)]
pub struct Tree {
    pub nodes: Nodes,
    dirs: HashMap<DirId, DrivePath>,
    files: HashMap<FileId, DrivePath>,
}

/// A session, a token or a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub kind: SecretKind,
    /// Of a token for one directory.
    pub scope: Option<TokenScope>,
    /// Of a share.
    pub target: Option<ShareTarget>,
    pub expires: Option<Timestamp>,
}

/// Rights by directory and giver.
pub type Grants = BTreeMap<(DirId, Giver), Rights>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// None in that of everyone.
    pub profile: Option<Profile>,
    pub grants: Grants,
    pub secrets: BTreeMap<SecretId, Held>,
}

pub type Accounts = BTreeMap<Grantee, Rc<Account>>;

#[derive(Clone, Debug)]
pub struct State {
    pub now: Timestamp,
    pub accounts: Rc<Accounts>,
    pub tree: Rc<Tree>,
}

impl Tree {
    pub fn new(nodes: Nodes) -> Self {
        let (mut dirs, mut files) = (HashMap::new(), HashMap::new());
        for (path, entry) in &nodes {
            match entry {
                Entry::Dir(id) => assert!(dirs.insert(*id, path.clone()).is_none(), "{path}: a directory at two paths"),
                Entry::File(id) => assert!(files.insert(*id, path.clone()).is_none(), "{path}: a file at two paths"),
            }
        }
        Self { nodes, dirs, files }
    }

    pub fn dir_at(&self, path: &DrivePath) -> Option<DirId> {
        self.nodes.get(path).and_then(|entry| entry.dir())
    }

    pub fn path_of_dir(&self, id: DirId) -> Option<&DrivePath> {
        self.dirs.get(&id)
    }

    pub fn path_of_file(&self, id: FileId) -> Option<&DrivePath> {
        self.files.get(&id)
    }

    /// What is at paths below this one.
    pub fn below(&self, path: &DrivePath) -> impl Iterator<Item = (&DrivePath, &Entry)> {
        self.nodes.iter().filter(move |(at, _)| *at != path && at.is_within(path))
    }

    /// The directories of a path that exist, from the root down.
    pub fn chain(&self, path: &DrivePath) -> Vec<DirId> {
        let (mut at, mut chain) = (DrivePath::root(), vec![DirId::ROOT]);
        for name in path.names() {
            at = at.join(&name).unwrap();
            let Some(id) = self.dir_at(&at) else { break };
            chain.push(id);
        }
        chain
    }

    /// Whether one of the names of a path, but for the last one, is that of a file.
    pub fn has_file_above(&self, path: &DrivePath) -> bool {
        let mut at = path.clone();
        while let Some((parent, _)) = at.split() {
            if matches!(self.nodes.get(&parent), Some(Entry::File(_))) {
                return true;
            }
            at = parent;
        }
        false
    }
}

impl Account {
    fn decode(row: &Row) -> Option<Self> {
        let stored = account::Account::from_row(row).unwrap()?;
        let grants = stored.grants.into_iter().map(|grant| ((grant.dir, grant.giver), grant.rights)).collect();
        let mut secrets = BTreeMap::new();
        for (family, kind) in [(account::SESSION, SecretKind::Session), (account::TOKEN, SecretKind::Token)] {
            for (id, one) in row.family(family).filter_map(|cell| secret::from_cell(cell).unwrap()) {
                secrets.insert(id, Held { kind, scope: one.scope, target: None, expires: one.expires });
            }
        }
        for (id, one) in row.family(account::SHARE).filter_map(|cell| share::from_cell(cell).unwrap()) {
            let (kind, target) = (SecretKind::Share, Some(one.target));
            secrets.insert(id, Held { kind, scope: None, target, expires: one.expires });
        }
        Some(Self { profile: stored.profile, grants, secrets })
    }

    fn is_removed(&self) -> bool {
        self.profile.as_ref().is_some_and(|profile| profile.removed)
    }

    /// Without secrets that are over: they leave the store at some later time.
    fn without_ended(&self, now: Timestamp) -> Self {
        let mut left = self.clone();
        left.secrets.retain(|_, held| held.expires.is_none_or(|expires| now < expires));
        left
    }
}

impl State {
    /// A user who was not removed.
    pub fn user(&self, name: &UserName) -> Option<&Account> {
        let account = self.accounts.get(&Grantee::User(name.clone()))?;
        Some(account.as_ref()).filter(|account| !account.is_removed())
    }

    /// All users who were not removed.
    pub fn users(&self) -> impl Iterator<Item = (&UserName, &Profile)> {
        self.accounts.iter().filter_map(|(holder, account)| match holder {
            Grantee::User(name) => Some((name, account.profile.as_ref().filter(|profile| !profile.removed)?)),
            Grantee::Everyone => None,
        })
    }

    /// The grants of everyone.
    pub fn everyone(&self) -> Option<&Grants> {
        self.accounts.get(&Grantee::Everyone).map(|account| &account.grants)
    }

    /// Whether both have the same rows.
    pub fn is_same_as(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.accounts, &other.accounts) && Rc::ptr_eq(&self.tree, &other.tree)
    }

    /// Whether both say the same of the drive, secrets aside that are over.
    pub fn equals(&self, other: &Self) -> bool {
        let same = |(one, other): (&Rc<Account>, &Rc<Account>)| {
            Rc::ptr_eq(one, other) || one.without_ended(self.now) == other.without_ended(self.now)
        };
        (Rc::ptr_eq(&self.tree, &other.tree) || self.tree.nodes == other.tree.nodes)
            && self.accounts.keys().eq(other.accounts.keys())
            && self.accounts.values().zip(other.accounts.values()).all(same)
    }
}

/// What the rows say, commit by commit.
pub struct Rows {
    dirs: BTreeMap<RowKey, Row>,
    records: BTreeMap<RowKey, Row>,
    state: State,
}

impl Rows {
    pub fn new(rows: Vec<StoredRow>, now: Timestamp) -> Self {
        let tree = Rc::new(Tree::new(Nodes::new()));
        let state = State { now, accounts: Rc::default(), tree };
        let mut all = Self { dirs: BTreeMap::new(), records: BTreeMap::new(), state };
        all.apply(Event::Committed(rows));
        all
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state after an event. What it does not change stays the same allocation.
    pub fn apply(&mut self, event: Event) -> &State {
        match event {
            Event::Clock(now) => self.state.now = now,
            Event::Committed(rows) => {
                let (mut is_tree_changed, mut accounts) = (false, Vec::new());
                for StoredRow { table, key, row } in rows {
                    let rows = match table {
                        dir::TABLE => &mut self.dirs,
                        subtree_op::TABLE => &mut self.records,
                        _ => {
                            accounts.push((Grantee::decode(&key).unwrap(), Account::decode(&row)));
                            continue;
                        }
                    };
                    is_tree_changed = true;
                    if row.is_empty() {
                        rows.remove(&key)
                    } else {
                        rows.insert(key, row)
                    };
                }
                if is_tree_changed {
                    let nodes = self.nodes();
                    if nodes != self.state.tree.nodes {
                        self.state.tree = Rc::new(Tree::new(nodes));
                    }
                }
                self.set_accounts(accounts);
            }
        }
        &self.state
    }

    fn set_accounts(&mut self, stored: Vec<(Grantee, Option<Account>)>) {
        // A row without an account has the usage of a creator who is no user.
        let stored = stored.into_iter().filter_map(|(name, account)| Some((name, Rc::new(account?))));
        let before = &self.state.accounts;
        let changed: Vec<_> = stored.filter(|(name, account)| before.get(name) != Some(account)).collect();
        if changed.is_empty() {
            return;
        }
        let mut accounts = Accounts::clone(before);
        accounts.extend(changed);
        forget_removed_givers(&mut accounts);
        if accounts != **before {
            self.state.accounts = Rc::new(accounts);
        }
    }

    /// The tree from the root down. A row with a lock is there by the record of its operation.
    fn nodes(&self) -> Nodes {
        let mut nodes = Nodes::from([(DrivePath::root(), Entry::Dir(DirId::ROOT))]);
        let mut open = vec![(DrivePath::root(), DirId::ROOT)];
        while let Some((path, id)) = open.pop() {
            let row = self.dirs.get(path.as_str().as_bytes()).filter(|row| self.is_live(row));
            let row = row.unwrap_or_else(|| panic!("{path} is a name without a directory"));
            let stored = row.get(CF, dir::ID).map(|id| dir::decode_id(id).unwrap());
            assert_eq!(stored, Some(id), "{path} is the name of another directory");
            for cell in row.family(dir::SUB) {
                let (kind, name) = dir::child(&cell.qualifier).unwrap();
                let at = path.join(&name).unwrap();
                let entry = if kind == dir::FILE {
                    Entry::File(FileEntry::decode(&cell.value).unwrap().id)
                } else {
                    let id = DirEntry::decode(&cell.value).unwrap().id;
                    open.push((at.clone(), id));
                    Entry::Dir(id)
                };
                assert!(nodes.insert(at, entry).is_none(), "{path} has a file and a directory of one name");
            }
        }
        nodes
    }

    fn is_live(&self, row: &Row) -> bool {
        let Some(lock) = row.get(CF, dir::LOCK) else { return true };
        let is_committed = |op: &[u8]| {
            let record = self.records.get(op).and_then(|row| subtree_op::decode_record(row).unwrap());
            record.is_some_and(|(phase, _)| phase == Phase::Committed)
        };
        match RowLock::decode(lock).unwrap() {
            RowLock::Source(op) => !is_committed(op.0.as_bytes()),
            RowLock::Copy(op) => is_committed(op.0.as_bytes()),
        }
    }
}

/// Grants of a removed giver do not count. They are deleted some time after him, without any effect.
pub fn forget_removed_givers(accounts: &mut Accounts) {
    let removed: Vec<UserName> = accounts
        .iter()
        .filter(|(_, account)| account.is_removed())
        .filter_map(|(name, _)| match name {
            Grantee::User(name) => Some(name.clone()),
            Grantee::Everyone => None,
        })
        .collect();
    let is_dead = |giver: &Giver| matches!(giver, Giver::User(name) if removed.contains(name));
    for account in accounts.values_mut() {
        if account.grants.keys().any(|(_, giver)| is_dead(giver)) {
            let mut left = Account::clone(account);
            left.grants.retain(|(_, giver), _| !is_dead(giver));
            *account = Rc::new(left);
        }
    }
}
