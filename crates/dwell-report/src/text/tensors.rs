//! What tensor streams say of themselves.

use std::collections::BTreeMap;
use std::path::Path;

use dwell_tensors::{
    CodecLoss, DiffReport, FileEnd, FromPackets, NameStats, Problem, Recovered, Stored, StreamStats, TensorDiff,
    TensorFile, TensorKey, VerifyReport, WorstTensor,
};
use serde::Serialize;

use super::{bytes, count, counted, or_dash, ratio, table};

/// What is said of a stream that no codec took anything from.
const LOSSLESS: &str = "none, every element comes back bit for bit";

/// What lossy codecs lost: the codecs, how much smaller tensors became, the largest error, the worst vector.
pub(super) fn codec_loss_text(loss: &CodecLoss, times_smaller: Option<f64>) -> String {
    let codecs = if loss.codecs.is_empty() { "an earlier codec".to_owned() } else { loss.codecs.join(", ") };
    let place = |worst: &WorstTensor| format!("in {} of step {}", name_text(&worst.name), worst.step);
    let error = loss.max_error.as_ref().map(|worst| format!("{:.2e} {}", worst.value, place(worst)));
    let cosine = loss.min_cosine.as_ref().map(|worst| format!("{} {}", cosine_text(worst.value), place(worst)));
    let unmeasured = || "not measured".to_owned();
    format!(
        "{codecs}: {}× smaller; largest error {}; worst vector's cosine {}",
        or_dash(times_smaller, ratio),
        error.unwrap_or_else(unmeasured),
        cosine.unwrap_or_else(unmeasured),
    )
}

/// A cosine, cut off after five digits: what is not 1 does not look like 1.
fn cosine_text(cosine: f64) -> String {
    format!("{:.5}", (cosine * 1e5).floor() / 1e5)
}

fn name_text(name: &str) -> &str {
    if name.is_empty() { "(no name)" } else { name }
}

/// What a stream is.
#[derive(Serialize)]
pub struct StreamInfo<'a> {
    file: String,
    file_bytes: u64,
    is_finished: bool,
    /// Why it has no end.
    reason: Option<&'a str>,
    batches: u64,
    packets: u64,
    names: u64,
    tokens: u64,
    first_step: Option<u64>,
    last_step: Option<u64>,
    dropped_packets: u64,
    raw_bytes: u64,
    stored_bytes: u64,
    ratio: Option<f64>,
    codec_loss: Option<&'a CodecLoss>,
    dtypes: Vec<&'a str>,
    codecs: Vec<&'a str>,
    metadata: &'a BTreeMap<String, String>,
}

impl<'a> StreamInfo<'a> {
    /// From a stream and its figures.
    pub fn new(file: &'a TensorFile, figures: &'a StreamStats) -> Self {
        let total = &figures.total;
        Self {
            file: file.path().display().to_string(),
            file_bytes: file.file_bytes(),
            is_finished: file.is_finished(),
            reason: match file.end() {
                FileEnd::Finished => None,
                FileEnd::Unfinished { reason, .. } => Some(reason),
            },
            batches: file.batches().len() as u64,
            packets: total.packets,
            names: file.names().len() as u64,
            tokens: file.tokens().len() as u64,
            first_step: total.min_step,
            last_step: total.max_step,
            dropped_packets: total.dropped_packets,
            raw_bytes: total.raw_bytes,
            stored_bytes: total.stored_bytes,
            ratio: total.ratio(),
            codec_loss: figures.codec_loss.as_ref(),
            dtypes: total.dtypes.iter().map(String::as_str).collect(),
            codecs: total.codecs.iter().map(String::as_str).collect(),
            metadata: file.metadata(),
        }
    }

