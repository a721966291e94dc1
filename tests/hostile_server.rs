//! A server with the API of OpenAI that misbehaves on purpose, or not. The tests of several crates and the soak take this file in.

#![allow(dead_code, reason = "each user takes a part")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Bytes of a token that no model has; with its JSON it is below the largest event.
const HUGE_TOKEN_BYTES: usize = 3_800_000;
/// Bytes of an event that is larger than the largest.
const HUGE_FRAME_BYTES: usize = 64 << 20;
/// Depth of an event that would overflow a stack.
const DEEP: usize = 200_000;

/// What a server does when it is asked for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Sends so many tokens, one after the other, and ends.
    Good {
        /// How many.
        tokens: u32,
        /// Between two of them.
        pause: Duration,
    },
    /// Sends tokens for ever, as fast as they are taken.
    Endless,
    /// Sends events without text for ever.
    EmptyEvents,
    /// Sends comments for ever.
    Comments,
    /// Sends tokens of megabytes for ever.
    HugeTokens,
    /// Sends its headers byte by byte, for ever.
    SlowHead,
    /// Sends a token byte by byte, for ever.
    SlowBody,
    /// Sends one event without end.
    HugeFrame,
    /// Sends an event of brackets.
    DeepNesting,
    /// Says that its answer is longer than it is.
    LongLength,
    /// Says that a chunk has as many bytes as there are numbers.
    EndlessChunk,
    /// Sends bytes that are no text.
    WrongEncoding,
    /// Sends headers without end.
    EndlessHead,
    /// Says nothing.
    Silent,
    /// Closes the connection in the middle of a token.
    CutOff,
    /// Says for every token that it is a million.
    ManyIds,
}

impl Behaviour {
    /// All ways to misbehave.
    pub const HOSTILE: [Self; 15] = [
        Self::Endless,
        Self::EmptyEvents,
        Self::Comments,
        Self::HugeTokens,
        Self::SlowHead,
        Self::SlowBody,
        Self::HugeFrame,
        Self::DeepNesting,
        Self::LongLength,
        Self::EndlessChunk,
        Self::WrongEncoding,
        Self::EndlessHead,
        Self::Silent,
        Self::CutOff,
        Self::ManyIds,
    ];
}

/// Starts such a server on a thread; its address. It serves as long as the process lives.
pub fn start_server(behaviour: Behaviour) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // A client that goes away ends the answer.
            thread::spawn(move || serve(connection, behaviour));
        }
    });
    Ok(url)
}

fn serve(mut connection: TcpStream, behaviour: Behaviour) -> io::Result<()> {
    let path = read_request(&mut connection)?;
    match path.as_str() {
        "/v1/models" => {
            let body = r#"{"object":"list","data":[{"id":"the-model","object":"model"}]}"#;
            write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        }
        "/v1/completions" | "/v1/chat/completions" => answer(&mut connection, behaviour),
        _ => write!(connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    }
}

/// Reads a request; its path.
fn read_request(connection: &mut TcpStream) -> io::Result<String> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    reader.take(length.unwrap_or(0)).read_to_end(&mut Vec::new())?;
    Ok(head.split(' ').nth(1).unwrap_or_default().to_owned())
}

fn answer(connection: &mut TcpStream, behaviour: Behaviour) -> io::Result<()> {
    match behaviour {
        Behaviour::SlowHead => slowly(connection, b"HTTP/1.1 200 OK\r\nX-Slow: ", b'a'),
        Behaviour::EndlessHead => {
            connection.write_all(b"HTTP/1.1 200 OK\r\n")?;
            for_ever(connection, format!("X-{}: a\r\n", "a".repeat(1000)).as_bytes())
        }
        Behaviour::Silent => {
            connection.read_to_end(&mut Vec::new())?;
            Ok(())
        }
        Behaviour::LongLength => {
            let token = token("short");
            write!(
                connection,
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n",
                1_u64 << 40
            )?;
            connection.write_all(token.as_bytes())?;
            // The rest does not come, and the connection stays.
            connection.read_to_end(&mut Vec::new()).map(drop)
        }
        _ => {
            connection.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            stream(connection, behaviour)
        }
    }
}

fn stream(connection: &mut TcpStream, behaviour: Behaviour) -> io::Result<()> {
    match behaviour {
        Behaviour::Good { tokens, pause } => well(connection, tokens, pause),
        Behaviour::Endless => for_ever(connection, &chunk(token("on ").repeat(64).as_bytes())),
        Behaviour::EmptyEvents => for_ever(connection, &chunk("data: {\"choices\":[]}\n\n".repeat(64).as_bytes())),
        Behaviour::Comments => for_ever(connection, &chunk(": keep-alive\n\n".repeat(64).as_bytes())),
        Behaviour::HugeTokens => for_ever(connection, &chunk(token(&"a".repeat(HUGE_TOKEN_BYTES)).as_bytes())),
        Behaviour::SlowBody => slowly(connection, b"ffffff\r\ndata: {\"choices\":[{\"text\":\"", b'a'),
        Behaviour::HugeFrame => {
            write!(connection, "{HUGE_FRAME_BYTES:x}\r\ndata: ")?;
            for_ever(connection, &[b'['; 4096])
        }
        Behaviour::DeepNesting => {
            let nested = format!("data: {{\"choices\":{}{}}}\n\n", "[".repeat(DEEP), "]".repeat(DEEP));
            connection.write_all(&chunk(nested.as_bytes()))?;
            connection.write_all(b"0\r\n\r\n")
        }
        Behaviour::EndlessChunk => {
            connection.write_all(b"ffffffffffffffff\r\n")?;
            for_ever(connection, token("on ").as_bytes())
        }
        Behaviour::WrongEncoding => {
            connection.write_all(&chunk(b"data: {\"choices\":[{\"text\":\"\xff\xfe\xc3\x28\"}]}\n\n"))?;
            connection.write_all(b"0\r\n\r\n")
        }
        Behaviour::CutOff => {
            connection.write_all(&chunk(token("one").as_bytes()))?;
            connection.write_all(b"40\r\ndata: {\"choices\":[{\"te")
        }
        Behaviour::ManyIds => {
            let ids = "7,".repeat(1_000_000);
            let event =
                format!("data: {{\"choices\":[{{\"text\":\"a\",\"token_ids\":[{}]}}]}}\n\n", ids.trim_end_matches(','));
            for_ever(connection, &chunk(event.as_bytes()))
        }
        _ => Ok(()),
    }
}

fn well(connection: &mut TcpStream, tokens: u32, pause: Duration) -> io::Result<()> {
    for number in 0..tokens {
        connection.write_all(&chunk(token(&format!("w{number} ")).as_bytes()))?;
        connection.flush()?;
        thread::sleep(pause);
    }
    let usage =
        format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":{tokens}}}}}\n\n");
    let end = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
    connection.write_all(&chunk(format!("{end}{usage}data: [DONE]\n\n").as_bytes()))?;
    connection.write_all(b"0\r\n\r\n")
}

/// The event of a token, for text and for messages alike.
fn token(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"text\":\"{text}\",\"finish_reason\":null}}]}}\n\n")
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn for_ever(connection: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    loop {
        connection.write_all(bytes)?;
    }
}

fn slowly(connection: &mut TcpStream, beginning: &[u8], byte: u8) -> io::Result<()> {
    connection.write_all(beginning)?;
    loop {
        connection.write_all(&[byte])?;
        thread::sleep(Duration::from_millis(20));
    }
}
