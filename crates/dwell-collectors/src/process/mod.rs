//! The `process` collector: memory, CPU time, faults and I/O of the processes, sampled from `/proc`.

mod samples;
mod sampling;

use std::time::Duration;

use dwell_events::engine::EngineEvent;
use dwell_events::host::Outcome;
use dwell_events::schema::Table;
use dwell_events::{Basis, CollectorName, Hint, LossKind};
use dwell_metadata::{CollectorEnd, RunRecord, RunRequest};
use dwell_process::{RollupPolicy, Sampler};
use dwell_store::{RunDir, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{BuiltTable, CheckPlace, CollectError, Collected, Collector, Description, Wanted, Watching, read_settings};
pub use samples::ProcessSamples;
use sampling::Sampling;

/// Label of the worker in the memory table.
const WORKER_LABEL: &str = "worker";
/// Label of a server's processes in the memory table.
const SERVER_LABEL: &str = "server";
/// Label of the process that asks a server in the memory table.
const CLIENT_LABEL: &str = "client";
/// Label of the observer in the memory table.
const OBSERVER_LABEL: &str = "observer";

/// The processes of a browser share most of their memory, so their sum needs PSS. A walk of all takes 45 to 130 ms: at the usual share
/// of time, most runs would have one. A busy machine takes several times as long, so one walk is made when tokens begin to come.
const BROWSER_ROLLUP: RollupPolicy = RollupPolicy { least_interval: Duration::from_secs(1), most_time_share: 0.02 };

const NAME: CollectorName = CollectorName::PROCESS;

/// Memory, CPU time, faults and I/O of the processes.
pub(crate) struct Process;

#[derive(Serialize, Deserialize)]
struct Settings {
    /// Time between two samples.
    sample_interval_ms: u64,
}

impl Collector for Process {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "memory, CPU time, page faults and storage I/O of the processes",
            basis: Basis::Sampled,
            cost: "0.46 % of one core at 100 ms for a process with 1 GiB resident",
            needs: "/proc; no privilege for processes of the same user",
            tried: "this process is sampled; its resident memory must not be 0",
        }
    }

    fn check(&self, _: &CheckPlace<'_>) -> Outcome {
        let mut sampler = match Sampler::new(&[("probe", std::process::id())]) {
            Ok(sampler) => sampler,
            Err(error) => {
                let outcome = Outcome::fails(error.to_string());
                return match error.hints().into_iter().next() {
                    Some(hint) => outcome.remedy(hint),
                    None => outcome,
                };
            }
        };
        let mut rows = Vec::new();
        sampler.sample_into(&mut rows);
        match rows.first() {
            Some(row) if row.rss_bytes > 0 => {
                Outcome::works(format!("a sample of this process: {} MiB resident", row.rss_bytes >> 20))
            }
            Some(_) => Outcome::fails("a sample of this process says that it has no memory"),
            None => Outcome::fails("no sample of this process could be taken"),
        }
    }

    fn settings(&self, wanted: &Wanted<'_>) -> Value {
        json!(Settings { sample_interval_ms: wanted.sample_interval_ms })
    }

    fn begin(&self, run: &RunDir, request: &RunRequest, settings: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let Settings { sample_interval_ms } = read_settings(NAME, settings)?;
        let label = if request.job.engine.is_embedded() { WORKER_LABEL } else { CLIENT_LABEL };
        let interval = Duration::from_millis(sample_interval_ms);
        let has_roles = request.job.engine.profile().is_in_browser;
        Ok(Box::new(ProcessWatch { run: run.clone(), label, has_roles, tokens_come: false, interval, sampling: None }))
    }

    /// Writes the memory table of every run: without samples it is empty.
    fn build(&self, run: &RunDir, record: &RunRecord, collected: &mut Collected) -> Result<(), StoreError> {
        let samples = ProcessSamples::write_tables(run, record.clock, record.request.build.compression)?;
        let table = BuiltTable { table: Table::Memory, rows: samples.rows, basis: Basis::Sampled, source: NAME };
        collected.tables.push(table);
        let detail = "batches of samples that are damaged or cut off";
        collected.lost(NAME, LossKind::UndecodableRecords, samples.damaged_batches, detail);
        collected.samples = samples;
        Ok(())
    }
}

/// Sampling of a run.
struct ProcessWatch {
    run: RunDir,
    label: &'static str,
    /// Whether the processes of the engine are told apart by what they do.
    has_roles: bool,
    tokens_come: bool,
    interval: Duration,
    /// None until there is a worker to sample.
    sampling: Option<Sampling>,
}

impl Watching for ProcessWatch {
    fn worker_started(&mut self, pid: u32) -> Result<(), CollectError> {
        let rollup = if self.has_roles { BROWSER_ROLLUP } else { RollupPolicy::default() };
        self.sampling = Some(Sampling::begin(&self.run, (self.label, pid), self.interval, rollup)?);
        Ok(())
    }

    fn engine_event(&mut self, event: &EngineEvent) {
        let Some(sampling) = &mut self.sampling else { return };
        match event {
            EngineEvent::ProcessFound { pid, role } => {
                sampling.add_server(*pid);
                if self.has_roles {
                    sampling.name_role(*pid, role);
                }
            }
            EngineEvent::Token { .. } if self.has_roles && !std::mem::replace(&mut self.tokens_come, true) => {
                sampling.walk_next();
            }
            _ => {}
        }
    }

    fn poll(&mut self) -> Result<bool, CollectError> {
        self.sampling.as_mut().map_or(Ok(()), Sampling::write)?;
        Ok(false)
    }

    fn end(self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        self.sampling.map_or(Ok(CollectorEnd::default()), Sampling::end)
    }
}
