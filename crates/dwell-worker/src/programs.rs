//! Where programs that run the model work, and how the recorder gets into them.

use std::ffi::OsString;
use std::path::PathBuf;

use dwell_events::engine::{Ending, Job, RecorderAccess};
use dwell_events::page_sample::PAGE_INTERVAL_VARIABLE;
use dwell_events::server::{ALLOCATION_LIBRARY_VARIABLE, PROGRAM_RINGS_DIR};
use dwell_host::library_for_programs;
use dwell_records::RESOLUTION_VARIABLE;
use dwell_ring::{OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE};
use dwell_servers::ServerPlace;

use crate::{observer_pid, variable};

/// Environment variable with the recorder's library, where it is not in its usual place.
const LIBRARY_VARIABLE: &str = "DWELL_PRELOAD_LIBRARY";
const LIBRARY: &str = "libdwell_preload.so";
/// How often a page samples itself that nobody watches.
const UNWATCHED_PAGE_INTERVAL_MS: u64 = 1000;
/// The hidden command that makes a program end with this process, and its option to kill it.
const GUARD_COMMAND: &str = "guard";
const GUARD_KILLS: &str = "--kill";

/// The place of a job's programs.
pub(crate) fn place(job: &Job, is_traced: bool) -> Result<ServerPlace, String> {
    let raw_dir = PathBuf::from(variable(RING_DIR_VARIABLE)?);
    let program = std::env::current_exe().map_err(|error| format!("finding the program itself: {error}"))?;
    let ring_dir = raw_dir.join(PROGRAM_RINGS_DIR);
    let observer_pid = observer_pid()?;
    let is_preloaded = job.engine.profile().recorder == RecorderAccess::Preloaded;
    let environment = [
        (RING_DIR_VARIABLE, ring_dir.clone().into_os_string()),
        (OBSERVER_PID_VARIABLE, observer_pid.to_string().into()),
        (RESOLUTION_VARIABLE, job.options.time_resolution.name().into()),
    ];
    Ok(ServerPlace {
        log_dir: raw_dir,
        ring_dir: (is_traced && is_preloaded).then_some(ring_dir),
        preload_library: preload_library(),
        allocation_library: variable(ALLOCATION_LIBRARY_VARIABLE).ok().map(PathBuf::from),
        observer_pid,
        cache_dir: cache_dir(),
        page_sample_interval_ms: page_sample_interval_ms(),
        guard: guard(program, job.engine.profile().ending),
        environment: environment.map(|(name, value)| (OsString::from(name), value)).to_vec(),
    })
}

/// dwell's part of the user's cache.
fn cache_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("dwell")
}

/// As its collector wants it; without one, what the page knows is of use for a look at the log alone.
fn page_sample_interval_ms() -> u64 {
    variable(PAGE_INTERVAL_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(UNWATCHED_PAGE_INTERVAL_MS)
}

/// What is put before a program.
fn guard(program: PathBuf, ending: Ending) -> Vec<OsString> {
    let kills = (ending == Ending::Killed).then(|| GUARD_KILLS.into());
    [program.into_os_string(), GUARD_COMMAND.into()].into_iter().chain(kills).chain(["--".into()]).collect()
}

/// The recorder's library, by a path that `LD_PRELOAD` can name.
pub fn preload_library() -> Option<PathBuf> {
    library_for_programs(LIBRARY_VARIABLE, LIBRARY)
}
