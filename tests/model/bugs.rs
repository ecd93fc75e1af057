//! Seeded bugs: each leaves one guard out, or takes one step out of order. `seeded` says what finds each.

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
    // Step 1 and 2: record, close.
    /// The record is written after the rows are closed.
    CloseBeforeRecord,
    /// A row is closed whatever it is.
    CloseUnguarded,
    /// The children are read before the row is closed.
    ListBeforeClose,
    /// After an unknown fate, closing is tried again under the same id.
    CloseAgain,
    /// After an unknown fate, the record is written again under the same id.
    RecordAgain,
    /// A changed row below the root is answered as a refusal.
    LostLeaseIsRefused,

    // Step 3: stage.
    /// A new row is put over whatever is there.
    StageUnguarded,
    /// The second batch of a new row does not look for this operation's mark.
    StageMoreUnguarded,
    /// After an unknown fate, staging is tried again under the same id.
    StageAgain,

    // Step 4: the instant.
    /// The commit does not look at the record.
    CommitWithoutRecord,
    /// The old parent may be held, or another directory.
    SourceNotLive,
    /// The old parent's entry may be another directory's.
    SourceEntryUnchecked,
    /// The new parent may be held, or another directory.
    TargetNotLive,
    /// There may be a directory of the new name.
    TargetDirUnchecked,
    /// There may be a file of the new name.
    TargetFileUnchecked,
    /// The row in `dirid` stays as it was.
    DirIdNotMoved,
    /// An unknown outcome of the commit is answered as a refusal, and undone.
    UnknownIsRefused,
    /// A record that is missing after a commit of unknown outcome is answered as a refusal.
    MissingIsRefused,

    // Step 5: finish.
    /// The old row goes first, then the new one is cleared.
    OldBeforeNew,
    /// The new rows keep their marks.
    NewRowNotCleared,
    /// A row is removed without a look at its mark.
    RemoveUnchecked,
    /// A mark is cleared whosever it is.
    ClearUnchecked,
    /// The record goes before the rows.
    RecordFirst,
    /// A write of unknown fate is taken for done.
    PastUnknown,
    /// A batch that is refused is taken for done.
    BatchRefusedPassed,
    /// A write that found the disk full is taken for done.
    PastFull,
    /// The owner ends where the disk is full in its clean-up.
    FullGivesUp,
    /// The ids of deleted directories stay.
    DirIdLeft,
    /// The files of deleted directories stay.
    FilesLeft,

    // Undo.
    /// A committed record is aborted too.
    AbortUnguarded,
    /// The undo goes from listing to listing.
    UndoWalks,
    /// The undo looks through the old tree only.
    UndoForgetsNew,
    /// The record goes before the marks.
    RecordFirstInUndo,
    /// Start-up undoes what others are at, too.
    StartUpTakesAll,
    /// Start-up lists the records after it accepted requests.
    ListsRecordsLate,

    // Reading a held row.
    /// The record is one that an earlier request has read.
    RecordFromBefore,
    /// A row whose record is missing is not read again.
    MissingReadOnce,
    /// A missing record counts as committed.
    MissingIsCommitted,
    /// A staged row is not read again once its record says committed.
    StagedReadOnce,

    // Writing at a held row.
    /// A closed row is taken for absent, whatever its record says.
    ClosedIsGone,
    /// A prepared mark is cleared, its record left as it is.
    ClearPrepared,
    /// A staged row that never came true is cleared, not removed.
    VisitorClearsStaged,
    /// A staged row that did come true is removed.
    VisitorRemovesStaged,
    /// Another actor removes the record that it found.
    VisitorRemovesRecord,
    /// An actor with a record waits for every other.
    NeverYield,

    // Every plan.
    /// Live asks for no id.
    NoIdCheck,
    /// A parent may be held.
    ParentNotLive,
    /// A name may be taken.
    NameUnchecked,
    /// A new directory is put over whatever is there.
    MkdirChildUnchecked,
    /// A removed directory may be held.
    RmdirChildNotLive,
    /// A removed directory may have children.
    RmdirNotEmpty,
    /// The parent of a removed directory may be held.
    RmdirParentNotLive,
    /// The directory that a file leaves may be held.
    MoveFileNotLive,

    // Settling a hint.
    /// A file is skipped at the first look in vain.
    FindWalksOnce,
    /// Two walks are compared by ids and names alone.
    FindIgnoresOperations,
}
