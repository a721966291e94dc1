use dwell_events::schema::trace::TraceRow;
use dwell_events::{Hint, OpType};

/// An access that nothing could label, where that is an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "labelling found a {} of address {address:#x} at {timestamp_ns} ns by symbol {symbol:?} of {dso:?} \
     that no rule, range or page says anything about",
    op_type.name()
)]
pub struct UnlabelledAccess {
    /// When it was made.
    pub timestamp_ns: u64,
    /// First byte.
    pub address: u64,
    /// Load or store.
    pub op_type: OpType,
    /// What made the access.
    pub symbol: String,
    /// Where that code lives.
    pub dso: String,
}

impl From<&TraceRow<'_>> for UnlabelledAccess {
    fn from(access: &TraceRow<'_>) -> Self {
        Self {
            timestamp_ns: access.timestamp_ns,
            address: access.address,
            op_type: access.op_type,
            symbol: access.symbol.to_owned(),
            dso: access.dso.to_owned(),
        }
    }
}

impl Hint for UnlabelledAccess {
    fn hints(&self) -> Vec<String> {
        vec![
            "add a rule for the symbol, or a range for the address, to the rules file".to_owned(),
            "keep such accesses as unknown with the policy `keep`, or drop and count them with `skip`".to_owned(),
        ]
    }
}
