//! What a trace says: retention, write-once ratio, read frequency, working set, locality, inter-access intervals and
//! suitability for managed-retention memory, per region type and per region.
//!
//! An [`Analyser`] takes Arrow batches of the `trace` table, and of `kv_block_lifecycle` where there is one, in one
//! pass and gives a [`MetricsReport`]. The crate opens no file, starts no thread and reads no clock.
//!
//! [`Definitions::Dwell`] follows every byte from a store to the last load before the next store of it;
//! [`Definitions::MrmTrace`] computes the figures that mrm-trace 0.1.23 gives for the same trace. `docs/metrics/` has
//! a page on each metric. [`validity`] and [`quality`] judge a run as a whole, [`statistics`] several of them;
//! [`memory`] lines up process samples with tokens.

#![forbid(unsafe_code)]

mod address_order;
mod analyser;
mod approximate;
mod column;
mod columns;
mod concluded;
mod concluded_part;
mod conclusion;
mod definitions;
mod distribution;
pub mod energy;
mod error;
mod exact;
mod footprint;
mod frames;
mod gatherer;
mod histogram;
mod kv_lives;
mod label;
mod life_shards;
pub mod lives;
pub mod memory;
pub mod metrics;
mod mrm_rows;
mod mrm_trace;
mod observation;
pub mod overview;
mod part;
pub mod quality;
mod ranges;
mod reader;
mod recency;
mod region_index;
mod region_type;
mod requested;
mod sampling;
mod sorted_rows;
pub mod statistics;
mod step_clock;
mod step_windows;
mod summary;
mod survival;
mod table;
mod totals;
mod touched_steps;
mod trace_lives;
pub mod validity;

pub use analyser::{Analyser, Options};
pub use approximate::{ApproximateBasis, ApproximateFigure, ApproximateType, Approximation, ConcludedSample};
pub use column::{Column, Getter, Merging, MetricTable, Unit, Value};
pub use concluded_part::ConcludedPart;
pub use definitions::RowOrder;
pub use dwell_events::{Basis, Definitions, Metric};
pub use error::AnalysisError;
pub use frames::MrmTraceFrames;
pub use histogram::{HISTOGRAM_COLUMNS, HistogramRow};
pub use label::label_of;
pub use metrics::RegionTypeRow;
pub use metrics::bandwidth::{BANDWIDTH_COLUMNS, BANDWIDTH_TABLE, BandwidthRow};
pub use metrics::hot_cold::{HOT_COLD_COLUMNS, HOT_COLD_TABLE, HotColdRow};
pub use metrics::reuse_distance::{REUSE_COLUMNS, REUSE_TABLE, ReuseRow};
pub use metrics::suitability::{NotRatedReason, SuitabilityClass, SuitabilityThresholds};
pub use part::Part;
pub use reader::KV_LIFECYCLE_COLUMNS;
pub use region_type::RegionTypeName;
pub use requested::RequestedMetrics;
pub use sampling::{Estimate, Obstacle};
pub use sorted_rows::{SortableRow, SortableRows};
pub use table::{MetricsReport, ObservationWindow, RegionFigures, RegionName, TypeValues, metric_columns};
pub use totals::Totals;
