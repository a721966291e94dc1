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

/// Where a process that was forked comes from, if its parent was recorded at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The recorded process that it has its memory from.
    pub parent_pid: u32,
    /// When it was forked.
    pub time_ns: u64,
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
    /// Where its memory comes from. Recorders of dwell 0.1 do not say. The version of the records stays the same, because
    /// readers of dwell 0.1 ignore what follows the program.
    pub fork: Option<Fork>,
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
        if let Some(fork) = self.fork {
            out.put_u32(fork.parent_pid);
            out.put_u64(fork.time_ns);
        }
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        let mut hello = Self {
            wire_version: take.u16()?,
            pid: take.u32()?,
            resolution: take.u8()?,
            way_in: take.text()?,
            program: take.text()?,
            fork: None,
        };
        if !take.is_empty() {
            hello.fork = Some(Fork { parent_pid: take.u32()?, time_ns: take.u64()? });
        }
        Ok(hello)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_told_and_one_who_does_not_tell_is_still_read() {
        let first = Hello {
            wire_version: 1,
            pid: 5,
            resolution: 2,
            way_in: "preloaded".to_owned(),
            program: "/bin/x".to_owned(),
            fork: None,
        };
        let child = Hello { fork: Some(Fork { parent_pid: 4, time_ns: 99 }), ..first.clone() };
        assert_eq!(Hello::decode(&first.encode()), Ok(first.clone()));
        assert_eq!(Hello::decode(&child.encode()), Ok(child.clone()));
        // A fork comes after all that earlier readers know.
        assert!(child.encode().starts_with(&first.encode()));
        assert_eq!(Hello::decode(&child.encode()[..child.encode().len() - 1]), Err(DecodeError::Short));
    }
}
