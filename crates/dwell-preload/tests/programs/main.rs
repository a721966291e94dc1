//! The recorder in programs that keep ggml in their own ways. Whatever the way, a program does what it does without the
//! recorder: same output, same exit status.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use lab::Lab;

#[test]
fn a_ggml_inside_another_library_is_recorded() {
    let lab = Lab::new();
    let library = lab.whole_library("inside", &[]);
    let recorded = lab.run(&lab.program("linked.c", &[&library]), &[]);
    assert_eq!(recorded.said, "inside computes 1\nrun: 10\ninside computes 2\nrun: 10\n");
    let process = recorded.process();
    assert_eq!(
        (&process.steps[..], &process.calls[..]),
        (&["inside".to_owned(), "inside".to_owned()][..], &[1, 1][..])
    );
}

#[test]
fn a_ggml_that_is_called_inside_its_library_alone_runs_unrecorded() {
    let lab = Lab::new();
    let library = lab.whole_library("symbolic", &["-Wl,-Bsymbolic"]);
    let recorded = lab.run(&lab.program("linked.c", &[&library]), &[]);
    assert_eq!(recorded.said, "symbolic computes 1\nrun: 10\nsymbolic computes 2\nrun: 10\n");
    assert!(recorded.processes.is_empty());
}

#[test]
fn two_ggmls_are_recorded_side_by_side_while_they_come_and_go() {
    let lab = Lab::new();
    let (one, two) = (lab.library_with_ggml("one", &[]), lab.library_with_ggml("two", &[]));
    let (program, [one, two]) = (lab.program("program.c", &[]), [&*one, &*two]);
    let words: [&[&str]; 5] = [
        &["open", one],
        &[one, "run", one, "run"],
        &["open", two, two, "run", one, "run"],
        &["close", one, two, "run"],
        &["open", one, one, "run", two, "run"],
    ];
    let recorded = lab.run(&program, &words.concat());
    let computed: Vec<&str> = recorded.said.lines().filter(|line| line.contains("computes")).collect();
    // A library that is loaded again begins to count anew.
    let expected = ["one computes 1", "one computes 2", "two computes 1", "one computes 3", "two computes 2"];
    assert_eq!(computed, [&expected[..], &["one computes 1", "two computes 3"]].concat());
    let process = recorded.process();
    assert_eq!(process.steps, ["one", "one", "two", "one", "two", "one", "two"]);
    let mut ids = process.graph_ids.clone();
    ids.dedup();
    assert_eq!((process.graph_ids[..2].to_vec(), ids.len()), (vec![0, 1], process.graph_ids.len()));
}

#[test]
fn a_library_that_takes_the_place_of_another_gets_its_own_functions() {
    let lab = Lab::new();
    let libraries = ["one", "two", "three"].map(|name| lab.whole_library(name, &[]));
    let program = lab.program("program.c", &[]);
    let mut words = Vec::new();
    for library in libraries.iter().chain(&libraries) {
        words.extend(["open", library, library, "run", "close", library]);
    }
    let recorded = lab.run(&program, &words);
    assert_eq!(recorded.said.matches("computes 1\nrun: 10\n").count(), 6, "{}", recorded.said);
    assert_eq!(recorded.process().steps, ["one", "two", "three", "one", "two", "three"]);
}

#[test]
fn a_ggml_without_what_the_recorder_needs_runs_unrecorded_beside_one_that_has_it() {
    let lab = Lab::new();
    let few = lab.whole_library("few", &["-DFEW_FUNCTIONS"]);
    let alone = lab.run(&lab.program("linked.c", &[&few]), &[]);
    assert_eq!(alone.said, "few computes 1\nrun: 10\nfew computes 2\nrun: 10\n");
    assert!(alone.processes.is_empty());
    let whole = lab.whole_library("whole", &[]);
    let words = ["open", &few, "open", &whole, &few, "run", &whole, "run"];
    let both = lab.run(&lab.program("program.c", &[]), &words);
    assert_eq!(both.said, "few computes 1\nrun: 10\nwhole computes 1\nrun: 10\n");
    assert_eq!(both.process().steps, ["whole"]);
}

#[test]
fn a_function_that_no_library_has_fails_and_does_not_end_the_program() {
    let lab = Lab::new();
    assert_eq!(lab.run(&lab.program("weak.c", &[]), &[]).said, "0 -1\n");
}

