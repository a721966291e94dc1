//! What a reader waits for in Chromium, by the script of the viewer's tests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

/// The script, relative to this crate.
const SCRIPT: &str = "../../viewer/test/view_times.mjs";

/// How soon pages and zoom steps are on the screen.
#[derive(Debug, Deserialize)]
pub(crate) struct ScreenTimes {
    /// `report.html`.
    pub(crate) report: PageTimes,
    /// The run in `dwell view`.
    pub(crate) view: PageTimes,
    /// Each to half of the time before.
    pub(crate) zooms: Vec<ZoomTimes>,
}

/// A page that was opened.
#[derive(Debug, Deserialize)]
pub(crate) struct PageTimes {
    pub(crate) first_paint_ms: f64,
    /// All charts are drawn.
    pub(crate) drawn_ms: f64,
}

/// A zoom step.
#[derive(Debug, Deserialize)]
pub(crate) struct ZoomTimes {
    /// The picture has moved.
    pub(crate) moved_ms: f64,
    /// The finer detail is in it.
    pub(crate) refined_ms: f64,
}

/// Opens a report and a view in Chromium, and zooms. None where Node or the viewer's packages are missing: a bench of the
/// rest is then still of use.
pub(crate) fn look(url: &str, report: &Path) -> anyhow::Result<Option<ScreenTimes>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(SCRIPT);
    let has_packages = script.parent().is_some_and(|tests| tests.join("../node_modules/playwright-core").is_dir());
    let Some(output) = has_packages.then(|| Command::new("node").arg(&script).arg(url).arg(report).output()) else {
        return Ok(None);
    };
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output.context("starting node")?,
    };
    if !output.status.success() {
        bail!("looking at the run in Chromium failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).map(Some).context("reading what Chromium took")
}
