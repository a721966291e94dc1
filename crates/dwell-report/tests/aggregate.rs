//! Groups, intervals and exclusions of runs whose figures are known.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_analysis::{Value as Figure, label_of};
use dwell_report::text::aggregate_text;
use dwell_report::{
    AggregateOptions, ExclusionReason, FigureFormat, FigureInput, FigureSize, ReportError, RunResults, aggregate,
    experiment_figures, figure_named,
};
use serde_json::{Value, json};

/// A run with a context length, a retention and a kind.
fn run(run_id: &str, context_length: u32, retention_s: f64, kind: &str) -> RunResults {
    run_of(
        json!({
            "run_id": run_id, "model_id": "tiny", "state": "complete",
            "options": {"context_length": context_length, "parallel": 1, "kv_type_k": "f16", "kv_type_v": "q8_0",
                        "flash_attention": true, "threads": 2, "seed": 7, "model": format!("/{run_id}.gguf")},
            "actions": [{"do": "prompt", "text": "a", "sequences": [0]}, {"do": "generate", "max_tokens": 16, "sequences": [0]}],
            "generation": {"decode_tokens_per_s": 100.0},
            "experiment": {"id": "e1", "name": "study", "run_kind": kind},
        }),
        retention_s,
    )
}

fn run_of(metadata: Value, retention_s: f64) -> RunResults {
    let mut run = RunResults { metadata: serde_json::from_value(metadata).unwrap(), ..RunResults::default() };
    let line = |ratio: f64| {
        let names = [("suitability", "low_mrm"), ("definitions", "dwell"), ("basis", "exact")];
        let mut values = names.map(|(column, name)| (column, Figure::Text(name.to_owned()))).to_vec();
        values.push(("write_once_ratio_mean", Figure::Number(ratio)));
        values
    };
    let columns = ["retention_p99_s", "retention_p99_low_s", "needed_p99_s", "needed_p99_low_s"];
    let retention = columns.map(|column| (column, Figure::Number(retention_s))).to_vec();
    run.set_metrics(vec![("weight".into(), [line(1.0), retention].concat()), ("kv_cache".into(), line(0.5))]);
    run
}

#[test]
fn repetitions_are_summarised_and_other_runs_are_left_out_and_named() {
    let runs = [
        run("a", 256, 1.0, "repetition"),
        run("b", 256, 2.0, "repetition"),
        run("c", 256, 3.0, "repetition"),
        run("w", 256, 99.0, "warmup"),
        run("d", 512, 5.0, "repetition"),
    ];
    let found = aggregate(&runs, &AggregateOptions::default()).unwrap();
    assert_eq!((found.runs, found.groups.len()), (4, 2));
    assert_eq!(found.exclusions_text(), "1 run excluded: 1 warm-up");
    assert_eq!(found.excluded[0].run_id, "w");
    let summary = found.groups[0].region_figure("weight", "retention_p99_s").unwrap();
    // Mean 2, deviation 1, t(0.975; 2) = 4.3027: half the interval is 4.3027 / sqrt 3.
    assert_eq!((summary.n, summary.mean, summary.standard_deviation), (3, 2.0, Some(1.0)));
    assert!((summary.ci95_high.unwrap() - (2.0 + 4.302_652_7 / 3f64.sqrt())).abs() < 1e-6);
    let single = found.groups[1].region_figure("weight", "retention_p99_s").unwrap();
    assert_eq!((single.n, single.ci95_low, single.ci95_high), (1, None, None));
    assert!(found.has_small_groups());
    assert_eq!(found.label_of(&found.groups[1]), "context 512");
    assert_eq!(found.groups[0].region_figure("kv_cache", "retention_p99_s"), None, "an empty field is no zero");
    assert_eq!(found.groups[0].regions[0].suitability["low_mrm"], 3);
}

#[test]
fn the_csv_has_a_line_per_group_region_and_metric() {
    let runs = [run("a", 256, 1.0, "repetition"), run("b", 256, 3.0, "repetition")];
    let csv = aggregate(&runs, &AggregateOptions::default()).unwrap().summary_csv();
    let line = csv.lines().find(|line| line.contains(",weight,retention_p99_s,")).unwrap();
    assert!(line.starts_with("tiny,256,1,16,f16/q8_0,on,2,"), "{line}");
    assert!(
        line.ends_with(",weight,retention_p99_s,2,2,1.4142135623730951,,,1,3"),
        "two runs have no interval: {line}"
    );
    assert!(csv.lines().any(|line| line.ends_with(",,decode_tokens_per_s,2,100,0,,,100,100")), "{csv}");
    assert!(csv.lines().any(|line| line.contains(",weight,suitability_is_low_mrm,2,1,")), "{csv}");
}

/// Runs whose decoding was as fast as these shares of unrecorded runs of these names.
fn slowed(shares: &[(f64, &str)]) -> Vec<RunResults> {
    let run = |(share, untraced): &(f64, &str)| {
        let mut run = run("a", 256, 1.0, "repetition");
        let effect = json!({"slowdown": {"untraced_run_id": untraced, "decode_speed_share": share}});
        run.metadata.observer_effect = Some(serde_json::from_value(effect).unwrap());
        run
    };
    shares.iter().map(run).collect()
}

