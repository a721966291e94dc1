//! Speed while recording against speed without.

use crate::lab::{Lab, SMALLEST, assert_done};

#[test]
fn every_repetition_is_compared_with_the_unrecorded_run_of_its_combination() {
    let lab = Lab::new();
    lab.write("small.yaml", &SMALLEST.replace("[256]", "[256, 512]").replace("[2]", "[8], repetitions: 2"));
    let output = lab.output(&["run", "--config", "small.yaml", "--measure-slowdown", "--json"]);
    assert_done(&output);
    let rows = lab.rows();
    let of_kind = |kind: &str| rows.iter().filter(|row| row.kind == kind).collect::<Vec<_>>();
    assert_eq!((of_kind("untraced").len(), of_kind("repetition").len()), (2, 4));
    for row in of_kind("repetition") {
        let run = crate::common::Run { dir: lab.results().join(&row.path) };
        let metadata = run.metadata();
        let slowdown = &metadata["observer_effect"]["slowdown"];
        let name = slowdown["untraced_run_id"].as_str().unwrap();
        let untraced = rows.iter().find(|row| row.run_id == name).unwrap();
        assert_eq!((untraced.kind.as_str(), untraced.context_length), ("untraced", row.context_length));
        let share = slowdown["decode_speed_share"].as_f64().unwrap();
        let expected = row.avg_tok_per_s.unwrap() / untraced.avg_tok_per_s.unwrap();
        assert!((share - expected).abs() < 1e-9, "{share} instead of {expected}");
        assert!((row.slowdown.unwrap() - 1.0 / expected).abs() < 1e-9);
    }
    for row in of_kind("untraced") {
        let run = crate::common::Run { dir: lab.results().join(&row.path) };
        assert_eq!(run.metadata()["tables"]["trace"]["rows"], 0);
        assert_eq!(row.slowdown, None);
    }
}
