//! Every seeded bug is found: by a scenario, as a broken property.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use crate::bugs::{ALL, Bug};
use crate::scenario::Scenario;
use crate::scenarios::{
    crashed_move_and_same_again, crashed_move_and_target, crossing, delete_alone, delete_and_list, halves_and_rival,
    move_alone, move_and_back, move_and_create_at_target, move_and_create_below, move_and_delete,
    move_and_file_moved_out, move_and_list_new, move_and_list_old, move_and_mkdir_at_old_path,
    move_and_mkdir_at_target, move_and_on, move_and_rmdir, move_and_rmdir_below, move_and_rmdir_of_moved,
    move_into_deleted, move_into_moved, move_into_rmdir, move_large_and_writers, move_of_child_out,
    moves_to_and_fro_and_find, replaced_and_create, rmdir_and_create_in_it,
};
use crate::scenarios_of_rights::{
    admin_demoted_and_revoke, admins_demote_themselves, anonymous_upload_and_first_user, giver_loses_right_and_create,
    grant_ends_and_create, grant_ends_and_delete, granted_replaced_and_create, moved_out_of_granted_and_back,
    two_first_users,
};
use crate::state_space::{ADMIN, ANSWER, CLEAN, COMMIT, END, LEFT, PLACES, READ, RESOLVES, RIGHT, TREE};

