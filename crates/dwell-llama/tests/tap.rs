//! Looking at tensors while they are computed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{TestModel, Told, generate, prompt, run};
use dwell_events::engine::{EngineOptions, Job};
use dwell_gguf::MakeSpec;
use dwell_llama::{EngineError, GraphTensor, Hooks, TensorTap, TrialGraphs, run_job};

/// A tensor that was wanted, with its elements as they lie in memory.
struct Seen {
    name: String,
    lengths: [u64; 4],
    elements: Vec<f32>,
}

/// Wants the tensors whose names it is given.
#[derive(Default)]
struct Wanting {
    names: Vec<&'static str>,
    graphs: TrialGraphs,
    seen: Vec<Seen>,
    refuses: bool,
}

impl TensorTap for Wanting {
    fn begin(&mut self, graphs: &TrialGraphs) -> Result<(), EngineError> {
        self.graphs = graphs.clone();
        match self.refuses {
            true => Err(EngineError::TapRefused { message: "no".to_owned(), hints: vec!["yes".to_owned()] }),
            false => Ok(()),
        }
    }

    fn wants(&mut self, tensor: &GraphTensor<'_>) -> bool {
        self.names.contains(&tensor.name()) || self.names.contains(&"*")
    }

    fn computed(&mut self, tensor: &GraphTensor<'_>) {
        if tensor.type_name() != "f32" {
            return;
        }
        let mut copy = Vec::new();
        let elements = tensor.memory(&mut copy).chunks_exact(4);
        self.seen.push(Seen {
            name: tensor.name().to_owned(),
            lengths: tensor.lengths(),
            elements: elements.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect(),
        });
    }
}

fn tapped(options: EngineOptions, names: &[&'static str], max_tokens: u32) -> (Wanting, Told) {
    let mut tap = Wanting { names: names.to_vec(), ..Wanting::default() };
    let mut told = Told::default();
    let actions = vec![prompt("abcd", &[0]), generate(max_tokens, &[0])];
    run_job(&Job::embedded(options, actions), Hooks { tap: Some(&mut tap), ..Hooks::default() }, &mut told).unwrap();
    (tap, told)
}

fn largest(values: &[f32]) -> i32 {
    let best = values.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
    best.unwrap().0.try_into().unwrap()
}

#[test]
fn the_logits_are_those_that_the_tokens_were_chosen_from() {
    let model = TestModel::new();
    let (tap, told) = tapped(model.options(), &["result_output"], 5);
    assert_eq!(tap.seen.len(), 5);
    assert!(tap.seen.iter().all(|tensor| tensor.lengths == [u64::from(MakeSpec::default().vocabulary), 1, 1, 1]));
    let chosen: Vec<i32> = tap.seen.iter().map(|tensor| largest(&tensor.elements)).collect();
    assert_eq!(chosen, told.tokens(0));
}

#[test]
fn looking_at_everything_changes_nothing() {
    let model = TestModel::new();
    let untouched = run(model.options(), vec![prompt("abcd", &[0]), generate(12, &[0])]);
    let (tap, told) = tapped(model.options(), &["*"], 12);
    assert_eq!(told.tokens(0), untouched.tokens(0));
    assert!(tap.seen.len() > 12 * 20, "{}", tap.seen.len());
}

#[test]
fn the_last_layer_has_every_position_if_that_is_asked_for() {
    let model = TestModel::new();
    let rows = |all_positions| {
        let (tap, told) = tapped(EngineOptions { all_positions, ..model.options() }, &["l_out-0", "l_out-3"], 2);
        let rows: Vec<(String, u64)> = tap.seen.iter().map(|seen| (seen.name.clone(), seen.lengths[1])).collect();
        (rows, told.tokens(0))
    };
    let expected = |first: u64, last: u64| {
        [("l_out-0", first), ("l_out-3", last), ("l_out-0", 1), ("l_out-3", 1)]
            .map(|(name, rows)| (name.to_owned(), rows))
            .to_vec()
    };
    let ((some, some_tokens), (all, all_tokens)) = (rows(false), rows(true));
    let tokens = some[0].1;
    assert!(tokens > 1);
    assert_eq!(some, expected(tokens, 1));
    assert_eq!(all, expected(tokens, tokens));
    assert_eq!(some_tokens, all_tokens);
}

#[test]
fn the_trial_tells_of_every_tensor_with_its_sources() {
    let model = TestModel::new();
    let (tap, _) = tapped(model.options(), &[], 1);
    assert!(tap.seen.is_empty(), "the trial is not part of the job");
    for (graph, tokens) in [(&tap.graphs.prompt, 3), (&tap.graphs.decode, 1)] {
        let residual = graph.iter().find(|node| node.name == "l_out-0").unwrap();
        assert_eq!((residual.op, residual.type_name), ("ADD", "f32"));
        assert_eq!(residual.lengths, [u64::from(MakeSpec::default().embedding), tokens, 1, 1]);
        let output = graph.iter().find(|node| node.name == "attn_out-0").unwrap();
        assert!(output.sources.iter().any(|source| source == "blk.0.attn_output.weight"), "{output:?}");
    }
}

#[test]
fn a_tap_can_refuse() {
    let model = TestModel::new();
    let mut tap = Wanting { refuses: true, ..Wanting::default() };
    let job = Job::embedded(model.options(), vec![prompt("a", &[0])]);
    let hooks = Hooks { tap: Some(&mut tap), ..Hooks::default() };
    let error = run_job(&job, hooks, &mut Told::default()).unwrap_err();
    assert!(matches!(error, EngineError::TapRefused { .. }), "{error:?}");
}
