//! Packages of npm, from the archive that a registry has to a folder in the cache.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use dwell_events::Hint;
use dwell_packages::npm::{NpmError, NpmPackage, NpmSettings};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha512};
use tar::{Builder, Header};

use crate::registry::{Page, Registry};

const USUAL: &str = "/npm/@own/tiny/-/tiny-1.0.0.tgz";
const FILES: [(&str, &str); 4] = [
    ("package/package.json", "{}"),
    ("package/dist/index.js", "export {}"),
    ("package/dist/index.js.map", "{}"),
    ("package/src/index.ts", "export {}"),
];

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in files {
        let mut header = Header::new_ustar();
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn package_of(archive: &[u8]) -> NpmPackage {
    let sha512 = BASE64_STANDARD.encode(Sha512::digest(archive));
    NpmPackage {
        name: "@own/tiny",
        version: "1.0.0",
        // Those of the product are written in its code.
        sha512: Box::leak(sha512.into_boxed_str()),
        archive_bytes: archive.len() as u64,
        folder: "dist",
    }
}

fn with_archive_at(path: &str, archive: &[u8]) -> Registry {
    Registry::serving(BTreeMap::from([(path.to_owned(), Page::of("application/octet-stream", archive))]))
}

fn fetched(package: &NpmPackage, options: &str, cache: &Path) -> Result<PathBuf, NpmError> {
    package.fetch(&NpmSettings::from_config(options), cache, &mut |_, _| {})
}

fn from(registry: &Registry) -> String {
    format!("registry=http://{}/npm", registry.address)
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_package_comes_into_the_cache_and_is_found_there() {
    let bytes = archive(&FILES);
    let (registry, package) = (with_archive_at(USUAL, &bytes), package_of(&bytes));
    let cache = tempfile::tempdir().unwrap();
    assert!(matches!(package.cached(cache.path()), Err(NpmError::NotCached { .. })));
    let mut told = Vec::new();
    let settings = NpmSettings::from_config(&from(&registry));
    let folder = package.fetch(&settings, cache.path(), &mut |done, total| told.push((done, total))).unwrap();
    assert_eq!(told.last(), Some(&(bytes.len() as u64, Some(bytes.len() as u64))));
    assert_eq!(names_in(cache.path()), ["own-tiny-1.0.0"]);
    assert_eq!(names_in(&folder), [".dwell-inventory.json", "dist", "package.json"]);
    assert_eq!(names_in(&folder.join("dist")), ["index.js"]);
    assert_eq!(package.cached(cache.path()).unwrap(), folder);
}

#[test]
fn a_damaged_copy_is_told_and_replaced() {
    let bytes = archive(&FILES);
    let (registry, package) = (with_archive_at(USUAL, &bytes), package_of(&bytes));
    let cache = tempfile::tempdir().unwrap();
    let folder = fetched(&package, &from(&registry), cache.path()).unwrap();
    let script = folder.join("dist/index.js");
    let told = |damage: &dyn Fn()| {
        damage();
        let error = package.cached(cache.path()).unwrap_err().to_string();
        fetched(&package, &from(&registry), cache.path()).unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), "export {}");
        assert_eq!(names_in(cache.path()), ["own-tiny-1.0.0"]);
        error
    };
    assert!(told(&|| fs::write(&script, "cut").unwrap()).contains("found 3 bytes in dist/index.js, and 9 are needed"));
    assert!(told(&|| fs::write(&script, "export []").unwrap()).contains("found other content in dist/index.js"));
    assert!(told(&|| fs::remove_file(&script).unwrap()).contains("found no file dist/index.js"));
    let swap = || {
        fs::remove_file(&script).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &script).unwrap();
    };
    assert!(told(&swap).contains("found no file"));
    assert!(told(&|| fs::remove_file(folder.join(".dwell-inventory.json")).unwrap()).contains("no list of its files"));
    let other = NpmPackage { sha512: "other", ..package };
    assert!(other.cached(cache.path()).unwrap_err().to_string().contains("another archive"));
}

