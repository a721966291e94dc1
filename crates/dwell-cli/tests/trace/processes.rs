//! Several processes of one command: all of them are in the trace, each with its own addresses.

use std::collections::BTreeSet;
use std::process::Command;

use arrow_array::RecordBatch;
use arrow_array::types::UInt64Type;
use dwell_events::schema::Table;
use rustix::process::Signal;

use crate::common::{Access, Run, Workplace, dwell, optional, send, text, text_of, wait_for, wide};
use crate::packages::{PYTHON, assert_kv_bytes_are_arithmetic, small_model};
use crate::{done, python_with_llama, trace, traced_run};

/// Above this bit of an address stands the number of its process.
const PROCESS_SHIFT: u32 = 56;

fn of_process(accesses: &[Access], process: u64) -> Vec<&Access> {
    accesses.iter().filter(|access| access.address >> PROCESS_SHIFT == process).collect()
}

/// Both processes do the same, from the same state of memory, so that their addresses would collide.
fn forks(place: &Workplace, script: &str, name: &str) {
    let Some(python) = python_with_llama(name) else { return };
    let model = small_model(place);
    let command = [python.to_str().unwrap(), "-c", script, model.to_str().unwrap()];
    let (run, output) = done(place, trace(place, &["--quiet"], &command));
    // The lines of two processes may come mixed, piece by piece; no piece of them is lost.
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.matches("token").count(), 12, "{said}");
    let metadata = run.metadata();
    let processes = metadata["processes"].as_array().unwrap();
    let pids: BTreeSet<u64> = processes.iter().map(|process| process["pid"].as_u64().unwrap()).collect();
    let numbers: Vec<u64> = processes.iter().map(|process| process["process"].as_u64().unwrap()).collect();
    assert_eq!((pids.len(), numbers), (2, vec![0, 1]));
    let accesses = run.accesses();
    assert!(accesses.is_sorted_by_key(|access| access.timestamp_ns), "rows of both by time");
    for process in [0, 1] {
        assert_kv_bytes_are_arithmetic(&of_process(&accesses, process), &model);
    }
    assert_eq!(of_process(&accesses, 0).len() + of_process(&accesses, 1).len(), accesses.len());
    assert!(!run.losses().iter().any(|(kind, _)| kind == "unlabelled_programs" || kind == "undecodable_records"));
}

#[test]
fn a_child_that_computes_is_traced_beside_its_parent() {
    let script = format!("import os, sys\nif os.fork() == 0:\n    pass\n{PYTHON}\nsys.stdout.flush()\n");
    // The parent outlives its child, so that both are waited for.
    let script = format!("{script}\ntry:\n    os.wait()\nexcept ChildProcessError:\n    pass\n");
    forks(&Workplace::new(), &script, "a_child_that_computes_is_traced_beside_its_parent");
}

#[test]
fn a_child_that_is_forked_from_a_loaded_model_has_a_ring_of_its_own() {
    let generate = "for count, token in enumerate(llm.generate([5, 6, 7, 8], temp=0.0), 1):";
    let script = PYTHON.replace(generate, &format!("import os\nchild = os.fork()\n{generate}"));
    let script = format!("{script}\nif child:\n    os.wait()\n");
    forks(&Workplace::new(), &script, "a_child_that_is_forked_from_a_loaded_model_has_a_ring_of_its_own");
}

