//! Labels for accesses that nobody has labelled: by rules, registered ranges and the pages they are on.
//!
//! ```text
//! RuleSet (rules, ranges) ─▶ Classifier ── decide: what an access is, from what is known so far
//!                               ▲    └──── settle: what the access says about its pages
//!                               └ RuleStage: policy for the rest, counts, regions
//!                                    ├ Regions, for accesses that are being recorded
//!                                    └ RuleLabeller, for those of a table
//! ```
//!
//! The order of decisions and why it is that one: `docs/labeller.md`.

mod accessed;
mod classifier;
mod decided_by;
mod error;
mod file;
mod page_types;
mod registered_ranges;
mod rule;
mod rule_labeller;
mod rule_set;
mod stage;
mod unlabelled;

pub use accessed::Accessed;
pub(crate) use classifier::{Classifier, Verdict};
pub use decided_by::DecidedBy;
pub use dwell_events::UnknownPolicy;
pub use error::RulesError;
pub use registered_ranges::RegisteredRange;
pub use rule::KindRule;
pub use rule_labeller::{RuleLabeller, RuleLabels};
pub use rule_set::RuleSet;
pub(crate) use stage::RuleStage;
pub use stage::{Label, LabelCounts};
pub use unlabelled::UnlabelledAccess;
