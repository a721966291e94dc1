//! Files that were changed at random: never a panic, and never a renamed key that is taken silently.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::path::Path;

use common::shipped;
use dwell_config::{parse, parse_prompts};
use proptest::prelude::*;

fn default_text() -> String {
    shipped("config/default_experiment.yaml")
}

/// Byte ranges of the keys in a file of block style.
fn key_ranges(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let start = line.len() - line.trim_start_matches([' ', '-']).len();
        if let Some(colon) = line.find(':').filter(|_| !line.trim_start().starts_with('#')) {
            ranges.push(offset + start..offset + colon);
        }
        offset += line.len();
    }
    ranges
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_renamed_key_is_refused_with_its_line(index in any::<prop::sample::Index>(), ending in "[a-z]{1,3}") {
        let mut text = default_text();
        let ranges = key_ranges(&text);
        prop_assert!(ranges.len() > 40);
        let range = &ranges[index.index(ranges.len())];
        let line = 1 + text[..range.start].matches('\n').count() as u64;
        text.insert_str(range.end, &ending);
        let error = parse(&text, Path::new("x.yaml")).unwrap_err();
        prop_assert!(error.problems.iter().any(|problem| problem.line == line && problem.found == "an unknown key"), "{error}");
    }

    #[test]
    fn a_value_of_another_type_is_refused(index in any::<prop::sample::Index>()) {
        let mut text = default_text();
        let ranges = key_ranges(&text);
        let range = &ranges[index.index(ranges.len())];
        let end = range.end + text[range.end..].find('\n').unwrap();
        let has_value = !text[range.end + 1..end].split('#').next().unwrap().trim().is_empty();
        prop_assume!(has_value);
        text.replace_range(range.end + 1..end, " {a: [1]}");
        prop_assert!(parse(&text, Path::new("x.yaml")).is_err());
    }

    #[test]
    fn changed_bytes_do_not_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = default_text().into_bytes();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = parse(&text, Path::new("x.yaml")) {
            prop_assert!(!error.problems.is_empty());
            prop_assert!(error.problems.iter().all(|problem| problem.line >= 1 && problem.column >= 1));
        }
    }

    #[test]
    fn any_text_is_accepted_or_refused(text in "(?s)[-a-z:{}\\[\\]&*!|>'\" \n\t#?,0-9]{0,200}") {
        let _ = parse(&text, Path::new("x.yaml")).map_err(|error| error.to_string());
        let _ = parse_prompts(&text, Path::new("x.yaml")).map_err(|error| error.to_string());
    }
}
