//! One rule, and the first of many that matches.

use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, Phase, RegionType};
use regex::bytes::Regex;
use rustc_hash::FxHashMap;

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

/// What the rules say about accesses of one kind: those with the same texts, phase and operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindRule {
    /// What the first rule that matches says; none if it says nothing.
    pub(crate) region: Option<RegionType>,
    /// Whether it says so of accesses that have a label too.
    pub(crate) is_override: bool,
}

impl KindRule {
    pub(crate) fn of(rule: Option<&Rule>) -> Self {
        Self {
            region: rule.map(|rule| rule.region).filter(|region| *region != RegionType::Unknown),
            is_override: rule.is_some_and(|rule| rule.applies_to == AppliesTo::All),
        }
    }
}

/// The rules whose texts match those of an access, in their order. Whether one of them matches the access as a whole is
/// quickly said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatchingRules(Box<[u32]>);

impl MatchingRules {
    fn of(rules: &[Rule], access: &TraceRow<'_>) -> Self {
        let matching = (0u32..).zip(rules).filter(|(_, rule)| rule.matches_text(access));
        Self(matching.map(|(index, _)| index).collect())
    }

    #[inline]
    pub(crate) fn first_match<'r>(&self, rules: &'r [Rule], access: &TraceRow<'_>) -> Option<&'r Rule> {
        self.0.iter().map(|&index| &rules[index as usize]).find(|rule| rule.matches_rest(access))
    }
}

/// Finds the rules that match. A run has few distinct symbols and many accesses, so what the patterns say about a symbol is
/// remembered.
#[derive(Default)]
pub(crate) struct RuleSearch {
    /// What is remembered, by symbol: a symbol has few libraries and sources.
    by_symbol: FxHashMap<Box<str>, Vec<TextMatch>>,
    remembered: usize,
}

/// Rules whose texts match a symbol together with these.
struct TextMatch {
    dso: Box<str>,
    source: Box<str>,
    rules: MatchingRules,
}

impl RuleSearch {
    /// Texts that are remembered; a trace with more is not made of names of functions.
    const TEXTS_MAX: usize = 1 << 16;

    pub(crate) fn matching(&mut self, rules: &[Rule], access: &TraceRow<'_>) -> Option<&MatchingRules> {
        if self.remembered_for(access).is_none() {
            self.remember(rules, access);
        }
        self.remembered_for(access)
    }

    fn remembered_for(&self, access: &TraceRow<'_>) -> Option<&MatchingRules> {
        let is_same = |found: &&TextMatch| *found.dso == *access.dso && *found.source == *access.source;
        self.by_symbol.get(access.symbol)?.iter().find(is_same).map(|found| &found.rules)
    }

    fn remember(&mut self, rules: &[Rule], access: &TraceRow<'_>) {
        if self.remembered == Self::TEXTS_MAX {
            *self = Self::default();
        }
        let rules = MatchingRules::of(rules, access);
        let found = TextMatch { dso: access.dso.into(), source: access.source.into(), rules };
        self.by_symbol.entry(access.symbol.into()).or_default().push(found);
        self.remembered += 1;
    }
}