    /// One line for each thing, then the metadata.
    pub fn text(&self) -> String {
        let line = |what: &str, value: String| format!("{what:<10} {value}\n");
        let steps = self.first_step.zip(self.last_step);
        let (raw, stored) = (bytes(self.raw_bytes), bytes(self.stored_bytes));
        let mut text = [
            line("file", self.file.clone()),
            line("size", format!("{} in {}", bytes(self.file_bytes), counted(self.batches, "batch"))),
            line("end", self.reason.map_or_else(|| "finished".to_owned(), |reason| format!("none: {reason}"))),
            line("tensors", format!("{} of {}", count(self.packets), counted(self.names, "name"))),
            line("dropped", count(self.dropped_packets)),
            line("steps", or_dash(steps, |(first, last)| format!("{first} to {last}"))),
            line("tokens", count(self.tokens)),
            line("types", self.dtypes.join(", ")),
            line("codecs", self.codecs.join(", ")),
            line("elements", format!("{raw} in {stored}, {}×", or_dash(self.ratio, ratio))),
            line("loss", self.codec_loss.map_or_else(|| LOSSLESS.to_owned(), |loss| codec_loss_text(loss, self.ratio))),
        ]
        .concat();
        let width = self.metadata.keys().map(String::len).max().unwrap_or(0);
        text.push_str("about\n");
        for (key, value) in self.metadata {
            // Prompts have line breaks.
            text.push_str(&format!("  {key:<width$}  {}\n", value.lines().collect::<Vec<_>>().join(" / ")));
        }
        text
    }
}

/// A stream in another form.
#[derive(Serialize)]
pub struct ConvertedStream {
    output: String,
    packets: u64,
    /// Bytes at the end of a packet file that are no whole packet.
    torn_bytes: u64,
    /// Packets that the shapes of a packet file tell of and the file does not have.
    missing_packets: u64,
    /// What codecs made of the elements, in the stream that was written or the one that was read.
    stored: Option<Stored>,
}

impl ConvertedStream {
    /// Everything that the input has was written.
    pub fn whole(output: &Path, packets: u64) -> Self {
        Self { output: output.display().to_string(), packets, torn_bytes: 0, missing_packets: 0, stored: None }
    }

    /// Made from a packet file, which may have been cut off.
    pub fn of_packets(output: &Path, read: &FromPackets) -> Self {
        let (torn_bytes, missing_packets) = (read.torn_bytes, read.missing_packets);
        Self { torn_bytes, missing_packets, ..Self::whole(output, read.packets) }
    }

    /// With what codecs made of the elements, in the stream that was written or the one that was read.
    pub fn stored_as(self, stored: Stored) -> Self {
        Self { stored: Some(stored), ..self }
    }

    /// Whether the input was whole.
    pub fn is_whole(&self) -> bool {
        self.torn_bytes == 0 && self.missing_packets == 0
    }

    /// How many tensors are where, and what they lost.
    pub fn text(&self) -> String {
        let lossy = self.stored.as_ref().and_then(|stored| Some((stored.codec_loss.as_ref()?, stored.ratio())));
        let loss = lossy.map_or_else(String::new, |(loss, ratio)| format!("lossy: {}\n", codec_loss_text(loss, ratio)));
        format!("{}\n{loss}{}\n", counted(self.packets, "tensor"), self.output)
    }

    /// What the input lacked.
    pub fn notes(&self) -> Vec<String> {
        let torn = || format!("the last {} are no whole packet and were left out", bytes(self.torn_bytes));
        let missing = || format!("the file with the shapes tells of {} more", counted(self.missing_packets, "packet"));
        [(self.torn_bytes > 0).then(torn), (self.missing_packets > 0).then(missing)].into_iter().flatten().collect()
    }
}

/// Tensors in which two streams differ, then how many were compared.
pub fn tensors_diff_text(report: &DiffReport) -> String {
    let mut text = String::new();
    for tensor in &report.different {
        text.push_str(&format!("different  {}: {}\n", key_text(&tensor.key), difference_text(tensor)));
    }
    let lists = [("first only", &report.only_in_first), ("second only", &report.only_in_second)];
    for (what, keys) in lists {
        keys.iter().for_each(|key| text.push_str(&format!("{what:<11} {}\n", key_text(key))));
    }
    text.push_str(&format!(
        "{} compared: {} equal, {} within the tolerance, {} different; largest difference {:.2e}\n",
        counted(report.compared, "tensor"),
        count(report.equal),
        count(report.within_tolerance),
        count(report.different.len() as u64),
        report.max_abs_diff,
    ));
    text
}

