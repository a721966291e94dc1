use jiff::Timestamp;

/// A moment as RFC 3339 text in UTC, to the second: `2026-02-03T04:05:06Z`.
pub fn utc_text(unix_secs: u64) -> String {
    moment(unix_secs).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The moment that such a text names, in seconds since the epoch; none before it, and none if it names no moment.
pub fn unix_secs_of(utc_text: &str) -> Option<u64> {
    u64::try_from(utc_text.parse::<Timestamp>().ok()?.as_second()).ok()
}

/// The same without separators, so that it can stand in a file name: `20260203T040506Z`.
pub(crate) fn utc_file_name(unix_secs: u64) -> String {
    moment(unix_secs).strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Seconds since the epoch.
pub fn unix_secs_now() -> u64 {
    dwell_clock::unix_ns() / 1_000_000_000
}

/// RFC 3339 ends with the year 9999: a later moment is the last one of it.
fn moment(unix_secs: u64) -> Timestamp {
    i64::try_from(unix_secs).ok().and_then(|secs| Timestamp::from_second(secs).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_have_their_known_dates() {
        assert_eq!(utc_text(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc_text(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc_text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc_text(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(unix_secs_of("2000-02-29T00:00:00Z"), Some(951_782_400));
        assert_eq!(["", "yesterday", "1969-12-31T23:59:59Z"].map(unix_secs_of), [None; 3]);
        assert_eq!(utc_file_name(4_107_542_400), "21000301T000000Z");
        assert!(utc_text(u64::MAX).starts_with("9999-12-"));
    }
}
