//! A server of fixed pages, as registries are. The tests of the command take this file in too.

#![allow(dead_code)] // Each test binary uses a part.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What a path answers.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Page {
    pub(crate) fn of(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let head = format!("200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}", body.len());
        Self { head, body }
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self { head: format!("302 Found\r\nLocation: {to}\r\nContent-Length: 0"), body: Vec::new() }
    }
}

/// A server of fixed pages. It keeps the heads of all requests.
pub(crate) struct Registry {
    pub(crate) address: String,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    pub(crate) fn serving(pages: BTreeMap<String, Page>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &pages, &seen);
            }
        });
        Self { address, requests }
    }
}

fn answer(mut stream: TcpStream, pages: &BTreeMap<String, Page>, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    while reader.read_line(&mut request).is_ok_and(|length| length > 2) {}
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(request);
    let missing = Page { head: "404 Not Found\r\nContent-Length: 0".to_owned(), body: Vec::new() };
    let page = pages.get(&path).unwrap_or(&missing);
    let _ = write!(stream, "HTTP/1.1 {}\r\nConnection: close\r\n\r\n", page.head);
    let _ = stream.write_all(&page.body);
}
