//! What is known about the machine: what it is, what it did before and during a run, and what can be observed on it.
//!
//! dwell-host fills these types in; `raw/run.json`, `raw/recorded.json` and `metadata.json` keep them.

mod machine;
mod probe;
mod sensor;
mod telemetry;

pub use machine::{
    Cache, Container, FrequencyLimits, Gpu, Host, HostMemory, KernelSettings, NumaNode, PowerSource, Topology,
};
pub use probe::{Outcome, Probe, ProbeKind, ProbeStatus};
pub use sensor::Sensor;
pub use telemetry::{Baseline, Energy, Frequency, Pressure, SensorSummary, Stalls, Temperature};