#[test]
fn a_call_that_comes_by_a_jump_or_a_pointer_reaches_the_ggml_that_its_objects_are_of() {
    for make in [Lab::library_with_ggml, Lab::whole_library] {
        let lab = Lab::new();
        let (one, two) = (make(&lab, "one", &[]), make(&lab, "two", &[]));
        let (program, [one, two]) = (lab.program("program.c", &[]), [&*one, &*two]);
        let words: [&[&str]; 2] =
            [&["open", one, one, "jump", "open", two], &[two, "jump", one, "jump", one, "pointer", two, "pointer"]];
        let recorded = lab.run(&program, &words.concat());
        assert_eq!(recorded.process().steps, ["one", "two", "one", "one", "two"]);
    }
}

#[test]
fn a_layout_that_is_not_known_is_refused_for_its_library_alone() {
    let lab = Lab::new();
    let other = lab.library_with_ggml("other", &["-DOTHER_LAYOUT"]);
    let known = lab.library_with_ggml("known", &[]);
    let words = ["open", &other, "open", &known, &other, "run", &known, "run", &other, "run", &known, "run"];
    let recorded = lab.run(&lab.program("program.c", &[]), &words);
    let process = recorded.process();
    assert_eq!(process.steps, ["known", "known"]);
    let [refusal] = &process.refusals[..] else { panic!("one refusal, not {:?}", process.refusals) };
    assert!(refusal.contains("libggml-other.so") && refusal.contains("disagrees with the layout"), "{refusal}");
}

#[test]
fn abort_callbacks_of_the_program_are_asked_each_by_its_own_library() {
    for setter in ["-DHIDDEN_SETTER", "-DEXPORTED_SETTER"] {
        let lab = Lab::new();
        let (one, two) = (lab.whole_library("one", &[setter]), lab.whole_library("two", &[setter]));
        let (program, [one, two]) = (lab.program("program.c", &[]), [&*one, &*two]);
        let words: [&[&str]; 3] = [
            &["open", one, "open", two, one, "run", one, "listen", two, "stop"],
            &[one, "run", two, "run", one, "run"],
            &[one, "begin_anew", two, "listen", one, "run", two, "run"],
        ];
        let recorded = lab.run(&program, &words.concat());
        let asked: Vec<&str> = recorded.said.lines().filter(|line| line.contains("asked")).collect();
        let expected = ["one is asked with one", "two is asked to stop with two", "one is asked with one"];
        assert_eq!(asked, [&expected[..], &["two is asked with two"]].concat(), "{setter}");
        assert!(recorded.said.contains("two computes 1, and is aborted\nrun: 11\n"), "{}", recorded.said);
        assert_eq!(recorded.process().calls, [1; 6], "{setter}: the recorder is called too");
    }
}

#[test]
fn a_forked_child_records_all_its_libraries_into_a_ring_of_its_own() {
    let lab = Lab::new();
    let (one, two) = (lab.library_with_ggml("one", &[]), lab.whole_library("two", &[]));
    let words = ["open", &one, "open", &two, &one, "run", "fork", &two, "run", &one, "run"];
    let recorded = lab.run(&lab.program("program.c", &[]), &words);
    let [parent, child] = &recorded.processes[..] else { panic!("two processes, not {:?}", recorded.processes) };
    assert_eq!(parent.steps, ["one", "two", "one"]);
    assert_eq!(child.steps, ["two", "one"]);
    assert_eq!(child.hello.fork.unwrap().parent_pid, parent.hello.pid);
}

#[test]
fn the_first_of_two_ggmls_that_a_program_is_linked_with_computes_for_both() {
    let lab = Lab::new();
    let first = lab.whole_library("first", &[]);
    let second = lab.library_with_ggml("second", &[]);
    // `run` of the second library calls functions that the first one has too.
    let program = lab.program("program.c", &[&first]);
    let recorded = lab.run(&program, &["open", &second, &second, "run"]);
    assert_eq!(recorded.said, "first computes 1\nrun: 10\n");
    assert_eq!(recorded.process().steps, ["first"]);
}

#[test]
fn a_ggml_that_is_made_global_later_does_not_take_over_a_library_that_has_its_own() {
    let lab = Lab::new();
    let (own, global) = (lab.whole_library("own", &[]), lab.whole_library("global", &[]));
    let words = ["open", &own, "global", &global, &own, "run", &global, "run"];
    let recorded = lab.run(&lab.program("program.c", &[]), &words);
    assert_eq!(recorded.process().steps, ["own", "global"]);
}
