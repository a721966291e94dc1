//! Text of valgrind's lackey.

use dwell_decode::error::DecodeError;
use dwell_decode::lackey::{LackeyAccess, LackeyDecoder};

pub(crate) fn run(bytes: &[u8]) {
    let mut decoder = LackeyDecoder::default();
    let mut accesses = 0;
    let mut take = |_: LackeyAccess| {
        accesses += 1;
        Ok::<(), DecodeError>(())
    };
    decoder.read(&mut &bytes[..], &mut take).expect("bytes in memory can be read");
    assert_eq!(decoder.counts().accesses(), accesses);
}
