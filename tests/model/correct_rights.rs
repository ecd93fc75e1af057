//! The unchanged protocol with users: all properties hold in every state of every scenario.

use crate::hold::hold;

// One process.
hold! { scenarios_of_rights, embedded, |scene| scene;
    grant_ends_and_create grant_ends_and_upload grant_ends_and_file_moved grant_ends_and_move grant_ends_and_delete
    user_removed_and_upload giver_loses_right_and_create giver_removed_and_create given_moved_out_and_create
    granted_moved_and_create moved_out_of_granted_and_create granted_moved_and_move_of_child
    granted_replaced_and_create moved_out_of_granted_and_back two_first_users anonymous_upload_and_first_user
    anonymous_move_and_first_user admins_remove_each_other admins_demote_themselves admin_demoted_and_create
    admin_demoted_and_revoke grant_on_root_ends_and_create
}

// The outcome of one write is unknown, and one write finds a full disk.
hold! { scenarios_of_rights, embedded_full, |scene| scene.unknown(1).full(1).batch(1);
    grant_ends_and_create grant_ends_and_upload grant_ends_and_file_moved grant_ends_and_move grant_ends_and_delete
    giver_loses_right_and_create granted_moved_and_create granted_replaced_and_create anonymous_move_and_first_user
    two_first_users admins_demote_themselves
}

// No actor gives up waiting, so every actor must end.
hold! { scenarios_of_rights, patient, |scene| scene.patient();
    grant_ends_and_create grant_ends_and_move grant_ends_and_delete granted_moved_and_create
    granted_moved_and_move_of_child granted_replaced_and_create anonymous_move_and_first_user
}

// Many processes, and one write may take effect at any later time.
hold! { scenarios_of_rights, cluster_late, |scene| scene.unknown(1).cluster();
    grant_ends_and_create grant_ends_and_upload grant_ends_and_file_moved user_removed_and_upload
    giver_loses_right_and_create granted_replaced_and_create two_first_users anonymous_upload_and_first_user
    admins_remove_each_other admins_demote_themselves
}

// Many processes.
hold! { scenarios_of_rights, cluster, |scene| scene.cluster();
    grant_ends_and_move grant_ends_and_delete granted_moved_and_create moved_out_of_granted_and_create
    anonymous_move_and_first_user
}
