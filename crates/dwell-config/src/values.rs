//! Values that are chosen from a list.

use dwell_events::choices;

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
    /// Which figures are drawn.
    Figures {
        /// SVG files.
        Svg = "svg",
        /// None.
        None = "none",
    }
}

/// Quantised matrix types of GGUF files, in lower case.
pub(crate) const QUANTISATION_NAMES: &[&str] = &[
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q8_k", "iq1_s", "iq1_m",
    "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "mxfp4", "nvfp4", "q1_0",
    "q2_0",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_file_is_the_name_in_messages() {
        assert_eq!(serde_json::to_value(Figures::Svg).unwrap(), Figures::Svg.name());
    }
}
