//! The machine: what it is, what it does meanwhile, and what can be observed on it.
//!
//! [`read_host`] says what it is, [`measure_baseline`] what it did before a run, [`SensorThread`] what it did during
//! one, [`probe_all`] what can be observed on it.
//! What cannot be read is a [`Sensor`](dwell_events::host::Sensor) that says why, never a zero. Linux only.

#![deny(unsafe_code)]

mod baseline;
mod clock_anchor;
mod cpu_list;
mod cpu_times;
mod energy;
mod error;
mod facts;
mod kept_file;
mod libraries;
mod meminfo;
mod memory_events;
mod memory_limit;
mod own_memory;
mod page_cache;
mod pressure;
mod probes;
mod root;
mod standard_output;
mod telemetry;

pub use baseline::{measure_baseline, measure_baseline_at};
pub use clock_anchor::clock_anchor;
pub use cpu_list::online_cpus;
pub use energy::{EnergyMeters, EnergyReading, EnergyRefusal};
pub use error::HostError;
pub use facts::{read_host, read_host_at};
pub use kept_file::KeptFile;
pub use libraries::library_for_programs;
pub use meminfo::meminfo_bytes;
pub use memory_events::{MemorySampling, NoMemoryEvents, memory_events};
pub use memory_limit::MemoryLimit;
pub use own_memory::{release_freed_memory, work_in_huge_pages};
pub use page_cache::{drop_from_page_cache, resident_in_page_cache};
pub use pressure::{PressureLine, PressureReading};
pub use probes::{ProbeContext, ProbeSpec, perf_event_refusal, probe_all, probe_names, probe_specs};
pub use root::Root;
pub use standard_output::was_standard_output_closed;
pub use telemetry::SensorThread;
