//! What computations loaded and stored of the KV cache.

use serde::{Deserialize, Serialize};

/// What computations loaded and stored of the KV cache. Attention in separate operations loads every cell up to the next
/// multiple of the runtime's padding, whether a token is in it or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvAccesses {
    /// Loaded from cells that held a token.
    pub loaded_occupied_bytes: u64,
    /// Loaded from cells that held none.
    pub loaded_unoccupied_bytes: u64,
    /// Keys and values stored for tokens that were computed.
    pub stored_bytes: u64,
    /// Those tokens.
    pub stored_tokens: u64,
}

impl KvAccesses {
    /// Keys and values of one token.
    pub fn bytes_per_token(&self) -> Option<f64> {
        (self.stored_tokens > 0).then(|| self.stored_bytes as f64 / self.stored_tokens as f64)
    }
}
