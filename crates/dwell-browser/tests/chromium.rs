//! A real Chromium: asked, listened to, killed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dwell_browser::{Browser, BrowserError, Launch, Page, PageEvent};
use dwell_clock::monotonic_ns;
use dwell_process::{process_line, process_tree};
use rustix::process::{Pid, Signal, kill_process};
use skip::skip;

/// Long enough for a machine whose processors are taken.
const PATIENCE: Duration = Duration::from_secs(120);

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|file| file.is_file())
}

struct Place {
    dir: tempfile::TempDir,
    is_interrupted: Arc<AtomicBool>,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), is_interrupted: Arc::default() }
    }

    fn profile(&self) -> PathBuf {
        self.dir.path().join("profile")
    }

    fn launch(&self, program: &Path) -> Launch {
        let flag = self.is_interrupted.clone();
        Launch {
            program: program.to_owned(),
            arguments: Vec::new(),
            profile: self.profile(),
            log: File::options().read(true).append(true).create(true).open(self.dir.path().join("log")).unwrap(),
            guard: Vec::new(),
            is_interrupted: Arc::new(move || flag.load(Ordering::Relaxed)),
            ready_within: PATIENCE,
        }
    }

    fn start(&self, test: &str) -> Option<Browser> {
        let Some(program) = chromium() else {
            skip(test, "no chromium in PATH");
            return None;
        };
        Some(Browser::start(&self.launch(&program)).unwrap())
    }
}

fn page_at(browser: &Browser, url: &str) -> Page {
    let page = browser.open_page().unwrap();
    page.bind("tell").unwrap();
    page.navigate(url, PATIENCE).unwrap();
    page
}

fn event_of(page: &Page, is_wanted: impl Fn(&PageEvent) -> bool) -> PageEvent {
    let begin = Instant::now();
    loop {
        let event = page.next_event(PATIENCE.saturating_sub(begin.elapsed())).unwrap().expect("an event in time");
        if is_wanted(&event) {
            return event;
        }
    }
}

fn is_running(pid: u32) -> bool {
    process_line(pid).is_some_and(|line| !line.command_line.is_empty())
}

/// Everything that a browser started, the processes that are not its descendants included: they name its profile.
fn processes_of(browser: &Browser) -> Vec<u32> {
    process_tree(browser.pid()).into_iter().map(|line| line.pid).collect()
}

