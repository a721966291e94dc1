//! Recordings that the real perf makes here, of page faults: the decoder of files, the decoder of text and perf itself
//! must agree on every sample, with its function and its file.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs::{self, File};
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};

use dwell_decode::error::DecodeError;
use dwell_decode::perf_data::{AddressSpaces, CpuMode, Mapping, PerfData, Record, Recording, Sample};
use dwell_decode::perf_script::{PerfScript, ScriptSample};
use dwell_decode::symbols::Symbols;

/// A sample, as both decoders know it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    pid: u32,
    tid: u32,
    time_ns: u64,
    address: u64,
    ip: u64,
    symbol: String,
    dso: String,
}

/// Samples of a recording and what it says about itself.
fn decoded(bytes: &[u8]) -> (Vec<Fault>, Recording) {
    let mut data = PerfData::open(Cursor::new(bytes)).unwrap();
    let mut spaces = AddressSpaces::default();
    let mut symbols = Symbols::new(|path: &str| fs::read(path).ok());
    let mut faults = Vec::new();
    while let Some(record) = data.next_record().unwrap() {
        spaces.take(record);
        if let &Record::Sample(sample) = record {
            faults.push(fault(&sample, &spaces, &mut symbols, data.recording()));
        }
    }
    assert_eq!(data.recording().counts.short_records, 0);
    (faults, data.recording().clone())
}

fn fault(
    sample: &Sample,
    spaces: &AddressSpaces,
    symbols: &mut Symbols<impl FnMut(&str) -> Option<Vec<u8>>>,
    recording: &Recording,
) -> Fault {
    let process = sample.process().unwrap();
    let ip = sample.ip().unwrap();
    let pid = if sample.mode() == CpuMode::Kernel { Mapping::KERNEL_PID } else { process.pid };
    let place = spaces.find(pid, ip);
    Fault {
        pid: process.pid,
        tid: process.tid,
        time_ns: sample.time_ns().unwrap(),
        address: sample.address().unwrap(),
        ip,
        symbol: place.map_or(String::new(), |place| symbols.find(place, spaces, recording).to_owned()),
        dso: place.map_or(String::new(), |place| spaces.name(place.file).to_owned()),
    }
}

/// What `perf script` prints, through the decoder of text.
fn printed(path: &Path) -> Vec<Fault> {
    let mut perf = Command::new("perf");
    perf.args(["script", "--ns", "-F", "comm,pid,tid,time,event,addr,ip,sym,dso", "-i"]).arg(path);
    let mut child = perf.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut script = PerfScript::new(child.stdout.take().unwrap());
    let mut faults = Vec::new();
    let take = |sample: &ScriptSample<'_>| {
        faults.push(Fault {
            pid: sample.pid.unwrap(),
            tid: sample.tid.unwrap(),
            time_ns: sample.time_ns,
            address: sample.address,
            ip: sample.ip.unwrap(),
            symbol: sample.symbol.to_owned(),
            dso: sample.dso.to_owned(),
        });
        Ok::<(), DecodeError>(())
    };
    script.read(take).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(script.counts().skipped.is_empty(), "{:?}", script.counts().skipped);
    faults
}

/// A program that starts others.
const SHELL: [&str; 3] = ["sh", "-c", "ls / >/dev/null; (ls /tmp; ls /usr) | sort >/dev/null; true"];

/// Records the page faults of a program; false if that is not possible here.
fn record(test: &str, options: &[&str], program: &[&str], output: &Path) -> bool {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "page-faults:u", "-c", "1", "-d"]).args(options).arg("-o").arg(output);
    match perf.arg("--").args(program).stderr(Stdio::piped()).output() {
        Ok(result) if result.status.success() => true,
        Ok(result) => {
            let said = String::from_utf8_lossy(&result.stderr).lines().next().unwrap_or_default().to_owned();
            skip::skip(test, &format!("perf cannot record page faults here: {said}"));
            false
        }
        Err(_) => {
            skip::skip(test, "there is no perf");
            false
        }
    }
}

/// Kernel functions and files without a known file are not compared: their symbols are perf's own knowledge.
fn comparable(mut faults: Vec<Fault>) -> Vec<Fault> {
    for fault in &mut faults {
        if fault.dso.starts_with('[') || fault.dso.is_empty() || fault.ip >> 63 != 0 {
            (fault.symbol, fault.dso) = (String::new(), String::new());
        }
    }
    faults
}

fn check_same(found: Vec<Fault>, expected: Vec<Fault>) {
    let (found, expected) = (comparable(found), comparable(expected));
    assert!(found.len() > 100, "{}", found.len());
    assert_eq!(found.len(), expected.len());
    for (found, mut expected) in found.into_iter().zip(expected) {
        // perf knows files with debug information, too. Functions are compared where the test knows them.
        expected.symbol.clone_from(&found.symbol);
        assert_eq!(found, expected);
    }
}

