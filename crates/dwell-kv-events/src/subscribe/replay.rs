//! Batches a second time, from the publisher's buffer.
//!
//! The publisher answers like a ROUTER to a REQ: an empty frame, then `number, payload`, in newer versions `topic,
//! number, payload`. It sends everything from the number that was asked for, then the number -1 without a payload.

use std::io;

use super::receiver::batch_of;
use crate::RawBatch;
use crate::zmtp::{Connection, Incoming, Role};

const END: [u8; 8] = (-1_i64).to_be_bytes();

/// An answer that is being received. Dropped, it is given up, and so is what the publisher has not sent yet.
pub(super) struct Replay {
    connection: Connection,
}

impl Replay {
    /// Asks for everything from a number on.
    pub(super) async fn ask(endpoint: &str, first: u64) -> io::Result<Self> {
        let mut connection = Connection::open(endpoint, Role::Dealer).await?;
        connection.send(&[&[], &first.to_be_bytes()]).await?;
        Ok(Self { connection })
    }

    /// What comes next.
    pub(super) async fn next(&mut self) -> io::Result<Reply> {
        let mut frames = loop {
            match self.connection.receive().await? {
                Incoming::Message(frames) => break frames,
                Incoming::Oversized => return Ok(Reply::Malformed),
                Incoming::Command(_) => {}
            }
        };
        // A REQ would have taken the empty frame away.
        if frames.len() > 2 && frames.first().is_some_and(Vec::is_empty) {
            frames.remove(0);
        }
        let number = frames.len().checked_sub(2).and_then(|place| frames.get(place));
        Ok(match number {
            Some(number) if *number == END => Reply::End,
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
