//! Every engine has its page, and the table of engines is that of their profiles.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

use dwell_events::engine::{EngineKind, EngineProfile, ModelSource, Reach, RecorderAccess};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn row(engine: EngineKind) -> String {
    let (name, profile) = (engine.name(), engine.profile());
    let yes = |is_so: bool| if is_so { "yes" } else { "–" };
    let cells = [
        format!("[{name}]({name}.md)"),
        profile.about.to_owned(),
        reach(profile).to_owned(),
        model(profile).to_owned(),
        tensor_ops(profile).to_owned(),
        yes(profile.publishes_kv_events).to_owned(),
        yes(profile.reports_token_ids).to_owned(),
        yes(profile.publishes_metrics).to_owned(),
    ];
    format!("| {} |", cells.join(" | "))
}

fn reach(profile: &EngineProfile) -> &'static str {
    match profile.reach {
        Reach::Embedded => "dwell",
        Reach::Started => "dwell starts it",
        Reach::StartedOrJoined => "dwell starts or joins it",
        Reach::Joined => "dwell joins it",
    }
}

fn model(profile: &EngineProfile) -> &'static str {
    match profile.model {
        ModelSource::File => "a GGUF file",
        ModelSource::FileUnlessJoined => "a GGUF file; joined: the server's",
        ModelSource::FileOrName => "a GGUF file, or one that it has stored",
        ModelSource::Folder => "a folder",
        ModelSource::FolderOrName => "a folder, or a name on Hugging Face's hub; joined: the server's",
        ModelSource::Own => "its own",
    }
}

fn tensor_ops(profile: &EngineProfile) -> &'static str {
    match profile.recorder {
        RecorderAccess::Linked => "yes",
        RecorderAccess::Preloaded => "if dwell starts it and ggml is a shared library",
        RecorderAccess::None => "–",
    }
}

#[test]
fn the_table_of_engines_is_that_of_their_profiles() {
    let page = page("docs/engines/README.md");
    let documented: Vec<&str> = page.lines().filter(|line| line.starts_with("| [")).collect();
    let expected: Vec<String> = EngineKind::ALL.into_iter().map(row).collect();
    assert_eq!(documented, expected, "docs/engines/README.md needs these rows:\n{}", expected.join("\n"));
}

#[test]
fn every_engine_has_a_page_that_the_readme_links_and_no_page_is_left_over() {
    let readme = page("README.md");
    for name in EngineKind::NAMES {
        assert!(readme.contains(&format!("(docs/engines/{name}.md)")), "README.md does not link the page of {name}");
    }
    let files = fs::read_dir(root().join("docs/engines")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<String> = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    pages.retain(|page| page != "README");
    pages.sort();
    let mut names = EngineKind::NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(pages, names);
}
