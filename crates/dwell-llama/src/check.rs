//! What can be told wrong with a job before llama.cpp sees it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use dwell_events::engine::{Action, EngineOptions, Job, KvType};

use crate::EngineError;
use crate::memory;

/// llama.cpp pads the context length to 256 in 32 bits and counts positions in 31.
const CONTEXT_LENGTH_LIMIT: u32 = 1 << 30;

/// ggml's GGML_MAX_N_THREADS, beyond which its tables of threads are overrun.
const THREAD_LIMIT: u32 = 512;

/// llama.cpp's LLAMA_MAX_SEQ.
const SEQUENCE_LIMIT: u32 = 256;

/// Refuses a job that cannot be done, as far as can be told without loading its model.
pub(crate) fn check_job(job: &Job) -> Result<(), EngineError> {
    check_options(&job.options)?;
    for (index, action) in job.actions.iter().enumerate() {
        check_action(index + 1, action, job.options.parallel)?;
    }
    check_model_file(&job.options)
}

fn check_options(options: &EngineOptions) -> Result<(), EngineError> {
    let at_least_one = [
        ("context_length", options.context_length),
        ("threads", options.threads),
        ("batch_size", options.batch_size),
        ("micro_batch_size", options.micro_batch_size),
        ("parallel", options.parallel),
    ];
    for (option, value) in at_least_one {
        if value == 0 {
            return Err(EngineError::OptionIsZero { option });
        }
    }
    let limits = [
        ("context_length", options.context_length, CONTEXT_LENGTH_LIMIT, "llama.cpp's positions"),
        ("threads", options.threads, THREAD_LIMIT, "ggml's threads"),
        ("micro_batch_size", options.micro_batch_size, options.batch_size, "batch_size"),
        ("parallel", options.parallel, SEQUENCE_LIMIT, "llama.cpp's sequences"),
        // A decode step computes a token of each sequence in one batch.
        ("parallel", options.parallel, options.batch_size, "batch_size"),
        ("parallel", options.parallel, options.context_length, "context_length"),
    ];
    for (option, value, limit, limited_by) in limits {
        if value > limit {
            let (value, limit) = (value.into(), limit.into());
            return Err(EngineError::OptionTooLarge { option, value, limit, limited_by });
        }
    }
    if !options.temperature.is_finite() || options.temperature < 0.0 {
        return Err(EngineError::Temperature { temperature: options.temperature });
    }
    if options.kv_type_v != KvType::F16 && !options.flash_attention {
        return Err(EngineError::QuantizedValuesNeedFlashAttention { kv_type: options.kv_type_v });
    }
    Ok(())
}

fn check_action(number: usize, action: &Action, parallel: u32) -> Result<(), EngineError> {
    match action {
        Action::Prompt { sequences, .. } | Action::Generate { sequences, .. } => {
            check_sequences(number, sequences, parallel)
        }
        Action::Remove { sequence, from, to } | Action::Shift { sequence, from, to, .. } => {
            check_sequences(number, &[*sequence], parallel)?;
            let is_range = *from >= 0 && (*to < 0 || to >= from);
            is_range.then_some(()).ok_or(EngineError::PositionRange { action: number, from: *from, to: *to })
        }
        Action::Copy { source, target } if source == target => {
            Err(EngineError::CopyOntoItself { action: number, sequence: *source })
        }
        Action::Copy { source, target } => check_sequences(number, &[*source, *target], parallel),
    }
}

fn check_sequences(number: usize, sequences: &[i32], parallel: u32) -> Result<(), EngineError> {
    if sequences.is_empty() {
        return Err(EngineError::NoSequences { action: number });
    }
    for (index, &sequence) in sequences.iter().enumerate() {
        if u32::try_from(sequence).ok().is_none_or(|sequence| sequence >= parallel) {
            return Err(EngineError::UnknownSequence { action: number, sequence, parallel });
        }
        if sequences[..index].contains(&sequence) {
            return Err(EngineError::RepeatedSequence { action: number, sequence });
        }
    }
    Ok(())
}

fn check_model_file(options: &EngineOptions) -> Result<(), EngineError> {
    let path = &options.model;
    let unreadable = |source| EngineError::ModelUnreadable { source, path: path.clone() };
    let file_bytes = {
        // Before opening: opening a pipe waits for its other end.
        let facts = std::fs::metadata(path).map_err(unreadable)?;
        if !facts.is_file() {
            let found = if facts.is_dir() { "a folder" } else { "something that is not a file" };
            return Err(EngineError::ModelNotAFile { found, path: path.clone() });
        }
        facts.len()
    };
    check_magic(path, File::open(path).map_err(unreadable)?)?;
    match memory::available_bytes() {
        Some(available_bytes) if !options.mmap && file_bytes > available_bytes => {
            Err(EngineError::ModelMemory { needed_bytes: file_bytes, available_bytes, path: path.clone() })
        }
        _ => Ok(()),
    }
}

fn check_magic(path: &Path, file: File) -> Result<(), EngineError> {
    let mut start = Vec::new();
    file.take(4)
        .read_to_end(&mut start)
        .map_err(|source| EngineError::ModelUnreadable { source, path: path.to_owned() })?;
    if start == b"GGUF" {
        return Ok(());
    }
    Err(EngineError::NotGguf { found: start.escape_ascii().to_string(), path: path.to_owned() })
}
