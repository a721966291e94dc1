//! What is disturbed. Another one is a file here and a line in [`all`].

mod capture;
mod experiment;
mod import;
mod run;
mod server;
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
    ];
    let mut missing = Vec::new();
    match server::LlamaServer::measured(lab)? {
        Some(server) => all.push(Box::new(server)),
        None => {
            missing.push("runs of llama-server: its program is not in the cache (make setup fetches it)".to_owned())
        }
    }
    Ok((all, missing))
}
