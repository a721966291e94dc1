//! Times that the program prints at its end.
//!
//! ```text
//! common_perf_print:        load time =      82.41 ms
//! common_perf_print: prompt eval time =      24.11 ms /     3 tokens (    8.04 ms per token,   124.43 tokens per second)
//! common_perf_print:        eval time =      69.76 ms /     5 runs   (   13.95 ms per token,    71.68 tokens per second)
//! common_perf_print:       total time =      95.41 ms /     8 tokens
//! ```
//!
//! A chat program has the words of the server, which counts tokens in place of runs:
//!
//! ```text
//! slot print_timing: id  0 | task 0 |        eval time =     142.54 ms /     7 tokens (   23.76 ms per token, …)
//! ```

use dwell_events::server::RequestTimings;

/// The last times of a log.
pub(super) fn timings_in(log: &str) -> RequestTimings {
    let last = |name: &str| log.lines().rev().find_map(|line| perf_line(line, name));
    let (prompt, decode) = (last("prompt eval"), last("eval"));
    RequestTimings {
        prompt_tokens: prompt.and_then(|line| line.count),
        cached_tokens: None,
        // The prompt gives the first token; each run one more.
        generated_tokens: decode.and_then(|line| Some(line.count? + u64::from(line.is_of_runs))),
        load_ns: last("load").map(|line| line.ns),
        prompt_ns: prompt.map(|line| line.ns),
        decode_ns: decode.map(|line| line.ns),
        total_ns: last("total").map(|line| line.ns),
    }
}

#[derive(Clone, Copy)]
struct PerfLine {
    ns: u64,
    count: Option<u64>,
    is_of_runs: bool,
}

fn perf_line(line: &str, name: &str) -> Option<PerfLine> {
    let (before, after) = line.split_once(" time =")?;
    // The name follows what says who speaks, with spaces that line it up.
    let named = before.rsplit_once([':', '|']).map_or(before, |(_, named)| named).trim();
    if named != name {
        return None;
    }
    let mut words = after.split_whitespace();
    let milliseconds: f64 = words.next()?.parse().ok()?;
    let mut counted = after.split_once('/').map_or("", |(_, counted)| counted).split_whitespace();
    let count = counted.next().and_then(|count| count.parse().ok());
    Some(PerfLine { ns: (milliseconds * 1e6).round() as u64, count, is_of_runs: counted.next() == Some("runs") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_several_versions_are_read() {
        let lines = "\
PREFIX:        load time =      82.41 ms
PREFIX: prompt eval time =      24.11 ms /     3 tokens (    8.04 ms per token,   124.43 tokens per second)
PREFIX:        eval time =      69.76 ms /     5 runs   (   13.95 ms per token,    71.68 tokens per second)
PREFIX:       total time =      95.41 ms /     8 tokens
PREFIX: unaccounted time =       0.62 ms /   0.7 %      (total - sampling - prompt eval - eval) / (total)
";
        let expected = RequestTimings {
            prompt_tokens: Some(3),
            cached_tokens: None,
            generated_tokens: Some(6),
            load_ns: Some(82_410_000),
            prompt_ns: Some(24_110_000),
            decode_ns: Some(69_760_000),
            total_ns: Some(95_410_000),
        };
        for prefix in ["0.00.307.851 I common_perf_print", "llama_perf_context_print", "llama_print_timings"] {
            assert_eq!(timings_in(&lines.replace("PREFIX", prefix)), expected, "{prefix}");
        }
        assert_eq!(timings_in("nothing"), RequestTimings::default());
        let of_server =
            "0.01.2 I slot print_timing: id  0 | task 0 |        eval time =     142.54 ms /     7 tokens (";
        assert_eq!(timings_in(of_server).generated_tokens, Some(7));
    }

    #[test]
    fn a_recorded_log_has_its_times() {
        let timings = timings_in(include_str!("../../tests/data/llama-completion-0.7.0-window.log"));
        assert_eq!(timings.generated_tokens, Some(3));
        assert_eq!(timings.prompt_tokens, Some(4));
        assert!(timings.load_ns.is_some() && timings.prompt_ns.is_some() && timings.decode_ns.is_some());
    }
}
