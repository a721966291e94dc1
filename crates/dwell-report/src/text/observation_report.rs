//! What observations say, as text.

use dwell_observe::{DeviceReport, ObservationReport, SignalReport, SlowTokens};

use super::{bytes, count, counted, or_dash, seconds, table};

/// Columns of the table that hold percentiles.
const PERCENTILES: usize = 4;

/// Devices, and what goes with slow tokens.
pub fn observation_report_text(report: &ObservationReport) -> String {
    let lost = counted(report.lost, "event");
    let mut text =
        format!("observed  {}, {}, {lost} lost\n", seconds(report.span_s), counted(report.lines as u64, "interval"));
    if report.devices.is_empty() {
        text.push_str("\nno block requests were observed\n");
    } else {
        let head =
            ["device", "requests", "bytes", "IOPS", "queue", "mean", "p50", "p90", "p95", "p99"].map(str::to_owned);
        let lines: Vec<Vec<String>> =
            [head.to_vec()].into_iter().chain(report.devices.iter().map(device_line)).collect();
        text.push_str(&format!("\n{}", table(&lines)));
        if report.devices.iter().any(|device| device.percentiles.is_empty()) {
            text.push_str("\nPercentiles need `dwell observe` with eBPF; the kernel's counters give the mean.\n");
        }
    }
    if let Some(tokens) = &report.slow_tokens {
        text.push_str(&format!("\n{}", slow_tokens_text(tokens)));
    }
    text
}

fn device_line(device: &DeviceReport) -> Vec<String> {
    let queue = or_dash(device.queue_depth, |depth| format!("{depth:.2}"));
    let mean = or_dash(device.latency_ms_mean, |mean_ms| seconds(mean_ms / 1e3));
    let mut line = vec![
        device.name.clone(),
        count(device.requests),
        bytes(device.bytes),
        format!("{:.0}", device.iops),
        queue,
        mean,
    ];
    let percentile = |at: usize| or_dash(device.percentiles.get(at), |found| seconds(found.estimate_us / 1e6));
    line.extend((0..PERCENTILES).map(percentile));
    line
}

fn slow_tokens_text(found: &SlowTokens) -> String {
    let joined = format!("{} of {}", found.joined_tokens, counted(found.tokens as u64, "token"));
    let mut text = format!("tokens    {joined} end in {}\n", counted(found.intervals as u64, "interval"));
    if found.signals.is_empty() {
        let why = match found.intervals {
            0 if found.tokens > 0 => "the run and the observation do not overlap in time".to_owned(),
            few if few < found.intervals_needed => {
                format!("not enough tokens: {} intervals with tokens are needed", found.intervals_needed)
            }
            _ => "no signal changes".to_owned(),
        };
        text.push_str(&format!("          {why}\n"));
        return text;
    }
    let head = ["signal", "rank correlation", "lag", "", "is"].map(str::to_owned).to_vec();
    let lines: Vec<Vec<String>> = [head].into_iter().chain(found.signals.iter().map(signal_line)).collect();
    text.push_str(&format!("\ntime per token against\n{}", table(&lines)));
    text.push_str(&format!(
        "\nBrackets hold each correlation with {:.2} % confidence, all of them together with 95 %. A correlation is no cause.\n",
        found.confidence * 100.0
    ));
    text
}

fn signal_line(signal: &SignalReport) -> Vec<String> {
    let found = signal.strongest;
    let lag = match signal.lag_intervals {
        0 => "same interval".to_owned(),
        lag if lag > 0 => format!("{} before", counted(lag.unsigned_abs().into(), "interval")),
        lag => format!("{} after", counted(lag.unsigned_abs().into(), "interval")),
    };
    let clear = if signal.is_clear { "clear" } else { "not clear" };
    vec![
        signal.signal.to_owned(),
        format!("{:+.2} [{:+.2}, {:+.2}]", found.rho, found.low, found.high),
        lag,
        clear.to_owned(),
        signal.meaning.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use dwell_observe::{Line, TokenTime, observation_report};

    use super::*;

    #[test]
    fn too_few_tokens_and_missing_latencies_are_said() {
        let line = Line { timestamp: 5.0, interval_s: 5.0, begin_ns: 0, end_ns: 5_000_000_000, ..Line::default() };
        let token = TokenTime { begin_ns: 1, end_ns: 2 };
        let text = observation_report_text(&observation_report(vec![line], Some(&[token])));
        let expected = "observed  5.00 s, 1 interval, 0 events lost\n\
                        \nno block requests were observed\n\
                        \ntokens    1 of 1 token end in 1 interval\n          not enough tokens: 12 intervals with tokens are needed\n";
        assert_eq!(text, expected);
    }
}
