//! A publisher of KV events over ZeroMQ that misbehaves on purpose, or not. Tests and the soak take this file in.

#![allow(dead_code, reason = "each user takes a part")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// More bytes than any machine has.
const CLAIMED_BYTES: u64 = 1 << 45;
/// Payload of a batch that is as large as one may be.
const LARGE_BYTES: usize = 16 << 20;

/// What a publisher does once it is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publishing {
    /// Publishes so many batches that store one block each, and stays.
    Good {
        /// How many.
        batches: u64,
        /// Between two of them.
        pause: Duration,
    },
    /// Says that a frame is larger than any memory, and sends it for ever.
    HugeFrame,
    /// Says so and sends nothing more.
    ClaimedFrame,
    /// States a length that cannot be, and closes.
    ImpossibleLength,
    /// Says so of the command that begins a connection.
    ClaimedCommand,
    /// Sends the frames of one message for ever.
    EndlessMessage,
    /// Sends messages that are no batches for ever.
    Malformed,
    /// Sends the largest batches for ever.
    LargeBatches,
    /// Sends its greeting byte by byte, for ever.
    SlowGreeting,
    /// Sends bytes that are no greeting.
    NoGreeting,
    /// Closes in the middle of a batch.
    CutOff,
    /// Sends batches for ever, with numbers that are always new.
    EndlessBatches,
}

impl Publishing {
    /// All ways to misbehave.
    pub const HOSTILE: [Self; 11] = [
        Self::HugeFrame,
        Self::ClaimedFrame,
        Self::ImpossibleLength,
        Self::ClaimedCommand,
        Self::EndlessMessage,
        Self::Malformed,
        Self::LargeBatches,
        Self::SlowGreeting,
        Self::NoGreeting,
        Self::CutOff,
        Self::EndlessBatches,
    ];
}

/// Starts such a publisher on a thread; its endpoint. It publishes as long as the process lives.
pub fn start_publisher(publishing: Publishing) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("tcp://{}", listener.local_addr()?);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // A subscriber that goes away ends it.
            thread::spawn(move || publish(connection, publishing));
        }
    });
    Ok(endpoint)
}

fn publish(mut connection: TcpStream, publishing: Publishing) -> io::Result<()> {
    match publishing {
        Publishing::SlowGreeting => {
            connection.write_all(&[0xff])?;
            return for_ever(&mut connection, &[0], Duration::from_millis(20));
        }
        Publishing::NoGreeting => return for_ever(&mut connection, &[b'a'; 4096], Duration::ZERO),
        Publishing::ClaimedCommand => {
            connection.write_all(&greeting())?;
            connection.write_all(&header(COMMAND | LONG, CLAIMED_BYTES))?;
            return for_ever(&mut connection, &[0; 4096], Duration::ZERO);
        }
        _ => {}
    }
    connection.write_all(&greeting())?;
    connection.write_all(&frame(COMMAND, b"\x05READY\x0bSocket-Type\0\0\0\x03PUB"))?;
    // Greeting, command, and subscription or request of the other side, which sends nothing later.
    connection.read_exact(&mut [0; 64])?;
    read_frame(&mut connection)?;
    read_frame(&mut connection)?;
    match publishing {
        Publishing::Good { batches, pause } => {
            for number in 0..batches {
                connection.write_all(&batch(number, &stored(number)))?;
                thread::sleep(pause);
            }
            stay(&mut connection)
        }
        Publishing::HugeFrame => {
            connection.write_all(&header(LONG, CLAIMED_BYTES))?;
            for_ever(&mut connection, &[0; 1 << 16], Duration::ZERO)
        }
        Publishing::ClaimedFrame => {
            connection.write_all(&header(LONG, CLAIMED_BYTES))?;
            stay(&mut connection)
        }
        Publishing::ImpossibleLength => connection.write_all(&header(LONG, u64::MAX)),
        Publishing::EndlessMessage => for_ever(&mut connection, &frame(MORE, b"again").repeat(1000), Duration::ZERO),
        Publishing::Malformed => for_ever(&mut connection, &frame(0, b"no batch").repeat(1000), Duration::ZERO),
        Publishing::LargeBatches => {
            let payload = vec![0xc0; LARGE_BYTES];
            (0..u64::MAX).try_for_each(|number| connection.write_all(&batch(number, &payload)))
        }
        Publishing::EndlessBatches => {
            (0..u64::MAX).try_for_each(|number| connection.write_all(&batch(number, &stored(number))))
        }
        Publishing::CutOff => {
            let whole = batch(0, &stored(0));
            connection.write_all(&whole[..whole.len() / 2])
        }
        Publishing::SlowGreeting | Publishing::NoGreeting | Publishing::ClaimedCommand => Ok(()),
    }
}

fn greeting() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[9], bytes[10]) = (0xff, 0x7f, 3);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

fn header(flags: u8, length: u64) -> Vec<u8> {
    [&[flags][..], &length.to_be_bytes()].concat()
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    [&header(flags | LONG, body.len() as u64), body].concat()
}

/// A message of topic, number and payload.
fn batch(number: u64, payload: &[u8]) -> Vec<u8> {
    [frame(MORE, b"kv"), frame(MORE, &number.to_be_bytes()), frame(0, payload)].concat()
}

/// `[time, [["BlockStored", [hash], null, [1], 1, null]]]` in MessagePack, as vLLM writes it.
fn stored(hash: u64) -> Vec<u8> {
    let kind = b"BlockStored";
    let mut bytes =
        [&[0x92, 0xcb][..], &(100.0 + hash as f64).to_be_bytes(), &[0x91, 0x96, 0xa0 | kind.len() as u8]].concat();
    bytes.extend_from_slice(kind);
    bytes.extend_from_slice(&[0x91, 0xcf]);
    bytes.extend_from_slice(&hash.to_be_bytes());
    bytes.extend_from_slice(&[0xc0, 0x91, 1, 1, 0xc0]);
    bytes
}

fn read_frame(connection: &mut TcpStream) -> io::Result<()> {
    let mut start = [0; 2];
    connection.read_exact(&mut start)?;
    let mut length = u64::from(start[1]);
    if start[0] & LONG != 0 {
        let mut rest = [0; 8];
        rest[0] = start[1];
        connection.read_exact(&mut rest[1..])?;
        length = u64::from_be_bytes(rest);
    }
    io::copy(&mut connection.take(length), &mut io::sink()).map(drop)
}

/// Until the other side closes.
fn stay(connection: &mut TcpStream) -> io::Result<()> {
    io::copy(connection, &mut io::sink()).map(drop)
}

fn for_ever(connection: &mut TcpStream, bytes: &[u8], pause: Duration) -> io::Result<()> {
    loop {
        connection.write_all(bytes)?;
        thread::sleep(pause);
    }
}
