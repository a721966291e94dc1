//! `dwell analyse` in parts and within a limit of memory gives what it gives in one pass, byte for byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dwell_events::schema::Table;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use dwell_store::TableWriter;
use serde_json::Value;

use crate::common::{SmallDisk, Workplace, dwell, skip, text_of};

const MIB: u64 = 1 << 20;

/// What a made trace looks like.
#[derive(Clone, Copy)]
struct Made {
    rows: u64,
    addresses: u64,
    /// Whether rows are in no order.
    is_shuffled: bool,
}

/// Samples of 8 bytes in four regions, in a folder with nothing but a trace.
fn made_run(folder: &Path, name: &str, made: Made) -> PathBuf {
    let run = folder.join(name);
    fs::create_dir_all(&run).unwrap();
    let mut table = TableWriter::create(&run, Table::Trace).unwrap();
    let mut builder = TraceBuilder::new("run");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for row in 0..made.rows {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = state % made.addresses;
        let time = if made.is_shuffled { row * 7_919 % made.rows } else { row };
        builder.push(&TraceRow {
            timestamp_ns: 1_000 + time / 3 * 1_000,
            address: 0x7f00_0000_0000 + place * 24,
            size_bytes: 8,
            op_type: if row % 5 == 0 { OpType::Store } else { OpType::Load },
            region_type: RegionType::ALL[(place % 4) as usize],
            region_id: (place % 4) as u32,
            source: "perf_mem",
            period: 3_000 + row % 11,
            ..TraceRow::EMPTY
        });
        if builder.len() == 32 * 1024 {
            table.write(&builder.finish_batch()).unwrap();
        }
    }
    table.write(&builder.finish_batch()).unwrap();
    table.finish().unwrap();
    run
}

const SMALL: Made = Made { rows: 40_000, addresses: 300_000, is_shuffled: false };

fn analyse(run: &Path, arguments: &[&str]) -> Command {
    let mut command = dwell();
    command.arg("analyse").arg(run).args(arguments);
    command
}

fn succeeded(mut command: Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    output.stdout
}

fn refused(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    output
}

/// Writes the files of all parts, the last first.
fn write_parts(run: &Path, folder: &Path, of: u32, arguments: &[&str]) -> Vec<PathBuf> {
    let write = |number: u32| {
        let file = folder.join(format!("part-{number}-of-{of}"));
        let part = format!("{number}/{of}");
        let mut command = analyse(run, &["--part", &part]);
        command.arg("--part-output").arg(&file).args(arguments);
        assert!(succeeded(command).is_empty(), "a part prints nothing");
        file
    };
    (1..=of).rev().map(write).collect()
}

fn merge(run: &Path, files: &[PathBuf], arguments: &[&str]) -> Command {
    let mut command = analyse(run, arguments);
    command.arg("--merge-parts").args(files);
    command
}

