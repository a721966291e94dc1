//! What must be in a stream.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use dwell_events::schema::Table;

use crate::common::{Run, column, dwell, text_of};
use crate::lab::{Captured, EMBEDDING, LAYERS, Lab, PROMPT, VOCABULARY};

const TOKENS: &str = "6";

fn rows_of_prompt(captured: &Captured) -> u64 {
    captured.packets[0].shape[0]
}

#[test]
fn every_layer_of_every_step_is_there_once_and_in_order() {
    let captured = Lab::new().capture("a", &["--max-tokens", TOKENS]);
    let rows = rows_of_prompt(&captured);
    assert!(rows > 1);
    let expected: Vec<_> = (0..6)
        .flat_map(|step| {
            (0..LAYERS).map(move |layer| {
                let is_last_layer = layer + 1 == LAYERS;
                let rows = if step == 0 && !is_last_layer { rows } else { 1 };
                (step * LAYERS + layer, format!("l_out-{layer}"), Some(layer as i32), step, vec![rows, EMBEDDING])
            })
        })
        .collect();
    let found: Vec<_> = captured
        .packets
        .iter()
        .map(|packet| (packet.packet, packet.name.clone(), packet.layer, packet.step, packet.shape.clone()))
        .collect();
    assert_eq!(found, expected);
    assert!(captured.packets.iter().all(|packet| packet.token_index == Some(packet.step)));
    assert_eq!(captured.tokens.len(), 6);
}

#[test]
fn the_last_layer_and_the_logits_have_every_position_if_that_is_asked_for() {
    let lab = Lab::new();
    let chosen = ["--max-tokens", TOKENS, "--tensors", "l_out-2,logits"];
    let last = lab.capture("last", &chosen);
    let all = lab.capture("all", &[&chosen[..], &["--all-positions"]].concat());
    let prompt = |captured: &Captured| -> Vec<Vec<u64>> {
        captured.packets.iter().filter(|packet| packet.step == 0).map(|packet| packet.shape.clone()).collect()
    };
    let rows = rows_of_prompt(&all);
    assert!(rows > 1);
    assert_eq!(prompt(&last), [vec![1, EMBEDDING], vec![1, VOCABULARY]]);
    assert_eq!(prompt(&all), [vec![rows, EMBEDDING], vec![rows, VOCABULARY]]);
    assert_eq!(all.tokens, last.tokens);
}

#[test]
fn the_largest_logit_is_the_token_that_was_generated() {
    let captured = Lab::new().capture("a", &["--max-tokens", TOKENS, "--tensors", "logits"]);
    let largest = |values: Vec<f32>| {
        let best = values.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
        best.unwrap().0 as i64
    };
    let chosen: Vec<i64> = captured.packets.iter().map(|packet| largest(packet.floats())).collect();
    assert_eq!(chosen.len(), 6);
    assert_eq!(chosen, captured.tokens);
}

#[test]
fn lossless_codecs_give_the_same_bytes() {
    let lab = Lab::new();
    let capture = |codec: &str| lab.capture(codec, &["--max-tokens", "4", "--codec", codec, "--tensors", "*"]).packets;
    let plain = capture("none");
    assert!(plain.len() > 100);
    for codec in ["float", "lz4", "zstd:3"] {
        assert!(capture(codec) == plain, "{codec}");
    }
}

#[test]
fn capturing_everything_changes_no_token() {
    let lab = Lab::new();
    for attention in ["on", "off"] {
        let arguments = ["--max-tokens", "12", "--flash-attention", attention];
        let captured = lab.capture(attention, &[&arguments[..], &["--tensors", "*", "*(*"]].concat());
        let results = lab.path("results");
        let mut run = dwell();
        run.args(["run", "--run-id", attention, "--prompt", PROMPT, "--ignore-end", "--threads", "1", "--model"]);
        run.arg(&lab.model).arg("-o").arg(&results).args(arguments);
        let output = run.output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        let run = Run { dir: results.join("model").join(attention) };
        let generated = run.batches(Table::Tokens).into_iter().flat_map(|batch| {
            let is_generated = column(&batch, "is_generated").as_boolean().clone();
            let ids = column(&batch, "token_id").as_primitive::<Int32Type>().clone();
            (0..batch.num_rows()).filter(move |&row| is_generated.value(row)).map(move |row| i64::from(ids.value(row)))
        });
        assert_eq!(captured.tokens, generated.collect::<Vec<_>>(), "flash attention {attention}");
    }
}

#[test]
fn a_permuted_tensor_comes_in_its_own_order() {
    let lab = Lab::new();
    let captured =
        lab.capture("a", &["--max-tokens", "1", "--codec", "none", "--tensors", "Qcur-0#3", "Qcur-0*(permuted)"]);
    let [original, permuted] = &captured.packets[..] else { panic!("{:?}", captured.packets.len()) };
    // Tokens and heads are exchanged.
    let [tokens, heads, size] = original.shape[..] else { panic!("{:?}", original.shape) };
    assert_eq!(permuted.shape, [heads, tokens, size]);
    let (original, permuted) = (original.floats(), permuted.floats());
    for token in 0..tokens {
        for head in 0..heads {
            let from = ((token * heads + head) * size) as usize;
            let to = ((head * tokens + token) * size) as usize;
            assert_eq!(original[from..from + size as usize], permuted[to..to + size as usize]);
        }
    }
}

#[test]
fn a_long_prompt_comes_in_the_pieces_that_it_is_computed_in() {
    let lab = Lab::new();
    let prompt = "abcdefghijklmnopqrstuvwxyz";
    let arguments = ["--max-tokens", "1", "--tensors", "l_out-0", "--prompt", prompt, "--codec", "none"];
    let whole = lab.capture("whole", &arguments);
    let cut = lab.capture("cut", &[&arguments[..], &["--micro-batch-size", "8"]].concat());
    let rows: Vec<u64> = cut.packets.iter().map(|packet| packet.shape[0]).collect();
    assert_eq!(rows.iter().sum::<u64>(), whole.packets[0].shape[0]);
    assert!(rows.len() > 1 && rows[..rows.len() - 1].iter().all(|&rows| rows == 8), "{rows:?}");
    assert!(cut.packets.iter().all(|packet| packet.step == 0));
    let joined: Vec<f32> = cut.packets.iter().flat_map(|packet| packet.floats()).collect();
    let expected = whole.packets[0].floats();
    // Other sizes of matrices are summed in another order.
    let is_close = |(one, other): (&f32, &f32)| (one - other).abs() <= 1e-3 * other.abs().max(1.0);
    assert_eq!(joined.len(), expected.len());
    assert!(joined.iter().zip(&expected).all(is_close));
}
