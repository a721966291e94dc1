//! The report on energy.

use dwell_events::{EnergyBasis, EnergyPart, Phase, PhaseSpan, RequestSpan};
use serde::{Deserialize, Serialize};

use super::EnergySeries;
use super::series::MeterSeries;
use super::spans::{Span, union, without};
use crate::memory::TokenTimes;

/// What a report on energy is made from.
#[derive(Clone, Copy, Debug)]
pub struct EnergyInputs<'a> {
    /// What the meters said.
    pub series: &'a EnergySeries,
    /// Phases with their first and last moment.
    pub phases: &'a [PhaseSpan],
    /// Requests to a server.
    pub requests: &'a [RequestSpan],
    /// Times of the tokens.
    pub tokens: &'a TokenTimes,
    /// Tokens of prompts that were computed; none if that is not known.
    pub prompt_tokens: Option<u64>,
}

/// Energy of a run: of the machine, as far as its meters cover it, not of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnergyReport {
    /// How long the power of the idle machine was measured before the run; none if it was not.
    pub idle_s: Option<f64>,
    /// The meters.
    pub meters: Vec<MeterEnergy>,
    /// Names of the meters whose sum the figures below are; empty if none of them covers a known part of the machine.
    pub counted: Vec<String>,
    /// The whole run, then its phases.
    pub spans: Vec<SpanEnergy>,
    /// Energy of prompts for each of their tokens that was computed.
    pub per_prompt_token: Option<EnergyPerToken>,
    /// Energy of decoding for each token that it gave; the first of an answer comes from its prompt.
    pub per_decoded_token: Option<EnergyPerToken>,
    /// Energy of prompts and decoding for each token that was generated.
    pub per_generated_token: Option<EnergyPerToken>,
}

/// What a meter said of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterEnergy {
    /// Its name.
    pub source: String,
    /// What it covers.
    pub part: EnergyPart,
    /// How it knows.
    pub basis: EnergyBasis,
    /// Energy during the run; none without two samples.
    pub joules: Option<f64>,
    /// From when.
    pub begin_ns: Option<u64>,
    /// Until when.
    pub end_ns: Option<u64>,
    /// Mean power before the run; none if it was not measured.
    pub idle_watts: Option<f64>,
}

/// Energy of a part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanEnergy {
    /// `run`, `weight_load`, `setup`, `prefill`, `decode` or `teardown`.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// Energy of the machine.
    pub joules: f64,
    /// What it took beyond the power of the idle machine; none if that was not measured.
    pub joules_above_idle: Option<f64>,
}

/// Energy for each token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyPerToken {
    /// How many tokens.
    pub tokens: u64,
    /// Energy of the machine for each.
    pub joules: f64,
    /// What it took beyond the power of the idle machine; none if that was not measured.
    pub joules_above_idle: Option<f64>,
}

impl EnergyReport {
    /// None if no meter said anything.
    pub fn of(inputs: &EnergyInputs<'_>) -> Option<Self> {
        if inputs.series.is_empty() {
            return None;
        }
        let counted = inputs.series.counted();
        let prefill_and_decode = prefill_and_decode(inputs);
        let spans = named_spans(inputs, &counted, &prefill_and_decode);
        let energies = spans.iter().filter_map(|(name, spans)| energy_of(&counted, name, spans)).collect();
        let [prefill, decode] = &prefill_and_decode;
        let both = union([&prefill[..], decode].concat());
        let per = |spans: &[Span], tokens: u64| {
            energy_of(&counted, "", spans).filter(|_| tokens > 0).map(|energy| EnergyPerToken {
                tokens,
                joules: energy.joules / tokens as f64,
                joules_above_idle: energy.joules_above_idle.map(|joules| joules / tokens as f64),
            })
        };
        let decoded = inputs.tokens.answers().iter().map(|answer| answer.tokens - 1).sum();
        Some(Self {
            idle_s: inputs.series.meters().iter().find_map(MeterSeries::idle).map(|(_, seconds)| seconds),
            meters: inputs.series.meters().iter().map(meter_energy).collect(),
            counted: counted.iter().map(|meter| meter.name.source.clone()).collect(),
            spans: energies,
            per_prompt_token: per(prefill, inputs.prompt_tokens.unwrap_or(0)),
            per_decoded_token: per(decode, decoded),
            per_generated_token: per(&both, inputs.tokens.generated()),
        })
    }

    /// The energy of a part of the run, by its name.
    pub fn span(&self, name: &str) -> Option<&SpanEnergy> {
        self.spans.iter().find(|span| span.name == name)
    }
}

