//! What one or several parts of a trace add to its report.

use std::collections::BTreeMap;
use std::mem::take;

use serde::{Deserialize, Serialize};

use crate::concluded::ConcludedBytes;
use crate::distribution::Distribution;
use crate::frames::MrmTraceFrames;
use crate::metrics::{bandwidth, hot_cold, reuse_distance};
use crate::mrm_trace::ConcludedAddresses;
use crate::part::{self, Part};
use crate::summary::summarise;
use crate::table::{MetricsReport, ObservationWindow};
use crate::totals::Totals;
use crate::{AnalysisError, Basis, Definitions, Options, mrm_rows};

/// What every part of a trace sees alike, because it is given all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TraceFacts {
    #[serde(with = "standard_options")]
    pub(crate) options: Options,
    pub(crate) window: Option<ObservationWindow>,
    pub(crate) trace_rows: u64,
    pub(crate) backward_rows: u64,
    pub(crate) kv_lives: u64,
    pub(crate) basis: Basis,
}

/// The options of parts: they have standard metrics alone, so the others are as by default.
mod standard_options {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::{Definitions, Options, RowOrder, SuitabilityThresholds};

    pub(super) fn serialize<S: Serializer>(options: &Options, serializer: S) -> Result<S::Ok, S::Error> {
        (options.definitions, options.thresholds, options.row_order).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Options, D::Error> {
        type Standard = (Definitions, SuitabilityThresholds, RowOrder);
        let (definitions, thresholds, row_order) = Standard::deserialize(deserializer)?;
        Ok(Options { definitions, thresholds, row_order, ..Options::default() })
    }
}

/// By whose definitions it was concluded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ConcludedGathering {
    Dwell(Box<ConcludedBytes>),
    MrmTrace(Box<ConcludedAddresses>),
}

/// What parts of a trace add to its report. All parts of a trace merge to what the trace as a whole gives, in any order and
/// bit for bit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConcludedPart {
    parts: Vec<Part>,
    facts: TraceFacts,
    /// Time from one row to the next, where it changed. It needs all rows in order: the first part alone has it.
    gaps_ns: Option<Distribution>,
    gathered: ConcludedGathering,
}

impl ConcludedPart {
    pub(crate) fn new(
        part: Part,
        facts: TraceFacts,
        gaps_ns: Option<Distribution>,
        gathered: ConcludedGathering,
    ) -> Self {
        Self { parts: vec![part], facts, gaps_ns, gathered }
    }

    /// The parts that were merged.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// How the trace was analysed.
    pub fn options(&self) -> Options {
        self.facts.options
    }

    /// Rows of the trace, and those that are earlier than one before them.
    pub fn rows(&self) -> (u64, u64) {
        (self.facts.trace_rows, self.facts.backward_rows)
    }

    /// Share of the trace that the parts are.
    pub fn share(&self) -> f64 {
        self.parts.iter().map(|part| 1.0 / f64::from(part.of())).sum()
    }

    /// Regions that it has.
    pub fn regions(&self) -> u64 {
        match &self.gathered {
            ConcludedGathering::Dwell(concluded) => concluded.regions.len() as u64,
            ConcludedGathering::MrmTrace(concluded) => concluded.regions.len() as u64,
        }
    }

    /// Memory that it holds, about.
    pub fn held_bytes(&self) -> usize {
        match &self.gathered {
            ConcludedGathering::Dwell(concluded) => concluded.held_bytes(),
            ConcludedGathering::MrmTrace(concluded) => concluded.held_bytes(),
        }
    }

    /// Adds other parts of the same trace.
    pub fn merge(&mut self, other: ConcludedPart) -> Result<(), AnalysisError> {
        if self.facts.options != other.facts.options {
            return Err(AnalysisError::UnlikeParts { difference: "their options" });
        }
        if self.facts != other.facts {
            return Err(AnalysisError::UnlikeParts { difference: "the rows of the trace" });
        }
        match (&mut self.gathered, other.gathered) {
            (ConcludedGathering::Dwell(ours), ConcludedGathering::Dwell(theirs)) => ours.merge(*theirs)?,
            (ConcludedGathering::MrmTrace(ours), ConcludedGathering::MrmTrace(theirs)) => ours.merge(*theirs)?,
            _ => return Err(AnalysisError::UnlikeParts { difference: "their definitions" }),
        }
        self.parts.extend(other.parts);
        self.gaps_ns = self.gaps_ns.take().or(other.gaps_ns);
        Ok(())
    }

