//! What can be chosen when tables and figures are made.

use crate::choices;

choices! {
    /// A group of figures.
    Metric {
        /// How long data had to be kept.
        Retention = "retention",
        /// How much was stored exactly once.
        WriteOnce = "write_once",
        /// How much is read for what is written.
        ReadFrequency = "read_frequency",
        /// How much memory was touched.
        WorkingSet = "working_set",
        /// How far apart consecutive accesses are.
        Locality = "locality",
        /// How long memory rests between two accesses.
        InterAccessInterval = "inter_access_interval",
        /// Whether managed-retention memory could hold it.
        Suitability = "suitability",
        /// How much other memory is touched before the same bytes are read again.
        ReuseDistance = "reuse_distance",
        /// How fast memory is read and written, and how much of it is touched, from window to window.
        Bandwidth = "bandwidth",
        /// How unevenly reads are spread over memory.
        HotCold = "hot_cold",
        /// How old data is when it is read.
        ReadAge = "read_age",
        /// How often memory is stored to.
        Endurance = "endurance",
    }
}

/// The first that is computed only on request; the standard ones come before it.
const FIRST_ON_REQUEST: usize = Metric::ReuseDistance as usize;

impl Metric {
    /// The metrics that are computed unless others are asked for.
    pub const STANDARD: &'static [Metric] = Metric::ALL.split_at(FIRST_ON_REQUEST).0;

    /// Their names, in the same order.
    pub const STANDARD_NAMES: &'static [&'static str] = Metric::NAMES.split_at(FIRST_ON_REQUEST).0;

    /// The metrics that are computed only if they are asked for by name, because each follows the rows a second time.
    pub const ON_REQUEST: &'static [Metric] = Metric::ALL.split_at(FIRST_ON_REQUEST).1;
}

choices! {
    /// Whose definitions the figures follow.
    #[derive(Default)]
    Definitions {
        /// Byte-exact lives: a byte lives from a store to the last load before the next store of it.
        #[default]
        Dwell = "dwell",
        /// The formulas of mrm-trace 0.1.23: one life per region, exact addresses, unweighted.
        MrmTrace = "mrm-trace",
    }
}

choices! {
    /// How the pages of a table are compressed. Every reader of Parquet knows all of these.
    #[derive(Default)]
    Compression {
        /// Small and fast.
        #[default]
        Zstd = "zstd",
        /// Faster, larger.
        Snappy = "snappy",
        /// For readers without zstd.
        Gzip = "gzip",
        /// Not at all.
        None = "none",
    }
}

choices! {
    /// What becomes of accesses that nothing could label.
    #[derive(Default)]
    UnknownPolicy {
        /// They stay, as unknown.
        #[default]
        Keep = "keep",
        /// They are dropped and counted as loss.
        Skip = "skip",
        /// The first one ends the labelling.
        Error = "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_value() {
        assert_eq!(Metric::ALL.map(Metric::name), Metric::NAMES);
        assert_eq!(Metric::from_name("working_set"), Some(Metric::WorkingSet));
        assert_eq!(Metric::STANDARD.iter().map(|metric| metric.name()).collect::<Vec<_>>(), Metric::STANDARD_NAMES);
        assert_eq!([Metric::STANDARD, Metric::ON_REQUEST].concat(), Metric::ALL);
        assert_eq!(Definitions::from_name("mrm-trace"), Some(Definitions::MrmTrace));
        assert_eq!(Compression::from_name("lz4"), None);
    }
}
