//! Energy: what a meter covers, and how it knows.

use serde::{Deserialize, Serialize};

use crate::choices;

choices! {
    /// What a meter of energy covers.
    EnergyPart {
        /// A processor package: its cores, caches and what else is on it.
        Processor = "processor",
        /// Memory that is counted apart from the processor.
        Memory = "memory",
        /// A graphics processor with its memory.
        Gpu = "gpu",
        /// The whole platform, of which the others are parts.
        Platform = "platform",
        /// A battery that supplies the whole machine.
        Battery = "battery",
        /// A part of a processor package, such as its cores.
        InsideProcessor = "inside_processor",
        /// Something that the driver of a sensor names; it may overlap with the others.
        Sensor = "sensor",
    }
}

choices! {
    /// How a meter knows the energy.
    EnergyBasis {
        /// The hardware adds it up, so that nothing is missed between two samples.
        Counter = "counter",
        /// It is the power of the samples times the time between them.
        Power = "power",
    }
}

/// A meter of energy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnergyMeterName {
    /// Its name, unique on the machine, such as `rapl:package-0`.
    pub source: String,
    /// What it covers.
    pub part: EnergyPart,
    /// How it knows.
    pub basis: EnergyBasis,
}