#[test]
fn a_file_is_read_as_perf_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    if !record("a_file_is_read_as_perf_reads_it", &["-k", "CLOCK_MONOTONIC"], &SHELL, &path) {
        return;
    }
    let (found, recording) = decoded(&fs::read(&path).unwrap());
    check_same(found, printed(&path));
    assert_eq!(recording.events[0].name, "page-faults:u");
    assert_eq!(recording.clock(), dwell_decode::perf_data::RecordingClock::Posix(1));
    let clock = recording.clock_data.unwrap();
    assert!(clock.clock_id == 1 && clock.wall_ns > clock.clock_ns);
    assert!(recording.command_line.iter().any(|word| word == "page-faults:u"), "{:?}", recording.command_line);
    let (first_ns, last_ns) = recording.sample_time_ns.unwrap();
    assert!(first_ns < last_ns && recording.hostname.is_some() && recording.os_release.is_some());
}

#[test]
fn a_compressed_file_is_read_as_perf_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    if record("a_compressed_file_is_read_as_perf_reads_it", &["-z"], &SHELL, &path) {
        check_same(decoded(&fs::read(&path).unwrap()).0, printed(&path));
    }
}

#[test]
fn a_pipe_is_read_as_perf_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.pipe");
    // What the program prints must not get into the pipe.
    let program = "perf record -q -e page-faults:u -c 1 -d -o - -- sh -c 'ls -l /usr >/dev/null'";
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", program]).stdout(File::create(&path).unwrap()).stderr(Stdio::null()).status();
    if !status.unwrap().success() {
        return skip::skip("a_pipe_is_read_as_perf_reads_it", "perf is not there, or cannot record page faults here");
    }
    let (found, recording) = decoded(&fs::read(&path).unwrap());
    assert_eq!(recording.events[0].name, "page-faults:u");
    // perf puts no build ids into a pipe, so functions are not known.
    let without_symbols = |faults: Vec<Fault>| -> Vec<Fault> {
        faults.into_iter().map(|fault| Fault { symbol: String::new(), ..fault }).collect()
    };
    assert!(found.len() > 100);
    assert_eq!(without_symbols(comparable(found)), without_symbols(comparable(printed(&path))));
}

/// Two functions that each touch 64 pages, and nothing else does.
const TOUCHER: &str = r#"
#include <cstdlib>
namespace pages {
    static char memory[2][64 * 4096];
    template <int Which> struct Toucher {
        __attribute__((noinline)) void operator()(char value) const {
            for (int page = 0; page < 64; page++) *(volatile char*)&memory[Which][page * 4096] = value;
        }
    };
}
int main() { pages::Toucher<0>()('a'); pages::Toucher<1>()('b'); return 0; }
"#;

#[test]
fn functions_are_named_as_the_program_has_them() {
    const TEST: &str = "functions_are_named_as_the_program_has_them";
    let folder = tempfile::tempdir().unwrap();
    let [source, program, path] = ["toucher.cpp", "touch er (1)", "perf.data"].map(|name| folder.path().join(name));
    fs::write(&source, TOUCHER).unwrap();
    let compiled = Command::new("c++").args(["-O1", "-Wl,--build-id=sha1", "-o"]).args([&program, &source]).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skip::skip(TEST, "there is no C++ compiler");
    }
    let program_name = program.to_str().unwrap();
    // Build ids stand at the end of a file, or in the mappings of a compressed one.
    for options in [&[][..], &["-z", "--buildid-mmap"]] {
        if !record(TEST, options, &[program_name], &path) {
            return;
        }
        check_functions(&path, program_name);
    }
    // The same names for other bytes would be wrong ones.
    fs::write(&program, fs::read("/proc/self/exe").unwrap()).unwrap();
    let (found, _) = decoded(&fs::read(&path).unwrap());
    assert!(found.iter().all(|fault| !fault.symbol.starts_with("pages::")));
}

fn check_functions(recording: &Path, program: &str) {
    let (found, _) = decoded(&fs::read(recording).unwrap());
    let printed = printed(recording);
    for name in ["pages::Toucher<0>::operator()", "pages::Toucher<1>::operator()"] {
        let of_function =
            |faults: &[Fault]| -> Vec<Fault> { faults.iter().filter(|fault| fault.symbol == name).cloned().collect() };
        assert!(of_function(&found).len() >= 63, "{name}: {}", of_function(&found).len());
        assert_eq!(of_function(&found), of_function(&printed));
        assert!(of_function(&found).iter().all(|fault| fault.dso == program));
    }
}
