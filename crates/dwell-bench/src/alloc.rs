//! What recording allocations costs the program: CPU time of a pair of malloc and free, alone and recorded by dwell, memray and
//! heaptrack.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::peer;
use crate::report::{Report, median};
use crate::trial::dwell;

/// The greatest CPU time of a pair, and what it must be below.
const BAR_NS: f64 = 120.0;
const PEERS: [&str; 2] = ["memray", "heaptrack"];

/// Pairs come in bursts with pauses, as in programs that do something with their memory, so that the observer keeps up on a
/// busy machine too. Only the bursts are measured.
const LIBRARY: &str = r#"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
enum { BURSTS = 20, PAIRS = 100000 };
static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}
double pair_ns(void) {
    double total = 0;
    for (int burst = 0; burst < BURSTS; burst++) {
        double before = cpu_ns();
        for (int pair = 0; pair < PAIRS; pair++) {
            void *address = malloc(64);
            __asm__ volatile("" : : "r"(address) : "memory");
            free(address);
        }
        total += cpu_ns() - before;
        usleep(100000);
    }
    return total / BURSTS / PAIRS;
}
"#;

const SCRIPT: &str = "import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.pair_ns.restype = ctypes.c_double
open(sys.argv[2], 'w').write(str(library.pair_ns()))
";

/// A way of recording, with its command before that of the program.
struct Mode {
    name: &'static str,
    before: Vec<String>,
}

/// Measures all that are installed, in turns.
pub(crate) fn measure(rounds: u32, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("making a folder for the program")?;
    let program = write_program(folder.path())?;
    let modes = modes(folder.path())?;
    let mut times_ns: Vec<Vec<f64>> = vec![Vec::new(); modes.len()];
    for round in 0..rounds {
        for (mode, times_ns) in modes.iter().zip(&mut times_ns) {
            let time_ns = pair_ns(mode, &program, folder.path())?;
            report.raw("alloc", round, mode.name, "pair_cpu_ns", time_ns)?;
            times_ns.push(time_ns);
        }
    }
    let medians: Vec<(&str, f64)> =
        modes.iter().zip(&times_ns).map(|(mode, times)| (mode.name, median(times))).collect();
    let mut text = format!(
        "## Recording allocations\n\nCPU time of a pair of malloc and free of 64 bytes in the program, median of {rounds} alternating \
         rounds of 2,000,000 pairs.\n\n| recorded by | pair |\n| --- | --- |\n"
    );
    medians.iter().for_each(|(name, time_ns)| text.push_str(&format!("| {name} | {time_ns:.0} ns |\n")));
    for peer in PEERS.iter().filter(|peer| !medians.iter().any(|(name, _)| name == *peer)) {
        text.push_str(&format!("\nNot compared with {peer}, which is not installed.\n"));
    }
    report.section(&text);
    check(&medians, report);
    Ok(())
}

fn check(medians: &[(&str, f64)], report: &mut Report) {
    let Some((_, own_ns)) = medians.iter().find(|(name, _)| *name == "dwell") else { return };
    if *own_ns > BAR_NS {
        report.missed_bar(format!("a recorded pair takes {own_ns:.0} ns, at most {BAR_NS} ns are allowed"));
    }
    for (peer, peer_ns) in medians.iter().filter(|(name, peer_ns)| PEERS.contains(name) && peer_ns <= own_ns) {
        report.missed_bar(format!("a pair takes {own_ns:.0} ns, and {peer_ns:.0} ns with {peer}"));
    }
}

/// The library and the script, in a folder.
fn write_program(folder: &Path) -> anyhow::Result<[PathBuf; 2]> {
    let [source, library, script] = ["pairs.c", "libpairs.so", "pairs.py"].map(|name| folder.join(name));
    std::fs::write(&source, LIBRARY).context("writing the library")?;
    std::fs::write(&script, SCRIPT).context("writing the script")?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    if !cc.status().context("starting cc")?.success() {
        bail!("{cc:?} failed");
    }
    Ok([script, library])
}

/// Nothing, dwell, and those of the others that are installed. All run the same Python.
fn modes(folder: &Path) -> anyhow::Result<Vec<Mode>> {
    let python = peer::python();
    let runs = python.clone().unwrap_or_else(|| PathBuf::from("python3")).display().to_string();
    let text = |path: &Path| path.display().to_string();
    let mut traced = vec![text(&dwell()?)];
    let options = ["trace", "--quiet", "--collect", "alloc", "--baseline-secs", "0", "--output"];
    traced.extend(options.map(str::to_owned).into_iter().chain([
        text(&folder.join("results")),
        "--".to_owned(),
        runs.clone(),
    ]));
    let mut modes = vec![Mode { name: "nothing", before: vec![runs.clone()] }, Mode { name: "dwell", before: traced }];
    if let Some(memray) = python.map(|python| python.with_file_name("memray")).filter(|memray| memray.exists()) {
        let recording = text(&folder.join("recording.bin"));
        let words = [&text(&memray), "run", "--quiet", "--force", "--output", &recording].map(str::to_owned);
        modes.push(Mode { name: "memray", before: words.to_vec() });
    }
    if Command::new("heaptrack").arg("--version").output().is_ok() {
        // It writes into the folder that it works in.
        let words = ["heaptrack", "--raw", &runs].map(str::to_owned);
        modes.push(Mode { name: "heaptrack", before: words.to_vec() });
    }
    Ok(modes)
}

fn pair_ns(mode: &Mode, program: &[PathBuf; 2], folder: &Path) -> anyhow::Result<f64> {
    let answer = folder.join("pair_ns");
    let mut command = Command::new(&mode.before[0]);
    command.args(&mode.before[1..]).args(program).arg(&answer).current_dir(folder);
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(&answer).with_context(|| format!("{command:?} gave no answer"))?;
    std::fs::remove_file(&answer).context("removing the answer")?;
    text.parse().with_context(|| format!("reading {text:?}"))
}
