//! One page of a browser.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::{Connection, Event};
use crate::{Browser, BrowserError, PageClock};

/// How long the page computes so that its process can be told from the others.
const BURN_MS: u64 = 150;
/// Largest difference of CPU times, in seconds, that can be that of one process read twice.
const SAME_CPU_S: f64 = 0.03;
/// How often the process of a page is looked for.
const PROCESS_LOOKS: usize = 10;

/// A page. There is one at a time in a browser: its events are all that are listened to.
pub struct Page {
    connection: Arc<Connection>,
    session: String,
    target: String,
}

/// What became of a page, or what it told.
#[derive(Clone, Debug, PartialEq)]
pub enum PageEvent {
    /// It called a function that was given to it.
    Called {
        /// The text that it gave.
        text: String,
        /// CLOCK_MONOTONIC time at which the call arrived.
        arrived_ns: u64,
    },
    /// A script failed and nobody caught it.
    Failed {
        /// The exception.
        said: String,
    },
    /// Its process died.
    Crashed {
        /// What Chromium says of it.
        said: String,
    },
    /// It was loaded anew, or left: what it did is gone.
    Left,
    /// It was closed.
    Closed,
}

/// Memory of the JavaScript heap of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeapUsage {
    /// Bytes in use, without those of array buffers.
    pub used_size: f64,
    /// Bytes taken.
    pub total_size: f64,
    /// Bytes of array buffers.
    pub backing_storage_size: f64,
}

impl Page {
    pub(crate) fn open(connection: Arc<Connection>) -> Result<Self, BrowserError> {
        let text = |answer: &Value, key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        let target = text(&connection.call(None, "Target.createTarget", json!({"url": "about:blank"}))?, "targetId");
        let attach = json!({"targetId": target, "flatten": true});
        let session = text(&connection.call(None, "Target.attachToTarget", attach)?, "sessionId");
        let page = Self { connection, session, target };
        for domain in ["Inspector.enable", "Page.enable", "Performance.enable", "Runtime.enable"] {
            page.call(domain, json!({}))?;
        }
        Ok(page)
    }

    fn call(&self, method: &str, params: Value) -> Result<Value, BrowserError> {
        self.connection.call(Some(&self.session), method, params)
    }

    /// Gives the page a function that takes a text, from before its first script on.
    pub fn bind(&self, function: &str) -> Result<(), BrowserError> {
        self.call("Runtime.addBinding", json!({"name": function})).map(drop)
    }

    /// Goes to an address and waits until it is loaded. What happened before is forgotten.
    pub fn navigate(&self, url: &str, within: Duration) -> Result<(), BrowserError> {
        let doing = || format!("opening {url}");
        let answer = self.call("Page.navigate", json!({"url": url}))?;
        if let Some(said) = answer["errorText"].as_str() {
            return Err(BrowserError::Refused { doing: doing(), said: said.to_owned() });
        }
        let begin = Instant::now();
        while let Some(event) = self.connection.next_event(within.saturating_sub(begin.elapsed()))? {
            match self.meaning(&event) {
                _ if event.method == "Page.loadEventFired" => return Ok(()),
                Some(PageEvent::Crashed { said }) => return Err(BrowserError::Refused { doing: doing(), said }),
                Some(PageEvent::Closed) => {
                    return Err(BrowserError::Refused { doing: doing(), said: "the page was closed".to_owned() });
                }
                _ => {}
            }
        }
        Err(BrowserError::Silent { doing: doing(), waited_s: within.as_secs() })
    }

    /// The value of an expression, or of what it promises.
    pub fn evaluate(&self, expression: &str) -> Result<Value, BrowserError> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", params)?;
        match answer.get("exceptionDetails") {
            Some(details) => {
                Err(BrowserError::Script { doing: "asking the page".to_owned(), said: exception_text(details) })
            }
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Begins an expression and waits for nothing: the page tells what comes of it by the functions that it was given.
    pub fn begin(&self, expression: &str) -> Result<(), BrowserError> {
        let params = json!({"expression": expression, "awaitPromise": false, "returnByValue": false});
        self.connection.send(Some(&self.session), "Runtime.evaluate", params).map(drop)
    }

    /// What happens next on the page; none if nothing does in this time.
    pub fn next_event(&self, within: Duration) -> Result<Option<PageEvent>, BrowserError> {
        let begin = Instant::now();
        while let Some(event) = self.connection.next_event(within.saturating_sub(begin.elapsed()))? {
            if let Some(meaning) = self.meaning(&event) {
                return Ok(Some(meaning));
            }
        }
        Ok(None)
    }

    fn meaning(&self, event: &Event) -> Option<PageEvent> {
        let params = &event.params;
        let is_of_target = || params["targetId"].as_str() == Some(&self.target);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match (event.session.as_deref(), event.method.as_str()) {
            (None, "Target.targetCrashed") if is_of_target() => Some(PageEvent::Crashed {
                said: format!("status {}, error {}", text(&params["status"]), params["errorCode"]),
            }),
            (None, "Target.targetDestroyed") if is_of_target() => Some(PageEvent::Closed),
            (Some(session), method) if session == self.session => match method {
                "Runtime.bindingCalled" => {
                    Some(PageEvent::Called { text: text(&params["payload"]), arrived_ns: event.arrived_ns })
                }
                "Runtime.exceptionThrown" => {
                    Some(PageEvent::Failed { said: exception_text(&params["exceptionDetails"]) })
                }
                "Runtime.executionContextsCleared" => Some(PageEvent::Left),
                "Inspector.targetCrashed" => Some(PageEvent::Crashed { said: "its process died".to_owned() }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Measures the clock of the page.
    pub fn clock(&self) -> Result<PageClock, BrowserError> {
        PageClock::measure(self)
    }

    /// Memory of its JavaScript heap.
    pub fn heap_usage(&self) -> Result<HeapUsage, BrowserError> {
        let answer = self.call("Runtime.getHeapUsage", json!({}))?;
        Ok(serde_json::from_value(answer).unwrap_or_default())
    }

    /// The process of the page. The protocol does not say it: the page computes for a moment, and the renderer with its CPU time
    /// is the one. None if two of them could be.
    pub fn process(&self, browser: &Browser) -> Result<Option<u32>, BrowserError> {
        for _ in 0..PROCESS_LOOKS {
            self.evaluate(&format!(
                "{{ const end = performance.now() + {BURN_MS}; while (performance.now() < end); }}"
            ))?;
            let own_s = self.process_time_s()?;
            let processes = browser.processes()?;
            let mut close = processes
                .iter()
                .filter(|process| process.kind == "renderer" && (process.cpu_s - own_s).abs() <= SAME_CPU_S);
            if let (Some(only), None) = (close.next(), close.next()) {
                return Ok(Some(only.pid));
            }
        }
        Ok(None)
    }

    fn process_time_s(&self) -> Result<f64, BrowserError> {
        let answer = self.call("Performance.getMetrics", json!({}))?;
        let metrics = answer["metrics"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = metrics.iter().find(|metric| metric["name"] == "ProcessTime");
        found.and_then(|metric| metric["value"].as_f64()).ok_or_else(|| BrowserError::Answer {
            doing: "looking for the process of the page".to_owned(),
            found: answer.to_string(),
            needed: "the metric ProcessTime",
        })
    }
}

/// An exception in words, without the stack.
fn exception_text(details: &Value) -> String {
    let described = details["exception"]["description"].as_str().or_else(|| details["exception"]["value"].as_str());
    let text = described.or_else(|| details["text"].as_str()).unwrap_or("an unknown exception");
    text.lines().next().unwrap_or_default().to_owned()
}
