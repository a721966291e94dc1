//! What npm is told by its configuration files and its environment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use dwell_files::read_text_at_most;

use super::rc_file::options_in;
use crate::PackageError;
use crate::address::Address;
use crate::connections::{Authorities, Connections, Credential, DEFAULT_TIMEOUT, Proxies};
use crate::settings::set;

/// Where npm looks if it is told nothing.
pub(super) const DEFAULT_REGISTRY: &str = "https://registry.npmjs.org/";
/// Longest configuration file that is read.
const CONFIG_MAX_BYTES: u64 = 1 << 20;

/// Where packages come from, and how connections are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpmSettings {
    registry: String,
    /// Registries of scopes: `@scope`.
    scopes: BTreeMap<String, String>,
    /// Whether npm is told to ask nobody.
    pub(super) is_offline: bool,
    pub(super) connections: Connections,
}

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;
type Files<'a> = &'a dyn Fn(&Path) -> Option<String>;

impl NpmSettings {
    /// As npm would find them now: its files for the machine, the user and the project, then the environment.
    pub fn of_this_machine() -> Self {
        let variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let here = std::env::current_dir().unwrap_or_default();
        Self::from_places(&variables, &here, &|path| read_text_at_most(path, CONFIG_MAX_BYTES).ok(), &|path| {
            path.exists()
        })
    }

    /// As the text of one configuration file says, and nothing else.
    pub fn from_config(text: &str) -> Self {
        Self::from_options(options_in(text, &|_| None).into_iter().collect())
    }

    fn from_places(
        variables: &[(String, String)],
        here: &Path,
        read: Files<'_>,
        exists: &dyn Fn(&Path) -> bool,
    ) -> Self {
        let variable = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let in_environment = of_environment(variables);
        let files = config_files(&variable, &in_environment, here, exists);
        let texts = files.iter().filter_map(|path| read(path));
        let mut options: BTreeMap<String, String> = texts.flat_map(|text| options_in(&text, &variable)).collect();
        options.extend(in_environment);
        Self::from_options(options)
    }

    fn from_options(options: BTreeMap<String, String>) -> Self {
        let one = |name: &str| {
            let value = options.get(name).map(|value| value.trim());
            value.filter(|value| !matches!(*value, "" | "null" | "undefined")).map(str::to_owned)
        };
        let is = |name: &str, wanted: &str| one(name).is_some_and(|value| value == wanted);
        let scopes = options.iter().filter_map(|(key, value)| {
            let scope = key.strip_suffix(":registry").filter(|scope| scope.starts_with('@'))?;
            Some((scope.to_owned(), value.clone()))
        });
        let authorities = one("cafile").map(|path| Authorities::File(path.into()));
        let timeout = one("fetch-timeout").and_then(|text| text.parse().ok()).filter(|millis: &u64| *millis > 0);
        let proxy = one("proxy").filter(|proxy| proxy != "false");
        let connections = Connections {
            trusts_everyone: is("strict-ssl", "false"),
            authorities: authorities.or(one("ca").map(Authorities::Text)).unwrap_or_default(),
            proxies: Proxies {
                https: one("https-proxy").or_else(|| proxy.clone()),
                http: proxy,
                exceptions: one("noproxy").map(|list| separated(&list)).unwrap_or_default(),
            },
            timeout: timeout.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
            credentials: credentials_of(&options),
            ..Connections::default()
        };
        Self {
            registry: one("registry").unwrap_or_else(|| DEFAULT_REGISTRY.to_owned()),
            scopes: scopes.collect(),
            is_offline: is("offline", "true"),
            connections,
        }
    }

    /// The registry that has a package, with a slash at its end.
    pub(super) fn registry_of(&self, package: &str) -> Result<Address, PackageError> {
        let scope = package.split_once('/').map_or("", |(scope, _)| scope);
        let registry = self.scopes.get(scope).unwrap_or(&self.registry);
        Address::parse(&format!("{}/", registry.trim_end_matches('/')))
    }
}

