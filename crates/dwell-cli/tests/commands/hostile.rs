//! What others left in a run, in a name or on the disk: it is shown, said or refused, and nothing is obeyed or destroyed.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{SmallDisk, Workplace, dwell, skip, text_of};
use crate::report::tiny_run;

fn done(arguments: &[&str], path: &Path) -> Output {
    dwell().args(arguments).arg(path).output().unwrap()
}

#[test]
fn what_a_terminal_would_obey_is_shown() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let metadata = run.dir.join("metadata.json");
    let text = fs::read_to_string(&metadata).unwrap().replace("llama_cpp", r"x\u001b]0;OWNED\u0007\u202e\ny");
    fs::write(&metadata, text).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"b\x1b[2J\nc");
    fs::rename(&run.dir, run.dir.with_file_name(name)).unwrap();
    let run = run.dir.with_file_name(name);
    let results = place.path().join("results");
    for (command, path) in
        [("ls", &results), ("show", &run), ("compare", &run), ("verify", &results), ("analyse", &run)]
    {
        let output = done(&[command], path);
        let text = text_of(&output);
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}', '\r']), "{command}: {text:?}");
    }
    let listed = String::from_utf8(done(&["ls"], &results).stdout).unwrap();
    assert!(listed.contains(r"b\u{1b}[2J\u{a}c"), "{listed}");
    assert_eq!(listed.lines().count(), 4, "a name stays in its line: {listed}");
    let missing = done(&["show"], Path::new("no\u{1b}[2Jfolder"));
    assert!(!text_of(&missing).contains('\u{1b}'), "{}", text_of(&missing));
}

#[test]
fn a_file_that_differs_from_the_manifest_is_warned_of() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let page = place.path().join("r.html");
    let page = page.to_str().unwrap();
    let commands: [&[&str]; 6] = [
        &["show"],
        &["analyse"],
        &["compare"],
        &["report", "--force", "-o", page],
        &["figure", "traffic", "--force", "-o", place.path().to_str().unwrap()],
        &["export", "--format", "perfetto", "-o"],
    ];
    let all = |tag: &str| {
        let outputs = commands.map(|command| {
            let trace = place.path().join(tag);
            let trace = if command[0] == "export" { vec![trace.to_str().unwrap().to_owned()] } else { Vec::new() };
            let output = dwell().args(command).args(&trace).arg(&run.dir).output().unwrap();
            let _ = fs::remove_file(place.path().join(tag));
            output
        });
        outputs.map(|output| (output.status.code(), text_of(&output)))
    };
    for (command, (code, text)) in commands.iter().zip(all("whole.pf")) {
        assert!(code == Some(0) && !text.contains("manifest"), "{command:?}: {text}");
    }
    let metrics = run.dir.join("metrics.csv");
    let text = fs::read_to_string(&metrics).unwrap();
    // One digit, so that the size stays.
    fs::write(&metrics, text.replacen(",1", ",2", 1)).unwrap();
    for (command, (code, text)) in commands.iter().zip(all("changed.pf")) {
        assert_eq!(code, Some(1), "{command:?}: {text}");
        assert!(text.contains("warning: metrics.csv differs from the manifest; `dwell verify "), "{command:?}: {text}");
    }
    let listed = done(&["ls"], &place.path().join("results"));
    assert_eq!(listed.status.code(), Some(0), "a list reads none of it: {}", text_of(&listed));
}

#[test]
fn files_that_are_small_by_design_are_not_read_if_they_are_large() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    for (name, commands) in [("metadata.json", ["show", "compare"]), ("metrics.csv", ["compare", "show"])] {
        let path = run.dir.join(name);
        let before = fs::read(&path).unwrap();
        let mut text = before.clone();
        text.resize(9 << 20, b' ');
        fs::write(&path, text).unwrap();
        let output = done(&[commands[0]], &run.dir);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains("longer than"), "{}", text_of(&output));
        fs::write(&path, before).unwrap();
        assert_eq!(done(&[commands[1]], &run.dir).status.code(), Some(0));
    }
}

