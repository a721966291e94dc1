//! What the machine did before and during a run.

use serde::{Deserialize, Serialize};

use super::Sensor;

/// How busy the machine was while nothing of ours ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// How long was watched.
    pub duration_s: f64,
    /// Intervals that were looked at.
    pub intervals: u64,
    /// Use of the processors over the whole time; 100 is all of them busy. Stolen time is not counted as use.
    pub cpu_mean_pct: Sensor<f64>,
    /// Greatest use in one interval.
    pub cpu_max_pct: Sensor<f64>,
    /// Share of the time of all processors that the hypervisor gave to others while they were wanted here.
    pub steal_pct: Sensor<f64>,
    /// Memory of the machine.
    pub memory_total_bytes: Sensor<u64>,
    /// Memory that programs could have at the end without swapping.
    pub memory_available_bytes: Sensor<u64>,
    /// Tasks that ran or waited, mean over 1, 5 and 15 minutes.
    pub load_averages: Sensor<[f64; 3]>,
    /// Tasks that ran or could have run at the end, the measuring one among them.
    pub tasks_running: Sensor<u64>,
    /// Stalls over the whole time.
    pub pressure: Pressure,
}

/// What the sensors said over a span of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SensorSummary {
    /// How long was watched.
    pub duration_s: f64,
    /// How often was looked, at the begin and at the end too.
    pub samples: u64,
    /// Temperature of the processor package.
    pub temperature: Sensor<Temperature>,
    /// Frequency of the processors.
    pub frequency: Sensor<Frequency>,
    /// How often the processor slowed itself down because it was hot.
    pub throttle_events: Sensor<u64>,
    /// Energy that was used.
    pub energy: Energy,
    /// Use of all processors by everything on the machine; 100 is all of them busy.
    pub cpu_pct: Sensor<f64>,
    /// Share of the time of all processors that the hypervisor gave to others while they were wanted here.
    pub steal_pct: Sensor<f64>,
    /// Stalls over the whole time.
    pub pressure: Pressure,
    /// CPU time that the watching took, with finding and opening the files.
    pub own_cpu_ns: u64,
}

/// Temperature of the processor package; the hottest at each moment where there are several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// The sensors that were read.
    pub source: String,
    /// At the begin.
    pub start_c: f64,
    /// Mean of the samples.
    pub mean_c: f64,
    /// Hottest sample.
    pub peak_c: f64,
    /// At the end.
    pub end_c: f64,
}

/// Frequency of the processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frequency {
    /// The files that were read, and how far they can be trusted.
    pub source: String,
    /// Mean over the processors at the begin.
    pub start_mhz: f64,
    /// Lowest of any processor in any sample.
    pub min_mhz: f64,
    /// Mean over processors and samples.
    pub mean_mhz: f64,
    /// Highest of any processor in any sample.
    pub max_mhz: f64,
    /// Mean over the processors at the end.
    pub end_mhz: f64,
}

/// Energy that the processors used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// All packages: cores, caches, built-in graphics.
    pub package_joules: Sensor<f64>,
    /// Memory, where it is counted apart.
    pub dram_joules: Sensor<f64>,
}

/// Stalls of the machine over a span of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Waiting for a processor.
    pub cpu: Sensor<Stalls>,
    /// Waiting for memory.
    pub memory: Sensor<Stalls>,
    /// Waiting for a disk.
    pub io: Sensor<Stalls>,
}

/// Stalls for one resource, in percent of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Share of the span in which at least one task waited.
    pub some_pct: f64,
    /// Share of the span in which all tasks waited; older kernels do not tell it for processors.
    pub full_pct: Option<f64>,
    /// What the kernel says of the ten seconds before the end: at least one waited.
    pub some_avg10_pct: f64,
    /// The same: all waited.
    pub full_avg10_pct: Option<f64>,
}
