//! The house is built as ARCHITECTURE.md draws it: who depends on whom, who is pure, who may use `unsafe`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::generated::{check_generated, generated_part, markdown_table, without_links};
use serde_json::Value;

const PAGE: &str = "ARCHITECTURE.md";

/// Libraries whose work is to open files, map memory, start threads or talk to the system. `libc` is not one of them:
/// hash seeds (getrandom) and the time zone of Arrow's texts (iana-time-zone) declare functions of it everywhere.
const NOT_PURE: [&str; 20] = [
    "arrow-ipc",
    "crossbeam-channel",
    "crossbeam-deque",
    "indicatif",
    "libloading",
    "memmap2",
    "mio",
    "nix",
    "nvml-wrapper",
    "parquet",
    "procfs",
    "rayon",
    "rayon-core",
    "rustix",
    "signal-hook",
    "sysinfo",
    "tempfile",
    "tokio",
    "ureq",
    "walkdir",
];
/// What pure code does not name: files, threads, the network, processes, the environment, clocks.
const NOT_PURE_WORDS: [&str; 9] =
    ["std::fs", "std::thread", "std::net", "std::process", "std::env", "std::os", "Instant", "SystemTime", "File::"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The packages of the workspace and what they are built from, without what only tests and build scripts need.
struct Packages {
    /// Names of ours.
    members: BTreeSet<String>,
    /// Dependencies of each package by its id.
    dependencies: BTreeMap<String, Vec<String>>,
    names: BTreeMap<String, String>,
    /// One sentence on each of ours.
    descriptions: BTreeMap<String, String>,
}

impl Packages {
    /// As Cargo sees them for this machine, from what was downloaded to build this test.
    fn read() -> Self {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform"]);
        let output = cargo.arg(host_triple()).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let names: BTreeMap<String, String> =
            packages.iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let members = texts(&metadata["workspace_members"]).map(|id| names[&id].clone()).collect();
        let description = |package: &Value| {
            let description = package["description"].as_str().unwrap_or_default();
            (text(&package["name"]), description.to_owned())
        };
        let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
        let dependencies = nodes.iter().map(|node| (text(&node["id"]), normal_dependencies(node))).collect();
        Self { members, dependencies, names, descriptions: packages.iter().map(description).collect() }
    }

    fn id(&self, name: &str) -> &str {
        self.names.iter().find(|(_, found)| *found == name).unwrap_or_else(|| panic!("there is no {name}")).0
    }

    fn name(&self, id: &str) -> &str {
        &self.names[id]
    }

    /// Names of what a package depends on itself.
    fn direct(&self, name: &str) -> BTreeSet<&str> {
        self.dependencies[self.id(name)].iter().map(|id| self.name(id)).collect()
    }

    /// What a package depends on of ours.
    fn direct_ours(&self, name: &str) -> Vec<&str> {
        self.direct(name).into_iter().filter(|name| self.members.contains(*name)).collect()
    }

    /// Names of what a package is built from, itself included.
    fn reached(&self, name: &str) -> BTreeSet<&str> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![self.id(name)]);
        while let Some(id) = open.pop() {
            if reached.insert(id) {
                open.extend(self.dependencies[id].iter().map(String::as_str));
            }
        }
        reached.into_iter().map(|id| self.name(id)).collect()
    }
}

fn normal_dependencies(node: &Value) -> Vec<String> {
    let is_normal = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().unwrap();
        kinds.iter().any(|kind| kind["kind"].is_null())
    };
    node["deps"].as_array().unwrap().iter().filter(is_normal).map(|dependency| text(&dependency["pkg"])).collect()
}

fn host_triple() -> String {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn texts(value: &Value) -> impl Iterator<Item = String> {
    value.as_array().unwrap().iter().map(text)
}

/// A crate of ours by its short name.
fn crate_named(short: &str) -> String {
    format!("dwell-{short}")
}

/// Name and duty of each crate in a table.
fn duties(table: &str) -> Vec<(String, String)> {
    let duty = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        (without_links(&cells.next().unwrap()), cells.next().unwrap())
    };
    table.lines().skip(2).map(duty).collect()
}

