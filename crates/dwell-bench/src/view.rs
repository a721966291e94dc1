//! Looking at a very long run: what its picture costs, and how soon it is on the screen.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use dwell_analysis::overview::Overview;
use dwell_analysis::{Metric, Options};
use dwell_metrics::{analyse_run, draw_run};
use dwell_store::RunDir;

use crate::browser::{self, ScreenTimes};
use crate::long_trace;
use crate::report::Report;
use crate::trial::{dwell, own_peak_kib, process_s};

/// Bars: seconds until a report is written or a page is sent, until a zoomed window is, memory of the server, and the part of
/// building a run that its picture takes.
const LONGEST_PAGE_S: f64 = 2.0;
const LONGEST_ZOOM_S: f64 = 0.3;
const MOST_SERVER_BYTES: f64 = 300e6;
const MOST_PICTURE_SHARE: f64 = 0.15;

/// Zoom steps, each to half of the time before.
const ZOOM_STEPS: u32 = 24;

/// Makes a run of so many accesses and looks at it.
pub(crate) fn measure(rows: u64, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("making a folder for a run")?;
    let begin_s = process_s();
    let run = long_trace::write(folder.path(), rows)?;
    let written_s = process_s() - begin_s;
    eprintln!("wrote {rows} rows in {written_s:.1} CPU s");
    let (analysed_s, drawn_s, overview) = analyse_and_draw(&run)?;
    let picture_share = (drawn_s - analysed_s) / (written_s + drawn_s);
    let report_file = run.path().join("looked.html");
    let (report_s, report_bytes) = write_report(&run, &report_file)?;
    let looked = look(&run, &overview, report)?;
    let mut values = vec![
        ("CPU s of writing the trace", written_s),
        ("CPU s of the metrics", analysed_s),
        ("CPU s of metrics and picture", drawn_s),
        ("picture, share of writing and analysing", picture_share),
        ("s of dwell report", report_s),
        ("bytes of the report", report_bytes),
        ("s until the page is sent", looked.page_s),
        ("s until it is sent again", looked.again_s),
        ("s of the slowest zoom step", looked.slowest_zoom_s),
        ("s until single accesses are sent", looked.rows_s),
        ("peak bytes of the server", looked.peak_bytes),
    ];
    let mut bars = vec![
        ("the report takes", report_s, LONGEST_PAGE_S),
        ("the page takes", looked.page_s, LONGEST_PAGE_S),
        ("a zoom step takes", looked.slowest_zoom_s, LONGEST_ZOOM_S),
        ("the server's memory is", looked.peak_bytes, MOST_SERVER_BYTES),
        ("the picture's share is", picture_share, MOST_PICTURE_SHARE),
    ];
    match look_in_browser(&run, &report_file)? {
        Some(on_screen) => {
            values.extend(on_screen.map(|(what, seconds, _)| (what, seconds)));
            bars.extend(on_screen);
        }
        None => eprintln!("not looked at in a browser: node or the viewer's packages are missing"),
    }
    let mut text = format!("## view\n\nA run of {rows} accesses.\n\n| quantity | value |\n| --- | --- |\n");
    for (quantity, value) in values {
        report.raw("view", 0, "view", quantity, value)?;
        text += &format!("| {quantity} | {value:.4} |\n");
    }
    report.section(&text);
    for (what, value, bar) in bars.into_iter().filter(|(_, value, bar)| value > bar) {
        report.missed_bar(format!("{what} {value:.3}, more than {bar}"));
    }
    Ok(())
}

/// CPU seconds of the metrics alone and with the picture, which is left in the run.
fn analyse_and_draw(run: &RunDir) -> anyhow::Result<(f64, f64, Overview)> {
    let begin_s = process_s();
    std::hint::black_box(analyse_run(run, Options::default())?);
    let analysed_s = process_s() - begin_s;
    eprintln!("metrics in {analysed_s:.1} CPU s");
    let begin_s = process_s();
    let (metrics, overview) = draw_run(run, Options::default())?;
    let drawn_s = process_s() - begin_s;
    std::fs::write(run.metrics_csv(), metrics.metrics_csv_of(Metric::STANDARD)).context("writing metrics")?;
    let overview_json = serde_json::to_vec(&overview).context("writing the overview")?;
    std::fs::write(run.overview_json(), overview_json).context("writing the overview")?;
    Ok((analysed_s, drawn_s, overview))
}

