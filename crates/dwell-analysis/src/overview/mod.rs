//! A small picture of a whole trace: bytes loaded and stored by place and time, whatever the length of the run.
//!
//! A place is a tensor, or all tensors of a layer where there are very many: memory laid out by region type, layer and name, not
//! by address. Time is cut at multiples of a power of two nanoseconds since the clock began, so that parts of a trace
//! have the same cuts and add up. No byte is lost: the cells of a region type sum up to its bytes in the trace, exactly.

mod builder;
mod check;
mod kv_map;
mod operations;
mod places;
mod survival_curves;
mod time_bins;

use serde::{Deserialize, Serialize};

pub use builder::OverviewBuilder;
pub use kv_map::{KV_MAP_COLUMNS, KvExtent, KvLayerMap, KvMap, KvMapBuilder};
pub use places::OverviewRegion;
pub(crate) use survival_curves::survival_curves;

/// Version of the format of `overview.json`.
pub const OVERVIEW_FORMAT: u32 = 1;

/// The picture of a trace, as it is written to `overview.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// Version of the format.
    pub format: u32,
    /// Time of the earliest row; 0 of a trace without rows.
    pub first_ns: u64,
    /// Time of the latest row.
    pub last_ns: u64,
    /// Rows of the trace.
    pub rows: u64,
    /// Where accesses went, by region type, layer and name.
    pub places: Vec<Place>,
    /// Bytes by place and time.
    pub tiles: Tiles,
    /// Bytes by region type and time, in finer cuts.
    pub traffic: Traffic,
    /// What computed: bytes by operation, most bytes first.
    pub operations: Vec<Operation>,
    /// Bytes that each step touched, by region type.
    pub working_set: WorkingSetSteps,
    /// How long data was needed and how long it was there, by region type; none for types whose accesses are samples.
    pub survival: Vec<SurvivalCurve>,
    /// Lives of KV blocks; none if the run has none.
    pub kv: Option<KvMap>,
}

/// One row of the map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Whose memory it is.
    pub region_type: String,
    /// Layer, if the tensors belong to one.
    pub layer: Option<u16>,
    /// The tensor; none where the place stands for several, or nothing names them.
    pub tensor: Option<String>,
    /// Regions that it stands for.
    pub regions: u32,
    /// Bytes of the regions; 0 where nothing says so.
    pub size_bytes: u64,
    /// Bytes loaded.
    pub read_bytes: u64,
    /// Bytes stored.
    pub written_bytes: u64,
    /// Rows of the trace.
    pub rows: u64,
}

/// Times that are cut alike: bin `n` begins at `first_bin_ns + n * bin_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeAxis {
    /// When the first bin begins; not after the first row.
    pub first_bin_ns: u64,
    /// How long a bin is: a power of two.
    pub bin_ns: u64,
    /// How many there are.
    pub bins: u32,
}

/// Cells of the map in which anything was accessed, as four columns of the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tiles {
    /// How time is cut.
    #[serde(flatten)]
    pub axis: TimeAxis,
    /// Index in `places`, ascending.
    pub place: Vec<u32>,
    /// Bin of the time, ascending within a place.
    pub bin: Vec<u32>,
    /// Bytes loaded.
    pub read_bytes: Vec<u64>,
    /// Bytes stored.
    pub written_bytes: Vec<u64>,
}

/// Bytes by region type and time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// How time is cut.
    #[serde(flatten)]
    pub axis: TimeAxis,
    /// One entry per region type that was accessed.
    pub series: Vec<TrafficSeries>,
}

/// The bytes of one region type, one number per bin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficSeries {
    /// Whose memory it is.
    pub region_type: String,
    /// Bytes loaded.
    pub read_bytes: Vec<u64>,
    /// Bytes stored.
    pub written_bytes: Vec<u64>,
}

/// What one operation, such as `MUL_MAT`, accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// As in the `symbol` column; empty for all that are not listed.
    pub symbol: String,
    /// Rows of the trace.
    pub rows: u64,
    /// Bytes loaded.
    pub read_bytes: u64,
    /// Bytes stored.
    pub written_bytes: u64,
}

/// Bytes that steps touched, in the order of the steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingSetSteps {
    /// Steps that one number stands for: the largest of them.
    pub steps_per_point: u32,
    /// One entry per region type that steps touched.
    pub series: Vec<WorkingSetSeries>,
}

/// The working set of one region type, one number per point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingSetSeries {
    /// Whose memory it is.
    pub region_type: String,
    /// Bytes touched in a step, each counted once.
    pub bytes: Vec<u64>,
}

/// What the lives of a curve are measured to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// The last load before the next store: how long a memory has to keep the data.
    Retention,
    /// The next store, or the end of the memory: how long the data is there.
    Residency,
}

/// The share of bytes whose lives last longer than a time, by Kaplan and Meier, as columns of the same length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurvivalCurve {
    /// Whose memory it is.
    pub region_type: String,
    /// What the lives are measured to.
    pub endpoint: Endpoint,
    /// Bytes of all lives; a byte counts once for each.
    pub life_bytes: u64,
    /// Of them, bytes of lives that had not ended when the trace did.
    pub open_bytes: u64,
    /// Times, ascending.
    pub at_s: Vec<f64>,
    /// Share that lasts longer.
    pub surviving: Vec<f64>,
    /// Lower bound of the share, at 95 %.
    pub surviving_low: Vec<f64>,
    /// Upper bound of the share, at 95 %.
    pub surviving_high: Vec<f64>,
}