fn meter_energy(meter: &MeterSeries) -> MeterEnergy {
    let run = meter.run_span();
    MeterEnergy {
        source: meter.name.source.clone(),
        part: meter.name.part,
        basis: meter.name.basis,
        joules: run.as_ref().and_then(|span| meter.joules_in(span)),
        begin_ns: run.as_ref().map(|span| span.start),
        end_ns: run.as_ref().map(|span| span.end),
        idle_watts: meter.idle().map(|(watts, _)| watts),
    }
}

/// A moment counts as decoding if any sequence has had its first token of an answer and not its last, and else as a prompt if a
/// request is open, or while the engine generates where there are no requests.
fn prefill_and_decode(inputs: &EnergyInputs<'_>) -> [Vec<Span>; 2] {
    let decode = union(inputs.tokens.answers().iter().map(|answer| answer.first_ns..answer.last_ns).collect());
    let last_token_ns = inputs.tokens.span().map(|(_, last_ns)| last_ns);
    let open = match inputs.requests {
        [] => phase_spans(inputs.phases, Phase::Generation)
            .into_iter()
            .filter_map(|span| Some(span.start..span.end.min(last_token_ns?)))
            .collect(),
        requests => requests.iter().filter_map(|request| Some(request.begin_ns..request.first_token_ns?)).collect(),
    };
    let prefill = without(&union(open), &decode);
    [prefill, decode]
}

fn phase_spans(phases: &[PhaseSpan], wanted: Phase) -> Vec<Span> {
    union(phases.iter().filter(|span| span.phase == wanted).map(|span| span.begin_ns..span.end_ns).collect())
}

fn named_spans(
    inputs: &EnergyInputs<'_>,
    counted: &[&MeterSeries],
    [prefill, decode]: &[Vec<Span>; 2],
) -> Vec<(&'static str, Vec<Span>)> {
    let phase = |phase: Phase| (phase.name(), phase_spans(inputs.phases, phase));
    let run = union(counted.iter().filter_map(|meter| meter.run_span()).collect());
    vec![
        ("run", run),
        phase(Phase::WeightLoad),
        phase(Phase::Setup),
        ("prefill", prefill.clone()),
        ("decode", decode.clone()),
        phase(Phase::Teardown),
    ]
}

