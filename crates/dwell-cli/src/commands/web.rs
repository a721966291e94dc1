//! `dwell web`: models in the browser, until Ctrl-C.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_report::text::bytes;
use dwell_web::{Runtime, RuntimeFiles, WebModel, WebOptions, WebServer};

use crate::args::WebArgs;
use crate::browser::opens_in_browser;
use crate::browser_runtimes::{RUNTIMES, runtime_files};
use crate::messages::{Failure, hinted, print_hints};
use crate::model_cache::{self, resolve};
use crate::output::{print_result, say};
use crate::serving::when_interrupted;

pub(crate) fn run(args: &WebArgs) -> anyhow::Result<ExitCode> {
    let models = models(args)?;
    let runtimes = runtimes(args, &models)?;
    let offer = offer(&runtimes, &models);
    let has_models = !models.is_empty();
    let server = WebServer::bind(WebOptions { port: args.port, runtimes, models }).map_err(hinted)?;
    when_interrupted({
        let stopper = server.stopper();
        move || stopper.stop()
    })?;
    say(format_args!("{offer}"));
    if !has_models {
        print_hints(&["choose a file on the page, or offer one: dwell web --model smollm2".to_owned()]);
    }
    print_result(&format!("{}\n", server.address()))?;
    say(format_args!("Open this address in a browser on this machine; Ctrl-C ends it. Models stay on this machine.\n"));
    if !args.no_open {
        // The address is printed, whether a browser takes it or not.
        opens_in_browser(server.address().as_ref(), "the page is at the address above");
    }
    server.run().map_err(hinted)?;
    Ok(ExitCode::SUCCESS)
}

/// The models that were named, all of them checked; else those in the cache that can be used.
fn models(args: &WebArgs) -> anyhow::Result<Vec<WebModel>> {
    if args.models.is_empty() {
        return Ok(cached_models());
    }
    args.models.iter().map(|model| opened(model)).collect()
}

fn opened(model: &Path) -> anyhow::Result<WebModel> {
    WebModel::open(&resolve(Some(model))?.path).map_err(hinted)
}

fn cached_models() -> Vec<WebModel> {
    let paths = model_cache::cached_files();
    let open = |path: &PathBuf| {
        model_cache::check_copy(path)?;
        WebModel::open(path).map_err(hinted)
    };
    let opened = paths.iter().filter_map(|path| match open(path) {
        Ok(model) => Some(model),
        Err(error) => {
            say(format_args!("note: a model in the cache is not offered: {error}\n"));
            None
        }
    });
    opened.collect()
}

/// The runtimes that are offered: what was asked for or is needed must be there, what is in the cache comes along.
fn runtimes(args: &WebArgs, models: &[WebModel]) -> anyhow::Result<Vec<RuntimeFiles>> {
    let cache = RUNTIMES.path()?;
    let needed = needed_runtimes(args, models)?;
    let mut found = Vec::new();
    for runtime in Runtime::ALL {
        let release = args.release_of(runtime);
        if needed.contains(&runtime) {
            found.push(runtime_files(release, &cache, args.fetch)?);
        } else if args.runtimes.is_empty() {
            found.extend(release.cached(&cache));
        }
    }
    Ok(found)
}

fn needed_runtimes(args: &WebArgs, models: &[WebModel]) -> Result<BTreeSet<Runtime>, Failure> {
    let asked: BTreeSet<Runtime> = args.runtimes.iter().copied().collect();
    if asked.is_empty() {
        let of_models: BTreeSet<Runtime> = models.iter().map(WebModel::runtime).collect();
        return Ok(if of_models.is_empty() { BTreeSet::from([Runtime::Wllama]) } else { of_models });
    }
    // A model that was not named, but lies in the cache, may stay unused.
    let named = if args.models.is_empty() { &[] } else { models };
    match named.iter().map(WebModel::runtime).find(|runtime| !asked.contains(runtime)) {
        Some(runtime) => Err(Failure::new(format!("a model given with --model needs the runtime {}", runtime.name()))
            .hint(format!("add --runtime {}, or leave --runtime out", runtime.name()))),
        None => Ok(asked),
    }
}

fn offer(runtimes: &[RuntimeFiles], models: &[WebModel]) -> String {
    let runtimes = runtimes.iter().map(|files| {
        let release = files.release();
        format!("{} {}", release.runtime.name(), release.version())
    });
    let models = models.iter().map(|model| format!("{} ({})", model.name(), bytes(model.bytes())));
    let lines = [("runtimes", runtimes.collect::<Vec<_>>()), ("models", models.collect())];
    let lines = lines.into_iter().filter(|(_, names)| !names.is_empty());
    lines.map(|(what, names)| format!("{what}: {}\n", names.join(", "))).collect()
}
