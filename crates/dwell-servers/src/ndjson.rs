//! Lines out of bytes that come in any pieces.

use crate::http::{DecodeError, Decoder, first_characters};

/// Cuts bytes into lines. A line ends with LF, CR or both, or with the end of everything.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    line: Vec<u8>,
    limit_bytes: usize,
    /// The last byte was a CR, so an LF right after it ends no other line.
    after_return: bool,
}

impl LineSplitter {
    /// Lines of at most this many bytes.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { line: Vec::new(), limit_bytes, after_return: false }
    }

    /// Takes bytes and hands over each line that is whole, without its end.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        mut on_line: impl FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_return) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|&byte| byte == b'\n' || byte == b'\r');
            self.extend(&rest[..end.unwrap_or(rest.len())])?;
            let Some(end) = end else { return Ok(()) };
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            let handled = on_line(&self.line);
            self.line.clear();
            handled?;
        }
        Ok(())
    }

    /// The last line, if it has no end of its own.
    pub(crate) fn finish(&mut self) -> Option<Vec<u8>> {
        let last = std::mem::take(&mut self.line);
        (!last.is_empty()).then_some(last)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        if self.line.len() + bytes.len() > self.limit_bytes {
            return Err(DecodeError::TooLong { limit_bytes: self.limit_bytes });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}

/// The text of a line.
pub(crate) fn text_of(line: &[u8]) -> Result<&str, DecodeError> {
    let found = || first_characters(&String::from_utf8_lossy(line));
    std::str::from_utf8(line).map_err(|_| DecodeError::NotText { found: found() })
}

/// Lines of JSON (NDJSON): every line that is not empty, as text.
#[derive(Debug)]
pub struct LineDecoder {
    splitter: LineSplitter,
}

impl LineDecoder {
    /// Lines of at most this many bytes.
    pub fn new(limit_bytes: usize) -> Self {
        Self { splitter: LineSplitter::new(limit_bytes) }
    }
}

impl Decoder for LineDecoder {
    type Item = String;

    fn push(&mut self, bytes: &[u8], items: &mut Vec<String>) -> Result<(), DecodeError> {
        self.splitter.push(bytes, |line| take_line(line, items))
    }

    fn finish(&mut self, items: &mut Vec<String>) -> Result<(), DecodeError> {
        self.splitter.finish().map_or(Ok(()), |line| take_line(&line, items))
    }
}

fn take_line(line: &[u8], items: &mut Vec<String>) -> Result<(), DecodeError> {
    let text = text_of(line)?.trim();
    if !text.is_empty() {
        items.push(text.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(pieces: &[&[u8]], limit_bytes: usize) -> (Vec<String>, Result<(), DecodeError>) {
        let mut decoder = LineDecoder::new(limit_bytes);
        let mut items = Vec::new();
        let result = pieces
            .iter()
            .try_for_each(|piece| decoder.push(piece, &mut items))
            .and_then(|()| decoder.finish(&mut items));
        (items, result)
    }

    #[test]
    fn lines_end_with_any_end_of_line_or_with_the_stream() {
        let (lines, result) = decoded(&[b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}\r{\"d\":4}"], 100);
        assert_eq!(lines, [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#, r#"{"d":4}"#]);
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn a_line_without_end_is_refused_and_those_before_it_are_kept() {
        let (lines, result) = decoded(&[b"{}\n", &[b'x'; 11]], 10);
        assert_eq!((lines, result), (vec!["{}".to_owned()], Err(DecodeError::TooLong { limit_bytes: 10 })));
        assert_eq!(decoded(&[&[b'x'; 10], b"\n"], 10).1, Ok(()), "the limit itself is allowed");
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let (lines, result) = decoded(&[b"ok\n\xff\xfe\n"], 100);
        assert_eq!(lines, ["ok"]);
        assert!(matches!(result, Err(DecodeError::NotText { .. })));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0_usize..200, 0..20),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(decoded(&pieces, 50), decoded(&[&bytes], 50));
        }
    }
}
