//! Which tensors, which steps, which part.

use crate::common::{dwell, text_of};
use crate::lab::{Captured, EMBEDDING, Lab};

fn names(captured: &Captured) -> Vec<&str> {
    captured.packets.iter().filter(|packet| packet.step == 1).map(|packet| packet.name.as_str()).collect()
}

fn steps(captured: &Captured) -> Vec<u64> {
    captured.packets.iter().map(|packet| packet.step).collect()
}

#[test]
fn groups_and_globs_choose_the_same() {
    let lab = Lab::new();
    let of = |name: &str, tensors: &[&str]| lab.capture(name, &[&["--max-tokens", "3", "--tensors"], tensors].concat());
    let groups = of("groups", &["residual,attention,mlp,logits"]);
    let layer = |n| [format!("attn_out-{n}"), format!("ffn_out-{n}"), format!("l_out-{n}")];
    let expected: Vec<String> = (0..3).flat_map(layer).chain(["result_output".to_owned()]).collect();
    assert_eq!(names(&groups), expected);
    let globs = of("globs", &["l_out-*", "attn_out-?", "ffn_out-[0-2]", "result_output"]);
    assert!(groups.packets == globs.packets);
}

#[test]
fn layers_are_chosen_where_there_are_any() {
    let captured =
        Lab::new().capture("a", &["--max-tokens", "2", "--tensors", "residual", "logits", "--layers", "0,2"]);
    assert_eq!(names(&captured), ["l_out-0", "l_out-2", "result_output"]);
}

#[test]
fn steps_are_chosen_by_phase_and_number() {
    let lab = Lab::new();
    let of = |name: &str, arguments: &[&str]| {
        let tensors = ["--max-tokens", "8", "--tensors", "l_out-0"];
        steps(&lab.capture(name, &[&tensors[..], arguments].concat()))
    };
    assert_eq!(of("prompt", &["--phase", "prompt"]), [0]);
    assert_eq!(of("decode", &["--phase", "decode"]), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(of("every", &["--every", "3"]), [0, 3, 6]);
    assert_eq!(of("both", &["--every", "3", "--phase", "decode"]), [3, 6]);
    let none = lab.command("none", &["--max-tokens", "8", "--every", "9", "--phase", "decode"]).output().unwrap();
    assert!(text_of(&none).contains("nothing was captured"), "{}", text_of(&none));
}

#[test]
fn a_slice_is_that_of_the_whole() {
    let lab = Lab::new();
    let arguments = ["--max-tokens", "3", "--codec", "none", "--tensors", "l_out-0"];
    let whole = lab.capture("whole", &arguments);
    let slice = |name: &str, slice: &str| lab.capture(name, &[&arguments[..], &["--slice", slice]].concat());
    let (coarse, last) = (slice("coarse", "::2, 1::3"), slice("last", "-1"));
    assert_eq!((coarse.packets.len(), last.packets.len()), (3, 3));
    for ((whole, coarse), last) in whole.packets.iter().zip(&coarse.packets).zip(&last.packets) {
        let (rows, width) = (whole.shape[0] as usize, EMBEDDING as usize);
        let values = whole.floats();
        let expected: Vec<f32> = (0..rows)
            .step_by(2)
            .flat_map(|row| (1..width).step_by(3).map(move |column| row * width + column))
            .map(|place| values[place])
            .collect();
        assert_eq!(coarse.shape, [rows.div_ceil(2) as u64, (width - 1).div_ceil(3) as u64]);
        assert_eq!(coarse.floats(), expected);
        assert_eq!(last.shape, [EMBEDDING]);
        assert_eq!(last.floats(), values[(rows - 1) * width..]);
    }
}

#[test]
fn of_a_prompt_in_pieces_the_last_one_alone_has_logits() {
    let lab = Lab::new();
    let prompt = "word ".repeat(10);
    let arguments = ["--max-tokens", "2", "--codec", "none", "--tensors", "logits", "--prompt", &prompt];
    let slice = |name: &str, size: &str| {
        lab.capture(name, &[&arguments[..], &["--slice", "-1", "--micro-batch-size", size]].concat())
    };
    let (whole, pieces) = (slice("whole", "512"), slice("pieces", "4"));
    assert_eq!((steps(&whole), steps(&pieces)), (vec![0, 1], vec![0, 1]));
    assert_eq!(pieces.tokens, whole.tokens);
}

#[test]
fn the_list_names_what_can_be_captured() {
    let lab = Lab::new();
    let output = dwell().args(["capture", "--list", "--json", "--model"]).arg(&lab.model).output().unwrap();
    assert!(output.status.success());
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| listed.iter().find(|tensor| tensor["name"] == name).unwrap();
    assert_eq!((&of("l_out-1")["group"], &of("l_out-1")["layer"]), (&"residual".into(), &1.into()));
    assert_eq!((&of("attn_out-0")["op"], &of("attn_out-0")["type_name"]), (&"MUL_MAT".into(), &"f32".into()));
    assert_eq!(of("kqv_out-0")["group"], serde_json::Value::Null);
    let everything = lab.capture("all", &["--max-tokens", "2", "--tensors", "*"]);
    let named: Vec<&str> = listed
        .iter()
        .filter(|tensor| tensor["is_plain_view"] == false)
        .map(|tensor| tensor["name"].as_str().unwrap())
        .collect();
    let mut captured = names(&everything);
    captured.sort_unstable();
    let mut expected = named.clone();
    expected.sort_unstable();
    assert_eq!(captured, expected);
}