#[test]
fn the_interval_of_a_speed_share_counts_the_noise_of_the_one_unrecorded_run() {
    let values = [0.9f64, 0.95, 1.0];
    let share = |names: [&'static str; 3]| {
        let runs = slowed(&[(values[0], names[0]), (values[1], names[1]), (values[2], names[2])]);
        aggregate(&runs, &AggregateOptions::default()).unwrap().groups[0].figures["decode_speed_share"]
    };
    let (shared, apart) = (share(["u", "u", "u"]), share(["u", "v", "w"]));
    let width = |low: Option<f64>, high: Option<f64>| high.unwrap().ln() - low.unwrap().ln();
    // √(1/3 + 1) instead of √(1/3) of the same deviation.
    assert!((width(shared.ci95_low, shared.ci95_high) / width(apart.ci95_low, apart.ci95_high) - 2.0).abs() < 1e-9);
    assert_eq!((shared.n, shared.mean, shared.standard_deviation), (apart.n, apart.mean, apart.standard_deviation));
    let text = dwell_report::text::aggregate_text(
        &aggregate(&slowed(&[(0.9, "u"), (0.95, "u"), (1.0, "u")]), &AggregateOptions::default()).unwrap(),
        &[],
    );
    assert!(text.contains("speed of untraced decoding 0.950 ("), "both ends, which are not alike: {text}");
}

#[test]
fn excluded_runs_can_be_taken_in_and_that_is_stated() {
    let runs = [run("a", 256, 1.0, "repetition"), run("w", 256, 3.0, "warmup")];
    let options = AggregateOptions { include: vec![ExclusionReason::Warmup], ..AggregateOptions::default() };
    let found = aggregate(&runs, &options).unwrap();
    assert_eq!(found.groups[0].region_figure("weight", "retention_p99_s").unwrap().n, 2);
    assert_eq!(found.exclusions_text(), "no run excluded; taken in on request: 1 warm-up");
}

#[test]
fn runs_that_differ_in_anything_but_their_seed_are_not_repetitions() {
    let metadata = |text: &str, seed: u32, cpu: &str| {
        json!({"model_id": "tiny", "state": "complete", "host": {"cpu_model": cpu}, "options": {"seed": seed},
               "actions": [{"do": "prompt", "text": text}]})
    };
    let groups = |other: Value| {
        let runs = [run_of(metadata("a", 1, "x"), 1.0), run_of(other, 1.0)];
        aggregate(&runs, &AggregateOptions::default()).unwrap().groups.len()
    };
    assert_eq!(groups(metadata("a", 2, "x")), 1);
    assert_eq!(groups(metadata("b", 1, "x")), 2);
    assert_eq!(groups(metadata("a", 1, "y")), 2);
}

#[test]
fn one_experiment_can_be_chosen_by_id_or_name_and_an_unknown_one_is_refused() {
    let other = run_of(json!({"model_id": "tiny", "state": "complete"}), 1.0);
    let runs = [run("a", 256, 1.0, "repetition"), other];
    for wanted in ["e1", "study"] {
        let options = AggregateOptions { experiment: Some(wanted.to_owned()), ..AggregateOptions::default() };
        assert_eq!(aggregate(&runs, &options).unwrap().runs, 1);
    }
    let options = AggregateOptions { experiment: Some("x".to_owned()), ..AggregateOptions::default() };
    let error = aggregate(&runs, &options).unwrap_err();
    assert!(matches!(error, ReportError::UnknownExperiment { .. }));
    assert!(error.to_string().contains("study (e1)"), "{error}");
}

#[test]
fn chosen_columns_alone_are_aggregated() {
    let options = AggregateOptions { columns: vec!["retention_p99_s".to_owned()], ..AggregateOptions::default() };
    let found = aggregate(&[run("a", 256, 1.0, "repetition")], &options).unwrap();
    let weight = found.groups[0].regions.iter().find(|region| region.region_type == "weight").unwrap();
    assert_eq!(weight.figures.keys().collect::<Vec<_>>(), ["retention_p99_s"]);
    assert!(weight.suitability.is_empty());
}

#[test]
fn figures_show_the_numbers_and_are_the_same_bytes_again() {
    let runs =
        [run("a", 256, 1.0, "repetition"), run("b", 256, 3.0, "repetition"), run("c", 512, 0.0625, "repetition")];
    let found = aggregate(&runs, &AggregateOptions::default()).unwrap();
    let figures = experiment_figures(&found).unwrap();
    let names: Vec<&str> = figures.iter().map(|figure| figure.name()).collect();
    assert_eq!(names, ["experiment"]);
    // Speed and write-once ratio are the same everywhere: only retention varies.
    let header = "metric,unit,line,x_name,x,n,mean,ci95_low,ci95_high,is_lower_bound\n";
    let rows = "weight_needed_p99_low_s,s,,context_length,256.0,2,2,,,false\n\
                weight_needed_p99_low_s,s,,context_length,512.0,1,0.0625,,,false\n";
    assert_eq!(figures[0].csv(), format!("{header}{rows}"));
    let svg = figures[0].svg();
    for text in [">Weights<", ">needed, p99", ">context length<", ">256<", ">512<"] {
        assert!(svg.contains(text), "no {text:?} in {svg}");
    }
    assert_eq!(figures, experiment_figures(&found).unwrap());
}

