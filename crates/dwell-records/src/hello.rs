//! Who records, and how; or why nothing is recorded.

use crate::DecodeError;
use crate::encode::{Put, Take};

/// How finely operations are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Begin and end of the graph.
    Step,
    /// After each layer.
    Layer,
    /// After each operation.
    Op,
}

impl Resolution {
    /// The resolution with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "step" => Some(Resolution::Step),
            "layer" => Some(Resolution::Layer),
            "op" => Some(Resolution::Op),
            _ => None,
        }
    }
}

/// Who records, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`crate::WIRE_VERSION`] of the recorder.
    pub wire_version: u16,
    /// Process.
    pub pid: u32,
    /// [`Resolution`] as a number: 0 step, 1 layer, 2 op.
    pub resolution: u8,
    /// How the recorder came into the process: `linked` or `preloaded`.
    pub way_in: String,
    /// Program that is recorded.
    pub program: String,
}

impl Hello {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u16(self.wire_version);
        out.put_u32(self.pid);
        out.put_u8(self.resolution);
        out.put_text(&self.way_in);
        out.put_text(&self.program);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        Ok(Self {
            wire_version: take.u16()?,
            pid: take.u32()?,
            resolution: take.u8()?,
            way_in: take.text()?,
            program: take.text()?,
        })
    }
}

/// Why the recorder leaves a process alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was found and what was needed.
    pub reason: String,
}

impl Refusal {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_text(&self.reason);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { reason: Take::new(payload).text()? })
    }
}
