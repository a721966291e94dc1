//! Several processes of one command: all of them are in the trace, each with its own addresses.

use std::collections::BTreeSet;

use rustix::process::Signal;

use crate::common::{Access, Workplace, dwell, send, text_of, wait_for};
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
    let numbers: BTreeSet<u64> = processes.iter().map(|process| process["process"].as_u64().unwrap()).collect();
    assert_eq!((pids.len(), numbers), (2, BTreeSet::from([0, 1])));
    let accesses = run.accesses();
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
