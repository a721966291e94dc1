//! Allocations of a program whose allocations are known: `--collect alloc`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dwell_events::schema::{Table, TableSpec};
use rustix::process::Signal;

use crate::common::{Run, Workplace, dwell, optional, send, text, text_of, wait_for, wide};
use crate::{done, trace, traced_run};

static LIVES: TableSpec = TableSpec { name: "allocation_lives", columns: &[] };
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dwell-alloc/tests/history/c/history.c");

/// Process, thread, address and size of allocations, each with how often it is there.
type Allocations = BTreeMap<(u64, u64, u64, u64), u32>;

fn compiled(place: &Workplace, options: &[&str]) -> String {
    let program = place.path().join("history");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-w", "-pthread"]).args(options).arg("-o").arg(&program).arg(SOURCE);
    let said = compiler.output().unwrap();
    assert!(said.status.success(), "{}", text_of(&said));
    program.to_str().unwrap().to_owned()
}

/// What the program says that it allocated, and how many it gave back.
fn told(said: &str) -> (Allocations, usize) {
    let (mut allocations, mut released) = (Allocations::new(), 0);
    for line in said.lines().filter(|line| line.split(' ').count() == 5) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[2] {
            "free" | "realloc-free" => released += 1,
            _ => *allocations.entry((number(0), number(1), number(3), number(4))).or_default() += 1,
        }
    }
    (allocations, released)
}

/// The same in the table, with how many rows have an end.
fn recorded(run: &Run) -> (Allocations, usize) {
    let (mut allocations, mut ended) = (Allocations::new(), 0);
    for batch in run.batches(Table::Own(&LIVES)) {
        let narrow = |column: &str, row| optional::<arrow_array::types::UInt32Type>(&batch, column, row);
        for row in 0..batch.num_rows() {
            let place = (wide(&batch, "address", row), wide(&batch, "size_bytes", row));
            let caller = [narrow("pid", row), narrow("thread_id", row)].map(|number| u64::from(number.unwrap()));
            *allocations.entry((caller[0], caller[1], place.0, place.1)).or_default() += 1;
            if let Some(freed_ns) = optional::<arrow_array::types::UInt64Type>(&batch, "freed_ns", row) {
                assert!(freed_ns >= wide(&batch, "allocated_ns", row));
                assert!(narrow("freed_by", row).is_some());
                ended += 1;
            }
        }
    }
    (allocations, ended)
}

/// Everything that the program did is in the table, beside what the C library did.
fn all_is_recorded(run: &Run, said: &str) {
    let ((expected, released), (found, ended)) = (told(said), recorded(run));
    assert!(expected.len() > 1000);
    let missing: Vec<_> =
        expected.iter().filter(|(key, count)| found.get(key).is_none_or(|found| found < count)).collect();
    assert!(missing.is_empty(), "{} of {}: {:?}", missing.len(), expected.len(), &missing[..missing.len().min(5)]);
    assert!(ended >= released, "{ended} have an end, {released} were given back");
}

#[test]
fn every_allocation_of_a_command_is_a_life_in_the_table() {
    let place = Workplace::new();
    let program = compiled(&place, &[]);
    let command = trace(&place, &["--quiet", "--collect", "process,alloc"], &[&program, "threads", "4", "3000"]);
    let (run, output) = done(&place, command);
    all_is_recorded(&run, &String::from_utf8(output.stdout).unwrap());
    assert!(run.losses().iter().all(|(kind, _)| kind != "lost_allocations"), "{:?}", run.losses());
    let origin = &run.metadata()["tables"]["allocation_lives"];
    assert_eq!((origin["basis"].as_str(), origin["source"].as_str()), (Some("exact"), Some("alloc")));
    assert!(!run.dir.join("raw/alloc").exists(), "its rings are not needed any more");
    let batches = run.batches(Table::Own(&LIVES));
    let names = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| text(batch, "allocated_with", row)));
    assert!(names.into_iter().any(|name| name == "posix_memalign"));
}

