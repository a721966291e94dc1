use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::flags::{COMMAND, LONG, MORE};
use super::{Decoder, Incoming};

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// Signature, version 3.0, the mechanism NULL, not as a server, filler.
const GREETING_BYTES: usize = 64;
const SIGNATURE: [u8; 10] = [0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f];
const VERSION_AT: usize = 10;
const MECHANISM_AT: usize = 12;
const MECHANISM: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Commands begin with the length of their name.
const READY: &[u8] = b"\x05READY";
const ERROR: &[u8] = b"\x05ERROR";
/// So do names of properties; their values, with theirs in four bytes.
const SOCKET_TYPE: &[u8] = b"\x0bSocket-Type";
/// The first byte of a message that subscribes.
const SUBSCRIBE: u8 = 1;

/// What this side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Sub,
    Dealer,
}

impl Role {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Sub => b"SUB",
            Self::Dealer => b"DEALER",
        }
    }
}

trait Bytes: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Bytes for T {}

/// A connection on which both sides have said what they are.
pub(crate) struct Connection {
    stream: Box<dyn Bytes>,
    decoder: Decoder,
    ready: VecDeque<Incoming>,
    read: Vec<u8>,
}

impl Connection {
    /// Connects to `tcp://host:port` or `ipc://path`.
    pub(crate) async fn open(endpoint: &str, role: Role) -> io::Result<Self> {
        let stream = stream_to(endpoint).await?;
        let mut connection =
            Self { stream, decoder: Decoder::default(), ready: VecDeque::new(), read: vec![0; READ_BYTES] };
        connection.greet().await?;
        connection.introduce(role).await?;
        Ok(connection)
    }

    /// Asks for messages that begin with this topic.
    pub(crate) async fn subscribe(&mut self, topic: &str) -> io::Result<()> {
        self.send(&[&[&[SUBSCRIBE], topic.as_bytes()].concat()]).await
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        let last = frames.len().saturating_sub(1);
        let mut bytes = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            put_frame(&mut bytes, if index < last { MORE } else { 0 }, frame);
        }
        self.stream.write_all(&bytes).await
    }

    /// Waits for what comes next. Given up while it waits, it loses nothing.
    pub(crate) async fn receive(&mut self) -> io::Result<Incoming> {
        loop {
            if let Some(incoming) = self.ready.pop_front() {
                return Ok(incoming);
            }
            let count = self.stream.read(&mut self.read).await?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let taken = self.decoder.push(&self.read[..count], &mut self.ready);
            taken.map_err(|fault| io::Error::new(ErrorKind::InvalidData, fault))?;
        }
    }

    async fn greet(&mut self) -> io::Result<()> {
        let mut greeting = [0; GREETING_BYTES];
        greeting[..VERSION_AT].copy_from_slice(&SIGNATURE);
        greeting[VERSION_AT] = 3;
        greeting[MECHANISM_AT..MECHANISM_AT + MECHANISM.len()].copy_from_slice(MECHANISM);
        self.stream.write_all(&greeting).await?;
        let mut theirs = [0; GREETING_BYTES];
        self.stream.read_exact(&mut theirs).await?;
        let is_signed = theirs[0] == SIGNATURE[0] && theirs[VERSION_AT - 1] & 1 == 1 && theirs[VERSION_AT] >= 3;
        if !is_signed || !theirs[MECHANISM_AT..].starts_with(MECHANISM) {
            return Err(refused("it does not speak ZMTP 3 without authentication"));
        }
        Ok(())
    }

    /// Both sides say what they are, each without waiting for the other.
    async fn introduce(&mut self, role: Role) -> io::Result<()> {
        let mut command = READY.to_vec();
        command.extend_from_slice(SOCKET_TYPE);
        let name = role.name();
        command.extend_from_slice(&[0, 0, 0, name.len() as u8]);
        command.extend_from_slice(name);
        let mut bytes = Vec::new();
        put_frame(&mut bytes, COMMAND, &command);
        self.stream.write_all(&bytes).await?;
        match self.receive().await? {
            Incoming::Command(theirs) if theirs.starts_with(READY) => Ok(()),
            Incoming::Command(theirs) if theirs.starts_with(ERROR) => {
                Err(refused(&format!("it answered {:?}", String::from_utf8_lossy(&theirs[ERROR.len()..]))))
            }
            _ => Err(refused("it did not say what it is")),
        }
    }
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::ConnectionRefused, reason)
}

async fn stream_to(endpoint: &str) -> io::Result<Box<dyn Bytes>> {
    if let Some(path) = endpoint.strip_prefix("ipc://") {
        return Ok(Box::new(UnixStream::connect(path).await?));
    }
    let Some(address) = endpoint.strip_prefix("tcp://") else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "an address begins with tcp:// or ipc://"));
    };
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

fn put_frame(bytes: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => bytes.extend_from_slice(&[flags, length]),
        Err(_) => {
            bytes.push(flags | LONG);
            bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(body);
}
