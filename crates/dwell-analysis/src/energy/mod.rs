//! Energy of a run: by meter, by phase and by token, with what the machine takes while it idles.
//!
//! All figures are of the machine that the meters cover, not of the program: whatever else ran is in them.

mod report;
mod series;
mod spans;

pub use report::{EnergyInputs, EnergyPerToken, EnergyReport, MeterEnergy, SpanEnergy};
pub use series::EnergySeries;
