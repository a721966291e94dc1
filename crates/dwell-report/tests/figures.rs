//! Figures as files: sizes, fonts, numbers, and bounds that are drawn as bounds.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;

use dwell_report::{ALL_FIGURES, FigureSource, ReportError, figure_named};

#[test]
fn figures_have_names_of_their_own_and_a_sentence_each() {
    let names: BTreeSet<&str> = ALL_FIGURES.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), ALL_FIGURES.len());
    for kind in ALL_FIGURES {
        assert!(kind.shows.ends_with('.') && kind.shows.chars().count() < 160, "{}", kind.shows);
        assert!(kind.name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'), "{}", kind.name);
    }
    assert_eq!(figure_named("survival").unwrap().source(), FigureSource::Run);
}

#[test]
fn a_name_that_is_unknown_is_answered_with_the_nearest() {
    let nearest = |name: &str| match figure_named(name) {
        Err(ReportError::UnknownFigure { nearest, .. }) => nearest,
        _ => unreachable!("{name} is known"),
    };
    assert_eq!(nearest("survivle").as_deref(), Some("survival"));
    assert_eq!(nearest("memory_map").as_deref(), Some("memory-map"));
    assert_eq!(nearest("xyz"), None);
}
