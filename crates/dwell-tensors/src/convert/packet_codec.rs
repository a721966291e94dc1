//! The codecs of packet files.

use std::io::{self, Read, Write};

/// The most that one packet is unpacked to where nothing tells its size.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;
/// The level that the writers of such files use.
const ZSTD_LEVEL: i32 = 3;

dwell_events::choices! {
    /// How the packets of a packet file are compressed. The file itself does not say.
    PacketCodec {
        /// Not at all.
        None = "none",
        /// One LZ4 frame each.
        Lz4 = "lz4",
        /// One zstd frame each.
        Zstd = "zstd",
    }
}

impl PacketCodec {
    pub(super) fn pack(self, elements: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(elements.to_vec()),
            Self::Lz4 => {
                let frame = lz4_flex::frame::FrameInfo::new().content_size(Some(elements.len() as u64));
                let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
                encoder.write_all(elements)?;
                encoder.finish().map_err(io::Error::other)
            }
            Self::Zstd => zstd::bulk::compress(elements, ZSTD_LEVEL),
        }
    }

    /// The elements of a packet, of so many bytes if that is known.
    pub(super) fn unpack(self, data: &[u8], raw_bytes: Option<u64>) -> Result<Vec<u8>, String> {
        let limit = raw_bytes.unwrap_or(MAX_UNPACKED_BYTES);
        let unpacked = match self {
            Self::None => data.to_vec(),
            Self::Lz4 => read_at_most(lz4_flex::frame::FrameDecoder::new(data), limit)?,
            Self::Zstd => {
                let decoder = zstd::Decoder::with_buffer(data).map_err(|error| error.to_string())?;
                read_at_most(decoder, limit)?
            }
        };
        let length = unpacked.len() as u64;
        match raw_bytes {
            Some(expected) if expected != length => {
                Err(format!("{length} bytes of elements, and {expected} were needed"))
            }
            _ if length > limit => Err(format!("more than {limit} bytes of elements")),
            _ => Ok(unpacked),
        }
    }
}

fn read_at_most(from: impl Read, limit: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
