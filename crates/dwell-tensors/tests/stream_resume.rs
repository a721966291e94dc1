//! What a stream can and cannot be gone on from.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{head, pattern};
use dwell_events::Hint;
use dwell_tensors::{Codec, StreamError, StreamOptions, TensorFile, TensorStream, TensorsError, verify};

struct Capture {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Capture {
    fn checkpoint_path(&self) -> PathBuf {
        self.path.with_extension("tensors.ckpt.json")
    }

    fn resume(&self) -> Result<(TensorStream, dwell_tensors::Resumed), TensorsError> {
        TensorStream::resume(&self.path, options())
    }

    /// The reason why resuming is refused; every reason comes with a remedy.
    fn refusal(&self) -> StreamError {
        match self.resume() {
            Err(TensorsError::Stream(error)) => {
                assert!(!error.hints().is_empty(), "{error}");
                error
            }
            Err(error) => panic!("another error: {error}"),
            Ok(_) => panic!("it was resumed"),
        }
    }
}

fn options() -> StreamOptions {
    let metadata = [("model".to_owned(), "small".to_owned())].into();
    StreamOptions { codec: Codec::None, metadata, ..StreamOptions::default() }
}

fn hand_over(stream: &TensorStream, steps: std::ops::Range<u64>) {
    for step in steps {
        let bytes = pattern(step, 100_000);
        stream.submit(head("x", step, bytes.len()), &bytes).unwrap();
        stream.record_token(step as i64, "t").unwrap();
    }
}

/// Four steps before the checkpoint, three behind it.
fn abandoned() -> Capture {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let stream = TensorStream::create(&path, options()).unwrap();
    hand_over(&stream, 0..4);
    stream.checkpoint().unwrap();
    hand_over(&stream, 4..7);
    let summary = stream.abandon().unwrap();
    assert_eq!(summary.progress.written_packets, 7);
    Capture { _dir: dir, path }
}

fn file_bytes(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn what_lies_behind_the_checkpoint_is_cut_and_numbers_go_on() {
    let capture = abandoned();
    let bytes = file_bytes(&capture.path);
    let (stream, resumed) = capture.resume().unwrap();
    assert_eq!((resumed.packets, resumed.next_step, resumed.tokens.len()), (4, 4, 4));
    assert_eq!(resumed.trimmed_bytes, bytes - file_bytes(&capture.path));
    assert!(resumed.trimmed_bytes > 300_000);
    assert_eq!((stream.progress().packets, stream.progress().raw_bytes), (4, 400_000));
    hand_over(&stream, 4..6);
    stream.finish().unwrap();
    assert!(!capture.checkpoint_path().exists());
    assert!(verify(&capture.path).unwrap().is_sound());
    let file = TensorFile::open(&capture.path).unwrap();
    assert_eq!(file.tokens().iter().map(|mark| mark.token_index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    for step in 0..6 {
        assert_eq!(file.read_elements(step as usize).unwrap(), pattern(step, 100_000));
    }
}

#[test]
fn without_a_checkpoint_there_is_nothing_to_go_on_from() {
    let capture = abandoned();
    fs::remove_file(capture.checkpoint_path()).unwrap();
    assert!(matches!(capture.refusal(), StreamError::NoCheckpoint { .. }));
}

#[test]
fn a_finished_stream_says_that_it_is_finished() {
    let capture = abandoned();
    capture.resume().unwrap().0.finish().unwrap();
    assert!(matches!(capture.refusal(), StreamError::Finished { .. }));
}

#[test]
fn a_damaged_checkpoint_is_refused() {
    let capture = abandoned();
    let text = fs::read_to_string(capture.checkpoint_path()).unwrap();
    for unfit in ["", "{", "null", "{\"version\": 1}", &text.replace("\"version\": 1", "\"version\": 9")] {
        fs::write(capture.checkpoint_path(), unfit).unwrap();
        assert!(matches!(capture.refusal(), StreamError::UnfitCheckpoint { .. }), "{unfit}");
    }
}

#[test]
fn a_checkpoint_of_another_stream_is_refused() {
    let (capture, other) = (abandoned(), abandoned());
    fs::copy(other.checkpoint_path(), capture.checkpoint_path()).unwrap();
    assert!(matches!(capture.refusal(), StreamError::OtherStream { .. }));
    let text = fs::read_to_string(capture.checkpoint_path()).unwrap();
    fs::write(capture.checkpoint_path(), text.replace("a.tensors", "b.tensors")).unwrap();
    let refusal = capture.refusal().to_string();
    assert!(refusal.contains("b.tensors"), "{refusal}");
}

#[test]
fn a_stream_shorter_than_its_checkpoint_is_refused() {
    let capture = abandoned();
    let file = fs::OpenOptions::new().write(true).open(&capture.path).unwrap();
    file.set_len(200_000).unwrap();
    assert!(matches!(capture.refusal(), StreamError::LostSinceCheckpoint { .. }));
}

#[test]
fn damage_before_the_checkpoint_is_found() {
    let capture = abandoned();
    let entry = TensorFile::open(&capture.path).unwrap().packets()[2];
    let mut bytes = fs::read(&capture.path).unwrap();
    bytes[entry.payload_offset as usize + 5] ^= 1;
    fs::write(&capture.path, &bytes).unwrap();
    let before = file_bytes(&capture.path);
    assert!(matches!(capture.refusal(), StreamError::LostSinceCheckpoint { .. }));
    assert_eq!(file_bytes(&capture.path), before);
}

#[test]
fn other_settings_are_refused_by_name() {
    let capture = abandoned();
    let refusal = |options: StreamOptions| match TensorStream::resume(&capture.path, options) {
        Err(TensorsError::Stream(StreamError::OtherSettings { setting, found, begun, .. })) => (setting, found, begun),
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it was resumed"),
    };
    let text = |parts: [&str; 3]| parts.map(str::to_owned).into();
    let codec: (String, String, String) = text(["codec", "lz4", "none"]);
    assert_eq!(refusal(StreamOptions { codec: Codec::Lz4, ..options() }), codec);
    let metadata = [("model".to_owned(), "large".to_owned())].into();
    assert_eq!(refusal(StreamOptions { metadata, ..options() }), text(["model", "large", "small"]));
}

#[test]
fn a_new_capture_forgets_the_checkpoint_and_the_tokens_of_the_old_one() {
    let capture = abandoned();
    let tokens_path = capture.path.with_file_name("a_tokens.json");
    assert!(tokens_path.exists());
    let stream = TensorStream::create(&capture.path, options()).unwrap();
    assert!(!capture.checkpoint_path().exists() && !tokens_path.exists());
    stream.finish().unwrap();
    assert_eq!(TensorFile::open(&capture.path).unwrap().packets().len(), 0);
}

#[test]
fn a_stream_that_is_dropped_keeps_its_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let stream = TensorStream::create(&path, options()).unwrap();
    hand_over(&stream, 0..2);
    stream.checkpoint().unwrap();
    hand_over(&stream, 2..3);
    drop(stream);
    assert_eq!(TensorFile::open(&path).unwrap().packets().len(), 3);
    let (stream, resumed) = TensorStream::resume(&path, options()).unwrap();
    assert_eq!(resumed.packets, 2);
    stream.finish().unwrap();
}

#[test]
fn tokens_that_were_cut_away_are_told_nowhere() {
    let capture = abandoned();
    let tokens_path = capture.path.with_file_name("a_tokens.json");
    let told = || serde_json::from_slice::<serde_json::Value>(&fs::read(&tokens_path).unwrap()).unwrap();
    assert_eq!(told()["total_tokens"], 7);
    let (stream, _) = capture.resume().unwrap();
    // Killed now, it would leave a stream of four tokens.
    assert!(!tokens_path.exists());
    stream.abandon().unwrap();
    assert_eq!(told()["total_tokens"], 4);
}

#[test]
fn a_stream_cut_off_before_its_first_checkpoint_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let capture = Capture { path: dir.path().join("a.tensors"), _dir: dir };
    TensorStream::create(&capture.path, options()).unwrap().abandon().unwrap();
    for beginning in [fs::read(&capture.path).unwrap(), Vec::new()] {
        fs::write(&capture.path, beginning).unwrap();
        let (stream, resumed) = capture.resume().unwrap();
        assert_eq!(resumed, dwell_tensors::Resumed::default());
        assert!(capture.checkpoint_path().exists());
        hand_over(&stream, 0..2);
        stream.finish().unwrap();
        assert_eq!(TensorFile::open(&capture.path).unwrap().packets().len(), 2);
    }
    // What is no stream of ours is not replaced.
    fs::write(&capture.path, "something else").unwrap();
    assert!(matches!(capture.resume(), Err(TensorsError::NotAStream { .. })));
}
