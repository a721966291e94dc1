//! A trial with a model: what its graphs hold.

use std::cell::Cell;
use std::ops::Range;

use dwell_events::engine::{BatchToken, EngineOptions};

use crate::batch::Batch;
use crate::context::Context;
use crate::model::Model;
use crate::tap::{GraphTensor, TensorTap, TrialGraphs};
use crate::{EngineError, Hooks};

/// Tokens of the trial's prompt: more than one, so that the dimension of tokens shows.
const PROMPT_TOKENS: i32 = 3;
/// Positions of the trial's context.
const CONTEXT_LENGTH: u32 = 256;
/// Any token does: what is computed is not looked at.
const SOME_TOKEN: i32 = 0;

/// Computes a short prompt and one token in a context of their own, and says which tensors that took.
pub(crate) fn graphs(model: &Model, options: &EngineOptions) -> Result<TrialGraphs, EngineError> {
    let batch_size = PROMPT_TOKENS.cast_unsigned();
    let options = EngineOptions {
        context_length: CONTEXT_LENGTH,
        batch_size,
        micro_batch_size: batch_size,
        parallel: 1,
        ..options.clone()
    };
    let is_prompt = Cell::new(true);
    let mut seen = Seen { is_prompt: &is_prompt, graphs: TrialGraphs::default() };
    let mut context = Context::new(model, &options, Hooks { tap: Some(&mut seen), ..Hooks::default() })?;
    let mut batch = Batch::new(context.batch_size());
    compute(&mut context, &mut batch, 0..PROMPT_TOKENS, options.all_positions)?;
    is_prompt.set(false);
    compute(&mut context, &mut batch, PROMPT_TOKENS..PROMPT_TOKENS + 1, options.all_positions)?;
    drop(context);
    Ok(seen.graphs)
}

fn compute(
    context: &mut Context<'_>,
    batch: &mut Batch,
    positions: Range<i32>,
    are_all_outputs: bool,
) -> Result<(), EngineError> {
    batch.clear();
    let last = positions.end - 1;
    for position in positions {
        let token = BatchToken { id: SOME_TOKEN, position, sequence: 0 };
        batch.push(token, are_all_outputs || position == last);
    }
    context.decode(batch).map(|_| ())
}

/// Keeps every tensor that it is asked about, and wants none.
struct Seen<'trial> {
    is_prompt: &'trial Cell<bool>,
    graphs: TrialGraphs,
}

impl TensorTap for Seen<'_> {
    fn begin(&mut self, _: &TrialGraphs) -> Result<(), EngineError> {
        Ok(())
    }

    fn wants(&mut self, tensor: &GraphTensor<'_>) -> bool {
        let graph = if self.is_prompt.get() { &mut self.graphs.prompt } else { &mut self.graphs.decode };
        graph.push(tensor.node().into_owned());
        false
    }

    fn computed(&mut self, _: &GraphTensor<'_>) {}
}