#[test]
fn merged_parts_print_what_one_analysis_prints() {
    let place = Workplace::new();
    for (name, is_shuffled) in [("sorted", false), ("shuffled", true)] {
        let run = made_run(place.path(), name, Made { is_shuffled, ..SMALL });
        for definitions in [&[][..], &["--definitions", "mrm-trace"], &["--at-tokens-per-sec", "3"]] {
            for of in [1, 3] {
                let files = write_parts(&run, place.path(), of, definitions);
                for form in [&[][..], &["--json"], &["--metrics", "retention,locality"]] {
                    let arguments = [definitions, form].concat();
                    let merged = succeeded(merge(&run, &files, &arguments));
                    assert_eq!(merged, succeeded(analyse(&run, &arguments)), "{name} {arguments:?} in {of}");
                }
            }
        }
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let place = Workplace::new();
    let run = made_run(place.path(), "run", SMALL);
    let other = made_run(place.path(), "other", Made { rows: 39_999, ..SMALL });
    let files = write_parts(&run, place.path(), 3, &[]);
    let others = place.path().join("others");
    fs::create_dir(&others).unwrap();
    let foreign = write_parts(&other, &others, 3, &[]);
    let halves = write_parts(&run, &others, 2, &[]);
    let damaged = place.path().join("damaged");
    let mut bytes = fs::read(&files[0]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let cut = place.path().join("cut");
    fs::write(&cut, &fs::read(&files[0]).unwrap()[..40]).unwrap();
    let text = place.path().join("text");
    fs::write(&text, "no part").unwrap();
    let [third, second, first] = files.clone().try_into().unwrap();
    for (files, reason) in [
        (vec![first.clone(), third.clone()], "parts 2 of 3 are missing"),
        (vec![first.clone(), second.clone(), first.clone()], "part 1 of 3 for the second time"),
        (vec![first.clone(), second.clone(), foreign[0].clone()], "a part of \"other\""),
        (vec![first.clone(), second.clone(), halves[0].clone()], "part 2 of 2, where the others are of 3"),
        (vec![first.clone(), second.clone(), damaged], "its checksum is"),
        (vec![first.clone(), second.clone(), cut], "its checksum is"),
        (vec![text.clone()], "it is no part of an analysis"),
        (vec![place.path().join("missing")], "missing"),
    ] {
        let output = refused(merge(&run, &files, &[]));
        assert!(text_of(&output).contains(reason), "{reason}: {}", text_of(&output));
        assert!(output.stdout.is_empty());
    }
    let output = refused(merge(&run, &[first, second, third], &["--definitions", "mrm-trace"]));
    assert!(text_of(&output).contains("other than those asked for"), "{}", text_of(&output));
    // A file of somebody else is not replaced; a part may be, because a task that failed is tried again.
    let mut command = analyse(&run, &["--part", "1/3", "--part-output"]);
    command.arg(&text);
    assert!(text_of(&refused(command)).contains("exists already"));
    assert_eq!(fs::read(&text).unwrap(), b"no part");
    write_parts(&run, place.path(), 3, &[]);
}

#[test]
fn parts_are_for_one_run_and_are_numbered() {
    let place = Workplace::new();
    let run = made_run(place.path(), "run", SMALL);
    for part in ["0/3", "4/3", "x"] {
        let mut command = analyse(&run, &["--part", part, "--part-output"]);
        command.arg(place.path().join("part"));
        assert!(text_of(&refused(command)).contains("a part is K/N"));
    }
    refused(analyse(&run, &["--part", "1/3"]));
    let mut command = analyse(place.path(), &["--part", "1/3", "--part-output"]);
    command.arg(place.path().join("part"));
    let output = command.output().unwrap();
    assert!(!output.status.success() && !place.path().join("part").exists(), "{}", text_of(&output));
}

/// What a command printed, and the most memory that it had resident.
fn measured(mut command: Command) -> (Vec<u8>, u64) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let watcher = std::thread::spawn(move || {
        let mut peak_bytes = 0;
        // A process that has exited has no memory any more.
        while let Some(bytes) = fs::read_to_string(&status).ok().and_then(|status| peak_of(&status)) {
            peak_bytes = bytes.max(peak_bytes);
            std::thread::sleep(Duration::from_millis(2));
        }
        peak_bytes
    });
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    (output.stdout, watcher.join().unwrap())
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[test]
fn an_analysis_within_a_limit_of_memory_gives_the_same_bytes() {
    let place = Workplace::new();
    // Nearly every row is at an address of its own.
    let made = Made { rows: 1_200_000, addresses: 8_000_000, is_shuffled: false };
    for is_shuffled in [false, true] {
        let run = made_run(place.path(), &format!("large-{is_shuffled}"), Made { is_shuffled, ..made });
        for definitions in ["dwell", "mrm-trace"] {
            let arguments = ["--json", "--definitions", definitions];
            let (whole, free_bytes) = measured(analyse(&run, &arguments));
            let limited = [&arguments[..], &["--memory-limit", "128MiB"]].concat();
            let (within, peak_bytes) = measured(analyse(&run, &limited));
            assert!(within == whole, "shuffled: {is_shuffled}, {definitions}");
            assert!(peak_bytes <= 128 * MIB, "{definitions}: {} MiB, {} without", peak_bytes / MIB, free_bytes / MIB);
            let is_large = definitions == "dwell" || is_shuffled;
            assert!(!is_large || free_bytes > 128 * MIB, "{definitions}: {} MiB need no limit", free_bytes / MIB);
        }
    }
}

#[test]
fn a_limit_that_nothing_fits_is_refused() {
    let place = Workplace::new();
    let run = made_run(place.path(), "run", SMALL);
    let output = refused(analyse(&run, &["--memory-limit", "64MiB"]));
    let text = text_of(&output);
    assert!(text.contains("the limit of memory is 64 MiB, and at least 128 MiB are needed"), "{text}");
    assert!(text.contains("hint: allow at least 128 MiB: --memory-limit 128MiB"), "{text}");
}

#[test]
fn a_full_disk_while_rows_are_sorted_is_an_error_and_leaves_nothing() {
    let Some(disk) = SmallDisk::mount("1m") else {
        return skip("a_full_disk_while_rows_are_sorted", "mounting a file system is not permitted");
    };
    let place = Workplace::new();
    let run = made_run(place.path(), "run", Made { is_shuffled: true, ..SMALL });
    let files_of_run = || fs::read_dir(&run).unwrap().count();
    let before = files_of_run();
    let mut command = analyse(&run, &["--memory-limit", "128MiB"]);
    let output = refused({
        command.env("TMPDIR", disk.path());
        command
    });
    let text = text_of(&output);
    assert!(text.contains("sorting the rows of a trace in a temporary file"), "{text}");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
    assert_eq!(files_of_run(), before);
}

#[test]
fn an_explanation_says_what_would_be_read() {
    let place = Workplace::new();
    let run = made_run(place.path(), "run", SMALL);
    let explained = |arguments: &[&str]| -> Value {
        serde_json::from_slice(&succeeded(analyse(&run, &[&["--explain", "--json"], arguments].concat()))).unwrap()
    };
    let explanation = explained(&["--parts", "5"]);
    assert_eq!(explanation["rows"], SMALL.rows);
    assert_eq!(explanation["parts"].as_array().unwrap().len(), 5);
    let (columns, file) = (explanation["column_bytes"].as_u64().unwrap(), explanation["file_bytes"].as_u64().unwrap());
    assert!(0 < columns && columns < file, "{columns} of {file} bytes");
    assert!(explanation["columns"].as_array().unwrap().contains(&"address".into()));
    assert!(explained(&["--definitions", "mrm-trace"])["column_bytes"].as_u64().unwrap() < columns);
    assert_eq!(explained(&["--memory-limit", "4GiB"])["parts"].as_array().unwrap().len(), 1);
    let text = String::from_utf8(succeeded(analyse(&run, &["--explain"]))).unwrap();
    assert!(text.contains("40,000 in 1 row groups"), "{text}");
}
