use serde::{Deserialize, Serialize};

/// How the rows of a trace are ordered when they are pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOrder {
    /// By time, as collectors write them. Memory is bounded by what is distinct, not by rows.
    ///
    /// A row that is earlier than one before it is followed where it stands: time that would run backwards
    /// counts as none, and the row is counted in [`crate::MetricsReport::backward_rows`].
    #[default]
    Ascending,
    /// Any. Rows are kept until the end and then sorted by time and, where times are equal, by `sample_id`, at 56 bytes
    /// each. Without a `sample_id`, and by the definitions of mrm-trace, rows of the same time stay as they came.
    Any,
}

/// How a figure was obtained. The weakest of what went into a figure is the basis of the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Every access was seen.
    #[default]
    Exact,
    /// Accesses are known to the page.
    Page,
    /// Only one access in `period` was seen, or the trace does not say how many.
    Sampled,
    /// Something that was not seen was concluded: a store before the trace began, times between two reads.
    Inferred,
}

impl Basis {
    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Exact => "exact",
            Basis::Page => "page",
            Basis::Sampled => "sampled",
            Basis::Inferred => "inferred",
        }
    }
}
