/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the record does.
    Short,
    /// An index points outside its list.
    BadIndex,
    /// Bytes are left over.
    Long,
    /// A number that stands for something stands for nothing known.
    Value,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            DecodeError::Short => "the record is shorter than it says",
            DecodeError::BadIndex => "the record points outside itself",
            DecodeError::Long => "the record is longer than it says",
            DecodeError::Value => "the record holds a number with no known meaning",
        })
    }
}

impl std::error::Error for DecodeError {}
