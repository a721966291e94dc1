//! Runtimes in a page of Chromium: wllama, transformers.js and WebLLM.
//!
//! ```text
//! BrowserRuntime ──starts──▶ the server of page, runtime and model
//!       │
//!       └──starts──▶ Chromium ──opens──▶ run.html ──reports: tokens, samples, buffers──▶ back over the debugging pipe
//! ```

mod job;
mod report;
mod site;

use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dwell_browser::{Browser, BrowserError, BrowserProcess, Launch, Page, PageClock, PageEvent};
use dwell_events::engine::{EngineEvent, EngineKind, Job, LoadedModel};
use dwell_events::server::{BROWSER_PROFILE_DIR, ReportedBuffer, RequestTimings, ServerDescription};

use job::page_job;
pub use report::check_page_report;
use report::{Done, Loaded, Report};
use site::Site;

use crate::client::{Asked, Piece, Runtime};
use crate::driver::Teller;
use crate::program::{LOG_NAME, find_program, ready_within};
use crate::{Interruption, ServerError, ServerPlace};

/// Environment variable with the browser to start, where no program is given.
const PROGRAM_VARIABLE: &str = "DWELL_CHROMIUM";
/// The function by which the page reports.
const REPORT_FUNCTION: &str = "dwellReport";
/// How often it is asked whether the page is ready, and listened whether anything happened.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a page may take to end a generation that it was asked to end.
const ABORT_WITHIN: Duration = Duration::from_secs(5);
/// What the adapter of WebGPU is called that computes on the processor.
const SOFTWARE_ADAPTER: &str = "swiftshader";
/// The only model that the site offers.
const MODEL_URL: &str = "fetch('config.json').then((answer) => answer.json()).then((config) => config.models[0].url)";
const ADAPTER: &str = "navigator.gpu?.requestAdapter().then((adapter) => adapter?.info?.architecture ?? '') ?? ''";

/// A runtime in a page.
pub(crate) struct BrowserRuntime {
    job: Job,
    place: ServerPlace,
    teller: Teller,
    interruption: Interruption,
    /// Before the browser, whose page it serves: it is dropped after it.
    tab: Option<Tab>,
    browser: Option<Browser>,
    site: Option<Site>,
    command_line: Vec<String>,
    loaded: Option<Loaded>,
    /// Whether WebGPU computes on the processor.
    is_gpu_software: bool,
}

/// The page that runs the model.
struct Tab {
    page: Page,
    clock: PageClock,
    /// Its process, if it could be told from the others.
    pid: Option<u32>,
    /// Address of the model, as the page has it.
    model_url: String,
}

impl BrowserRuntime {
    /// Nothing is started yet.
    pub(crate) fn open(job: &Job, place: &ServerPlace, teller: Teller, interruption: Interruption) -> Self {
        Self {
            job: job.clone(),
            place: place.clone(),
            teller,
            interruption,
            tab: None,
            browser: None,
            site: None,
            command_line: Vec::new(),
            loaded: None,
            is_gpu_software: false,
        }
    }

    fn engine(&self) -> EngineKind {
        self.job.engine
    }

