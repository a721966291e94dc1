//! One rule, and the first of many that matches.

use std::collections::HashMap;

use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, Phase, RegionType};
use regex::bytes::Regex;

/// Which accesses a rule may label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AppliesTo {
    /// Those without a label.
    #[default]
    Unknown,
    /// Those with a label too.
    All,
}

/// A matcher that is absent matches everything.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) symbol: Option<Regex>,
    pub(crate) dso: Option<Regex>,
    pub(crate) source: Option<String>,
    pub(crate) phase: Option<Phase>,
    pub(crate) op_type: Option<OpType>,
    pub(crate) region: RegionType,
    pub(crate) applies_to: AppliesTo,
}

impl Rule {
    fn matches_text(&self, access: &TraceRow<'_>) -> bool {
        let finds = |pattern: &Option<Regex>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(text.as_bytes()))
        };
        self.source.as_ref().is_none_or(|source| source == access.source)
            && finds(&self.symbol, access.symbol)
            && finds(&self.dso, access.dso)
    }

    fn matches_rest(&self, access: &TraceRow<'_>) -> bool {
        self.phase.is_none_or(|phase| access.phase == Some(phase))
            && self.op_type.is_none_or(|op_type| access.op_type == op_type)
    }
}

/// Finds the first rule that matches. A run has few distinct symbols and many accesses, so what the patterns say about
/// a symbol is remembered.
#[derive(Default)]
pub(crate) struct RuleSearch {
    /// Rules whose texts match, by symbol, dso and source.
    by_texts: HashMap<Box<str>, Box<[u32]>>,
    key: String,
}

impl RuleSearch {
    /// Texts that are remembered; a trace with more is not made of names of functions.
    const TEXTS_MAX: usize = 1 << 16;

    pub(crate) fn first_match<'r>(&mut self, rules: &'r [Rule], access: &TraceRow<'_>) -> Option<&'r Rule> {
        self.key.clear();
        for text in [access.symbol, "\0", access.dso, "\0", access.source] {
            self.key.push_str(text);
        }
        if !self.by_texts.contains_key(self.key.as_str()) {
            if self.by_texts.len() == Self::TEXTS_MAX {
                self.by_texts.clear();
            }
            let matching = (0u32..).zip(rules).filter(|(_, rule)| rule.matches_text(access)).map(|(index, _)| index);
            self.by_texts.insert(self.key.as_str().into(), matching.collect());
        }
        let candidates = self.by_texts.get(self.key.as_str())?;
        candidates.iter().map(|&index| &rules[index as usize]).find(|rule| rule.matches_rest(access))
    }
}
