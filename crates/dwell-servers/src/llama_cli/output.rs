//! What the program writes, as pieces of text.
//!
//! The program writes each token by itself, from a thread that it does not wait for: one run in ten ends before its last
//! words are out.

use std::io::Read as _;
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use dwell_clock::monotonic_ns;

use super::frame::Frame;
use crate::Interruption;
use crate::client::Piece;

/// How often the interruption is looked at while nothing comes.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The output of a program.
pub(super) struct Output {
    bytes: Receiver<(u64, Vec<u8>)>,
    /// A character that is not whole yet.
    partial: Vec<u8>,
    frame: Frame,
}

/// What a wait for output brings.
pub(super) enum Read {
    /// Text.
    Piece(Piece),
    /// The output was closed.
    End,
    /// Waiting was ended from outside.
    Interrupted,
}

impl Output {
    /// Reads on a thread of its own, which takes the times.
    pub(super) fn new(stdout: Option<ChildStdout>, frame: Frame) -> Self {
        let (sender, bytes) = channel();
        if let Some(stdout) = stdout {
            thread::spawn(move || read_all(stdout, &sender));
        }
        Self { bytes, partial: Vec::new(), frame }
    }

    /// Waits for the next piece.
    pub(super) fn next(&mut self, interruption: &Interruption) -> Read {
        loop {
            if interruption.is_interrupted() {
                return Read::Interrupted;
            }
            let (arrived_ns, text) = match self.bytes.recv_timeout(LOOK_INTERVAL) {
                Ok((arrived_ns, bytes)) => {
                    self.partial.extend_from_slice(&bytes);
                    (arrived_ns, self.frame.push(&take_whole_characters(&mut self.partial)))
                }
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => match self.frame.finish() {
                    Some(text) => (monotonic_ns(), Some(text)),
                    None => return Read::End,
                },
            };
            if let Some(text) = text {
                return Read::Piece(Piece { arrived_ns, text, tokens: 1, ..Piece::default() });
            }
        }
    }

    /// Whether the end of the text was written.
    pub(super) fn is_whole(&self) -> bool {
        self.frame.is_whole()
    }
}

fn read_all(mut stdout: ChildStdout, sender: &Sender<(u64, Vec<u8>)>) {
    let mut buffer = [0; 4096];
    // A pipe that breaks is a program that ended, which its exit status tells.
    while let Ok(length @ 1..) = stdout.read(&mut buffer) {
        if sender.send((monotonic_ns(), buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

/// Takes the part that is valid; bytes that can never become a character are replaced.
fn take_whole_characters(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(whole) => {
                text.push_str(whole);
                bytes.clear();
                return text;
            }
            Err(error) => {
                let (valid, _) = bytes.split_at(error.valid_up_to());
                text.push_str(&String::from_utf8_lossy(valid));
                let invalid = error.error_len();
                bytes.drain(..error.valid_up_to() + invalid.unwrap_or(0));
                match invalid {
                    Some(_) => text.push(char::REPLACEMENT_CHARACTER),
                    None => return text,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_come_whole() {
        let mut partial = "a€".as_bytes()[..2].to_vec();
        assert_eq!(take_whole_characters(&mut partial), "a");
        partial.extend_from_slice(&"€".as_bytes()[1..]);
        assert_eq!(take_whole_characters(&mut partial), "€");
        partial.extend_from_slice(b"\xffb\xe2");
        assert_eq!(take_whole_characters(&mut partial), "\u{fffd}b");
        assert_eq!(partial, [0xe2]);
    }
}
