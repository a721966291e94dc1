use super::flags::{COMMAND, LONG, MORE};
use crate::limits::{PAYLOAD_MAX_BYTES, TOPIC_MAX_BYTES};

/// Bytes of a message; the rest are empty frames and the number of a batch.
const MESSAGE_MAX_BYTES: usize = PAYLOAD_MAX_BYTES + TOPIC_MAX_BYTES + 64;
/// Frames of a message: an empty one, topic, number, payload.
const FRAMES_MAX: usize = 4;
/// Flags and the longest length.
const HEADER_MAX_BYTES: usize = 9;

/// What a peer sends after its greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The frames of a message.
    Message(Vec<Vec<u8>>),
    /// The body of a command.
    Command(Vec<u8>),
    /// The beginning of a message with more bytes or frames than a batch has. The rest of it is passed over.
    Oversized,
}

/// A header that no peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame has the flags {flags:#04x} and a length of {length} bytes")]
pub struct Fault {
    flags: u8,
    length: u64,
}

/// Cuts the bytes of a connection into messages, however they come.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The part of a header that has come.
    header: Vec<u8>,
    /// The frame whose body is coming.
    body: Option<Body>,
    frames: Vec<Vec<u8>>,
    message_bytes: usize,
    is_oversized: bool,
}

#[derive(Debug)]
struct Body {
    flags: u8,
    missing_bytes: u64,
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes bytes, and appends what is whole now.
    pub fn push(&mut self, mut bytes: &[u8], incoming: &mut impl Extend<Incoming>) -> Result<(), Fault> {
        while !bytes.is_empty() {
            match &mut self.body {
                None => self.take_header(&mut bytes, incoming)?,
                Some(body) => {
                    let here =
                        usize::try_from(body.missing_bytes).map_or(bytes.len(), |missing| missing.min(bytes.len()));
                    let (taken, rest) = bytes.split_at(here);
                    if !self.is_oversized {
                        body.bytes.extend_from_slice(taken);
                    }
                    body.missing_bytes -= here as u64;
                    bytes = rest;
                }
            }
            if let Some(body) = self.body.take_if(|body| body.missing_bytes == 0) {
                self.end_frame(body, incoming);
            }
        }
        Ok(())
    }

    fn take_header(&mut self, bytes: &mut &[u8], incoming: &mut impl Extend<Incoming>) -> Result<(), Fault> {
        let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
        self.header.push(*first);
        *bytes = rest;
        let (flags, length) = match *self.header {
            [flags, length] if flags & LONG == 0 => (flags, u64::from(length)),
            [flags, ref length @ ..] if self.header.len() == HEADER_MAX_BYTES => {
                (flags, length.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
            }
            _ => return Ok(()),
        };
        self.header.clear();
        let is_known = flags & !(MORE | LONG | COMMAND) == 0 && flags & (COMMAND | MORE) != COMMAND | MORE;
        if !is_known || i64::try_from(length).is_err() {
            return Err(Fault { flags, length });
        }
        self.body = Some(Body { flags, missing_bytes: length, bytes: Vec::new() });
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.message_bytes = self.message_bytes.saturating_add(length);
        let is_too_much = self.message_bytes > MESSAGE_MAX_BYTES || self.frames.len() == FRAMES_MAX;
        if is_too_much && !std::mem::replace(&mut self.is_oversized, true) {
            self.frames = Vec::new();
            incoming.extend([Incoming::Oversized]);
        }
        Ok(())
    }

    fn end_frame(&mut self, body: Body, incoming: &mut impl Extend<Incoming>) {
        if !self.is_oversized {
            if body.flags & COMMAND != 0 {
                incoming.extend([Incoming::Command(body.bytes)]);
            } else {
                self.frames.push(body.bytes);
            }
        }
        if body.flags & MORE != 0 {
            return;
        }
        let frames = std::mem::take(&mut self.frames);
        if !self.is_oversized && !frames.is_empty() {
            incoming.extend([Incoming::Message(frames)]);
        }
        self.message_bytes = 0;
        self.is_oversized = false;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(pieces: &[&[u8]]) -> Result<Vec<Incoming>, Fault> {
        let (mut decoder, mut incoming) = (Decoder::default(), Vec::new());
        pieces.iter().try_for_each(|piece| decoder.push(piece, &mut incoming)).map(|()| incoming)
    }

    fn long_frame(flags: u8, body: &[u8]) -> Vec<u8> {
        [&[flags | LONG][..], &(body.len() as u64).to_be_bytes(), body].concat()
    }

    #[test]
    fn frames_become_messages_and_commands_stand_alone() {
        let bytes = [&[COMMAND, 2, 7, 8][..], &[MORE, 1, b't'], &long_frame(0, b"payload"), &[0, 0]].concat();
        let message = |frames: &[&[u8]]| Incoming::Message(frames.iter().map(|frame| frame.to_vec()).collect());
        let expected = vec![Incoming::Command(vec![7, 8]), message(&[b"t", b"payload"]), message(&[b""])];
        assert_eq!(decoded(&[&bytes]).unwrap(), expected);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decoded(&single).unwrap(), expected);
    }

    #[test]
    fn a_message_that_is_too_large_is_passed_over_and_the_next_one_is_whole() {
        let large = long_frame(MORE, &vec![1; MESSAGE_MAX_BYTES]);
        let bytes = [&large[..], &[MORE, 1, b'a', 0, 1, b'b', 0, 1, b'c']].concat();
        assert_eq!(decoded(&[&bytes]).unwrap(), [Incoming::Oversized, Incoming::Message(vec![b"c".to_vec()])]);
        let frames = [MORE, 0].repeat(1000);
        let bytes = [&frames[..], &[0, 0, 0, 1, b'c']].concat();
        assert_eq!(decoded(&[&bytes]).unwrap(), [Incoming::Oversized, Incoming::Message(vec![b"c".to_vec()])]);
    }

    #[test]
    fn a_header_that_no_peer_sends_is_a_fault() {
        for header in [&[8, 0][..], &[COMMAND | MORE, 0], &[LONG, 0xff, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(decoded(&[header]).is_err(), "{header:x?}");
        }
        let claimed = [&[LONG][..], &(1_u64 << 62).to_be_bytes(), b"no more"].concat();
        assert_eq!(decoded(&[&claimed]).unwrap(), [Incoming::Oversized]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(bytes in proptest::collection::vec(0_u8..9, 0..200), piece in 1_usize..20) {
            let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
            prop_assert_eq!(decoded(&pieces), decoded(&[&bytes]));
        }
    }
}
