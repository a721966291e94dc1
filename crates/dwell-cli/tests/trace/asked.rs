//! What is asked of `dwell trace`, and what it does not know of a command.

use std::path::{Path, PathBuf};
use std::process::Command;

use dwell_events::CollectorName;

use crate::common::{Workplace, copy_program, dwell, text_of};
use crate::{done, trace, traced_run};

#[test]
fn options_of_the_embedded_engine_are_not_facts_about_a_command() {
    let place = Workplace::new();
    let (run, _) = done(&place, trace(&place, &["--time-resolution", "layer"], &["true"]));
    assert_eq!(run.metadata()["options"], serde_json::json!({"time_resolution": "layer"}));
    let compared = dwell().arg("compare").arg(&run.dir).output().unwrap();
    assert!(compared.status.success(), "{}", text_of(&compared));
    let said = String::from_utf8(compared.stdout).unwrap();
    assert!(said.contains("command") && !said.contains("f16") && !said.contains("2048"), "{said}");
}

/// A copy of dwell in another folder, without the recorder's library.
fn installed_in(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let program = folder.join("dwell");
    copy_program(Path::new(env!("CARGO_BIN_EXE_dwell")), &program);
    program
}

/// The same trace with another dwell.
fn traced_by(program: &Path, place: &Workplace, options: &[&str], command: &[&str]) -> Command {
    let mut other = Command::new(program);
    other.args(trace(place, options, command).get_args());
    other
}

#[test]
fn the_recorder_is_loaded_from_any_folder() {
    let place = Workplace::new();
    let folder = place.path().join("a folder:with $LIB");
    let program = installed_in(&folder);
    let library = Path::new(env!("CARGO_BIN_EXE_dwell")).with_file_name("libdwell_preload.so");
    std::fs::copy(library, folder.join("libdwell_preload.so")).unwrap();
    let script = "grep -c 'a folder:with $LIB/libdwell_preload.so' /proc/$$/maps";
    let (_, output) = done(&place, traced_by(&program, &place, &["--quiet"], &["sh", "-c", script]));
    let mappings = String::from_utf8(output.stdout).unwrap();
    assert!(mappings.trim().parse::<u32>().unwrap() > 0, "{mappings}");
    assert_eq!(output.stderr, b"", "the loader has nothing to complain about");
}

#[test]
fn without_the_recorder_accesses_are_refused_by_name_and_missed_by_default() {
    let place = Workplace::new();
    let program = installed_in(&place.path().join("bin"));
    let output = traced_by(&program, &place, &["--collect", "tensor_ops,process"], &["true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("tensor_ops needs libdwell_preload.so") && said.contains("--collect process"), "{said}");
    assert!(!traced_run(&place).dir.exists());
    let (run, output) = done(&place, traced_by(&program, &place, &[], &["true"]));
    let reason = "libdwell_preload.so is neither beside dwell nor in ../lib/dwell";
    assert!(text_of(&output).contains(&format!("no accesses: {reason}")), "{}", text_of(&output));
    assert_eq!(run.metadata()["server"]["untraced_because"], reason);
}

#[test]
fn what_a_command_cannot_have_is_refused_with_a_hint_that_can_be_followed() {
    let place = Workplace::new();
    let refused = |options: &[&str], command: &[&str]| {
        let output = trace(&place, options, command).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(!traced_run(&place).dir.exists());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["--collect", "kv_events"], &["true"]);
    let known = CollectorName::OF_PROGRAMS.join(", ");
    assert!(!known.contains("kv_events") && said.contains(&format!("[possible values: {known}]")), "{said}");
    let said = refused(&[], &[""]);
    assert!(said.starts_with("error: reading the command: its first word is empty"), "{said}");
    assert!(said.contains("hint: dwell trace -- "), "{said}");
}

#[test]
fn quality_judges_the_collector_that_was_asked_for() {
    for (collectors, judged) in [("pressure", "pressure"), ("process,pressure", "process")] {
        let place = Workplace::new();
        let (run, _) = done(&place, trace(&place, &["--collect", collectors], &["true"]));
        let quality = &run.metadata()["quality"];
        assert_eq!((&quality["collector"], &quality["status"]), (&judged.into(), &"PASS".into()), "{collectors}");
    }
}

#[test]
fn a_summary_that_cannot_be_printed_leaves_the_run_complete() {
    let place = Workplace::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = trace(&place, &[], &["true"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    let run = traced_run(&place);
    let wanted = format!("; the work itself is done: {:?}", run.dir);
    assert!(said.contains("error: printing the result failed with") && said.contains(&wanted), "{said}");
    assert_eq!(run.metadata()["state"], "complete");
}
