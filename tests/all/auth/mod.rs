//! Users and rights, on the memory engine, on RocksDB, and on a store that applies plans step by step.
//!
//! - `fixture`: a drive with users, and a clock that the test sets
//! - `users`, `secrets`, `grants`: changes of accounts
//! - `logins`: which passwords are slowed
//! - `quotas`: what users have created is counted, and bounded
//! - `races`: two changes at once, in every order of their calls
//! - `check`: damage of accounts is found and mended
//! - `decide`: who has which right where, and that a commit is refused once the right has ended
//! - `sight`: hidden files and the pages of queries
//! - `streams`: content that is sent only as long as its user may read it
//! - `base`: a drive with users, copied for each case
//! - `callers`: caller, operation, object: what each one gets of the drive
//! - `anonymous`: the first user before any call of an operation of nobody's
//! - `share_bounds`, `share_logins`: where and how many shares are made; what a browser sends in place of a password
//! - `share_uploads`: what comes in by a share, within its bytes, and not after its end
//! - `share_races`: a change before any call of a read by a share
//! - `drive_races`: a change of rights before any call of an operation of the drive
//! - `rights_model`: eight clients at random, and a model that says which answers each state allows

mod anonymous;
mod base;
mod callers;
mod check;
mod decide;
mod drive_races;
pub mod fixture;
mod full_disk;
mod grants;
mod logins;
mod quotas;
mod races;
mod rights_model;
mod secrets;
mod share_bounds;
mod share_logins;
mod share_races;
mod share_uploads;
mod sight;
mod streams;
mod users;

/// A test for each of these functions, on the store that `$store` makes.
macro_rules! on {
    ($store:expr, $($area:ident: $($test:ident)+;)+) => {
        $($(
            #[tokio::test]
            async fn $test() {
                super::$area::$test(super::fixture::World::new($store).await).await;
            }
        )+)+
    };
}

macro_rules! on_every_store {
    ($($tests:tt)+) => {
        mod memory {
            on! { super::fixture::memory(), $($tests)+ }
        }
        mod stepwise {
            on! { super::fixture::stepwise(), $($tests)+ }
        }
        mod rocks {
            on! { super::fixture::rocks(), $($tests)+ }
        }
    };
}

on_every_store! {
    users:
        of_two_first_users_one_is_made
        a_drive_with_users_knows_no_anonymous_request
        names_that_look_the_same_are_given_once
        who_is_no_admin_any_more_does_not_learn_what_is_at_a_home
        a_removed_user_has_nothing_and_his_name_is_never_given_again
        who_is_made_an_admin_anew_has_his_new_password_alone
        an_account_begins_with_the_usage_of_files_that_are_there
        the_last_admin_stays
        two_admins_who_remove_each_other_leave_one
        users_change_themselves_only_within_limits
        a_token_for_a_directory_changes_no_account;
    secrets:
        a_login_needs_the_right_password_of_an_enabled_user
        a_session_ends_when_it_is_not_used_and_after_ninety_days
        a_new_password_ends_the_other_sessions
        disabling_ends_sessions_and_stops_tokens
        a_secret_that_was_ended_is_not_valid
        what_was_sent_before_proves_nothing_once_it_has_ended
        a_credential_in_use_gets_and_loses_many_grants
        secrets_are_those_of_their_user
        no_session_is_made_for_an_old_password
        a_user_has_at_most_a_hundred_sessions_and_tokens
        of_many_tokens_at_once_a_hundred_are_made
        a_token_makes_no_token_and_no_share_that_ends_after_it;
    grants:
        a_grant_is_one_for_each_directory_and_giver
        an_index_entry_without_a_grant_shows_nothing
        only_who_shares_gives_and_only_what_he_has
        nothing_is_given_on_a_directory_that_has_moved
        only_admins_give_to_everyone_or_the_right_to_share
        a_user_has_at_most_a_thousand_grants
        grants_of_a_removed_giver_are_deleted;
    decide:
        a_right_holds_on_its_directory_and_below
        an_admin_may_do_all_and_a_drive_without_users_allows_all
        a_right_moves_and_ends_with_its_directory
        a_given_right_counts_while_its_giver_has_it
        a_giver_needs_the_right_where_he_has_given_it
        givers_in_a_circle_have_nothing
        everyone_has_what_was_given_to_everyone
        a_token_narrows
        a_share_needs_the_rights_of_its_maker_on_its_own_directory
        a_share_of_a_file_allows_no_other_operation
        only_what_leads_to_a_right_is_seen
        a_commit_is_refused_once_the_right_has_ended
        a_commit_of_an_admin_is_refused_once_he_is_none
        a_commit_is_refused_once_the_directory_of_the_right_is_gone
        an_anonymous_commit_is_refused_once_there_is_a_user;
    share_uploads:
        uploads_at_once_of_one_name_all_live_within_the_bytes_of_their_share
        the_next_number_is_found_among_many
        the_quota_of_its_maker_bounds_a_share
        an_upload_under_way_holds_the_bytes_of_its_share_until_its_end
        an_upload_is_not_stored_after_the_time_of_its_share
        a_share_to_upload_allows_no_other_operation;
    quotas:
        of_many_uploads_at_once_none_passes_the_quota
        a_quota_lower_than_the_usage_refuses_only_what_adds
        an_upload_is_refused_before_its_body_or_while_it_comes
        uploads_under_way_count_until_they_end
        an_upload_that_cannot_be_committed_any_more_breaks_off
        a_home_is_counted_for_its_maker_and_files_for_a_removed_user;
}
