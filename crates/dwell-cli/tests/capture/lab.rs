//! A model of known shape and captures of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use dwell_gguf::MakeSpec;
use dwell_tensors::TensorFile;

use crate::common::{Workplace, dwell, text_of};

pub const LAYERS: u64 = 3;
pub const EMBEDDING: u64 = 64;
pub const VOCABULARY: u64 = 300;
pub const PROMPT: &str = "hello world";

pub struct Lab {
    pub work: Workplace,
    pub model: PathBuf,
}

/// All that is known of one packet but when it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    pub packet: u64,
    pub name: String,
    pub layer: Option<i32>,
    pub step: u64,
    pub token_index: Option<u64>,
    pub shape: Vec<u64>,
    pub elements: Vec<u8>,
}

impl Packet {
    pub fn floats(&self) -> Vec<f32> {
        self.elements.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }
}

/// A stream that was captured.
pub struct Captured {
    pub path: PathBuf,
    pub packets: Vec<Packet>,
    /// Ids of the generated tokens.
    pub tokens: Vec<i64>,
    pub is_finished: bool,
}

impl Captured {
    pub fn open(path: &Path) -> Self {
        let file = TensorFile::open(path).unwrap();
        let packet = |(index, entry): (usize, &dwell_tensors::PacketEntry)| {
            let head = file.head(entry);
            Packet {
                packet: entry.packet,
                name: head.name,
                layer: head.layer,
                step: head.step,
                token_index: head.token_index,
                shape: head.shape,
                elements: file.read_elements(index).unwrap(),
            }
        };
        Self {
            path: path.to_owned(),
            packets: file.packets().iter().enumerate().map(packet).collect(),
            tokens: file.tokens().iter().map(|token| token.token_id).collect(),
            is_finished: file.is_finished(),
        }
    }

    pub fn named(&self, name: &str) -> Vec<&Packet> {
        self.packets.iter().filter(|packet| packet.name == name).collect()
    }
}

impl Lab {
    pub fn new() -> Self {
        let (layers, embedding, vocabulary) = (LAYERS as u32, EMBEDDING as u32, VOCABULARY as u32);
        Self::of(MakeSpec { layers, embedding, feed_forward: 128, vocabulary, ..MakeSpec::default() })
    }

    pub fn of(spec: MakeSpec) -> Self {
        let work = Workplace::new();
        let model = work.model(spec);
        Self { work, model }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// `dwell capture` of the model, into a file of this name.
    pub fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = dwell();
        command.arg("capture").arg("--model").arg(&self.model).arg("-o").arg(self.path(name));
        command.args(["--threads", "1", "--ignore-end", "--context-length", "1024"]);
        if !arguments.iter().any(|argument| argument.starts_with("--prompt")) {
            command.args(["--prompt", PROMPT]);
        }
        command.args(arguments);
        command
    }

    /// Captures, which must succeed, and reads what came of it.
    pub fn capture(&self, name: &str, arguments: &[&str]) -> Captured {
        let output = self.command(name, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text_of(&output));
        let captured = Captured::open(&self.path(name));
        assert!(captured.is_finished);
        captured
    }
}
