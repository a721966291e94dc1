//! Captures that are cut off, and what is left of them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process, kill_process_group};

use crate::common::{dwell, pid_of, send, skip, text_of, wait_for, wait_for_end_of, worker_of};
use crate::lab::{Captured, Lab};

/// Generates for a while, and leaves a checkpoint now and then.
const CHECKPOINTED: [&str; 6] =
    ["--max-tokens", "400", "--checkpoint-every", "7", "--tensors", "residual,attention,mlp,logits"];

/// A capture that goes on, in a process group of its own as a shell would start it.
fn start(lab: &Lab, name: &str, arguments: &[&str]) -> Child {
    let mut command = lab.command(name, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap()
}

fn wait_for_packets(path: &Path, count: usize) {
    wait_for("packets", || {
        let file = dwell_tensors::TensorFile::open(path).ok()?;
        (file.packets().len() >= count).then_some(())
    });
}

/// Goes on with a capture to its end. The worker of a killed one may need a moment to be gone.
fn resumed(lab: &Lab, name: &str, arguments: &[&str]) -> Captured {
    let output = wait_for("the file to be free", || {
        let output = lab.command(name, &[arguments, &["--resume"]].concat()).output().unwrap();
        (!text_of(&output).contains("another capture writes it")).then_some(output)
    });
    assert!(output.status.success(), "{}", text_of(&output));
    Captured::open(&lab.path(name))
}

fn assert_same(found: &Captured, expected: &Captured) {
    assert!(found.is_finished);
    assert_eq!(found.tokens, expected.tokens);
    assert_eq!(found.packets.len(), expected.packets.len());
    assert!(found.packets == expected.packets);
}

fn wait_with_output(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_capture_is_a_whole_stream_of_what_there_is() {
    let lab = Lab::new();
    let child = start(&lab, "a", &["--max-tokens", "900", "--tensors", "*"]);
    wait_for_packets(&lab.path("a"), 50);
    kill_process_group(pid_of(child.id()), Signal::INT).unwrap();
    let output = wait_with_output(child);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let captured = Captured::open(&lab.path("a"));
    assert!(captured.is_finished && captured.packets.len() >= 50 && captured.tokens.len() < 900);
    assert_eq!(captured.packets.last().unwrap().step + 1, captured.tokens.len() as u64);
}

#[test]
fn an_interrupted_capture_with_checkpoints_goes_on_to_the_same_end() {
    let lab = Lab::new();
    let expected = lab.capture("whole", &CHECKPOINTED);
    let child = start(&lab, "a", &CHECKPOINTED);
    wait_for_packets(&lab.path("a"), 10);
    send(child.id(), Signal::INT);
    let output = wait_with_output(child);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("hint: resume: "), "{}", text_of(&output));
    assert_same(&resumed(&lab, "a", &CHECKPOINTED), &expected);
    assert!(!lab.path("a.ckpt.json").exists());
}

#[test]
fn a_killed_worker_is_told_with_what_is_safe() {
    let lab = Lab::new();
    let child = start(&lab, "a", &CHECKPOINTED);
    wait_for_packets(&lab.path("a"), 10);
    let worker = wait_for("the worker", || worker_of(child.id()));
    send(worker, Signal::KILL);
    let output = wait_with_output(child);
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("ended by signal 9 (SIGKILL)"), "{said}");
    let safe = Captured::open(&lab.path("a"));
    assert!(
        said.contains(&format!("{} tensors and {} tokens are safe", safe.packets.len(), safe.tokens.len())),
        "{said}"
    );
    assert!(said.contains("`dwell tensors recover '") && said.contains("hint: or resume: "), "{said}");
}

#[test]
fn a_capture_does_not_go_on_with_other_settings() {
    let lab = Lab::new();
    let child = start(&lab, "a", &CHECKPOINTED);
    wait_for_packets(&lab.path("a"), 10);
    send(child.id(), Signal::INT);
    wait_with_output(child);
    let before = fs::read(lab.path("a")).unwrap();
    for (changed, setting) in
        [(&["--seed", "5"][..], "seed"), (&["--prompt", "other"], "prompt"), (&["--every", "2"], "every")]
    {
        let output = lab.command("a", &[&CHECKPOINTED[..], changed, &["--resume"]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains(setting), "{}", text_of(&output));
    }
    assert_eq!(fs::read(lab.path("a")).unwrap(), before);
}

/// Numbers that look random, the same in every run of the test.
struct Delays(u64);

impl Delays {
    fn next(&mut self, most: Duration) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        most.mul_f64((self.0 >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// Ends what a copy of a cut-off stream holds, which must be the beginning of the whole.
fn assert_recovers(lab: &Lab, name: &str, expected: &Captured) -> usize {
    let copy = lab.path("copy");
    fs::copy(lab.path(name), &copy).unwrap();
    let output = dwell().args(["tensors", "recover"]).arg(&copy).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{}", text_of(&output));
    let found = Captured::open(&copy);
    assert!(found.is_finished);
    assert!(found.packets[..] == expected.packets[..found.packets.len()]);
    assert!(found.tokens[..] == expected.tokens[..found.tokens.len()]);
    found.packets.len()
}

#[test]
fn killed_at_any_moment_a_capture_recovers_and_goes_on_to_the_same_content() {
    const KILLS: u32 = 50;
    if std::env::var_os("DWELL_QUICK").is_some() {
        return skip("capture::killed_at_any_moment", "DWELL_QUICK is set");
    }
    let lab = Lab::new();
    let begin = Instant::now();
    let expected = lab.capture("whole", &CHECKPOINTED);
    let (duration, mut delays) = (begin.elapsed(), Delays(1));
    let (mut kills, mut recovered) = (0, 0);
    while kills < KILLS {
        let _ = fs::remove_file(lab.path("a"));
        // Cut off again and again until it comes through, at most three times.
        for _ in 0..3 {
            kills += u32::from(kill_somewhen(&lab, kills, delays.next(duration)));
            if dwell_tensors::TensorFile::open(&lab.path("a")).is_ok() {
                recovered += usize::from(assert_recovers(&lab, "a", &expected) > 0);
            }
        }
        assert_same(&resumed(&lab, "a", &CHECKPOINTED), &expected);
        assert!(!lab.path("a.ckpt.json").exists());
    }
    assert!(recovered > KILLS as usize / 4, "only {recovered} kills left something behind");
}

/// Begins or goes on with a capture and kills its worker or its observer after a while; false if it was through.
fn kill_somewhen(lab: &Lab, number: u32, delay: Duration) -> bool {
    let mut child = start(lab, "a", &[&CHECKPOINTED[..], &["--resume"]].concat());
    std::thread::sleep(delay);
    let is_running = child.try_wait().unwrap().is_none();
    let worker = worker_of(child.id());
    let victim = if number.is_multiple_of(2) { worker.unwrap_or(child.id()) } else { child.id() };
    // It may have ended in between.
    let _ = kill_process(pid_of(victim), Signal::KILL);
    let _ = wait_with_output(child);
    if let Some(worker) = worker {
        wait_for_end_of(worker);
    }
    is_running
}
