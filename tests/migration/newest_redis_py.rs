//! The same tests with the newest redis-py, which speaks RESP3.

use crate::program::with_python;
use crate::toolchain;

/// A module for each group of tests, and in it each test by its name.
macro_rules! with_newest_redis_py {
    ($($group:ident: $($name:ident)*;)*) => {
        $(mod $group {
            $(#[test]
            fn $name() {
                super::run(crate::$group::$name);
            })*
        })*
    };
}

// `many` is left out: it is about memory at the server, and long.
with_newest_redis_py! {
    asynq:
        tasks_are_moved_with_what_is_left_of_their_retries
        the_settings_of_the_page_last_as_long_as_asynqs_retries;
    back:
        there_and_back_again
        a_payload_that_is_a_member_already_stays;
    bullmq:
        jobs_are_moved_with_what_is_left_of_their_attempts
        what_bullmq_itself_has_written;
    killed:
        on_one_server
        from_server_to_server;
    refused:
        a_job_beyond_max_delay
        a_unit_that_is_not_clear
        a_job_that_is_never_due
        a_member_over_max_payload
        a_queue_without_room
        a_queue_that_would_drop_them
        the_stale_policy_is_told
        a_dry_run_moves_nothing
        a_push_that_is_refused_in_the_middle_loses_nothing;
    zset:
        members_keep_their_bytes_and_their_times
        seconds_and_their_fractions
        what_is_past_due_comes_at_once_and_in_its_old_order
        scores_that_are_no_times
        names_with_blanks_braces_and_bytes
        a_member_that_is_added_again_is_the_same_job
        a_member_that_is_added_again_while_its_job_is_at_work_is_another_job
        a_job_is_found_by_the_sha_1_of_its_member
        in_a_cluster
        it_follows_producers_that_go_on
        the_rights_of_the_page_are_enough;
}

fn run(test: fn()) {
    match toolchain::newest_python() {
        Ok(python) => with_python(&python, test),
        Err(why) if toolchain::is_demanded("python") => panic!("python is demanded: {why}"),
        Err(why) => crate::common::skip(&why),
    }
}
