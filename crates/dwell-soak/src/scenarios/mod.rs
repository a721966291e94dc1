//! What is disturbed. Another one is a file here and a line in [`all`].

mod capture;
mod experiment;
mod import;
mod publisher;
mod python;
mod run;
mod server;
mod trace;
mod watch;

use crate::lab::Lab;
use crate::scenario::Scenario;

/// What is disturbed in a soak.
pub(crate) type Scenarios = Vec<Box<dyn Scenario>>;

/// All of them, each after one undisturbed run; and what this machine lacks for more.
pub(crate) fn all(lab: &Lab) -> anyhow::Result<(Scenarios, Vec<String>)> {
    let mut all: Scenarios = vec![
        Box::new(run::EmbeddedRun::measured(lab)?),
        Box::new(capture::Capture::measured(lab)?),
        Box::new(watch::Watch),
        Box::new(import::Import::measured(lab)?),
        Box::new(experiment::Experiment::measured(lab)?),
        Box::new(server::StandIn::measured(lab)?),
        Box::new(server::Hostile::serving()?),
        Box::new(publisher::Publisher::measured(lab)?),
    ];
    let mut missing = Vec::new();
    let mut add = |found: Option<Box<dyn Scenario>>, lacks: &str| match found {
        Some(scenario) => all.push(scenario),
        None => missing.push(lacks.to_owned()),
    };
    add(
        server::LlamaServer::measured(lab)?.map(|one| Box::new(one) as _),
        "runs of llama-server: its program is not in the cache (make setup fetches it)",
    );
    add(
        trace::Trace::measured(lab)?.map(|one| Box::new(one) as _),
        "dwell trace: llama-completion is not in the cache (make setup fetches it)",
    );
    add(
        python::PythonCapture::measured(lab)?.map(|one| Box::new(one) as _),
        "captures in Python: no PyTorch in the cache, or the package is not built (scripts/build-python.sh)",
    );
    Ok((all, missing))
}
