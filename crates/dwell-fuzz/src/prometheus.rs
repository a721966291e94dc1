//! Metrics as servers publish them.

use dwell_servers::parse_prometheus;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(metrics) = parse_prometheus(text) {
        assert!(metrics.keys().all(|name| !name.is_empty()));
    }
}
