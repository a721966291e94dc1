//! The questions that every engine's profile answers.

/// Everything about an engine that code outside its driver asks: data, without behaviour.
///
/// Options that an engine refuses, hints, limits of experiments and what collectors can see of it all follow from here, so
/// that adding an engine does not mean finding the places that ask.
#[derive(Debug)]
pub struct EngineProfile {
    /// Its name in prose, as its makers write it.
    pub title: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Who runs it.
    pub reach: Reach,
    /// Whether it is given prompts and asked for tokens; else it does its own work, which is only watched.
    pub takes_prompts: bool,
    /// Where its model comes from.
    pub model: ModelSource,
    /// Whether the recorder of accesses can be in the process that computes.
    pub recorder: RecorderAccess,
    /// Names of its programs, in the order in which they are looked for.
    pub programs: &'static [&'static str],
    /// Port that its server listens on, unless it is told otherwise.
    pub port: Option<u16>,
    /// The command that starts its server, for hints.
    pub start_command: Option<&'static str>,
    /// What to do about a model that it does not have, for hints; `{name}` stands for the model.
    pub missing_model: &'static [&'static str],
    /// How a program that dwell started is ended when its worker dies.
    pub ending: Ending,
    /// Whether it publishes what becomes of its KV blocks.
    pub publishes_kv_events: bool,
    /// Whether it publishes figures about itself (Prometheus).
    pub publishes_metrics: bool,
    /// Whether the ids of generated tokens can be asked for.
    pub reports_token_ids: bool,
    /// Whether it counts the tokens of a text without computing.
    pub counts_tokens: bool,
    /// Whether it answers several requests at the same time.
    pub answers_side_by_side: bool,
    /// Whether it can be told to generate past the model's end, so that every repetition computes as many tokens.
    pub ignores_end: bool,
    /// Whether a server that runs already can be told to unload its model.
    pub unloads: bool,
    /// Whether each request can have its own context length and number of threads.
    pub takes_options_per_request: bool,
    /// Whether it computes in a page of a browser, whose processes are then told apart by what they do.
    pub is_in_browser: bool,
    /// Whether dwell decides if its weights are mapped from the file (`--mmap`).
    pub follows_mmap: bool,
    /// Options that reach it, started or joined, by their names in [`EngineOptions`](crate::engine::EngineOptions).
    pub options_of_requests: &'static [&'static str],
    /// Options that reach it only if dwell starts it.
    pub options_at_start: &'static [&'static str],
}

/// Who runs an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// dwell itself, in its worker.
    Embedded,
    /// A program that dwell starts and that ends when its work is done.
    Started,
    /// A server that dwell starts, or one that runs already.
    StartedOrJoined,
    /// A server that runs already.
    Joined,
}

/// Where the model of an engine comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// A file on this machine.
    File,
    /// A file, unless the engine is joined: then the server has it.
    FileUnlessJoined,
    /// A file, or a name under which the engine has stored one.
    FileOrName,
    /// A folder with the files that its makers' tools write.
    Folder,
    /// A folder with the files of Hugging Face's library, or a name on its hub, unless the engine is joined: then it has
    /// its own.
    FolderOrName,
    /// The engine has its own; a file only tells its shape.
    Own,
}

/// Whether the recorder of accesses can be in the process that computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecorderAccess {
    /// It is linked with the engine.
    Linked,
    /// It is loaded when the program starts, if that has ggml as a shared library.
    Preloaded,
    /// It is never there: the engine need not compute with ggml.
    None,
}

/// How a program that dwell started is ended when its worker dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By SIGKILL, which cannot fail.
    Killed,
    /// By SIGTERM, because it started other processes and has to end them.
    Asked,
}

