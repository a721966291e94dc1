//! Encoding.

use dwell_codec::{Codec, Encoded, Encoder};

use super::grant::Lease;
use super::parcel::{EncodedParcel, Item, Parcel, Source};
use super::pipe::Pipe;
use crate::container::Row;

/// Encodes parcels until there are no more. A thread `dwell-encode`.
pub(super) fn encode_parcels(pipe: &Pipe) {
    let mut encoder = Encoder::default();
    while let Some(parcel) = pipe.work.pop() {
        // After a failure nothing is written any more; what waits is let go.
        if !pipe.failure.is_set() {
            pipe.reorder.put(encode(pipe.options.codec, &mut encoder, parcel));
        }
    }
}

fn encode(codec: Codec, encoder: &mut Encoder, parcel: Parcel) -> EncodedParcel {
    let Parcel { place, items, source, payload_room, mut lease, flush_end, began } = parcel;
    let mut rest = source.bytes();
    let mut payload_room = payload_room.filter(|_| codec != Codec::None);
    if let Some(room) = &mut payload_room {
        room.bytes.clear();
    }
    let mut row_of = |item| match item {
        Item::Note(row) => row,
        Item::Tensor { packet, head, raw_bytes } => {
            let raw = rest.split_off(..raw_bytes).unwrap_or_default();
            let (encoded, payload) = match &mut payload_room {
                Some(room) => {
                    let start = room.bytes.len();
                    let encoded = encoder.encode(codec, head.dtype, head.row_length(), raw, &mut room.bytes);
                    (encoded, &room.bytes[start..])
                }
                None => (Encoded::lossless(Codec::None), raw),
            };
            Row::Tensor { packet, crc32c: crc32c::crc32c(payload), payload_bytes: payload.len() as u64, head, encoded }
        }
    };
    let rows = items.into_iter().map(&mut row_of).collect();
    let payload = match payload_room {
        Some(room) => {
            let_go(source, lease.as_mut());
            Source::Encoded(room)
        }
        None => source,
    };
    EncodedParcel { place, rows, payload, lease, flush_end, began }
}

/// Elements that have been encoded are not needed while their payload waits to be written.
fn let_go(source: Source, lease: Option<&mut Lease>) {
    let foreign_bytes = match &source {
        Source::Foreign(elements) => elements.bytes().len() as u64,
        _ => 0,
    };
    drop(source);
    if let Some(lease) = lease {
        lease.give_back(foreign_bytes);
    }
}