#[test]
fn the_figures_of_repetitions_have_the_labels_of_those_of_one_run() {
    let runs = [run("a", 256, 1.0, "repetition"), run("b", 256, 2.0, "repetition")];
    let text = aggregate_text(&aggregate(&runs, &AggregateOptions::default()).unwrap(), &[]);
    for label in [label_of("retention_p99_s"), label_of("write_once_ratio_mean")] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{label} "))), "{label}: {text}");
    }
    assert!(!text.contains("retention_p99_s") && text.contains("once: stored once"), "{text}");
}

#[test]
fn what_is_below_one_step_or_the_resolution_stays_so_over_repetitions() {
    let with = |run_id: &str, needed_s: f64, steps: f64| {
        let mut found = run(run_id, 256, 1.0, "repetition");
        let number = |column, value| (column, Figure::Number(value));
        found.set_metrics(vec![(
            "activation".into(),
            vec![
                number("needed_p99_s", needed_s),
                number("retention_p99_steps", steps),
                number("retention_p50_s", 0.0),
                number("stays_p50_s", 0.0),
                number("kept_low_share", 0.0),
                number("kept_high_share", 0.25),
                number("suitability_tokens_per_s", 20.0),
                number("time_resolution_s", 31e-6),
            ],
        )]);
        found
    };
    let text = |runs: &[RunResults]| aggregate_text(&aggregate(runs, &AggregateOptions::default()).unwrap(), &[]);
    let below = text(&[with("a", 0.0, 0.0), with("b", 0.0, 0.0), with("c", 0.0, 0.0)]);
    let row = |text: &str, label: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{label} "))).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{label}: {text}"))[label.len()..].trim().to_owned()
    };
    assert_eq!(row(&below, "needed p99"), "< 50.0 ms");
    assert_eq!(row(&below, "steps p99"), "< 1");
    assert_eq!(row(&below, "stays p50"), "< 50.0 ms");
    assert_eq!(row(&below, "p50 in this run"), "< 31.0 µs");
    assert_eq!(row(&below, "kept"), "0–25.0 %");
    assert!(!below.contains("0 s ± 0 s") && !below.contains("0.00 ± 0.00"), "{below}");
    let partly = text(&[with("a", 0.0, 0.0), with("b", 0.1, 2.0), with("c", 0.0, 0.0)]);
    assert_eq!((row(&partly, "needed p99").as_str(), row(&partly, "steps p99").as_str()), ("≤ 100 ms", "≤ 2"));
}

#[test]
fn an_experiment_that_only_some_runs_belong_to_is_said_to_have_these() {
    let other = run_of(json!({"model_id": "tiny", "state": "complete"}), 1.0);
    let heading = |runs: &[RunResults]| {
        let text = aggregate_text(&aggregate(runs, &AggregateOptions::default()).unwrap(), &[]);
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(heading(&[run("a", 256, 1.0, "repetition")]), "experiment study");
    assert_eq!(heading(&[run("a", 256, 1.0, "repetition"), other]), "experiment study (1 of 2 runs)");
}

#[test]
fn a_single_metric_is_drawn_by_its_name_and_bounds_are_said_to_be_bounds() {
    let mut bounded = run("a", 256, 4.0, "repetition");
    let low = ("needed_p99_low_s", Figure::Number(4.0));
    bounded.set_metrics(vec![("weight".into(), vec![low])]);
    let found = aggregate(&[bounded, run("b", 512, 2.0, "repetition")], &AggregateOptions::default()).unwrap();
    let kind = figure_named("experiment").unwrap();
    let draw =
        |metric| kind.draw(&FigureInput::Experiment { aggregate: &found, metric: Some(metric) }, FigureSize::Column);
    let drawn = draw("weight_needed_p99_low_s").unwrap();
    assert_eq!(drawn.name(), "experiment-weight_needed_p99_low_s");
    let bounds: Vec<bool> = drawn.csv().lines().skip(1).map(|line| line.ends_with(",true")).collect();
    assert_eq!(bounds, [true, false]);
    let png = drawn.file(FigureFormat::Png).unwrap();
    assert_eq!((&png[1..4], u32::from_be_bytes(png[16..20].try_into().unwrap())), (&b"PNG"[..], 1004));
    assert!(drawn.file(FigureFormat::Pdf).unwrap().starts_with(b"%PDF"));
    let unknown = draw("weight_needed_p99").unwrap_err();
    assert!(matches!(unknown, ReportError::UnknownPlot { nearest: Some(_), .. }), "{unknown}");
    assert!(unknown.to_string().contains("decode_tokens_per_s"), "{unknown}");
}
