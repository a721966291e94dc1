//! The collectors of a run, all at work.

use std::collections::BTreeMap;

use dwell_collectors::{ALL, CollectError, Watching, collector, refusal, replaced};
use dwell_events::CollectorName;
use dwell_events::engine::EngineEvent;
use dwell_metadata::{CollectorEnd, RefusedAt, RunRequest};
use dwell_store::{RunDir, StoreError};
use serde_json::Value;

/// The collectors that a run asks for, in the order of their list.
pub(crate) struct Watch {
    collectors: Vec<(CollectorName, Box<dyn Watching>)>,
}

impl Watch {
    /// Begins with all of them, before the worker starts. The first substitute that can begin takes the place of one that cannot, and
    /// `request` then says so. Without one, it is an error; a full disk is one in any case.
    pub(crate) fn begin(run: &RunDir, request: &mut RunRequest) -> Result<Self, CollectError> {
        let (mut watch, mut failed) = (Self { collectors: Vec::new() }, Vec::new());
        for collector in ALL {
            let name = collector.description().name;
            let Some(settings) = request.collectors.settings(name).cloned() else { continue };
            if let Err(error) = watch.begin_one(run, request, name, &settings)? {
                failed.push((name, error));
            }
        }
        for (name, error) in failed {
            let reason = error.to_string();
            let instead = watch.begin_substitute(run, request)?.ok_or(error)?;
            request.fallbacks.push(replaced(name, instead, reason));
        }
        watch.collectors.sort_by_key(|(name, _)| *name);
        Ok(watch)
    }

    /// Begins with one. The inner error is that it cannot begin, which is noted.
    fn begin_one(
        &mut self,
        run: &RunDir,
        request: &mut RunRequest,
        name: CollectorName,
        settings: &Value,
    ) -> Result<Result<(), CollectError>, CollectError> {
        match collector(name).begin(run, request, settings) {
            Ok(watching) => {
                self.collectors.push((name, watching));
                request.collectors.add(name, settings.clone());
                Ok(Ok(()))
            }
            Err(CollectError::Store(error)) if error.is_full_disk() => Err(error.into()),
            Err(error) => {
                request.collectors = std::mem::take(&mut request.collectors).without(name);
                request.refusals.push(refusal(name, RefusedAt::Begin, error.to_string()));
                Ok(Err(error))
            }
        }
    }

    /// The first substitute that watches already or can begin.
    fn begin_substitute(
        &mut self,
        run: &RunDir,
        request: &mut RunRequest,
    ) -> Result<Option<CollectorName>, CollectError> {
        for substitute in request.substitutes.clone() {
            let Some(name) = CollectorName::from_name(&substitute.collector) else { continue };
            if self.collectors.iter().any(|(begun, _)| *begun == name) {
                return Ok(Some(name));
            }
            let is_refused = request.refusals.iter().any(|refusal| refusal.collector == substitute.collector);
            if !is_refused && self.begin_one(run, request, name, &substitute.settings)?.is_ok() {
                return Ok(Some(name));
            }
        }
        Ok(None)
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
