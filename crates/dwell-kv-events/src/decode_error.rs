/// Why a payload is no batch of KV cache events. It costs its batch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It ends inside a value.
    #[error("decoding KV events found the end of the payload after {found_bytes} bytes, and more was needed")]
    Truncated {
        /// Size of the payload.
        found_bytes: usize,
    },
    /// It goes on after the batch.
    #[error("decoding KV events found {bytes} bytes after the batch, and none were needed")]
    TrailingBytes {
        /// How many.
        bytes: usize,
    },
    /// More than one message may hold.
    #[error("decoding KV events found {found} {what}, and at most {limit} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are, or are claimed to be.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A value of another type than its place asks for.
    #[error("decoding KV events found {found} as {field}, and {needed} was needed")]
    Unfit {
        /// Which value.
        field: &'static str,
        /// What it is.
        found: &'static str,
        /// What it should be.
        needed: &'static str,
    },
    /// A field without which the rest says nothing.
    #[error("decoding KV events found no {field}, and {of} needs it")]
    MissingField {
        /// Which.
        field: &'static str,
        /// Of what.
        of: &'static str,
    },
    /// A line that is no JSON.
    #[error("decoding KV events found no JSON ({reason})")]
    NotJson {
        /// What is wrong with it.
        reason: String,
    },
}
