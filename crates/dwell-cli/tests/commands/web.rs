//! `dwell web`: what it serves, what it downloads, and how it ends.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use dwell_gguf::MakeSpec;
use dwell_web::Runtime;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{Workplace, dwell, send, skip, text_of};
use crate::http::{Answer, asked};
use crate::registry::{Page, Registry};

/// A `dwell web` that runs.
struct Web {
    child: Child,
    port: u16,
    path: String,
}

impl Web {
    fn started(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let (port, token) = address.trim().strip_prefix("http://127.0.0.1:").unwrap().split_once('/').unwrap();
        Self { child, port: port.parse().unwrap(), path: format!("/{token}") }
    }

    fn get(&self, address: &str) -> Answer {
        let Self { port, path, .. } = self;
        asked(*port, &format!("GET {path}{address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"))
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command with a cache of its own and no browser.
fn web(place: &Workplace) -> Command {
    let mut command = dwell();
    command.args(["web", "--no-open"]).env("XDG_CACHE_HOME", place.path().join("cache"));
    command
}

/// A copy of a runtime as far as the cache is checked: a list of files with their sizes.
fn put_runtime_into_cache(place: &Workplace, runtime: Runtime) -> PathBuf {
    let cache = place.path().join("cache/dwell/web");
    let package = runtime.default_release().missing(&cache).remove(0);
    let folder = package.cached_path(&cache);
    fs::create_dir_all(folder.join(package.folder)).unwrap();
    let script = format!("{}/index.js", package.folder);
    fs::write(folder.join(&script), "export {}").unwrap();
    let inventory = json!({"integrity": package.sha512, "files": [{"path": script, "bytes": 9}]});
    fs::write(folder.join(".dwell-inventory.json"), inventory.to_string()).unwrap();
    folder
}

fn tiny_model(place: &Workplace) -> PathBuf {
    place.model(MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() })
}

fn refused(command: &mut Command) -> String {
    let output: Output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(output.stdout.is_empty(), "{}", text_of(&output));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_model_and_its_runtime_are_served_until_ctrl_c() {
    let place = Workplace::new();
    put_runtime_into_cache(&place, Runtime::Wllama);
    let model = tiny_model(&place);
    let mut served = Web::started(web(&place).arg("--model").arg(&model));
    let config: Value = served.get("config.json").json();
    assert_eq!(config["runtimes"], json!({"wllama": "runtimes/wllama/"}));
    assert_eq!(config["models"][0]["bytes"], fs::metadata(&model).unwrap().len());
    assert_eq!(served.get(config["models"][0]["url"].as_str().unwrap()).body, fs::read(&model).unwrap());
    assert_eq!(served.get("runtimes/wllama/esm/index.js").body, b"export {}");
    let page = served.get("");
    assert_eq!((page.status, page.headers["cross-origin-embedder-policy"].as_str()), (200, "require-corp"));
    let port = served.port.to_string();
    let error = refused(web(&place).args(["--port", &port, "--model"]).arg(&model));
    assert!(error.contains(&format!("listening on 127.0.0.1:{port} failed")) && error.contains("--port"), "{error}");
    let begin = Instant::now();
    send(served.child.id(), Signal::INT);
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn models_of_the_cache_are_offered_where_none_is_named() {
    let place = Workplace::new();
    put_runtime_into_cache(&place, Runtime::Wllama);
    let models = place.path().join("cache/dwell/models");
    fs::create_dir_all(&models).unwrap();
    fs::copy(tiny_model(&place), models.join("kept.gguf")).unwrap();
    fs::write(models.join("damaged.gguf"), "GGUF").unwrap();
    let served = Web::started(&mut web(&place));
    let config = served.get("config.json").json();
    let names: Vec<&str> = config["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["kept"]);
}

#[test]
fn a_missing_and_a_truncated_model_and_one_with_a_link_out_of_its_folder_are_refused() {
    let place = Workplace::new();
    put_runtime_into_cache(&place, Runtime::Wllama);
    let told = |model: &Path| refused(web(&place).arg("--model").arg(model));
    let missing = told(&place.path().join("none.gguf"));
    assert!(missing.contains("none.gguf") && missing.contains("hint: "), "{missing}");
    let model = tiny_model(&place);
    let bytes = fs::read(&model).unwrap();
    for length in [bytes.len() / 2, bytes.len() - 1, 40] {
        fs::write(&model, &bytes[..length]).unwrap();
        let truncated = told(&model);
        assert!(truncated.contains("copy or download the file again"), "{length}: {truncated}");
    }
    let folder = place.path().join("onnx");
    fs::create_dir(&folder).unwrap();
    symlink("/etc/hostname", folder.join("config.json")).unwrap();
    let linked = told(&folder);
    assert!(linked.contains("a link to a place outside of the folder") && linked.contains("hint: "), "{linked}");
    let empty = tempfile::tempdir().unwrap();
    let other = told(empty.path());
    assert!(other.contains("needed a GGUF file"), "{other}");
}

#[test]
fn a_runtime_that_is_missing_or_damaged_is_told_with_its_size_and_the_command() {
    let place = Workplace::new();
    let model = tiny_model(&place);
    let command = || {
        let mut command = web(&place);
        command.arg("--model").arg(&model);
        command
    };
    let hint = format!("hint: download it (5.56 MiB): dwell web --no-open --model {} --fetch", model.display());
    let missing = refused(&mut command());
    assert!(missing.contains("@wllama/wllama") && missing.contains(&hint), "{missing}");
    let folder = put_runtime_into_cache(&place, Runtime::Wllama);
    fs::write(folder.join("esm/index.js"), "cut").unwrap();
    let damaged = refused(&mut command());
    assert!(damaged.contains("3 bytes in esm/index.js, and 9 are needed") && damaged.contains(&hint), "{damaged}");
    let other = refused(command().args(["--runtime", "webllm"]));
    assert!(other.contains("needs the runtime wllama"), "{other}");
}

#[test]
fn faults_of_the_registry_are_told_and_leave_nothing_in_the_cache() {
    let place = Workplace::new();
    let cache = place.path().join("cache/dwell/web");
    let told = |registry: &str| {
        let error = refused(web(&place).arg("--fetch").env("npm_config_registry", registry));
        assert!(error.contains("hint: "), "{error}");
        assert_eq!(fs::read_dir(&cache).into_iter().flatten().count(), 0, "{error}");
        error
    };
    let archive = "/@wllama/wllama/-/wllama-3.8.1.tgz".to_owned();
    let false_one = Registry::serving(BTreeMap::from([(archive, Page::of("application/gzip", "not the archive"))]));
    let error = told(&format!("http://{}", false_one.address));
    assert!(error.contains("found SHA-512") && error.contains("do not use this registry"), "{error}");
    let empty = Registry::serving(BTreeMap::new());
    let error = told(&format!("http://{}", empty.address));
    assert!(error.contains("no such version") && error.contains("npm config ls"), "{error}");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = told(&format!("http://127.0.0.1:{gone}"));
    assert!(error.contains("asking http://127.0.0.1") && error.contains("npm config ls"), "{error}");
    let offline = refused(web(&place).arg("--fetch").env("npm_config_offline", "true"));
    assert!(offline.contains("npm is set to be offline"), "{offline}");
}

#[test]
fn a_runtime_comes_from_the_registry_that_npm_uses() {
    let place = Workplace::new();
    let model = tiny_model(&place);
    let mut command = web(&place);
    let log = place.path().join("log");
    command.args(["--fetch", "--model"]).arg(&model);
    command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    let said = fs::read_to_string(&log).unwrap();
    if address.is_empty() {
        let _ = child.wait();
        assert!(said.contains("error: asking "), "{said}");
        return skip("runtimes from the registry", "npm's registry cannot be reached");
    }
    send(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(said.contains("downloading @wllama/wllama 3.8.1 (5.56 MiB)"), "{said}");
    // Now from the cache, with no registry.
    let served = Web::started(web(&place).env("npm_config_registry", "http://127.0.0.1:1").arg("--model").arg(&model));
    let script = served.get("runtimes/wllama/esm/index.js");
    assert!(script.status == 200 && String::from_utf8_lossy(&script.body).contains("Wllama"));
    let module = served.get("runtimes/wllama/esm/wasm/wllama.wasm");
    assert_eq!((module.headers["content-type"].as_str(), &module.body[..4]), ("application/wasm", &b"\0asm"[..]));
}
