//! The metrics, one file each: what the figures are, their columns, and how either definitions obtain them.
//!
//! To add one: a file here with its figures, [`TypeFigures`] for them and a `TABLE` of columns; its name in
//! [`dwell_events::Metric`]; its line in the list below. Gathering, merging, rows, CSV, text and the data dictionary
//! follow from the list. What would make every analysis slower is gathered in [`crate::requested`] instead, if asked for.

pub mod bandwidth;
pub mod endurance;
pub mod hot_cold;
pub mod inter_access_interval;
mod line;
pub mod locality;
pub mod read_age;
pub mod read_frequency;
pub mod retention;
pub mod reuse_distance;
pub mod suitability;
pub mod working_set;
pub mod write_once;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Definitions;
use crate::column::{Column, MetricTable};
use crate::observation::Observation;
use crate::reader::Access;
use crate::region_type::RegionTypeName;
use crate::sampling::Estimate;
use crate::table::RegionFigures;
use crate::totals::TypeTotals;

/// Makes everything that has a part for each metric.
macro_rules! metrics {
    ($($(#[$about:meta])* $module:ident: $figures:ident,)+) => {
        /// Every metric with its columns; the first entry has the columns that describe a line.
        pub static ALL: &[&MetricTable] = &[&line::TABLE, $(&$module::TABLE),+];

        /// The figures of one region type.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct RegionTypeRow {
            /// The type.
            pub region_type: RegionTypeName,
            /// Regions of the type.
            pub n_regions: u64,
            /// Whose definitions the figures follow.
            #[serde(skip)]
            pub definitions: Definitions,
            /// Steps of the run; 0 if the trace has none.
            pub steps: u64,
            /// Mean time between two times that accesses have; none by the definitions of mrm-trace.
            pub time_resolution_s: Option<f64>,
            $($(#[$about])* pub $module: $module::$figures,)+
        }

        impl RegionTypeRow {
            /// A row that says nothing.
            pub(crate) fn empty(region_type: RegionTypeName, n_regions: u64, definitions: Definitions) -> Self {
                Self { region_type, n_regions, definitions, steps: 0, time_resolution_s: None, $($module: Default::default(),)+ }
            }

            /// By dwell's definitions.
            pub(crate) fn of(of_type: &OfType<'_>) -> Self {
                let totals = of_type.totals;
                Self {
                    region_type: totals.region_type().name().into(),
                    n_regions: totals.n_regions,
                    definitions: Definitions::Dwell,
                    steps: of_type.observation.steps,
                    time_resolution_s: Some(of_type.observation.resolution_s),
                    $($module: <$module::$figures as TypeFigures>::of(of_type, &totals.tallies.$module),)+
                }
            }
        }

        /// What the metrics gather of a region type, each for itself.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        pub(crate) struct TypeTallies {
            $($module: <$module::$figures as TypeFigures>::Tally,)+
        }

        impl TypeTallies {
            pub(crate) fn follow(&mut self, access: &Access) {
                $(self.$module.follow(access);)+
            }

            pub(crate) fn merge(&mut self, other: &Self) {
                $(self.$module.merge(&other.$module);)+
            }
        }
    };
}

metrics! {
    /// How long data had to be kept.
    retention: Retention,
    /// How much was stored exactly once.
    write_once: WriteOnce,
    /// How much is read for what is written.
    read_frequency: ReadFrequency,
    /// How much memory was touched.
    working_set: WorkingSet,
    /// How far apart consecutive accesses are.
    locality: Locality,
    /// How long memory rests between two accesses.
    inter_access_interval: InterAccessInterval,
    /// Whether managed-retention memory could hold it.
    suitability: Suitability,
    /// How much other memory is touched before the same bytes are read again; on request.
    #[serde(skip_serializing_if = "is_default")]
    reuse_distance: ReuseDistance,
    /// How fast memory is read and written, and how much of it is touched, from window to window; on request.
    #[serde(skip_serializing_if = "is_default")]
    bandwidth: Bandwidth,
    /// How unevenly reads are spread over memory; on request.
    #[serde(skip_serializing_if = "is_default")]
    hot_cold: HotCold,
    /// How old data is when it is read; on request.
    #[serde(skip_serializing_if = "is_default")]
    read_age: ReadAge,
    /// How often memory is stored to; on request.
    #[serde(skip_serializing_if = "is_default")]
    endurance: Endurance,
}

/// The figures of a metric for one region type, by dwell's definitions.
pub(crate) trait TypeFigures: Default {
    /// What the metric gathers for itself; nothing if [`TypeTotals`] has all it needs.
    type Tally: TypeTally;

    fn of(of_type: &OfType<'_>, tally: &Self::Tally) -> Self;
}

/// Follows the rows of one region type in their order.
///
/// This is the place for what needs all rows in order: of the parts of a trace, the first alone follows it. What can be added
/// up from bytes belongs to [`ConcludedRegion`](crate::concluded::ConcludedRegion), which every part has.
pub(crate) trait TypeTally: Default + Serialize + DeserializeOwned {
    fn follow(&mut self, access: &Access);

    /// Adds what was gathered of another run.
    fn merge(&mut self, other: &Self);
}

impl TypeTally for () {
    fn follow(&mut self, _: &Access) {}

    fn merge(&mut self, (): &Self) {}
}

/// What the figures of a region type are computed from.
pub(crate) struct OfType<'a> {
    pub(crate) totals: &'a TypeTotals,
    pub(crate) observation: &'a Observation,
    pub(crate) thresholds: &'a suitability::SuitabilityThresholds,
}

impl OfType<'_> {
    /// What the figures are worth that are computed on request.
    pub(crate) fn requested_estimate(&self) -> Estimate {
        if self.observation.samples.is_sampled() { Estimate::NotEstimable } else { Estimate::Exact }
    }
}

/// The columns of `metrics.csv` with the metrics that they belong to, in their order there. The first eleven are those
/// of mrm-trace.
pub fn type_columns() -> Vec<(&'static MetricTable, &'static Column<RegionTypeRow>)> {
    in_order(|table| table.by_type)
}

/// The columns of `metrics_by_region.csv` with the metrics that they belong to, in their order there.
pub fn region_columns() -> Vec<(&'static MetricTable, &'static Column<RegionFigures>)> {
    in_order(|table| table.by_region)
}

/// The column of `metrics.csv` with this name.
pub fn type_column(name: &str) -> Option<&'static Column<RegionTypeRow>> {
    ALL.iter().flat_map(|table| table.by_type).find(|column| column.name == name)
}