    /// The report on the whole trace; an error if parts are missing or there twice.
    pub fn finish(self) -> Result<MetricsReport, AnalysisError> {
        if !part::is_whole(&self.parts) {
            return Err(AnalysisError::NotWhole { parts: self.parts.len() });
        }
        Ok(self.into_report())
    }

    /// The report, whether or not parts are missing.
    pub(crate) fn into_report(self) -> MetricsReport {
        let facts = self.facts;
        let window = facts.window.unwrap_or_default();
        let mut report = MetricsReport {
            definitions: facts.options.definitions,
            thresholds: facts.options.thresholds,
            window: facts.window,
            trace_rows: facts.trace_rows,
            backward_rows: facts.backward_rows,
            kv_lives: facts.kv_lives,
            basis: facts.basis,
            region_types: Vec::new(),
            regions: Vec::new(),
            mrm_trace: None,
            requested: facts.options.requested,
            reuse: Vec::new(),
            bandwidth: Vec::new(),
            hot_cold: Vec::new(),
            region_uses: Vec::new(),
            region_names: BTreeMap::new(),
            totals: Totals::default(),
            time_unit: None,
        };
        match self.gathered {
            ConcludedGathering::Dwell(mut concluded) => {
                let gaps_ns = self.gaps_ns.unwrap_or_default();
                let requested = concluded.requested.as_mut();
                report.region_uses = requested.map(|requested| take(&mut requested.region_uses)).unwrap_or_default();
                (report.totals, report.regions) = summarise(*concluded, window, &gaps_ns);
                report.region_types = report.totals.region_types(&facts.options.thresholds);
                report.reuse = reuse_distance::rows(&report.totals);
                report.bandwidth = bandwidth::rows(&report.totals);
                report.hot_cold = hot_cold::rows_by_layer(&report.region_uses, &report.region_names);
            }
            ConcludedGathering::MrmTrace(concluded) => {
                let frames = MrmTraceFrames::new(*concluded, &facts.options.thresholds);
                report.region_types = mrm_rows::region_types(&frames, facts.basis, window.duration_s());
                report.mrm_trace = Some(frames);
            }
        }
        report
    }

    /// Whether what was read from elsewhere can be merged and reported on.
    fn is_sound(&self) -> bool {
        let is_first = self.parts.iter().any(|part| part.is_first());
        let is_part = |part: &Part| Part::new(part.number(), part.of()).is_some();
        let gathered = match &self.gathered {
            ConcludedGathering::Dwell(concluded) => {
                self.facts.options.definitions == Definitions::Dwell
                    && concluded.ordered.is_some() == is_first
                    && concluded.is_sound()
            }
            ConcludedGathering::MrmTrace(concluded) => {
                self.facts.options.definitions == Definitions::MrmTrace && concluded.is_sound()
            }
        };
        gathered && self.gaps_ns.is_some() == is_first && self.parts.iter().all(is_part)
    }

    /// The same in few bytes, for another process or machine. Only this version of dwell reads it back.
    pub fn to_bytes(&self) -> Result<Vec<u8>, AnalysisError> {
        postcard::to_allocvec(self).map_err(|error| AnalysisError::NotWritten { reason: error.to_string() })
    }

    /// Reads what [`ConcludedPart::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AnalysisError> {
        let damaged = |reason: String| AnalysisError::DamagedPart { reason };
        let (part, rest) = postcard::take_from_bytes::<Self>(bytes).map_err(|error| damaged(error.to_string()))?;
        if !rest.is_empty() {
            return Err(damaged(format!("{} bytes follow it", rest.len())));
        }
        if part.is_sound() { Ok(part) } else { Err(damaged("its numbers contradict each other".to_owned())) }
    }
}
