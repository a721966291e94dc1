//! Page faults of a program that touches known pages: `--collect page_faults`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use arrow_array::types::{UInt32Type, UInt64Type};
use dwell_events::schema::{Table, TableSpec};
use dwell_gguf::MakeSpec;

use crate::common::{Run, Workplace, column, copy_program, dwell, optional, skip, text, text_of, wide};
use crate::{done, trace, traced_run};

static FAULTS: TableSpec = TableSpec { name: "page_faults", columns: &[] };
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace/faults.c");
const PAGE: u64 = 4096;

/// A row of the table.
struct Fault {
    time_ns: u64,
    pid: u64,
    thread: u64,
    address: u64,
    mode: String,
    symbol: String,
    dso: String,
    mapping: String,
    file_offset: Option<u64>,
}

/// What the program says: an address, its process, and a number.
type Told = BTreeMap<String, (u64, u64, u64)>;

fn compiled(place: &Workplace) -> String {
    let program = place.path().join("faults");
    let said = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(SOURCE).output().unwrap();
    assert!(said.status.success(), "{}", text_of(&said));
    program.to_str().unwrap().to_owned()
}

fn file_of_pages(place: &Workplace) -> String {
    let file = place.path().join("pages.bin");
    fs::write(&file, vec![1; 128 * PAGE as usize]).unwrap();
    file.to_str().unwrap().to_owned()
}

fn faults(run: &Run) -> Vec<Fault> {
    let mut faults = Vec::new();
    for batch in run.batches(Table::Own(&FAULTS)) {
        let narrow = |column: &str, row| u64::from(optional::<UInt32Type>(&batch, column, row).unwrap());
        let named = |name: &str, row| match column(&batch, name).is_valid(row) {
            true => text(&batch, name, row),
            false => String::new(),
        };
        faults.extend((0..batch.num_rows()).map(|row| Fault {
            time_ns: wide(&batch, "timestamp_ns", row),
            pid: narrow("pid", row),
            thread: narrow("thread_id", row),
            address: wide(&batch, "address", row),
            mode: named("mode", row),
            symbol: named("symbol", row),
            dso: named("dso", row),
            mapping: named("mapping", row),
            file_offset: optional::<UInt64Type>(&batch, "file_offset", row),
        }));
    }
    faults
}

fn told(said: &[u8]) -> Told {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, address, pid, number] = words[..] else { panic!("{line:?}") };
        let place = (u64::from_str_radix(address, 16).unwrap(), pid.parse().unwrap(), number.parse().unwrap());
        (name.to_owned(), place)
    };
    String::from_utf8(said.to_vec()).unwrap().lines().filter(|line| *line != "done").map(line).collect()
}

/// Pages of an area that a process faulted, in the order of time.
fn pages_of(faults: &[Fault], (area, pid, _): (u64, u64, u64), pages: u64) -> Vec<(u64, &Fault)> {
    let is_there = |fault: &&Fault| fault.pid == pid && (area..area + pages * PAGE).contains(&fault.address);
    faults.iter().filter(is_there).map(|fault| ((fault.address - area) / PAGE, fault)).collect()
}

