//! The unchanged protocol: all properties hold in every state of every scenario.

use crate::hold::{hold, holds};
use crate::scenarios::{
    crossing, delete_and_child_moved_out, delete_and_delete_child, delete_and_upload_at_old_path, halves_and_rival,
    move_and_another_to_old_path, move_and_back, move_and_back_and_find, move_and_delete, move_and_delete_new,
    move_and_list_new_and_create, move_and_on, move_and_upload_at_old_path, move_into_deleted, move_into_moved,
    move_of_child_out, move_of_child_out_first, two_moves_of_one, two_moves_to_one_target,
};

// One process. It may crash at any time.
hold! { scenarios, embedded, |scene| scene;
    move_alone delete_alone move_and_create_below delete_and_create_below move_and_mkdir_at_target
    move_and_create_at_target move_and_upload_at_target move_and_create_below_target move_and_mkdir_at_old_path
    move_and_upload_at_old_path delete_and_upload_at_old_path move_and_rmdir_below move_and_rmdir_of_moved
    rmdir_and_create_in_it move_and_file_moved_out delete_and_file_moved_out move_and_file_moved_in
    move_and_list_old move_and_list_new move_and_list_new_and_create delete_and_list halves_and_rival
    crossing crossing_other_way two_moves_of_one move_of_child_out move_of_child_out_first move_into_moved
    move_and_back move_and_on move_and_another_to_old_path two_moves_to_one_target move_and_delete
    move_and_delete_new delete_and_child_moved_out delete_and_delete_child move_into_deleted move_into_rmdir
    move_and_find move_and_back_and_find moves_to_and_fro_and_find delete_and_find replaced_and_create
    move_and_rmdir crashed_move_and_writers crashed_move_and_target crashed_move_and_old_path
    crashed_move_and_same_again crashed_move_and_back crashed_delete_and_writers move_large_and_writers
    move_large_and_old_path delete_large_and_old_path move_large_and_child_moved_out
    crashed_move_large_and_writers crashed_delete_large_and_writers crashed_move_large_and_child_moved_out
}

// One row at a time, and with two writes that find a full disk.
hold! { scenarios, embedded_full, |scene| scene.full(2).unknown(1).batch(1);
    move_and_create_below delete_and_create_below move_and_mkdir_at_target move_and_upload_at_target
    move_and_mkdir_at_old_path move_and_upload_at_old_path delete_and_upload_at_old_path move_and_rmdir_below
    move_and_rmdir_of_moved move_and_file_moved_out move_and_list_old move_and_list_new delete_and_list
    halves_and_rival crossing two_moves_of_one move_of_child_out move_of_child_out_first move_into_moved
    move_and_back move_and_on move_and_another_to_old_path two_moves_to_one_target move_and_delete
    move_and_delete_new delete_and_child_moved_out delete_and_delete_child move_into_deleted move_into_rmdir
    move_and_find delete_and_find crashed_move_and_writers crashed_move_and_target crashed_move_and_old_path
    crashed_move_and_same_again crashed_move_and_back crashed_delete_and_writers
}

// No actor gives up waiting, so every actor must end.
hold! { scenarios, patient, |scene| scene.unknown(0).full(0).patient();
    move_and_create_below delete_and_create_below move_and_upload_at_old_path delete_and_upload_at_old_path
    halves_and_rival crossing crossing_other_way two_moves_of_one move_of_child_out move_of_child_out_first
    move_into_moved move_and_back move_and_on move_and_another_to_old_path two_moves_to_one_target move_and_delete
    move_and_delete_new delete_and_child_moved_out delete_and_delete_child move_into_deleted ring ring_other_way
}

// Many processes: a lease may end while its owner still works.
hold! { scenarios, cluster, |scene| scene.unknown(0).full(0).cluster();
    move_alone delete_alone move_and_create_below delete_and_create_below move_and_mkdir_at_target
    move_and_create_at_target move_and_upload_at_target move_and_create_below_target move_and_mkdir_at_old_path
    move_and_upload_at_old_path move_and_rmdir_below move_and_rmdir_of_moved
    rmdir_and_create_in_it move_and_file_moved_out delete_and_file_moved_out move_and_file_moved_in
    move_and_list_old move_and_list_new move_and_list_new_and_create delete_and_list halves_and_rival
    crossing two_moves_of_one move_of_child_out move_into_moved move_and_back move_and_on
    move_and_another_to_old_path two_moves_to_one_target move_and_delete move_and_delete_new
    delete_and_child_moved_out delete_and_delete_child move_into_deleted move_into_rmdir move_and_find delete_and_find
}

// The same, and one write may take effect at any later time.
hold! { scenarios, cluster_late, |scene| scene.unknown(1).full(0).cluster();
    move_alone delete_alone move_and_create_below delete_and_create_below move_and_mkdir_at_target
    move_and_create_at_target move_and_upload_at_target move_and_create_below_target move_and_mkdir_at_old_path
    move_and_rmdir_below move_and_rmdir_of_moved rmdir_and_create_in_it move_and_file_moved_out
    delete_and_file_moved_out move_and_file_moved_in move_and_list_old move_and_list_new delete_and_list
    move_into_rmdir move_and_find delete_and_find move_and_rmdir
}

// And two such writes.
hold! { scenarios, cluster_late_twice, |scene| scene.unknown(2).full(0).cluster();
    move_alone delete_alone move_and_create_at_target move_and_mkdir_at_target move_and_list_old move_and_list_new
    delete_and_list move_into_rmdir
}

#[test]
#[ignore = "minutes, for changes of the protocol: many processes, and one write that may come at any later time"]
fn large_with_a_late_write() {
    let scenes = [
        move_and_upload_at_old_path(),
        delete_and_upload_at_old_path(),
        move_and_list_new_and_create(),
        halves_and_rival(),
        crossing(),
        two_moves_of_one(),
        move_of_child_out(),
        move_into_moved(),
        move_and_back(),
        move_and_on(),
        move_and_another_to_old_path(),
        two_moves_to_one_target(),
        move_and_delete(),
        move_and_delete_new(),
        delete_and_child_moved_out(),
        delete_and_delete_child(),
        move_into_deleted(),
    ];
    scenes.into_iter().for_each(|scene| holds(scene.unknown(1).cluster()));
}

#[test]
#[ignore = "minutes, for changes of the protocol: many processes"]
fn large_with_many_processes() {
    let scenes = [delete_and_upload_at_old_path(), move_of_child_out_first(), move_and_back_and_find()];
    scenes.into_iter().for_each(|scene| holds(scene.cluster()));
}
