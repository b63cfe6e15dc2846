//! Who is admitted when, told as stories: lanes, guarantees, runtime caps, refusals.

mod story;

use expect_test::expect;
use story::check;

#[test]
fn a_lane_that_is_full_lets_others_by_and_refuses_who_may_not_wait_in_it() {
    check(
        "
        lane etl: limit 1, max_queued 1, queue_timeout 5s
        class etl: lane etl
        0s   a wanted, slots 3
        1s   a ready
        2s   etl#1 arrives
        2s   etl#2 arrives
        2s   etl#3 arrives
        3s   adhoc#4 arrives
        4s   etl#1 finishes
        5s   etl#5 arrives
        20s  -
        ",
        expect![[r#"
            0s     a wanted, slots 3             -> start a, size 1
            1s     a ready
            2s     etl#1 arrives                 -> run etl#1 on a
            2s     etl#2 arrives
            2s     etl#3 arrives                 -> refuse etl#3: one query of its lane is waiting already, as many as may
                                                 -> etl#3 refused after 0s
            3s     adhoc#4 arrives               -> run adhoc#4 on a
            4s     etl#1 finishes                -> etl#1 finished after 2s
                                                 -> run etl#2 on a
            5s     etl#5 arrives
            10s                                  -> refuse etl#5: its lane had no room for it within 5s
                                                 -> etl#5 refused after 5s
        "#]],
    );
}

#[test]
fn a_lane_lends_what_is_guaranteed_to_it_and_gets_it_back_as_queries_end() {
    check(
        "
        lane bi: guarantee 2
        class bi: lane bi
        0s   a wanted, slots 2
        1s   a ready
        2s   etl#1 arrives
        2s   etl#2 arrives
        2s   etl#3 arrives
        3s   bi#4 arrives
        3s   bi#5 arrives
        3s   bi#6 arrives
        4s   etl#1 finishes
        5s   etl#2 finishes
        6s   bi#4 finishes
        7s   bi#5 finishes
        8s   bi#6 finishes
        ",
        expect![[r#"
            0s     a wanted, slots 2             -> start a, size 1
            1s     a ready
            2s     etl#1 arrives                 -> run etl#1 on a
            2s     etl#2 arrives                 -> run etl#2 on a
            2s     etl#3 arrives
            3s     bi#4 arrives
            3s     bi#5 arrives
            3s     bi#6 arrives
            4s     etl#1 finishes                -> etl#1 finished after 2s
                                                 -> run bi#4 on a
            5s     etl#2 finishes                -> etl#2 finished after 3s
                                                 -> run bi#5 on a
            6s     bi#4 finishes                 -> bi#4 finished after 3s
                                                 -> run bi#6 on a
            7s     bi#5 finishes                 -> bi#5 finished after 4s
                                                 -> run etl#3 on a
            8s     bi#6 finishes                 -> bi#6 finished after 5s
        "#]],
    );
}

#[test]
fn a_query_that_runs_for_long_counts_as_a_slow_one_and_leaves_its_place_to_the_next() {
    check(
        "
        class bi: max_running 1, cap 10s, then cascade to slow
        class slow: max_running 1, cap 30s, then cancel
        0s   a wanted, slots 4
        1s   a ready
        2s   bi#1 arrives, slo 1m
        3s   bi#2 arrives, slo 1m
        4s   slow#3 arrives
        5s   slow#4 arrives
        13s  bi#2 finishes
        14s  slow#3 finishes
        32s  -
        33s  bi#1 fails
        ",
        expect![[r#"
            0s     a wanted, slots 4             -> start a, size 1
            1s     a ready
            2s     bi#1 arrives, slo 1m          -> run bi#1 on a
            3s     bi#2 arrives, slo 1m
            4s     slow#3 arrives                -> run slow#3 on a
            5s     slow#4 arrives
            12s                                  -> run bi#2 on a
            13s    bi#2 finishes                 -> bi#2 finished after 10s, in time
            14s    slow#3 finishes               -> slow#3 finished after 10s
            32s                                  -> cancel bi#1 on a
            33s    bi#1 fails                    -> bi#1 cancelled after 31s, late
                                                 -> run slow#4 on a
        "#]],
    );
}

#[test]
fn a_query_that_runs_for_long_is_sent_to_another_cluster_in_another_class() {
    check(
        "
        class bi: cap 10s, then resubmit to slow
        class slow: queue_timeout 20s
        0s   a wanted, slots 1
        0s   b wanted, slots 1
        1s   a ready
        1s   b ready
        2s   bi#1 arrives
        3s   slow#2 arrives
        13s  bi#1 bounces
        14s  bi#3 arrives
        15s  slow#2 finishes
        16s  bi#1 finishes
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            0s     b wanted, slots 1             -> start b, size 1
            1s     a ready
            1s     b ready
            2s     bi#1 arrives                  -> run bi#1 on a
            3s     slow#2 arrives                -> run slow#2 on b
            12s                                  -> recall bi#1 from a
            13s    bi#1 bounces
            14s    bi#3 arrives                  -> run bi#3 on a
            15s    slow#2 finishes               -> slow#2 finished after 12s
                                                 -> run bi#1 on b
            16s    bi#1 finishes                 -> bi#1 finished after 14s
        "#]],
    );
}

#[test]
fn a_query_that_would_be_late_anyway_is_told_so_at_once() {
    check(
        "
        class bi: refuse_late
        0s   a wanted, slots 1
        1s   a ready
        2s   etl#1 arrives
        3s   bi#2 arrives, slo 20s
        12s  etl#1 finishes
        13s  etl#3 arrives
        13s  bi#4 arrives, slo 5s
        14s  bi#5 arrives, slo 1m
        15s  bi#2 finishes
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     etl#1 arrives                 -> run etl#1 on a
            3s     bi#2 arrives, slo 20s
            12s    etl#1 finishes                -> etl#1 finished after 10s
                                                 -> run bi#2 on a
            13s    etl#3 arrives
            13s    bi#4 arrives, slo 5s          -> refuse bi#4: it would have waited about 17.095s and taken 0s, and is late after 5s
                                                 -> bi#4 refused after 0s, late
            14s    bi#5 arrives, slo 1m
            15s    bi#2 finishes                 -> bi#2 finished after 12s, in time
                                                 -> run etl#3 on a
        "#]],
    );
}

#[test]
fn where_turns_are_fair_a_full_queue_refuses_the_newest_of_who_has_most_in_it() {
    check(
        "
        order fair, max_waiting 3
        0s   a wanted, slots 1
        1s   a ready
        2s   bi#1 arrives, of ann
        3s   bi#2 arrives, of ann
        3s   bi#3 arrives, of ann
        3s   bi#4 arrives, of ann
        4s   bi#5 arrives, of bob
        5s   bi#1 finishes
        6s   bi#5 finishes
        ",
        expect![[r#"
            0s     a wanted, slots 1             -> start a, size 1
            1s     a ready
            2s     bi#1 arrives, of ann          -> run bi#1 on a
            3s     bi#2 arrives, of ann
            3s     bi#3 arrives, of ann
            3s     bi#4 arrives, of ann
            4s     bi#5 arrives, of bob          -> refuse bi#4: 3 queries are waiting already, as many as may
                                                 -> bi#4 refused after 1s
            5s     bi#1 finishes                 -> bi#1 finished after 3s
                                                 -> run bi#5 on a
            6s     bi#5 finishes                 -> bi#5 finished after 2s
                                                 -> run bi#2 on a
        "#]],
    );
}
