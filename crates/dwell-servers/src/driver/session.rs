//! One job from the start of its runtime to its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use dwell_events::engine::{Action, EngineEvent, Job, StopReason};
use dwell_events::server::{ReportedBuffer, StartKind};
use dwell_events::{Phase, without_secrets};

use super::conversation::Conversation;
use super::fill::fill;
use super::limit::generate_limited;
use super::requests::{Answer, Numbered, ask, ask_side_by_side, stop_reason};
use super::{FillTemplate, Teller};
use crate::client::Runtime;
use crate::{Interruption, ServerError};

/// What a warm-up asks; no prompt begins so, and nothing of it is found again in a cache.
const WARM_UP_TEXT: &str = "~ warm-up";
/// Put before a text whose tokens are counted by asking, so that it leaves no prefix behind for the real request.
const TRIAL_PREFIX: &str = "~";
/// How long the end of a program is waited for after its connection broke, and how often it is looked for.
const DEATH_LOOKS: (u32, Duration) = (40, Duration::from_millis(50));

/// How long the news of an interruption is waited for after something failed, and how often it is looked for.
const INTERRUPTION_LOOKS: (u32, Duration) = (6, Duration::from_millis(50));

/// A job that is being done.
pub(super) struct Session<'a> {
    job: &'a Job,
    runtime: Box<dyn Runtime>,
    fill_template: FillTemplate,
    teller: Teller,
    interruption: Interruption,
    conversations: BTreeMap<i32, Conversation>,
    context_length: Option<u32>,
    /// Whether the model is there for the next request.
    is_loaded: bool,
    phase: Option<Phase>,
    told_processes: Vec<u32>,
    told_buffers: Vec<ReportedBuffer>,
    requests: u32,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    prompt_tokens: u64,
    cached_tokens: u64,
    prompt_ns: u64,
    generated_tokens: u64,
    decode_ns: u64,
}

