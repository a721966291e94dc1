//! Messages in a stream of bytes: JSON texts, each followed by a NUL.

use std::io::{self, BufRead};

/// Longest message that is read. The longest that the protocol sends here are reports of a page, a few kilobytes.
pub(crate) const MESSAGE_MAX_BYTES: usize = 16 << 20;

/// Reads the next message into `message`; false at the end of the stream. An incomplete last message counts as none.
pub fn read_message(stream: &mut impl BufRead, message: &mut Vec<u8>) -> io::Result<bool> {
    message.clear();
    loop {
        let part = match stream.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            part => part?,
        };
        if part.is_empty() {
            return Ok(false);
        }
        let end = part.iter().position(|&byte| byte == 0);
        let taken = end.unwrap_or(part.len());
        if message.len() + taken > MESSAGE_MAX_BYTES {
            return Err(io::Error::other(format!("a message is longer than {MESSAGE_MAX_BYTES} bytes")));
        }
        message.extend_from_slice(&part[..taken]);
        stream.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn all(bytes: &[u8], buffer_bytes: usize) -> Vec<String> {
        let mut stream = BufReader::with_capacity(buffer_bytes, bytes);
        let (mut message, mut found) = (Vec::new(), Vec::new());
        while read_message(&mut stream, &mut message).unwrap() {
            found.push(String::from_utf8(message.clone()).unwrap());
        }
        found
    }

    #[test]
    fn messages_are_whole_however_the_stream_is_cut() {
        for buffer_bytes in 1..9 {
            assert_eq!(all(b"{\"a\":1}\0\0{}\0{\"cut", buffer_bytes), ["{\"a\":1}", "", "{}"]);
        }
        assert!(all(b"", 4).is_empty());
    }

    #[test]
    fn a_message_without_an_end_does_not_fill_memory() {
        let mut stream = BufReader::new(io::repeat(b'x'));
        let mut message = Vec::new();
        let error = read_message(&mut stream, &mut message).unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
        assert!(message.len() <= MESSAGE_MAX_BYTES);
    }
}
