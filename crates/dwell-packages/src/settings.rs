//! What pip is told by its configuration files and its environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dwell_files::read_text_at_most;

use crate::connections::{Authorities, Connections, DEFAULT_TIMEOUT, Proxies};

/// Where pip looks if it is told nothing.
const DEFAULT_INDEX: &str = "https://pypi.org/simple";
/// Longest configuration file that is read.
const CONFIG_MAX_BYTES: u64 = 1 << 20;

/// Where packages come from, and how connections are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipSettings {
    /// Addresses of indexes, the first to ask first.
    pub(crate) indexes: Vec<String>,
    /// Folders and pages with wheels, asked before the indexes.
    pub(crate) find_links: Vec<String>,
    pub(crate) connections: Connections,
}

impl PipSettings {
    /// As pip would find them now: configuration files, then the environment.
    pub fn of_this_machine() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let read = |path: &Path| read_text_at_most(path, CONFIG_MAX_BYTES).ok();
        Self::from_places(&variable, &read)
    }

    /// As the text of one configuration file says, and nothing else.
    pub fn from_config(text: &str) -> Self {
        let file = "/pip.conf";
        let variable = |name: &str| (name == "PIP_CONFIG_FILE").then(|| file.to_owned());
        Self::from_places(&variable, &|path| (path == Path::new(file)).then(|| text.to_owned()))
    }

    /// The same with another environment and other files.
    fn from_places(variable: &dyn Fn(&str) -> Option<String>, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let values = Values::gather(variable, read);
        let is_offline = values.one("no-index").is_some_and(is_true);
        let mut indexes = Vec::new();
        if !is_offline {
            indexes.push(values.one("index-url").unwrap_or(DEFAULT_INDEX).to_owned());
            indexes.extend(values.many("extra-index-url"));
        }
        let certificates = values.one("cert").map(str::to_owned);
        // pip's HTTP library reads these two if no option names certificates.
        let certificates = certificates.or_else(|| set(variable, "REQUESTS_CA_BUNDLE"));
        let certificates = certificates.or_else(|| set(variable, "CURL_CA_BUNDLE"));
        let timeout = values.one("timeout").or(values.one("default-timeout"));
        let timeout = timeout.and_then(|text| text.parse().ok()).filter(|secs: &f64| *secs > 0.0);
        let connections = Connections {
            trusted_hosts: values.many("trusted-host"),
            authorities: certificates.map_or(Authorities::OfSystem, |path| Authorities::File(path.into())),
            proxies: Proxies::one(values.one("proxy")),
            timeout: timeout.and_then(|secs| Duration::try_from_secs_f64(secs).ok()).unwrap_or(DEFAULT_TIMEOUT),
            ..Connections::default()
        };
        Self { indexes, find_links: values.many("find-links"), connections }
    }
}

/// An environment variable that holds something.
pub(crate) fn set(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "y" | "yes" | "t" | "true" | "on" | "1")
}

/// Options by name, the value that counts.
struct Values(BTreeMap<String, String>);

impl Values {
    /// pip's order: `[global]` of all files, `[download]` of all files, environment; the later counts.
    fn gather(variable: &dyn Fn(&str) -> Option<String>, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let files: Vec<Options> =
            config_files(variable).iter().filter_map(|path| read(path)).map(|text| options_in(&text)).collect();
        let mut values = BTreeMap::new();
        for section in ["global", "download"] {
            for ((_, name), value) in files.iter().flatten().filter(|((found, _), _)| found == section) {
                values.insert(name.clone(), value.clone());
            }
        }
        for name in [
            "index-url",
            "extra-index-url",
            "no-index",
            "find-links",
            "trusted-host",
            "cert",
            "proxy",
            "timeout",
            "default-timeout",
        ] {
            let in_environment = format!("PIP_{}", name.to_ascii_uppercase().replace('-', "_"));
            if let Some(value) = set(variable, &in_environment) {
                values.insert(name.to_owned(), value);
            }
        }
        Self(values)
    }

