//! The columns that say which line it is and how its figures were obtained.

use std::borrow::Cow;

use dwell_events::RegionType;

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use crate::sampling::Obstacle;

/// The columns that describe a line, whatever metrics are asked for.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: None,
    page: "docs/metrics/README.md",
    by_type: &[
        column(0, "region_type", Unit::None, Merging::Same, Getter::Text(|row| Some(Cow::from(&*row.region_type))),
            RegionType::MEANING),
        column(1, "n_regions", Unit::None, Merging::Sum, Getter::Integer(|row| Some(row.n_regions)),
            "regions of the type"),
        column(11, "definitions", Unit::None, Merging::Same, Getter::Text(|row| Some(Cow::from(row.definitions.name()))),
            "whose definitions the metrics follow: `dwell` or `mrm-trace`"),
        column(12, "basis", Unit::None, Merging::Weakest, Getter::Text(|row| Some(Cow::from(row.read_frequency.basis.name()))),
            "how the accesses were obtained: `exact`, `page`, `sampled` or `inferred`"),
        column(16, "window_s", Unit::Seconds, Merging::Extreme, Getter::Number(|row| Some(row.suitability.window_s)),
            "from the first to the last access of the run"),
        column(47, "not_estimable_reason", Unit::None, Merging::Derived, Getter::Text(|row| row.retention.obstacle.map(Obstacle::name).map(Cow::from)),
            "why a metric cannot be estimated from the sample"),
        column(61, "steps", Unit::None, Merging::WithinParts, Getter::Integer(|row| Some(row.steps).filter(|steps| *steps > 0)),
            "steps of the run: a prompt, or one token of each sequence; empty if the trace has none"),
        column(62, "time_resolution_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.time_resolution_s),
            "median time between two times that accesses have; a life between accesses of the same time is 0"),
    ],
    by_region: &[
        column(0, "region_id", Unit::None, Merging::Same, Getter::Integer(|row| Some(row.region_id)),
            "row of `region_map` with this id"),
        column(1, "region_type", Unit::None, Merging::Same, Getter::Text(|row| Some(Cow::from(&*row.region_type))),
            RegionType::MEANING),
        column(2, "first_seen_ns", Unit::Nanoseconds, Merging::Extreme, Getter::Integer(|row| row.first_seen_ns),
            "time of the first access"),
        column(3, "last_seen_ns", Unit::Nanoseconds, Merging::Extreme, Getter::Integer(|row| row.last_seen_ns),
            "time of the last access"),
        column(24, "basis", Unit::None, Merging::Weakest, Getter::Text(|row| Some(Cow::from(row.read_frequency.basis.name()))),
            "how the accesses were obtained: `exact`, `page`, `sampled` or `inferred`"),
        column(25, "tensor", Unit::None, Merging::Same, Getter::Text(|row| row.name.tensor.as_deref().map(Cow::from)),
            "tensor that owns the bytes, from `region_map`"),
        column(26, "layer", Unit::None, Merging::Same, Getter::Integer(|row| row.name.layer.map(u64::from)),
            "layer of the tensor, from 0; empty if it belongs to none"),
    ],
};
