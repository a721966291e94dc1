use std::path::Path;
use std::sync::LazyLock;

use super::registered_ranges::RegisteredRanges;
use super::rule::Rule;
use super::{RegisteredRange, RulesError, file};

/// The text of the rules that are used where no others are given.
const DEFAULT_RULES: &str = include_str!("../../../../config/labeller_rules.yaml");

/// Rules and registered ranges.
#[derive(Clone, Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    ranges: RegisteredRanges,
    text: String,
}

impl RuleSet {
    /// Reads a rules file's text; `file` is what messages call it.
    pub fn from_yaml(text: &str, file: &Path) -> Result<Self, RulesError> {
        let (rules, ranges) = file::parse(text, file)?;
        Ok(Self { rules, ranges: RegisteredRanges::new(ranges)?, text: text.to_owned() })
    }

    /// The rules for llama.cpp, vLLM and PyTorch that dwell comes with.
    pub fn default_rules() -> Self {
        static RULES: LazyLock<RuleSet> = LazyLock::new(|| {
            RuleSet::from_yaml(DEFAULT_RULES, Path::new("config/labeller_rules.yaml"))
                .expect("the rules that are compiled in are read by a test")
        });
        RULES.clone()
    }

    /// The same rules with these ranges besides their own.
    pub fn with_ranges(mut self, more: Vec<RegisteredRange>) -> Result<Self, RulesError> {
        let ranges = self.ranges.into_ranges().into_iter().chain(more).collect();
        self.ranges = RegisteredRanges::new(ranges)?;
        Ok(self)
    }

    /// The text that the rules were read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn ranges(&self) -> &RegisteredRanges {
        &self.ranges
    }
}