#[test]
fn a_killed_dwell_leaves_the_allocations_in_the_rings_for_recovery() {
    let place = Workplace::new();
    let program = compiled(&place, &[]);
    let mut command = trace(&place, &["--quiet", "--collect", "process,alloc"], &[&program, "wait", "4", "3000"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| line != "done").collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let run = traced_run(&place);
    let recovered = dwell().arg("recover").arg(&run.dir).output().unwrap();
    // The observer died, which is a loss.
    assert_eq!(recovered.status.code(), Some(1), "{}", text_of(&recovered));
    assert!(!run.dir.join("raw/alloc").exists(), "its rings are not needed any more");
    all_is_recorded(&run, &said.join("\n"));
    let (found, _) = recorded(&run);
    let expected = told(&said.join("\n")).0;
    let twice = expected.iter().filter(|(key, count)| found[key] > **count).count();
    assert_eq!(twice, 0, "allocations that are there more often than they were made");
}

/// Ends the process between dwell and the command, as the kernel does where memory runs out.
#[test]
fn a_killed_worker_leaves_the_allocations_of_a_command_that_computed_nothing() {
    let place = Workplace::new();
    let program = compiled(&place, &[]);
    let mut command = trace(&place, &["--quiet", "--collect", "process,alloc"], &[&program, "wait", "4", "60000"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| line != "done").collect();
    send(worker_of(&child), Signal::KILL);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    let run = traced_run(&place);
    assert_eq!(run.metadata()["state"], "partial");
    all_is_recorded(&run, &said.join("\n"));
}

/// A command may outlive the one between it and dwell, and goes on starting processes that make rings.
#[test]
fn no_ring_comes_after_the_end_of_a_run_whose_command_goes_on() {
    let place = Workplace::new();
    let script = "echo $$; for n in $(seq 400); do /bin/true; done";
    let mut command = trace(&place, &["--quiet", "--collect", "process,alloc"], &["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let shell: u32 = lines.next().unwrap().parse().unwrap();
    send(worker_of(&child), Signal::KILL);
    child.wait().unwrap();
    let rings = traced_run(&place).dir.join("raw/alloc");
    assert!(!rings.exists(), "{:?}", std::fs::read_dir(&rings).map(Iterator::count));
    wait_for("the end of the shell", || (!Path::new(&format!("/proc/{shell}")).exists()).then_some(()));
    assert!(!rings.exists());
}

#[test]
fn of_a_program_without_a_dynamic_c_library_it_is_said_that_nothing_is_seen() {
    let place = Workplace::new();
    let program = compiled(&place, &["-static"]);
    let script = format!("{program} families > /dev/null; exec {program} wait 1 10");
    let mut command = trace(&place, &["--quiet", "--collect", "process,alloc"], &["timeout", "2", "sh", "-c", &script]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let details = lost_allocations(&traced_run(&place));
    let is_said = details.iter().any(|detail| detail.contains("/history") && detail.contains("no dynamic C library"));
    assert!(is_said, "{details:?} {}", text_of(&output));
}

#[test]
fn of_a_command_without_a_dynamic_c_library_it_is_said_too() {
    let place = Workplace::new();
    let (source, program) = (place.path().join("sleeps.c"), place.path().join("sleeps"));
    std::fs::write(&source, "#include <unistd.h>\nint main(void) { return sleep(1); }\n").unwrap();
    let compiled = Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(compiled.status.success(), "{}", text_of(&compiled));
    let mut command = trace(&place, &["--quiet", "--collect", "alloc"], &[program.to_str().unwrap()]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let details = lost_allocations(&traced_run(&place));
    assert!(
        details.iter().any(|detail| detail.contains("/sleeps") && detail.contains("no dynamic C library")),
        "{details:?}"
    );
}

/// The process between dwell and the command.
fn worker_of(child: &Child) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    wait_for("the worker", || std::fs::read_to_string(&children).ok()?.split(' ').next()?.parse().ok())
}

/// What is said of calls that were not recorded.
fn lost_allocations(run: &Run) -> Vec<String> {
    let details = run.batches(Table::Loss).into_iter().flat_map(|batch| {
        let is_of_alloc = |row: &usize| text(&batch, "kind", *row) == "lost_allocations";
        (0..batch.num_rows()).filter(is_of_alloc).map(|row| text(&batch, "detail", row)).collect::<Vec<_>>()
    });
    details.collect()
}

#[test]
fn a_command_does_with_the_recorder_what_it_does_without() {
    let place = Workplace::new();
    let words = ["python3", "-c", "import sys; print(sum(len(str(i)) for i in range(200000)))"];
    let plain = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let (run, output) = done(&place, trace(&place, &["--quiet", "--collect", "alloc"], &words));
    assert_eq!(output.stdout, plain.stdout);
    assert!(recorded(&run).0.len() > 1000);
}