impl EngineProfile {
    /// A server with the API of OpenAI that says no more than that API does.
    ///
    /// The profiles of others name only what they have besides, or otherwise.
    pub(super) const OPENAI_API: Self = Self {
        title: "OpenAI-compatible server",
        about: "any server with the API of OpenAI",
        reach: Reach::Joined,
        takes_prompts: true,
        model: ModelSource::Own,
        recorder: RecorderAccess::None,
        programs: &[],
        port: Some(8000),
        start_command: None,
        missing_model: &[],
        ending: Ending::Killed,
        publishes_kv_events: false,
        publishes_metrics: false,
        reports_token_ids: false,
        counts_tokens: false,
        answers_side_by_side: true,
        // No part of the API, and some servers refuse what they do not know.
        ignores_end: false,
        unloads: false,
        takes_options_per_request: false,
        is_in_browser: false,
        follows_mmap: false,
        options_of_requests: &["model", "parallel", "chat_template", "seed", "temperature"],
        options_at_start: &[],
    };

    /// A server of many users with the API of OpenAI, which tells more of itself: vLLM and what is built like it.
    pub(super) const INFERENCE_SERVER: Self = Self {
        publishes_kv_events: true,
        publishes_metrics: true,
        reports_token_ids: true,
        counts_tokens: true,
        ignores_end: true,
        options_of_requests: &["model", "parallel", "chat_template", "seed", "temperature", "ignore_end"],
        ..Self::OPENAI_API
    };

    /// A program of llama.cpp that dwell starts.
    pub(super) const LLAMA_PROGRAM: Self = Self {
        title: "llama.cpp",
        about: "a program of llama.cpp",
        reach: Reach::Started,
        takes_prompts: true,
        model: ModelSource::File,
        recorder: RecorderAccess::Preloaded,
        programs: &[],
        port: None,
        start_command: None,
        missing_model: &[],
        // llama-server can lock itself up when it is asked: its handler waits for a lock that the thread it interrupts
        // may hold.
        ending: Ending::Killed,
        publishes_kv_events: false,
        publishes_metrics: false,
        reports_token_ids: false,
        counts_tokens: false,
        answers_side_by_side: false,
        ignores_end: true,
        unloads: false,
        takes_options_per_request: false,
        is_in_browser: false,
        follows_mmap: true,
        options_of_requests: &["model", "parallel", "chat_template", "seed", "temperature", "ignore_end"],
        options_at_start: &[
            "context_length",
            "threads",
            "batch_size",
            "micro_batch_size",
            "kv_type_k",
            "kv_type_v",
            "flash_attention",
            "mmap",
            "repack",
            "full_window_cache",
            "context_shift",
            "time_resolution",
        ],
    };

    /// A runtime in a page of Chromium, which dwell starts for the run.
    pub(super) const IN_BROWSER: Self = Self {
        reach: Reach::Started,
        programs: &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"],
        port: None,
        is_in_browser: true,
        answers_side_by_side: false,
        // It has one conversation, and closes its pipe to the browser when it dies.
        options_of_requests: &["model", "chat_template", "seed", "temperature"],
        ..Self::OPENAI_API
    };

    /// Whether dwell runs the model itself.
    pub fn is_embedded(&self) -> bool {
        self.reach == Reach::Embedded
    }

    /// Whether the file that is given is the model that it runs.
    pub fn runs_model_file(&self) -> bool {
        matches!(self.model, ModelSource::File | ModelSource::FileUnlessJoined | ModelSource::FileOrName)
    }

    /// Whether dwell can start its program.
    pub fn is_startable(&self) -> bool {
        matches!(self.reach, Reach::Started | Reach::StartedOrJoined)
    }

    /// Whether an option reaches it. The value of any other option says nothing about it.
    pub fn takes_option(&self, name: &str, is_joined: bool) -> bool {
        let is_started_with = || !is_joined && self.options_at_start.contains(&name);
        self.is_embedded() || self.options_of_requests.contains(&name) || is_started_with()
    }

    /// Whether dwell can use a server of it that runs already.
    pub fn is_joinable(&self) -> bool {
        matches!(self.reach, Reach::StartedOrJoined | Reach::Joined)
    }
}