#[test]
fn the_documented_table_of_crates_says_what_cargo_says() {
    let packages = Packages::read();
    // The order and the duty of a crate are the page's; a new one comes last, with its description.
    let mut order = duties(&generated_part(PAGE, "crates"));
    order.retain(|(name, _)| packages.members.contains(name));
    for name in &packages.members {
        if !order.iter().any(|(found, _)| found == name) {
            order.push((name.clone(), packages.descriptions[name].clone()));
        }
    }
    let row = |(name, duty): (String, String)| {
        let ours: Vec<&str> =
            packages.direct_ours(&name).iter().map(|name| name.strip_prefix("dwell-").unwrap()).collect();
        let depends = if ours.is_empty() { "–".to_owned() } else { ours.join(", ") };
        let main = if root().join(format!("crates/{name}/src/lib.rs")).exists() { "lib" } else { "main" };
        [format!("[{name}](crates/{name}/src/{main}.rs)"), duty, depends]
    };
    let table = markdown_table(["crate", "duty", "depends on (of ours)"], order.into_iter().map(row));
    check_generated(PAGE, "crates", &table);
}

/// The crates that ARCHITECTURE.md calls pure: `**a, b and c are pure.**`.
fn pure_crates() -> Vec<String> {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (before, _) = page.split_once(" are pure.**").expect("an invariant says which crates are pure");
    let (_, names) = before.rsplit_once("**").unwrap();
    names.replace(" and ", ", ").split(", ").map(|name| crate_named(name.trim())).collect()
}

#[test]
fn pure_crates_depend_on_nothing_that_opens_files_maps_memory_or_starts_threads() {
    let packages = Packages::read();
    let pure = pure_crates();
    assert!(pure.len() >= 5, "{pure:?}");
    for name in &pure {
        let impure: Vec<&str> = packages.reached(name).into_iter().filter(|name| NOT_PURE.contains(name)).collect();
        assert!(impure.is_empty(), "{name} is pure, and is built from {impure:?}");
        assert!(!packages.direct(name).contains("libc"), "{name} is pure, and depends on libc");
        let is_other = |other: &&str| !pure.iter().any(|name| name == other);
        let others: Vec<&str> = packages.direct_ours(name).into_iter().filter(is_other).collect();
        assert!(others.is_empty(), "{name} is pure, and depends on {others:?}, which are not");
    }
}

/// Every source file of a crate.
fn sources(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates").join(name).join("src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

#[test]
fn pure_crates_name_no_file_no_thread_and_no_clock() {
    let mut found = Vec::new();
    for path in pure_crates().iter().flat_map(|name| sources(name)) {
        let text = fs::read_to_string(&path).unwrap();
        // Tests, which stand at the foot of a file, may do what they like; comments may speak of it.
        let code = text.split("#[cfg(test)]").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let impure = lines.filter(|line| NOT_PURE_WORDS.iter().any(|word| line.contains(word)));
        found.extend(impure.map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(found.is_empty(), "pure crates do this:\n{}", found.join("\n"));
}

#[test]
fn reading_results_pulls_in_no_runtime_for_sockets_and_the_wheel_no_parquet() {
    let packages = Packages::read();
    for (name, unwanted) in [("dwell-report", &["tokio"][..]), ("dwell-python", &["tokio", "parquet"])] {
        let reached = packages.reached(name);
        let found: Vec<&&str> = unwanted.iter().filter(|name| reached.contains(*name)).collect();
        assert!(found.is_empty(), "{name} is built from {found:?}");
    }
}

#[test]
fn unsafe_is_forbidden_in_every_crate_but_those_listed() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (_, section) = page.split_once("`unsafe` lives in").unwrap();
    let listed_name = |line: &str| Some(crate_named(line.strip_prefix("| dwell-")?.split_once(" |")?.0));
    let listed: BTreeSet<String> = section.lines().filter_map(listed_name).collect();
    let forbids = |name: &str| {
        let mains = ["lib.rs", "main.rs"].map(|file| root().join(format!("crates/{name}/src/{file}")));
        let mut texts = mains.iter().filter_map(|path| fs::read_to_string(path).ok());
        texts.all(|text| text.contains("#![forbid(unsafe_code)]"))
    };
    let allowing: BTreeSet<String> = Packages::read().members.into_iter().filter(|name| !forbids(name)).collect();
    assert_eq!(allowing, listed, "left: crates that do not forbid it; right: those that {PAGE} lists");
}
