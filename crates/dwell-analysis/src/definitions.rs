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
