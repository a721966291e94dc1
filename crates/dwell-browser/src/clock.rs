//! The clock of a page against that of this machine.

use dwell_clock::monotonic_ns;

use crate::{BrowserError, Page};

/// What a page calls the time: milliseconds since 1970 by a clock that is not set while the page lives.
const PAGE_TIME: &str = "performance.timeOrigin + performance.now()";
/// Round trips of which the shortest counts.
const ROUND_TRIPS: usize = 32;

/// From the times of a page to CLOCK_MONOTONIC; by default they are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PageClock {
    /// CLOCK_MONOTONIC minus the time of the page.
    offset_ns: i128,
    /// The most that a converted time can be off, beside the steps of the page's clock: half of the shortest round trip.
    pub error_ns: u64,
}

impl PageClock {
    /// Asks the page for its time and takes the answer for the middle of the round trip.
    pub(crate) fn measure(page: &Page) -> Result<Self, BrowserError> {
        let mut best: Option<Self> = None;
        for _ in 0..ROUND_TRIPS {
            let sent_ns = monotonic_ns();
            let answer = page.evaluate(PAGE_TIME)?;
            let trip_ns = monotonic_ns() - sent_ns;
            let page_ms = answer.as_f64().ok_or_else(|| BrowserError::Answer {
                doing: "reading the clock of the page".to_owned(),
                found: answer.to_string(),
                needed: "a number",
            })?;
            let clock = Self {
                offset_ns: i128::from(sent_ns) + i128::from(trip_ns / 2) - nanoseconds(page_ms),
                error_ns: trip_ns.div_ceil(2),
            };
            best = best.filter(|best| best.error_ns <= clock.error_ns).or(Some(clock));
        }
        Ok(best.unwrap_or(Self { offset_ns: 0, error_ns: u64::MAX }))
    }

    /// A time of the page as CLOCK_MONOTONIC time.
    pub fn monotonic_ns(&self, page_ms: f64) -> u64 {
        u64::try_from(nanoseconds(page_ms).saturating_add(self.offset_ns)).unwrap_or(0)
    }
}

/// Whole nanoseconds; a page that tells no number tells the beginning of time. Times since 1970 in nanoseconds are more than a
/// floating-point number holds exactly, so whole milliseconds are converted apart from their parts.
fn nanoseconds(ms: f64) -> i128 {
    (ms.trunc() as i128).saturating_mul(1_000_000).saturating_add((ms.fract() * 1e6).round() as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_page_is_moved_and_never_wraps() {
        let clock = PageClock { offset_ns: 5_000_000 - 1_700_000_000_000_000_000, error_ns: 1 };
        assert_eq!(clock.monotonic_ns(1_700_000_000_001.0), 6_000_000);
        assert_eq!(clock.monotonic_ns(f64::NAN), 0);
        assert_eq!(clock.monotonic_ns(-1e300), 0);
        assert_eq!(clock.monotonic_ns(1e300), 0);
    }
}
