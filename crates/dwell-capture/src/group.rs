//! Groups of tensors, whatever an architecture calls them.

use std::collections::HashMap;

use crate::node::NameParts;

dwell_events::choices! {
    /// A kind of tensor that most models have.
    Group {
        /// What goes from layer to layer.
        Residual = "residual",
        /// What attention adds to it.
        Attention = "attention",
        /// What the feed-forward part adds to it.
        Mlp = "mlp",
        /// The scores of the next token.
        Logits = "logits",
    }
}

impl Group {
    /// Names that architectures of llama.cpp use for it, best first: of each layer, the first of them that is there is
    /// taken.
    fn names(self) -> &'static [&'static str] {
        match self {
            Group::Residual => &["l_out", "layer_out", "nemotron_h_block_out"],
            Group::Attention => {
                &["attn_out", "attn_output", "linear_attn_out", "kda_out", "mla_out", "mamba_out", "kqv_wo", "kqv_out"]
            }
            Group::Mlp => &["ffn_out", "ffn_moe_out", "ffn_down"],
            Group::Logits => &["result_output"],
        }
    }
}

/// Which of these names belong to which group. Where a name comes several times, the last is the finished one.
pub(crate) fn groups<'a>(names: impl Iterator<Item = &'a str> + Clone) -> HashMap<&'a str, Group> {
    let mut found = HashMap::new();
    for group in Group::ALL {
        let mut best: HashMap<Option<u32>, (usize, u32, &str)> = HashMap::new();
        for name in names.clone() {
            let parts = NameParts::of(name);
            let Some(rank) = group.names().iter().position(|known| *known == parts.base) else { continue };
            let is_better = best.get(&parts.layer).is_none_or(|&(other_rank, other_number, _)| {
                rank < other_rank || rank == other_rank && parts.number > other_number
            });
            if is_better {
                best.insert(parts.layer, (rank, parts.number, name));
            }
        }
        found.extend(best.into_values().map(|(_, _, name)| (name, group)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_name_of_each_layer_is_taken() {
        let names = ["kqv_out-0", "attn_out-0", "ffn_out-0", "l_out-0", "kqv_out-1", "ffn_moe_out-1", "result_output"];
        let found = groups(names.into_iter());
        let of = |group| {
            let mut names: Vec<_> = found.iter().filter(|(_, found)| **found == group).map(|(name, _)| *name).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(of(Group::Attention), ["attn_out-0", "kqv_out-1"]);
        assert_eq!(of(Group::Mlp), ["ffn_moe_out-1", "ffn_out-0"]);
        assert_eq!(of(Group::Residual), ["l_out-0"]);
        assert_eq!(of(Group::Logits), ["result_output"]);
    }

    #[test]
    fn the_last_of_several_is_the_finished_one() {
        let found = groups(["attn_out-0", "attn_out-0#2"].into_iter());
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["attn_out-0#2"]);
    }
}
