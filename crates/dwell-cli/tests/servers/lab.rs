//! Runs with an engine that is a program of its own, and what their tables say.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::{Command, Output};

use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use dwell_events::schema::Table;
use dwell_gguf::{GgufFile, MakeSpec, ModelShape};

use crate::common::{Access, Run, Workplace, dwell, optional, text, text_of};

/// Quick to start, and a token takes a fraction of a millisecond.
pub fn tiny() -> MakeSpec {
    MakeSpec { layers: 3, embedding: 128, feed_forward: 192, tied_output: false, ..MakeSpec::default() }
}

/// Computes about a millisecond per token.
pub fn slow() -> MakeSpec {
    MakeSpec { layers: 8, embedding: 512, feed_forward: 1024, context: 8192, tied_output: false, ..MakeSpec::default() }
}

/// `dwell run` with an engine, into the folder of a test.
pub fn command(place: &Workplace, model: &Path, engine: &str, arguments: &[&str]) -> Command {
    place.run_command(model, &[&["--engine", engine, "--baseline-secs", "0"], arguments].concat())
}

/// The same with a program that is started for the run.
pub fn started(place: &Workplace, model: &Path, engine: &str, program: &Path, arguments: &[&str]) -> Command {
    let mut command = command(place, model, engine, arguments);
    command.arg("--program").arg(program);
    command
}

/// The run that a command makes, which must succeed, and be whole and fit for everything that reads runs.
pub fn done(place: &Workplace, model: &Path, mut command: Command) -> Run {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let run = place.opened_run(model);
    assert_eq!(run.metadata()["state"], "complete", "{}", text_of(&output));
    assert_usable(&run);
    run
}

/// A run passes `dwell verify`, and `dwell analyse` computes its figures again.
pub fn assert_usable(run: &Run) {
    assert_sealed(run);
    let analysed = dwell().arg("analyse").arg(&run.dir).output().unwrap();
    assert_eq!(analysed.status.code(), Some(0), "{}", text_of(&analysed));
    assert_sealed(run);
}

pub fn assert_sealed(run: &Run) {
    let verified = dwell().arg("verify").arg(&run.dir).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", text_of(&verified));
}

