//! Packages from their registries, unmodified: llama-cpp-python, xllamacpp and node-llama-cpp.

use std::path::Path;
use std::process::Command;

use dwell_events::engine::KvType;
use dwell_gguf::{GgufFile, MakeSpec, ModelShape};

use crate::common::{Access, Run, Workplace, cached, dwell, skip};
use crate::{done, python_with_llama, trace};

/// Four tokens of a prompt, then six tokens, of which five are computed further.
const PROMPT_TOKENS: u64 = 4;
const DECODED: std::ops::RangeInclusive<u32> = 1..=5;

pub fn small_model(place: &Workplace) -> std::path::PathBuf {
    place.model(MakeSpec { layers: 3, embedding: 128, feed_forward: 192, tied_output: false, ..MakeSpec::default() })
}

/// What llama-cpp-python is asked to do.
pub const PYTHON: &str = "
import sys
from llama_cpp import Llama
llm = Llama(model_path=sys.argv[1], n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False)
for count, token in enumerate(llm.generate([5, 6, 7, 8], temp=0.0), 1):
    print('token', token, flush=True)
    if count == 6:
        break
";

/// The same with node-llama-cpp.
const NODE: &str = "
const {getLlama} = await import(process.argv[2]);
const llama = await getLlama({gpu: false, build: 'never', logLevel: 'error'});
const model = await llama.loadModel({modelPath: process.argv[3]});
const context = await model.createContext({contextSize: 256, threads: 1});
let count = 0;
for await (const token of context.getSequence().evaluate([5, 6, 7, 8], {temperature: 0, yieldEogToken: true})) {
    console.log('token', token);
    if (++count === 6) break;
}
await llama.dispose();
";

/// The same with xllamacpp, whose ggml is part of its own library and visible to others. It samples with a chain that the
/// tokens of the others do not pass, so it prints what it made of them.
const XLLAMACPP: &str = "
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_predict, params.n_parallel, params.warmup = 256, 6, 1, False
params.sampling.temp = 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
answer = server.handle_completions(
    {'prompt': [5, 6, 7, 8], 'max_tokens': 6, 'temperature': 0, 'ignore_eos': True, 'cache_prompt': False})
print(ascii(answer['choices'][0]['text']), answer['usage']['completion_tokens'], flush=True)
";

/// Its server tries the model with a first and a last token when it has loaded it, whether a warm-up is asked for or not.
const XLLAMACPP_TRIAL_TOKENS: u64 = 2;

fn stored<'a>(accesses: impl IntoIterator<Item = &'a Access>, step: u32) -> u64 {
    let is_kv_store =
        |access: &&Access| access.region_type == "kv_cache" && access.is_store && access.phase == "generation";
    let of_step = accesses.into_iter().filter(is_kv_store).filter(|access| access.step == Some(step));
    of_step.map(|access| access.size_bytes).sum()
}

/// The KV cache grows by exactly what the model's shape says, with each token.
pub fn assert_kv_bytes_are_arithmetic(accesses: &[&Access], model: &Path) {
    assert_kv_bytes_after_trial(accesses, model, 0);
}

/// The same of a program that first tries the model with some tokens.
fn assert_kv_bytes_after_trial(accesses: &[&Access], model: &Path, trial_tokens: u64) {
    let shape = ModelShape::from_gguf(&GgufFile::open(model).unwrap()).unwrap();
    let kv_bytes = shape.kv_bytes_per_token(KvType::F16, KvType::F16).unwrap();
    assert_eq!(stored(accesses.iter().copied(), 0), (trial_tokens + PROMPT_TOKENS) * kv_bytes, "the prompt");
    for step in DECODED {
        assert_eq!(stored(accesses.iter().copied(), step), kv_bytes, "step {step}");
    }
    assert_eq!(stored(accesses.iter().copied(), DECODED.end() + 1), 0, "no further step");
}

fn assert_traced(run: &Run, model: &Path, trial_tokens: u64) {
    let accesses = run.accesses();
    assert_kv_bytes_after_trial(&accesses.iter().collect::<Vec<_>>(), model, trial_tokens);
    let metadata = run.metadata();
    assert_eq!(metadata["server"]["untraced_because"], serde_json::Value::Null);
    assert_eq!(metadata["processes"].as_array().unwrap().len(), 1);
    let phases: Vec<&str> =
        metadata["phases"].as_array().unwrap().iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["weight_load", "generation", "teardown"]);
    let unwanted: Vec<_> = run.losses().into_iter().filter(|(kind, _)| !KNOWN_LOSSES.contains(&&**kind)).collect();
    assert_eq!(unwanted, []);
    let weights = accesses.iter().filter(|access| access.region_type == "weight" && !access.is_store);
    let tensors: std::collections::BTreeSet<&str> = weights.map(|access| access.tensor.as_str()).collect();
    assert!(tensors.contains("blk.2.ffn_down.weight") && tensors.contains("output.weight"), "{tensors:?}");
}

/// What every trace of ggml leaves out, and says so; samples are missed on a busy machine.
const KNOWN_LOSSES: [&str; 2] = ["missed_samples", "work_buffer"];

/// What the same command prints without dwell.
fn plain(command: &[&str]) -> Vec<u8> {
    Command::new(command[0]).args(&command[1..]).output().unwrap().stdout
}

