//! The dispatcher's behaviour, told as stories: what happens on the left, what is done about it on the right.

mod story;

use expect_test::expect;
use story::check;

#[test]
fn a_query_waits_for_the_first_cluster_to_be_ready() {
    check(
        "
        0s   a wanted, size 2
        0s   etl#1 arrives, slo 2s
        40s  a ready
        41s  etl#1 finishes
        ",
        expect![[r#"
            0s     a wanted, size 2              -> start a, size 2
            0s     etl#1 arrives, slo 2s
            40s    a ready                       -> run etl#1 on a
            41s    etl#1 finishes                -> etl#1 finished after 41s, late
        "#]],
    );
}

#[test]
fn without_any_cluster_a_query_is_refused_at_once() {
    check(
        "0s etl#1 arrives, slo 2s",
        expect![[r#"
        0s     etl#1 arrives, slo 2s         -> refuse etl#1: no cluster is running or starting
                                             -> etl#1 refused after 0s, late
    "#]],
    );
}

#[test]
fn queries_beyond_the_slots_wait_in_order_and_beyond_the_limit_are_refused() {
    check(
        "
        max_waiting 2
        0s   a wanted, slots 1
        1s   a ready
        2s   etl#1 arrives
        3s   etl#2 arrives
        4s   adhoc#3 arrives
        5s   etl#4 arrives
        6s   etl#1 finishes
        7s   etl#2 fails
        8s   adhoc#3 finishes
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     etl#1 arrives                 -> run etl#1 on a
            3s     etl#2 arrives
            4s     adhoc#3 arrives
            5s     etl#4 arrives                 -> refuse etl#4: 2 queries are waiting already, as many as may
                                                 -> etl#4 refused after 0s
            6s     etl#1 finishes                -> etl#1 finished after 4s
                                                 -> run etl#2 on a
            7s     etl#2 fails                   -> etl#2 failed after 4s
                                                 -> run adhoc#3 on a
            8s     adhoc#3 finishes              -> adhoc#3 finished after 4s
        "#]],
    );
}

#[test]
fn a_query_that_waited_as_long_as_one_may_is_refused() {
    check(
        "
        wait_limit 10s
        0s   a wanted
        1s   a ready
        2s   etl#1 arrives
        3s   etl#2 arrives, slo 1m
        20s  -
        ",
        expect![[r#"
            0s     a wanted                      -> start a, size 1
            1s     a ready
            2s     etl#1 arrives                 -> run etl#1 on a
            3s     etl#2 arrives, slo 1m
            13s                                  -> refuse etl#2: no cluster had room for it within 10s
                                                 -> etl#2 refused after 10s, late
        "#]],
    );
}

#[test]
fn queries_go_to_the_cluster_with_the_fewest_for_its_size() {
    check(
        "
        0s   a wanted, size 1, slots 4
        0s   b wanted, size 2, slots 4
        1s   a ready
        1s   b ready
        2s   q#1 arrives
        2s   q#2 arrives
        2s   q#3 arrives
        2s   q#4 arrives
        3s   q#1 finishes
        3s   q#5 arrives
        ",
        expect![[r#"
            0s     a wanted, size 1, slots 4     -> start a, size 1
            0s     b wanted, size 2, slots 4     -> start b, size 2
            1s     a ready
            1s     b ready
            2s     q#1 arrives                   -> run q#1 on a
            2s     q#2 arrives                   -> run q#2 on b
            2s     q#3 arrives                   -> run q#3 on b
            2s     q#4 arrives                   -> run q#4 on a
            3s     q#1 finishes                  -> q#1 finished after 1s
            3s     q#5 arrives                   -> run q#5 on a
        "#]],
    );
}

#[test]
fn a_lost_cluster_loses_its_queries_and_comes_back() {
    check(
        "
        retry_first 2s
        0s   a wanted
        1s   a ready
        2s   etl#1 arrives, slo 1m
        3s   etl#2 arrives, slo 1m
        4s   a lost
        6s   -
        7s   a ready
        8s   etl#2 finishes
        ",
        expect![[r#"
            0s     a wanted                      -> start a, size 1
            1s     a ready
            2s     etl#1 arrives, slo 1m         -> run etl#1 on a
            3s     etl#2 arrives, slo 1m
            4s     a lost                        -> abandon etl#1: its cluster is lost: its process ended
                                                 -> etl#1 lost after 2s, late
            6s                                   -> start a again
            7s     a ready                       -> run etl#2 on a
            8s     etl#2 finishes                -> etl#2 finished after 5s, in time
        "#]],
    );
}

#[test]
fn a_query_that_bounces_tries_the_next_cluster_and_keeps_its_place() {
    check(
        "
        0s   a wanted
        0s   b wanted
        1s   a ready
        1s   b ready
        2s   q#1 arrives
        2s   q#2 arrives
        3s   q#3 arrives
        4s   q#4 arrives
        5s   q#1 bounces
        6s   q#2 finishes
        ",
        expect![[r#"
            0s     a wanted                      -> start a, size 1
            0s     b wanted                      -> start b, size 1
            1s     a ready
            1s     b ready
            2s     q#1 arrives                   -> run q#1 on a
            2s     q#2 arrives                   -> run q#2 on b
            3s     q#3 arrives
            4s     q#4 arrives
            5s     q#1 bounces                   -> run q#3 on a
            6s     q#2 finishes                  -> q#2 finished after 4s
                                                 -> run q#1 on b
        "#]],
    );
}

#[test]
fn a_transaction_keeps_its_cluster_until_it_ends() {
    check(
        "
        0s   a wanted, slots 1
        1s   a ready
        2s   q#1 arrives, in s1
        3s   q#2 arrives
        4s   q#1 finishes, pinned
        5s   q#3 arrives, in s1
        6s   q#3 finishes
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     q#1 arrives, in s1            -> run q#1 on a
            3s     q#2 arrives
            4s     q#1 finishes, pinned          -> q#1 finished after 2s
            5s     q#3 arrives, in s1            -> run q#3 on a
            6s     q#3 finishes                  -> q#3 finished after 1s
                                                 -> run q#2 on a
        "#]],
    );
}

#[test]
fn an_idle_transaction_loses_its_cluster() {
    check(
        "
        pin_idle 30s
        0s   a wanted, slots 1
        1s   a ready
        2s   q#1 arrives, in s1
        3s   q#2 arrives
        4s   q#1 finishes, pinned
        40s  -
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     q#1 arrives, in s1            -> run q#1 on a
            3s     q#2 arrives
            4s     q#1 finishes, pinned          -> q#1 finished after 2s
            34s                                  -> end the pin of s1: idle for 30s
                                                 -> run q#2 on a
        "#]],
    );
}

#[test]
fn a_query_that_will_not_stop_is_left_behind_and_its_cluster_replaced() {
    check(
        "
        cancel_grace 5s
        0s   a wanted, slots 2
        1s   a ready
        2s   q#1 arrives
        2s   q#2 arrives
        3s   q#1 cancelled
        8s   -
        9s   a' ready
        10s  q#3 arrives
        11s  q#2 finishes
        12s  a stopped
        ",
        expect![[r#"
            0s     a wanted, slots 2             -> start a, size 1
            1s     a ready
            2s     q#1 arrives                   -> run q#1 on a
            2s     q#2 arrives                   -> run q#2 on a
            3s     q#1 cancelled                 -> cancel q#1 on a
            8s                                   -> abandon q#1: it will not stop
                                                 -> q#1 cancelled after 6s
                                                 -> start a', size 1
            9s     a' ready
            10s    q#3 arrives                   -> run q#3 on a'
            11s    q#2 finishes                  -> q#2 finished after 9s
                                                 -> stop a by force
            12s    a stopped
        "#]],
    );
}

#[test]
fn a_client_that_vanishes_takes_its_query_along() {
    check(
        "
        0s   a wanted, slots 1
        1s   a ready
        2s   q#1 arrives, in s1
        2s   q#2 arrives, in s2
        3s   s2 leaves
        4s   s1 leaves
        5s   q#1 fails
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     q#1 arrives, in s1            -> run q#1 on a
            2s     q#2 arrives, in s2
            3s     s2 leaves                     -> q#2 cancelled after 1s
            4s     s1 leaves                     -> cancel q#1 on a
            5s     q#1 fails                     -> q#1 cancelled after 3s
        "#]],
    );
}

#[test]
fn a_drain_lets_queries_finish_and_cuts_off_those_that_do_not() {
    check(
        "
        drain_limit 10s
        0s   a wanted, slots 2
        1s   a ready
        2s   q#1 arrives
        2s   q#2 arrives
        3s   a drains
        4s   q#1 finishes
        20s  a stopped
        ",
        expect![[r#"
            0s     a wanted, slots 2             -> start a, size 1
            1s     a ready
            2s     q#1 arrives                   -> run q#1 on a
            2s     q#2 arrives                   -> run q#2 on a
            3s     a drains
            4s     q#1 finishes                  -> q#1 finished after 2s
            13s                                  -> abandon q#2: its cluster has to go
                                                 -> q#2 lost after 11s
                                                 -> stop a by force
            20s    a stopped
        "#]],
    );
}

#[test]
fn housekeeping_has_seats_of_its_own() {
    check(
        "
        control_slots 1
        0s   a wanted, slots 1
        1s   a ready
        2s   q#1 arrives
        3s   control#2 arrives
        4s   control#3 arrives
        5s   control#2 finishes
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     q#1 arrives                   -> run q#1 on a
            3s     control#2 arrives             -> run control#2 on a
            4s     control#3 arrives
            5s     control#2 finishes            -> control#2 finished after 2s
                                                 -> run control#3 on a
        "#]],
    );
}

#[test]
fn a_shutdown_lets_in_nobody_and_stops_everything_once_it_is_quiet() {
    check(
        "
        0s   a wanted, slots 1
        1s   a ready
        2s   q#1 arrives
        3s   shutdown, within 30s
        4s   q#2 arrives
        5s   q#1 finishes
        6s   a stopped
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     q#1 arrives                   -> run q#1 on a
            3s     shutdown, within 30s
            4s     q#2 arrives                   -> refuse q#2: the gateway is shutting down
                                                 -> q#2 refused after 0s
            5s     q#1 finishes                  -> q#1 finished after 3s
                                                 -> stop a
            6s     a stopped
        "#]],
    );
}

#[test]
fn a_shutdown_whose_time_is_over_cuts_off_what_is_left() {
    check(
        "
        0s   a wanted, slots 1
        1s   a ready
        2s   q#1 arrives
        2s   q#2 arrives
        3s   shutdown, within 5s
        9s   a stopped
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     q#1 arrives                   -> run q#1 on a
            2s     q#2 arrives
            3s     shutdown, within 5s
            8s                                   -> refuse q#2: the gateway is shutting down
                                                 -> q#2 refused after 6s
                                                 -> abandon q#1: its cluster has to go
                                                 -> q#1 lost after 6s
                                                 -> stop a by force
            9s     a stopped
        "#]],
    );
}

#[test]
fn a_start_that_takes_too_long_is_given_up_and_tried_again() {
    check(
        "
        start_limit 10s, retry_first 1s
        0s   a wanted
        5s   q#1 arrives
        11s  -
        12s  a ready
        13s  q#1 finishes
        ",
        expect![[r#"
            0s     a wanted                      -> start a, size 1
            5s     q#1 arrives
            10s                                  -> stop a by force
            11s                                  -> start a again
            12s    a ready                       -> run q#1 on a
            13s    q#1 finishes                  -> q#1 finished after 8s
        "#]],
    );
}

#[test]
fn a_transaction_whose_cluster_turns_its_query_away_is_over() {
    check(
        "
        0s   a wanted
        0s   b wanted
        1s   a ready
        1s   b ready
        2s   q#1 arrives, in s1
        3s   q#1 finishes, pinned
        4s   q#2 arrives, slo 1m, in s1
        5s   q#2 bounces
        6s   q#3 arrives, in s1
        ",
        expect![[r#"
            0s     a wanted                      -> start a, size 1
            0s     b wanted                      -> start b, size 1
            1s     a ready
            1s     b ready
            2s     q#1 arrives, in s1            -> run q#1 on a
            3s     q#1 finishes, pinned          -> q#1 finished after 1s
            4s     q#2 arrives, slo 1m, in s1    -> run q#2 on a
            5s     q#2 bounces                   -> abandon q#2: its cluster is lost: does not answer
                                                 -> q#2 lost after 1s, late
            6s     q#3 arrives, in s1            -> run q#3 on a
        "#]],
    );
}

#[test]
fn a_cancelled_query_of_a_transaction_that_is_turned_away_counts_as_cancelled() {
    check(
        "
        0s   a wanted
        1s   a ready
        2s   q#1 arrives, in s1
        3s   q#1 finishes, pinned
        4s   q#2 arrives, slo 1m, in s1
        5s   q#2 cancelled
        5s   q#2 bounces
        ",
        expect![[r#"
            0s     a wanted                      -> start a, size 1
            1s     a ready
            2s     q#1 arrives, in s1            -> run q#1 on a
            3s     q#1 finishes, pinned          -> q#1 finished after 1s
            4s     q#2 arrives, slo 1m, in s1    -> run q#2 on a
            5s     q#2 cancelled                 -> cancel q#2 on a
            5s     q#2 bounces                   -> refuse q#2: it was cancelled while it waited
                                                 -> q#2 cancelled after 1s
        "#]],
    );
}

#[test]
fn where_there_is_no_room_for_both_a_replacement_starts_when_the_old_one_is_gone() {
    check(
        "
        max_clusters 1, cancel_grace 5s
        0s   a wanted
        1s   a ready
        2s   q#1 arrives
        3s   q#1 cancelled
        9s   a stopped
        10s  a' ready
        ",
        expect![[r#"
            0s     a wanted                      -> start a, size 1
            1s     a ready
            2s     q#1 arrives                   -> run q#1 on a
            3s     q#1 cancelled                 -> cancel q#1 on a
            8s                                   -> abandon q#1: it will not stop
                                                 -> q#1 cancelled after 6s
                                                 -> stop a by force
            9s     a stopped                     -> start a', size 1
            10s    a' ready
        "#]],
    );
}
