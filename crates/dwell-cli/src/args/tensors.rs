//! Arguments of `dwell tensors`.

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use dwell_events::Hint;
use dwell_tensors::{Codec, DType, PacketCodec};

use super::one_of;

#[derive(Subcommand)]
pub(crate) enum TensorsCommand {
    /// Describe a stream: end, contents, metadata.
    Info(TensorsFileArgs),
    /// Check every batch and checksum, and decode every tensor.
    Verify(TensorsFileArgs),
    /// Finish a stream whose writer was stopped, after its last whole batch.
    Recover(TensorsFileArgs),
    /// Print count, bytes, ratio and error for each tensor name.
    Stats(TensorsFileArgs),
    /// Write a stream in another form, or a packet file as a stream.
    Convert(TensorsConvertArgs),
    /// Compare the tensors of two streams, regardless of time and codec.
    Diff(TensorsDiffArgs),
    /// Write tensors to a safetensors file.
    Export(TensorsExportArgs),
}

#[derive(Args)]
pub(crate) struct TensorsFileArgs {
    /// Tensor stream.
    pub(crate) file: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TensorsForm {
    /// A tensor stream.
    Tensors,
    /// A packet file, as llm-instrumentation writes it, with the shapes in `<OUTPUT>.shapes.json`.
    Packets,
    /// A safetensors file.
    Safetensors,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PacketDType {
    /// The type of each tensor.
    Own,
    /// What readers of packet files take every number for.
    Float16,
}

#[derive(Args)]
pub(crate) struct TensorsConvertArgs {
    /// Tensor stream or packet file.
    pub(crate) input: PathBuf,
    /// File to write.
    pub(crate) output: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
    /// Form of the output.
    #[arg(long, value_enum)]
    pub(crate) to: TensorsForm,
    /// Codec of a stream: none, lz4, zstd:3, float, bounded:range:1e-3 and others.
    #[arg(long, default_value = "float", value_parser = parse_codec)]
    pub(crate) codec: Codec,
    /// Compression of packets. Default: none, or that of `<INPUT>.shapes.json`.
    #[arg(long, value_name = "CODEC", value_parser = one_of(PacketCodec::NAMES, PacketCodec::from_name))]
    pub(crate) packet_codec: Option<PacketCodec>,
    /// Element type of written packets.
    #[arg(long, value_enum, default_value = "own", value_name = "TYPE")]
    pub(crate) packet_dtype: PacketDType,
    /// Element type of packets that are read without a shapes file.
    #[arg(long, default_value = "float16", value_name = "TYPE", value_parser = parse_dtype)]
    pub(crate) dtype: DType,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct TensorsDiffArgs {
    /// First tensor stream.
    pub(crate) first: PathBuf,
    /// Second tensor stream.
    pub(crate) second: PathBuf,
    /// Largest difference between two elements.
    #[arg(long, default_value_t = 0.0, value_name = "DIFFERENCE", value_parser = parse_tolerance)]
    pub(crate) tolerance: f64,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct TensorsExportArgs {
    /// Tensor stream.
    pub(crate) file: PathBuf,
    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
    /// Only tensors whose name matches this glob; repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Vec<String>,
    /// Only these steps, separated by commas.
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    pub(crate) step: Vec<u64>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_codec(text: &str) -> Result<Codec, String> {
    text.parse().map_err(|error| with_hints(&error))
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    text.parse().map_err(|error| with_hints(&error))
}

fn with_hints<E: Error + Hint>(error: &E) -> String {
    let hints: Vec<_> = error.hints().into_iter().map(|hint| format!("\n  {hint}")).collect();
    format!("{error}{}", hints.concat())
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    let tolerance: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if tolerance >= 0.0 { Ok(tolerance) } else { Err("it must be at least 0".to_owned()) }
}
