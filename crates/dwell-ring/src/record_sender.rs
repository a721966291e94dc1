//! Records on their way into a ring.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dwell_clock::monotonic_ns;
use dwell_records::{Kind, frame_header};

use crate::{Producer, RingError};

/// Sends the records of this process, numbered without gaps, from any thread.
///
/// An engine that reports events needs nothing else; a recorder sends what it saw through the same one, so that the
/// numbers tell the order of both.
pub struct RecordSender {
    channel: Mutex<Channel>,
}

struct Channel {
    ring: Producer,
    next_sequence: u64,
}

impl RecordSender {
    /// Makes the ring of this process in `folder`.
    pub fn create(folder: &Path, observer_pid: u32, capacity_bytes: usize) -> Result<Self, RingError> {
        let ring = Producer::create(folder, observer_pid, capacity_bytes)?;
        Ok(Self { channel: Mutex::new(Channel { ring, next_sequence: 0 }) })
    }

    /// Sends one record; waits while the ring is full. False if the observer is gone and it was not sent.
    pub fn send(&self, kind: Kind, payload: &[u8]) -> bool {
        let channel = self.lock();
        // Taken with the lock held, so that times of one process do not go back.
        send_in(channel, kind, monotonic_ns(), payload)
    }

    /// Sends a record of something that happened at this time.
    pub fn send_at(&self, kind: Kind, time_ns: u64, payload: &[u8]) -> bool {
        send_in(self.lock(), kind, time_ns, payload)
    }
    /// Says that a graph is about to be computed; see [`Producer::mark_graph_begun`].
    pub fn mark_graph_begun(&self, node_marks_address: u64) {
        self.lock().ring.mark_graph_begun(node_marks_address);
    }

    /// Says that a graph was computed.
    pub fn mark_graph_ended(&self) {
        self.lock().ring.mark_graph_ended();
    }

    fn lock(&self) -> MutexGuard<'_, Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send_in(mut channel: MutexGuard<'_, Channel>, kind: Kind, time_ns: u64, payload: &[u8]) -> bool {
    let header = frame_header(kind, channel.next_sequence, time_ns, payload.len());
    channel.next_sequence += 1;
    channel.ring.write(&[&header, payload])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dwell_records::split_frame;

    use super::*;
    use crate::{Consumer, file_name};

    #[test]
    fn records_of_all_threads_are_numbered_without_gaps() {
        let folder = std::env::temp_dir().join(format!("dwell-sender-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let sender = Arc::new(RecordSender::create(&folder, std::process::id(), 1 << 16).unwrap());
        let threads = [Kind::Engine, Kind::Step].map(|kind| {
            let sender = sender.clone();
            std::thread::spawn(move || (0..100u8).all(|number| sender.send(kind, &[number])))
        });
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        let mut bytes = Vec::new();
        Consumer::open(&folder.join(file_name(std::process::id()))).unwrap().peek(0, &mut bytes);
        let (mut rest, mut frames) = (&bytes[..], Vec::new());
        while let Some((frame, after)) = split_frame(rest).unwrap() {
            frames.push((frame.sequence, frame.kind, frame.payload[0]));
            rest = after;
        }
        assert!(frames.iter().map(|frame| frame.0).eq(0..200));
        for kind in [Kind::Engine, Kind::Step] {
            let of_kind = frames.iter().filter(|frame| frame.1 == kind as u16).map(|frame| frame.2);
            assert!(of_kind.eq(0..100), "each thread's records keep their order");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_happened_before_it_was_sent_keeps_its_time() {
        let folder = std::env::temp_dir().join(format!("dwell-sender-at-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let sender = RecordSender::create(&folder, std::process::id(), 1 << 16).unwrap();
        assert!(sender.send_at(Kind::Engine, 9, b"late") && sender.send_at(Kind::Engine, 7, b"earlier"));
        let mut bytes = Vec::new();
        Consumer::open(&folder.join(file_name(std::process::id()))).unwrap().peek(0, &mut bytes);
        let (first, rest) = split_frame(&bytes).unwrap().unwrap();
        let (second, _) = split_frame(rest).unwrap().unwrap();
        assert_eq!([(first.sequence, first.time_ns), (second.sequence, second.time_ns)], [(0, 9), (1, 7)]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
