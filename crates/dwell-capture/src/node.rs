//! The names that the tensors of a graph are captured under.

use std::collections::HashMap;

use dwell_events::GraphNode;

/// Beginning of the names that ggml gives to tensors without one.
const UNNAMED: &str = "node_";
/// Between the name of a tensor and its number among those of the same name.
const NUMBER_MARK: char = '#';

/// Gives the tensors of one graph, in their order, the names that they are captured under: each has its own.
#[derive(Debug, Default)]
pub struct Names {
    seen: HashMap<String, u32>,
}

impl Names {
    /// Begins another graph.
    pub fn begin_graph(&mut self) {
        self.seen.values_mut().for_each(|times| *times = 0);
    }

    /// The name of the next tensor: the second of the same name gets `#2`, and so on.
    pub fn next(&mut self, node: &GraphNode<'_>) -> String {
        let name = role(node).unwrap_or_else(|| node.name.clone().into_owned());
        let times = self.seen.entry(name.clone()).or_insert(0);
        *times += 1;
        if *times == 1 { name } else { format!("{name}{NUMBER_MARK}{times}") }
    }
}

/// What an unnamed tensor is, by the weight that it is computed with: not every architecture of llama.cpp names the
/// output of attention.
fn role(node: &GraphNode<'_>) -> Option<String> {
    if !node.name.starts_with(UNNAMED) {
        return None;
    }
    node.sources.iter().find_map(|source| {
        if matches!(&**source, "output.weight" | "token_embd.weight") && node.op == "MUL_MAT" {
            return Some("result_output".to_owned());
        }
        let (layer, weight) = source.strip_prefix("blk.")?.split_once('.')?;
        let is_output = weight.starts_with("attn_output.") || weight.starts_with("attn_out.");
        is_output.then(|| format!("attn_out-{layer}"))
    })
}

/// A captured name apart: `Qcur-3#2` is `Qcur`, of layer 3, the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameParts<'a> {
    /// Without layer and number.
    pub base: &'a str,
    /// The layer, where the name has one.
    pub layer: Option<u32>,
    /// Its number among the tensors of the same name, from 1.
    pub number: u32,
}

impl<'a> NameParts<'a> {
    /// Takes a captured name apart.
    pub fn of(name: &'a str) -> Self {
        let numbered = name.rsplit_once(NUMBER_MARK).and_then(|(rest, number)| Some((rest, number.parse().ok()?)));
        let (name, number) = numbered.unwrap_or((name, 1));
        let layered = name.rsplit_once('-').and_then(|(base, layer)| Some((base, layer.parse().ok()?)));
        match layered {
            Some((base, layer)) => Self { base, layer: Some(layer), number },
            None => Self { base: name, layer: None, number },
        }
    }

    /// Whether nobody named it: a view of a named tensor, such as `l_out-3 (view)`.
    pub fn is_plain_view(&self) -> bool {
        self.base.ends_with(')') && self.base.contains(" (")
    }
}

#[cfg(test)]
mod tests {
    use dwell_events::DIMENSIONS;

    use super::*;

    fn node<'a>(name: &'a str, op: &'static str, sources: &[&'a str]) -> GraphNode<'a> {
        let sources = sources.iter().map(|&source| source.into()).collect();
        GraphNode { name: name.into(), op, type_name: "f32", lengths: [1; DIMENSIONS], sources }
    }

    #[test]
    fn tensors_of_the_same_name_are_numbered_anew_in_each_graph() {
        let mut names = Names::default();
        for _ in 0..2 {
            names.begin_graph();
            let given = ["Qcur-0", "Qcur-1", "Qcur-0"].map(|name| names.next(&node(name, "ADD", &[])));
            assert_eq!(given, ["Qcur-0", "Qcur-1", "Qcur-0#2"]);
        }
    }

    #[test]
    fn an_unnamed_output_is_known_by_its_weight() {
        let mut names = Names::default();
        let matrix = node("node_31", "MUL_MAT", &["blk.7.attn_output.weight", "kqv_out-7"]);
        let bias = node("node_32", "ADD", &["attn_out-7", "blk.7.attn_output.bias"]);
        let logits = node("node_99", "MUL_MAT", &["output.weight", "result_norm"]);
        let given = [&matrix, &bias, &logits].map(|node| names.next(node));
        assert_eq!(given, ["attn_out-7", "attn_out-7#2", "result_output"]);
        assert_eq!(names.next(&node("mine", "MUL_MAT", &["blk.7.attn_output.weight"])), "mine");
        assert_eq!(names.next(&node("node_5", "GET_ROWS", &["token_embd.weight"])), "node_5");
    }

    #[test]
    fn names_come_apart() {
        let parts = |base, layer, number| NameParts { base, layer, number };
        assert_eq!(NameParts::of("Qcur-3#2"), parts("Qcur", Some(3), 2));
        assert_eq!(NameParts::of("result_output"), parts("result_output", None, 1));
        assert_eq!(NameParts::of("a-b"), parts("a-b", None, 1));
        assert!(NameParts::of("l_out-3 (view)").is_plain_view());
        assert!(!NameParts::of("ffn_sqr(relu)-3").is_plain_view());
    }
}
