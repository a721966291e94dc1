//! Which programs of engines are installed on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use dwell_events::engine::EngineKind;
use serde::Serialize;

use crate::Interruption;
use crate::llama_help::output_of;
use crate::program::find_program;

/// The program of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstalledProgram {
    /// The engine.
    pub engine: &'static str,
    /// Names that it is looked for by.
    pub names: &'static [&'static str],
    /// Where it was found.
    pub program: Option<PathBuf>,
    /// What it says of its version.
    pub version: Option<String>,
    /// How to install it, where it was not found.
    pub install: Option<&'static str>,
}

/// The program of every engine that dwell can start, found as `dwell run` would find it.
pub fn installed_programs() -> Vec<InstalledProgram> {
    let engines = EngineKind::ALL.into_iter().filter(|engine| !engine.profile().programs.is_empty());
    engines.map(installed_program).collect()
}

fn installed_program(engine: EngineKind) -> InstalledProgram {
    let program = find_program(engine, None).ok();
    InstalledProgram {
        engine: engine.name(),
        names: engine.profile().programs,
        version: program
            .as_deref()
            .and_then(|program| package_version(program).or_else(|| said_version(engine, program))),
        install: program.is_none().then(|| how_to_install(engine)),
        program,
    }
}

fn how_to_install(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Ollama => "curl -fsSL https://ollama.com/install.sh | sh",
        EngineKind::Vllm => "pip install vllm",
        engine if engine.profile().is_in_browser => "apt-get install chromium",
        _ => "apt-get install llama.cpp-tools, brew install llama.cpp, or build https://github.com/ggml-org/llama.cpp",
    }
}

/// The version of the Python package of this name beside a program. Starting vLLM to ask for it takes many seconds.
fn package_version(program: &Path) -> Option<String> {
    let program = program.canonicalize().ok()?;
    let prefix = format!("{}-", program.file_name()?.to_str()?);
    let libraries = fs::read_dir(program.parent()?.parent()?.join("lib")).ok()?.flatten();
    let packages = libraries.filter_map(|library| fs::read_dir(library.path().join("site-packages")).ok()).flatten();
    packages.flatten().find_map(|package| {
        let name = package.file_name().into_string().ok()?;
        name.strip_prefix(&prefix)?.strip_suffix(".dist-info").map(str::to_owned)
    })
}

fn said_version(engine: EngineKind, program: &Path) -> Option<String> {
    let (text, _) = output_of(engine, program, "--version", &Interruption::default()).ok()?;
    if engine.profile().is_in_browser { browser_version_in(&text) } else { version_in(&text) }
}

/// `Chromium 156.0.8078.79 built on Debian`, `Google Chrome 156.0.8078.79`; the launcher of Debian complains before it.
fn browser_version_in(text: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    let named = text.lines().filter(|line| line.contains("Chrom"));
    named.flat_map(str::split_whitespace).find(is_version).map(str::to_owned)
}

/// What follows the word: `version: 5820 (x)`, `ollama version is 0.9.1`, `Warning: client version is 0.9.1`.
fn version_in(text: &str) -> Option<String> {
    let after = text.lines().rev().find_map(|line| line.split_once("version").map(|(_, after)| after))?;
    let version = after.trim_start_matches([':', ' ']).trim_start_matches("is ").trim();
    (!version.is_empty()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn a_version_is_what_follows_the_word() {
        assert_eq!(version_in("version: 5820 (abc)\nbuilt with cc").as_deref(), Some("5820 (abc)"));
        let ollama = "Warning: could not connect to a running Ollama instance\nWarning: client version is 0.9.1\n";
        assert_eq!(version_in(ollama).as_deref(), Some("0.9.1"));
        assert_eq!(version_in("hello"), None);
    }

    #[test]
    fn the_version_of_a_browser_is_the_number_behind_its_name() {
        let debian = "/usr/bin/chromium: 9: [: 25276502016: unexpected operator\n\
                      Chromium 156.0.8078.79 built on Debian GNU/Linux 12 (bookworm)\n";
        assert_eq!(browser_version_in(debian).as_deref(), Some("156.0.8078.79"));
        assert_eq!(browser_version_in("Google Chrome 150.0.1.2 \n").as_deref(), Some("150.0.1.2"));
        assert_eq!(browser_version_in("/snap/bin/chromium 1.2: not found\n"), None);
    }

    #[test]
    fn the_version_of_a_python_program_is_that_of_its_package() {
        let place = tempfile::tempdir().unwrap();
        let packages = place.path().join("lib/python3.11/site-packages");
        fs::create_dir_all(packages.join("vllm-0.32.0.dist-info")).unwrap();
        fs::create_dir_all(packages.join("vllm_other-1.0.dist-info")).unwrap();
        fs::create_dir_all(place.path().join("bin")).unwrap();
        let program = place.path().join("bin/vllm");
        fs::write(&program, "").unwrap();
        assert_eq!(package_version(&program).as_deref(), Some("0.32.0"));
        assert_eq!(package_version(&place.path().join("bin/absent")), None);
    }
}
