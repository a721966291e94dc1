//! A capture that is killed at any moment loses nothing that was flushed, and resumed it comes to the same content.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{head, pattern};
use dwell_tensors::{Codec, StreamError, StreamOptions, TensorFile, TensorStream, TensorsError, recover, verify};

const STREAM: &str = "DWELL_TEST_STREAM";
const STEPS: u64 = 120;
const KILLS: u32 = 50;

fn options() -> StreamOptions {
    StreamOptions {
        codec: Codec::Lz4,
        max_memory_bytes: 8 << 20,
        flush_bytes: 1 << 20,
        flush_interval: Duration::from_millis(3),
        ..StreamOptions::default()
    }
}

/// The tensors of one step: small and large ones, some of them in batches that go past the page cache.
fn step_tensors(step: u64) -> Vec<(String, Vec<u8>)> {
    let lengths = [64, 3000, 90_000, if step.is_multiple_of(8) { 1_500_000 } else { 200_000 }];
    let tensor = |(layer, length): (u64, usize)| (format!("layer.{layer}"), pattern(step * 10 + layer, length));
    (0..).zip(lengths).map(tensor).collect()
}

fn capture(stream: TensorStream, first_step: u64, after_step: impl Fn(u64)) {
    for step in first_step..STEPS {
        for (name, bytes) in step_tensors(step) {
            stream.submit(head(&name, step, bytes.len()), &bytes).unwrap();
        }
        stream.record_token(step as i64, &step.to_string()).unwrap();
        if step % 5 == 4 {
            stream.checkpoint().unwrap();
            after_step(step);
        } else if step.is_multiple_of(3) {
            stream.flush().unwrap();
            after_step(step);
        }
    }
    stream.finish().unwrap();
}

#[test]
#[ignore = "child process of the test below, which kills it"]
fn captured_process() {
    let path = std::env::var_os(STREAM).unwrap();
    let path = Path::new(&path);
    let (stream, first_step) = match TensorStream::resume(path, options()) {
        Ok((stream, resumed)) => {
            assert_eq!((resumed.next_step, resumed.packets), (resumed.tokens.len() as u64, resumed.next_step * 4));
            (stream, resumed.next_step)
        }
        Err(TensorsError::Stream(StreamError::NoCheckpoint { .. })) | Err(TensorsError::NotAStream { .. }) => {
            (TensorStream::create(path, options()).unwrap(), 0)
        }
        Err(TensorsError::File(dwell_files::FileError::NotFound { .. })) => {
            (TensorStream::create(path, options()).unwrap(), 0)
        }
        // Killed between the last write and its end.
        Err(TensorsError::Stream(StreamError::Finished { .. })) => return,
        Err(error) => panic!("{error}"),
    };
    capture(stream, first_step, |step| println!("\nflushed {step}"));
}

/// Runs the capture until it is done or killed after `life`; the last step that it told to be flushed, and whether it
/// was killed.
fn run(path: &Path, life: Option<Duration>) -> (Option<u64>, bool) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "captured_process"])
        .env(STREAM, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reader = std::thread::spawn(move || {
        let steps = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("flushed ")?.parse().ok());
        steps.last()
    });
    if let Some(life) = life {
        std::thread::sleep(life);
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let was_killed = status.signal().is_some();
    assert!(status.success() || was_killed, "the capture failed by itself");
    (reader.join().unwrap(), was_killed)
}

/// Everything up to this step is there, in order and as it was; nothing else is.
fn assert_intact(path: &Path, flushed_step: Option<u64>) {
    let report = verify(path).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    let file = TensorFile::open(path).unwrap();
    let packets = file.packets().len() as u64;
    assert!(packets >= flushed_step.map_or(0, |step| (step + 1) * 4), "{packets} packets, flushed {flushed_step:?}");
    for (place, entry) in file.packets().iter().enumerate() {
        let (name, bytes) = step_tensors(place as u64 / 4).swap_remove(place % 4);
        assert_eq!((entry.packet, entry.step, file.name(entry)), (place as u64, place as u64 / 4, name.as_str()));
        assert_eq!(file.read_elements(place).unwrap(), bytes, "packet {place}");
    }
    assert!(file.tokens().iter().all(|mark| mark.packet == (mark.token_index + 1) * 4));
}

#[test]
fn fifty_kills_lose_nothing_that_was_flushed_and_resuming_completes() {
    let dir = tempfile::tempdir().unwrap();
    let mut kills = 0;
    let mut captures = 0;
    let mut random = 0x1234_5678_u64;
    while kills < KILLS {
        let path = dir.path().join(format!("capture-{captures}.tensors"));
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let life = (kills < KILLS).then(|| Duration::from_millis(5 + (random >> 33) % 150));
            let (last_flushed, was_killed) = run(&path, life);
            if !was_killed {
                break;
            }
            kills += 1;
            // Killed early enough, it has not even begun.
            if last_flushed.is_some() || TensorFile::open(&path).is_ok() {
                let copy = dir.path().join("recovered.tensors");
                std::fs::copy(&path, &copy).unwrap();
                recover(&copy).unwrap();
                assert_intact(&copy, last_flushed);
            }
        }
        assert_intact(&path, Some(STEPS - 1));
        let file = TensorFile::open(&path).unwrap();
        assert_eq!((file.packets().len() as u64, file.tokens().len() as u64), (STEPS * 4, STEPS));
        assert!(!dir.path().join(format!("capture-{captures}.tensors.ckpt.json")).exists());
        captures += 1;
    }
}
