//! A capture without an engine: graphs, tensors and tokens are made up.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use dwell_capture::{
    CaptureError, CaptureEvent, CaptureJob, CaptureOutput, CapturedPhase, Capturer, GenerationEnd, Selection, Slice,
    Strided,
};
use dwell_events::GraphNode;
use dwell_events::engine::{EngineOptions, Job};
use dwell_tensors::{Pressure, TensorFile};

const WIDTH: u64 = 4;

fn job(path: &Path, is_resumed: bool, checkpoint_every: Option<u64>) -> CaptureJob {
    CaptureJob {
        job: Job::embedded(EngineOptions::new("model.gguf".into()), Vec::new()),
        selection: Selection {
            tensors: vec!["residual".to_owned()],
            layers: None,
            phase: CapturedPhase::All,
            every: 1,
            slice: Slice::default(),
        },
        output: Some(CaptureOutput {
            path: path.to_owned(),
            codec: "none".to_owned(),
            pressure: Pressure::Block,
            max_memory_bytes: 64 << 20,
            checkpoint_every,
            is_resumed,
            model_fingerprint: "same".to_owned(),
        }),
    }
}

fn node(name: &str, tokens: u64) -> GraphNode<'_> {
    GraphNode { name: name.into(), op: "ADD", type_name: "f32", lengths: [WIDTH, tokens, 1, 1], sources: Vec::new() }
}

fn begin(job: CaptureJob) -> Result<Capturer, CaptureError> {
    let mut capturer = Capturer::new(job, "none".to_owned());
    capturer.begin(&[node("l_out-0", 3), node("other", 3)], &[node("l_out-0", 1), node("other", 1)])?;
    Ok(capturer)
}

/// One step: two tensors of which one is wanted, and a token.
fn step(capturer: &mut Capturer, number: u64, token: i64) {
    capturer.graph_begins(number);
    for name in ["l_out-0", "other"] {
        let is_wanted = capturer.wants(&node(name, 1));
        assert_eq!(is_wanted, name == "l_out-0");
        if is_wanted {
            let memory: Vec<u8> =
                (0..WIDTH).flat_map(|place| ((number * WIDTH + place) as f32).to_le_bytes()).collect();
            let strides_bytes = [4, 16, 16, 16];
            capturer.computed(Strided { memory: &memory, lengths: [WIDTH, 1, 1, 1], strides_bytes });
        }
    }
    capturer.token(token, "t");
}

fn content(path: &Path) -> (Vec<Vec<u8>>, Vec<i64>) {
    let file = TensorFile::open(path).unwrap();
    let elements = (0..file.packets().len()).map(|index| file.read_elements(index).unwrap()).collect();
    (elements, file.tokens().iter().map(|token| token.token_id).collect())
}

#[test]
fn an_interrupted_capture_goes_on_to_what_it_would_have_been() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    let mut capturer = begin(job(&whole, false, None)).unwrap();
    (0..9).for_each(|number| step(&mut capturer, number, 100 + number as i64));
    capturer.end(GenerationEnd::Done).unwrap();

    let mut capturer = begin(job(&cut, false, Some(2))).unwrap();
    (0..5).for_each(|number| step(&mut capturer, number, 100 + number as i64));
    let event = capturer.end(GenerationEnd::Interrupted).unwrap().unwrap();
    assert!(matches!(event, CaptureEvent::Ended { is_finished: false, .. }), "{event:?}");

    let mut capturer = begin(job(&cut, true, Some(2))).unwrap();
    (0..9).for_each(|number| step(&mut capturer, number, 100 + number as i64));
    capturer.end(GenerationEnd::Done).unwrap();
    assert_eq!(content(&cut), content(&whole));
    assert_eq!(content(&cut).0.len(), 9);
}

/// A capture of five steps that can be gone on with.
fn cut_off(path: &Path) {
    let mut capturer = begin(job(path, false, Some(1))).unwrap();
    (0..5).for_each(|number| step(&mut capturer, number, 100 + number as i64));
    capturer.end(GenerationEnd::Interrupted).unwrap();
}

#[test]
fn a_resumed_capture_that_is_interrupted_again_goes_on_without_further_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    cut_off(&path);
    for (steps, end) in [(7, GenerationEnd::Interrupted), (9, GenerationEnd::Done)] {
        let mut capturer = begin(job(&path, true, None)).unwrap();
        (0..steps).for_each(|number| step(&mut capturer, number, 100 + number as i64));
        let event = capturer.end(end).unwrap().unwrap();
        let is_done = end == GenerationEnd::Done;
        assert!(matches!(event, CaptureEvent::Ended { is_finished, .. } if is_finished == is_done), "{event:?}");
        assert_eq!(content(&path).0.len() as u64, steps);
    }
}

#[test]
fn other_tokens_than_before_end_a_resumed_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    cut_off(&path);
    let mut capturer = begin(job(&path, true, Some(1))).unwrap();
    step(&mut capturer, 0, 100);
    assert!(!capturer.has_failed());
    step(&mut capturer, 1, 7);
    assert!(capturer.has_failed());
    let error = capturer.end(GenerationEnd::Interrupted).unwrap_err();
    assert!(matches!(error, CaptureError::OtherToken { index: 1, recorded: 101, generated: 7 }), "{error}");
    assert_eq!(content(&path).1, [100, 101, 102, 103, 104]);
}

#[test]
fn a_generation_that_ends_before_what_is_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    cut_off(&path);
    let mut capturer = begin(job(&path, true, Some(1))).unwrap();
    step(&mut capturer, 0, 100);
    let error = capturer.end(GenerationEnd::Done).unwrap_err();
    assert!(matches!(error, CaptureError::TooShort { recorded_packets: 5, packets: 1, .. }), "{error}");
    assert_eq!(content(&path).0.len(), 5);
}

#[test]
fn strides_that_leave_the_memory_end_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let mut capturer = begin(job(&folder.path().join("a"), false, None)).unwrap();
    capturer.graph_begins(0);
    assert!(capturer.wants(&node("l_out-0", 2)));
    capturer.computed(Strided { memory: &[0; 16], lengths: [WIDTH, 2, 1, 1], strides_bytes: [4, 16, 32, 32] });
    assert!(capturer.has_failed());
    assert!(matches!(capturer.end(GenerationEnd::Done), Err(CaptureError::Strides { .. })));
}

#[test]
fn a_type_of_blocks_is_left_out_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut wanted = job(&folder.path().join("a"), false, None);
    wanted.selection.tensors = vec!["*".to_owned()];
    let mut capturer = Capturer::new(wanted.clone(), "none".to_owned());
    let graph = [node("l_out-0", 1), GraphNode { type_name: "q8_0", ..node("cache", 1) }];
    let CaptureEvent::Begun { tensors, unstorable, .. } = capturer.begin(&graph, &graph).unwrap() else { panic!() };
    assert_eq!((tensors.len(), unstorable), (1, vec!["cache".to_owned()]));
    wanted.selection.tensors = vec!["cache".to_owned()];
    let error = Capturer::new(wanted, "none".to_owned()).begin(&graph, &graph).unwrap_err();
    assert!(matches!(error, CaptureError::Unstorable { .. }), "{error}");
}
