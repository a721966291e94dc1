//! What there is to capture in a model.

use std::collections::HashMap;

use dwell_events::{DIMENSIONS, GraphNode};
use dwell_tensors::DType;
use serde::{Deserialize, Serialize};

use crate::group::{self, Group};
use crate::node::{NameParts, Names};

/// Dimensions that every tensor is given: rows and columns.
const LEAST_RANK: usize = 2;

/// A tensor of a model's graphs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTensor {
    /// The name that it is captured under.
    pub name: String,
    /// The layer, where the name has one.
    pub layer: Option<u32>,
    /// The group that takes it.
    pub group: Option<Group>,
    /// The operation that computes it.
    pub op: String,
    /// The engine's name of its type.
    pub type_name: String,
    /// Its lengths, outermost first.
    pub shape: Vec<Length>,
    /// Whether nobody named it: a view of another tensor.
    pub is_plain_view: bool,
}

/// A length of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Always the same.
    Fixed(u64),
    /// Changes with the number of tokens: in the trial's prompt it was this, in its decoded step that.
    Varying {
        /// In a prompt of several tokens.
        prompt: u64,
        /// With one token.
        decode: u64,
    },
}

impl Length {
    /// The length in a step of one token.
    pub(crate) fn of_one_token(self) -> u64 {
        match self {
            Length::Fixed(length) | Length::Varying { decode: length, .. } => length,
        }
    }

    /// The length in the trial's prompt.
    pub(crate) fn of_prompt(self) -> u64 {
        match self {
            Length::Fixed(length) | Length::Varying { prompt: length, .. } => length,
        }
    }
}

impl ListedTensor {
    /// The type of its elements; `None` for blocks that only the engine reads.
    pub fn dtype(&self) -> Option<DType> {
        dtype(&self.type_name)
    }

    /// Whether it is a tensor of a group that a prompt computes for its last position alone.
    pub(crate) fn has_last_position_only(&self) -> bool {
        self.group.is_some() && self.shape.iter().all(|length| matches!(length, Length::Fixed(_)))
    }
}

/// The type that ggml calls by this name.
fn dtype(type_name: &str) -> Option<DType> {
    Some(match type_name {
        "f32" => DType::F32,
        "f16" => DType::F16,
        "bf16" => DType::Bf16,
        "f64" => DType::F64,
        "i8" => DType::I8,
        "i16" => DType::I16,
        "i32" => DType::I32,
        "i64" => DType::I64,
        _ => return None,
    })
}

/// The tensors of a model, from the graphs of a prompt of several tokens and of one token.
///
/// A tensor has as many dimensions in every step as it has in the prompt, where lengths of 1 outside the others do not
/// count, and at least two.
pub fn listed(prompt: &[GraphNode<'_>], decode: &[GraphNode<'_>]) -> Vec<ListedTensor> {
    let decoded: HashMap<String, &GraphNode<'_>> = named(decode).into_iter().collect();
    let prompted = named(prompt);
    let known: std::collections::HashSet<&str> = prompted.iter().map(|(name, _)| name.as_str()).collect();
    let only_decoded = named(decode).into_iter().filter(|(name, _)| !known.contains(name.as_str()));
    let all: Vec<(String, &GraphNode<'_>)> = prompted.iter().cloned().chain(only_decoded).collect();
    let groups = group::groups(all.iter().map(|(name, _)| name.as_str()));
    all.iter()
        .map(|(name, node)| {
            let parts = NameParts::of(name);
            ListedTensor {
                name: name.clone(),
                layer: parts.layer,
                group: groups.get(name.as_str()).copied(),
                op: node.op.to_owned(),
                type_name: node.type_name.to_owned(),
                shape: lengths(node, decoded.get(name.as_str()).copied().unwrap_or(node)),
                is_plain_view: parts.is_plain_view(),
            }
        })
        .collect()
}

fn named<'a, 'n>(graph: &'a [GraphNode<'n>]) -> Vec<(String, &'a GraphNode<'n>)> {
    let mut names = Names::default();
    graph.iter().map(|node| (names.next(node), node)).collect()
}

fn lengths(prompt: &GraphNode<'_>, decode: &GraphNode<'_>) -> Vec<Length> {
    let rank = rank(&prompt.lengths).max(rank(&decode.lengths));
    let pairs = prompt.lengths.iter().zip(&decode.lengths).take(rank).rev();
    pairs
        .map(|(&prompt, &decode)| match prompt == decode {
            true => Length::Fixed(prompt),
            false => Length::Varying { prompt, decode },
        })
        .collect()
}

/// Dimensions without the outer ones of length 1.
fn rank(lengths: &[u64; DIMENSIONS]) -> usize {
    lengths.iter().rposition(|&length| length != 1).map_or(0, |last| last + 1).max(LEAST_RANK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, lengths: [u64; DIMENSIONS]) -> GraphNode<'_> {
        GraphNode { name: name.into(), op: "ADD", type_name: "f32", lengths, sources: Vec::new() }
    }

    #[test]
    fn a_tensor_has_the_same_rank_in_every_step() {
        let prompt =
            [node("Qcur-0", [64, 9, 3, 1]), node("l_out-0", [576, 3, 1, 1]), node("result_output", [99, 1, 1, 1])];
        let decode =
            [node("Qcur-0", [64, 9, 1, 1]), node("l_out-0", [576, 1, 1, 1]), node("result_output", [99, 1, 1, 1])];
        let shapes: Vec<Vec<Length>> = listed(&prompt, &decode).into_iter().map(|tensor| tensor.shape).collect();
        let tokens = Length::Varying { prompt: 3, decode: 1 };
        assert_eq!(shapes[0], [tokens, Length::Fixed(9), Length::Fixed(64)]);
        assert_eq!(shapes[1], [tokens, Length::Fixed(576)]);
        assert_eq!(shapes[2], [Length::Fixed(1), Length::Fixed(99)]);
    }

    #[test]
    fn tensors_that_only_one_graph_has_are_listed_too() {
        let names = |prompt: &[GraphNode<'_>], decode: &[GraphNode<'_>]| -> Vec<String> {
            listed(prompt, decode).into_iter().map(|tensor| tensor.name).collect()
        };
        let (one, other) = ([node("chunk-0", [4, 3, 1, 1])], [node("step-0", [4, 1, 1, 1])]);
        assert_eq!(names(&one, &other), ["chunk-0", "step-0"]);
    }
}
