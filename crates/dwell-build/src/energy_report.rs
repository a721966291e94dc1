//! The report on the energy of a run whose records were labelled.

use dwell_analysis::energy::{EnergyInputs, EnergyReport, EnergySeries};
use dwell_analysis::memory::TokenTimes;
use dwell_label::Labelled;

/// None if no meter said anything.
pub(crate) fn energy_report(labelled: &Labelled, series: &EnergySeries, tokens: &TokenTimes) -> Option<EnergyReport> {
    let computed =
        |totals: &dwell_events::engine::WorkTotals| totals.prompt_tokens.saturating_sub(totals.cached_tokens);
    EnergyReport::of(&EnergyInputs {
        series,
        phases: &labelled.phases,
        requests: &labelled.outcome.requests,
        tokens,
        prompt_tokens: labelled.outcome.finished.as_ref().map(computed),
    })
}