/// The scenario that finds a bug, and the property that the bug breaks there. `None`: nothing finds it, since other
/// guards imply this one (not all of these at once: the check of the entry and the check of the removed directory
/// replace each other).
#[rustfmt::skip]
fn finds(bug: Bug) -> Option<(Scenario, &'static str)> {
    let lossy = |scene: Scenario| scene.cluster().unknown(1);
    Some(match bug {
        Bug::LockBeforeRecord => (move_and_list_old(), CLEAN),
        Bug::LockUnguarded => (move_and_delete(), TREE),
        Bug::ListBeforeLock => (move_and_create_below(), TREE),
        Bug::RecordAgain => (lossy(move_and_mkdir_at_target()).unknown(2), RESOLVES),
        Bug::LostLeaseIsRefused => (move_and_rmdir_below().cluster(), ANSWER),
        Bug::LockAgain => (lossy(move_and_back()), RESOLVES),

        Bug::CopyUnguarded => (move_and_mkdir_at_target(), TREE),
        Bug::CopyMoreUnguarded => (halves_and_rival().cluster(), TREE),
        Bug::CopyAgain => (lossy(move_and_rmdir_of_moved()), RESOLVES),

        Bug::CommitWithoutRecord => (move_and_mkdir_at_target().cluster(), TREE),
        // An operation that locks the parent, or changes its entry, has to lock the moved directory first.
        Bug::SourceNotLive | Bug::SourceEntryUnchecked => return None,
        Bug::TargetNotLive => (move_into_moved(), COMMIT),
        // A directory of the new name would have its row where the new row is copied to.
        Bug::TargetDirUnchecked => return None,
        Bug::TargetFileUnchecked => (move_and_create_at_target(), COMMIT),
        Bug::DirIdNotMoved => (move_and_list_old(), PLACES),
        Bug::UnknownIsRefused => (lossy(move_alone()), ANSWER),
        Bug::MissingIsRefused => (lossy(delete_alone()), ANSWER),

        Bug::OldBeforeNew => (move_and_list_old(), RESOLVES),
        Bug::NewRowNotUnlocked => (move_and_list_new(), READ),
        Bug::RemoveUnchecked => (move_and_mkdir_at_old_path(), TREE),
        Bug::UnlockUnchecked => (move_and_on(), TREE),
        Bug::RecordFirst => (delete_and_list(), READ),
        Bug::PastUnknown => (lossy(move_alone()), TREE),
        Bug::BatchRefusedPassed => (move_and_mkdir_at_old_path(), TREE),
        Bug::PastFull => (move_alone(), TREE),
        Bug::GivesUpOnFull => (delete_alone(), LEFT),
        Bug::DirIdLeft | Bug::FilesLeft => (delete_and_list(), CLEAN),

        Bug::AbortUnguarded => (move_and_create_below().cluster(), TREE),
        Bug::RollbackByListings => (move_and_rmdir_below().full(2), CLEAN),
        Bug::RollbackForgetsNew => (move_and_list_new(), CLEAN),
        Bug::RecordFirstInRollback => (move_and_create_at_target(), CLEAN),
        Bug::StartUpTakesAll => (move_and_list_old().cluster(), CLEAN),
        Bug::ListsRecordsLate => (crashed_move_and_same_again(), CLEAN),

        Bug::RecordFromBefore | Bug::MissingReadOnce => (move_and_list_new(), READ),
        Bug::MissingIsCommitted => (move_and_list_new(), READ),
        Bug::CopyReadOnce => (move_and_list_new(), READ),

        Bug::SourceIsGone => (move_and_create_below(), ANSWER),
        Bug::UnlockPrepared => (move_and_create_below(), TREE),
        Bug::VisitorUnlocksCopy => (crashed_move_and_target(), TREE),
        Bug::VisitorRemovesCopy | Bug::VisitorRemovesRecord => (move_and_mkdir_at_target(), TREE),
        Bug::NeverYield => (move_of_child_out().patient(), END),

        Bug::NoIdCheck => (replaced_and_create(), COMMIT),
        Bug::ParentNotLive => (move_and_create_below(), TREE),
        Bug::NameUnchecked => (move_and_create_at_target(), COMMIT),
        Bug::MkdirChildUnchecked => (move_and_mkdir_at_old_path(), TREE),
        Bug::RmdirNotEmpty => (rmdir_and_create_in_it(), COMMIT),
        // If the root is removed while it is being locked, the commit fails by the check of its entry. Below the root,
        // both rows are locked.
        Bug::RmdirChildNotLive | Bug::RmdirParentNotLive => return None,
        Bug::MoveFileNotLive => (move_and_file_moved_out(), TREE),

        Bug::UserStampUnchecked | Bug::StampNotRaised => (grant_ends_and_create(), RIGHT),
        Bug::GiverStampUnchecked => (giver_loses_right_and_create(), RIGHT),
        Bug::RightDirUnchecked => (granted_replaced_and_create(), RIGHT),
        Bug::RightByPath => (moved_out_of_granted_and_back(), RIGHT),
        Bug::RightBeforeLocksOnly => (grant_ends_and_delete(), RIGHT),
        Bug::AnonymousUnguarded => (anonymous_upload_and_first_user(), RIGHT),
        Bug::FirstUserUnguarded => (two_first_users(), RIGHT),
        Bug::AskerStampUnchecked => (admin_demoted_and_revoke(), RIGHT),
        Bug::AdminsUnchecked => (admins_demote_themselves(), ADMIN),

        Bug::FindLooksUpOnce => (moves_to_and_fro_and_find(), READ),
        Bug::FindIgnoresOperations => (moves_to_and_fro_and_find(), READ),
    })
}

#[test]
fn every_seeded_bug_is_found() {
    let mut wrong = Vec::new();
    for bug in ALL {
        let Some((scene, property)) = finds(*bug) else { continue };
        let run = scene.bug(*bug).checker().finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property])));
        let run = run.spawn_bfs().join();
        println!("{bug:?}: {} states", run.unique_state_count());
        if run.discovery(property).is_none() {
            wrong.push(format!("{bug:?} does not break: {property}, but {:?}", run.discoveries().keys()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn some_guards_are_implied_by_others() {
    for bug in ALL.iter().filter(|bug| finds(**bug).is_none()) {
        let scenes = [
            crossing(),
            halves_and_rival(),
            move_of_child_out(),
            move_into_moved(),
            move_into_deleted(),
            move_into_rmdir(),
            move_and_mkdir_at_target(),
            move_and_rmdir(),
            move_and_rmdir_below(),
            move_and_rmdir_of_moved(),
            move_and_delete(),
            move_large_and_writers(),
        ];
        for scene in scenes.iter().cloned().chain([move_and_delete().cluster(), move_and_rmdir().cluster()]) {
            scene.bug(*bug).checker().spawn_bfs().join().assert_properties();
        }
    }
}
