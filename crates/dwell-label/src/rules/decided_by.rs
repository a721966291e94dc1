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
