//! `dwell view`: what it serves is what the tables hold, and whom it refuses.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use dwell_gguf::MakeSpec;
use parquet::arrow::ArrowWriter;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Access, Run, Workplace, dwell, send, text_of, wait_for, wide};
use crate::http::{Answer, asked};
use crate::report::{
    BytesByType, Interfaces, assert_fits, experiment_of, has_viewer_tools, interfaces_of, node_output, pictures,
    tile_bytes, tiny_run,
};

/// A `dwell view` that runs.
struct View {
    child: Child,
    port: u16,
    token: String,
}

impl View {
    fn of(path: &Path) -> Self {
        Self::started(dwell().arg("view").arg(path))
    }

    fn started(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let (place, token) = address.trim().split_once("/?token=").unwrap();
        let port = place.rsplit_once(':').unwrap().1.parse().unwrap();
        Self { child, port, token: token.to_owned() }
    }

    fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Sends a request as it is.
    fn raw(&self, request: &str) -> Answer {
        asked(self.port, request)
    }

    fn with_headers(&self, target: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.raw(&format!("GET {target} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"))
    }

    fn get(&self, target: &str) -> Answer {
        let (host, token) = (format!("127.0.0.1:{}", self.port), format!("Bearer {}", self.token));
        self.with_headers(target, &[("Host", &host), ("Authorization", &token)])
    }

    fn rows(&self, parameters: &str) -> (Vec<RecordBatch>, Answer) {
        let answer = self.get(&format!("/api/v1/rows?{parameters}"));
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        let batches = StreamReader::try_new(answer.body.as_slice(), None).unwrap().map(Result::unwrap).collect();
        (batches, answer)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn api() -> Interfaces {
    interfaces_of(&["page.ts", "view/api.ts"])
}

#[test]
fn what_is_served_is_what_the_run_says() {
    let place = Workplace::new();
    let (first, second) = (tiny_run(&place, "a"), tiny_run(&place, "b"));
    let view = View::of(&place.path().join("results"));
    let results = view.get("/api/v1/results").json();
    assert_fits(&results, "ResultsList", &api(), "results");
    let name = results["runs"][0]["path"].as_str().unwrap().to_owned();
    let model = name.split_once('/').unwrap().0;
    let page = view.get(&format!("/api/v1/page?run={model}/a")).json();
    assert_fits(&page, "Page", &api(), "page");
    let written = fs::read_to_string(first.dir.join("report.html")).unwrap();
    let written = written.split_once("id=\"page\">").unwrap().1.split_once("</script>").unwrap().0;
    let written: Value = serde_json::from_str(written).unwrap();
    let differing: Vec<&String> = page["runs"][0]
        .as_object()
        .unwrap()
        .keys()
        .filter(|key| page["runs"][0][*key] != written["runs"][0][*key])
        .collect();
    assert!(page == written, "the page is that of the report but for {differing:?}");
    let compared = view.get(&format!("/api/v1/page?run={model}/a&run={model}/b")).json();
    assert_eq!((compared["kind"].as_str(), compared["runs"].as_array().unwrap().len()), (Some("comparison"), 1));
    let tables = view.get(&format!("/api/v1/tables?run={model}/b")).json();
    assert_fits(&tables, "TableList", &api(), "tables");
    let trace = tables["tables"].as_array().unwrap().iter().find(|table| table["name"] == "trace").unwrap();
    assert_eq!(trace["rows"].as_u64().unwrap() as usize, second.accesses().len());
}

#[test]
fn a_window_holds_the_rows_of_its_time_and_they_can_be_had_one_by_one() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let view = View::of(&run.dir);
    assert_eq!(view.get("/api/v1/results").json()["single_run"], true);
    let accesses = run.accesses();
    let times: Vec<u64> = accesses.iter().map(|access| access.timestamp_ns).collect();
    let (first, last) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
    // The whole, the middle, single moments, and what lies outside.
    let cuts = [
        (first, last + 1),
        (first + (last - first) / 3, last - (last - first) / 3),
        (times[7], times[7] + 1),
        (0, first),
    ];
    for (begin, end) in cuts {
        let window = view.get(&format!("/api/v1/window?run=.&begin_ns={begin}&end_ns={end}")).json();
        assert_fits(&window, "WindowAnswer", &api(), "window");
        let within: Vec<&Access> =
            accesses.iter().filter(|access| (begin..end).contains(&access.timestamp_ns)).collect();
        assert_eq!(window["overview"]["rows"].as_u64().unwrap() as usize, within.len());
        assert_eq!(tile_bytes(&window["overview"]), access_bytes(&within));
        let (batches, answer) = view.rows(&format!("run=.&begin_ns={begin}&end_ns={end}&limit=100000"));
        assert_eq!(answer.headers["dwell-rows"], within.len().to_string());
        assert_eq!(answer.headers["dwell-more"], "false");
        let found: Vec<(u64, u64, u64)> = batches.iter().flat_map(rows_of).collect();
        let expected: Vec<(u64, u64, u64)> =
            within.iter().map(|access| (access.timestamp_ns, access.address, access.size_bytes)).collect();
        assert_eq!(found, expected);
    }
    let (batches, answer) = view.rows("run=.&limit=5&columns=timestamp_ns,symbol");
    assert_eq!(
        (batches[0].num_rows(), batches[0].num_columns(), answer.headers["dwell-more"].as_str()),
        (5, 2, "true")
    );
}

fn rows_of(batch: &RecordBatch) -> Vec<(u64, u64, u64)> {
    let row = |row| (wide(batch, "timestamp_ns", row), wide(batch, "address", row), wide(batch, "size_bytes", row));
    (0..batch.num_rows()).map(row).collect()
}

fn access_bytes(accesses: &[&Access]) -> BytesByType {
    let mut found = BytesByType::new();
    for access in accesses {
        let sum = found.entry(access.region_type.clone()).or_default();
        *(if access.is_store { &mut sum.1 } else { &mut sum.0 }) += access.size_bytes;
    }
    found
}

/// The status of an answer, what was asked for, and the headers.
type Case<'a> = (u16, &'a str, Vec<(&'a str, &'a str)>);

