//! The server: a fixed set of addresses under a secret path.

use std::sync::Arc;

use axum::Router;
use dwell_loopback::{LoopbackServer, Site, Stopper, Token};

use crate::answer::{App, answer};
use crate::shelf::Shelf;
use crate::{RuntimeFiles, WebError, WebModel};

/// What is served, and where.
pub struct WebOptions {
    /// The port; 0 for any that is free.
    pub port: u16,
    /// The runtimes that the page can load.
    pub runtimes: Vec<RuntimeFiles>,
    /// The models that it offers, in this order.
    pub models: Vec<WebModel>,
}

/// A server that listens.
pub struct WebServer {
    server: LoopbackServer,
    app: App,
}

impl WebServer {
    /// Lists what is served and listens on the loopback address.
    pub fn bind(options: WebOptions) -> Result<Self, WebError> {
        let shelf = Shelf::new(&options.runtimes, options.models)?;
        let server = LoopbackServer::bind(options.port)?;
        let app = App { site: Site::new(server.port()), token: Token::new()?, shelf };
        Ok(Self { server, app })
    }

    /// The address of the page, with the secret and a slash at its end.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.server.port(), self.app.token.as_str())
    }

    /// What ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.server.stopper()
    }

    /// Answers until it is stopped.
    pub fn run(self) -> Result<(), WebError> {
        let router = Router::new().fallback(answer).with_state(Arc::new(self.app));
        Ok(self.server.run(router)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::fs;
    use std::path::Path;

    use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};

    use super::*;
    use crate::Runtime;
    use crate::http::{Answer, asked};

    /// A server that runs until it is dropped.
    struct Running {
        port: u16,
        token: String,
        stopper: Stopper,
    }

    impl Running {
        fn with(runtimes: Vec<RuntimeFiles>, models: Vec<WebModel>) -> Self {
            let server = WebServer::bind(WebOptions { port: 0, runtimes, models }).unwrap();
            let address = server.address();
            let (place, token) = address.strip_suffix('/').unwrap().rsplit_once('/').unwrap();
            let port = place.rsplit_once(':').unwrap().1.parse().unwrap();
            let running = Self { port, token: token.to_owned(), stopper: server.stopper() };
            std::thread::spawn(move || server.run());
            running
        }

        /// Sends a request with these headers.
        fn asked(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            asked(self.port, &format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"))
        }

        fn get(&self, address: &str, headers: &[(&str, &str)]) -> Answer {
            let host = format!("127.0.0.1:{}", self.port);
            let target = format!("/{}/{address}", self.token);
            self.asked("GET", &target, &[&[("Host", &host as &str)], headers].concat())
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.stopper.stop();
        }
    }

    fn onnx_model(place: &Path) -> WebModel {
        for (name, content) in [("config.json", "{}"), ("tokenizer.json", "{}"), ("model.onnx", "0123456789")] {
            fs::write(place.join(name), content).unwrap();
        }
        WebModel::open(place).unwrap()
    }

    #[test]
    fn the_page_its_runtimes_and_models_are_served_isolated() {
        let place = tempfile::tempdir().unwrap();
        let package = place.path().join("package");
        fs::create_dir_all(package.join("esm")).unwrap();
        fs::write(package.join("esm/index.js"), "export {}").unwrap();
        fs::write(package.join("esm/wllama.wasm"), b"\0asm").unwrap();
        fs::write(package.join(".dwell-inventory.json"), "{}").unwrap();
        let release = Runtime::Wllama.default_release();
        let runtime = RuntimeFiles { release, folders: vec![("wllama", package)] };
        let file = place.path().join("tiny model#1.gguf");
        make(&MakePlan::new(MakeSpec::default()).unwrap(), &file, Overwrite::Allow, &mut |_| {}).unwrap();
        let folder = place.path().join("onnx");
        fs::create_dir(&folder).unwrap();
        let running = Running::with(vec![runtime], vec![WebModel::open(&file).unwrap(), onnx_model(&folder)]);
        let config: serde_json::Value = serde_json::from_slice(&running.get("config.json", &[]).body).unwrap();
        let expected = serde_json::json!({
            "runtimes": {"wllama": "runtimes/wllama/"},
            "versions": {"wllama": release.version()},
            "models": [
                {"name": "tiny model#1", "runtime": "wllama", "url": "models/0/tiny%20model%231.gguf",
                 "bytes": fs::metadata(&file).unwrap().len()},
                {"name": "onnx", "runtime": "transformers_js", "url": "models/1/", "bytes": 14, "files": [
                    {"path": "config.json", "bytes": 2}, {"path": "model.onnx", "bytes": 10},
                    {"path": "tokenizer.json", "bytes": 2}]}
            ]
        });
        assert_eq!(config, expected);
        let served = [
            ("", "text/html; charset=utf-8", None),
            ("run.html", "text/html; charset=utf-8", None),
            ("hooks.js", "text/javascript; charset=utf-8", None),
            ("runtimes/wllama/esm/index.js", "text/javascript; charset=utf-8", Some(b"export {}".to_vec())),
            ("runtimes/wllama/esm/wllama.wasm", "application/wasm", Some(b"\0asm".to_vec())),
            ("models/0/tiny%20model%231.gguf", "application/octet-stream", Some(fs::read(&file).unwrap())),
            ("models/1/model.onnx", "application/octet-stream", Some(b"0123456789".to_vec())),
        ];
        for (address, media_type, content) in served {
            let answer = running.get(address, &[]);
            assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, media_type), "{address}");
            assert_eq!(answer.headers["content-length"], answer.body.len().to_string(), "{address}");
            assert!(content.is_none_or(|content| content == answer.body), "{address}");
            assert_isolated(&answer);
        }
        let address = format!("/{}", running.token);
        let host = format!("127.0.0.1:{}", running.port);
        let redirect = running.asked("GET", &address, &[("Host", &host)]);
        assert_eq!((redirect.status, redirect.headers["location"].clone()), (308, format!("{address}/")));
    }

    fn assert_isolated(answer: &Answer) {
        for (name, value) in [
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-embedder-policy", "require-corp"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(answer.headers[name], value, "{name}");
        }
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }

    #[test]
    fn parts_of_files_are_served_as_the_standard_says() {
        let place = tempfile::tempdir().unwrap();
        let running = Running::with(Vec::new(), vec![onnx_model(place.path())]);
        let part = |range: &str| running.get("models/0/model.onnx", &[("Range", range)]);
        for (range, body, told) in [
            ("bytes=2-4", &b"234"[..], "bytes 2-4/10"),
            ("bytes=7-", b"789", "bytes 7-9/10"),
            ("bytes=-2", b"89", "bytes 8-9/10"),
        ] {
            let answer = part(range);
            assert_eq!((answer.status, &answer.body[..]), (206, body), "{range}");
            assert_eq!(answer.headers["content-range"], told);
            assert_eq!(answer.headers["content-length"], body.len().to_string());
        }
        let outside = part("bytes=10-");
        assert_eq!((outside.status, outside.headers["content-range"].as_str()), (416, "bytes */10"));
        assert_eq!(part("bytes=0-1,3-4").body, b"0123456789");
        let conditional = running.get("models/0/model.onnx", &[("Range", "bytes=2-4"), ("If-Range", "\"x\"")]);
        assert_eq!((conditional.status, conditional.body.len()), (200, 10));
        let host = format!("127.0.0.1:{}", running.port);
        let target = format!("/{}/models/0/model.onnx", running.token);
        let head = running.asked("HEAD", &target, &[("Host", &host)]);
        assert_eq!((head.status, head.headers["content-length"].as_str(), head.body.len()), (200, "10", 0));
        assert_eq!(head.headers["accept-ranges"], "bytes");
    }

    /// The status of an answer, the method, what was asked for, and the headers.
    type Case<'a> = (u16, &'a str, &'a str, &'a [(&'a str, &'a str)]);

    #[test]
    fn a_page_of_another_site_and_a_client_without_the_token_read_nothing() {
        let place = tempfile::tempdir().unwrap();
        let running = Running::with(Vec::new(), vec![onnx_model(place.path())]);
        let host = format!("127.0.0.1:{}", running.port);
        let (own, known) = (("Host", &host as &str), format!("/{}/models/0/model.onnx", running.token));
        let wrong = format!("/{}/models/0/model.onnx", "0".repeat(32));
        let cases: [Case<'_>; 12] = [
            (200, "GET", &known, &[own]),
            (200, "GET", &known, &[own, ("Origin", &format!("http://{host}"))]),
            (404, "GET", &wrong, &[own]),
            (404, "GET", "/", &[own]),
            (404, "GET", "/index.html", &[own]),
            (404, "GET", "//models/0/model.onnx", &[own]),
            (403, "GET", &known, &[("Host", "rebound.example")]),
            (403, "GET", &known, &[]),
            (403, "GET", &known, &[own, ("Origin", "http://evil.example")]),
            (403, "GET", &known, &[own, ("Origin", "null")]),
            (405, "POST", &known, &[own]),
            (405, "OPTIONS", &known, &[own, ("Origin", &format!("http://{host}"))]),
        ];
        for (status, method, target, headers) in cases {
            let answer = running.asked(method, target, headers);
            assert_eq!(answer.status, status, "{method} {target} {headers:?}");
            assert_isolated(&answer);
            assert_eq!(answer.body == b"0123456789", status == 200, "{method} {target} {headers:?}");
        }
    }

    #[test]
    fn nothing_but_the_listed_files_is_read() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("secret"), "secret").unwrap();
        let folder = place.path().join("model");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(".env"), "secret").unwrap();
        let running = Running::with(Vec::new(), vec![onnx_model(&folder)]);
        fs::write(folder.join("later"), "secret").unwrap();
        for address in [
            "models/0/../../secret",
            "models/0/..%2f..%2fsecret",
            "models/0/%2e%2e/%2e%2e/secret",
            "models/0/..%5c..%5csecret",
            "models/0/%252e%252e%252fsecret",
            "models/0//etc/passwd",
            "models/0/model.onnx%00.json",
            "models/0/%ff",
            "models/0/.env",
            "models/0/later",
            "models/0/",
            "models/0",
            "models/",
            "models/1/model.onnx",
            "runtimes/wllama/esm/index.js",
            "/etc/passwd",
            "../config.json",
        ] {
            let answer = running.get(address, &[]);
            assert_eq!(answer.status, 404, "{address}");
            assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{address}");
        }
    }

    #[test]
    fn a_file_that_was_removed_is_not_found_and_the_others_are_still_served() {
        let place = tempfile::tempdir().unwrap();
        let running = Running::with(Vec::new(), vec![onnx_model(place.path())]);
        fs::remove_file(place.path().join("model.onnx")).unwrap();
        assert_eq!(running.get("models/0/model.onnx", &[]).status, 404);
        assert_eq!(running.get("models/0/config.json", &[]).body, b"{}");
    }
}
