//! Bytes that come in pieces, as from a network.

use dwell_servers::{DecodeError, Decoder};

/// Lines and events of at most this many bytes.
pub(crate) const LIMIT_BYTES: usize = 4096;

/// The first byte says how long the pieces are. However the rest is cut, the same must come out.
pub(crate) fn check<D: Decoder>(bytes: &[u8], decoder: impl Fn() -> D)
where
    D::Item: PartialEq + std::fmt::Debug,
{
    let Some((&length, rest)) = bytes.split_first() else { return };
    let whole = decoded(decoder(), [rest].into_iter());
    let pieces = decoded(decoder(), rest.chunks(usize::from(length).max(1)));
    assert_eq!(whole, pieces);
}

fn decoded<'a, D: Decoder>(
    mut decoder: D,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<D::Item>, Result<(), DecodeError>) {
    let mut items = Vec::new();
    for piece in pieces {
        if let Err(error) = decoder.push(piece, &mut items) {
            return (items, Err(error));
        }
    }
    let end = decoder.finish(&mut items);
    (items, end)
}