#[test]
fn who_does_not_know_the_token_or_comes_from_elsewhere_is_refused() {
    let place = Workplace::new();
    let view = View::of(place.path());
    let (host, token) = (format!("127.0.0.1:{}", view.port), format!("Bearer {}", view.token));
    let localhost = format!("localhost:{}", view.port);
    let cookie = format!("other=1; dwell-{}={}", view.port, view.token);
    let results = "/api/v1/results";
    let cases: [Case<'_>; 13] = [
        (200, results, vec![("Host", &host), ("Authorization", &token)]),
        (200, results, vec![("Host", &localhost), ("Cookie", &cookie)]),
        (401, results, vec![("Host", &host)]),
        (401, "/", vec![("Host", &host)]),
        (401, "/?token=0123456789abcdef0123456789abcdef", vec![("Host", &host)]),
        (401, results, vec![("Host", &host), ("Authorization", "Bearer wrong")]),
        (401, results, vec![("Host", &host), ("Cookie", "dwell=1")]),
        (403, results, vec![("Host", "evil.example"), ("Authorization", &token)]),
        (403, results, vec![("Authorization", &token)]),
        (403, results, vec![("Host", &host), ("Origin", "http://evil.example"), ("Authorization", &token)]),
        (403, results, vec![("Host", &host), ("Origin", "null"), ("Authorization", &token)]),
        (413, results, vec![("Host", &host), ("Authorization", &token), ("Content-Length", "5")]),
        (404, "/etc/passwd", vec![("Host", &host), ("Authorization", &token)]),
    ];
    for (status, target, headers) in cases {
        assert_eq!(view.with_headers(target, &headers).status, status, "{target} {headers:?}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let request = format!(
            "{method} {results} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {token}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(view.raw(&request).status, 405, "{method}");
    }
    let opened = view.with_headers("/", &[("Host", &host)]);
    assert!(opened.headers["content-type"].starts_with("text/plain"), "a person reads it: {:?}", opened.headers);
    let long = format!("{results}?{}", "x".repeat(20_000));
    assert_eq!(view.with_headers(&long, &[("Host", &host), ("Authorization", &token)]).status, 413);
    let welcome = view.with_headers(&format!("/?token={}", view.token), &[("Host", &host)]);
    assert_eq!((welcome.status, welcome.headers["location"].as_str()), (303, "/"));
    let cookie = &welcome.headers["set-cookie"];
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let page = view.with_headers("/", &[("Host", &host), ("Cookie", cookie)]);
    let policy = &page.headers["content-security-policy"];
    assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn nothing_outside_the_folder_is_read_and_nothing_in_it_is_written() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let model = run.dir.parent().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(&run.dir, elsewhere.path().join("secret")).unwrap();
    symlink(elsewhere.path().join("secret"), model.join("linked")).unwrap();
    let view = View::of(&place.path().join("results"));
    let name = model.file_name().unwrap().to_str().unwrap();
    let outside = elsewhere.path().join("secret").display().to_string();
    for path in
        [&format!("{name}/linked"), "../..", "..%2f..%2fetc", "/etc", &outside, "", "%00", &format!("{name}/none")]
    {
        for kind in ["page", "tables", "rows", "window"] {
            let answer = view.get(&format!("/api/v1/{kind}?run={path}&begin_ns=0&end_ns=1"));
            assert!(matches!(answer.status, 400 | 404 | 422), "{kind} {path}: {}", answer.status);
            assert!(!String::from_utf8_lossy(&answer.body).contains("\"runs\""), "{kind} {path}");
        }
    }
    fs::remove_file(model.join("linked")).unwrap();
    fs::rename(elsewhere.path().join("secret"), &run.dir).unwrap();
    let before = files_below(place.path());
    for target in
        ["results", &format!("page?run={name}/a"), &format!("rows?run={name}/a"), &format!("tables?run={name}/a")]
    {
        assert_eq!(view.get(&format!("/api/v1/{target}")).status, 200, "{target}");
    }
    assert_eq!(files_below(place.path()), before);
}

#[test]
fn a_small_file_of_long_texts_is_answered_in_parts() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(64 << 10).as_str(); 1000]));
    let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
    let file = fs::File::create(run.dir.join("tokens.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let view = View::of(&run.dir);
    let (batches, answer) = view.rows("run=.&table=tokens&limit=100000");
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(
        (answer.headers["dwell-rows"].as_str(), answer.headers["dwell-more"].as_str()),
        (&*rows.to_string(), "true")
    );
    assert!((200..256).contains(&rows) && answer.body.len() <= 17 << 20, "{rows} rows, {} bytes", answer.body.len());
}

/// Every file with its size and the time of its last change.
fn files_below(dir: &Path) -> BTreeMap<PathBuf, (u64, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let about = entry.metadata().unwrap();
        if about.is_dir() {
            found.extend(files_below(&entry.path()));
        }
        found.insert(entry.path(), (about.len(), about.modified().unwrap()));
    }
    found
}

