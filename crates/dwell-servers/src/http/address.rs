use std::net::IpAddr;

use ureq::http::Uri;

use super::HttpError;

/// Where a server answers, as requests need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Scheme, host, port and what of a path comes before the API's own, without a slash at the end.
    pub(super) url: String,
    /// Whether it is on this machine, so that no proxy stands between.
    pub(super) is_loopback: bool,
    /// Whether the connection is encrypted.
    pub(super) is_https: bool,
}

impl Address {
    /// Understands what users write: with or without a scheme, with a slash or `/v1` at the end.
    pub(super) fn parse(given: &str) -> Result<Self, HttpError> {
        let bad = |reason: &str| HttpError::BadAddress { url: without_user(given), reason: reason.to_owned() };
        let (scheme, rest) = given.split_once("://").unwrap_or(("http", given));
        let is_https = match scheme {
            "http" => false,
            "https" => true,
            other => return Err(bad(&format!("the scheme {other:?}"))),
        };
        let rest = rest.trim_end_matches('/');
        let url = format!("{scheme}://{}", rest.strip_suffix("/v1").unwrap_or(rest).trim_end_matches('/'));
        let uri: Uri = url.parse().map_err(|error| bad(&format!("no URL ({error})")))?;
        let authority = uri.authority().ok_or_else(|| bad("no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("a user in front of the host"));
        }
        if authority.host().is_empty() {
            return Err(bad("no host"));
        }
        if uri.query().is_some() {
            return Err(bad("a query"));
        }
        // Without a usable port the one of the scheme would be asked.
        if authority.port_u16().is_none_or(|port| port == 0) && authority.as_str().len() > authority.host().len() {
            return Err(bad("no port from 1 to 65535"));
        }
        let is_loopback = is_loopback(authority.host());
        Ok(Self { url, is_loopback, is_https })
    }
}

/// An address may carry a password where it should not; messages must not.
fn without_user(given: &str) -> String {
    let (scheme, rest) = given.split_once("://").map_or(("", given), |(scheme, rest)| (scheme, rest));
    match rest.rsplit_once('@') {
        Some((_, host)) if scheme.is_empty() => format!("…@{host}"),
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => given.to_owned(),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        // A server that listens everywhere is reached on this machine by the same address.
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => bare.eq_ignore_ascii_case("localhost") || bare.to_ascii_lowercase().ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write_becomes_one_form() {
        for given in ["127.0.0.1:8080", "http://127.0.0.1:8080", "http://127.0.0.1:8080/", "127.0.0.1:8080/v1/"] {
            let address = Address::parse(given).unwrap();
            assert_eq!((address.url.as_str(), address.is_loopback), ("http://127.0.0.1:8080", true), "{given}");
        }
        let remote = Address::parse("https://models.example/team/v1").unwrap();
        assert_eq!(remote.url, "https://models.example/team");
        assert!(remote.is_https && !remote.is_loopback);
    }

    #[test]
    fn this_machine_has_many_names() {
        for local in ["localhost", "LOCALHOST:1", "[::1]:9", "127.8.8.8", "0.0.0.0:11434", "a.localhost"] {
            assert!(Address::parse(local).unwrap().is_loopback, "{local}");
        }
        for remote in ["localhost.example", "128.0.0.1", "[::2]:9"] {
            assert!(!Address::parse(remote).unwrap().is_loopback, "{remote}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused_without_showing_a_password() {
        for (given, reason) in [
            ("ftp://host", "the scheme \"ftp\""),
            ("http://", "no URL"),
            ("http://host?key=1", "a query"),
            ("http://host:99999", "no port"),
            ("host:", "no port"),
            ("http://me:secret@host", "a user in front of the host"),
            ("me:secret@host", "a user in front of the host"),
        ] {
            let message = Address::parse(given).unwrap_err().to_string();
            assert!(message.contains(reason), "{given}: {message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
