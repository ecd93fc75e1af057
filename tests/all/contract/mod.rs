//! The contract of a store: one test for each promise of [`Store`](rowdrive::table::Store), run on every engine.
//!
//! - [`engines`]: the engines under test
//! - [`plans`]: the tables of the suite, and short constructors for plans and reads
//! - `create`, `get`, `page`, `get_many`, `scan`, `commit`, `counters`, `families`, `races`: the promises of each call
//! - `atomic`: the promises of an engine that is atomic
//! - `durable`: the promises of an engine that outlives its process
//! - `random`: random plans and reads, with the same answers as the reference engine (the oracle)
//!
//! A promise is an `async fn` that takes the engine. It is listed once, below.

mod engines;
mod plans;

mod atomic;
mod commit;
mod counters;
mod create;
mod durable;
mod families;
mod get;
mod get_many;
mod page;
mod races;
mod random;
mod scan;

/// A test for each promise of these areas, on the engine that `$engine` makes.
macro_rules! keeps {
    ($engine:expr, $($area:ident: $($promise:ident)+;)+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $promise() {
                super::$area::$promise(&$engine).await;
            }
        )+)+
    };
}

macro_rules! keeps_the_contract {
    ($engine:expr) => {
        keeps! { $engine,
            create:
                creating_a_table_again_leaves_it_unchanged
                create_with_different_properties_is_refused
                concurrent_creates_make_one_table
                create_keeps_tables_and_families_apart;
            get:
                get_returns_what_was_asked_and_no_more
                get_of_a_missing_row_is_an_empty_row
                get_reads_families_at_one_instant
                get_reads_cells_at_one_instant
                get_reads_wide_families_at_one_instant
                get_of_a_family_ends_at_a_page
                get_accepts_any_bytes_as_row_key
                get_accepts_any_bytes_as_qualifier
                get_sees_acknowledged_writes;
            page:
                page_is_in_qualifier_order_and_of_one_family
                page_accepts_bounds_of_all_kinds
                page_ends_at_its_limit_and_says_whether_more_follow
                page_resumes_after_its_last_qualifier
                page_returns_its_unchanged_cells_in_the_order_asked
                page_and_its_unchanged_cells_are_of_one_instant
                page_of_hundreds_and_its_unchanged_cells_are_of_one_instant
                page_reads_a_wide_family_to_its_end
                page_skips_removed_cells;
            get_many:
                get_many_answers_in_order_and_for_missing_rows
                get_many_answers_for_a_thousand_rows
                get_many_reads_each_row_at_one_instant
                get_many_of_a_family_ends_at_a_page;
            scan:
                scan_is_in_key_order
                scan_reverse_is_the_exact_reverse
                scan_accepts_bounds_of_all_kinds
                scan_of_a_prefix_finds_only_its_rows
                scan_ends_at_its_limit
                scan_resumes_by_key
                scan_skips_rows_that_hold_only_other_cells
                scan_returns_families_and_cells
                scan_reads_each_row_at_one_instant
                scan_of_a_family_ends_at_a_page
                scan_of_single_cells_skips_wide_rows
                scan_skips_removed_rows
                scan_of_an_empty_table_finds_nothing;
            commit:
                commit_writes_all_parts_of_a_plan
                commit_refused_changes_no_guarded_and_no_finish_row
                commit_refused_leaves_prepare_harmless
                commit_checks_that_a_cell_is_absent
                commit_checks_that_a_cell_equals
                commit_checks_that_a_family_is_empty
                commit_reports_the_first_failed_check
                commit_checks_see_earlier_plans
                commit_checks_see_no_change_of_their_own_plan
                commit_of_checks_alone_changes_nothing
                commit_of_nothing_is_committed
                commit_accepts_cells_of_one_mebibyte
                commit_accepts_a_plan_of_four_mebibytes
                commit_accepts_as_many_guarded_rows_as_there_may_be
                commit_carries_unique_id_rows_through_their_life_cycle
                commit_carries_immutable_cells_through_their_life_cycle;
            counters:
                an_addition_counts_from_the_value_or_from_zero
                an_addition_fits_up_to_the_limit
                a_number_is_checked_without_an_addition
                a_refused_plan_adds_nothing
                a_bad_counter_fails_its_plan_and_changes_nothing
                a_counter_is_deleted_at_zero_and_begins_again
                additions_of_many_threads_end_exactly_at_the_limit
                additions_that_are_taken_back_never_pass_the_limit_together
                additions_to_several_rows_are_of_one_instant
                all_additions_at_once_count;
            families:
                changes_happen_in_their_order
                changes_of_missing_cells_are_no_error
                delete_family_removes_all_of_one_family_of_any_size
                put_after_delete_family_survives
                delete_family_removes_earlier_puts_of_the_same_row
                row_without_cells_is_absent_and_can_be_written_again
                family_is_empty_after_many_deletes;
            races:
                increments_are_never_lost
                exactly_one_of_many_creators_wins
                guarded_rows_change_at_one_instant
                transfers_between_rows_keep_the_sum
                concurrent_fill_and_remove_if_empty_never_both_succeed
                abandoned_commit_is_all_or_nothing
                many_plans_at_once_are_all_answered;
        }
    };
}

macro_rules! is_atomic {
    ($engine:expr) => {
        keeps! { $engine,
            atomic:
                a_plan_is_seen_whole_by_any_scan
                a_refused_plan_changes_nothing
                a_plan_with_a_bad_counter_changes_nothing;
        }
    };
}

mod memory {
    keeps_the_contract!(super::engines::Memory::default());
    is_atomic!(super::engines::Memory::default());
}

mod stepwise {
    keeps_the_contract!(super::engines::Stepwise::default());
}

/// As tests of the drive use it, in place of a store that is fast and hard to stop between two steps.
mod stepwise_at_once {
    keeps_the_contract!(super::engines::Stepwise::atomic());
    is_atomic!(super::engines::Stepwise::atomic());
}

/// With rows that are kept in memory.
mod rocks_keeping {
    keeps_the_contract!(super::engines::Rocks::keeping());
    is_atomic!(super::engines::Rocks::keeping());
}

mod rocks {
    keeps_the_contract!(super::engines::Rocks::default());
    is_atomic!(super::engines::Rocks::default());
    keeps! { super::engines::Rocks::default(),
        durable:
            tables_survive_a_restart
            committed_survives_a_restart
            removed_stays_removed_after_a_restart
            committed_survives_a_kill
            plans_are_whole_after_a_kill
            each_addition_counts_once_after_kills;
    }
}