#[test]
fn a_run_with_files_that_are_not_its_own_is_listed_by_its_name_alone() {
    let place = Workplace::new();
    let (linked, piped) = (tiny_run(&place, "linked"), tiny_run(&place, "piped"));
    let elsewhere = tempfile::tempdir().unwrap();
    let metadata = fs::read_to_string(linked.dir.join("metadata.json")).unwrap();
    fs::write(elsewhere.path().join("m.json"), metadata.replace("llama_cpp", "secret_engine")).unwrap();
    fs::remove_file(linked.dir.join("metadata.json")).unwrap();
    symlink(elsewhere.path().join("m.json"), linked.dir.join("metadata.json")).unwrap();
    let state = piped.dir.join("raw/STATE");
    fs::remove_file(&state).unwrap();
    assert!(Command::new("mkfifo").arg(&state).status().unwrap().success());
    let view = View::of(&place.path().join("results"));
    let answer = view.get("/api/v1/results");
    assert!(!String::from_utf8_lossy(&answer.body).contains("secret_engine"));
    let results = answer.json();
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{results}");
    assert!(runs.iter().all(|run| run["state"] == "damaged" && run["problem"].is_string()), "{results}");
    let listed = dwell().args(["ls", "--json"]).arg(place.path().join("results")).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let piped = listed["runs"].as_array().unwrap().iter().find(|run| run["run_id"] == "piped").unwrap();
    assert_eq!(piped["state"], "damaged", "a pipe is not waited for: {piped}");
}

