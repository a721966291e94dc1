//! `dwell tensors convert` and `export`: streams in other forms.

use std::path::Path;
use std::process::ExitCode;

use dwell_capture::NameGlob;
use dwell_report::text::ConvertedStream;
use dwell_tensors::{
    PacketCodec, PacketEntry, PacketOptions, TensorFile, export_safetensors, from_packets, is_stream, reencode,
    sidecar_path, to_packets,
};

use super::tensors;
use crate::args::{PacketDType, TensorsConvertArgs, TensorsExportArgs, TensorsForm};
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted};
use crate::new_output::check_file;
use crate::output::{print_result, say, unprinted};
use crate::same_file::is_same_file;
use crate::shell::shell_word;

pub(crate) fn run(args: &TensorsConvertArgs) -> anyhow::Result<ExitCode> {
    refuse_itself(&args.input, &args.output)?;
    check_file(&args.output, args.force)?;
    if !is_stream(&args.input).map_err(hinted)? {
        return read_packets(args);
    }
    let file = tensors::open(&args.input)?;
    let packets = match args.to {
        TensorsForm::Tensors => reencode(&file, &args.output, args.codec),
        TensorsForm::Safetensors => export_safetensors(&file, &args.output, |_| true),
        TensorsForm::Packets => {
            check_file(&sidecar_path(&args.output), args.force)?;
            let codec = args.packet_codec.unwrap_or(PacketCodec::None);
            let as_float16 = args.packet_dtype == PacketDType::Float16;
            to_packets(&file, &args.output, PacketOptions { codec, as_float16 })
        }
    };
    let packets = packets.map_err(hinted)?;
    let stored = match args.to {
        TensorsForm::Tensors => tensors::open(&args.output)?.stored(),
        TensorsForm::Safetensors | TensorsForm::Packets => file.stored(),
    };
    let converted = ConvertedStream::whole(&args.output, packets).stored_as(stored);
    print_converted(&converted, &args.output, args.json)?;
    Ok(tensors::exit_code(&[&file]))
}

fn read_packets(args: &TensorsConvertArgs) -> anyhow::Result<ExitCode> {
    if args.to != TensorsForm::Tensors {
        return Err(Failure::new(format!("converting found no tensor stream, and one was needed: {:?}", args.input))
            .hint("packet files become streams: `--to tensors` first".to_owned())
            .into());
    }
    let read = from_packets(&args.input, &args.output, args.packet_codec, args.dtype, args.codec).map_err(hinted)?;
    if read.sidecar.is_none() {
        say(format_args!("note: there is no file with the shapes, so every tensor is flat and {}\n", args.dtype));
    }
    let stored = tensors::open(&args.output)?.stored();
    let converted = ConvertedStream::of_packets(&args.output, &read).stored_as(stored);
    print_converted(&converted, &args.output, args.json)?;
    converted.notes().iter().for_each(|note| say(format_args!("note: {note}\n")));
    Ok(if converted.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

pub(crate) fn export(args: &TensorsExportArgs) -> anyhow::Result<ExitCode> {
    refuse_itself(&args.file, &args.output)?;
    let names = args.name.iter().map(|name| NameGlob::new(name)).collect::<Result<Vec<_>, _>>().map_err(hinted)?;
    let file = tensors::open(&args.file)?;
    let is_chosen = |entry: &PacketEntry| is_chosen(&file, entry, &names, &args.step);
    if !file.packets().is_empty() && !file.packets().iter().any(is_chosen) {
        let failure = Failure::new(format!("choosing tensors found none of these names and steps: {:?}", args.file));
        let path = shell_word(&args.file.display().to_string());
        return Err(failure.hint(format!("see what there is with `dwell tensors stats {path}`")).into());
    }
    check_file(&args.output, args.force)?;
    let packets = export_safetensors(&file, &args.output, is_chosen).map_err(hinted)?;
    let converted = ConvertedStream::whole(&args.output, packets).stored_as(file.stored());
    print_converted(&converted, &args.output, args.json)?;
    Ok(tensors::exit_code(&[&file]))
}

/// A stream in another form takes the place of nothing but another file: what the form cannot hold would be lost.
fn refuse_itself(input: &Path, output: &Path) -> anyhow::Result<()> {
    if !is_same_file(input, output) {
        return Ok(());
    }
    let failure = Failure::new(format!("writing the output: it is the input too: {output:?}"));
    Err(failure.hint("choose another name, and rename it afterwards").into())
}

fn is_chosen(file: &TensorFile, entry: &PacketEntry, names: &[NameGlob], steps: &[u64]) -> bool {
    let has_name = names.is_empty() || names.iter().any(|glob| glob.is_match(file.name(entry)));
    has_name && (steps.is_empty() || steps.contains(&entry.step))
}

fn print_converted(converted: &ConvertedStream, output: &Path, is_json: bool) -> anyhow::Result<()> {
    let printed = if is_json { super::print_json(converted) } else { print_result(&converted.text()) };
    printed.map_err(|error| unprinted(&error, output))
}
