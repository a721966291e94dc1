//! Runtimes for the browser: those in dwell's cache, or downloaded if asked.

use std::env;
use std::path::Path;

use dwell_packages::npm::{NpmError, NpmPackage, NpmSettings};
use dwell_report::text::bytes;
use dwell_web::{Release, RuntimeFiles};

use crate::cache::CachePart;
use crate::messages::{Failure, hinted};
use crate::output::say;
use crate::shell::shell_word;
use crate::terminal::byte_bar;

/// Where the packages of runtimes are kept.
pub(crate) const RUNTIMES: CachePart =
    CachePart { folder: "web", instead: "serve a page of your own: it needs nothing of dwell" };

/// The files of a release; downloaded now if they are not there and may be.
pub(crate) fn runtime_files(release: &'static Release, cache: &Path, may_fetch: bool) -> anyhow::Result<RuntimeFiles> {
    match release.cached(cache) {
        Ok(files) => Ok(files),
        Err(_) if may_fetch => fetch(release, cache),
        Err(error) => Err(missing(release, cache, &error).into()),
    }
}

fn missing(release: &Release, cache: &Path, error: &NpmError) -> Failure {
    let download_bytes: u64 = release.missing(cache).iter().map(|package| package.archive_bytes).sum();
    let typed: Vec<String> = env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy())).collect();
    Failure::from_hinted(error).hint(format!(
        "download it ({}): dwell {} --fetch",
        bytes(download_bytes),
        typed.join(" ")
    ))
}

fn fetch(release: &'static Release, cache: &Path) -> anyhow::Result<RuntimeFiles> {
    let packages = release.missing(cache);
    for NpmPackage { name, version, archive_bytes, .. } in &packages {
        say(format_args!("downloading {name} {version} ({}) from npm's registry\n", bytes(*archive_bytes)));
    }
    let bar = byte_bar("getting", packages.iter().map(|package| package.archive_bytes).sum());
    let sizes_before = |package: &NpmPackage| -> u64 {
        packages.iter().take_while(|before| *before != package).map(|before| before.archive_bytes).sum()
    };
    let progress = &mut |package: &NpmPackage, done_bytes, _| bar.set_position(sizes_before(package) + done_bytes);
    let outcome = release.fetch(&NpmSettings::of_this_machine(), cache, progress);
    bar.finish_and_clear();
    outcome.map_err(hinted)
}
