//! What a watch writes.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use dwell_events::schema::Table;
use dwell_store::{MEMORY_CSV_HEADER, open_table};
use rustix::process::Signal;

use crate::common::{Workplace, dwell, optional, send, text, text_of, wait_for, wide};
use crate::lab::{Program, csv_rows, summary, watch};

const HEADER: &str = "timestamp,label,pid,rss_mb,vms_mb,pss_mb,uss_mb,anon_mb,file_mb,shmem_mb,swap_mb,cgroup_mb,gpu_mb,\
                      threads,minor_faults,major_faults,read_mb,write_mb,cpu_pct";

#[test]
fn a_csv_has_one_row_per_process_and_sample_and_a_total() {
    let work = Workplace::new();
    let file = work.path().join("samples.csv");
    let idle = Program::idle();
    let output = watch(&["--pid", &idle.pid(), "--max-samples", "7", "--json", "-o"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert_eq!((fs::read_to_string(&file).unwrap().lines().next(), MEMORY_CSV_HEADER), (Some(HEADER), HEADER));
    let rows = csv_rows(&file);
    assert_eq!(rows.len(), 14);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    for pair in rows.chunks(2) {
        assert_eq!((pair[0]["label"].as_str(), pair[0]["pid"].as_str()), ("sleep", idle.pid().as_str()));
        assert_eq!((pair[1]["label"].as_str(), pair[1]["pid"].as_str()), ("sleep:total", "0"));
        assert!(pair[0]["rss_mb"].parse::<f64>().unwrap() > 0.0 && pair[0]["rss_mb"] == pair[1]["rss_mb"]);
        let age_s = now_s - pair[0]["timestamp"].parse::<f64>().unwrap();
        assert!((0.0..600.0).contains(&age_s), "{age_s}");
    }
    assert!(rows[0]["pss_mb"].parse::<f64>().unwrap() > 0.0 && rows[0]["cpu_pct"].is_empty());
    let summary = summary(&output);
    assert_eq!((summary["samples"].as_u64(), summary["label"].as_str()), (Some(7), Some("sleep")));
    let peak_mb = rows.iter().map(|row| row["rss_mb"].parse::<f64>().unwrap()).fold(0.0, f64::max);
    assert_eq!(summary["memory"][0]["peak_bytes"].as_f64(), Some(peak_mb * 1_048_576.0));
}

#[test]
fn a_table_has_the_columns_of_memory_and_says_when_it_began() {
    let work = Workplace::new();
    let file = work.path().join("memory.parquet");
    let idle = Program::idle();
    let label = ["--label", "mine"];
    let output = watch(&["--pid", &idle.pid(), "--max-samples", "5", "-o"]).arg(&file).args(label).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let batches: Vec<_> = open_table(work.path(), Table::Memory).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 10);
    assert_eq!((text(&batches[0], "label", 0), text(&batches[0], "label", 1)), ("mine".into(), "mine:total".into()));
    assert!(wide(&batches[0], "rss_bytes", 0) > 0);
    assert!(optional::<arrow_array::types::UInt64Type>(&batches[0], "pss_bytes", 1).is_some());
    let bytes = fs::read(&file).unwrap();
    let has = |key: &str| bytes.windows(key.len()).any(|window| window == key.as_bytes());
    assert!(has("dwell_clock_anchor") && has("unix_ns"), "nothing says what time the samples are of");
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 1, "the stream beside it is gone");
}

#[test]
fn after_a_kill_the_lines_are_whole() {
    let work = Workplace::new();
    let file = work.path().join("samples.csv");
    let idle = Program::idle();
    let mut watching = watch(&["--pid", &idle.pid(), "--json", "-o"]).arg(&file).spawn().unwrap();
    wait_for("lines", || (fs::read_to_string(&file).unwrap_or_default().lines().count() > 5).then_some(()));
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(csv_rows(&file).len() >= 5);
}

#[test]
fn after_a_kill_the_table_is_made_of_what_was_written() {
    let work = Workplace::new();
    let file = work.path().join("memory.parquet");
    let stream = work.path().join("memory.parquet.arrows");
    let idle = Program::idle();
    let mut watching = watch(&["--pid", &idle.pid(), "--json", "-o"]).arg(&file).spawn().unwrap();
    // Header and first batch are smaller.
    wait_for("samples", || fs::metadata(&stream).is_ok_and(|found| found.len() > 60_000).then_some(()));
    watching.kill().unwrap();
    watching.wait().unwrap();
    let again = watch(&["--pid", &idle.pid(), "-o"]).arg(&file).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{}", text_of(&again));
    assert!(text_of(&again).contains("dwell recover "), "{}", text_of(&again));
    let output = dwell().arg("recover").arg(&file).output().unwrap();
    // The batch that was being written may be cut off.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text_of(&output));
    let batches: Vec<_> = open_table(work.path(), Table::Memory).unwrap().map(Result::unwrap).collect();
    assert!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>() >= 2);
    assert!(!stream.exists());
}

#[test]
fn a_name_takes_every_process_that_has_it_with_its_children_and_not_the_one_that_looks() {
    let mark = format!("watched-{}", std::process::id());
    let script = "sleep 1000 & wait; : $0";
    let trees = [Program::start(&["sh", "-c", script, &mark]), Program::start(&["sh", "-c", script, &mark])];
    let upper = mark.to_uppercase();
    // The shell that starts dwell has the name in its command line too.
    let program = env!("CARGO_BIN_EXE_dwell");
    let line = format!("{program} watch --name {upper} --interval 0.01 --max-samples 30 --json; true");
    let output = wait_for("both children", || {
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        let found = summary(&output);
        let count = |list: &str| found[list].as_array().unwrap().len();
        // A child that has not yet become another program has the shell's command line, and is a root too.
        (count("processes") == 4 && count("root_pids") == 2).then_some(output)
    });
    let found = summary(&output);
    let roots: Vec<u64> = found["root_pids"].as_array().unwrap().iter().map(|pid| pid.as_u64().unwrap()).collect();
    assert!(trees.iter().all(|tree| roots.contains(&tree.0.id().into())));
    assert_eq!(found["label"].as_str(), Some(upper.as_str()));
    let names: Vec<&str> = found["processes"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "sleep").count(), 2, "{names:?}");
    let sleepers = found["processes"].as_array().unwrap().iter().filter(|process| process["name"] == "sleep");
    sleepers.for_each(|process| send(process["pid"].as_u64().unwrap() as u32, Signal::KILL));
}
