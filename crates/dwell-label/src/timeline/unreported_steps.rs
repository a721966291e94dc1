//! The steps of a program that does not say what it computes: they follow from requests and from the sizes of graphs.

/// Numbers computations, and remembers what the KV cache held after each since the last prompt.
///
/// A token arrives some time after its computation, when the next ones may be done already. So it gets the bytes of its
/// step, not those of its arrival.
#[derive(Default)]
pub(super) struct UnreportedSteps {
    /// Whether a request was sent and nothing computed since.
    expects_prompt: bool,
    open_requests: usize,
    last_position: Option<i32>,
    decoded: u32,
    /// Steps that were decoded before the prompts of the requests that are open.
    decoded_before: u32,
    /// Bytes of living KV blocks after these prompts, and after each step since.
    kv_bytes: Vec<u64>,
}

impl UnreportedSteps {
    pub(super) fn request_begins(&mut self) {
        self.open_requests += 1;
        self.expects_prompt = true;
    }

    pub(super) fn request_ends(&mut self) {
        self.open_requests = self.open_requests.saturating_sub(1);
    }

    /// Number of a step that computes tokens at these positions: one token per answer is decoded, more are a prompt.
    ///
    /// What begins a sequence is a prompt too, be it one token: the first of a decoder that follows an encoder, whose prompt
    /// the encoder has computed.
    ///
    /// The first step after a request is a prompt, however short, unless it goes on with the step before: a program that
    /// answers once does not wait for its request to be told.
    pub(super) fn number(&mut self, positions: &[Option<i32>], begins_sequence: bool) -> u32 {
        if positions.is_empty() {
            return 0;
        }
        let follows = |position: i32| self.last_position == position.checked_sub(1);
        let goes_on = matches!(positions, [Some(only)] if follows(*only));
        let is_first = std::mem::take(&mut self.expects_prompt);
        self.last_position = positions.last().copied().flatten();
        let is_short = positions.len() <= self.open_requests.max(1) && !begins_sequence;
        if is_short && (goes_on || !is_first) {
            self.decoded += 1;
            return self.decoded;
        }
        // The prompt of one answer may be computed while others are decoded.
        if self.open_requests <= 1 || is_first {
            self.decoded_before = self.decoded;
            self.kv_bytes.clear();
        }
        0
    }

    /// A step was computed, and the cache holds so many bytes now.
    pub(super) fn computed(&mut self, step: u32, live_bytes: u64) {
        let index = step.saturating_sub(self.decoded_before) as usize;
        if self.kv_bytes.len() <= index {
            self.kv_bytes.resize(index + 1, live_bytes);
        }
        self.kv_bytes[index] = live_bytes;
    }

    /// Bytes in the cache after the computation that gave the n-th token after the first of an answer.
    pub(super) fn kv_bytes_after(&self, answer_step: u32) -> Option<u64> {
        self.kv_bytes.get(answer_step as usize).copied()
    }

    /// Number that the trace gives to this computation.
    pub(super) fn step_in_run(&self, answer_step: u32) -> u32 {
        if answer_step == 0 { 0 } else { self.decoded_before.saturating_add(answer_step) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(steps: &mut UnreportedSteps, positions: std::ops::Range<i32>, live_bytes: u64) -> u32 {
        let step = steps.number(&positions.map(Some).collect::<Vec<_>>(), false);
        steps.computed(step, live_bytes);
        step
    }

    #[test]
    fn tokens_of_one_answer_belong_to_their_steps_whenever_they_arrive() {
        let mut steps = UnreportedSteps::default();
        assert_eq!(compute(&mut steps, 0..2, 20), 0, "a warm-up");
        for (before, prompt) in [(0, 6), (3, 1)] {
            steps.request_begins();
            assert_eq!(compute(&mut steps, 0..prompt, 60), 0, "a prompt of {prompt}");
            let numbers: Vec<u32> =
                (0..3).map(|n| compute(&mut steps, prompt + n..prompt + n + 1, 70 + 10 * n as u64)).collect();
            assert_eq!(numbers, [before + 1, before + 2, before + 3]);
            let told: Vec<_> = (0..=4).map(|n| steps.kv_bytes_after(n)).collect();
            assert_eq!(told, [Some(60), Some(70), Some(80), Some(90), None]);
            assert_eq!((steps.step_in_run(0), steps.step_in_run(2)), (0, before + 2));
            steps.request_ends();
        }
    }

    #[test]
    fn answers_side_by_side_are_decoded_together() {
        let mut steps = UnreportedSteps::default();
        steps.request_begins();
        steps.request_begins();
        let batches: [&[i32]; 5] = [&[0, 1, 2], &[3, 0, 1, 2], &[4, 3], &[5, 4], &[6]];
        let numbers = batches.map(|positions| steps.number(&positions.iter().copied().map(Some).collect::<Vec<_>>(), false));
        assert_eq!(numbers, [0, 0, 1, 2, 3], "the second prompt comes with a token of the first answer");
    }

    #[test]
    fn the_first_token_of_a_decoder_is_no_decoded_one() {
        let mut steps = UnreportedSteps::default();
        let unknown = |count: usize| vec![None; count];
        for prompt in [2, 7] {
            assert_eq!(steps.number(&unknown(prompt), true), 0, "an encoder");
            assert_eq!(steps.number(&unknown(1), true), 0, "the decoder begins");
        }
        assert_eq!([steps.number(&unknown(1), false), steps.number(&unknown(1), false)], [1, 2]);
    }

    #[test]
    fn a_request_that_is_told_late_changes_nothing() {
        let mut steps = UnreportedSteps::default();
        assert_eq!(compute(&mut steps, 0..2, 20), 0, "a warm-up");
        assert_eq!((compute(&mut steps, 0..6, 60), compute(&mut steps, 6..7, 70)), (0, 1));
        steps.request_begins();
        assert_eq!(compute(&mut steps, 7..8, 80), 2);
        assert_eq!([0, 1, 2].map(|n| steps.kv_bytes_after(n)), [Some(60), Some(70), Some(80)]);
    }
}
