//! Calls to the browser, their answers, and events, over one pair of pipes.

use std::collections::{HashMap, VecDeque};
use std::io::{BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dwell_clock::monotonic_ns;
use serde_json::{Value, json};

use crate::BrowserError;
use crate::messages::read_message;

/// How long an answer is waited for. A machine whose processors are all taken is slow, a browser that says nothing for so long is
/// stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// How often it is asked whether waiting is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long the reason is waited for why commands cannot be sent.
const REASON_WITHIN: Duration = Duration::from_secs(1);
/// Events that may wait to be read; a page that reports more than anybody reads is cut off.
const EVENTS_MAX: usize = 1 << 16;

/// Says whether waiting is to end.
pub(crate) type IsInterrupted = Arc<dyn Fn() -> bool + Send + Sync>;

/// Something that the browser told without being asked.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// The page that it is about; none for the browser itself.
    pub(crate) session: Option<String>,
    pub(crate) method: String,
    pub(crate) params: Value,
    /// CLOCK_MONOTONIC time at which it arrived.
    pub(crate) arrived_ns: u64,
}

/// How long something may take, from when it began.
#[derive(Clone, Copy, Debug)]
struct Patience {
    begin: Instant,
    within: Duration,
}

impl Patience {
    fn from_now(within: Duration) -> Self {
        Self { begin: Instant::now(), within }
    }

    fn left(&self) -> Duration {
        self.within.saturating_sub(self.begin.elapsed())
    }
}

/// A connection to one browser.
pub(crate) struct Connection {
    commands: Mutex<ChildStdin>,
    inbox: Arc<Inbox>,
    is_interrupted: IsInterrupted,
    /// How long all may take until it is ready; none once it is.
    readiness: Mutex<Option<Patience>>,
}

#[derive(Default)]
struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    last_id: u64,
    answers: HashMap<u64, Value>,
    events: VecDeque<Event>,
    /// Why nothing more comes.
    ended_because: Option<String>,
}

impl Inbox {
    /// A thread that panicked while it held the lock left whole messages behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, message: &[u8]) -> Result<(), String> {
        let arrived_ns = monotonic_ns();
        let mut message: Value =
            serde_json::from_slice(message).map_err(|error| format!("a message is no JSON: {error}"))?;
        let mut state = self.state();
        if let Some(id) = message["id"].as_u64() {
            state.answers.insert(id, message);
        } else if let Some(method) = message["method"].as_str().map(str::to_owned) {
            if state.events.len() >= EVENTS_MAX {
                return Err(format!("more than {EVENTS_MAX} events wait to be read"));
            }
            let session = message["sessionId"].as_str().map(str::to_owned);
            state.events.push_back(Event { session, method, params: message["params"].take(), arrived_ns });
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    fn end(&self, because: String) {
        self.state().ended_because.get_or_insert(because);
        self.changed.notify_all();
    }
}

impl Connection {
    /// Listens to the browser on a thread that ends with the pipe. All that is called until it is ready must be answered within
    /// one time.
    pub(crate) fn begin(
        commands: ChildStdin,
        answers: ChildStdout,
        is_interrupted: IsInterrupted,
        ready_within: Duration,
    ) -> Self {
        let inbox = Arc::new(Inbox::default());
        let listener = inbox.clone();
        thread::spawn(move || listen(answers, &listener));
        let readiness = Mutex::new(Some(Patience::from_now(ready_within)));
        Self { commands: Mutex::new(commands), inbox, is_interrupted, readiness }
    }

    /// From now on each answer has a time of its own.
    pub(crate) fn became_ready(&self) {
        *self.readiness.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is left of the time to get ready; none once it is.
    pub(crate) fn time_to_get_ready(&self) -> Option<Duration> {
        self.readiness().map(|patience| patience.left())
    }

    fn readiness(&self) -> Option<Patience> {
        *self.readiness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a method of the browser, or of a page, and waits for its result.
    pub(crate) fn call(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, BrowserError> {
        let doing = format!("calling {method}");
        let id = self.send(session, method, params)?;
        let patience = self.readiness().unwrap_or(Patience::from_now(ANSWER_WITHIN));
        let answer = self.wait(&doing, patience.left(), |state| state.answers.remove(&id))?;
        let Some(mut answer) = answer else {
            return Err(BrowserError::Silent { doing, waited_s: patience.within.as_secs() });
        };
        match answer["error"]["message"].as_str() {
            Some(said) => Err(BrowserError::Refused { doing, said: said.to_owned() }),
            None => Ok(answer["result"].take()),
        }
    }

    /// Calls a method whose result nobody waits for.
    pub(crate) fn send(&self, session: Option<&str>, method: &str, params: Value) -> Result<u64, BrowserError> {
        let id = {
            let mut state = self.inbox.state();
            state.last_id += 1;
            state.last_id
        };
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        match commands.write_all(&bytes).and_then(|()| commands.flush()) {
            Ok(()) => Ok(id),
            Err(error) => {
                let how = self.reason_of_end().unwrap_or_else(|| format!("writing to it failed with {error}"));
                Err(BrowserError::Ended { doing: format!("calling {method}"), how })
            }
        }
    }

    /// The next event, or none if there is none in this time.
    pub(crate) fn next_event(&self, within: Duration) -> Result<Option<Event>, BrowserError> {
        self.wait("listening to the page", within, |state| state.events.pop_front())
    }

    /// Why nothing more comes. The other pipe tells, a moment after this one broke.
    fn reason_of_end(&self) -> Option<String> {
        let state = self.inbox.state();
        let has_no_reason = |state: &mut State| state.ended_because.is_none();
        let waited = self.inbox.changed.wait_timeout_while(state, REASON_WITHIN, has_no_reason);
        waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state).ended_because.clone()
    }

    fn wait<T>(
        &self,
        doing: &str,
        within: Duration,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, BrowserError> {
        let begin = Instant::now();
        let mut state = self.inbox.state();
        loop {
            if let Some(taken) = take(&mut state) {
                return Ok(Some(taken));
            }
            if let Some(how) = &state.ended_because {
                return Err(BrowserError::Ended { doing: doing.to_owned(), how: how.clone() });
            }
            let left = within.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            if (self.is_interrupted)() {
                return Err(BrowserError::Interrupted { doing: doing.to_owned() });
            }
            let waited = self.inbox.changed.wait_timeout(state, left.min(LOOK_INTERVAL));
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }
}

fn listen(answers: ChildStdout, inbox: &Inbox) {
    let mut stream = BufReader::with_capacity(1 << 16, answers);
    let mut message = Vec::new();
    loop {
        let taken = match read_message(&mut stream, &mut message) {
            Ok(true) => inbox.take(&message),
            Ok(false) => Err("it closed its debugging pipe".to_owned()),
            Err(error) => Err(format!("reading its debugging pipe failed: {error}")),
        };
        if let Err(because) = taken {
            return inbox.end(because);
        }
    }
}
