/// A moment as RFC 3339 text in UTC, to the second: `2026-02-03T04:05:06Z`.
pub fn utc_text(unix_secs: u64) -> String {
    let (year, month, day) = civil_date(unix_secs / 86_400);
    let (hour, minute, second) = time_of_day(unix_secs);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same without separators, so that it can stand in a file name: `20260203T040506Z`.
pub(crate) fn utc_file_name(unix_secs: u64) -> String {
    utc_text(unix_secs).replace(['-', ':'], "")
}

/// Seconds since the epoch.
pub fn unix_secs_now() -> u64 {
    // A clock before 1970 is a broken clock; the run must still be recorded.
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn time_of_day(unix_secs: u64) -> (u64, u64, u64) {
    let second_of_day = unix_secs % 86_400;
    (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60)
}

/// Year, month and day of a day since the epoch, in the Gregorian calendar.
///
/// The algorithm is `civil_from_days` of Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms": years
/// begin in March, so that the leap day is the last of its year.
fn civil_date(days_since_epoch: u64) -> (u64, u64, u64) {
    let days = days_since_epoch + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
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
        assert_eq!(utc_file_name(4_107_542_400), "21000301T000000Z");
    }
}