#[test]
fn an_archive_with_another_sum_is_not_unpacked() {
    let bytes = archive(&FILES);
    let registry = with_archive_at(USUAL, &archive(&[("package/evil.js", "evil")]));
    let cache = tempfile::tempdir().unwrap();
    let error = fetched(&package_of(&bytes), &from(&registry), cache.path()).unwrap_err();
    assert!(matches!(error, NpmError::OtherContent { .. }), "{error}");
    assert!(error.hints()[0].contains("do not use this registry"));
    assert!(names_in(cache.path()).is_empty(), "{:?}", names_in(cache.path()));
}

#[test]
fn an_archive_with_a_link_is_refused_even_if_its_sum_is_right() {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, "package/dist/link", "/etc/passwd").unwrap();
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let error = fetched(&package_of(&bytes), &from(&with_archive_at(USUAL, &bytes)), cache.path()).unwrap_err();
    assert!(error.to_string().contains("no plain file"), "{error}");
    assert!(names_in(cache.path()).is_empty());
}

#[test]
fn a_registry_with_addresses_of_its_own_is_asked_for_them() {
    let bytes = archive(&FILES);
    for listed in ["https://registry.npmjs.org/files/tiny.tgz", "/npm/files/tiny.tgz"] {
        let listing = format!("{{\"versions\": {{\"1.0.0\": {{\"dist\": {{\"tarball\": \"{listed}\"}}}}}}}}");
        let registry = Registry::serving(BTreeMap::from([
            ("/npm/@own%2ftiny".to_owned(), Page::of("application/json", listing)),
            ("/npm/files/tiny.tgz".to_owned(), Page::of("application/octet-stream", bytes.clone())),
        ]));
        let cache = tempfile::tempdir().unwrap();
        fetched(&package_of(&bytes), &from(&registry), cache.path()).unwrap();
        let other = NpmPackage { version: "2.0.0", ..package_of(&bytes) };
        let error = fetched(&other, &from(&registry), cache.path()).unwrap_err();
        assert!(matches!(error, NpmError::NoVersion { .. }), "{error}");
        assert!(error.hints()[0].contains("npm config ls"));
    }
}

#[test]
fn a_token_is_sent_to_the_registry_that_it_is_for_and_not_where_that_redirects() {
    let bytes = archive(&FILES);
    let elsewhere = with_archive_at("/moved.tgz", &bytes);
    // The same machine under another name and port is another place.
    let target = format!("http://{}/moved.tgz", elsewhere.address.replace("127.0.0.1", "localhost"));
    let registry = Registry::serving(BTreeMap::from([(USUAL.to_owned(), Page::redirect(&target))]));
    let options = format!(
        "registry=http://unused.invalid/\n@own:registry=http://{0}/npm/\n//{0}/npm/:_authToken=secret\n//a.example/:_authToken=other",
        registry.address
    );
    let cache = tempfile::tempdir().unwrap();
    fetched(&package_of(&bytes), &options, cache.path()).unwrap();
    let asked = |registry: &Registry| registry.requests.lock().unwrap()[0].to_ascii_lowercase();
    assert!(asked(&registry).contains("authorization: bearer secret"), "{}", asked(&registry));
    assert!(!asked(&elsewhere).contains("authorization"), "{}", asked(&elsewhere));
}

#[test]
fn without_a_registry_the_reason_is_told() {
    let package = package_of(&archive(&FILES));
    let cache = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = fetched(&package, &format!("registry=http://127.0.0.1:{port}/"), cache.path()).unwrap_err();
    assert!(error.to_string().contains(&format!("asking http://127.0.0.1:{port}/@own/tiny/-/tiny-1.0.0.tgz failed")));
    assert!(error.hints()[0].contains("npm config ls"));
    let error = fetched(&package, "offline=true", cache.path()).unwrap_err();
    assert!(error.to_string().contains("npm is set to be offline"), "{error}");
    assert!(names_in(cache.path()).is_empty());
}
