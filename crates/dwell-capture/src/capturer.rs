//! From an engine's tensors and tokens to a stream.

use dwell_clock::monotonic_ns;
use dwell_events::GraphNode;
use dwell_tensors::{TensorHead, TensorStream, TokenMark};

use crate::CaptureError;
use crate::event::{CaptureCounts, CaptureEvent};
use crate::gather::{Strided, gather};
use crate::job::{CaptureJob, CaptureOutput};
use crate::listed::{ListedTensor, listed};
use crate::node::Names;
use crate::selection::Choice;

/// Puts the wanted tensors of an engine into a stream. What fails is kept and told at the end: the engine asks
/// [`Capturer::has_failed`] between its computations.
pub struct Capturer {
    job: CaptureJob,
    /// What computes, for the stream's metadata.
    engine: String,
    names: Names,
    choice: Choice,
    open: Option<OpenStream>,
    step: u64,
    /// The tensor that was wanted last and is being computed.
    awaited: Option<String>,
    copy: Vec<u8>,
    failure: Option<CaptureError>,
}

/// A stream, with what it has from before.
struct OpenStream {
    stream: TensorStream,
    checkpoint_every: Option<u64>,
    /// Whether there is a checkpoint to go on from.
    has_checkpoint: bool,
    recorded_tokens: Vec<TokenMark>,
    recorded_packets: u64,
    packets: u64,
    tokens: u64,
}

/// How a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationEnd {
    /// All was done.
    Done,
    /// The user interrupted.
    Interrupted,
    /// The engine failed.
    Failed,
}

impl Capturer {
    /// A capture that has not begun.
    pub fn new(job: CaptureJob, engine: String) -> Self {
        Self {
            job,
            engine,
            names: Names::default(),
            choice: Choice::default(),
            open: None,
            step: 0,
            awaited: None,
            copy: Vec::new(),
            failure: None,
        }
    }

    /// Chooses tensors from the graphs of a prompt and of one token, and opens the stream; says what came of it.
    pub fn begin(&mut self, prompt: &[GraphNode<'_>], decode: &[GraphNode<'_>]) -> Result<CaptureEvent, CaptureError> {
        let tensors = listed(prompt, decode);
        let Some(output) = self.job.output.clone() else { return Ok(CaptureEvent::Graph { tensors }) };
        self.choice = self.job.selection.choose(&tensors)?;
        let open = self.open_stream(&output)?;
        let event = self.begun(&tensors, &open);
        self.open = Some(open);
        Ok(event)
    }

    fn begun(&self, tensors: &[ListedTensor], open: &OpenStream) -> CaptureEvent {
        let chosen = tensors.iter().filter(|tensor| self.choice.tensors.contains_key(&tensor.name));
        CaptureEvent::Begun {
            has_last_position_only: chosen.clone().any(ListedTensor::has_last_position_only),
            tensors: chosen.map(|tensor| (tensor.name.clone(), tensor.group)).collect(),
            unstorable: self.choice.unstorable.clone(),
            resumed_packets: open.recorded_packets,
            resumed_tokens: open.recorded_tokens.len() as u64,
        }
    }

    fn open_stream(&self, output: &CaptureOutput) -> Result<OpenStream, CaptureError> {
        let options = self.job.stream_options(output, &self.engine)?;
        let checkpoint_every = output.checkpoint_every;
        if output.is_resumed {
            let (stream, resumed) = TensorStream::resume(&output.path, options)?;
            let (recorded_tokens, recorded_packets) = (resumed.tokens, resumed.packets);
            return Ok(OpenStream {
                stream,
                checkpoint_every,
                has_checkpoint: true,
                recorded_tokens,
                recorded_packets,
                packets: 0,
                tokens: 0,
            });
        }
        let stream = TensorStream::create(&output.path, options)?;
        let has_checkpoint = checkpoint_every.is_some();
        if has_checkpoint {
            // So that it can be gone on with whenever it is cut off.
            stream.checkpoint()?;
        }
        Ok(OpenStream {
            stream,
            checkpoint_every,
            has_checkpoint,
            recorded_tokens: Vec::new(),
            recorded_packets: 0,
            packets: 0,
            tokens: 0,
        })
    }

    /// A graph of this step is about to be computed.
    pub fn graph_begins(&mut self, step: u64) {
        self.step = step;
        self.names.begin_graph();
    }

    /// Whether the next tensor of the graph is captured; to be asked of all, in their order.
    pub fn wants(&mut self, node: &GraphNode<'_>) -> bool {
        if self.open.is_none() || !self.job.selection.wants_step(self.step) {
            return false;
        }
        let name = self.names.next(node);
        self.awaited = self.choice.tensors.contains_key(&name).then_some(name);
        self.awaited.is_some()
    }

