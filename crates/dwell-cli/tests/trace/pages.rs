//! Pages that a program writes, as the kernel tells them: `--collect pages`.

use std::collections::BTreeSet;
use std::fs;

use dwell_events::schema::{Table, TableSpec};

use crate::common::{Run, Workplace, skip, text, text_of, wide};
use crate::{done, trace, traced_run};

static PAGES: TableSpec = TableSpec { name: "pages", columns: &[] };
const PAGE: u64 = 4096;

/// Maps four areas of 64 pages: written once, hot, read only, untouched. Goes on until two scans after its last write were
/// recorded. Prints the addresses.
const PROGRAM: &str = r#"
import ctypes, mmap, os, sys, time
stream = sys.argv[1]
areas = [mmap.mmap(-1, 64 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(4)]
once, hot, read, untouched = areas
end = time.monotonic() + 120
def scans(count):
    for _ in range(count):
        size = os.path.getsize(stream)
        while os.path.getsize(stream) == size:
            hot[5 * 4096] = 1
            if time.monotonic() > end:
                sys.exit("no scan was recorded")
            time.sleep(0.005)
scans(2)
for page in range(0, 64, 2):
    once[page * 4096 + 7] = 1
sum(read[page * 4096] for page in range(64))
scans(3)
print(*[hex(ctypes.addressof(ctypes.c_char.from_buffer(area))) for area in areas])
"#;

/// A row of the table.
struct Row {
    pid: u64,
    access: String,
    pages: std::ops::Range<u64>,
}

fn rows(run: &Run) -> Vec<Row> {
    let batches = run.batches(Table::Own(&PAGES));
    let row = |batch: &arrow_array::RecordBatch, row: usize| {
        let (address, bytes) = (wide(batch, "address", row), wide(batch, "size_bytes", row));
        assert!(wide(batch, "touched_bytes", row) <= bytes);
        let pid = crate::common::optional::<arrow_array::types::UInt32Type>(batch, "pid", row).unwrap();
        Row {
            pid: pid.into(),
            access: text(batch, "access", row),
            pages: address / PAGE..(address + bytes).div_ceil(PAGE),
        }
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|index| row(batch, index)).collect::<Vec<_>>()).collect()
}

/// Numbers within an area of the pages that were written.
fn written(rows: &[Row], area: u64) -> BTreeSet<u64> {
    let first = area / PAGE;
    let rows = rows.iter().filter(|row| row.access == "written");
    let pages = rows.flat_map(|row| row.pages.start.max(first)..row.pages.end.min(first + 64));
    pages.map(|page| page - first).collect()
}

fn trace_of_areas(place: &Workplace) -> std::process::Command {
    let program = place.path().join("areas.py");
    fs::write(&program, PROGRAM).unwrap();
    let stream = traced_run(place).dir.join("raw/pages.arrows");
    let command = ["python3", program.to_str().unwrap(), stream.to_str().unwrap()];
    trace(place, &["--quiet", "--collect", "process,pages"], &command)
}

fn check_areas(run: &Run, printed: &str) {
    let areas: Vec<u64> = printed.split_whitespace().map(|word| u64::from_str_radix(&word[2..], 16).unwrap()).collect();
    let [once, hot, read, untouched] = areas[..] else { panic!("{printed:?}") };
    let rows = rows(run);
    assert_eq!(written(&rows, once), (0..64).step_by(2).collect());
    assert_eq!(written(&rows, hot), BTreeSet::from([5]));
    assert_eq!(written(&rows, read), BTreeSet::new());
    assert_eq!(written(&rows, untouched), BTreeSet::new());
    let scans_of_hot = rows.iter().filter(|row| row.access == "written" && row.pages.contains(&(hot / PAGE + 5)));
    assert!(scans_of_hot.count() > 2);
    assert_eq!(rows.iter().map(|row| row.pid).collect::<BTreeSet<_>>().len(), 1, "one process computes");
    let origin = &run.metadata()["tables"]["pages"];
    assert_eq!((origin["basis"].as_str(), origin["source"].as_str()), (Some("page"), Some("pages")));
}

#[test]
fn areas_of_a_program_that_dwell_starts_are_told_apart_page_by_page() {
    let place = Workplace::new();
    let (run, output) = done(&place, trace_of_areas(&place));
    check_areas(&run, &String::from_utf8(output.stdout).unwrap());
}

#[test]
fn an_ordinary_user_sees_the_pages_of_own_programs() {
    const TEST: &str = "an_ordinary_user_sees_the_pages_of_own_programs";
    let place = Workplace::new();
    let trace = trace_of_areas(&place);
    fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let program = place.path().join("dwell");
    crate::common::copy_program(std::path::Path::new(env!("CARGO_BIN_EXE_dwell")), &program);
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(trace.get_args());
    match command.output() {
        Ok(output) if output.status.success() => {
            check_areas(&traced_run(&place), &String::from_utf8(output.stdout).unwrap());
        }
        Ok(output) if text_of(&output).contains("setpriv:") => skip(TEST, "another user cannot be taken on"),
        Ok(output) => panic!("{}", text_of(&output)),
        Err(_) => skip(TEST, "there is no setpriv"),
    }
}

#[test]
fn a_command_that_ends_at_once_gives_an_empty_table_and_says_so() {
    let place = Workplace::new();
    let (run, _) = done(&place, trace(&place, &["--collect", "process,pages"], &["true"]));
    let losses = run.losses();
    assert!(rows(&run).is_empty() || losses.iter().any(|(kind, _)| kind == "missed_samples"), "{losses:?}");
}
