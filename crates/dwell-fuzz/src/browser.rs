//! What a browser sends over its debugging pipe, and what a page reports in it.

use std::io::BufReader;

use dwell_browser::read_message;

pub(crate) fn run(bytes: &[u8]) {
    let mut stream = BufReader::new(bytes);
    let mut message = Vec::new();
    while let Ok(true) = read_message(&mut stream, &mut message) {
        let Ok(text) = std::str::from_utf8(&message) else { continue };
        let _ = dwell_servers::check_page_report(text);
    }
}
