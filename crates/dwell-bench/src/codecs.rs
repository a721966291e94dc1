//! What each codec makes of activations: how small, how fast, how exact, and how small they could be.
//!
//! One thread, and the time that this thread was given: other work on the machine counts less.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use dwell_codec::{Codec, DType, Decoder, Encoder, max_payload_bytes};
use dwell_tensors::TensorFile;

use crate::limits::{Limits, limits};
use crate::report::Report;
use crate::trial::thread_s;

const CODECS: [&str; 7] = ["none", "lz4", "zstd:1", "zstd:3", "float", "bounded:range:1e-3", "bounded:nmse:1e-3"];

/// Times that every tensor is encoded and decoded; the fastest counts.
const REPEATS: u32 = 3;

/// Least ratios: type, codec, ratio.
const LEAST_RATIOS: [(DType, &str, f64); 3] =
    [(DType::Bf16, "float", 1.45), (DType::F32, "bounded:range:1e-3", 3.0), (DType::Bf16, "bounded:nmse:1e-3", 3.0)];

/// Least part of the limit that `float` must reach on halves, whose mantissas leave no room for a ratio of 1.45.
const LEAST_PART_OF_LIMIT: f64 = 0.97;

/// Least cosine of any vector, and least median in any tensor, with the lossy codecs.
const LEAST_COSINE: f64 = 0.99;
const LEAST_MEDIAN_COSINE: f64 = 0.999;

/// Least speed of encoding with `float`.
const LEAST_GB_PER_S: f64 = 1.0;

/// One activation.
struct Tensor {
    kind: String,
    dtype: DType,
    row_len: usize,
    raw: Vec<u8>,
}

/// Sums over tensors.
#[derive(Default)]
struct Sum {
    raw_bytes: f64,
    payload_bytes: f64,
    encode_s: f64,
    decode_s: f64,
    /// What the cosine of the worst vector, one row of the last dimension, lacks of 1.
    worst_turn: f64,
    /// The same of the median vector in the worst tensor.
    worst_median_turn: f64,
}