/// None if it took no time, or a meter has no two samples.
fn energy_of(counted: &[&MeterSeries], name: &str, spans: &[Span]) -> Option<SpanEnergy> {
    let seconds = spans.iter().map(|span| (span.end - span.start) as f64 / 1e9).sum::<f64>();
    if seconds == 0.0 || counted.is_empty() {
        return None;
    }
    let of_meter = |meter: &&MeterSeries| spans.iter().map(|span| meter.joules_in(span)).sum::<Option<f64>>();
    let joules = counted.iter().map(of_meter).sum::<Option<f64>>()?;
    let idle_watts = counted.iter().map(|meter| Some(meter.idle()?.0)).sum::<Option<f64>>();
    let joules_above_idle = idle_watts.map(|watts| joules - watts * seconds);
    Some(SpanEnergy { name: name.to_owned(), seconds, joules, joules_above_idle })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use dwell_events::EnergyMeterName;
    use dwell_events::schema::tokens::TokenRow;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A machine that takes 10 W until second 2, then 30 W to second 4, then 50 W, of which the GPU takes all beyond 5 W.
    fn series(has_idle: bool) -> EnergySeries {
        let mut series = EnergySeries::default();
        let meters = [("rapl:package-0", EnergyPart::Processor), ("nvml:0", EnergyPart::Gpu)];
        for (source, part) in meters {
            let name = EnergyMeterName { source: source.to_owned(), part, basis: EnergyBasis::Counter };
            let mut joules = 0.0;
            for second in 0..=10 {
                series.push(&name, second * SECOND, joules, has_idle && second <= 2);
                let watts = [10.0, 30.0, 50.0][usize::from(second >= 2) + usize::from(second >= 4)];
                joules += if part == EnergyPart::Processor { 5.0 } else { watts - 5.0 };
            }
        }
        series
    }

    fn token(sequence: i32, step: u32, second: u64) -> TokenRow {
        TokenRow {
            token_index: 0,
            step,
            sequence,
            position: None,
            token_id: None,
            text: String::new(),
            is_generated: true,
            begin_ns: 0,
            end_ns: second * SECOND,
            rss_bytes: None,
            kv_bytes: None,
            pss_bytes: None,
            anon_bytes: None,
            gpu_bytes: None,
        }
    }

    fn tokens(times: &[u64]) -> TokenTimes {
        let mut tokens = TokenTimes::default();
        (0..).zip(times).for_each(|(step, &second)| tokens.push(&token(0, step, second)));
        tokens
    }

    fn phases() -> Vec<PhaseSpan> {
        let span = |phase, begin: u64, end: u64| PhaseSpan { phase, begin_ns: begin * SECOND, end_ns: end * SECOND };
        vec![span(Phase::WeightLoad, 2, 4), span(Phase::Generation, 4, 9), span(Phase::Teardown, 9, 10)]
    }

    #[test]
    fn each_phase_has_its_energy_with_and_without_that_of_the_idle_machine() {
        let (series, tokens, phases) = (series(true), tokens(&[6, 7, 8]), phases());
        let inputs =
            EnergyInputs { series: &series, phases: &phases, requests: &[], tokens: &tokens, prompt_tokens: Some(50) };
        let report = EnergyReport::of(&inputs).unwrap();
        let found: Vec<(&str, f64, f64, Option<f64>)> = report
            .spans
            .iter()
            .map(|span| (span.name.as_str(), span.seconds, span.joules, span.joules_above_idle))
            .collect();
        // 2 s of 30 W and 6 s of 50 W; 10 W are of the idle machine.
        assert_eq!(
            found,
            [
                ("run", 8.0, 360.0, Some(280.0)),
                ("weight_load", 2.0, 60.0, Some(40.0)),
                ("prefill", 2.0, 100.0, Some(80.0)),
                ("decode", 2.0, 100.0, Some(80.0)),
                ("teardown", 1.0, 50.0, Some(40.0)),
            ]
        );
        let per = |tokens, joules, above| Some(EnergyPerToken { tokens, joules, joules_above_idle: Some(above) });
        assert_eq!(report.per_prompt_token, per(50, 2.0, 1.6));
        assert_eq!(report.per_decoded_token, per(2, 50.0, 40.0));
        assert_eq!(report.per_generated_token, per(3, 200.0 / 3.0, 160.0 / 3.0));
        assert_eq!((report.idle_s, report.counted), (Some(2.0), vec!["rapl:package-0".into(), "nvml:0".into()]));
        let meters: Vec<_> = report.meters.iter().map(|meter| (meter.joules, meter.idle_watts)).collect();
        assert_eq!(meters, [(Some(40.0), Some(5.0)), (Some(320.0), Some(5.0))]);
    }

    #[test]
    fn without_a_measured_idle_power_nothing_is_said_beyond_it() {
        let (series, tokens) = (series(false), TokenTimes::default());
        let inputs = EnergyInputs { series: &series, phases: &[], requests: &[], tokens: &tokens, prompt_tokens: None };
        let report = EnergyReport::of(&inputs).unwrap();
        let run = report.span("run").unwrap();
        assert_eq!((run.joules, run.joules_above_idle, report.idle_s), (380.0, None, None));
        assert_eq!(report.spans.len(), 1);
        assert_eq!((report.per_decoded_token, report.per_generated_token), (None, None));
    }

    #[test]
    fn a_request_is_a_prompt_until_its_first_token_and_another_one_that_decodes_counts_more() {
        let (series, mut tokens) = (series(true), tokens(&[6, 7]));
        tokens.push(&token(1, 0, 8));
        tokens.push(&token(1, 1, 9));
        let request = |begin: u64, first: u64| RequestSpan {
            begin_ns: begin * SECOND,
            first_token_ns: Some(first * SECOND),
            ..RequestSpan::default()
        };
        let requests = [request(4, 6), request(5, 8)];
        let inputs =
            EnergyInputs { series: &series, phases: &[], requests: &requests, tokens: &tokens, prompt_tokens: None };
        let report = EnergyReport::of(&inputs).unwrap();
        // From 4 to 6 and from 7 to 8; decoding from 6 to 7 and from 8 to 9.
        assert_eq!(report.span("prefill").unwrap().seconds, 3.0);
        assert_eq!(report.span("decode").unwrap().seconds, 2.0);
        assert_eq!(report.per_decoded_token.unwrap().joules, 50.0);
    }

    #[test]
    fn sensors_that_may_overlap_are_stated_and_give_no_sum() {
        let mut series = EnergySeries::default();
        let name =
            EnergyMeterName { source: "hwmon:x".to_owned(), part: EnergyPart::Sensor, basis: EnergyBasis::Power };
        series.push(&name, 0, 0.0, false);
        series.push(&name, SECOND, 7.0, false);
        let tokens = TokenTimes::default();
        let inputs = EnergyInputs { series: &series, phases: &[], requests: &[], tokens: &tokens, prompt_tokens: None };
        let report = EnergyReport::of(&inputs).unwrap();
        assert_eq!((report.counted.len(), report.spans.len(), report.meters[0].joules), (0, 0, Some(7.0)));
        let none = EnergyInputs { series: &EnergySeries::default(), ..inputs };
        assert_eq!(EnergyReport::of(&none), None);
    }
}