#[test]
fn a_broken_run_is_an_error_of_its_own_and_the_others_are_served() {
    let place = Workplace::new();
    let (run, broken) = (tiny_run(&place, "a"), tiny_run(&place, "b"));
    let trace = broken.dir.join("trace.parquet");
    let bytes = fs::read(&trace).unwrap();
    let view = View::of(&place.path().join("results"));
    let name = run.dir.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let status = |what: &str| view.get(&format!("/api/v1/{what}")).status;
    for damaged in [&bytes[..bytes.len() / 2], &bytes[..10], b"PAR1 is not enough", &[0; 4096]] {
        fs::write(&trace, damaged).unwrap();
        assert_eq!(status(&format!("rows?run={name}/b")), 422);
        assert_eq!(status(&format!("window?run={name}/b&begin_ns=0&end_ns=9")), 422);
    }
    fs::write(broken.dir.join("overview.json"), "{\"format\": 1, \"rows\": 1e999}").unwrap();
    assert_eq!(status(&format!("page?run={name}/b")), 422);
    fs::write(broken.dir.join("metadata.json"), "<script>alert(1)</script>").unwrap();
    assert_eq!((status(&format!("page?run={name}/b")), status("results")), (422, 200));
    for bad in
        ["rows?run=x&limit=-1", "rows?run=x&limit=1e9", "window?run=x", "page", "page?rnu=x", "rows?run=x&table=y"]
    {
        assert!(matches!(status(bad), 400 | 404), "{bad}");
    }
    assert_eq!(status(&format!("rows?run={name}/a&columns=nothing")), 400);
    for kind in ["rows", "window"] {
        assert_eq!(status(&format!("{kind}?run={name}/a&begin_ns=5&end_ns=4")), 400, "{kind}");
        assert_eq!(status(&format!("{kind}?run={name}/a&begin_ns=5&end_ns=5")), 200, "{kind}");
    }
    assert_eq!(status(&format!("rows?run={name}/a&table=loss&begin_ns=0")), 400, "losses have no time");
    assert_eq!(status(&format!("rows?run={name}/a&table=loss")), 200);
    assert_eq!(status(&format!("page?run={name}/a")), 200);
}

#[test]
fn many_clients_and_ones_that_never_read_do_not_stop_it() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let view = View::of(&run.dir);
    let request = |target: &str| {
        format!(
            "GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
            view.port, view.token
        )
    };
    let stalled: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", view.port)).unwrap();
            // Answers pile up, for nobody reads them.
            (0..20).for_each(|_| stream.write_all(request("/api/v1/page?run=.").as_bytes()).unwrap());
            stream
        })
        .collect();
    let silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(("127.0.0.1", view.port)).unwrap()).collect();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..50).map(|_| scope.spawn(|| view.get("/api/v1/page?run=.").json())).collect();
        let pages: Vec<Value> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert!(pages.iter().all(|page| *page == pages[0]));
    });
    drop((stalled, silent));
    assert_eq!(view.get("/api/v1/results").status, 200);
}

#[test]
fn a_page_that_did_not_change_is_not_sent_again() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let view = View::of(&run.dir);
    let first = view.get("/api/v1/page?run=.");
    let (host, token) = (format!("127.0.0.1:{}", view.port), format!("Bearer {}", view.token));
    let headers =
        [("Host", host.as_str()), ("Authorization", token.as_str()), ("If-None-Match", first.headers["etag"].as_str())];
    let again = view.with_headers("/api/v1/page?run=.", &headers);
    assert_eq!((again.status, again.body.len()), (304, 0));
    let metrics = run.dir.join("metrics.csv");
    fs::write(&metrics, fs::read_to_string(&metrics).unwrap() + "\n").unwrap();
    assert_eq!(view.with_headers("/api/v1/page?run=.", &headers).status, 200);
}

