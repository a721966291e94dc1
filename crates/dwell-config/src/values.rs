//! Values that are chosen from a list.

use serde::{Deserialize, Serialize};

/// An enum whose names are written once: for serde, for the table of keys, and for messages.
macro_rules! choices {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$meaning])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The names of all values, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The name used in files.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}

choices! {
    /// What runs a model.
    Engine {
        /// The llama.cpp that dwell is linked with.
        LlamaCpp = "llama_cpp",
    }
}

choices! {
    /// Type of the matrices of a model that is not quantised.
    Dtype {
        /// 32-bit floats.
        F32 = "f32",
        /// 16-bit floats.
        F16 = "f16",
        /// 16-bit floats with the exponent of 32-bit ones.
        Bf16 = "bf16",
    }
}

choices! {
    /// Who observes a run.
    Collector {
        /// Every access of every computed graph.
        TensorOps = "tensor_ops",
        /// Memory, CPU, faults and I/O of the processes.
        Process = "process",
    }
}

choices! {
    /// What becomes of accesses to memory of no known region.
    UnknownPolicy {
        /// They stay in the table, as `unknown`.
        Keep = "keep",
        /// They are left out of the table and counted as loss.
        Skip = "skip",
        /// The run fails.
        Error = "error",
    }
}

choices! {
    /// A group of figures.
    Metric {
        /// How long data is kept.
        Retention = "retention",
        /// Share of the stored data that is stored once.
        WriteOnce = "write_once",
        /// Loads per store.
        ReadFrequency = "read_frequency",
        /// Bytes and pages touched.
        WorkingSet = "working_set",
        /// Strides, and steps inside a page.
        Locality = "locality",
        /// Time between two accesses to the same data.
        InterAccessInterval = "inter_access_interval",
        /// Class by the thresholds.
        Suitability = "suitability",
    }
}

choices! {
    /// Whose definitions the figures follow.
    Definitions {
        /// Those of dwell.
        Dwell = "dwell",
        /// Those of mrm-trace.
        MrmTrace = "mrm-trace",
    }
}

choices! {
    /// How tables are compressed.
    Compression {
        /// Zstandard.
        Zstd = "zstd",
        /// Snappy.
        Snappy = "snappy",
        /// gzip.
        Gzip = "gzip",
        /// Not at all.
        None = "none",
    }
}

choices! {
    /// Which figures are drawn.
    Figures {
        /// SVG files.
        Svg = "svg",
        /// None.
        None = "none",
    }
}

/// Names of the types of the KV cache, as in [`dwell_events::engine::KvType`].
pub(crate) const KV_TYPE_NAMES: &[&str] = &["f16", "q8_0", "q4_0"];

/// Names of the time resolutions, as in [`dwell_events::engine::TimeResolution`].
pub(crate) const TIME_RESOLUTION_NAMES: &[&str] = &["op", "layer", "step"];

/// Quantised matrix types of GGUF files, in lower case.
pub(crate) const QUANTISATION_NAMES: &[&str] = &[
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q8_k", "iq1_s", "iq1_m",
    "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "mxfp4", "nvfp4", "q1_0",
    "q2_0",
];

#[cfg(test)]
mod tests {
    use dwell_events::engine::{KvType, TimeResolution};

    use super::*;

    #[test]
    fn names_of_engine_types_are_those_of_the_engine() {
        assert_eq!(KV_TYPE_NAMES, KvType::ALL.map(KvType::name));
        let resolutions = [TimeResolution::Op, TimeResolution::Layer, TimeResolution::Step];
        assert_eq!(TIME_RESOLUTION_NAMES, resolutions.map(TimeResolution::name));
    }

    #[test]
    fn a_name_in_a_file_is_the_name_in_messages() {
        for &metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
        }
        assert_eq!(Metric::NAMES.len(), Metric::ALL.len());
    }
}
