//! Addresses on the web: parts, references relative to a page, credentials.

use ureq::http::Uri;

use crate::PackageError;

/// An absolute `http` or `https` address. Its text in messages is [`Address::shown`], which has no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    uri: Uri,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, PackageError> {
        let text = text.split('#').next().unwrap_or_default();
        let unfit = |reason: &str| PackageError::UnfitAddress { address: redacted(text), reason: reason.to_owned() };
        let uri: Uri = text.parse().map_err(|_| unfit("no address"))?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(Self { uri }),
            _ => Err(unfit("neither http nor https")),
        }
    }

    /// The address that a reference on this page means.
    pub(crate) fn join(&self, reference: &str) -> Result<Self, PackageError> {
        let scheme = self.uri.scheme_str().unwrap_or("https");
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let path = self.uri.path();
        let folder = &path[..=path.rfind('/').unwrap_or(0)];
        let absolute = match reference {
            _ if reference.contains("://") => return Ok(Self::parse(reference)?.with_credentials_of(self)),
            _ if reference.starts_with("//") => {
                return Ok(Self::parse(&format!("{scheme}:{reference}"))?.with_credentials_of(self));
            }
            _ if reference.starts_with('/') => without_dots(reference),
            _ => without_dots(&format!("{folder}{reference}")),
        };
        Self::parse(&format!("{scheme}://{authority}{absolute}"))
    }

    /// Credentials go to the server that they were given for, and to no other.
    fn with_credentials_of(self, page: &Self) -> Self {
        let has_none = !self.uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        if has_none && self.server() == page.server() {
            let mut parts = self.uri.clone().into_parts();
            parts.authority = page.uri.authority().cloned();
            return Uri::from_parts(parts).map_or(self, |uri| Self { uri });
        }
        self
    }

    fn server(&self) -> (Option<&str>, Option<&str>, Option<u16>) {
        (self.uri.scheme_str(), self.uri.host(), self.uri.port_u16())
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    fn default_port(&self) -> u16 {
        if self.is_encrypted() { 443 } else { 80 }
    }

    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether this is one of pip's trusted hosts: `host` or `host:port`.
    pub(crate) fn is_on(&self, trusted: &str) -> bool {
        let host = self.uri.host().unwrap_or_default();
        let port = self.uri.port_u16().unwrap_or_else(|| self.default_port());
        trusted.eq_ignore_ascii_case(host) || trusted.eq_ignore_ascii_case(&format!("{host}:{port}"))
    }

    /// Whether the host is this one or lies in this domain, which may begin with a dot.
    pub(crate) fn is_below(&self, domain: &str) -> bool {
        let host = self.uri.host().unwrap_or_default().to_ascii_lowercase();
        let domain = domain.trim_start_matches('.').to_ascii_lowercase();
        let rest = host.strip_suffix(&domain);
        !domain.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// Host, port if it is not the usual one, and path, as npm names the places that credentials are for: `//host:port/path`.
    pub(crate) fn place(&self) -> String {
        let host = self.uri.host().unwrap_or_default().to_ascii_lowercase();
        let port = self.uri.port_u16().filter(|port| *port != self.default_port());
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("//{host}{port}{}", self.uri.path())
    }

    /// The last part of the path: the name of a file.
    pub(crate) fn file_name(&self) -> &str {
        self.uri.path().rsplit('/').next().unwrap_or_default()
    }

    /// For messages: without credentials.
    pub(crate) fn shown(&self) -> String {
        redacted(&self.uri.to_string())
    }
}

fn redacted(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let server = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{server}{path}")
        }
        None => text.to_owned(),
    }
}

/// A path without `.` and `..`, as RFC 3986 removes them.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                kept.pop_if(|last| !last.is_empty());
            }
            part => kept.push(part),
        }
    }
    let text = kept.join("/");
    if text.starts_with('/') { text + query } else { format!("/{text}{query}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn joined(page: &str, reference: &str) -> String {
        Address::parse(page).unwrap().join(reference).unwrap().uri.to_string()
    }

    #[test]
    fn references_mean_what_they_mean_on_a_page() {
        let page = "https://example.org/simple/name/";
        assert_eq!(joined(page, "a.whl#sha256=0"), "https://example.org/simple/name/a.whl");
        assert_eq!(joined(page, "../../files/./a.whl"), "https://example.org/files/a.whl");
        assert_eq!(joined(page, "/files/a.whl?x=1"), "https://example.org/files/a.whl?x=1");
        assert_eq!(joined(page, "//files.example.org/a.whl"), "https://files.example.org/a.whl");
        assert_eq!(joined(page, "http://example.com:81/a.whl"), "http://example.com:81/a.whl");
        assert_eq!(joined(page, "../../../../a.whl"), "https://example.org/a.whl");
    }

    #[test]
    fn credentials_stay_with_their_server_and_out_of_messages() {
        let page = "https://ann:secret@example.org/simple/name/";
        assert_eq!(joined(page, "a.whl"), "https://ann:secret@example.org/simple/name/a.whl");
        assert_eq!(joined(page, "https://example.org/a.whl"), "https://ann:secret@example.org/a.whl");
        assert_eq!(joined(page, "https://example.com/a.whl"), "https://example.com/a.whl");
        assert_eq!(Address::parse(page).unwrap().shown(), "https://example.org/simple/name/");
        let error = Address::parse("ftp://ann:secret@example.org/a").unwrap_err().to_string();
        assert_eq!(error, "reading the address ftp://example.org/a found neither http nor https");
    }

    #[test]
    fn a_trusted_host_is_meant_with_and_without_its_port() {
        let address = Address::parse("http://Mirror.example:8080/simple/").unwrap();
        assert!(address.is_on("mirror.example") && address.is_on("mirror.example:8080"));
        assert!(!address.is_on("mirror.example:80") && !address.is_on("example"));
        assert!(Address::parse("https://a.example/").unwrap().is_on("a.example:443"));
    }
}
