//! The rules file.

use std::collections::HashMap;
use std::path::Path;

use dwell_events::{OpType, Phase, RegionType};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use super::rule::{AppliesTo, Rule};
use super::{RegisteredRange, RulesError};

const VERSION: u32 = 1;

/// Longest text of a rules file; registered ranges make it long.
const TEXT_LIMIT_BYTES: usize = 64 << 20;
const RULES_MAX: usize = 1000;
/// Memory of one compiled pattern.
const PATTERN_LIMIT_BYTES: usize = 256 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    version: u32,
    #[serde(default)]
    rules: Vec<Spanned<RuleEntry>>,
    #[serde(default)]
    ranges: Vec<RangeEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    name: Option<String>,
    symbol: Option<String>,
    dso: Option<String>,
    phase: Option<Phase>,
    op: Option<OpEntry>,
    source: Option<String>,
    region: RegionType,
    #[serde(default)]
    applies_to: AppliesTo,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OpEntry {
    Load,
    Store,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeEntry {
    region: RegionType,
    address: u64,
    size_bytes: u64,
    #[serde(default)]
    from_ns: u64,
    to_ns: Option<u64>,
    name: Option<String>,
}

impl RuleEntry {
    fn matches_everything(&self) -> bool {
        self.symbol.is_none()
            && self.dso.is_none()
            && self.phase.is_none()
            && self.op.is_none()
            && self.source.is_none()
    }
}

impl From<RangeEntry> for RegisteredRange {
    fn from(entry: RangeEntry) -> Self {
        let RangeEntry { region, address, size_bytes, from_ns, to_ns, name } = entry;
        Self { region, address, size_bytes, from_ns, to_ns, name }
    }
}

/// Reads rules and ranges.
pub(super) fn parse(text: &str, file: &Path) -> Result<(Vec<Rule>, Vec<RegisteredRange>), RulesError> {
    if text.len() > TEXT_LIMIT_BYTES {
        let (found_bytes, limit_bytes) = (text.len(), TEXT_LIMIT_BYTES);
        return Err(RulesError::TooLong { found_bytes, limit_bytes, file: file.to_owned() });
    }
    let found: RulesFile = serde_saphyr::from_str(text).map_err(|error| yaml_error(&error, file))?;
    if found.version != VERSION {
        return Err(RulesError::OtherVersion { found: found.version, supported: VERSION, file: file.to_owned() });
    }
    let count = found.rules.len();
    if count > RULES_MAX {
        return Err(RulesError::TooMany { found: count, limit: RULES_MAX, file: file.to_owned() });
    }
    check_names(&found.rules, file)?;
    let rules = (1..).zip(found.rules).map(|(number, entry)| rule(entry, number == count, file));
    Ok((rules.collect::<Result<_, _>>()?, found.ranges.into_iter().map(RegisteredRange::from).collect()))
}

fn check_names(rules: &[Spanned<RuleEntry>], file: &Path) -> Result<(), RulesError> {
    let mut lines: HashMap<&str, u64> = HashMap::new();
    for entry in rules {
        let (Some(name), line) = (&entry.value.name, entry.referenced.line()) else { continue };
        if let Some(first_line) = lines.insert(name, line) {
            return Err(RulesError::NameTwice { name: name.clone(), first_line, line, file: file.to_owned() });
        }
    }
    Ok(())
}

fn rule(entry: Spanned<RuleEntry>, is_last: bool, file: &Path) -> Result<Rule, RulesError> {
    let (entry, line) = (entry.value, entry.referenced.line());
    let words = match &entry.name {
        Some(name) => format!("rule {name:?} at line {line}"),
        None => format!("the rule at line {line}"),
    };
    if !is_last && entry.matches_everything() {
        return Err(RulesError::MatchesEverything { rule: words, file: file.to_owned() });
    }
    let pattern = |key: &'static str, text: Option<String>| {
        text.as_deref().map(compile).transpose().map_err(|error| RulesError::Pattern {
            rule: words.clone(),
            key,
            reason: reason(&error),
            file: file.to_owned(),
        })
    };
    Ok(Rule {
        symbol: pattern("symbol", entry.symbol)?,
        dso: pattern("dso", entry.dso)?,
        source: entry.source,
        phase: entry.phase,
        op_type: entry.op.map(|op| match op {
            OpEntry::Load => OpType::Load,
            OpEntry::Store => OpType::Store,
        }),
        region: entry.region,
        applies_to: entry.applies_to,
    })
}

/// The engine takes time linear in the text whatever the pattern is; the limit bounds its memory.
fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .unicode(false)
        .size_limit(PATTERN_LIMIT_BYTES)
        .dfa_size_limit(PATTERN_LIMIT_BYTES)
        .build()
}

/// The last line of a message that draws the pattern first.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn yaml_error(error: &serde_saphyr::Error, file: &Path) -> RulesError {
    use serde_saphyr::Error;
    let error = error.without_snippet();
    let at = error.location();
    let (line, column) = (at.map_or(0, |at: Location| at.line()), at.map_or(0, |at: Location| at.column()));
    let file = file.to_owned();
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            RulesError::UnknownName { what: "the key", found: field.clone(), line, expected: expected.clone(), file }
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => RulesError::UnknownName {
            what: "the value",
            found: variant.clone(),
            line,
            expected: expected.clone(),
            file,
        },
        other => RulesError::Yaml { line, column, reason: other.to_string(), file },
    }
}
