use std::borrow::Cow;

/// Dimensions of a tensor of a graph.
pub const DIMENSIONS: usize = 4;

/// A tensor of a graph, before it is computed, as an engine tells of it.
///
/// It borrows from the graph where one is being computed, since every tensor of every graph is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode<'graph> {
    /// Its name in the graph, such as `l_out-3`; not unique.
    pub name: Cow<'graph, str>,
    /// The operation that computes it, such as `MUL_MAT`.
    pub op: &'static str,
    /// The engine's name of its type, such as `f32`.
    pub type_name: &'static str,
    /// Its lengths, innermost first.
    pub lengths: [u64; DIMENSIONS],
    /// Names of the tensors that it is computed from.
    pub sources: Vec<Cow<'graph, str>>,
}

impl GraphNode<'_> {
    /// The same, independent of the graph.
    pub fn into_owned(self) -> GraphNode<'static> {
        let owned = |name: Cow<'_, str>| Cow::Owned(name.into_owned());
        GraphNode {
            name: owned(self.name),
            op: self.op,
            type_name: self.type_name,
            lengths: self.lengths,
            sources: self.sources.into_iter().map(owned).collect(),
        }
    }
}