/// Sums by type, kind of tensor, codec.
type Sums = BTreeMap<(DType, String, &'static str), Sum>;

const ALL_KINDS: &str = "all";

/// Runs every codec over the activations of a tensor stream.
pub(crate) fn measure(activations: &Path, report: &mut Report) -> anyhow::Result<()> {
    let file = TensorFile::open(activations)?;
    let mut sums = Sums::new();
    let mut limits_of: BTreeMap<(DType, String), Limits> = BTreeMap::new();
    for index in 0..file.packets().len() {
        for tensor in tensors(&file, index)? {
            for kind in [tensor.kind.clone(), ALL_KINDS.to_owned()] {
                limits_of.entry((tensor.dtype, kind)).or_default().add(&limits(
                    tensor.dtype,
                    tensor.row_len,
                    &tensor.raw,
                ));
            }
            for codec in CODECS {
                let sum = measure_one(&tensor, codec)?;
                for kind in [&tensor.kind, ALL_KINDS] {
                    sums.entry((tensor.dtype, kind.to_owned(), codec)).or_default().add(&sum);
                }
            }
        }
    }
    ensure!(!sums.is_empty(), "{activations:?} holds no tensors of floats");
    keep(&sums, report)?;
    report.section(&speeds(&sums));
    report.section(&ratios(&sums, &limits_of));
    check(&sums, &limits_of, report);
    Ok(())
}

/// A stored tensor of singles as each type of float, any other as it is.
fn tensors(file: &TensorFile, index: usize) -> anyhow::Result<Vec<Tensor>> {
    let head = file.head(&file.packets()[index]);
    let raw = file.read_elements(index)?;
    let row_len = head.shape.last().map_or(Ok(1), |&length| usize::try_from(length)).context("the last dimension")?;
    let tensor = |dtype, raw| Tensor { kind: kind(&head.name), dtype, row_len, raw };
    match head.dtype {
        DType::F32 => {
            let singles = || raw.chunks_exact(4).map(|element| element.try_into().map_or(0.0, f32::from_le_bytes));
            let bf16 = singles().flat_map(|value| half::bf16::from_f32(value).to_le_bytes()).collect();
            let f16 = singles().flat_map(|value| half::f16::from_f32(value).to_le_bytes()).collect();
            Ok(vec![tensor(DType::Bf16, bf16), tensor(DType::F16, f16), tensor(DType::F32, raw)])
        }
        dtype @ (DType::F16 | DType::Bf16) => Ok(vec![tensor(dtype, raw)]),
        _ => Ok(Vec::new()),
    }
}

/// A tensor's name without the number of its layer.
fn kind(name: &str) -> String {
    let parts = name.split(['.', '-']).filter(|part| !part.bytes().all(|byte| byte.is_ascii_digit()));
    parts.collect::<Vec<_>>().join(".")
}

fn measure_one(tensor: &Tensor, codec: &str) -> anyhow::Result<Sum> {
    let codec: Codec = codec.parse()?;
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let mut payload = Vec::with_capacity(max_payload_bytes(tensor.raw.len()));
    let mut back = vec![0; tensor.raw.len()];
    let (mut encode_s, mut decode_s) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..REPEATS {
        payload.clear();
        let start_s = thread_s();
        let encoded = encoder.encode(codec, tensor.dtype, tensor.row_len, &tensor.raw, &mut payload);
        let between_s = thread_s();
        decoder.decode(encoded.codec, tensor.dtype, &payload, &mut back)?;
        encode_s = encode_s.min(between_s - start_s);
        decode_s = decode_s.min(thread_s() - between_s);
    }
    ensure!(!codec.is_lossless() || back == tensor.raw, "{codec} changed {}", tensor.kind);
    let (worst_turn, worst_median_turn) = turns(tensor, &back);
    let (raw_bytes, payload_bytes) = (tensor.raw.len() as f64, payload.len() as f64);
    Ok(Sum { raw_bytes, payload_bytes, encode_s, decode_s, worst_turn, worst_median_turn })
}

/// What the cosines between vectors and what became of them lack of 1: the most and the median, from the elements alone.
fn turns(tensor: &Tensor, back: &[u8]) -> (f64, f64) {
    let (before, after) = (values(tensor.dtype, &tensor.raw), values(tensor.dtype, back));
    let vectors = before.chunks(tensor.row_len.max(1)).zip(after.chunks(tensor.row_len.max(1)));
    let mut turns: Vec<f64> = vectors.map(|(before, after)| 1.0 - cosine(before, after)).collect();
    turns.sort_by(f64::total_cmp);
    (turns.last().copied().unwrap_or(0.0), turns.get(turns.len() / 2).copied().unwrap_or(0.0))
}

/// 1 for vectors of zeros that stayed so.
fn cosine(one: &[f64], other: &[f64]) -> f64 {
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    let norms = dot(one, one) * dot(other, other);
    if norms > 0.0 { (dot(one, other) / norms.sqrt()).min(1.0) } else { f64::from(u8::from(one == other)) }
}

fn values(dtype: DType, raw: &[u8]) -> Vec<f64> {
    let half = |element: &[u8]| [element[0], element[1]];
    match dtype {
        DType::Bf16 => raw.chunks_exact(2).map(|element| half::bf16::from_le_bytes(half(element)).into()).collect(),
        DType::F16 => raw.chunks_exact(2).map(|element| half::f16::from_le_bytes(half(element)).into()).collect(),
        _ => raw.chunks_exact(4).map(|element| element.try_into().map_or(0.0, f32::from_le_bytes).into()).collect(),
    }
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.raw_bytes += other.raw_bytes;
        self.payload_bytes += other.payload_bytes;
        self.encode_s += other.encode_s;
        self.decode_s += other.decode_s;
        self.worst_turn = self.worst_turn.max(other.worst_turn);
        self.worst_median_turn = self.worst_median_turn.max(other.worst_median_turn);
    }

    fn ratio(&self) -> f64 {
        self.raw_bytes / self.payload_bytes
    }

    fn encode_gb_per_s(&self) -> f64 {
        self.raw_bytes / self.encode_s / 1e9
    }

    fn decode_gb_per_s(&self) -> f64 {
        self.raw_bytes / self.decode_s / 1e9
    }
}

