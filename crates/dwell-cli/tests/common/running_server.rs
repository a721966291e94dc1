//! A llama-server that the tests start, without dwell.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::wait_for;

/// Ended when dropped.
pub struct RunningServer {
    child: Child,
    port: u16,
    pub url: String,
}

impl RunningServer {
    pub fn start(program: &Path, model: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "-c", "256", "-t", "1", "-np", "1", "-m"]);
        let child = command.arg(model).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Self { child, port, url: format!("http://127.0.0.1:{port}") };
        wait_for("llama-server to be ready", || http_answer(port, "GET", "/health", "").map(drop));
        server
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Text and ids of what follows a text, without a draw.
    pub fn completion(&self, text: &str, tokens: u32) -> (String, Vec<i64>) {
        let body = serde_json::json!({"prompt": text, "n_predict": tokens, "temperature": 0, "return_tokens": true,
            "ignore_eos": true});
        let answer = http_answer(self.port, "POST", "/completion", &body.to_string()).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let ids = answer["tokens"].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect();
        (answer["content"].as_str().unwrap().to_owned(), ids)
    }
}

/// The body of an answer of this machine with status 200.
pub fn http_answer(port: u16, method: &str, path: &str, body: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n"
    );
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
