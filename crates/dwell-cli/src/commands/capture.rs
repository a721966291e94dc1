//! `dwell capture`: runs a model in a worker and stores chosen activations.

use std::path::Path;
use std::process::ExitCode;

use dwell_capture::{CaptureJob, CaptureOutput, CapturedPhase, Layers, Selection, Slice, model_fingerprint};
use dwell_codec::Codec;
use dwell_events::engine::{Action, EngineOptions, Job};
use dwell_files::check_replaceable;
use dwell_record::{CaptureReport, capture};
use dwell_report::text::{CaptureOutcome, CaptureSummary, list_text};
use dwell_tensors::{TensorFile, recover, tokens_path};

use crate::args::CaptureArgs;
use crate::capture_view::CaptureView;
use crate::interruption::Interruption;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted, print_hints};
use crate::model_cache::Model;
use crate::new_output::{check_parent, existing_file};
use crate::output::{print_result, say, step, unprinted};
use crate::same_file::is_same_file;
use crate::shell::shell_word;
use crate::{model_cache, model_file, run_request};

pub(crate) fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    let interruption = Interruption::listen()?;
    run_request::check_temperature(&args.generation)?;
    let selection = selection(args)?;
    let codec: Codec = args.codec.parse().map_err(hinted)?;
    let prompt = run_request::prompt(&args.generation)?;
    let begin = match &args.output {
        Some(output) if !args.list => Some(how_to_begin(output, args)?),
        _ => None,
    };
    if let (Some(Begin::NotAtAll), Some(output)) = (begin, &args.output) {
        // Killed right after its last write, it has its checkpoint still.
        recover(output).map_err(hinted)?;
        say(format_args!("nothing to resume: the stream is finished\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let model = step("choosing the model", || model_cache::resolve(args.generation.model.as_deref()))?;
    if let Some(output) = args.output.as_deref().filter(|output| is_same_file(output, &model.path)) {
        return Err(Failure::new(format!("writing the stream: it is the model's file: {output:?}"))
            .hint("choose another name with -o")
            .into());
    }
    let mut job = CaptureJob { job: job(args, prompt, &model)?, selection, output: None };
    let (Some(output), Some(begin)) = (&args.output, begin) else { return list(job, args, &interruption) };
    job.output = Some(CaptureOutput {
        path: output.clone(),
        codec: codec.to_string(),
        pressure: args.pressure,
        max_memory_bytes: args.max_memory,
        checkpoint_every: args.checkpoint_every,
        is_resumed: begin == Begin::Resumed,
        model_fingerprint: fingerprint(&model.path)?,
    });
    interruption.capture_begins(hints_when_cut_off(output, args));
    let report = follow(&job, args, &interruption)?;
    finish(&report, output, args)
}

/// How an output is begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    Anew,
    Resumed,
    /// There is nothing left to do.
    NotAtAll,
}

/// Refuses to replace what nobody said may be replaced.
fn how_to_begin(output: &Path, args: &CaptureArgs) -> anyhow::Result<Begin> {
    check_parent(output)?;
    check_replaceable("writing the stream", output).map_err(hinted)?;
    let tokens = tokens_path(output);
    if !args.resume && !args.force && tokens.symlink_metadata().is_ok() && !output.exists() {
        return Err(existing_file(&tokens).into());
    }
    if !output.exists() {
        if args.resume && !args.json {
            say(format_args!("note: nothing to resume; the capture begins\n"));
        }
        return Ok(Begin::Anew);
    }
    if args.force {
        return Ok(Begin::Anew);
    }
    let is_finished = TensorFile::open(output).ok().map(|file| file.is_finished());
    match (args.resume, is_finished) {
        (true, Some(true)) => Ok(Begin::NotAtAll),
        (true, _) => Ok(Begin::Resumed),
        (false, Some(false)) => {
            // What a killed capture left can still be used.
            Err(hints_when_cut_off(output, args).into_iter().fold(existing_file(output), Failure::hint).into())
        }
        (false, _) => Err(existing_file(output).into()),
    }
}

fn selection(args: &CaptureArgs) -> anyhow::Result<Selection> {
    let selection = Selection {
        tensors: args.tensors.clone(),
        layers: args.layers.as_deref().map(str::parse::<Layers>).transpose().map_err(hinted)?,
        phase: args.phase,
        every: args.every,
        slice: args.slice.parse::<Slice>().map_err(hinted)?,
    };
    selection.check().map_err(hinted)?;
    Ok(selection)
}

fn job(args: &CaptureArgs, prompt: String, model: &Model) -> anyhow::Result<Job> {
    let file = model_file::open_to_run(&model.path)?;
    let options = run_request::engine_options(&args.generation, &model.path, Some(&file));
    let options = EngineOptions {
        // One graph for each batch: so a graph's tensors can be told apart by their order in it.
        batch_size: options.micro_batch_size,
        all_positions: args.all_positions,
        ..options
    };
    let sequences = vec![0];
    let actions = vec![
        Action::Prompt { text: prompt, sequences: sequences.clone(), fill_to_tokens: args.generation.prompt_tokens },
        Action::Generate { max_tokens: args.generation.max_tokens, sequences },
    ];
    Ok(Job::embedded(options, actions))
}

fn fingerprint(model: &Path) -> anyhow::Result<String> {
    let unreadable = |error| Failure::new(format!("reading the model failed with {error}: {model:?}"));
    Ok(model_fingerprint(model).map_err(unreadable)?)
}

fn list(mut job: CaptureJob, args: &CaptureArgs, interruption: &Interruption) -> anyhow::Result<ExitCode> {
    job.job.actions.clear();
    let report = follow(&job, args, interruption)?;
    match args.json {
        true => super::print_json(&report.graph)?,
        false => print_result(&list_text(&report.graph))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn follow(job: &CaptureJob, args: &CaptureArgs, interruption: &Interruption) -> anyhow::Result<CaptureReport> {
    let model_name = job.job.options.model.file_stem().unwrap_or_default().to_string_lossy();
    let mut view = CaptureView::new(args.json, &model_name, args.generation.max_tokens.into());
    let report = step("capturing", || capture(job, interruption.is_requested(), &mut view));
    view.finish();
    report.map_err(|error| {
        let failure = Failure::from_hinted(&error);
        match error {
            dwell_record::RecordError::CaptureStopped { .. } if has_checkpoint(args) => {
                failure.hint(format!("or resume: {}", resume_command())).into()
            }
            _ => failure.into(),
        }
    })
}

fn finish(report: &CaptureReport, output: &Path, args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    let file = TensorFile::open(output).map_err(hinted)?;
    let has_prompt = args.phase != CapturedPhase::Decode;
    let outcome = CaptureOutcome {
        tensors: &report.tensors,
        counts: &report.counts,
        resumed_packets: report.resumed_packets,
        duration_ns: report.duration_ns,
        is_finished: report.is_finished,
        is_interrupted: report.is_interrupted,
        generation: report.generation,
        has_last_position_only: has_prompt && report.has_last_position_only,
    };
    let summary = CaptureSummary::new(&outcome, &file);
    let not_printed = |error| unprinted(&error, output);
    if args.json {
        super::print_json(&summary).map_err(not_printed)?;
    } else {
        say(format_args!("\n"));
        print_result(&summary.text()).map_err(not_printed)?;
        let hints = match report.is_finished {
            true => vec![format!("dwell tensors stats {}", shell_word(&output.display().to_string()))],
            false => hints_when_cut_off(output, args),
        };
        print_hints(&hints);
    }
    Ok(if summary.has_loss() { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// What can be done with a stream that was cut off.
fn hints_when_cut_off(output: &Path, args: &CaptureArgs) -> Vec<String> {
    let recover = format!("dwell tensors recover {}", shell_word(&output.display().to_string()));
    let resume = has_checkpoint(args).then(|| format!("resume: {}", resume_command()));
    resume.into_iter().chain([format!("end the stream where it is with `{recover}`")]).collect()
}

/// Whether a capture that is cut off can be gone on with.
fn has_checkpoint(args: &CaptureArgs) -> bool {
    args.checkpoint_every.is_some() || args.resume
}

/// The same command, to go on with what it began.
fn resume_command() -> String {
    let words = run_request::command_line();
    let words = words.iter().skip(1).filter(|word| !matches!(word.as_str(), "--resume" | "--force"));
    let words: Vec<String> = words.map(|word| shell_word(word)).collect();
    format!("dwell {} --resume", words.join(" "))
}
