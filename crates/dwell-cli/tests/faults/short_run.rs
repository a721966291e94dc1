//! A run that is over before anything is flushed by time.

use std::collections::BTreeSet;

use dwell_events::schema::Table;

use crate::common::{Workplace, text};
use crate::live_run::assert_has_all_computed;
use crate::models::small_model;

#[test]
fn what_is_still_in_memory_when_the_worker_ends_is_written() {
    let work = Workplace::new();
    let run = work.run(&small_model(), &["--prompt", "hello", "--max-tokens", "2", "--sample-interval-ms", "1"]);
    let labels: BTreeSet<String> = run
        .batches(Table::Memory)
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|row| text(batch, "label", row)).collect::<Vec<_>>())
        .collect();
    assert_eq!(labels, BTreeSet::from(["observer".to_owned(), "worker".to_owned()]));
    assert_has_all_computed(&run);
}