fn check_areas(run: &Run, said: &[u8], sees_kernel: bool) {
    let (faults, told) = (faults(run), told(said));
    let area = |name: &str, pages| pages_of(&faults, told[name], pages);
    let numbers = |area: &[(u64, &Fault)]| area.iter().map(|(page, _)| *page).collect::<Vec<_>>();
    let main = area("main", 64);
    assert_eq!(numbers(&main), (0..64).step_by(2).collect::<Vec<_>>());
    for (_, fault) in &main {
        assert_eq!((fault.mode.as_str(), fault.symbol.as_str(), fault.mapping.as_str()), ("user", "touch_pages", ""));
        assert_eq!((fault.thread, fault.address % PAGE, fault.file_offset), (told["main"].2, 7, None));
    }
    assert!(faults.is_sorted_by_key(|fault| fault.time_ns));
    let thread = area("thread", 16);
    assert_eq!(numbers(&thread), (0..16).collect::<Vec<_>>());
    assert!(thread.iter().all(|(_, fault)| fault.thread == told["thread"].2 && fault.thread != fault.pid));
    assert_ne!(told["child"].1, told["parent"].1);
    for name in ["child", "parent"] {
        assert_eq!(numbers(&area(name, 8)), (0..8).collect::<Vec<_>>(), "{name}");
    }
    let of_file = faults.iter().find(|fault| fault.address == told["file"].0).unwrap();
    assert!(of_file.mapping.ends_with("/pages.bin"), "{}", of_file.mapping);
    assert_eq!(of_file.file_offset, Some(21 * PAGE + 3));
    let of_kernel = area("kernel", 1);
    let modes: Vec<&str> = of_kernel.iter().map(|(_, fault)| fault.mode.as_str()).collect();
    assert_eq!(modes, if sees_kernel { vec!["kernel"] } else { vec![] });
    let is_said = run.losses().iter().any(|(kind, _)| kind == "missed_samples");
    assert_eq!(is_said, !sees_kernel, "{:?}", run.losses());
    assert!(!run.losses().iter().any(|(kind, _)| kind == "lost_samples" || kind == "undecodable_records"));
    let own = [told["main"].1, told["child"].1];
    let is_own = |fault: &Fault| own.contains(&fault.pid) && !fault.dso.ends_with("/dwell");
    assert!(faults.iter().all(is_own), "dwell's own processes are no part of the run");
    let origin = &run.metadata()["tables"]["page_faults"];
    assert_eq!((origin["basis"].as_str(), origin["source"].as_str()), (Some("exact"), Some("page_faults")));
}

/// Whether this user sees what the kernel does for programs; none if perf events are forbidden.
fn sees_kernel(test: &str) -> Option<bool> {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid: i32 = paranoid.trim().parse().unwrap_or(9);
    let doctor = dwell().args(["doctor", "--collect", "page_faults"]).output().unwrap();
    let said = String::from_utf8(doctor.stdout).unwrap();
    let verdict = said.lines().find(|line| line.trim_start().starts_with("page_faults ")).unwrap();
    if verdict.contains(" was refused with ") {
        skip(test, verdict.trim());
        return None;
    }
    assert!(verdict.contains(" works "), "{verdict}");
    Some(paranoid < 2 || rustix::process::geteuid().is_root())
}

#[test]
fn every_page_that_a_program_touches_is_a_fault_of_its_thread_and_process() {
    let Some(sees_kernel) = sees_kernel("every_page_that_a_program_touches_is_a_fault_of_its_thread_and_process")
    else {
        return;
    };
    let place = Workplace::new();
    let command = [&*compiled(&place), "areas", &file_of_pages(&place)];
    let (run, output) = done(&place, trace(&place, &["--quiet", "--collect", "page_faults"], &command));
    check_areas(&run, &output.stdout, sees_kernel);
}

#[test]
fn an_ordinary_user_sees_the_faults_of_own_programs_and_is_told_what_is_hidden() {
    const TEST: &str = "an_ordinary_user_sees_the_faults_of_own_programs_and_is_told_what_is_hidden";
    let place = Workplace::new();
    let words = [compiled(&place), "areas".to_owned(), file_of_pages(&place)];
    let trace = trace(&place, &["--quiet", "--collect", "page_faults"], &words.each_ref().map(String::as_str));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = place.path().join("dwell");
    copy_program(Path::new(env!("CARGO_BIN_EXE_dwell")), &program);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(trace.get_args());
    match command.output() {
        Ok(output) if output.status.success() => {
            let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
            check_areas(&traced_run(&place), &output.stdout, paranoid.trim().parse::<i32>().unwrap() < 2);
        }
        Ok(output) if text_of(&output).contains("setpriv:") => skip(TEST, "another user cannot be taken on"),
        Ok(output) if text_of(&output).contains("opening the perf events") => skip(TEST, "perf events are forbidden"),
        Ok(output) => panic!("{}", text_of(&output)),
        Err(_) => skip(TEST, "there is no setpriv"),
    }
}