fn in_order<Row>(
    columns: fn(&MetricTable) -> &'static [Column<Row>],
) -> Vec<(&'static MetricTable, &'static Column<Row>)> {
    let mut ordered: Vec<_> =
        ALL.iter().flat_map(|table| columns(table).iter().map(move |column| (*table, column))).collect();
    ordered.sort_by_key(|(_, column)| column.place);
    ordered
}

/// Whether figures say nothing: nobody asked for them.
fn is_default<T: Default + PartialEq>(figures: &T) -> bool {
    *figures == T::default()
}

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: f64 = 1e9;

/// The share, or none of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Unweighted mean; none of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use dwell_events::Metric;

    use super::*;

    #[test]
    fn every_place_of_a_file_is_taken_once() {
        let places = |places: Vec<usize>| assert_eq!(places, (0..places.len()).collect::<Vec<_>>());
        places(type_columns().iter().map(|(_, column)| column.place).collect());
        places(region_columns().iter().map(|(_, column)| column.place).collect());
    }

    #[test]
    fn every_metric_is_in_the_list_and_has_a_page() {
        let listed: Vec<Metric> = ALL.iter().filter_map(|table| table.metric).collect();
        assert_eq!(listed, Metric::ALL);
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for table in ALL {
            assert!(root.join(table.page).is_file(), "{} is missing", table.page);
        }
    }
}