    fn one(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn many(&self, name: &str) -> Vec<String> {
        self.one(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }
}

/// pip's configuration files on Linux, the one that counts most last.
fn config_files(variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let named = set(variable, "PIP_CONFIG_FILE");
    if named.as_deref() == Some("/dev/null") {
        return Vec::new();
    }
    let shared = set(variable, "XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".to_owned());
    let mut files: Vec<PathBuf> =
        shared.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join("pip/pip.conf")).collect();
    files.push(PathBuf::from("/etc/pip.conf"));
    let home = set(variable, "HOME").map(PathBuf::from);
    files.extend(home.as_ref().map(|home| home.join(".pip/pip.conf")));
    let config = set(variable, "XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| home.map(|home| home.join(".config")));
    files.extend(config.map(|config| config.join("pip/pip.conf")));
    files.extend(set(variable, "VIRTUAL_ENV").map(|prefix| Path::new(&prefix).join("pip.conf")));
    files.extend(named.map(PathBuf::from));
    files
}

/// Section and name, and the value.
type Options = Vec<((String, String), String)>;

/// The options of a file in the form of Python's `configparser`: sections, `name = value`, values that go on in
/// indented lines, comments that begin a line.
fn options_in(text: &str) -> Options {
    let mut options: Options = Vec::new();
    let mut section = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = options.last_mut() {
                value.push('\n');
                value.push_str(trimmed);
            }
        } else if let Some((name, value)) = trimmed.split_once(['=', ':']) {
            let name = name.trim().to_ascii_lowercase().replace('_', "-");
            options.push(((section.clone(), name), value.trim().to_owned()));
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)], files: &[(&str, &str)]) -> PipSettings {
        let find = |pairs: &[(&str, &str)], wanted: &str| {
            pairs.iter().find(|(name, _)| *name == wanted).map(|(_, text)| (*text).to_owned())
        };
        PipSettings::from_places(&|name| find(variables, name), &|path| find(files, &path.to_string_lossy()))
    }

    #[test]
    fn a_machine_that_says_nothing_means_pypi() {
        let found = settings(&[], &[]);
        assert_eq!(found.indexes, ["https://pypi.org/simple"]);
        assert_eq!((found.find_links.len(), found.connections), (0, Connections::default()));
    }

    #[test]
    fn nearer_files_and_sections_count_more_and_the_environment_most() {
        let files = [
            ("/etc/pip.conf", "[global]\nindex-url = https://a.example/simple\ntrusted-host = a.example\n"),
            ("/home/ann/.config/pip/pip.conf", "[global]\nindex_url: https://b.example/simple\ntimeout = 60\n"),
            (
                "/venv/pip.conf",
                "# mine\n[download]\nextra-index-url =\n    https://c.example/simple\n    https://d.example\n",
            ),
        ];
        let variables = [("HOME", "/home/ann"), ("VIRTUAL_ENV", "/venv")];
        let found = settings(&variables, &files);
        assert_eq!(found.indexes, ["https://b.example/simple", "https://c.example/simple", "https://d.example"]);
        assert_eq!(
            (&found.connections.trusted_hosts[..], found.connections.timeout),
            (&["a.example".to_owned()][..], Duration::from_secs(60))
        );
        let told = [&variables[..], &[("PIP_INDEX_URL", "https://e.example"), ("PIP_CERT", "/ca.pem")]].concat();
        let found = settings(&told, &files);
        assert_eq!(found.indexes[0], "https://e.example");
        assert_eq!(found.connections.authorities, Authorities::File("/ca.pem".into()));
    }

    #[test]
    fn without_an_index_there_are_only_the_links() {
        let found = settings(&[("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", "/wheels https://w.example/list")], &[]);
        assert_eq!(
            (found.indexes.len(), found.find_links),
            (0, vec!["/wheels".into(), "https://w.example/list".into()])
        );
    }

    #[test]
    fn the_null_device_as_configuration_file_means_no_file() {
        let files = [("/etc/pip.conf", "[global]\nindex-url = https://a.example/simple\n")];
        assert_eq!(settings(&[("PIP_CONFIG_FILE", "/dev/null")], &files).indexes, [DEFAULT_INDEX]);
        let named = [("PIP_CONFIG_FILE", "/x.conf")];
        let files = [files[0], ("/x.conf", "[global]\nindex-url = https://x.example/simple\n")];
        assert_eq!(settings(&named, &files).indexes, ["https://x.example/simple"]);
    }
}