#[test]
fn several_files_are_replaced_together_or_not_at_all() {
    let Some(disk) = SmallDisk::mount("512k") else {
        return skip("several_files_are_replaced_together_or_not_at_all", "mounting a tmpfs needs root");
    };
    let out = disk.path().join("man");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("dwell-run.1"), "old").unwrap();
    fs::write(out.join("dwell-ls.1.partial"), "mine").unwrap();
    disk.fill_but(64 << 10);
    let output = dwell().args(["man", "--force", "-o"]).arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("no space left"), "{}", text_of(&output));
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["dwell-ls.1.partial", "dwell-run.1"]);
    assert_eq!(fs::read_to_string(out.join("dwell-run.1")).unwrap(), "old");
}

#[test]
fn a_link_with_the_name_of_an_unfinished_file_is_not_followed() {
    let place = Workplace::new();
    let (victim, table) = (place.path().join("victim"), place.path().join("w.parquet"));
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, place.path().join("w.parquet.partial")).unwrap();
    let output = dwell().args(["watch", "-o"]).arg(&table).args(["--", "sleep", "0.2"]).output().unwrap();
    assert!(output.status.success() && table.exists(), "{}", text_of(&output));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
}

#[test]
fn models_that_are_made_at_once_are_whole() {
    let place = Workplace::new();
    let make = |name: &str, seed: usize| {
        let mut command = dwell();
        command.args(["model", "make", "--layers", "1", "--embedding", "64", "--feed-forward", "64", "--force"]);
        command.args(["--seed", &seed.to_string()]).arg(place.path().join(name));
        command
    };
    let wanted: Vec<Vec<u8>> = (0..4)
        .map(|seed| {
            assert!(make("one.gguf", seed).output().unwrap().status.success());
            fs::read(place.path().join("one.gguf")).unwrap()
        })
        .collect();
    let children: Vec<_> = (0..4).map(|seed| make("x.gguf", seed).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(wanted.contains(&fs::read(place.path().join("x.gguf")).unwrap()), "it is neither of them");
}

#[test]
fn pipes_and_devices_are_neither_replaced_nor_read_without_end() {
    let place = Workplace::new();
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let device = place.path().join("device");
    let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).stderr(Stdio::null()).status();
    // Making one needs root.
    if made.unwrap().success() {
        let output = done(&["model", "make", "--force"], &device);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(fs::metadata(&device).unwrap().file_type().is_char_device());
    }
    for words in [&["model", "make", "--force"][..], &["model", "info"], &["verify"], &["tensors", "info"]] {
        let output = done(words, &pipe);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text_of(&output));
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo(), "{words:?}");
    }
    let mut command = dwell();
    command.args(["import", "kv-events", "/dev/zero", "-o"]).arg(place.path().join("results"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(!place.path().join("results").exists(), "nothing is begun");
}

#[test]
fn a_result_that_cannot_be_printed_is_no_success() {
    let place = Workplace::new();
    let run = tiny_run(&place, "a");
    let out = place.path().join("figures");
    let mut command = dwell();
    command.args(["figure", "traffic"]).arg(&run.dir).arg("-o").arg(&out);
    let output = command.stdout(File::create("/dev/full").unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "the figure is written: {}", text_of(&output));
    assert!(out.join("traffic.svg").is_file());
    let closed = |arguments: &str| {
        let line = format!("'{}' {arguments} '{}' >&-", env!("CARGO_BIN_EXE_dwell"), run.dir.display());
        Command::new("sh").args(["-c", &line]).output().unwrap()
    };
    let output = closed("show");
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("standard output closed"), "{}", text_of(&output));
    let output = closed(&format!("report --force -o '{}'", place.path().join("r.html").display()));
    assert_eq!(output.status.code(), Some(1), "the page is written: {}", text_of(&output));
    let quiet = dwell().arg("show").arg(&run.dir).stdout(std::process::Stdio::null()).status().unwrap();
    assert_eq!(quiet.code(), Some(0), "whoever throws it away has it");
}
