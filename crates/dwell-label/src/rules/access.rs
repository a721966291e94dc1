use dwell_events::{OpType, Phase, RegionType};

/// One access, as far as rules look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// When it was made.
    pub timestamp_ns: u64,
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
    /// Load or store.
    pub op_type: OpType,
    /// Part of the run, if known.
    pub phase: Option<Phase>,
    /// What made the access.
    pub symbol: &'a str,
    /// Where that code lives.
    pub dso: &'a str,
    /// Collector that saw it.
    pub source: &'a str,
    /// What it is labelled as already.
    pub region_type: RegionType,
    /// Region that it is labelled with already; 0 for none.
    pub region_id: u32,
}

impl Access<'_> {
    /// Address after the last byte; an access without a size still touches one byte.
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.size_bytes.max(1))
    }
}

/// What decided the label of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DecidedBy {
    /// A rule that applies to all accesses.
    Override,
    /// The access came with its label.
    Input,
    /// A registered range.
    Range,
    /// A rule.
    Rule,
    /// An earlier access to the same page.
    Page,
    /// Nothing: it stays unknown.
    Nothing,
}

impl DecidedBy {
    /// Every way, in the order in which they are tried.
    pub const ALL: [DecidedBy; 6] =
        [DecidedBy::Override, DecidedBy::Input, DecidedBy::Range, DecidedBy::Rule, DecidedBy::Page, DecidedBy::Nothing];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            DecidedBy::Override => "override",
            DecidedBy::Input => "input",
            DecidedBy::Range => "range",
            DecidedBy::Rule => "rule",
            DecidedBy::Page => "page",
            DecidedBy::Nothing => "nothing",
        }
    }
}