/// What was measured, how many seconds it took, and how many it may take at most.
type Barred = (&'static str, f64, f64);

/// What Chromium takes until the report and the view are painted and drawn, and for the slowest zoom steps.
fn look_in_browser(run: &RunDir, report: &Path) -> anyhow::Result<Option<[Barred; 6]>> {
    let server = Server::start(run.path())?;
    let seen = browser::look(&format!("{}/?token={}", server.address, server.token), report)?;
    let page = |what, taken_ms: f64| (what, taken_ms * 1e-3, LONGEST_PAGE_S);
    let slowest =
        |what, taken_ms: &mut dyn Iterator<Item = f64>| (what, taken_ms.fold(0.0, f64::max) * 1e-3, LONGEST_ZOOM_S);
    Ok(seen.map(|ScreenTimes { report, view, zooms }| {
        [
            page("s until the report is painted", report.first_paint_ms),
            page("s until the report's charts are drawn", report.drawn_ms),
            page("s until the view is painted", view.first_paint_ms),
            page("s until the view's charts are drawn", view.drawn_ms),
            slowest("s of the slowest zoom step on the screen", &mut zooms.iter().map(|zoom| zoom.moved_ms)),
            slowest("s of the slowest zoom step with its detail", &mut zooms.iter().map(|zoom| zoom.refined_ms)),
        ]
    }))
}

fn write_report(run: &RunDir, file: &Path) -> anyhow::Result<(f64, f64)> {
    let begin = Instant::now();
    let status =
        Command::new(dwell()?).arg("report").arg(run.path()).arg("-o").arg(file).stdout(Stdio::null()).status();
    if !status.context("starting dwell report")?.success() {
        bail!("dwell report of {:?} failed", run.path());
    }
    let taken_s = begin.elapsed().as_secs_f64();
    Ok((taken_s, std::fs::metadata(file).context("finding the report")?.len() as f64))
}

/// How soon a client has what it asks for.
struct Looked {
    page_s: f64,
    again_s: f64,
    slowest_zoom_s: f64,
    rows_s: f64,
    peak_bytes: f64,
}

fn look(run: &RunDir, overview: &Overview, report: &mut Report) -> anyhow::Result<Looked> {
    let server = Server::start(run.path())?;
    let page_s = server.seconds("page?run=.")?;
    let again_s = server.seconds("page?run=.")?;
    let (mut begin_ns, mut end_ns, mut slowest_zoom_s) = (overview.first_ns, overview.last_ns + 1, 0.0_f64);
    for step in 0..ZOOM_STEPS {
        let taken_s = server.seconds(&format!("window?run=.&begin_ns={begin_ns}&end_ns={end_ns}"))?;
        report.raw("view", step, "zoom", "window_s", taken_s)?;
        slowest_zoom_s = slowest_zoom_s.max(taken_s);
        let quarter_ns = (end_ns - begin_ns) / 4;
        (begin_ns, end_ns) = (begin_ns + quarter_ns, end_ns - quarter_ns);
    }
    let rows_s = server.seconds(&format!("rows?run=.&begin_ns={begin_ns}&end_ns={end_ns}"))?;
    let peak_bytes = own_peak_kib(server.child.id()).context("reading the server's memory")? as f64 * 1024.0;
    Ok(Looked { page_s, again_s, slowest_zoom_s, rows_s, peak_bytes })
}

/// A `dwell view` that runs.
struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    fn start(run: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(dwell()?)
            .arg("view")
            .arg(run)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting dwell view")?;
        let mut address = String::new();
        let said = child.stdout.as_mut().context("reading the address of the view")?;
        BufReader::new(said).read_line(&mut address).context("reading the address of the view")?;
        let (address, token) = address.trim().split_once("/?token=").context("the view printed no address")?;
        Ok(Self { child, address: address.to_owned(), token: token.to_owned() })
    }

    /// Until the whole answer is there.
    fn seconds(&self, request: &str) -> anyhow::Result<f64> {
        let begin = Instant::now();
        let answer = ureq::get(format!("{}/api/v1/{request}", self.address))
            .header("Authorization", format!("Bearer {}", self.token))
            .call();
        let body = answer.with_context(|| format!("asking for {request}"))?.into_body().read_to_vec();
        std::hint::black_box(body.with_context(|| format!("reading {request}"))?);
        Ok(begin.elapsed().as_secs_f64())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
