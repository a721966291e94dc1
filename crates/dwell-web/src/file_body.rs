//! A part of a file as the body of an answer, read while it is sent: however large the file, a piece is in memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

/// How much is read at once.
const PIECE_BYTES: u64 = 128 << 10;

/// Bytes of a file that are still to be sent.
pub(crate) struct FileBody {
    file: Arc<File>,
    rest: Range<u64>,
    /// The piece that is being read, on another thread: a disk may be slow.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileBody {
    pub(crate) fn new(file: File, part: Range<u64>) -> Self {
        Self { file: Arc::new(file), rest: part, reading: None }
    }

    fn read_next(&self) -> JoinHandle<io::Result<Bytes>> {
        let (file, begin) = (self.file.clone(), self.rest.start);
        let length = (self.rest.end - begin).min(PIECE_BYTES);
        spawn_blocking(move || {
            let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
            // A file that became shorter ends the connection: what was announced cannot be sent.
            file.read_exact_at(&mut piece, begin)?;
            Ok(piece.into())
        })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        if body.is_end_stream() {
            return Poll::Ready(None);
        }
        if body.reading.is_none() {
            body.reading = Some(body.read_next());
        }
        let Some(reading) = &mut body.reading else { return Poll::Ready(None) };
        let piece = ready!(Pin::new(reading).poll(context)).unwrap_or_else(|error| Err(io::Error::other(error)));
        body.reading = None;
        Poll::Ready(Some(piece.map(|piece| {
            body.rest.start += piece.len() as u64;
            Frame::data(piece)
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.end - self.rest.start)
    }
}
