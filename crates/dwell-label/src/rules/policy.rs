use dwell_events::{Hint, OpType};
use serde::{Deserialize, Serialize};

use super::Access;

/// What to do with accesses that nothing could label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownPolicy {
    /// They stay, as unknown.
    #[default]
    Keep,
    /// They are dropped and counted as loss.
    Skip,
    /// The first one ends the labelling.
    Error,
}

impl UnknownPolicy {
    /// Every policy.
    pub const ALL: [UnknownPolicy; 3] = [UnknownPolicy::Keep, UnknownPolicy::Skip, UnknownPolicy::Error];

    /// The name used in files and options.
    pub fn name(self) -> &'static str {
        match self {
            UnknownPolicy::Keep => "keep",
            UnknownPolicy::Skip => "skip",
            UnknownPolicy::Error => "error",
        }
    }

    /// The policy with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

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

impl From<&Access<'_>> for UnlabelledAccess {
    fn from(access: &Access<'_>) -> Self {
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
