//! Runs, experiments and tensor streams that an earlier version wrote open, verify, analyse, recover and resume as they
//! did then. What that version left and what it said is in `tests/fixtures/v0.1.0`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod answers;
mod fixture;
mod tables;

use std::collections::BTreeSet;

use fixture::{Fixture, commands};

/// Makes a test of each case, and knows which there are.
macro_rules! cases {
    ($($test:ident: $case:literal,)*) => {
        const TESTED: &[&str] = &[$($case),*];

        $(
            #[test]
            fn $test() {
                Fixture::unpack($case).check();
            }
        )*
    };
}

cases! {
    a_complete_run_is_verified_and_analysed_as_it_was: "complete",
    an_interrupted_run_is_verified_and_analysed_as_it_was: "partial",
    a_run_that_was_killed_while_recording_is_recovered_as_it_was: "killed",
    a_run_whose_stream_is_cut_is_recovered_as_it_was: "cut",
    a_run_that_was_killed_while_building_is_recovered_as_it_was: "building",
    a_run_of_a_server_is_verified_analysed_and_compared_as_it_was: "server",
    a_killed_run_of_a_server_is_recovered_as_it_was: "server-killed",
    an_untraced_run_is_verified_and_compared_as_it_was: "untraced",
    a_relabelled_run_is_verified_and_analysed_as_it_was: "relabelled",
    an_imported_run_is_verified_and_imported_again_as_it_was: "kv-events",
    an_experiment_is_verified_aggregated_and_compared_as_it_was: "experiment",
    an_unfinished_experiment_is_resumed_as_it_was: "unfinished",
    tensor_streams_are_described_and_recovered_as_they_were: "tensors",
    a_killed_capture_is_resumed_as_it_was: "checkpointed",
    a_killed_watch_is_recovered_as_it_was: "watched",
}

#[test]
fn every_case_that_is_recorded_is_tested() {
    let recorded: BTreeSet<String> = commands().into_iter().map(|command| command.case).collect();
    assert_eq!(recorded, TESTED.iter().map(|&case| case.to_owned()).collect());
}
