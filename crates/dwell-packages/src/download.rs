//! Connections: certificates, proxies, redirects, limits.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use sha2::Digest;
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Proxy};

use crate::PackageError;
use crate::address::Address;
use crate::connections::{Authorities, Connections};

/// Redirects that are followed, as many as browsers do.
const MOST_REDIRECTS: usize = 20;
/// How often is asked before it is given up, and how long is waited before the second time.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// Longest page of an index: the largest on PyPI and npm have some ten mebibytes.
const PAGE_MAX_BYTES: u64 = 64 << 20;

/// Makes connections the way a package manager is configured.
pub(crate) struct Client<'a> {
    connections: &'a Connections,
    roots: RootCerts,
}

/// A page.
pub(crate) struct Page {
    pub(crate) address: Address,
    pub(crate) is_json: bool,
    pub(crate) body: Vec<u8>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(connections: &'a Connections) -> Result<Self, PackageError> {
        // An error means that one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let roots = match &connections.authorities {
            Authorities::OfSystem => RootCerts::PlatformVerifier,
            Authorities::File(path) => RootCerts::new_with_certs(&certificates_of(&read_pem(path)?)),
            Authorities::Text(pem) => RootCerts::new_with_certs(&certificates_of(pem.as_bytes())),
        };
        Ok(Self { connections, roots })
    }

    /// A page of an index, in one of the accepted types.
    pub(crate) fn page(&self, address: &Address, accepted: &str) -> Result<Page, PackageError> {
        patiently(|| {
            let (address, mut response) = self.get(address, accepted)?;
            let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let is_json = content_type.is_some_and(|name| name.contains("json"));
            let mut body = Vec::new();
            copy(&address, response.body_mut(), PAGE_MAX_BYTES, &mut |bytes| {
                body.extend_from_slice(bytes);
                Ok(())
            })?;
            Ok(Page { address, is_json, body })
        })
    }

    /// Writes a file to the beginning of `out` and gives its checksum. `progress` is told how many bytes there are and
    /// how many will be.
    pub(crate) fn file<D: Digest>(
        &self,
        address: &Address,
        limit_bytes: u64,
        out: &mut File,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Vec<u8>, PackageError> {
        patiently(|| {
            let failed = |error| PackageError::from_io("keeping a download", Path::new(address.file_name()), error);
            out.rewind().and_then(|()| out.set_len(0)).map_err(failed)?;
            let (answering, mut response) = self.get(address, "*/*")?;
            let total_bytes = response.body().content_length();
            let (mut sum, mut written_bytes) = (D::new(), 0);
            copy(&answering, response.body_mut(), limit_bytes, &mut |bytes| {
                sum.update(bytes);
                out.write_all(bytes).map_err(failed)?;
                written_bytes += bytes.len() as u64;
                progress(written_bytes, total_bytes);
                Ok(())
            })?;
            Ok(sum.finalize().to_vec())
        })
    }

    /// What an address answers. Redirects are followed here, so that each server gets the credentials and the trust that
    /// are its own.
    fn get(&self, address: &Address, accepted: &str) -> Result<(Address, Response<Body>), PackageError> {
        let mut address = address.clone();
        for _ in 0..=MOST_REDIRECTS {
            let failed =
                |error: ureq::Error| PackageError::Connection { address: address.shown(), reason: error.to_string() };
            let mut request = self.agent(&address)?.get(address.uri()).header(ACCEPT, accepted);
            if let Some(authorization) = self.connections.authorization_for(&address) {
                request = request.header(AUTHORIZATION, authorization);
            }
            let response = request.call().map_err(failed)?;
            let status = response.status();
            if status == StatusCode::OK {
                return Ok((address, response));
            }
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            match target.filter(|_| status.is_redirection()) {
                Some(target) => address = redirected(&address, target)?,
                None => return Err(PackageError::Status { address: address.shown(), status: status.as_u16() }),
            }
        }
        Err(PackageError::Connection { address: address.shown(), reason: "too many redirects".to_owned() })
    }

    fn agent(&self, address: &Address) -> Result<Agent, PackageError> {
        let is_trusted = self.connections.trusts(address);
        let tls = TlsConfig::builder().root_certs(self.roots.clone()).disable_verification(is_trusted);
        let proxy = match self.connections.proxies.for_address(address) {
            Some(proxy) => Some(Proxy::new(proxy).map_err(|error| PackageError::UnfitAddress {
                address: "of the proxy".to_owned(),
                reason: error.to_string(),
            })?),
            // What listens here is not reached through another machine.
            None if address.is_loopback() => None,
            None => Proxy::try_from_env(),
        };
        let config = Agent::config_builder()
            .user_agent(concat!("dwell/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .tls_config(tls.build())
            .timeout_connect(Some(self.connections.timeout))
            .timeout_recv_response(Some(self.connections.timeout))
            .timeout_per_read(Some(self.connections.timeout));
        Ok(Agent::new_with_config(config.build()))
    }
}

/// What is encrypted stays so.
fn redirected(from: &Address, target: &str) -> Result<Address, PackageError> {
    let to = from.join(target)?;
    if from.is_encrypted() && !to.is_encrypted() {
        let reason = format!("a redirect to {}, which is not encrypted", to.shown());
        return Err(PackageError::Connection { address: from.shown(), reason });
    }
    Ok(to)
}

fn read_pem(path: &Path) -> Result<Vec<u8>, PackageError> {
    const CERTIFICATES_MAX_BYTES: u64 = 16 << 20;
    dwell_files::read_at_most(path, CERTIFICATES_MAX_BYTES)
        .map_err(|error| PackageError::from_io("reading the certificates of authorities", path, error))
}

fn certificates_of(pem: &[u8]) -> Vec<Certificate<'static>> {
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    parse_pem(pem).filter_map(certificate).collect()
}

/// Hands a body over in pieces, up to a limit.
fn copy(
    address: &Address,
    body: &mut Body,
    limit_bytes: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<(), PackageError>,
) -> Result<(), PackageError> {
    let too_long = || PackageError::TooLong { address: address.shown(), limit_bytes };
    let announced_bytes = body.content_length();
    if announced_bytes.is_some_and(|bytes| bytes > limit_bytes) {
        return Err(too_long());
    }
    let broken = |reason: String| PackageError::Connection { address: address.shown(), reason };
    let mut reader = body.as_reader();
    let mut buffer = vec![0; 64 << 10];
    let mut taken_bytes = 0_u64;
    loop {
        let length = reader.read(&mut buffer).map_err(|error| broken(error.to_string()))?;
        taken_bytes += length as u64;
        match length {
            0 => break,
            _ if taken_bytes > limit_bytes => return Err(too_long()),
            _ => take(&buffer[..length])?,
        }
    }
    match announced_bytes {
        Some(bytes) if bytes != taken_bytes => Err(broken(format!("{taken_bytes} of {bytes} bytes"))),
        _ => Ok(()),
    }
}

/// Tries again what may pass.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, PackageError>) -> Result<T, PackageError> {
    for number in 1.. {
        match attempt() {
            Err(error) if error.may_pass() && number < ATTEMPTS => std::thread::sleep(PAUSE * number),
            outcome => return outcome,
        }
    }
    unreachable!("the last attempt returns")
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
