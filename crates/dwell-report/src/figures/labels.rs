//! Names of configurations, as short as a figure needs them.

use dwell_analysis::memory::MemoryKind;

use crate::compare::{CompareGroup, Comparison};

const SEPARATOR: &str = " · ";

/// A kind of memory as titles of axes have it.
pub(super) fn kind_name(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Pss => "PSS",
        MemoryKind::Rss => "RSS",
        other => other.name(),
    }
}

/// The labels of groups without what all of them share, such as the engine.
pub(super) fn short_labels(comparison: &Comparison, groups: &[&CompareGroup]) -> Vec<String> {
    without_common(&groups.iter().map(|group| comparison.label_of(group)).collect::<Vec<_>>())
}

fn without_common(labels: &[String]) -> Vec<String> {
    let has = |label: &String, part: &str| label.split(SEPARATOR).any(|known| known == part);
    let shorter = |label: &String| {
        let telling = label.split(SEPARATOR).filter(|part| !labels.iter().all(|other| has(other, part)));
        let telling: Vec<&str> = telling.collect();
        if telling.is_empty() { label.clone() } else { telling.join(SEPARATOR) }
    };
    labels.iter().map(shorter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_share_is_left_out() {
        let labels = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let long = labels(&["llama_cpp · f16 · context 256", "llama_cpp · q8_0 · context 256"]);
        assert_eq!(without_common(&long), ["f16", "q8_0"]);
        assert_eq!(without_common(&long[..1]), long[..1], "one alone keeps its name");
    }
}
