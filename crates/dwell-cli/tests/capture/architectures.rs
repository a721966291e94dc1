//! Groups mean the same in models that call them otherwise.

use dwell_gguf::{MakeArchitecture, MakeSpec};

use crate::lab::{Captured, Lab};

fn names(captured: &Captured) -> Vec<&str> {
    captured.packets.iter().filter(|packet| packet.step == 1).map(|packet| packet.name.as_str()).collect()
}

const GROUPS: [&str; 4] = ["--max-tokens", "2", "--tensors", "residual,attention,mlp,logits"];

#[test]
fn an_architecture_without_a_name_for_its_attention_output_has_one_by_its_weight() {
    let spec = MakeSpec { architecture: MakeArchitecture::Gemma3, layers: 1, embedding: 64, ..MakeSpec::default() };
    let captured = Lab::of(spec).capture("a", &GROUPS);
    assert_eq!(names(&captured), ["attn_out-0", "ffn_out-0", "l_out-0", "result_output"]);
    assert_eq!(captured.named("attn_out-0")[1].shape, [1, 64]);
}

#[test]
fn the_mlp_of_a_mixture_of_experts_is_its_weighted_sum() {
    let spec = MakeSpec { layers: 1, embedding: 64, experts: 4, experts_used: 2, ..MakeSpec::default() };
    let captured = Lab::of(spec).capture("a", &GROUPS);
    assert_eq!(names(&captured), ["attn_out-0", "ffn_moe_out-0", "l_out-0", "result_output"]);
}