fn assert_package_is_traced(place: &Workplace, model: &Path, command: &[&str]) {
    let (run, output) = done(place, trace(place, &["--quiet", "--model", model.to_str().unwrap()], command));
    assert_eq!(output.stdout, plain(command), "the command prints what it prints without dwell");
    assert!(String::from_utf8(output.stdout).unwrap().matches("token ").count() == 6);
    assert_traced(&run, model, 0);
    let regions = run.metadata()["memory"].clone();
    assert!(!regions.is_null());
}

#[test]
fn llama_cpp_python_is_traced_and_its_kv_bytes_per_token_are_arithmetic() {
    let name = "llama_cpp_python_is_traced_and_its_kv_bytes_per_token_are_arithmetic";
    let Some(python) = python_with_llama(name) else { return };
    let place = Workplace::new();
    let model = small_model(&place);
    assert_package_is_traced(&place, &model, &[python.to_str().unwrap(), "-c", PYTHON, model.to_str().unwrap()]);
}

#[test]
fn xllamacpp_is_traced_and_its_kv_bytes_per_token_are_arithmetic() {
    let name = "xllamacpp_is_traced_and_its_kv_bytes_per_token_are_arithmetic";
    let Some(python) = cached("venv-ggml-packages/bin/python") else {
        return skip(name, "xllamacpp is not in the cache (scripts/fetch-ggml-packages.sh gets it)");
    };
    let place = Workplace::new();
    let model = small_model(&place);
    let command = [python.to_str().unwrap(), "-c", XLLAMACPP, model.to_str().unwrap()];
    let library = Path::new(env!("CARGO_BIN_EXE_dwell")).with_file_name("libdwell_preload.so");
    let preloaded = Command::new(command[0]).args(&command[1..]).env("LD_PRELOAD", library).output().unwrap();
    let expected = plain(&command);
    assert_eq!((preloaded.status.code(), &preloaded.stdout), (Some(0), &expected), "with the recorder, unrecorded");
    let (run, output) = done(&place, trace(&place, &["--quiet", "--model", command[3]], &command));
    assert_eq!(output.stdout, expected, "the command prints what it prints without dwell");
    assert_traced(&run, &model, XLLAMACPP_TRIAL_TOKENS);
}

#[test]
fn two_packages_with_a_ggml_each_are_traced_in_one_process() {
    let name = "two_packages_with_a_ggml_each_are_traced_in_one_process";
    let Some(python) = python_with_llama(name) else { return };
    let Some(other) = cached("venv-ggml-packages/lib") else {
        return skip(name, "xllamacpp is not in the cache (scripts/fetch-ggml-packages.sh gets it)");
    };
    let packages = std::fs::read_dir(other).unwrap().map(|entry| entry.unwrap().path().join("site-packages"));
    let packages = packages.into_iter().find(|path| path.exists()).unwrap();
    let place = Workplace::new();
    let model = small_model(&place);
    // Both are loaded before either computes.
    let script = format!("import sys, llama_cpp\nsys.path.append(sys.argv[2])\nimport xllamacpp\n{PYTHON}{XLLAMACPP}");
    let words = [python.as_path(), model.as_path(), packages.as_path()].map(|path| path.to_str().unwrap());
    let command = [words[0], "-c", &script, words[1], words[2]];
    let (run, output) = done(&place, trace(&place, &["--quiet"], &command));
    assert_eq!(output.stdout, plain(&command), "the command prints what it prints without dwell");
    let accesses = run.accesses();
    let is_weight = |access: &&Access| access.tensor == "blk.2.ffn_down.weight" && !access.is_store;
    let places: std::collections::BTreeSet<u64> = accesses.iter().filter(is_weight).map(|it| it.address).collect();
    assert_eq!(places.len(), 2, "each ggml has weights of its own");
    assert_eq!(run.metadata()["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_command_that_changes_its_folder_is_traced_into_a_relative_one() {
    let place = Workplace::new();
    let Some(python) = python_with_llama("a_command_that_changes_its_folder_is_traced_into_a_relative_one") else {
        return;
    };
    let model = small_model(&place);
    let mut command = dwell();
    command.current_dir(place.path()).args(["trace", "--output", "results", "--model-id", "traced", "--run-id", "run"]);
    command.arg("--").arg(python).args(["-c", &format!("import os\nos.chdir('/')\n{PYTHON}")]).arg(&model);
    let (run, _) = done(&place, command);
    assert_traced(&run, &model, 0);
}

#[test]
fn node_llama_cpp_is_traced_and_its_kv_bytes_per_token_are_arithmetic() {
    let name = "node_llama_cpp_is_traced_and_its_kv_bytes_per_token_are_arithmetic";
    let package = cached("node-llama-cpp/node_modules/node-llama-cpp/dist/index.js");
    let Some(package) = package.filter(|_| Command::new("node").arg("--version").output().is_ok()) else {
        return skip(
            name,
            "node-llama-cpp is not in the cache (scripts/fetch-node-llama-cpp.sh gets it, with node and npm)",
        );
    };
    let place = Workplace::new();
    let model = small_model(&place);
    let script = place.path().join("script.mjs");
    std::fs::write(&script, NODE).unwrap();
    let words = [script.as_path(), package.as_path(), model.as_path()].map(|path| path.to_str().unwrap());
    assert_package_is_traced(&place, &model, &["node", words[0], words[1], words[2]]);
}