#[test]
fn a_process_that_computes_and_cannot_make_its_ring_is_counted_as_lost() {
    let place = Workplace::new();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let source = |name: &str| format!("{}/tests/foreign_layout/{name}", env!("CARGO_MANIFEST_DIR"));
    let compile = |arguments: &[&str]| assert!(Command::new("cc").args(arguments).status().unwrap().success());
    compile(&["-shared", "-fPIC", "-o", &at("libggml-base.so"), &source("ggml.c")]);
    let rpath = format!("-Wl,-rpath,{}", place.path().display());
    compile(&["-o", &at("program"), &source("program.c"), &at("libggml-base.so"), &rpath]);
    // A file larger than the limit would not be refused: the kernel ends who tries to make it.
    let limited = |rest: &str| format!("(ulimit -f 1000; exec {0}){rest}", at("program"));
    for (script, times, processes) in [(limited(&format!("; exec {}", at("program"))), 2, 1), (limited(""), 1, 0)] {
        let output = trace(&place, &["--quiet"], &["sh", "-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "done, with losses: {}", text_of(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "computed 2 times\n".repeat(times));
        let run = traced_run(&place);
        assert!(run.losses().contains(&("unrecorded_graphs".to_owned(), 1)), "{:?}", run.losses());
        let metadata = run.metadata();
        assert_eq!((&metadata["state"], recorded_processes(&metadata)), (&"partial".into(), processes));
        let reason = (processes == 0).then_some("the recorder could not make its ring");
        assert_eq!(metadata["server"]["untraced_because"].as_str(), reason);
        std::fs::remove_dir_all(&run.dir).unwrap();
    }
}

fn recorded_processes(metadata: &serde_json::Value) -> usize {
    metadata["processes"].as_array().map_or(0, Vec::len)
}

/// Address, tensor, origin and offset in the file of the weights of a process, by its own addresses.
fn weights_of(run: &Run, process: u64) -> BTreeSet<(u64, String, String, Option<u64>)> {
    let rows = |batch: RecordBatch| {
        let is_weight = |row: &usize| {
            text(&batch, "region_type", *row) == "weight" && wide(&batch, "address", *row) >> PROCESS_SHIFT == process
        };
        let weight = |row| {
            let address = wide(&batch, "address", row) % (1 << PROCESS_SHIFT);
            let file_offset = optional::<UInt64Type>(&batch, "file_offset", row);
            (address, text(&batch, "tensor", row), text(&batch, "origin", row), file_offset)
        };
        (0..batch.num_rows()).filter(is_weight).map(weight).collect::<Vec<_>>()
    };
    run.batches(Table::RegionMap).into_iter().flat_map(rows).collect()
}

#[test]
fn a_child_that_goes_on_with_the_tokens_of_its_parent_has_its_weights_and_kv_blocks_from_it() {
    let name = "a_child_that_goes_on_with_the_tokens_of_its_parent_has_its_weights_and_kv_blocks_from_it";
    let Some(python) = python_with_llama(name) else { return };
    let place = Workplace::new();
    let model = small_model(&place);
    let script = format!("{PYTHON}\nimport os\nchild = os.fork()\nllm.eval([9])\nif child:\n    os.wait()\n");
    let command = [python.to_str().unwrap(), "-c", &script, model.to_str().unwrap()];
    let (run, _) = done(&place, trace(&place, &["--quiet", "--model", model.to_str().unwrap()], &command));
    let weights = weights_of(&run, 0);
    assert!(weights.iter().any(|(_, _, _, file_offset)| file_offset.is_some()), "{weights:?}");
    assert_eq!(weights_of(&run, 1), weights);
    let accesses = run.accesses();
    let of_child = of_process(&accesses, 1);
    assert!(!of_child.iter().any(|access| access.region_type == "weight" && access.is_store), "nothing was written");
    // Four tokens of the prompt and five that were computed further, in three layers, keys and values.
    let blocks: Vec<_> = run.blocks().into_iter().filter(|block| block.address >> PROCESS_SHIFT == 1).collect();
    let inherited: Vec<_> = blocks.iter().filter(|block| block.begin_cause == "inherited").collect();
    assert_eq!((inherited.len(), blocks.len()), (9 * 3 * 2, 10 * 3 * 2));
    assert!(inherited.iter().all(|block| block.total_reads > 0), "the child attends over them");
}

#[test]
fn what_a_killed_observer_left_of_a_command_that_computes_is_recovered_exactly() {
    let name = "what_a_killed_observer_left_of_a_command_that_computes_is_recovered_exactly";
    let Some(python) = python_with_llama(name) else { return };
    let place = Workplace::new();
    let model = small_model(&place);
    let begun = place.path().join("begun");
    // After its tokens it waits to be killed.
    let script = format!("{PYTHON}\nopen('{}', 'w')\nimport time\ntime.sleep(600)\n", begun.display());
    let mut child = trace(&place, &["--quiet"], &[python.to_str().unwrap(), "-c", &script, model.to_str().unwrap()])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the tokens of the command", || begun.exists().then_some(()));
    send(child.id(), Signal::KILL);
    child.wait().unwrap();
    let run = traced_run(&place);
    let recovered = dwell().arg("recover").arg(&run.dir).output().unwrap();
    assert_eq!(recovered.status.code(), Some(1), "{}", text_of(&recovered));
    assert_kv_bytes_are_arithmetic(&run.accesses().iter().collect::<Vec<_>>(), &model);
    assert_eq!(run.metadata()["state"], "partial");
}
