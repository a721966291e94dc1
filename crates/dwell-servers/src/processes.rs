//! Which process serves an address of this machine, and what it has mapped.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use dwell_process::{process_ids, process_line, process_tree};

use crate::ServerError;

/// State of a socket that listens, in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The process of a server that runs already: the named one, or the one that listens. `None` on another machine.
pub(crate) fn server_process(url: &str, pid: Option<u32>) -> Result<Option<u32>, ServerError> {
    match pid {
        Some(pid) if process_line(pid).is_some() => Ok(Some(pid)),
        Some(pid) => Err(ServerError::NoProcess { pid }),
        None => listening_process(url),
    }
}

/// The process that listens at an address; `None` if that is of another machine.
pub(crate) fn listening_process(url: &str) -> Result<Option<u32>, ServerError> {
    let hidden = |found: String| ServerError::ProcessHidden { url: url.to_owned(), found };
    let addresses = addresses_of(url).map_err(|error| hidden(error.to_string()))?;
    let local: Vec<SocketAddr> = addresses.into_iter().filter(|address| is_of_this_machine(address.ip())).collect();
    if local.is_empty() {
        return Ok(None);
    }
    let sockets = listening_sockets(&local);
    if sockets.is_empty() {
        return Err(hidden("nothing of this machine listens there; it may be in another network namespace".to_owned()));
    }
    let (holders, denied) = holders_of(&sockets);
    match holders.iter().find(|&&pid| process_line(pid).is_none_or(|line| !holders.contains(&line.parent))) {
        Some(&pid) => Ok(Some(pid)),
        None if denied > 0 => Err(hidden(format!("permission denied for {denied} processes"))),
        None => Err(hidden("no process of this machine has the socket; it may be in a container".to_owned())),
    }
}

fn addresses_of(url: &str) -> io::Result<Vec<SocketAddr>> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let has_port = host_and_port.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port {
        return Ok(host_and_port.to_socket_addrs()?.collect());
    }
    let port = if scheme == "https" { 443 } else { 80 };
    let host = host_and_port.trim_start_matches('[').trim_end_matches(']');
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Only addresses of this machine can be bound to.
fn is_of_this_machine(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified() || UdpSocket::bind((address, 0)).is_ok()
}

/// Inodes of the sockets that listen at one of these addresses, or at all with one of their ports.
fn listening_sockets(addresses: &[SocketAddr]) -> BTreeSet<u64> {
    let mut inodes = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        let listening = text.lines().skip(1).filter_map(listening_line);
        inodes.extend(listening.filter(|socket| socket.answers(addresses)).map(|socket| socket.inode));
    }
    inodes
}

struct ListeningSocket {
    address: IpAddr,
    port: u16,
    inode: u64,
}

impl ListeningSocket {
    fn answers(&self, addresses: &[SocketAddr]) -> bool {
        addresses.iter().any(|asked| {
            asked.port() == self.port
                && (self.address.is_unspecified()
                    || asked.ip().is_unspecified()
                    || self.address == asked.ip().to_canonical())
        })
    }
}

fn listening_line(line: &str) -> Option<ListeningSocket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if *fields.get(3)? != LISTENING {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    Some(ListeningSocket {
        address: kernel_address(address)?.to_canonical(),
        port: u16::from_str_radix(port, 16).ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// The kernel prints addresses as words of the machine's byte order.
fn kernel_address(hexadecimal: &str) -> Option<IpAddr> {
    let words = hexadecimal.as_bytes().chunks(8);
    let words: Option<Vec<u32>> =
        words.map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()).collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Processes that hold one of these sockets, and how many could not be looked into.
fn holders_of(sockets: &BTreeSet<u64>) -> (Vec<u32>, usize) {
    let names: BTreeSet<String> = sockets.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let mut holders = Vec::new();
    let mut denied = 0;
    for pid in process_ids() {
        match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(entries) => {
                let mut targets = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
                if targets.any(|target| names.contains(&*target.to_string_lossy())) {
                    holders.push(pid);
                }
            }
            Err(error) => denied += usize::from(error.kind() == io::ErrorKind::PermissionDenied),
        }
    }
    (holders, denied)
}

/// Whether a process, or one that it started, has a device open whose path begins with one of these.
pub(crate) fn has_device_open(root: u32, devices: &[&str]) -> bool {
    let is_device = |target: PathBuf| devices.iter().any(|device| target.to_string_lossy().starts_with(device));
    let open_files = |pid: u32| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut tree = process_tree(root).into_iter();
    tree.any(|line| open_files(line.pid).filter_map(|entry| fs::read_link(entry.path()).ok()).any(is_device))
}

/// Whether a process has a file mapped whose path begins so; `None` if it cannot be looked into.
pub(crate) fn maps(pid: u32, path: &Path) -> Option<bool> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let wanted = path.as_os_str().as_encoded_bytes();
    Some(maps.windows(wanted.len()).any(|window| window == wanted))
}

/// Whether a process has a library mapped whose file name begins so.
pub(crate) fn maps_library(pid: u32, name: &str) -> Option<bool> {
    maps(pid, Path::new(&format!("/{name}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port_at_every_name_of_this_machine() {
        let own = Some(std::process::id());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for url in
            [format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/v1"), format!("localhost:{port}")]
        {
            assert_eq!(listening_process(&url).unwrap(), own, "{url}");
        }
        let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = everywhere.local_addr().unwrap().port();
        assert_eq!(listening_process(&format!("http://user:word@127.0.0.1:{port}/")).unwrap(), own);
        if let Ok(wide) = TcpListener::bind("[::1]:0") {
            let port = wide.local_addr().unwrap().port();
            assert_eq!(listening_process(&format!("http://[::1]:{port}")).unwrap(), own);
        }
    }

    #[test]
    fn an_open_device_is_seen() {
        let _null = fs::File::open("/dev/null").unwrap();
        assert!(has_device_open(std::process::id(), &["/dev/nowhere", "/dev/nul"]));
        assert!(!has_device_open(std::process::id(), &["/dev/nowhere"]));
    }

    #[test]
    fn an_address_where_nothing_listens_is_an_error_and_another_machine_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = listening_process(&format!("http://127.0.0.1:{port}")).unwrap_err();
        assert!(error.to_string().contains("nothing of this machine listens there"), "{error}");
        // A documentation address: of nobody.
        assert_eq!(listening_process("http://192.0.2.77:8080").unwrap(), None);
    }
}