    /// The tensor that was wanted last is there.
    pub fn computed(&mut self, tensor: Strided<'_>) {
        if let Some(name) = self.awaited.take()
            && let Err(error) = self.hand_over(name, tensor)
        {
            self.fail(error);
        }
    }

    fn hand_over(&mut self, name: String, tensor: Strided<'_>) -> Result<(), CaptureError> {
        let (Some(open), Some(chosen)) = (&mut self.open, self.choice.tensors.get(&name)) else { return Ok(()) };
        let shape: Vec<u64> = tensor.lengths[..chosen.rank].iter().rev().copied().collect();
        // Of all pieces of a prompt but its last one, there is nothing of the last layer.
        if shape.contains(&0) {
            return Ok(());
        }
        open.packets += 1;
        if open.packets <= open.recorded_packets {
            return Ok(());
        }
        let strides = |name: &str| CaptureError::Strides { name: name.to_owned() };
        // That it fits the tensor was found at the beginning.
        let taken = self.job.selection.slice.of(&shape).map_err(|_| strides(&name))?;
        let elements = gather(tensor, chosen.dtype.size_bytes(), &taken, &mut self.copy).map_err(|_| strides(&name))?;
        let head = TensorHead {
            name,
            layer: chosen.layer,
            step: self.step,
            token_index: Some(open.tokens),
            timestamp_ns: monotonic_ns().cast_signed(),
            dtype: chosen.dtype,
            shape: taken.iter().filter(|taken| taken.is_kept).map(|taken| taken.count).collect(),
        };
        open.stream.submit(head, elements)?;
        Ok(())
    }

    /// A token was generated.
    pub fn token(&mut self, id: i64, text: &str) {
        let recorded = self.open.as_mut().map_or(Ok(()), |open| open.record_token(id, text));
        if let Err(error) = recorded {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: CaptureError) {
        // What fails after it is a consequence.
        self.failure.get_or_insert(error);
    }

    /// Whether there is no use in going on.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// How far the stream is.
    pub fn counts(&self) -> Option<CaptureCounts> {
        self.open.as_ref().map(|open| open.stream.progress().into())
    }

    /// Closes the stream and says what it came to; `None` if none was opened.
    ///
    /// One that is not complete keeps its checkpoint, if it has any, and can be gone on with.
    pub fn end(self, end: GenerationEnd) -> Result<Option<CaptureEvent>, CaptureError> {
        let Some(open) = self.open else { return self.failure.map_or(Ok(None), Err) };
        if let Some(failure) = self.failure {
            // That it cannot be closed well either is a consequence.
            let _ = open.stream.abandon();
            return Err(failure);
        }
        open.end(end).map(Some)
    }
}

impl OpenStream {
    fn record_token(&mut self, id: i64, text: &str) -> Result<(), CaptureError> {
        let index = self.tokens;
        self.tokens += 1;
        let recorded = usize::try_from(index).ok().and_then(|index| self.recorded_tokens.get(index));
        match recorded {
            Some(recorded) if recorded.token_id == id => Ok(()),
            Some(recorded) => Err(CaptureError::OtherToken { index, recorded: recorded.token_id, generated: id }),
            None => {
                self.stream.record_token(id, text)?;
                match self.checkpoint_every {
                    Some(every) if self.tokens.is_multiple_of(every) => Ok(self.stream.checkpoint()?),
                    _ => Ok(()),
                }
            }
        }
    }

    fn end(self, end: GenerationEnd) -> Result<CaptureEvent, CaptureError> {
        let recorded_tokens = self.recorded_tokens.len() as u64;
        let is_behind = self.packets < self.recorded_packets || self.tokens < recorded_tokens;
        let can_resume = self.has_checkpoint && end != GenerationEnd::Done;
        if is_behind || can_resume {
            // A checkpoint of before is still good where nothing was added to it.
            if !is_behind && end == GenerationEnd::Interrupted {
                self.stream.checkpoint()?;
            }
            let summary = self.stream.abandon()?;
            return match end {
                GenerationEnd::Done => Err(CaptureError::TooShort {
                    recorded_packets: self.recorded_packets,
                    recorded_tokens,
                    packets: self.packets,
                    tokens: self.tokens,
                }),
                _ => Ok(CaptureEvent::ended(&summary, false)),
            };
        }
        Ok(CaptureEvent::ended(&self.stream.finish()?, true))
    }
}
