//! Server-sent events out of bytes that come in any pieces, by the
//! [HTML standard](https://html.spec.whatwg.org/multipage/server-sent-events.html).

use crate::http::{DecodeError, Decoder};
use crate::ndjson::{LineSplitter, text_of};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its lines of data, joined.
    pub data: String,
}

/// Cuts bytes into events. An event that the end of the stream cuts short of its empty line counts all the same: many
/// servers leave that line out.
#[derive(Debug)]
pub struct SseDecoder {
    splitter: LineSplitter,
    event: PartialEvent,
}

#[derive(Debug)]
struct PartialEvent {
    name: Option<String>,
    data: Option<String>,
    limit_bytes: usize,
    is_first_line: bool,
}

impl SseDecoder {
    /// Events and lines of at most this many bytes.
    pub fn new(limit_bytes: usize) -> Self {
        let event = PartialEvent { name: None, data: None, limit_bytes, is_first_line: true };
        Self { splitter: LineSplitter::new(limit_bytes), event }
    }
}

impl Decoder for SseDecoder {
    type Item = SseEvent;

    fn push(&mut self, bytes: &[u8], items: &mut Vec<SseEvent>) -> Result<(), DecodeError> {
        self.splitter.push(bytes, |line| self.event.take_line(line, items))
    }

    fn finish(&mut self, items: &mut Vec<SseEvent>) -> Result<(), DecodeError> {
        if let Some(line) = self.splitter.finish() {
            self.event.take_line(&line, items)?;
        }
        self.event.end(items);
        Ok(())
    }
}

impl PartialEvent {
    fn take_line(&mut self, line: &[u8], items: &mut Vec<SseEvent>) -> Result<(), DecodeError> {
        let mut line = text_of(line)?;
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            self.end(items);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.add_data(value),
            "event" => {
                self.name = Some(value.to_owned());
                Ok(())
            }
            // A comment (no field name), an id, a time to retry: nothing of an answer.
            _ => Ok(()),
        }
    }

    fn add_data(&mut self, value: &str) -> Result<(), DecodeError> {
        let data = match &mut self.data {
            None => self.data.insert(value.to_owned()),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
                data
            }
        };
        if data.len() > self.limit_bytes {
            return Err(DecodeError::TooLong { limit_bytes: self.limit_bytes });
        }
        Ok(())
    }

    /// An event without data is none.
    fn end(&mut self, items: &mut Vec<SseEvent>) {
        let name = self.name.take();
        if let Some(data) = self.data.take() {
            items.push(SseEvent { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(pieces: &[&[u8]], limit_bytes: usize) -> (Vec<SseEvent>, Result<(), DecodeError>) {
        let mut decoder = SseDecoder::new(limit_bytes);
        let mut items = Vec::new();
        let result = pieces
            .iter()
            .try_for_each(|piece| decoder.push(piece, &mut items))
            .and_then(|()| decoder.finish(&mut items));
        (items, result)
    }

    fn data_of(bytes: &[u8]) -> Vec<String> {
        let (events, result) = decoded(&[bytes], 1000);
        assert_eq!(result, Ok(()));
        events.into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn data_comments_and_ends_of_line_are_those_of_the_standard() {
        assert_eq!(data_of(b"data: {\"a\":1}\n\ndata: [DONE]\n\n"), [r#"{"a":1}"#, "[DONE]"]);
        assert_eq!(data_of(b": keep-alive\r\n\r\ndata:x\r\nid: 7\r\nretry: 1\r\n\r\n"), ["x"]);
        assert_eq!(data_of(b"data: one\ndata: two\ndata\n\n"), ["one\ntwo\n"]);
        assert_eq!(data_of(b"data:  two spaces\n\n"), [" two spaces"]);
        assert_eq!(data_of("\u{feff}data: marked\n\n".as_bytes()), ["marked"]);
        assert_eq!(data_of(b"event: error\n\n\n\n"), [""; 0]);
    }

    #[test]
    fn a_return_and_a_newline_end_one_line_even_if_they_come_apart() {
        assert_eq!(data_of(b"data: one\r\ndata: two\r\n\r\n"), ["one\ntwo"]);
        let apart: [&[u8]; 3] = [b"data: one\r", b"\ndata: two\r", b"\n\r\n"];
        assert_eq!(decoded(&apart, 100).0[0].data, "one\ntwo");
    }

    #[test]
    fn an_event_keeps_its_name_and_the_next_has_none() {
        let (events, _) = decoded(&[b"event: error\ndata: x\n\ndata: y\n\n"], 100);
        let names: Vec<_> = events.iter().map(|event| event.name.as_deref()).collect();
        assert_eq!(names, [Some("error"), None]);
    }

    #[test]
    fn an_event_without_its_last_newline_counts() {
        assert_eq!(data_of(b"data: whole\n\ndata: last"), ["whole", "last"]);
    }

    #[test]
    fn data_without_end_is_refused_in_one_line_or_in_many() {
        assert_eq!(decoded(&[b"data: 0123456789"], 10).1, Err(DecodeError::TooLong { limit_bytes: 10 }));
        let many = b"data: 01\n".repeat(4);
        assert_eq!(decoded(&[&many], 10).1, Err(DecodeError::TooLong { limit_bytes: 10 }));
    }

    #[test]
    fn text_cut_inside_a_character_is_put_together() {
        let bytes = "data: größe 🦀\n\n".as_bytes();
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decoded(&pieces, 100).0[0].data, "größe 🦀");
    }

    fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            Just(b"data: ".to_vec()),
            Just(b"event: e".to_vec()),
            Just(b": comment".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just("ä🦀".as_bytes().to_vec()),
            Just("\u{feff}".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(bytes in stream_bytes(), cuts in proptest::collection::vec(0_usize..300, 0..20)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(decoded(&pieces, 40), decoded(&[&bytes], 40));
        }
    }
}