    fn launch(&self) -> Result<Launch, ServerError> {
        let of_environment = std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from);
        let given = self.job.server.program.clone().or(of_environment);
        let program = find_program(self.engine(), given.as_deref())?;
        let log = File::options().read(true).append(true).create(true).open(self.place.log_dir.join(LOG_NAME));
        let log = log.map_err(|source| ServerError::System { doing: "opening the log of the browser", source })?;
        let interruption = self.interruption.clone();
        Ok(Launch {
            program,
            arguments: self.job.server.arguments.iter().map(Into::into).collect(),
            profile: self.place.log_dir.join(BROWSER_PROFILE_DIR),
            log,
            guard: self.place.guard.clone(),
            is_interrupted: Arc::new(move || interruption.is_interrupted()),
            ready_within: ready_within(&self.job.server),
        })
    }

    /// Opens the page and finds out its clock and its process.
    fn open_tab(&mut self) -> Result<Tab, ServerError> {
        let url = self.site.as_ref().map(|site| site.page_url()).unwrap_or_default();
        let browser = self.browser.as_ref().ok_or(ServerError::NoAddress { engine: self.job.engine })?;
        let opened = || -> Result<Tab, BrowserError> {
            let page = browser.open_page()?;
            page.bind(REPORT_FUNCTION)?;
            page.navigate(&url, browser.time_to_get_ready().unwrap_or(ready_within(&self.job.server)))?;
            wait_for_runner(browser, &page)?;
            let clock = page.clock()?;
            let pid = page.process(browser)?;
            let model_url = page.evaluate(MODEL_URL)?.as_str().unwrap_or_default().to_owned();
            Ok(Tab { page, clock, pid, model_url })
        };
        opened().map_err(|error| self.failed("opening the page of the runtime", error))
    }

    /// Has the page do a job and hands over what it reports, until it is done. A page that loads the model has no longer for it
    /// than the browser has to get ready.
    fn work(
        &mut self,
        doing: &str,
        asked: &Asked<'_>,
        max_tokens: u32,
        on_report: &mut dyn FnMut(Report, &PageClock) -> ControlFlow<()>,
    ) -> Result<Done, ServerError> {
        let tab = self.tab.as_ref().ok_or(ServerError::NoAddress { engine: self.job.engine })?;
        let time_left = || self.browser.as_ref().and_then(Browser::time_to_get_ready);
        let interval_ms = self.place.page_sample_interval_ms;
        let job = page_job(&self.job, &tab.model_url, asked, max_tokens, interval_ms);
        let mut last_exception = None;
        let mut end_by: Option<Instant> = None;
        let outcome = tab.page.begin(&format!("void dwellRun({job})")).and_then(|()| {
            loop {
                if end_by.is_some_and(|end_by| Instant::now() > end_by) {
                    return Ok(Ended::Aborted);
                }
                if time_left().is_some_and(|left| left.is_zero()) {
                    return Ok(Ended::Late);
                }
                let Some(event) = tab.page.next_event(PAUSE)? else { continue };
                match event {
                    PageEvent::Called { text, .. } => match Report::parse(&text) {
                        Ok(Report::Done(done)) => return Ok(Ended::Done(done)),
                        Ok(Report::Error(error)) => return Ok(Ended::Failed(error.message, error.hint)),
                        Ok(Report::Sample(sample)) => {
                            let held_bytes = self.loaded.as_ref().and_then(|loaded| loaded.kv.held_bytes());
                            let sample = sample.of_page(&tab.clock, tab.pid, held_bytes);
                            self.teller.tell_at(EngineEvent::PageSampled { sample }, sample.time_ns);
                        }
                        Ok(report) => {
                            if on_report(report, &tab.clock).is_break() && end_by.is_none() {
                                end_by = Some(Instant::now() + ABORT_WITHIN);
                                tab.page.begin("dwellStop()")?;
                            }
                        }
                        Err(error) => return Ok(Ended::Failed(format!("the page reported {error}"), None)),
                    },
                    PageEvent::Failed { said } => last_exception = Some(said),
                    PageEvent::Crashed { said } => return Ok(Ended::Failed(format!("the tab crashed: {said}"), None)),
                    PageEvent::Left => return Ok(Ended::Failed("the page was reloaded or left".to_owned(), None)),
                    PageEvent::Closed => return Ok(Ended::Failed("the page was closed".to_owned(), None)),
                }
            }
        });
        match outcome {
            Ok(Ended::Done(done)) => Ok(done),
            Ok(Ended::Aborted) => Ok(Done::default()),
            Ok(Ended::Late) => Err(not_ready(&self.job, "it is still loading the model".to_owned())),
            Ok(Ended::Failed(said, hint)) => {
                let exception = last_exception.map(|text| format!("; its last exception: {text}")).unwrap_or_default();
                Err(ServerError::Page { doing: doing.to_owned(), said: format!("{said}{exception}"), hint })
            }
            Err(error) => Err(self.failed(doing, error)),
        }
    }

    /// An error of the browser, with how it ended in it.
    fn failed(&mut self, doing: &str, error: BrowserError) -> ServerError {
        match &mut self.browser {
            Some(browser) if browser.time_to_get_ready().is_none() => browser.explained(doing, error).into(),
            Some(browser) => unready(&self.job, browser.explained(doing, error)),
            None => error.into(),
        }
    }

    fn role(&self, process: &BrowserProcess) -> &'static str {
        let page = self.tab.as_ref().and_then(|tab| tab.pid);
        match process.kind.as_str() {
            "browser" => "browser",
            "renderer" if page == Some(process.pid) => "page",
            "renderer" => "renderer",
            "GPU" => "gpu",
            kind if kind.contains("network") => "network",
            kind if kind.contains("storage") => "storage",
            _ => "utility",
        }
    }

    fn untraced_because(&self) -> String {
        match self.engine() {
            EngineKind::Wllama => "ggml computes inside a WebAssembly module, which the recorder cannot be loaded into",
            _ => "it does not compute with ggml, whose computations are what is recorded",
        }
        .to_owned()
    }
}

