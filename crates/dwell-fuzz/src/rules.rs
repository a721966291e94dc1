//! Rules that label accesses.

use std::path::Path;

use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, UnknownPolicy};
use dwell_label::{RuleLabeller, RuleSet};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(rules) = RuleSet::from_yaml(text, Path::new("rules.yaml")) else { return };
    let mut labeller = RuleLabeller::new(rules, UnknownPolicy::Keep);
    for (time_ns, symbol) in ["ggml_vec_dot_f32", "memcpy", ""].into_iter().enumerate() {
        let access = TraceRow {
            timestamp_ns: time_ns as u64,
            address: 0x1000 << (8 * time_ns),
            size_bytes: 64,
            op_type: OpType::Load,
            symbol,
            period: 1,
            ..TraceRow::EMPTY
        };
        let label = labeller.label(&access);
        assert!(label.is_ok_and(|label| label.is_some()), "the policy keeps every access");
    }
    labeller.finish();
}