fn wait_until_gone(pids: &[u32]) {
    let begin = Instant::now();
    while pids.iter().any(|&pid| is_running(pid)) {
        assert!(begin.elapsed() < PATIENCE, "still there: {:?}", pids.iter().filter(|pid| is_running(**pid)));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_page_answers_tells_and_its_process_is_found() {
    let place = Place::new();
    let Some(mut browser) = place.start("a_page_answers_tells_and_its_process_is_found") else { return };
    assert!(browser.product().starts_with("Chrome/"), "{}", browser.product());
    let page = page_at(&browser, "data:text/html,<title>a</title>");
    assert_eq!(page.evaluate("Promise.resolve(6 * 7)").unwrap(), 42);
    let error = page.evaluate("nothing.there").unwrap_err().to_string();
    assert!(error.contains("ReferenceError: nothing is not defined"), "{error}");

    page.begin("setTimeout(() => tell('words, and \\u20ac'), 1)").unwrap();
    let told = event_of(&page, |event| matches!(event, PageEvent::Called { .. }));
    assert!(matches!(&told, PageEvent::Called { text, .. } if text == "words, and €"), "{told:?}");
    page.begin("Promise.reject(new Error('nobody caught it'))").unwrap();
    let failed = event_of(&page, |event| matches!(event, PageEvent::Failed { .. }));
    assert_eq!(failed, PageEvent::Failed { said: "Error: nobody caught it".to_owned() });

    let process = page.process(&browser).unwrap().expect("one renderer computes");
    let kinds = browser.processes().unwrap();
    let found = kinds.iter().find(|other| other.pid == process).unwrap();
    assert_eq!(found.kind, "renderer");
    let program = process_line(process).unwrap();
    assert!(program.command_line.join(" ").contains("--type=renderer"), "{program:?}");
    assert!(kinds.iter().any(|other| other.kind == "GPU") && kinds.iter().any(|other| other.kind == "browser"));

    let pids = processes_of(&browser);
    assert!(pids.len() > 3, "{pids:?}");
    browser.stop();
    wait_until_gone(&pids);
    assert!(!place.profile().exists(), "the profile is removed");
}

/// Memory of a process that is not backed by a file.
fn own_bytes(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        line.trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
    };
    of("RssAnon:") + of("RssShmem:")
}

/// How much more memory a process has when the page has done something.
fn grown(page: &Page, pid: u32, act: &str) -> f64 {
    let before = own_bytes(pid);
    page.evaluate(act).unwrap();
    own_bytes(pid) - before
}

/// The page of a file is one to which Chromium gives WebGPU.
fn page_of_a_file(place: &Place, browser: &Browser) -> Page {
    let file = place.dir.path().join("page.html");
    std::fs::write(&file, "<title>a</title>").unwrap();
    page_at(browser, &format!("file://{}", file.display()))
}

const ALLOCATED_BYTES: u32 = 64 << 20;

fn assert_all_of_it(what: &str, grown: f64) {
    let bytes = f64::from(ALLOCATED_BYTES);
    assert!((0.95 * bytes..1.25 * bytes).contains(&grown), "{what}: {grown} bytes more from outside");
}

#[test]
fn memory_that_the_page_allocates_is_in_its_heap_and_in_its_process() {
    let place = Place::new();
    let name = "memory_that_the_page_allocates_is_in_its_heap_and_in_its_process";
    let Some(browser) = place.start(name) else { return };
    let page = page_of_a_file(&place, &browser);
    let pid = page.process(&browser).unwrap().unwrap();
    let before = page.heap_usage().unwrap();
    let buffer = format!("window.held = new Uint8Array({ALLOCATED_BYTES}).fill(1); held.length");
    assert_all_of_it("heap", grown(&page, pid, &buffer));
    let more = page.heap_usage().unwrap().backing_storage_size - before.backing_storage_size;
    let bytes = f64::from(ALLOCATED_BYTES);
    assert!((bytes..bytes + 4096.0).contains(&more), "{more} bytes more in the page");
    let pages = ALLOCATED_BYTES / 65_536;
    let memory = format!("new WebAssembly.Memory({{initial: {pages}}})");
    let linear = format!("window.memory = {memory}; new Uint8Array(memory.buffer).fill(1).length");
    assert_all_of_it("WebAssembly", grown(&page, pid, &linear));
}

#[test]
fn what_webgpu_takes_on_the_processor_is_in_the_gpu_process() {
    let place = Place::new();
    let name = "what_webgpu_takes_on_the_processor_is_in_the_gpu_process";
    let Some(browser) = place.start(name) else { return };
    let page = page_of_a_file(&place, &browser);
    let adapter = "navigator.gpu.requestAdapter().then(async (adapter) => {
        window.device = await adapter?.requestDevice();
        return adapter?.info.architecture ?? 'none';
    })";
    let architecture = page.evaluate(adapter).unwrap();
    if architecture != "swiftshader" {
        return skip(name, "WebGPU does not compute on the processor here");
    }
    let processes = browser.processes().unwrap();
    let gpu = processes.iter().find(|process| process.kind == "GPU").unwrap().pid;
    let buffer = format!(
        "window.buffer = device.createBuffer({{size: {ALLOCATED_BYTES}, usage: GPUBufferUsage.STORAGE}});
         device.queue.onSubmittedWorkDone().then(() => 0)"
    );
    assert_all_of_it("WebGPU", grown(&page, gpu, &buffer));
}

