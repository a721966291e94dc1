//! What is recorded about the machine: what it is, and what it did before and during a run.
//!
//! dwell-host fills these types in; `raw/run.json`, `raw/recorded.json` and `metadata.json` keep them.

mod machine;
mod sensor;
mod telemetry;

pub use machine::{
    Cache, Container, FrequencyLimits, Gpu, Host, HostMemory, KernelSettings, NumaNode, PowerSource, Topology,
};
pub use sensor::Sensor;
pub use telemetry::{Baseline, Energy, Frequency, Pressure, SensorSummary, Stalls, Temperature};