fn separated(list: &str) -> Vec<String> {
    list.split([',', ' ', '\n']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// `npm_config_KEY`, in upper or lower case; npm writes `-` in keys as `_` there.
fn of_environment(variables: &[(String, String)]) -> BTreeMap<String, String> {
    let option = |(name, value): &(String, String)| {
        let prefix = name.get(.."npm_config_".len())?;
        let key = &name[prefix.len()..];
        let is_option = prefix.eq_ignore_ascii_case("npm_config_") && !key.is_empty() && !value.is_empty();
        let is_place = key.starts_with("//");
        let key = if is_place { key.to_owned() } else { key.to_ascii_lowercase().replace('_', "-") };
        is_option.then(|| (key, value.clone()))
    };
    variables.iter().filter_map(option).collect()
}

/// npm's configuration files, the one that counts most last: of the machine, of the user, of the project.
fn config_files(
    variable: Variables<'_>,
    in_environment: &BTreeMap<String, String>,
    here: &Path,
    exists: &dyn Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let named = |key: &str| in_environment.get(key).map(PathBuf::from);
    let prefix = named("prefix").or_else(|| set(variable, "PREFIX").map(PathBuf::from));
    let prefix = prefix.or_else(|| prefix_of_node(variable, exists));
    let of_prefix = || prefix.map(|prefix| prefix.join("etc/npmrc"));
    let usual = || ["/usr/local/etc/npmrc", "/usr/etc/npmrc"].map(PathBuf::from).into_iter().find(|path| exists(path));
    let of_machine = named("globalconfig").or_else(of_prefix).or_else(usual);
    let of_user = named("userconfig").or_else(|| set(variable, "HOME").map(|home| Path::new(&home).join(".npmrc")));
    let is_project = |folder: &&Path| exists(&folder.join("package.json")) || exists(&folder.join("node_modules"));
    let project = here.ancestors().find(is_project).unwrap_or(here);
    of_machine.into_iter().chain(of_user).chain([project.join(".npmrc")]).collect()
}

/// The folder above the one with `node`, which npm takes for the prefix.
fn prefix_of_node(variable: Variables<'_>, exists: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let path = variable("PATH")?;
    let folder = std::env::split_paths(&path).find(|folder| exists(&folder.join("node")))?;
    folder.parent().map(Path::to_owned)
}

/// From lines of the form `//host/path/:key = value`.
fn credentials_of(options: &BTreeMap<String, String>) -> Vec<Credential> {
    let places = options.keys().filter(|key| key.starts_with("//")).filter_map(|key| Some(key.rsplit_once(':')?.0));
    let places: BTreeSet<&str> = places.collect();
    let credential = |place: &str| {
        let said = |key: &str| options.get(&format!("{place}:{key}")).cloned();
        let basic = || said("_auth").or_else(|| user_and_password(&said("username")?, &said("_password")?));
        let token = said("_authToken").map(|token| format!("Bearer {token}"));
        let authorization = token.or_else(|| basic().map(|pair| format!("Basic {pair}")))?;
        Some(Credential { place: normal(place), authorization })
    };
    places.into_iter().filter_map(credential).collect()
}

/// A place with its host in lower case.
fn normal(place: &str) -> String {
    let server = place.trim_start_matches('/');
    let (server, path) = server.split_at(server.find('/').unwrap_or(server.len()));
    format!("//{}{path}", server.to_ascii_lowercase())
}

/// npm keeps the password in base64; the header has the pair in base64.
fn user_and_password(user: &str, password: &str) -> Option<String> {
    let password = String::from_utf8(BASE64_STANDARD.decode(password).ok()?).ok()?;
    Some(BASE64_STANDARD.encode(format!("{user}:{password}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    fn settings(variables: &[(&str, &str)], files: &[(&str, &str)]) -> NpmSettings {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let text =
            |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned());
        NpmSettings::from_places(&variables, Path::new("/srv/project/below"), &text, &|path| text(path).is_some())
    }

    fn registry(settings: &NpmSettings, package: &str) -> String {
        settings.registry_of(package).unwrap().shown()
    }

    #[test]
    fn a_machine_that_says_nothing_means_the_public_registry() {
        let found = settings(&[], &[]);
        assert_eq!(registry(&found, "@a/b"), DEFAULT_REGISTRY);
        assert_eq!((found.is_offline, found.connections), (false, Connections::default()));
    }

    #[test]
    fn nearer_files_count_more_and_the_environment_most() {
        let files = [
            ("/opt/node/bin/node", ""),
            ("/opt/node/etc/npmrc", "cafile=/machine.pem\nregistry=https://machine.example\nfetch-timeout=60000"),
            ("/home/ann/.npmrc", "registry=https://user.example/npm/\n@own:registry=https://own.example"),
            ("/srv/project/package.json", "{}"),
            ("/srv/project/.npmrc", "registry=https://${WHERE}.example\n"),
        ];
        let variables = [("HOME", "/home/ann"), ("PATH", "/bin:/opt/node/bin"), ("WHERE", "project")];
        let found = settings(&variables[..2], &files[..3]);
        assert_eq!(registry(&found, "a"), "https://user.example/npm/");
        assert_eq!(registry(&found, "@own/a"), "https://own.example/");
        assert_eq!(found.connections.authorities, Authorities::File("/machine.pem".into()));
        assert_eq!(found.connections.timeout, Duration::from_secs(60));
        assert_eq!(registry(&settings(&variables, &files), "a"), "https://project.example/");
        let told = [&variables[..], &[("NPM_CONFIG_REGISTRY", "https://env.example"), ("npm_config_offline", "true")]];
        let found = settings(&told.concat(), &files);
        assert_eq!((registry(&found, "a").as_str(), found.is_offline), ("https://env.example/", true));
        let named = [("HOME", "/home/ann"), ("npm_config_userconfig", "/other"), ("npm_config_cafile", "/env.pem")];
        let found = settings(&named, &[("/other", "registry=https://other.example"), files[2]]);
        assert_eq!(registry(&found, "a"), "https://other.example/");
        assert_eq!(found.connections.authorities, Authorities::File("/env.pem".into()));
    }

    #[test]
    fn credentials_and_proxies_are_those_of_npm() {
        let found = NpmSettings::from_config(
            "//A.example/Npm/:_authToken=tok\n//b.example:8443/npm/:_auth=YTpi\n//c.example/:username=ann\n\
             //c.example/:_password=cHc=\n//d.example/:username=bob\n_authToken=old\nproxy=http://p:1\nnoproxy=a.example, .corp\n\
             strict-ssl=false",
        );
        let said: Vec<(&str, &str)> = found
            .connections
            .credentials
            .iter()
            .map(|credential| (credential.place.as_str(), credential.authorization.as_str()))
            .collect();
        let expected = [
            ("//a.example/Npm/", "Bearer tok"),
            ("//b.example:8443/npm/", "Basic YTpi"),
            ("//c.example/", "Basic YW5uOnB3"),
        ];
        assert_eq!(said, expected);
        let proxies = &found.connections.proxies;
        assert_eq!((proxies.https.as_deref(), proxies.exceptions.len()), (Some("http://p:1"), 2));
        assert!(found.connections.trusts_everyone);
    }
}
