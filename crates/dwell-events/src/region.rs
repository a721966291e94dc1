use serde::{Deserialize, Serialize};

/// Whose memory an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionType {
    /// Intermediate results and inputs of the compute graph.
    Activation,
    /// Keys and values of past tokens.
    KvCache,
    /// What layers without attention keep of a sequence: written again with every token, of one size however long it is.
    RecurrentState,
    /// Memory of the runtime itself: allocator, tables.
    Runtime,
    /// Not attributed. Never called suitable for anything.
    Unknown,
    /// Model parameters.
    Weight,
    /// Memory that kernels use beside the tensors: copies of activations in another type, partial sums.
    WorkBuffer,
}

impl RegionType {
    /// Every region type, in the alphabetical order in which tables list them.
    pub const ALL: [RegionType; 7] = [
        RegionType::Activation,
        RegionType::KvCache,
        RegionType::RecurrentState,
        RegionType::Runtime,
        RegionType::Unknown,
        RegionType::Weight,
        RegionType::WorkBuffer,
    ];

    /// What a column of region types holds, for data dictionaries.
    pub const MEANING: &str =
        "`weight`, `kv_cache`, `recurrent_state`, `activation`, `work_buffer`, `runtime` or `unknown`";

    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            RegionType::Activation => "activation",
            RegionType::KvCache => "kv_cache",
            RegionType::RecurrentState => "recurrent_state",
            RegionType::Runtime => "runtime",
            RegionType::Unknown => "unknown",
            RegionType::Weight => "weight",
            RegionType::WorkBuffer => "work_buffer",
        }
    }

    /// The region type with this name, or `None` for a name that is not one of ours.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|region| region.name() == name)
    }
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpType {
    /// Bytes were read.
    Load,
    /// Bytes were written.
    Store,
}

impl OpType {
    /// Both directions.
    pub const ALL: [OpType; 2] = [OpType::Load, OpType::Store];

    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            OpType::Load => "load",
            OpType::Store => "store",
        }
    }
}