#[test]
fn faults_that_find_a_full_ring_are_counted_to_the_last_and_the_program_goes_on() {
    const TEST: &str = "faults_that_find_a_full_ring_are_counted_to_the_last_and_the_program_goes_on";
    if sees_kernel(TEST).is_none() {
        return;
    }
    let place = Workplace::new();
    let mut command = trace(&place, &["--quiet", "--collect", "page_faults"], &[&compiled(&place), "overflow"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let (run, told) = (traced_run(&place), told(&output.stdout));
    let seen = pages_of(&faults(&run), told["all"], 1024).len() as u64;
    let losses = run.losses();
    let lost: u64 = losses.iter().filter(|(kind, _)| kind == "lost_samples").map(|(_, count)| count).sum();
    assert!(lost > 0, "{losses:?}");
    // Other records may have been lost too, such as the end of a thread.
    let touched = told["all"].2;
    assert!((touched..touched + 200).contains(&(seen + lost)), "{seen} seen, {lost} lost, {touched} touched");
}

#[test]
fn what_a_killed_dwell_has_written_is_recovered() {
    const TEST: &str = "what_a_killed_dwell_has_written_is_recovered";
    if sees_kernel(TEST).is_none() {
        return;
    }
    let place = Workplace::new();
    let stream = traced_run(&place).dir.join("raw/page_faults.arrows");
    let words = [&*compiled(&place), "wait", stream.to_str().unwrap()];
    let mut command = trace(&place, &["--quiet", "--collect", "page_faults"], &words);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| line != "done").collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let run = traced_run(&place);
    let recovered = dwell().arg("recover").arg(&run.dir).output().unwrap();
    // Some is missing: what was not written yet.
    assert_eq!(recovered.status.code(), Some(1), "{}", text_of(&recovered));
    let told = told(said.join("\n").as_bytes());
    let faults = faults(&run);
    let pages: Vec<u64> = pages_of(&faults, told["main"], 64).iter().map(|(page, _)| *page).collect();
    assert_eq!(pages, (0..64).step_by(2).collect::<Vec<_>>());
}

#[test]
fn a_program_that_ends_at_once_is_seen_from_its_first_page() {
    const TEST: &str = "a_program_that_ends_at_once_is_seen_from_its_first_page";
    if sees_kernel(TEST).is_none() {
        return;
    }
    let place = Workplace::new();
    let (run, _) = done(&place, trace(&place, &["--collect", "page_faults"], &["true"]));
    let faults = faults(&run);
    let of_program = faults.iter().filter(|fault| fault.mapping.ends_with("/true"));
    assert!(of_program.count() > 0 && faults.iter().any(|fault| fault.mapping.contains("/ld-")), "{}", faults.len());
    assert!(faults.iter().all(|fault| !fault.dso.ends_with("/dwell")));
}

#[test]
fn the_first_touch_of_each_page_of_the_kv_cache_has_the_name_of_its_tensor() {
    const TEST: &str = "the_first_touch_of_each_page_of_the_kv_cache_has_the_name_of_its_tensor";
    if sees_kernel(TEST).is_none() {
        return;
    }
    let huge_pages = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if huge_pages.contains("[always]") {
        return skip(TEST, "with huge pages for all memory, a fault maps many pages");
    }
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let options =
        ["--collect", "tensor_ops,page_faults", "--max-tokens", "2", "--prompt", "a", "--context-length", "2048"];
    let run = place.run(&model, &options);
    let mut pages: BTreeMap<u64, String> = BTreeMap::new();
    for batch in run.batches(Table::RegionMap) {
        for row in (0..batch.num_rows()).filter(|row| text(&batch, "region_type", *row) == "kv_cache") {
            let (begin, bytes) = (wide(&batch, "address", row), wide(&batch, "size_bytes", row));
            let whole = (begin.div_ceil(PAGE)..(begin + bytes) / PAGE).map(|page| page * PAGE);
            pages.extend(whole.map(|page| (page, text(&batch, "tensor", row))));
        }
    }
    assert!(pages.len() > 50, "{} pages", pages.len());
    let mut faulted: BTreeMap<u64, String> = BTreeMap::new();
    for batch in run.batches(Table::Own(&FAULTS)) {
        for row in 0..batch.num_rows() {
            let page = wide(&batch, "address", row) / PAGE * PAGE;
            if pages.contains_key(&page) {
                assert_eq!(text(&batch, "region_type", row), "kv_cache");
                let before = faulted.insert(page, text(&batch, "tensor", row));
                assert_eq!(before, None, "a page of memory that is never given back faults once");
            }
        }
    }
    assert!(faulted == pages, "{} of {} pages, some with another name", faulted.len(), pages.len());
}