/// The command was not done: exit code 2, this error and this hint, and no run.
pub fn assert_refused(place: &Workplace, output: &Output, error: &str, hint: &str) {
    let said = text_of(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let has = |begin: &str, words: &str| stderr.lines().any(|line| line.starts_with(begin) && line.contains(words));
    assert!(has("error: ", error), "needed the error {error:?}: {said}");
    assert!(hint.is_empty() || has("hint: ", hint), "needed the hint {hint:?}: {said}");
    let left = std::fs::read_dir(place.path().join("results")).into_iter().flatten().count();
    assert_eq!(left, 0, "nothing was recorded: {said}");
}

/// Bytes of a model that theory knows.
pub struct Theory {
    /// Keys and values of one token.
    pub kv_bytes: u64,
    /// Weights that a step reads which computes one token.
    pub weight_bytes: u64,
}

impl Theory {
    pub fn of(model: &Path, kv_type: &str) -> Self {
        let file = GgufFile::open(model).unwrap();
        let kv_type = dwell_events::engine::KvType::from_name(kv_type).unwrap();
        let kv_bytes = ModelShape::from_gguf(&file).unwrap().kv_bytes_per_token(kv_type, kv_type).unwrap();
        let embedding = file.tensor("token_embd.weight").unwrap();
        let weight_bytes = file.tensor_bytes() - embedding.size_bytes + embedding.size_bytes / embedding.dimensions[1];
        Self { kv_bytes, weight_bytes }
    }
}

/// Bytes that a run moved, by kind of data, direction and step.
pub struct Moved(HashMap<(String, bool, u32), u64>);

impl Moved {
    /// While the model generated.
    pub fn in_generation(run: &Run) -> Self {
        Self::in_accesses(run.accesses().into_iter().filter(|access| access.phase == "generation"))
    }

    /// From the beginning to the end.
    pub fn in_all(run: &Run) -> Self {
        Self::in_accesses(run.accesses().into_iter())
    }

    fn in_accesses(accesses: impl Iterator<Item = Access>) -> Self {
        let mut sums = HashMap::new();
        for access in accesses {
            let Some(step) = access.step else { continue };
            *sums.entry((access.region_type, access.is_store, step)).or_default() += access.size_bytes;
        }
        Self(sums)
    }

    pub fn stored(&self, region_type: &str, step: u32) -> u64 {
        self.0.get(&(region_type.to_owned(), true, step)).copied().unwrap_or(0)
    }

    pub fn loaded(&self, region_type: &str, step: u32) -> u64 {
        self.0.get(&(region_type.to_owned(), false, step)).copied().unwrap_or(0)
    }
}

/// The trace of one answer obeys arithmetic: what a token stores, what it reads, and the weights.
pub fn assert_exact(run: &Run, theory: &Theory, prompt_tokens: u64, generated_tokens: u32) {
    let moved = Moved::in_generation(run);
    assert_eq!(moved.stored("kv_cache", 0), prompt_tokens * theory.kv_bytes, "the prompt is stored");
    assert_steps_exact(&moved, theory, prompt_tokens, generated_tokens);
    assert_eq!(run.metadata()["tables"]["trace"]["basis"], "exact");
}

/// The same of the steps after the prompt.
pub fn assert_steps_exact(moved: &Moved, theory: &Theory, prompt_tokens: u64, generated_tokens: u32) {
    for step in 1..generated_tokens {
        assert_eq!(moved.stored("kv_cache", step), theory.kv_bytes, "step {step}");
        let context = prompt_tokens + u64::from(step);
        assert_eq!(moved.loaded("kv_cache", step), context * theory.kv_bytes, "step {step}");
        assert_eq!(moved.loaded("weight", step), theory.weight_bytes, "step {step}");
    }
    assert_eq!(moved.stored("kv_cache", generated_tokens), 0, "the last token is not computed any more");
}

/// The cache holds the prompt when the first token comes, and a token more with each.
pub fn assert_kv_bytes_of_tokens(run: &Run, theory: &Theory, prompt_tokens: u64) {
    for (index, token) in tokens(run).iter().enumerate() {
        let held = (prompt_tokens + index as u64) * theory.kv_bytes;
        assert_eq!(token.kv_bytes, Some(held), "token {index}, step {}", token.step);
    }
    let kv = &run.metadata()["memory"]["kv"];
    assert_eq!(kv["theory_bytes_per_token"], theory.kv_bytes);
    let measured = kv["measured_bytes_per_token"].as_f64().unwrap();
    assert!((measured / theory.kv_bytes as f64 - 1.0).abs() <= 0.02, "{kv}");
}

/// A token of a run.
#[derive(Clone, Debug)]
pub struct Token {
    pub step: u32,
    pub sequence: i32,
    pub id: Option<i32>,
    pub text: String,
    pub kv_bytes: Option<u64>,
    pub rss_bytes: Option<u64>,
}

pub fn tokens(run: &Run) -> Vec<Token> {
    let rows = |batch: arrow_array::RecordBatch| {
        (0..batch.num_rows())
            .map(|row| Token {
                step: optional::<UInt32Type>(&batch, "step", row).unwrap(),
                sequence: optional::<Int32Type>(&batch, "sequence", row).unwrap(),
                id: optional::<Int32Type>(&batch, "token_id", row),
                text: text(&batch, "text", row),
                kv_bytes: optional::<UInt64Type>(&batch, "kv_bytes", row),
                rss_bytes: optional::<UInt64Type>(&batch, "rss_bytes", row),
            })
            .collect::<Vec<_>>()
    };
    run.batches(Table::Tokens).into_iter().flat_map(rows).collect()
}

/// The text of all tokens.
pub fn answer(run: &Run) -> String {
    tokens(run).into_iter().map(|token| token.text).collect()
}

/// Processes into which the recorder was loaded and that computed.
pub fn recorded_pids(run: &Run) -> BTreeSet<u32> {
    let entries = std::fs::read_dir(run.dir.join("raw/programs")).unwrap().flatten().map(|entry| entry.path());
    let streams = entries.filter(|path| path.extension().is_some_and(|ending| ending == "arrows"));
    streams.map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// A row of `memory.csv`.
#[derive(Clone, Debug)]
pub struct Sample {
    pub label: String,
    pub pid: u32,
    pub rss_mb: f64,
}

pub fn samples(run: &Run) -> Vec<Sample> {
    let csv = std::fs::read_to_string(run.dir.join("memory.csv")).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Sample { label: fields[1].to_owned(), pid: fields[2].parse().unwrap(), rss_mb: fields[3].parse().unwrap() }
    };
    csv.lines().skip(1).map(row).collect()
}
