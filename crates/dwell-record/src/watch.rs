//! The collectors of a run, all at work.

use std::collections::BTreeMap;

use dwell_collectors::{ALL, CollectError, Watching};
use dwell_events::CollectorName;
use dwell_events::engine::EngineEvent;
use dwell_metadata::{CollectorEnd, RunRequest};
use dwell_store::{RunDir, StoreError};

/// The collectors that a run asks for, in the order of their list.
pub(crate) struct Watch {
    collectors: Vec<(CollectorName, Box<dyn Watching>)>,
}

impl Watch {
    /// Begins with all of them, before the worker starts.
    pub(crate) fn begin(run: &RunDir, request: &RunRequest) -> Result<Self, CollectError> {
        let mut collectors = Vec::new();
        for collector in ALL {
            let name = collector.description().name;
            if let Some(settings) = request.collectors.settings(name) {
                collectors.push((name, collector.begin(run, request, settings)?));
            }
        }
        Ok(Self { collectors })
    }

    /// What the worker's environment needs to have.
    pub(crate) fn worker_environment(&self) -> Vec<(&'static str, String)> {
        self.collectors.iter().flat_map(|(_, watching)| watching.worker_environment()).collect()
    }

    pub(crate) fn worker_started(&mut self, pid: u32) -> Result<(), CollectError> {
        self.collectors.iter_mut().try_for_each(|(_, watching)| watching.worker_started(pid))
    }

    pub(crate) fn engine_event(&mut self, event: &EngineEvent) {
        self.collectors.iter_mut().for_each(|(_, watching)| watching.engine_event(event));
    }

    /// Lets each write what it has gathered. Says whether one of them saw the model compute.
    pub(crate) fn poll(&mut self) -> Result<bool, CollectError> {
        let mut has_computed = false;
        for (_, watching) in &mut self.collectors {
            has_computed |= watching.poll()?;
        }
        Ok(has_computed)
    }

    /// Ends all of them, whatever becomes of the others.
    pub(crate) fn end(self) -> Result<BTreeMap<String, CollectorEnd>, StoreError> {
        let ends: Vec<_> =
            self.collectors.into_iter().map(|(name, watching)| Ok((name.name().to_owned(), watching.end()?))).collect();
        ends.into_iter().collect()
    }
}
