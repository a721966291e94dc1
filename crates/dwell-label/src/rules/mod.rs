//! Labels for accesses that nobody has labelled: by rules, registered ranges and the pages they are on.
//!
//! ```text
//! RuleSet (rules, ranges) ─▶ Classifier ── decide: what an access is, from what is known so far
//!                               ▲    └──── settle: what the access says about its pages
//!                               └ RuleLabeller: regions, policy for the rest, counts
//! ```
//!
//! The order of decisions and why it is that one: `docs/labeller.md`.

mod access;
mod classifier;
mod error;
mod file;
mod page_types;
mod registered_ranges;
mod rule;
mod rule_labeller;
mod rule_set;
mod unlabelled;

pub use access::{Access, DecidedBy};
pub(crate) use classifier::Classifier;
pub use dwell_events::UnknownPolicy;
pub use error::RulesError;
pub use registered_ranges::RegisteredRange;
pub use rule_labeller::{KnownRegion, Label, LabelCounts, RuleLabeller, RuleLabels};
pub use rule_set::RuleSet;
pub use unlabelled::UnlabelledAccess;
