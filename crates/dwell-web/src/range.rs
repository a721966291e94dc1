//! Which part of a file a request asks for (RFC 9110, section 14).

use std::ops::Range;

/// What a `Range` header means for a file of some length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it: no range, several, or one that is none.
    All,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes that the file does not have.
    Outside,
}

/// Reads a header.
pub(crate) fn wanted(header: Option<&str>, file_bytes: u64) -> Wanted {
    let spec = header.and_then(|header| header.trim().strip_prefix("bytes="));
    let Some((first, last)) = spec.and_then(|spec| spec.trim().split_once('-')) else { return Wanted::All };
    let part = match (number(first), number(last)) {
        (Some(first), None) if last.is_empty() => first..file_bytes,
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(file_bytes),
        (None, Some(suffix)) if first.is_empty() => file_bytes.saturating_sub(suffix)..file_bytes,
        _ => return Wanted::All,
    };
    if part.is_empty() { Wanted::Outside } else { Wanted::Part(part) }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_standard() {
        let of_ten = |header: &str| wanted(Some(header), 10);
        assert_eq!(wanted(None, 10), Wanted::All);
        for (header, part) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-5", 2..6),
            ("bytes=5-", 5..10),
            ("bytes=5-99999999999999999999999", 5..10),
            ("bytes=-3", 7..10),
            ("bytes=-30", 0..10),
        ] {
            assert_eq!(of_ten(header), Wanted::Part(part), "{header}");
        }
        for outside in ["bytes=10-", "bytes=10-11", "bytes=-0"] {
            assert_eq!(of_ten(outside), Wanted::Outside, "{outside}");
        }
        for all in ["bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,3-4", "bytes=a-b", "bytes=+1-2", "lines=1-2", "1-2"] {
            assert_eq!(of_ten(all), Wanted::All, "{all}");
        }
        assert_eq!(wanted(Some("bytes=0-"), 0), Wanted::Outside);
    }
}
