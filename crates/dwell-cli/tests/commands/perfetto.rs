//! A run as a trace of Perfetto, read back with Perfetto's own schema.

use std::fs;
use std::path::Path;
use std::process::Command;

use dwell_events::schema::Table;
use dwell_gguf::MakeSpec;
use serde_json::Value;

use crate::common::{Workplace, cached, dwell, skip, text, text_of, wide};

/// Counts slices by track, checks that each ends after it began, and adds up what they are annotated with.
const SCRIPT: &str = "\
import collections, json, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
trace = Trace(); trace.ParseFromString(open(sys.argv[1], 'rb').read())
names, counters, open_slices = {}, {}, collections.defaultdict(list)
slices, sums = collections.Counter(), collections.Counter()
for packet in trace.packet:
    if packet.HasField('track_descriptor'):
        track = packet.track_descriptor
        names[track.uuid] = track.process.process_name if track.HasField('process') else track.name
        if track.HasField('counter'): counters[track.name] = []
    if packet.HasField('track_event'):
        event = packet.track_event
        track = names[event.track_uuid]
        if event.type == event.TYPE_SLICE_BEGIN:
            open_slices[track].append(packet.timestamp)
            slices[track] += 1
            for note in event.debug_annotations: sums[track, note.name] += note.uint_value
        elif event.type == event.TYPE_SLICE_END:
            assert open_slices[track].pop() <= packet.timestamp, track
        elif event.type == event.TYPE_COUNTER:
            counters[track].append(event.counter_value or event.double_counter_value)
assert not any(open_slices.values()), open_slices
print(json.dumps({'slices': slices, 'counters': {name: len(values) for name, values in counters.items()},
    'sums': {f'{track}/{name}': value for (track, name), value in sums.items()}, 'names': list(names.values())}))
";

#[test]
fn a_trace_for_perfetto_has_the_tokens_and_bytes_of_the_run() {
    let Some(python) = cached("venv-peer/bin/python") else {
        return skip("perfetto", "no Python with Perfetto's schema in the cache");
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() });
    let run = place.run(&model, &["--prompt", "abc", "--max-tokens", "4", "--ignore-end"]);
    let file = place.path().join("run.perfetto-trace");
    let export = || {
        dwell()
            .arg("export")
            .arg(&run.dir)
            .args(["--format", "perfetto", "-o"])
            .arg(&file)
            .arg("--json")
            .output()
            .unwrap()
    };
    let output = export();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["size_bytes"], fs::metadata(&file).unwrap().len());

    let read = Command::new(python).args(["-c", SCRIPT]).arg(&file).output().unwrap();
    if text_of(&read).contains("ModuleNotFoundError") {
        return skip("perfetto", "the Python in the cache lacks Perfetto's schema");
    }
    assert!(read.status.success(), "{}", text_of(&read));
    let found: Value = serde_json::from_slice(&read.stdout).unwrap();
    let tokens: usize = run.batches(Table::Tokens).iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(found["slices"]["Tokens of sequence 0"], tokens);
    assert_eq!(report["tokens"], tokens);
    let mut bytes = (0, 0);
    for batch in run.batches(Table::Trace) {
        for row in 0..batch.num_rows() {
            let size = wide(&batch, "size_bytes", row);
            if text(&batch, "op_type", row) == "load" { bytes.0 += size } else { bytes.1 += size }
        }
    }
    assert_eq!(found["sums"]["Operations/read_bytes"], bytes.0);
    assert_eq!(found["sums"]["Operations/written_bytes"], bytes.1);
    assert_eq!(found["slices"]["Operations"], report["operations"]);
    assert!(found["slices"]["Layers"].as_u64().unwrap() >= 2 * 4, "two layers in every step: {found}");
    assert_eq!(found["slices"]["Phases"], run.metadata()["phases"].as_array().unwrap().len());
    for counter in ["KV cache, living blocks", "weight: read", "activation: written", "Anonymous"] {
        assert!(found["counters"][counter].as_u64().unwrap() > 0, "{counter}: {found}");
    }

    let again = export();
    assert_eq!(again.status.code(), Some(2), "nothing is replaced: {}", text_of(&again));
}

#[test]
fn a_trace_is_replaced_by_force_alone_and_a_folder_of_runs_is_refused_as_one() {
    let place = Workplace::new();
    let model = place.model(MakeSpec { layers: 1, embedding: 64, feed_forward: 128, ..MakeSpec::default() });
    let run = place.run(&model, &["--prompt", "abc", "--max-tokens", "2", "--ignore-end"]);
    let file = place.path().join("run.pftrace");
    fs::write(&file, "mine").unwrap();
    let export = |path: &Path, arguments: &[&str]| {
        let mut command = dwell();
        command.arg("export").arg(path).args(["--format", "perfetto", "-o"]).arg(&file).args(arguments);
        command.output().unwrap()
    };
    let refused = export(&run.dir, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text_of(&refused).contains("hint: replace it with --force"), "{}", text_of(&refused));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let tree = export(&place.path().join("results"), &["--force"]);
    assert!(text_of(&tree).contains("takes one run, and found a folder of runs"), "{}", text_of(&tree));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine", "it is kept if there is nothing in its place");
    let replaced = export(&run.dir, &["--force"]);
    assert_eq!(replaced.status.code(), Some(0), "{}", text_of(&replaced));
    assert_ne!(fs::read(&file).unwrap(), b"mine");
}
