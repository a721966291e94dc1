//! Spans of time that belong to a phase, without overlaps.

use std::ops::Range;

/// A span of CLOCK_MONOTONIC nanoseconds.
pub(super) type Span = Range<u64>;

/// The same moments, each once, in order.
pub(super) fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|span| span.start < span.end);
    spans.sort_unstable_by_key(|span| span.start);
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut().filter(|last| last.end >= span.start) {
            Some(last) => last.end = last.end.max(span.end),
            None => joined.push(span),
        }
    }
    joined
}

/// The moments of the first that are not in the second; both as [`union`] gives them.
pub(super) fn without(spans: &[Span], taken: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    for span in spans {
        let mut begin = span.start;
        for hole in taken.iter().filter(|hole| hole.end > span.start && hole.start < span.end) {
            left.push(begin..hole.start.max(begin));
            begin = begin.max(hole.end);
        }
        left.push(begin..span.end.max(begin));
    }
    left.retain(|span| span.start < span.end);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_several_spans_count_once() {
        assert_eq!(union(vec![5..9, 1..3, 2..4, 9..12, 7..7]), [1..4, 5..12]);
    }

    #[test]
    fn what_is_taken_is_cut_out() {
        assert_eq!(without(&[0..10, 20..30], &[2..4, 8..22, 25..26]), [0..2, 4..8, 22..25, 26..30]);
        assert!(without(&[3..5, 6..7], &[0..4, 4..9]).is_empty());
        assert_eq!(without(&[3..5, 6..7], &[]), [3..5, 6..7]);
    }
}
