//! What a publisher sends over ZeroMQ. The first byte says how long the pieces are; however the rest is cut, the same must
//! come out.

use dwell_kv_events::zmtp::{Decoder, Fault, Incoming};

pub(crate) fn run(bytes: &[u8]) {
    let Some((&length, rest)) = bytes.split_first() else { return };
    let whole = decoded([rest].into_iter());
    assert_eq!(whole, decoded(rest.chunks(usize::from(length).max(1))));
}

fn decoded<'a>(mut pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Incoming>, Result<(), Fault>) {
    let (mut decoder, mut incoming) = (Decoder::default(), Vec::new());
    let end = pieces.try_for_each(|piece| decoder.push(piece, &mut incoming));
    (incoming, end)
}
