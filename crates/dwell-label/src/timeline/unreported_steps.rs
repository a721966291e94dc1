//! The steps of a program that does not say what it computes: they follow from its computations.

use super::lanes::{Circumstances, Dropped, Lane, Lanes};
use super::{Inputs, Place};

/// Numbers the computations of one process: those that decode an answer from 1 on, the others are prompts and have 0.
///
/// A computation that decodes answers and begins the prompt of another one is a decode step: the tokens of the answers
/// need its number.
#[derive(Debug, Default)]
pub(super) struct UnreportedSteps {
    lanes: Lanes,
    decoded: u32,
}

/// What was found out about a computation.
pub(super) struct Numbered {
    pub(super) step: u32,
    /// Cells that were given up before it.
    pub(super) dropped: Vec<Dropped>,
}

impl UnreportedSteps {
    /// Numbers a computation and says which lane each of its tokens belongs to. One that is not `is_counted` has no number.
    ///
    /// What begins a sequence is a prompt, be it one token: the first of a decoder that follows an encoder, whose prompt the
    /// encoder has computed.
    pub(super) fn number(
        &mut self,
        inputs: &Inputs<'_>,
        places: &mut [Place],
        now: Circumstances,
        is_counted: bool,
    ) -> Numbered {
        let followed = self.lanes.follow(inputs, places, now);
        let is_decoding = followed.is_decoding && is_counted && !inputs.begins_sequence;
        self.decoded += u32::from(is_decoding);
        Numbered { step: if is_decoding { self.decoded } else { 0 }, dropped: followed.dropped }
    }

    /// The computation that was numbered last is done, and the cache holds so many bytes now.
    pub(super) fn computed(&mut self, step: u32, live_bytes: u64) {
        self.lanes.done(step, self.decoded, live_bytes);
    }

    /// Whether the process has computed no token yet.
    pub(super) fn is_new(&self) -> bool {
        self.lanes.is_empty()
    }

    /// No request is open any more.
    pub(super) fn all_answered(&mut self) {
        self.lanes.all_answered();
    }

    pub(super) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.iter_mut()
    }
}