fn keep(sums: &Sums, report: &mut Report) -> anyhow::Result<()> {
    for ((dtype, kind, codec), sum) in sums {
        let mode = format!("{dtype} {kind} {codec}");
        report.raw("codecs", 0, &mode, "ratio", sum.ratio())?;
        report.raw("codecs", 0, &mode, "encode_gb_per_s", sum.encode_gb_per_s())?;
        report.raw("codecs", 0, &mode, "decode_gb_per_s", sum.decode_gb_per_s())?;
        report.raw("codecs", 0, &mode, "worst_cosine", 1.0 - sum.worst_turn)?;
        report.raw("codecs", 0, &mode, "worst_median_cosine", 1.0 - sum.worst_median_turn)?;
    }
    Ok(())
}

fn speeds(sums: &Sums) -> String {
    let mut text = "## Codecs on activations\n\nOne thread, all tensors together. Cosines are between a vector, one row of the last dimension, and \
         what was decoded of it: the worst of all vectors, and the median vector of the worst tensor.\n\n\
         | type | codec | ratio | encode GB/s | decode GB/s | worst vector | median, worst tensor |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for dtype in types(sums) {
        for codec in CODECS {
            let Some(sum) = sums.get(&(dtype, ALL_KINDS.to_owned(), codec)) else { continue };
            text.push_str(&format!(
                "| {dtype} | {codec} | {:.2} | {:.2} | {:.2} | {:.5} | {:.5} |\n",
                sum.ratio(),
                sum.encode_gb_per_s(),
                sum.decode_gb_per_s(),
                1.0 - sum.worst_turn,
                1.0 - sum.worst_median_turn,
            ));
        }
    }
    text
}

fn types(sums: &Sums) -> Vec<DType> {
    let mut types: Vec<DType> = sums.keys().map(|(dtype, _, _)| *dtype).collect();
    types.dedup();
    types
}

fn ratios(sums: &Sums, limits_of: &BTreeMap<(DType, String), Limits>) -> String {
    let mut text = format!(
        "## Ratio by kind of tensor\n\nThe limits are of one code for a whole tensor: for each \
         element by itself, and for exponents by their channel. Only codes that change within a tensor can go beyond.\n\n\
         | type | tensor | {} | limit | limit by channel |\n| --- | --- |{} --- | --- |\n",
        CODECS[1..].join(" | "),
        " --- |".repeat(CODECS.len() - 1),
    );
    for ((dtype, kind), limits) in limits_of {
        let ratios = CODECS[1..].iter().filter_map(|codec| sums.get(&(*dtype, kind.clone(), *codec)));
        let ratios: Vec<String> = ratios.map(|sum| format!("{:.2}", sum.ratio())).collect();
        let limits = format!("{:.2} | {:.2}", limits.ratio(), limits.ratio_by_channel());
        text.push_str(&format!("| {dtype} | {kind} | {} | {limits} |\n", ratios.join(" | ")));
    }
    text
}

fn check(sums: &Sums, limits_of: &BTreeMap<(DType, String), Limits>, report: &mut Report) {
    let of = |dtype, codec| sums.get(&(dtype, ALL_KINDS.to_owned(), codec));
    for (dtype, codec, least) in LEAST_RATIOS {
        if let Some(sum) = of(dtype, codec).filter(|sum| sum.ratio() < least) {
            report.missed_bar(format!("{codec} makes {dtype} smaller by {:.2} instead of {least}", sum.ratio()));
        }
    }
    for ((dtype, _, codec), sum) in sums.iter().filter(|((_, kind, _), _)| kind == ALL_KINDS) {
        let (worst, median) = (1.0 - sum.worst_turn, 1.0 - sum.worst_median_turn);
        if worst < LEAST_COSINE || median < LEAST_MEDIAN_COSINE {
            report.missed_bar(format!(
                "{codec} leaves a vector of {dtype} at a cosine of {worst:.5}, median {median:.5}"
            ));
        }
    }
    if let (Some(sum), Some(limits)) = (of(DType::F16, "float"), limits_of.get(&(DType::F16, ALL_KINDS.to_owned())))
        && sum.ratio() < LEAST_PART_OF_LIMIT * limits.ratio()
    {
        report.missed_bar(format!(
            "float makes float16 smaller by {:.2} of possible {:.2}",
            sum.ratio(),
            limits.ratio()
        ));
    }
    for dtype in [DType::Bf16, DType::F16] {
        if let Some(sum) = of(dtype, "float").filter(|sum| sum.encode_gb_per_s() < LEAST_GB_PER_S) {
            report.missed_bar(format!("float encodes {dtype} at {:.2} GB/s", sum.encode_gb_per_s()));
        }
    }
}
