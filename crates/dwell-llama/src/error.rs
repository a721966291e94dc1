//! Why a job could not be done.

use std::io;
use std::path::PathBuf;

use dwell_events::engine::KvType;

/// Why a job could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// An option must be at least one.
    #[error("checking the options: {option} is 0, at least 1 is needed")]
    OptionIsZero {
        /// Name of the option.
        option: &'static str,
    },
    /// An option is larger than something else allows.
    #[error("checking the options: {option} is {value}, at most {limit} is possible ({limited_by})")]
    OptionTooLarge {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// Largest value that would do.
        limit: u64,
        /// What sets the limit.
        limited_by: &'static str,
    },
    /// The temperature is not a number that tokens can be drawn with.
    #[error("checking the options: temperature is {temperature}, a finite number from 0 is needed")]
    Temperature {
        /// What was asked for.
        temperature: f32,
    },
    /// Quantised values can only be read by fused attention.
    #[error("checking the options: kv_type_v is {} without flash attention, f16 is needed then", .kv_type.name())]
    QuantizedValuesNeedFlashAttention {
        /// Type of the values that was asked for.
        kv_type: KvType,
    },
    /// An action has no sequence to work on.
    #[error("checking action {action}: it names no sequence, at least 1 is needed")]
    NoSequences {
        /// Number of the action, from 1.
        action: usize,
    },
    /// An action names a sequence that the context will not have.
    #[error("checking action {action}: it names sequence {sequence}, sequences go from 0 to {}", parallel - 1)]
    UnknownSequence {
        /// Number of the action, from 1.
        action: usize,
        /// The sequence.
        sequence: i32,
        /// Sequences that the context will have.
        parallel: u32,
    },
    /// An action names a sequence twice.
    #[error("checking action {action}: it names sequence {sequence} twice, once is needed")]
    RepeatedSequence {
        /// Number of the action, from 1.
        action: usize,
        /// The sequence.
        sequence: i32,
    },
    /// A range of positions is backwards or starts below zero.
    #[error("checking action {action}: its positions are {from} to {to}, a range from 0 upwards is needed")]
    PositionRange {
        /// Number of the action, from 1.
        action: usize,
        /// First position.
        from: i32,
        /// Position after the last; below 0 for the end.
        to: i32,
    },
    /// Who looks at the tensors cannot do what it was asked for.
    #[error("{message}")]
    TapRefused {
        /// What was being done, found, needed.
        message: String,
        /// What to do about it.
        hints: Vec<String>,
    },
    /// The model file cannot be read.
    #[error("opening the model: {source}: {path:?}")]
    ModelUnreadable {
        /// What the system said.
        source: io::Error,
        /// The model file.
        path: PathBuf,
    },
    /// The path of the model is not that of a file.
    #[error("opening the model: found {found}, a GGUF file is needed: {path:?}")]
    ModelNotAFile {
        /// What is there instead.
        found: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The file is of another format.
    #[error("opening the model: it begins with {found:?}, a GGUF file begins with \"GGUF\": {path:?}")]
    NotGguf {
        /// First bytes of the file, escaped where they are not text.
        found: String,
        /// The model file.
        path: PathBuf,
    },
    /// The weights are to be copied into memory and do not fit.
    #[error(
        "loading the model: it needs {}, {} are available: {path:?}",
        readable(*needed_bytes),
        readable(*available_bytes)
    )]
    ModelMemory {
        /// Bytes of the file.
        needed_bytes: u64,
        /// Bytes that the system can give.
        available_bytes: u64,
        /// The model file.
        path: PathBuf,
    },
    /// llama.cpp does not know this kind of model.
    #[error("loading the model: its architecture is {architecture:?}, which this llama.cpp does not know: {path:?}")]
    UnknownArchitecture {
        /// Name in the file.
        architecture: String,
        /// The model file.
        path: PathBuf,
    },
    /// Part of the file is missing.
    #[error("loading the model: the file is incomplete: {reason}: {path:?}")]
    ModelIncomplete {
        /// What llama.cpp said.
        reason: String,
        /// The model file.
        path: PathBuf,
    },
    /// llama.cpp refused the file.
    #[error("loading the model: {reason}: {path:?}")]
    ModelRefused {
        /// What llama.cpp said.
        reason: String,
        /// The model file.
        path: PathBuf,
    },
    /// The model does not generate text token by token.
    #[error("loading the model: found {found}, a model that generates text from left to right is needed: {path:?}")]
    NotAGenerator {
        /// What it is instead.
        found: &'static str,
        /// The model file.
        path: PathBuf,
    },
    /// A head is not a whole number of blocks of the cache's type.
    #[error(
        "making the context: heads of {head_size} {part} values do not fill blocks of {block_values} ({}), \
         a multiple is needed",
        .kv_type.name()
    )]
    KvBlock {
        /// `key` or `value`.
        part: &'static str,
        /// Type that was asked for.
        kv_type: KvType,
        /// Values per block.
        block_values: u64,
        /// Values per head.
        head_size: u64,
    },
    /// The cache does not fit into memory.
    #[error(
        "making the context: a cache of {context_length} positions needs at least {}, {} are available",
        readable(*needed_bytes),
        readable(*available_bytes)
    )]
    ContextMemory {
        /// Positions that the cache would hold.
        context_length: u64,
        /// Bytes of the cache, without the buffers of the computation.
        needed_bytes: u64,
        /// Bytes that the system can give.
        available_bytes: u64,
        /// Largest context length whose cache would fit.
        fitting_context_length: u64,
    },
    /// llama.cpp could not make the context.
    #[error("making the context: {reason}")]
    ContextRefused {
        /// What llama.cpp said.
        reason: String,
    },
    /// The model has no chat template.
    #[error("wrapping the prompt in a chat template: the model has none")]
    NoChatTemplate,
    /// The chat template is not one that llama.cpp recognises.
    #[error("wrapping the prompt in a chat template: llama.cpp does not recognise the model's, which begins {start:?}")]
    UnknownChatTemplate {
        /// Beginning of the template.
        start: String,
    },
    /// A NUL byte cannot go through a chat template.
    #[error("wrapping the prompt in a chat template: byte {offset} of the prompt is NUL, text without NUL is needed")]
    PromptHoldsNul {
        /// Offset in the prompt.
        offset: usize,
    },
    /// The text has a character that no token stands for.
    #[error("cutting the prompt into tokens: the vocabulary has no token for {character:?}")]
    NoTokenFor {
        /// The character.
        character: char,
    },
    /// llama.cpp could not cut the text into tokens.
    #[error("cutting the prompt into tokens: {bytes} bytes of text are more than llama.cpp takes at once")]
    TextTooLong {
        /// Bytes of the text.
        bytes: usize,
    },
    /// There is nothing to process.
    #[error("processing a prompt for sequence {sequence}: it has no tokens, at least 1 is needed")]
    EmptyPrompt {
        /// The sequence.
        sequence: i32,
    },
    /// A prompt is to have fewer tokens than what is around its text, or its text has none.
    #[error(
        "filling a prompt to {wanted} tokens: {around} are around the text and the text has {text}, room for at least \
         1 of them is needed"
    )]
    FillTooShort {
        /// Tokens that the prompt is to have.
        wanted: usize,
        /// Tokens of the beginning and of the chat template.
        around: usize,
        /// Tokens of the text.
        text: usize,
    },
    /// The prompt does not fit.
    #[error(
        "processing a prompt for {sequences} sequence(s): {needed} positions are needed, {available} of \
         {context_length} are free"
    )]
    PromptTooLong {
        /// Sequences that the prompt is for.
        sequences: usize,
        /// Positions that the prompt takes.
        needed: u64,
        /// Positions that are free where it has to go.
        available: u64,
        /// Positions that there are.
        context_length: u64,
    },
    /// A sequence has no last token to continue from.
    #[error("generating for sequence {sequence}: it has nothing to continue, a prompt is needed first")]
    NothingToContinue {
        /// The sequence.
        sequence: i32,
    },
    /// The model's output is no probability distribution.
    #[error("choosing a token for sequence {sequence} after step {step}: {found} among the logits, numbers are needed")]
    UnusableLogits {
        /// The sequence.
        sequence: i32,
        /// Step that computed them.
        step: u32,
        /// What is wrong with them.
        found: &'static str,
    },
    /// llama.cpp could not compute a batch.
    #[error("computing a batch of {tokens} tokens: llama_decode returned {code}: {reason}")]
    Decode {
        /// Tokens of the batch.
        tokens: usize,
        /// What llama_decode returned.
        code: i32,
        /// What llama.cpp said.
        reason: String,
    },
    /// This kind of memory cannot lose a part of a sequence.
    #[error("removing positions {from} to {to} of sequence {sequence}: the model's memory holds only whole sequences")]
    RemoveRefused {
        /// The sequence.
        sequence: i32,
        /// First position.
        from: i32,
        /// Position after the last; below 0 for the end.
        to: i32,
    },
    /// A sequence cannot be copied onto itself.
    #[error("checking action {action}: it copies sequence {sequence} onto itself, another target is needed")]
    CopyOntoItself {
        /// Number of the action, from 1.
        action: usize,
        /// The sequence.
        sequence: i32,
    },
    /// The keys of this model or cache cannot be moved.
    #[error("shifting sequence {sequence}: llama.cpp cannot move the keys of this model with this cache")]
    ShiftUnsupported {
        /// The sequence.
        sequence: i32,
    },
    /// A shared cell has one position for all of its sequences.
    #[error("shifting sequence {sequence}: it shares cells with another sequence, which would be moved too")]
    ShiftOfSharedCells {
        /// The sequence.
        sequence: i32,
    },
    /// The positions after the shift would not be usable.
    #[error("shifting positions of sequence {sequence} by {delta}: position {position} {problem}")]
    ShiftTarget {
        /// The sequence.
        sequence: i32,
        /// Distance.
        delta: i32,
        /// Position that makes trouble, after the shift.
        position: i64,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Bytes in the unit that a reader compares with the machine's memory.
fn readable(bytes: u64) -> String {
    const MIB: f64 = 1_048_576.0;
    let mib = bytes as f64 / MIB;
    if mib < 1024.0 { format!("{mib:.1} MiB") } else { format!("{:.1} GiB", mib / 1024.0) }
}
