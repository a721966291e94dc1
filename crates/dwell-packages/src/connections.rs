//! How connections are made: what pip and npm each say in their own words.

use std::path::PathBuf;
use std::time::Duration;

use crate::address::Address;

/// How long pip waits for a server by default.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);

/// Certificates, proxies, credentials and patience.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connections {
    /// Whether no server's certificate is checked.
    pub(crate) trusts_everyone: bool,
    /// Hosts whose certificates are not checked: `host` or `host:port`.
    pub(crate) trusted_hosts: Vec<String>,
    /// Who vouches for servers.
    pub(crate) authorities: Authorities,
    /// In place of those of the environment.
    pub(crate) proxies: Proxies,
    /// Until a server answers.
    pub(crate) timeout: Duration,
    /// Each for the places that it was given for.
    pub(crate) credentials: Vec<Credential>,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            trusts_everyone: false,
            trusted_hosts: Vec::new(),
            authorities: Authorities::default(),
            proxies: Proxies::default(),
            timeout: DEFAULT_TIMEOUT,
            credentials: Vec::new(),
        }
    }
}

/// Certificates of authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Authorities {
    /// Those that the system trusts.
    #[default]
    OfSystem,
    /// Those of a file in PEM, in place of the system's.
    File(PathBuf),
    /// Those of a text in PEM, in place of the system's.
    Text(String),
}

/// Proxies by the scheme of the address that is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proxies {
    pub(crate) http: Option<String>,
    pub(crate) https: Option<String>,
    /// Hosts and domains that are asked without one.
    pub(crate) exceptions: Vec<String>,
}

impl Proxies {
    /// One for all addresses.
    pub(crate) fn one(proxy: Option<&str>) -> Self {
        let proxy = proxy.map(str::to_owned);
        Self { http: proxy.clone(), https: proxy, exceptions: Vec::new() }
    }

    pub(crate) fn for_address(&self, address: &Address) -> Option<&str> {
        let proxy = if address.is_encrypted() { &self.https } else { &self.http };
        let is_exception = self.exceptions.iter().any(|domain| address.is_below(domain));
        proxy.as_deref().filter(|_| !is_exception)
    }
}

/// What is sent as `Authorization` to a place, `//host:port/path`, and to what lies below it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) place: String,
    pub(crate) authorization: String,
}

impl Credential {
    fn is_for(&self, place: &str) -> bool {
        let rest = place.strip_prefix(&self.place);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.place.ends_with('/'))
    }
}

impl std::fmt::Debug for Credential {
    /// Secrets reach no log.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Credential for {:?}", self.place)
    }
}

impl Connections {
    /// Whether the certificate of this address is not checked.
    pub(crate) fn trusts(&self, address: &Address) -> bool {
        self.trusts_everyone || self.trusted_hosts.iter().any(|trusted| address.is_on(trusted))
    }

    /// What proves to this address who asks: the credential of the nearest place.
    pub(crate) fn authorization_for(&self, address: &Address) -> Option<&str> {
        let place = address.place();
        let fitting = self.credentials.iter().filter(|credential| credential.is_for(&place));
        fitting.max_by_key(|credential| credential.place.len()).map(|credential| credential.authorization.as_str())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    #[test]
    fn a_credential_is_sent_below_its_own_place_alone() {
        let credential = |place: &str, text: &str| Credential { place: place.into(), authorization: text.into() };
        let credentials = vec![credential("//a.example", "all"), credential("//a.example/npm/", "npm")];
        let connections = Connections { credentials, ..Connections::default() };
        let sent = |text: &str| connections.authorization_for(&address(text)).map(str::to_owned);
        assert_eq!(sent("https://a.example/x.tgz").as_deref(), Some("all"));
        assert_eq!(sent("https://A.example:443/npm/x.tgz").as_deref(), Some("npm"));
        assert_eq!(sent("https://a.example/npm-other/x.tgz").as_deref(), Some("all"));
        for other in ["https://a.example.org/npm/x", "https://a.example:8443/npm/x", "https://b.example/a.example/"] {
            assert_eq!(sent(other), None, "{other}");
        }
        assert!(!format!("{connections:?}").contains("all\""), "secrets reach no log");
    }

    #[test]
    fn a_proxy_is_used_for_its_scheme_but_not_for_exceptions() {
        let exceptions = vec!["intra.example".to_owned(), ".corp".to_owned()];
        let proxies = Proxies { http: None, https: Some("http://p:1".to_owned()), exceptions };
        assert_eq!(proxies.for_address(&address("https://a.example/")), Some("http://p:1"));
        for direct in ["http://a.example/", "https://intra.example/", "https://b.intra.example/", "https://x.corp/"] {
            assert_eq!(proxies.for_address(&address(direct)), None, "{direct}");
        }
        assert!(proxies.for_address(&address("https://notintra.example/")).is_some());
    }
}
