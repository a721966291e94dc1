//! Energy of a run, for people.

use dwell_analysis::energy::{EnergyPerToken, EnergyReport, MeterEnergy, SpanEnergy};

use super::{count, or_dash, seconds};

/// What the machine took, by phase and by token. It is the machine's: whatever else ran counts.
pub(super) fn energy_lines(report: &EnergyReport) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    match report.span("run") {
        Some(run) => lines.push(("energy", run_line(report, run))),
        None => lines.push(("energy", sensors_line(report))),
    }
    let phases: Vec<String> = report.spans.iter().filter(|span| span.name != "run").map(phase_text).collect();
    if !phases.is_empty() {
        lines.push(("", phases.join(", ")));
    }
    let per = |per: &Option<EnergyPerToken>, what: &str| per.map(|per| per_token_text(&per, what));
    let tokens: Vec<String> = [
        per(&report.per_prompt_token, "prompt token"),
        per(&report.per_decoded_token, "decoded token"),
        per(&report.per_generated_token, "generated token with its share of the prompt"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !tokens.is_empty() {
        lines.push(("", tokens.join(", ")));
    }
    lines
}

fn run_line(report: &EnergyReport, run: &SpanEnergy) -> String {
    let idle_watts = report.meters.iter().filter(|meter| report.counted.contains(&meter.source));
    let idle_watts: Option<f64> = idle_watts.map(|meter| meter.idle_watts).sum();
    let idle = match (report.idle_s, idle_watts, run.joules_above_idle) {
        (Some(idle_s), Some(watts), Some(above)) => {
            format!(
                "; {} more than idle, which took {} over {} before it",
                joules(above),
                self::watts(watts),
                seconds(idle_s)
            )
        }
        _ => "; idle power not measured".to_owned(),
    };
    format!(
        "{} in {}, {}{idle}; of the machine by {}, whatever ran",
        joules(run.joules),
        seconds(run.seconds),
        watts(run.joules / run.seconds),
        report.counted.join(", "),
    )
}

/// Meters that may overlap.
fn sensors_line(report: &EnergyReport) -> String {
    let meter = |meter: &MeterEnergy| format!("{} {}", meter.source, or_dash(meter.joules, joules));
    let meters: Vec<String> = report.meters.iter().map(meter).collect();
    format!("{}; they may overlap, so there is no sum", meters.join(", "))
}

fn phase_text(span: &SpanEnergy) -> String {
    let above = span.joules_above_idle.map_or_else(String::new, |above| format!(" ({} above idle)", joules(above)));
    format!("{} {}{above}", span.name, joules(span.joules))
}

fn per_token_text(per: &EnergyPerToken, what: &str) -> String {
    let above = per.joules_above_idle.map_or_else(String::new, |above| format!(" ({} above idle)", joules(above)));
    format!("{}{above} for each {what} ({})", joules(per.joules), count(per.tokens))
}

fn joules(value: f64) -> String {
    match value.abs() {
        large if large >= 10_000.0 => format!("{:.1} kJ", value / 1_000.0),
        large if large >= 100.0 => format!("{value:.0} J"),
        large if large >= 0.1 => format!("{value:.2} J"),
        _ => format!("{:.2} mJ", value * 1_000.0),
    }
}

fn watts(value: f64) -> String {
    format!("{value:.1} W")
}

#[cfg(test)]
mod tests {
    use dwell_events::{EnergyBasis, EnergyPart};

    use super::*;

    fn report(above: Option<f64>) -> EnergyReport {
        let meter = |source: &str, part, joules, idle_watts| MeterEnergy {
            source: source.to_owned(),
            part,
            basis: EnergyBasis::Counter,
            joules: Some(joules),
            begin_ns: None,
            end_ns: None,
            idle_watts,
        };
        let span = |name: &str, seconds, joules| SpanEnergy {
            name: name.to_owned(),
            seconds,
            joules,
            joules_above_idle: above.map(|above| above * joules),
        };
        let per =
            |tokens, joules| EnergyPerToken { tokens, joules, joules_above_idle: above.map(|above| above * joules) };
        EnergyReport {
            idle_s: above.map(|_| 2.0),
            meters: vec![
                meter("rapl:package-0", EnergyPart::Processor, 300.0, above.map(|_| 10.0)),
                meter("rapl:package-0:core", EnergyPart::InsideProcessor, 200.0, above.map(|_| 5.0)),
            ],
            counted: vec!["rapl:package-0".to_owned()],
            spans: vec![span("run", 6.0, 300.0), span("weight_load", 1.0, 50.0), span("decode", 2.0, 120.0)],
            per_prompt_token: Some(per(1_200, 0.05)),
            per_decoded_token: Some(per(60, 2.0)),
            per_generated_token: None,
        }
    }

    fn texts(report: &EnergyReport) -> Vec<String> {
        energy_lines(report).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn energy_is_said_with_and_without_what_the_idle_machine_takes() {
        let expected = [
            "300 J in 6.00 s, 50.0 W; 240 J more than idle, which took 10.0 W over 2.00 s before it; of the machine by \
             rapl:package-0, whatever ran",
            "weight_load 50.00 J (40.00 J above idle), decode 120 J (96.00 J above idle)",
            "50.00 mJ (40.00 mJ above idle) for each prompt token (1,200), 2.00 J (1.60 J above idle) for each decoded token \
             (60)",
        ];
        assert_eq!(texts(&report(Some(0.8))), expected);
        let without = texts(&report(None));
        assert!(without[0].contains("; idle power not measured; of the machine"), "{without:?}");
        assert_eq!(without[1], "weight_load 50.00 J, decode 120 J");
    }

    #[test]
    fn sensors_that_may_overlap_are_not_added_up() {
        let report = EnergyReport {
            counted: Vec::new(),
            spans: Vec::new(),
            per_prompt_token: None,
            per_decoded_token: None,
            ..report(None)
        };
        let expected = "rapl:package-0 300 J, rapl:package-0:core 200 J; they may overlap, so there is no sum";
        assert_eq!(texts(&report), [expected]);
    }
}
