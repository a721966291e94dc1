//! What a packet file lacks, in a JSON file beside it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::TokenMark;

/// Version of the file.
pub(super) const SIDECAR_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct Sidecar<'a> {
    pub(super) version: u32,
    /// How the packets are compressed.
    pub(super) codec: Cow<'a, str>,
    /// One for each packet of the file, in its order.
    pub(super) packets: Vec<PacketShape<'a>>,
    pub(super) tokens: Cow<'a, [TokenMark]>,
}

/// What a packet does not say about itself.
#[derive(Serialize, Deserialize)]
pub(super) struct PacketShape<'a> {
    pub(super) packet: u64,
    /// Of the elements as they are in the packet file.
    pub(super) dtype: Cow<'a, str>,
    pub(super) shape: Cow<'a, [u64]>,
    pub(super) step: u64,
    pub(super) token_index: Option<u64>,
    pub(super) layer: Option<i32>,
    pub(super) timestamp_ns: i64,
}

/// `X.shapes.json` for a packet file `X`.
pub fn sidecar_path(packets: &Path) -> PathBuf {
    let mut name = packets.as_os_str().to_owned();
    name.push(".shapes.json");
    PathBuf::from(name)
}
