//! Experiments with servers: one that the tests start and experiments join, and those that experiments start.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::{cached, llama_program, skip, text_of};
use crate::lab::{Lab, Outcome};

/// A publisher of KV events that has none.
pub struct Publisher {
    child: Child,
    pub endpoint: String,
}

impl Publisher {
    /// None, with a note, if there is no ZeroMQ for Python in the cache.
    pub fn start(test: &str) -> Option<Self> {
        const SCRIPT: &str = "\
import sys, time, zmq
publisher = zmq.Context().socket(zmq.PUB)
port = publisher.bind_to_random_port('tcp://127.0.0.1')
print(port, flush=True)
time.sleep(600)
";
        let Some(python) = cached("venv-kv/bin/python") else {
            skip(test, "the Python environment of the KV events is not in the cache (scripts/setup.sh test makes it)");
            return None;
        };
        let mut child = Command::new(python).args(["-c", SCRIPT]).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Some(Self { child, endpoint: format!("tcp://127.0.0.1:{}", port.trim()) })
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// llama-server in the cache, or a note that a test cannot run here.
pub fn llama_server(test: &str) -> Option<PathBuf> {
    llama_program(test, "llama-server")
}

/// An experiment of one run of two tokens with these keys of its model, and with more keys.
pub fn experiment(model: &str, more: &str) -> String {
    format!(
        "\
experiment: {{name: served}}
models:
  - {{id: served, {model}}}
sweep: {{context_lengths: [256], output_tokens: [2], threads: [1]}}
prompts: {{source: tiny_prompts.yaml, categories: [short]}}
telemetry: {{baseline_secs: 0.1}}
{more}
"
    )
}

/// Watched by samples alone.
pub const BY_PROCESS: &str = "collectors: {use: [process]}";

/// Runs an experiment with these keys of its model; it must succeed.
pub fn run(lab: &Lab, name: &str, model: &str) -> Outcome {
    lab.run_text(name, &experiment(model, BY_PROCESS))
}

/// What is said of a run with these keys of its model, which must fail.
pub fn failure(lab: &Lab, name: &str, model: &str) -> String {
    lab.write(&format!("{name}.yaml"), &experiment(model, BY_PROCESS));
    let output = lab.output(&["run", "--config", &format!("{name}.yaml"), "-o", &format!("results-{name}")]);
    assert_eq!(output.status.code(), Some(1), "{model}: {}", text_of(&output));
    text_of(&output)
}

const SILENT: &str = "\
#!/bin/sh
case $1 in
  --help) printf -- '-m, --model FNAME\\n-ctk, --cache-type-k TYPE\\n-ctv, --cache-type-v TYPE\\n' ;;
  --version) ;;
  *) exec sleep 60 ;;
esac
";

/// A program with the options of llama-server that never answers.
pub fn silent_program(lab: &Lab) -> &'static str {
    let path = lab.write("silent", SILENT);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    "./silent"
}