/// A run that goes on until it is told to end.
fn endless_run(place: &Workplace) -> (Child, PathBuf) {
    // Large enough to take some milliseconds a token: a run of millions of rows would be built for longer than it is watched.
    let model = place.model(MakeSpec { layers: 2, embedding: 512, feed_forward: 2048, ..MakeSpec::default() });
    let arguments = ["--prompt", "abc", "--max-tokens", "100000", "--context-length", "100100", "--ignore-end"];
    let child = place.run_command(&model, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (child, place.opened_run(&model).dir)
}

#[test]
fn a_run_is_followed_while_it_is_recorded() {
    let place = Workplace::new();
    let (mut child, dir) = endless_run(&place);
    let name = format!("{}/run", dir.parent().unwrap().file_name().unwrap().to_str().unwrap());
    wait_for("the run to be listed", || (dir.join("raw/tensor_ops.arrows").is_file()).then_some(()));
    let view = View::of(&place.path().join("results"));
    let target = format!("/api/v1/page?run={name}");
    let rows = || {
        let page = view.get(&target);
        let json: Value = serde_json::from_slice(&page.body).unwrap();
        let rows = json["runs"][0]["overview"]["rows"].as_u64().unwrap_or(0);
        (rows, json["runs"][0]["state"].clone(), page.headers.get("dwell-refresh").cloned())
    };
    wait_for("something to be recorded", || (rows().0 > 0).then_some(()));
    let (early, state, refresh) = rows();
    assert_eq!((state, refresh.is_some()), (Value::from("recording"), true));
    wait_for("more to be recorded", || (rows().0 > early).then_some(()));
    let listed = view.get("/api/v1/results").json();
    assert_eq!(listed["runs"][0]["state"], "recording");
    assert!(!dir.join("trace.parquet").exists(), "the run itself is left alone");
    send(child.id(), Signal::INT);
    assert!(child.wait().unwrap().code().is_some());
    let (last, state, refresh) = rows();
    assert_eq!((state, refresh), (Value::from("partial"), None), "it was interrupted");
    let run = Run { dir };
    assert_eq!(last as usize, run.accesses().len());
}

#[test]
fn a_run_can_be_asked_for_from_its_first_instant_on() {
    let place = Workplace::new();
    fs::create_dir_all(place.path().join("results")).unwrap();
    let view = View::of(&place.path().join("results"));
    let (mut child, dir) = endless_run(&place);
    let name = format!("{}/run", dir.parent().unwrap().file_name().unwrap().to_str().unwrap());
    let page = wait_for("a page", || {
        let answer = view.get(&format!("/api/v1/page?run={name}"));
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        // There is no folder yet, or nothing in it for longer than a request may wait.
        assert!(matches!(answer.status, 200 | 404 | 503), "{}: {body}", answer.status);
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(page["runs"][0]["state"], "recording");
    send(child.id(), Signal::INT);
    let _ = child.wait();
}

#[test]
fn ending_the_view_leaves_nothing_behind() {
    let place = Workplace::new();
    let scratch = tempfile::tempdir().unwrap();
    let (mut child, dir) = endless_run(&place);
    wait_for("the run to be recorded", || (dir.join("raw/tensor_ops.arrows").is_file()).then_some(()));
    let mut view = View::started(dwell().arg("view").arg(&dir).env("TMPDIR", scratch.path()));
    let holds = || fs::read_dir(scratch.path()).unwrap().count();
    let modes = || -> Vec<u32> {
        let entries = fs::read_dir(scratch.path()).unwrap().flatten();
        entries.map(|entry| entry.metadata().unwrap().permissions().mode() & 0o777).collect()
    };
    wait_for("a snapshot", || (view.get("/api/v1/page?run=.").status == 200).then_some(()));
    assert!(holds() > 0);
    assert!(modes().iter().all(|&mode| mode == 0o700), "it holds prompts: {:?}", modes());
    send(view.child.id(), Signal::INT);
    assert_eq!(view.child.wait().unwrap().code(), Some(0));
    assert_eq!(holds(), 0);
    send(child.id(), Signal::INT);
    let _ = child.wait();
}

#[test]
fn a_folder_or_port_that_cannot_be_had_is_an_error_with_a_hint() {
    let place = Workplace::new();
    let output = dwell().arg("view").arg(place.path().join("nothing")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("hint:"), "{}", text_of(&output));
    let view = View::of(place.path());
    let output = dwell().arg("view").arg(place.path()).args(["--port", &view.port.to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("--port"), "{}", text_of(&output));
}

#[test]
fn a_browser_lists_opens_zooms_compares_and_follows() {
    if !has_viewer_tools("view in a browser") {
        return;
    }
    let place = Workplace::new();
    let results = place.path().join("results");
    let hostile = tiny_run(&place, "<img src=x onerror=alert(1)>");
    let _second = tiny_run(&place, "b");
    assert!(hostile.dir.is_dir());
    experiment_of(&place, &results);
    let (mut child, dir) = endless_run(&place);
    wait_for("the run to be recorded", || dir.join("raw/tensor_ops.arrows").is_file().then_some(()));
    let view = View::of(&results);
    let (address, pictures) = (view.address(), pictures(&place));
    let browse = |option: &[&Path]| {
        node_output(&[&[Path::new("test/view_browser.mjs"), address.as_ref(), &pictures], option].concat())
    };
    browse(&[Path::new("--live")]);
    // The rest is looked at when nothing keeps the machine busy.
    send(child.id(), Signal::INT);
    let _ = child.wait();
    let said = browse(&[]);
    let times: Value = serde_json::from_slice(&said).unwrap();
    assert!(times["zooms"].as_array().is_some_and(|zooms| zooms.len() > 1), "{times}");
}

#[test]
fn a_folder_without_runs_is_served_with_a_warning() {
    let place = Workplace::new();
    let mut command = dwell();
    let mut child = command.arg("view").arg(place.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.starts_with("warning: there is no run in this folder yet"), "{said}");
}
