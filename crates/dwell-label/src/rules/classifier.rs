//! What an access is, from rules, ranges and pages.

use dwell_events::RegionType;
use dwell_events::schema::trace::TraceRow;

use super::page_types::{Owner, PageTypes, neighbours};
use super::rule::{KindRule, RuleSearch};
use super::{Accessed, DecidedBy, RuleSet};

/// What an access was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) region_type: RegionType,
    pub(crate) decided_by: DecidedBy,
    /// The registered range that says so.
    pub(crate) range: Option<u32>,
    /// The region of the page that says so.
    pub(crate) page_region: Option<u32>,
}

impl Verdict {
    fn new(region_type: RegionType, decided_by: DecidedBy) -> Self {
        Self { region_type, decided_by, range: None, page_region: None }
    }
}

/// Decides access after access, in the order of time.
///
/// Only accesses that got a type, and memory that was given back, change what it knows. An access that stays unknown
/// changes nothing, so that dropping it changes nothing either.
pub(crate) struct Classifier {
    rules: RuleSet,
    search: RuleSearch,
    pages: PageTypes,
    /// When `pages` last changed; what is there is true from then on, until a range begins or ends.
    known_until_ns: u64,
}

impl Classifier {
    pub(crate) fn new(rules: RuleSet) -> Self {
        Self { rules, search: RuleSearch::default(), pages: PageTypes::default(), known_until_ns: 0 }
    }

    pub(crate) fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// What the rules say about accesses of the kind of this one.
    pub(crate) fn rule_of(&mut self, access: &TraceRow<'_>) -> KindRule {
        let matching = self.search.matching(self.rules.rules(), access);
        KindRule::of(matching.and_then(|matching| matching.first_match(self.rules.rules(), access)))
    }

    /// The label of an access, given what the rules say about its kind.
    #[inline]
    pub(crate) fn decide(&self, rule: KindRule, access: &Accessed) -> Verdict {
        let KindRule { region: by_rule, is_override } = rule;
        match by_rule {
            Some(region) if is_override => return Verdict::new(region, DecidedBy::Override),
            _ if access.region_type != RegionType::Unknown && !is_override => {
                return Verdict::new(access.region_type, DecidedBy::Input);
            }
            _ => {}
        }
        if let Some(index) = self.rules.ranges().at(access.address, access.timestamp_ns) {
            let region = self.rules.ranges().get(index).region;
            return Verdict { range: Some(index), ..Verdict::new(region, DecidedBy::Range) };
        }
        if let Some(region) = by_rule {
            return Verdict::new(region, DecidedBy::Rule);
        }
        match self.owner_at(access.address, access.timestamp_ns) {
            Some(owner) => {
                Verdict { page_region: Some(owner.region_id), ..Verdict::new(owner.region_type, DecidedBy::Page) }
            }
            None => Verdict::new(RegionType::Unknown, DecidedBy::Nothing),
        }
    }

    /// What the pages of an access are from now on. An access that comes late says nothing: later ones have spoken.
    #[inline]
    pub(crate) fn settle(&mut self, access: &Accessed, region_type: RegionType, region_id: u32) {
        if region_type == RegionType::Unknown || self.is_late(access.timestamp_ns) {
            return;
        }
        self.advance(access.timestamp_ns);
        self.pages.set(access.address, access.end_address(), region_type, region_id);
    }

    /// Memory was given back, or handed out anew: what was known of it is over. The regions that lost all of it.
    pub(crate) fn forget(&mut self, address: u64, size_bytes: u64, time_ns: u64) -> Vec<u32> {
        self.advance(time_ns.max(self.known_until_ns));
        let mut cut = self.pages.remove(address, address.saturating_add(size_bytes));
        cut.retain(|&region| !self.pages.has_any(region));
        cut
    }

    /// Whether an access was made before what is known of pages.
    pub(crate) fn is_late(&self, time_ns: u64) -> bool {
        time_ns < self.known_until_ns
    }

    /// What is known of a byte at a time.
    fn owner_at(&self, address: u64, time_ns: u64) -> Option<Owner> {
        let is_over = self.is_late(time_ns) || self.rules.ranges().has_edge(address, self.known_until_ns, time_ns);
        self.pages.at(address).filter(|_| !is_over)
    }

    /// The region of this type that the page of a byte is in, or the page before or after it.
    pub(crate) fn region_around(&self, region_type: RegionType, address: u64, time_ns: u64) -> Option<u32> {
        let region_at = |at: u64| self.owner_at(at, time_ns).filter(|owner| owner.region_type == region_type);
        // Most accesses are to pages that are known: their neighbours are not looked at.
        let found = region_at(address).or_else(|| neighbours(address).into_iter().flatten().find_map(region_at));
        found.map(|owner| owner.region_id)
    }

    fn advance(&mut self, time_ns: u64) {
        for range in self.rules.ranges().edges(self.known_until_ns, time_ns) {
            self.pages.remove(range.address, range.address.saturating_add(range.size_bytes));
        }
        self.known_until_ns = time_ns;
    }
}
