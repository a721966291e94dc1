//! TCP of the whole machine, from `/proc/net/snmp`.

use dwell_host::Root;
use dwell_observe::TcpUse;

/// The counters since boot.
pub(crate) fn read_tcp(root: &Root) -> Result<TcpUse, String> {
    let path = root.path("proc/net/snmp");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("reading {} failed: {error}", path.display()))?;
    parse(&text).ok_or_else(|| format!("{} has no counters of TCP", path.display()))
}

/// Two lines belong together: names, then values.
fn parse(text: &str) -> Option<TcpUse> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |name: &str| {
        let at = names.split_ascii_whitespace().position(|word| word == name)?;
        values.split_ascii_whitespace().nth(at)?.parse().ok()
    };
    Some(TcpUse {
        segments_received: value("InSegs")?,
        segments_sent: value("OutSegs")?,
        segments_retransmitted: value("RetransSegs")?,
    })
}

/// What was counted since an earlier reading.
pub(crate) fn tcp_since(now: &TcpUse, earlier: &TcpUse) -> TcpUse {
    TcpUse {
        segments_received: now.segments_received.saturating_sub(earlier.segments_received),
        segments_sent: now.segments_sent.saturating_sub(earlier.segments_sent),
        segments_retransmitted: now.segments_retransmitted.saturating_sub(earlier.segments_retransmitted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: InSegs X OutSegs RetransSegs\nTcp: 10 -1 20 3\n";
        let found = TcpUse { segments_received: 10, segments_sent: 20, segments_retransmitted: 3 };
        assert_eq!(parse(text), Some(found.clone()));
        assert_eq!(tcp_since(&found, &found), TcpUse::default());
        assert_eq!(parse("Tcp: InSegs\n"), None);
    }
}