fn key_text(key: &TensorKey) -> String {
    let token = key.token_index.map_or_else(String::new, |index| format!(" token {index}"));
    let occurrence = if key.occurrence == 0 { String::new() } else { format!(" no. {}", key.occurrence + 1) };
    format!("{} step {}{token}{occurrence}", key.name, key.step)
}

fn difference_text(tensor: &TensorDiff) -> String {
    match (&tensor.reason, tensor.max_abs_diff, tensor.mse) {
        (Some(reason), ..) => reason.clone(),
        (None, Some(largest), Some(mse)) => format!("by {largest:.2e} at most, MSE {mse:.2e}"),
        _ => "not comparable".to_owned(),
    }
}

/// What ending a stream kept of it, and what was cut off.
pub fn tensors_recovered_text(recovered: &Recovered) -> String {
    let content = format!(
        "{} and {} in {}",
        counted(recovered.packets, "tensor"),
        counted(recovered.tokens, "token"),
        counted(recovered.batches, "batch"),
    );
    if recovered.was_finished {
        return format!("nothing to do: {content}\n");
    }
    let mut text = format!("{content}\n");
    if let Some(reason) = &recovered.reason {
        text.push_str(&format!("was       {reason}\n"));
    }
    if recovered.untold_packets > 0 {
        let untold = counted(recovered.untold_packets, "tensor");
        text.push_str(&format!("missing   {untold} that were dropped, of names that were not told in time\n"));
    }
    if let Some(tail) = &recovered.tail {
        text.push_str(&format!("cut off   {}, kept in {}\n", bytes(recovered.cut_bytes), tail.display()));
    }
    if let Some(tokens) = &recovered.tokens_file {
        text.push_str(&format!("tokens    {}\n", tokens.display()));
    }
    text
}

/// The columns of [`tensors_stats_text`].
const STATS_HEADING: [&str; 11] =
    ["name", "count", "dropped", "steps", "elements", "stored", "ratio", "max error", "mse", "min cosine", "codec"];

/// A line of figures for each name, and what was lost.
pub fn tensors_stats_text(figures: &StreamStats) -> String {
    let mut lines = vec![STATS_HEADING.map(str::to_owned).to_vec()];
    lines.extend(figures.names.iter().map(|stats| stats_line(&stats.name, stats)));
    lines.push(stats_line("total", &figures.total));
    let loss = figures.codec_loss.as_ref().map(|loss| codec_loss_text(loss, figures.total.ratio()));
    table(&lines) + &loss.map_or_else(String::new, |loss| format!("\nlossy: {loss}\n"))
}

fn stats_line(name: &str, stats: &NameStats) -> Vec<String> {
    let error = |value: Option<f64>| value.map_or_else(|| "exact".to_owned(), |value| format!("{value:.2e}"));
    vec![
        name_text(name).to_owned(),
        count(stats.packets),
        count(stats.dropped_packets),
        or_dash(stats.min_step.zip(stats.max_step), |(first, last)| format!("{first}–{last}")),
        bytes(stats.raw_bytes),
        bytes(stats.stored_bytes),
        or_dash(stats.ratio(), ratio),
        error(stats.max_error),
        error(stats.mse),
        match stats.max_error {
            Some(_) => or_dash(stats.min_cosine, cosine_text),
            None => "exact".to_owned(),
        },
        stats.codecs.iter().map(String::as_str).collect::<Vec<_>>().join(","),
    ]
}

/// What is damaged, then how many tensors are whole.
pub fn tensors_verify_text(report: &VerifyReport) -> String {
    let mut text: String = report.problems.iter().map(problem_text).collect();
    let damaged = report.problems.iter().filter(|problem| problem.packet.is_some()).count() as u64;
    text.push_str(&format!(
        "{} of {} are whole, {} stored, {} dropped, {}\n",
        count(report.packets - damaged.min(report.packets)),
        counted(report.packets, "tensor"),
        bytes(report.stored_bytes),
        count(report.dropped_packets),
        if report.is_finished { "finished" } else { "not finished" },
    ));
    text
}

fn problem_text(problem: &Problem) -> String {
    match (problem.packet, &problem.name) {
        (Some(packet), Some(name)) => format!("damaged   packet {packet} {name}: {}\n", problem.reason),
        _ => format!("unfit     {}\n", problem.reason),
    }
}
