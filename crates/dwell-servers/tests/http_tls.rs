//! Encrypted connections, to a real TLS server.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod http;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use dwell_events::engine::EngineKind;
use dwell_servers::{HttpClient, Interruption};
use http::{Running, passes_with, skip};

/// Files that the system takes its trusted certificates from, if it is set.
const TRUSTED: &str = "SSL_CERT_FILE";
const PORT: &str = "DWELL_TEST_TLS_PORT";

fn openssl(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn asked(port: &str) -> Result<String, String> {
    let url = format!("https://localhost:{port}");
    let client = HttpClient::new(EngineKind::OpenAi, &url, None, Interruption::default()).unwrap();
    client.get_text("/answer.txt").map_err(|error| error.to_string())
}

#[test]
fn certificates_are_those_that_the_system_trusts() {
    let name = "certificates_are_those_that_the_system_trusts";
    if let Ok(port) = std::env::var(PORT) {
        return assert_eq!(asked(&port).unwrap(), "over TLS");
    }
    let folder = tempfile::tempdir().unwrap();
    let subject = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext"];
    let files = [
        "subjectAltName=DNS:localhost",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ];
    let made = openssl(folder.path(), &[&subject[..], &files[..]].concat()).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip(name, "openssl cannot make a certificate");
    }
    std::fs::write(folder.path().join("answer.txt"), "HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\nover TLS").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let serve = ["s_server", "-quiet", "-accept", &port, "-cert", "cert.pem", "-key", "key.pem", "-HTTP"];
    let _server = Running(openssl(folder.path(), &serve).spawn().unwrap());
    let stranger = loop {
        match asked(&port).unwrap_err() {
            error if error.contains("Connection refused") => std::thread::sleep(Duration::from_millis(20)),
            error => break error,
        }
    };
    let expected =
        format!("asking GET https://localhost:{port}/answer.txt reached no server: invalid peer certificate: ");
    assert!(stranger.starts_with(&expected), "{stranger}");
    passes_with(name, &[(TRUSTED, folder.path().join("cert.pem").to_str().unwrap()), (PORT, &port)]);
}
