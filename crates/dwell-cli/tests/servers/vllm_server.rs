//! A real vLLM on the CPU, with a small model of random weights, and `dwell run` with it.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};
use serde_json::Value;

use crate::common::{Workplace, cached, http_answer, pid_of, send, skip};

/// Tokens of a block: the fewest that vLLM takes on the CPU.
pub const BLOCK_TOKENS: u64 = 32;
/// Keys and values of a token: 2 layers × 2 heads × 32 values × 4 bytes, twice.
pub const TOKEN_BYTES: u64 = 2 * 2 * 32 * 4 * 2;
/// The pool of blocks.
pub const POOL_BYTES: u64 = 1 << 30;
/// What the tests start vLLM with besides what dwell gives.
pub const ARGUMENTS: [&str; 8] = [
    "--block-size",
    "32",
    "--max-num-seqs",
    "8",
    "--enforce-eager",
    "--dtype",
    "float32",
    "--disable-uvicorn-access-log",
];
/// The interpreter alone takes half a minute to load everything, longer if others work beside it.
const READY_WITHIN: Duration = Duration::from_secs(900);
const END_WITHIN: Duration = Duration::from_secs(60);

/// One server takes 4 GB of memory and all cores while it starts.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// vLLM's environment in the cache.
pub struct Vllm {
    program: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Vllm {
    /// Found, and nobody else's for now; or a note that a test cannot run here.
    pub fn find(test: &str) -> Option<Self> {
        if std::env::var_os("DWELL_QUICK").is_some() {
            skip(test, "DWELL_QUICK leaves out slow tests");
            return None;
        }
        let found = cached("venv-vllm/made-from").and_then(|_| cached("venv-vllm/bin/vllm"));
        let Some(program) = found else {
            skip(test, "vLLM is not in the cache (make test-vllm gets it, 1.5 GB)");
            return None;
        };
        Some(Self { program, _alone: ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner) })
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Makes the model in the folder of a test.
    pub fn model(&self, place: &Workplace) -> PathBuf {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vllm/make_model.py");
        let folder = place.path().join("tiny");
        let made = Command::new(self.program.with_file_name("python")).arg(script).arg(&folder).status().unwrap();
        assert!(made.success());
        folder
    }
}

/// What makes vLLM run on few cores, without network and within the memory of the tests.
pub fn on_small_machine(command: &mut Command) -> &mut Command {
    command.envs([
        ("HF_HUB_OFFLINE", "1"),
        ("VLLM_NO_USAGE_STATS", "1"),
        ("VLLM_CPU_KVCACHE_SPACE", "1"),
        ("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
        ("OMP_NUM_THREADS", "1"),
    ])
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server that the test starts, without dwell. Ended when dropped.
pub struct VllmServer {
    child: Child,
    port: u16,
    pub url: String,
    /// Where it publishes KV events, and sends them again.
    pub events: [String; 2],
}

impl VllmServer {
    /// Starts it in the folder of a model, which it is given by its name alone.
    pub fn start(vllm: &Vllm, model: &Path) -> Self {
        let folder = model.parent().unwrap();
        let (port, events) = (free_port(), [free_port(), free_port()]);
        let config = serde_json::json!({"enable_kv_cache_events": true, "publisher": "zmq", "topic": "kv",
            "endpoint": format!("tcp://*:{}", events[0]), "replay_endpoint": format!("tcp://*:{}", events[1])});
        let log = folder.join("vllm.log");
        let output = File::create(&log).unwrap();
        let mut command = Command::new(vllm.program());
        command.arg("serve").arg(model.file_name().unwrap()).args(ARGUMENTS).args(["--host", "127.0.0.1", "--port"]);
        command.arg(port.to_string()).args(["--max-model-len", "2048", "--enable-prompt-tokens-details"]);
        command.arg("--kv-events-config").arg(config.to_string()).current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut child = on_small_machine(&mut command).spawn().unwrap();
        let begin = Instant::now();
        while http_answer(port, "GET", "/health", "").is_none() {
            let said = || std::fs::read_to_string(&log).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "vLLM ended: {}", said());
            assert!(begin.elapsed() < READY_WITHIN, "vLLM is not ready: {}", said());
            std::thread::sleep(Duration::from_millis(100));
        }
        let events = events.map(|port| format!("tcp://127.0.0.1:{port}"));
        Self { child, port, url: format!("http://127.0.0.1:{port}"), events }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ids of the tokens that follow a text, without a draw.
    pub fn completion(&self, text: &str, tokens: u32) -> Vec<i64> {
        let body = serde_json::json!({"prompt": text, "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
            "return_token_ids": true});
        let answer = http_answer(self.port, "POST", "/v1/completions", &body.to_string()).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["choices"][0]["token_ids"].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect()
    }

    /// A figure that it publishes, over all labels.
    pub fn figure(&self, name: &str) -> f64 {
        let page = http_answer(self.port, "GET", "/metrics", "").unwrap();
        let lines =
            page.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}

impl Drop for VllmServer {
    fn drop(&mut self) {
        send(self.pid(), Signal::TERM);
        let begin = Instant::now();
        while self.child.try_wait().unwrap().is_none() && begin.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(100));
        }
        // Its workers are in its group; they have ended with it, unless something is wrong.
        let _ = kill_process_group(pid_of(self.child.id()), Signal::KILL);
        let _ = self.child.wait();
    }
}
