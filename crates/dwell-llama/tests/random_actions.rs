//! Any order of actions is done or refused: llama.cpp neither aborts nor sees positions that it does not expect.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{TestModel, Told, generate, prompt};
use dwell_events::engine::{Action, EngineOptions, Job, KvType};
use dwell_gguf::{MakeArchitecture, MakeSpec};
use dwell_llama::{EngineError, Hooks, run_job};
use proptest::prelude::*;

const SEQUENCES: i32 = 3;

fn sequences() -> impl Strategy<Value = Vec<i32>> {
    proptest::sample::subsequence((0..SEQUENCES).collect::<Vec<_>>(), 1..=SEQUENCES as usize).prop_shuffle()
}

fn action() -> impl Strategy<Value = Action> {
    let sequence = 0..SEQUENCES;
    prop_oneof![
        4 => ("[a-z é€]{0,90}", sequences()).prop_map(|(text, sequences)| prompt(&text, &sequences)),
        4 => (0..120u32, sequences()).prop_map(|(max_tokens, sequences)| generate(max_tokens, &sequences)),
        2 => (sequence.clone(), 0..40i32, -1..60i32).prop_map(|(sequence, from, to)| {
            Action::Remove { sequence, from, to: if to < from { -1 } else { to } }
        }),
        2 => (sequence.clone(), 1..SEQUENCES).prop_map(|(source, distance)| {
            Action::Copy { source, target: (source + distance) % SEQUENCES }
        }),
        2 => (sequence, 0..40i32, -40..40i32).prop_map(|(sequence, from, delta)| {
            Action::Shift { sequence, from, to: -1, delta }
        }),
    ]
}

fn change_options() -> impl Strategy<Value = (bool, bool, bool, bool, u32, u32)> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 3..20u32, 1..3u32)
}

/// Whether an error is one that the order of actions can cause.
fn is_refusal(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::PromptTooLong { .. }
            | EngineError::EmptyPrompt { .. }
            | EngineError::NothingToContinue { .. }
            | EngineError::ShiftUnsupported { .. }
            | EngineError::ShiftOfSharedCells { .. }
            | EngineError::ShiftTarget { .. }
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn actions_in_any_order_are_done_or_refused(
        actions in proptest::collection::vec(action(), 1..12),
        (kv_unified, context_shift, is_quantised, has_windows, batch_size, ubatch_divisor) in change_options(),
    ) {
        let windows = MakeSpec { architecture: MakeArchitecture::Gemma3, window: Some(16), ..MakeSpec::default() };
        let spec = if has_windows { windows } else { MakeSpec::default() };
        let model = TestModel::of(&MakeSpec { layers: 2, head_dim: Some(64), ..spec });
        let kv_type = if is_quantised { KvType::Q8_0 } else { KvType::F16 };
        let options = EngineOptions {
            context_length: if kv_unified { 256 } else { 768 },
            parallel: SEQUENCES as u32,
            kv_unified,
            context_shift,
            kv_type_k: kv_type,
            kv_type_v: kv_type,
            batch_size,
            micro_batch_size: batch_size / ubatch_divisor,
            ..model.options()
        };
        // An action that is refused ends the job, so each one is tried after those that were done.
        let mut done: Vec<Action> = Vec::new();
        for action in actions {
            done.push(action);
            let job = Job::embedded(options.clone(), done.clone());
            if let Err(error) = run_job(&job, Hooks::default(), &mut Told::default()) {
                prop_assert!(is_refusal(&error), "{error}");
                done.pop();
            }
        }
    }
}
