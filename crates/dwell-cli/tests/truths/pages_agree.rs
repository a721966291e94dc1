//! Two collectors that see the same writes: the exact trace, and the pages that the kernel notes.

use dwell_gguf::MakeSpec;

use crate::common::{Workplace, dwell, text_of};

#[test]
fn pages_of_the_kv_cache_that_the_kernel_saw_written_are_those_of_the_exact_trace() {
    let place = Workplace::new();
    // Large enough to be at work for many scans.
    let model = place.model(MakeSpec { layers: 4, embedding: 512, feed_forward: 2048, ..MakeSpec::default() });
    let options = ["--collect", "tensor_ops,pages", "--sample-interval-ms", "2", "--ignore-end", "--max-tokens", "200"];
    let run = place.run(&model, &options);
    let metadata = run.metadata();
    let agreement = &metadata["agreements"][0];
    let count = |key: &str| agreement[key].as_u64().unwrap_or_else(|| panic!("{metadata}"));
    assert!(count("both") > 8, "{agreement}");
    assert_eq!((count("first_only"), count("second_only")), (0, 0), "{agreement}");
    let shown = dwell().arg("show").arg(&run.dir).output().unwrap();
    assert!(text_of(&shown).contains("tensor_ops and pages on 100.00 % of writes to pages"), "{}", text_of(&shown));
}
