//! Seeded bugs: each leaves out one guard, or swaps two steps. [`bugs_found`](crate::bugs_found) lists how each is
//! found.

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Bug {
            $($(#[$doc])* $bug,)*
        }

        pub const ALL: &[Bug] = &[$(Bug::$bug),*];
    };
}

bugs! {
    // Steps 1 and 2: record, lock.
    /// The record is written after the rows are locked.
    LockBeforeRecord,
    /// A row is locked without any check.
    LockUnguarded,
    /// The children are read before the row is locked.
    ListBeforeLock,
    /// After an unknown outcome, a lock is tried again under the same id.
    LockAgain,
    /// After an unknown outcome, the record is written again under the same id.
    RecordAgain,
    /// A changed row below the root leads to a refusal.
    LostLeaseIsRefused,

    // Step 3: copy.
    /// A new row overwrites an existing one.
    CopyUnguarded,
    /// The second plan of a new row does not check this operation's lock.
    CopyMoreUnguarded,
    /// After an unknown outcome, the copy is tried again under the same id.
    CopyAgain,

    // Step 4: the commit.
    /// The commit does not check the record.
    CommitWithoutRecord,
    /// The old parent may be locked, or be another directory.
    SourceNotLive,
    /// The entry in the old parent may belong to another directory.
    SourceEntryUnchecked,
    /// The new parent may be locked, or be another directory.
    TargetNotLive,
    /// A directory of the new name may exist.
    TargetDirUnchecked,
    /// A file of the new name may exist.
    TargetFileUnchecked,
    /// The row in `dirid` is not changed.
    DirIdNotMoved,
    /// An unknown outcome of the commit is answered as a refusal, and rolled back.
    UnknownIsRefused,
    /// If the record is missing after a commit of unknown outcome, the answer is a refusal.
    MissingIsRefused,

    // Step 5: finish.
    /// The old row is removed before the new one is unlocked.
    OldBeforeNew,
    /// The new rows stay locked.
    NewRowNotUnlocked,
    /// A row is removed without a check of its lock.
    RemoveUnchecked,
    /// A lock is cleared without a check of its owner.
    UnlockUnchecked,
    /// The record is removed before the rows.
    RecordFirst,
    /// A write of unknown outcome counts as done.
    PastUnknown,
    /// A refused batch counts as done.
    BatchRefusedPassed,
    /// A write that fails on a full disk counts as done.
    PastFull,
    /// The owner gives up its clean-up on a full disk.
    GivesUpOnFull,
    /// The ids of deleted directories stay.
    DirIdLeft,
    /// The files of deleted directories stay.
    FilesLeft,

    // Rollback.
    /// A committed operation can be aborted.
    AbortUnguarded,
    /// The rollback traverses listings instead of keys.
    RollbackByListings,
    /// The rollback covers the old tree only.
    RollbackForgetsNew,
    /// The record is removed before the locks.
    RecordFirstInRollback,
    /// Start-up rolls back operations of living owners, too.
    StartUpTakesAll,
    /// Start-up lists the records after it has accepted requests.
    ListsRecordsLate,

    // Reads of a locked row.
    /// The reader uses a record that an earlier request has read.
    RecordFromBefore,
    /// If the record is missing, the row is not read again.
    MissingReadOnce,
    /// A missing record counts as committed.
    MissingIsCommitted,
    /// If the record is committed, a copy is not read again.
    CopyReadOnce,

    // Writes to a locked row.
    /// A source row counts as absent, whatever its record says.
    SourceIsGone,
    /// The lock of a prepared operation is cleared, and its record stays.
    UnlockPrepared,
    /// A copy of an aborted operation is unlocked instead of removed.
    VisitorUnlocksCopy,
    /// A copy of a committed operation is removed.
    VisitorRemovesCopy,
    /// Another actor removes the record.
    VisitorRemovesRecord,
    /// An actor with a record waits for every other operation.
    NeverYield,

    // Every plan.
    /// The check for a live directory does not compare the id.
    NoIdCheck,
    /// A parent may be locked.
    ParentNotLive,
    /// A name may exist.
    NameUnchecked,
    /// A new directory row overwrites an existing one.
    MkdirChildUnchecked,
    /// A removed directory may be locked.
    RmdirChildNotLive,
    /// A removed directory may have children.
    RmdirNotEmpty,
    /// The parent of a removed directory may be locked.
    RmdirParentNotLive,
    /// The directory that a file leaves may be locked.
    MoveFileNotLive,

    // Rights and accounts.
    /// A change is not guarded by the stamp of its user.
    UserStampUnchecked,
    /// A change is not guarded by the stamp of the user who has given the right.
    GiverStampUnchecked,
    /// A change is not guarded by the directory that its right is bound to.
    RightDirUnchecked,
    /// Any directory at the same path counts as the one that the right is bound to.
    RightByPath,
    /// The right to a move or delete is decided before the rows are locked, and does not guard the commit.
    RightBeforeLocksOnly,
    /// A change of an account leaves the stamp.
    StampNotRaised,
    /// An anonymous change is not guarded by the absence of users.
    AnonymousUnguarded,
    /// The first user is made without a check that there is none.
    FirstUserUnguarded,
    /// A change of an account is not guarded by the stamp of the admin who asks.
    AskerStampUnchecked,
    /// The number of admins is changed without a check.
    AdminsUnchecked,

    // Verification of an index entry.
    /// A file is skipped after the first lookup in vain.
    FindLooksUpOnce,
    /// Two lookups are compared by ids and names only.
    FindIgnoresOperations,
}