/// Whether the job goes on.
#[derive(PartialEq, Eq)]
enum Outcome {
    Done,
    Interrupted,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        job: &'a Job,
        runtime: Box<dyn Runtime>,
        fill_template: FillTemplate,
        teller: Teller,
        interruption: Interruption,
    ) -> Self {
        Self {
            job,
            runtime,
            fill_template,
            teller,
            interruption,
            conversations: BTreeMap::new(),
            context_length: None,
            is_loaded: false,
            phase: None,
            told_processes: Vec::new(),
            told_buffers: Vec::new(),
            requests: 0,
            totals: Totals::default(),
        }
    }

    /// Does everything; what was started has ended afterwards, in any case.
    pub(super) fn run(mut self) -> Result<(), ServerError> {
        self.begin(Phase::WeightLoad);
        let outcome = self.work();
        let outcome = match outcome {
            Err(error) if error.is_interrupted() || self.is_interrupted_meanwhile() => {
                // No answer says so: the request did not come to its end, and nobody may take the run for complete.
                self.tell(EngineEvent::Stopped { sequence: 0, reason: StopReason::Interrupted });
                Ok(())
            }
            Err(error) => Err(self.explained(error)),
            Ok(_) => Ok(()),
        };
        if outcome.is_ok() {
            self.begin(Phase::Teardown);
        }
        self.runtime.stop();
        outcome?;
        self.tell_buffers();
        let Totals { prompt_tokens, cached_tokens, prompt_ns, generated_tokens, decode_ns } = self.totals;
        self.tell(EngineEvent::Finished { prompt_tokens, cached_tokens, prompt_ns, generated_tokens, decode_ns });
        Ok(())
    }

    /// Ctrl-C reaches a program that was started, too: its end may be seen before the interruption is.
    fn is_interrupted_meanwhile(&self) -> bool {
        let (looks, pause) = INTERRUPTION_LOOKS;
        (0..looks).any(|_| {
            thread::sleep(pause);
            self.interruption.is_interrupted()
        })
    }

    fn work(&mut self) -> Result<Outcome, ServerError> {
        let job = self.job;
        for action in &job.actions {
            let outcome = match action {
                Action::Prompt { text, sequences, fill_to_tokens } => self.prompt(text, sequences, *fill_to_tokens)?,
                Action::Generate { max_tokens, sequences } => self.generate(*max_tokens, sequences)?,
                Action::Remove { sequence, from: 0, to: ..0 } => {
                    self.conversations.remove(sequence);
                    Outcome::Done
                }
                // Refused before anything was started.
                Action::Remove { .. } | Action::Copy { .. } | Action::Shift { .. } => Outcome::Done,
            };
            if outcome == Outcome::Interrupted {
                return Ok(outcome);
            }
        }
        self.tell_metrics();
        Ok(Outcome::Done)
    }

    fn prompt(&mut self, text: &str, sequences: &[i32], wanted: Option<u32>) -> Result<Outcome, ServerError> {
        let filled = match wanted {
            Some(wanted) => {
                // A server can only count once it runs; a program of one request is counted with by itself.
                if !self.runtime.is_loaded_for_each_request() {
                    let conversation = Conversation::of_prompt(text, &wrapped(self.job, self.fill_template, text)?);
                    self.ensure_loaded(&conversation, 0, 1)?;
                    self.begin(Phase::Setup);
                }
                self.filled(text, wanted)?
            }
            None => text.to_owned(),
        };
        let prompt = wrapped(self.job, self.fill_template, &filled)?;
        for &sequence in sequences {
            self.conversations.entry(sequence).or_default().add_prompt(&filled, &prompt);
        }
        Ok(Outcome::Done)
    }

    /// The text, repeated and cut to as many tokens.
    fn filled(&mut self, text: &str, wanted: u32) -> Result<String, ServerError> {
        let (job, fill_template) = (self.job, self.fill_template);
        let (options, server) = (&job.options, &job.server);
        let (runtime, interruption) = (&mut self.runtime, &self.interruption);
        let is_cheap = runtime.is_counting_cheap();
        fill(text, wanted, is_cheap, |cut| {
            let prompt = wrapped(job, fill_template, cut)?;
            let conversation = Conversation::of_prompt(cut, &prompt);
            if let Some(tokens) = runtime.count_tokens(&conversation.ask(0, 1, options, server))? {
                return Ok(tokens);
            }
            let unsaid = || match interruption.is_interrupted() {
                true => ServerError::Interrupted { doing: "counting the tokens of a prompt" },
                false => ServerError::Fill {
                    wanted,
                    found: "the server does not say how many tokens a prompt has".to_owned(),
                },
            };
            // Its count was by asking already.
            if runtime.is_loaded_for_each_request() {
                return Err(unsaid());
            }
            let unlike = |text: &str| format!("{TRIAL_PREFIX}{text}");
            let trial = Conversation::of_prompt(&unlike(cut), &unlike(&prompt));
            let asked = trial.ask(0, 1, options, server);
            let limited = generate_limited(&mut **runtime, &asked, |_| ControlFlow::Continue(()))?;
            limited.timings.prompt_tokens.ok_or_else(unsaid)
        })
    }

    fn generate(&mut self, max_tokens: u32, sequences: &[i32]) -> Result<Outcome, ServerError> {
        let first = self.conversations.get(&sequences[0]).cloned().unwrap_or_default();
        if self.runtime.is_loaded_for_each_request() {
            if sequences.len() > 1 {
                return Err(ServerError::OneAtATime { engine: self.job.engine, sequences: sequences.len() });
            }
            self.is_loaded = false;
            self.begin_loading();
            // Its program is started with the request, and computes it before it can be seen that the model is loaded.
            self.tell(EngineEvent::RequestBegins { request: self.requests, sequence: sequences[0] });
        }
        self.ensure_loaded(&first, sequences[0], max_tokens)?;
        self.begin(Phase::Generation);
        let answers = self.ask_all(max_tokens, sequences);
        let mut failure = None;
        let mut outcome = Outcome::Done;
        for answer in answers {
            match answer {
                Ok(answer) => {
                    let reason = self.take(answer, max_tokens);
                    if reason == StopReason::Interrupted {
                        outcome = Outcome::Interrupted;
                    }
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(outcome), Err)
    }

    fn ask_all(&mut self, max_tokens: u32, sequences: &[i32]) -> Vec<Result<Answer, ServerError>> {
        let job = self.job;
        let conversations: Vec<Conversation> =
            sequences.iter().map(|sequence| self.conversations.get(sequence).cloned().unwrap_or_default()).collect();
        let requests: Vec<Numbered<'_>> = (self.requests..)
            .zip(&conversations)
            .zip(sequences)
            .map(|((request, conversation), &sequence)| Numbered {
                request,
                asked: conversation.ask(sequence, max_tokens, &job.options, &job.server),
                is_told: self.runtime.is_loaded_for_each_request(),
            })
            .collect();
        self.requests += u32::try_from(sequences.len()).unwrap_or(u32::MAX);
        let connections: Option<Vec<Box<dyn Runtime>>> = sequences.iter().map(|_| self.runtime.another()).collect();
        let (teller, interruption) = (self.teller.clone(), self.interruption.clone());
        match connections {
            Some(connections) => ask_side_by_side(connections, &requests, &teller, &interruption, || self.tell_state()),
            None if requests.len() == 1 => vec![ask(&mut *self.runtime, &requests[0], &teller, &interruption)],
            None => vec![Err(ServerError::OneAtATime { engine: job.engine, sequences: sequences.len() })],
        }
    }

    /// Adds an answer to its conversation and to the totals, and tells why it ended.
    fn take(&mut self, answer: Answer, max_tokens: u32) -> StopReason {
        let reason = stop_reason(&answer, max_tokens, self.context_length);
        let timings = answer.timings;
        for (total, told) in [
            (&mut self.totals.prompt_tokens, timings.prompt_tokens.unwrap_or(0)),
            (&mut self.totals.cached_tokens, timings.cached_tokens.unwrap_or(0)),
            (&mut self.totals.prompt_ns, timings.prompt_ns.unwrap_or(0)),
            (&mut self.totals.generated_tokens, timings.generated_tokens.unwrap_or(answer.tokens)),
            (&mut self.totals.decode_ns, timings.decode_ns.unwrap_or(0)),
        ] {
            // Servers can tell any number.
            *total = total.saturating_add(told);
        }
        self.conversations.entry(answer.sequence).or_default().add_answer(&answer.text);
        self.tell(EngineEvent::Stopped { sequence: answer.sequence, reason });
        reason
    }

    /// Starts the runtime and has the model loaded, if it is not, and tells what is there then.
    fn ensure_loaded(
        &mut self,
        conversation: &Conversation,
        sequence: i32,
        max_tokens: u32,
    ) -> Result<(), ServerError> {
        if self.is_loaded {
            return Ok(());
        }
        self.begin_loading();
        let job = self.job;
        let asked = conversation.ask(sequence, max_tokens, &job.options, &job.server);
        self.prepare_file()?;
        self.runtime.start(&asked)?;
        self.tell_processes();
        self.forget_if_cold()?;
        self.runtime.load(&asked)?;
        self.warm_up()?;
        self.tell_processes();
        self.tell_buffers();
        let mut facts = self.runtime.facts()?;
        facts.command_line = without_secrets(&facts.command_line);
        self.context_length = facts.context_length;
        self.tell(EngineEvent::Serving { server: Box::new(facts) });
        let model = self.runtime.model();
        self.tell(EngineEvent::Loaded { model });
        self.tell_metrics();
        self.is_loaded = true;
        Ok(())
    }

    /// The first loading began with the job.
    fn begin_loading(&mut self) {
        if self.requests > 0 {
            self.begin(Phase::WeightLoad);
        }
    }

    fn begin(&mut self, phase: Phase) {
        if self.phase.replace(phase) != Some(phase) {
            self.tell(EngineEvent::PhaseBegins { phase });
        }
    }

    /// For a program that loads the model each time, warm means that the file is in memory.
    fn prepare_file(&self) -> Result<(), ServerError> {
        if self.job.server.start != StartKind::Warm || !self.runtime.is_loaded_for_each_request() {
            return Ok(());
        }
        let read = File::open(&self.job.options.model).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
        read.map(drop).map_err(|source| ServerError::System { doing: "reading the model into the page cache", source })
    }

    fn forget_if_cold(&mut self) -> Result<(), ServerError> {
        let (StartKind::Cold, Some(url)) = (self.job.server.start, &self.job.server.url) else { return Ok(()) };
        match self.runtime.unload()? {
            true => Ok(()),
            false => Err(ServerError::CannotUnload { engine: self.job.engine, url: url.clone() }),
        }
    }

    /// One token, of which nothing is told.
    fn warm_up(&mut self) -> Result<(), ServerError> {
        if self.job.server.start != StartKind::Warm || self.runtime.is_loaded_for_each_request() {
            return Ok(());
        }
        self.begin(Phase::Setup);
        let conversation = Conversation::of_prompt(WARM_UP_TEXT, WARM_UP_TEXT);
        let asked = conversation.ask(0, 1, &self.job.options, &self.job.server);
        generate_limited(&mut *self.runtime, &asked, |_| ControlFlow::Continue(())).map(drop)
    }

    /// A broken connection is explained by the end of the program, if it ended.
    fn explained(&mut self, error: ServerError) -> ServerError {
        if !matches!(&error, ServerError::Http(http) if http.status().is_none()) {
            return error;
        }
        for _ in 0..DEATH_LOOKS.0 {
            if let Some(how) = self.runtime.death() {
                return ServerError::Died { doing: "generating", how };
            }
            if self.job.server.url.is_some() {
                break;
            }
            thread::sleep(DEATH_LOOKS.1);
        }
        error
    }

    /// What may change while the server works.
    fn tell_state(&mut self) {
        self.tell_processes();
        self.tell_metrics();
    }

    fn tell_processes(&mut self) {
        for (pid, role) in self.runtime.processes() {
            if !self.told_processes.contains(&pid) {
                self.told_processes.push(pid);
                self.tell(EngineEvent::ProcessFound { pid, role: role.to_owned() });
            }
        }
    }

    fn tell_buffers(&mut self) {
        let buffers = self.runtime.buffers();
        if !buffers.is_empty() && buffers != self.told_buffers {
            self.told_buffers.clone_from(&buffers);
            self.tell(EngineEvent::MemoryReported { buffers });
        }
    }

    /// Figures are a supplement: a server that does not give them now is asked again later.
    fn tell_metrics(&mut self) {
        if let Ok(Some(values)) = self.runtime.metrics() {
            self.tell(EngineEvent::ServerMetrics { values });
        }
    }

    fn tell(&self, event: EngineEvent) {
        self.teller.tell(event);
    }
}

/// A prompt as the text that is sent: in the template that dwell fills, if the job has one.
fn wrapped(job: &Job, fill_template: FillTemplate, text: &str) -> Result<String, ServerError> {
    match &job.server.template {
        Some(template) => fill_template(template, text).map_err(|reason| ServerError::Template { reason }),
        None => Ok(text.to_owned()),
    }
}