/// How a job of the page ended.
enum Ended {
    Done(Done),
    Aborted,
    /// The browser was not ready in time.
    Late,
    Failed(String, Option<String>),
}

/// Waits until the scripts of the page are there.
fn wait_for_runner(browser: &Browser, page: &Page) -> Result<(), BrowserError> {
    while page.evaluate("typeof window.dwellRun === 'function'")? != true {
        if browser.time_to_get_ready().is_some_and(|left| left.is_zero()) {
            return Err(BrowserError::Silent { doing: "waiting for the scripts of the page".to_owned(), waited_s: 0 });
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// An error before the model was loaded: silence is told with the time that there was for all of it.
fn unready(job: &Job, error: BrowserError) -> ServerError {
    match error {
        BrowserError::Silent { doing, .. } => not_ready(job, format!("Chromium did not answer while {doing}")),
        error => error.into(),
    }
}

fn not_ready(job: &Job, state: String) -> ServerError {
    ServerError::NotReady { engine: job.engine, waited_s: ready_within(&job.server).as_secs(), state }
}

impl Runtime for BrowserRuntime {
    fn start(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        // First, because nothing has to be fetched for a browser that is not there.
        let launch = self.launch()?;
        self.site = Some(Site::open(&self.job, &self.place, &self.teller)?);
        self.command_line = launch.command_line().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        self.browser = Some(Browser::start(&launch).map_err(|error| unready(&self.job, error))?);
        Ok(())
    }

    fn load(&mut self, asked: &Asked<'_>) -> Result<(), ServerError> {
        self.tab = Some(self.open_tab()?);
        // Loading takes much of the memory, and is to be told by process.
        for (pid, role) in self.processes() {
            self.teller.tell(EngineEvent::ProcessFound { pid, role: role.to_owned() });
        }
        let (teller, mut loaded) = (self.teller.clone(), None);
        self.work("loading the model", asked, 0, &mut |report, _| {
            match report {
                Report::Loading { fraction } => teller.tell(EngineEvent::LoadProgress { fraction }),
                Report::Loaded(told) => loaded = Some(*told),
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        if let Some(browser) = &self.browser {
            browser.became_ready();
        }
        let Some(loaded) = loaded else {
            let said = "it ended without saying what it loaded".to_owned();
            return Err(ServerError::Page { doing: "loading the model".to_owned(), said, hint: None });
        };
        if loaded.uses_webgpu() {
            let adapter = self.tab.as_ref().and_then(|tab| tab.page.evaluate(ADAPTER).ok());
            self.is_gpu_software = adapter.is_some_and(|adapter| adapter == SOFTWARE_ADAPTER);
        }
        self.loaded = Some(loaded);
        Ok(())
    }

    fn facts(&mut self) -> Result<ServerDescription, ServerError> {
        let loaded = self.loaded.clone().unwrap_or_default();
        let title = self.engine().profile().title;
        let mut facts = ServerDescription {
            version: Some(format!("{title} {}", loaded.runtime_version)),
            is_started_here: true,
            command_line: self.command_line.clone(),
            model_path: Some(self.job.options.model.clone()).filter(|path| path.is_file()),
            context_length: loaded.kv.cells.map(|cells| u32::try_from(cells).unwrap_or(u32::MAX)),
            kv_type_k: loaded.kv.type_k.clone(),
            kv_type_v: loaded.kv.type_v.clone(),
            kv_bytes_per_token: loaded.kv.bytes_per_token,
            untraced_because: Some(self.untraced_because()),
            was_loaded: Some(false),
            ..ServerDescription::default()
        };
        if self.engine() == EngineKind::Wllama {
            // llama.cpp's default, which wllama is not told to change.
            facts.kv_type_k.get_or_insert_with(|| "f16".to_owned());
            facts.kv_type_v.get_or_insert_with(|| "f16".to_owned());
        }
        let mut reported = vec![
            ("browser", self.browser.as_ref().map(|browser| browser.product().to_owned())),
            ("device", Some(loaded.device.clone())),
            ("kv_is_preallocated", Some(loaded.kv.preallocated.to_string())),
            ("kv_basis", Some(loaded.kv.basis.clone())),
        ];
        if let Some(tab) = &self.tab {
            reported.push(("page_clock_error_ns", Some(tab.clock.error_ns.to_string())));
            reported.push(("page_pid", tab.pid.map(|pid| pid.to_string())));
        }
        let known = reported.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        facts.reported.extend(known.filter(|(_, value)| !value.is_empty()));
        Ok(facts)
    }

    fn model(&mut self) -> LoadedModel {
        let loaded = self.loaded.clone().unwrap_or_default();
        let context = loaded.kv.cells.map_or(0, |cells| u32::try_from(cells).unwrap_or(u32::MAX));
        let file = self.site.as_ref().and_then(Site::gguf);
        LoadedModel {
            description: loaded.model.description.or(loaded.model.architecture).unwrap_or_default(),
            parameters: file.map(|file| file.parameters).or(loaded.model.parameters).unwrap_or(0),
            size_bytes: file.map_or(0, |file| file.tensor_bytes),
            layers: loaded.model.layers.unwrap_or(0),
            vocabulary: loaded.model.vocabulary.unwrap_or(0),
            context_length: context,
            context_per_sequence: context,
            runtime: format!("{} {}", self.engine().profile().title, loaded.runtime_version),
            threads: self.job.options.threads,
            ..LoadedModel::default()
        }
    }

    fn processes(&mut self) -> Vec<(u32, &'static str)> {
        let Some(browser) = &self.browser else { return Vec::new() };
        let listed = browser.processes().unwrap_or_default();
        let found = listed.iter().map(|process| (process.pid, self.role(process)));
        // The browser first: all others are its descendants, and are sampled with it even if they are not listed yet.
        [(browser.pid(), "browser")].into_iter().chain(found.filter(|(pid, _)| *pid != browser.pid())).collect()
    }

    fn generate(
        &mut self,
        asked: &Asked<'_>,
        on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<RequestTimings, ServerError> {
        let (mut prompt_ids, mut cached_tokens) = (Vec::new(), None);
        let done = self.work("generating", asked, asked.max_tokens, &mut |report, clock| match report {
            Report::Prompt { ids, cached_tokens: cached } => {
                prompt_ids = ids;
                cached_tokens = cached;
                ControlFlow::Continue(())
            }
            Report::Token(token) => on_piece(Piece {
                arrived_ns: clock.monotonic_ns(token.t_ms),
                text: token.text,
                token_ids: token.id.into_iter().collect(),
                tokens: 1,
                prompt_ids: std::mem::take(&mut prompt_ids),
            }),
            _ => ControlFlow::Continue(()),
        });
        match done {
            Ok(done) => Ok(done.timings(cached_tokens)),
            Err(error) if error.is_interrupted() => Ok(RequestTimings::default()),
            Err(error) => Err(error),
        }
    }

    fn buffers(&mut self) -> Vec<ReportedBuffer> {
        self.loaded.as_ref().map(|loaded| loaded.buffers(self.is_gpu_software)).unwrap_or_default()
    }

    fn death(&mut self) -> Option<String> {
        self.browser.as_mut().and_then(Browser::death)
    }

    fn stop(&mut self) {
        self.tab = None;
        self.browser = None;
        self.site = None;
    }
}
