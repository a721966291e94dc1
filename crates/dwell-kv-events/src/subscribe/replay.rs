//! Batches a second time, from the publisher's buffer.
//!
//! The publisher answers like a ROUTER to a REQ: an empty frame, then `number, payload`, in newer versions `topic,
//! number, payload`. It sends everything from the number that was asked for, then the number -1 without a payload.

use super::receiver::batch_of;
use crate::RawBatch;
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, ZmqError, ZmqMessage};

const END: [u8; 8] = (-1_i64).to_be_bytes();

/// An answer that is being received. Dropped, it is given up, and so is what the publisher has not sent yet.
pub(super) struct Replay {
    socket: DealerSocket,
}

impl Replay {
    /// Asks for everything from a number on.
    pub(super) async fn ask(endpoint: &str, first: u64) -> Result<Self, ZmqError> {
        let mut socket = DealerSocket::new();
        socket.connect(endpoint).await?;
        let mut request = ZmqMessage::from(Vec::new());
        request.push_back(first.to_be_bytes().to_vec().into());
        socket.send(request).await?;
        Ok(Self { socket })
    }

    /// What comes next.
    pub(super) async fn next(&mut self) -> Result<Reply, ZmqError> {
        let frames = self.socket.recv().await?.into_vec();
        // A REQ would have taken the empty frame away.
        let frames = match frames.split_first() {
            Some((first, rest)) if first.is_empty() && rest.len() >= 2 => rest,
            _ => &frames,
        };
        let number = frames.len().checked_sub(2).and_then(|place| frames.get(place));
        Ok(match number {
            Some(number) if number.as_ref() == END => Reply::End,
            _ => batch_of(frames).map_or(Reply::Malformed, Reply::Batch),
        })
    }
}

/// Part of an answer.
pub(super) enum Reply {
    Batch(RawBatch),
    Malformed,
    End,
}
