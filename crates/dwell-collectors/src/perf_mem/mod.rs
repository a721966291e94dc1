//! The `perf_mem` collector: loads and stores of a program, sampled by the processor with their addresses and latencies.
//!
//! Its samples become rows of `trace`, the same way as those of an imported recording. A trace is either exact or sampled: together with
//! `tensor_ops`, the collector refuses to begin.
//!
//! What makes its numbers wrong or missing:
//! - One access in so many is there, and totals are estimates.
//! - Intel's loads that took fewer cycles than the threshold are left out, so latencies are those of the slower loads.
//! - The processor chooses which accesses it can attribute; it has no latency for stores.

use std::path::PathBuf;

use dwell_decode::perf_data::Sample;
use dwell_events::host::Outcome;
use dwell_events::{Basis, CollectorName};
use dwell_host::{MemorySampling, NoMemoryEvents, Root, memory_events, perf_event_refusal};
use dwell_metadata::{RunRecord, RunRequest};
use dwell_perf::{Attributes, SampledEvent, flags, kinds, sampled, software};
use dwell_store::{RunDir, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::perf::{PerfSetup, PerfWatch, samples_of};
use crate::{CheckPlace, CollectError, Collected, Collector, Description, Wanted, Watching, read_settings};

const NAME: CollectorName = CollectorName::of("perf_mem");
/// Bytes of the largest ring.
const MOST_RING_BYTES: usize = 2 << 20;
/// Memory that is read to find out whether it works: larger than the first caches.
const TRIED_BYTES: usize = 1 << 20;
const TRIED_ROUNDS: usize = 64;
/// Often enough that a short trial has samples, and loads of any latency.
const TRIED: MemorySampling = MemorySampling { period: 1009, least_latency_cycles: 3 };

/// Sampled loads and stores of a program.
pub(crate) struct PerfMem;

/// What the collector was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PerfMemSettings {
    /// Events from one sample to the next.
    pub period: u64,
    /// Loads that took fewer cycles are left out, where the processor can do that.
    pub least_latency_cycles: u64,
    /// dwell's own program, which is no part of a run of another one.
    pub own_program: Option<String>,
}

impl PerfMemSettings {
    /// dwell's own program, by the settings of a run.
    pub fn own_program(settings: &Value) -> Option<String> {
        serde_json::from_value::<Self>(settings.clone()).ok()?.own_program
    }

    fn sampling(&self) -> MemorySampling {
        MemorySampling { period: self.period, least_latency_cycles: self.least_latency_cycles }
    }
}

/// The events of this machine, with the fields that their samples need. The first one counts nothing: all processors have it, and it
/// tells which process had which file mapped where.
fn events(root: &Root, sampling: MemorySampling) -> Result<Vec<SampledEvent>, NoMemoryEvents> {
    const SAMPLES: u64 =
        sampled::IDENTIFIER | sampled::IP | sampled::TID | sampled::TIME | sampled::ADDR | sampled::CPU;
    let mappings = Attributes::of_user(kinds::SOFTWARE, software::DUMMY).with(flags::INHERIT | flags::PROCESSES);
    let mappings = Attributes { sample_type: SAMPLES, ..mappings };
    let with_fields = |event: SampledEvent| SampledEvent {
        leader: event.leader.map(|leader| leader.with(flags::INHERIT)),
        attributes: Attributes {
            sample_type: SAMPLES | sampled::WEIGHT_STRUCT | sampled::DATA_SRC,
            counts_lost: true,
            ..event.attributes.with(flags::INHERIT | flags::SAMPLE_ID_ALL)
        },
        ..event
    };
    let mappings = SampledEvent { name: "dummy".to_owned(), leader: None, attributes: mappings, cpus: None };
    let of_machine = memory_events(root, sampling)?.into_iter().map(with_fields);
    Ok([mappings].into_iter().chain(of_machine).collect())
}

impl Collector for PerfMem {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "loads and stores of any program, one in so many, with address, latency and the cache that answered",
            basis: Basis::Sampled,
            cost: "not known: it has not been measured on a processor that has the events",
            needs: "Intel's `mem-loads` and `mem-stores` or AMD's `ibs_op`, which most virtual machines lack; \
                    `kernel.perf_event_paranoid` of at most 2, for AMD before Linux 6.14 at most 1",
            tried: "loads of dwell itself are sampled while it reads 1 MiB",
        }
    }

    fn check(&self, place: &CheckPlace<'_>) -> Outcome {
        let events = match events(&place.root, TRIED) {
            Ok(events) => events,
            Err(NoMemoryEvents::NoUnit(reason)) => return Outcome::absent(reason),
            Err(NoMemoryEvents::NotReadable(reason)) => return Outcome::fails(reason),
        };
        let memory = vec![1_u8; TRIED_BYTES];
        let sum = || memory.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let read = || (0..TRIED_ROUNDS).for_each(|_| assert!(std::hint::black_box(sum()) > 0));
        match samples_of(&events, read) {
            Ok(samples) => {
                let has_address = |sample: &&Sample| sample.address().is_some_and(|address| address != 0);
                match samples.iter().filter(has_address).count() {
                    0 => Outcome::fails(format!("{} was opened and gave no sample with an address", names(&events))),
                    count => Outcome::works(format!("{} gave {count} samples with addresses", names(&events))),
                }
            }
            Err(error) => perf_event_refusal(&place.root, &error),
        }
    }

    fn settings(&self, wanted: &Wanted<'_>) -> Value {
        let own_program = std::env::current_exe().ok().map(|path: PathBuf| path.display().to_string());
        let MemorySampling { period, least_latency_cycles } = wanted.memory_sampling;
        json!(PerfMemSettings { period, least_latency_cycles, own_program })
    }

    fn begin(&self, run: &RunDir, request: &RunRequest, settings: &Value) -> Result<Box<dyn Watching>, CollectError> {
        if request.collectors.has(CollectorName::TENSOR_OPS) {
            return Err(CollectError::TwoTraces { collector: NAME.name(), other: CollectorName::TENSOR_OPS.name() });
        }
        let settings: PerfMemSettings = read_settings(NAME, settings)?;
        let events = events(&Root::default(), settings.sampling())
            .map_err(|none| CollectError::NoEvents { collector: NAME.name(), reason: none.reason().to_owned() })?;
        let setup = PerfSetup { name: NAME, events, of_the_kernel: None, most_ring_bytes: MOST_RING_BYTES };
        Ok(Box::new(PerfWatch::begin(run, request, setup)?))
    }

    /// Its table is the trace, which the build makes with rules for labels.
    fn build(&self, _: &RunDir, _: &RunRecord, _: &mut Collected) -> Result<(), StoreError> {
        Ok(())
    }
}

/// What is sampled; the first event only tells of mappings.
fn names(events: &[SampledEvent]) -> String {
    events[1..].iter().map(|event| event.name.as_str()).collect::<Vec<_>>().join(" and ")
}