#[test]
fn the_clock_of_a_page_is_that_of_this_machine_within_its_error() {
    let place = Place::new();
    let name = "the_clock_of_a_page_is_that_of_this_machine_within_its_error";
    let Some(browser) = place.start(name) else { return };
    let page = page_at(&browser, "data:text/html,<title>a</title>");
    let clock = page.clock().unwrap();
    for _ in 0..20 {
        let before_ns = monotonic_ns();
        let page_ms = page.evaluate("performance.timeOrigin + performance.now()").unwrap().as_f64().unwrap();
        let after_ns = monotonic_ns();
        let told_ns = clock.monotonic_ns(page_ms);
        // The page's clock has steps of 0.1 ms.
        let error_ns = clock.error_ns + 100_000;
        assert!(told_ns + error_ns >= before_ns && told_ns <= after_ns + error_ns, "{before_ns} {told_ns} {after_ns}");
    }
}

#[test]
fn a_page_that_crashes_or_is_loaded_anew_says_so() {
    let place = Place::new();
    let Some(browser) = place.start("a_page_that_crashes_or_is_loaded_anew_says_so") else { return };
    let page = page_of_a_file(&place, &browser);
    page.begin("location.reload()").unwrap();
    event_of(&page, |event| *event == PageEvent::Left);
    let pid = page.process(&browser).unwrap().unwrap();
    kill(pid);
    event_of(&page, |event| matches!(event, PageEvent::Crashed { .. }));
    assert!(is_running(browser.pid()), "the browser goes on");
}

#[test]
fn a_browser_that_is_killed_is_an_error_that_says_how_and_leaves_nothing() {
    let place = Place::new();
    let name = "a_browser_that_is_killed_is_an_error_that_says_how_and_leaves_nothing";
    let Some(mut browser) = place.start(name) else { return };
    let page = page_at(&browser, "data:text/html,<title>a</title>");
    let pids = processes_of(&browser);
    kill(browser.pid());
    let error = loop {
        match page.next_event(PATIENCE) {
            Ok(event) => assert!(event.is_some(), "the end is noticed"),
            Err(error) => break browser.explained("waiting for a word", error),
        }
    };
    assert!(error.to_string().starts_with("waiting for a word: Chromium was ended by signal 9"), "{error}");
    drop(browser);
    wait_until_gone(&pids);
    assert!(!place.profile().exists());
}

#[test]
fn what_is_no_browser_is_an_error_with_its_last_words() {
    let place = Place::new();
    let program = place.dir.path().join("chromium");
    std::fs::write(&program, "#!/bin/sh\necho 'No usable sandbox!' >&2\nexit 3\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = Browser::start(&place.launch(&program)).err().unwrap().to_string();
    assert_eq!(error, "starting Chromium: Chromium ended with exit code 3; it said: No usable sandbox!");
    let error = Browser::start(&place.launch(Path::new("/nonexistent/chromium"))).err().unwrap().to_string();
    assert!(error.contains("exit code 127"), "{error}");
    assert!(!place.profile().exists());
}

#[test]
fn what_talks_nonsense_is_an_error_and_an_interruption_ends_waiting() {
    let place = Place::new();
    let script = |name: &str, text: &str| {
        let program = place.dir.path().join(name);
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        program
    };
    let nonsense = script("nonsense", "#!/bin/sh\nprintf 'hello\\0' >&4\nexec sleep 600 3<&- 4>&-\n");
    let error = Browser::start(&place.launch(&nonsense)).err().unwrap().to_string();
    assert!(error.contains("a message is no JSON"), "{error}");
    let silent = script("silent", "#!/bin/sh\nexec sleep 600\n");
    let hurried = Launch { ready_within: Duration::from_secs(1), ..place.launch(&silent) };
    let error = Browser::start(&hurried).err().unwrap().to_string();
    assert_eq!(error, "calling Browser.getVersion: Chromium did not answer within 1 s");
    place.is_interrupted.store(true, Ordering::Relaxed);
    let error = Browser::start(&place.launch(&silent)).err().unwrap();
    assert!(matches!(error, BrowserError::Interrupted { .. }), "{error}");
}
