//! What a capture came to, and what there is to capture.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dwell_capture::{CaptureCounts, Group, Layers, ListedTensor, NameParts, shape_text};
use dwell_metadata::Generation;
use dwell_tensors::{CodecLoss, TensorFile};
use serde::Serialize;

use super::tensors::codec_loss_text;
use super::{bytes, count, counted, ratio, seconds, speed_line, table};

/// Tensors that belong to no group.
const OTHER: &str = "other";

/// What is known when a capture has ended, beside the stream itself.
#[derive(Clone, Copy, Debug)]
pub struct CaptureOutcome<'a> {
    /// What was captured, with the groups, in the order of the graph.
    pub tensors: &'a [(String, Option<Group>)],
    /// The stream's last counts.
    pub counts: &'a CaptureCounts,
    /// Packets that the stream had before.
    pub resumed_packets: u64,
    /// From the stream's opening to its last byte.
    pub duration_ns: u64,
    /// Whether the stream has its index; else it can be resumed.
    pub is_finished: bool,
    /// Whether the user interrupted before all was done.
    pub is_interrupted: bool,
    /// Tokens and speed.
    pub generation: Option<Generation>,
    /// Whether the prompt has some tensors for its last position only.
    pub has_last_position_only: bool,
}

/// What a capture came to.
#[derive(Serialize)]
pub struct CaptureSummary {
    path: PathBuf,
    packets: u64,
    tokens: u64,
    raw_bytes: u64,
    stored_bytes: u64,
    file_bytes: u64,
    dropped_packets: u64,
    spilled_packets: u64,
    resumed_packets: u64,
    peak_memory_bytes: u64,
    waited_s: f64,
    duration_s: f64,
    is_finished: bool,
    is_interrupted: bool,
    groups: Vec<GroupSummary>,
    /// What the codec lost; none if it is lossless.
    codec_loss: Option<CodecLoss>,
    generation: Option<Generation>,
    /// Whether of the prompt some tensors have the last position alone.
    has_last_position_only: bool,
}

/// What of it belongs to one group.
#[derive(Serialize, Default)]
struct GroupSummary {
    group: &'static str,
    tensors: u64,
    packets: u64,
    raw_bytes: u64,
    stored_bytes: u64,
}

impl CaptureSummary {
    /// From what the worker told and what the file holds.
    pub fn new(outcome: &CaptureOutcome<'_>, file: &TensorFile) -> Self {
        let groups = groups(outcome.tensors, file);
        let counts = outcome.counts;
        Self {
            path: file.path().to_owned(),
            packets: file.packets().len() as u64,
            tokens: file.tokens().len() as u64,
            raw_bytes: groups.iter().map(|group| group.raw_bytes).sum(),
            stored_bytes: groups.iter().map(|group| group.stored_bytes).sum(),
            file_bytes: file.file_bytes(),
            dropped_packets: file.dropped().values().map(|(packets, _)| packets).sum(),
            spilled_packets: counts.spilled_packets,
            resumed_packets: outcome.resumed_packets,
            peak_memory_bytes: counts.peak_memory_bytes,
            waited_s: counts.waited_ns as f64 / 1e9,
            duration_s: outcome.duration_ns as f64 / 1e9,
            is_finished: outcome.is_finished,
            is_interrupted: outcome.is_interrupted,
            groups,
            codec_loss: file.stored().codec_loss,
            generation: outcome.generation,
            has_last_position_only: outcome.has_last_position_only,
        }
    }

    /// Whether something is missing.
    pub fn has_loss(&self) -> bool {
        self.dropped_packets > 0 || self.is_interrupted
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| text.push_str(&format!("{name:<9} {value}\n"));
        if let Some(generation) = &self.generation {
            line("speed", speed_line(generation));
        }
        line("captured", self.captured_line());
        line("lost", self.lost_line());
        if let Some(loss) = &self.codec_loss {
            let ratio = (self.stored_bytes > 0).then(|| self.raw_bytes as f64 / self.stored_bytes as f64);
            line("precision", codec_loss_text(loss, ratio));
        }
        if self.packets + self.dropped_packets == 0 {
            line("note", "nothing was captured: no step that was computed is one of --phase and --every".into());
        } else if self.has_last_position_only {
            line(
                "note",
                "of a prompt, the last layer has its last position alone; --all-positions computes all".into(),
            );
        }
        text.push('\n');
        text.push_str(&self.group_table());
        let state = if self.is_finished { "" } else { "unfinished stream: " };
        text.push_str(&format!("\n{state}{}\n", self.path.display()));
        text
    }

    fn captured_line(&self) -> String {
        let rate = self.raw_bytes as f64 / self.duration_s.max(1e-9);
        format!(
            "{} of {}, {} of tensors in a file of {} with its index, {}/s over {}; the model waited {} for the disk",
            counted(self.packets, "packet"),
            counted(self.tokens, "token"),
            bytes(self.raw_bytes),
            bytes(self.file_bytes),
            bytes(rate as u64),
            seconds(self.duration_s),
            seconds(self.waited_s),
        )
    }

    fn lost_line(&self) -> String {
        match (self.dropped_packets, self.is_interrupted) {
            (0, false) if self.codec_loss.is_some() => "no packets; precision, by the codec".to_owned(),
            (0, false) => "nothing".to_owned(),
            (0, true) => "what would have come after the interruption".to_owned(),
            (dropped, _) => format!("{} dropped, counted in the stream by name", counted(dropped, "packet")),
        }
    }

    fn group_table(&self) -> String {
        let heads = ["group", "tensors", "packets", "raw", "stored", "ratio"].map(str::to_owned).to_vec();
        let rows = self.groups.iter().map(|group| {
            vec![
                group.group.to_owned(),
                count(group.tensors),
                count(group.packets),
                bytes(group.raw_bytes),
                bytes(group.stored_bytes),
                ratio(group.raw_bytes as f64 / group.stored_bytes.max(1) as f64),
            ]
        });
        table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>())
    }
}

fn groups(tensors: &[(String, Option<Group>)], file: &TensorFile) -> Vec<GroupSummary> {
    let name_of = |group: Option<Group>| group.map_or(OTHER, Group::name);
    let group_of: BTreeMap<&str, &str> = tensors.iter().map(|(name, group)| (name.as_str(), name_of(*group))).collect();
    let mut found: BTreeMap<&'static str, GroupSummary> = BTreeMap::new();
    for (_, group) in tensors {
        let group = name_of(*group);
        found.entry(group).or_insert(GroupSummary { group, ..GroupSummary::default() }).tensors += 1;
    }
    for entry in file.packets() {
        let group = group_of.get(file.name(entry)).copied().unwrap_or(OTHER);
        if let Some(summary) = found.get_mut(group) {
            summary.packets += 1;
            summary.raw_bytes += entry.raw_bytes;
            summary.stored_bytes += entry.payload_bytes;
        }
    }
    let order = Group::NAMES.iter().chain([&OTHER]);
    order.filter_map(|group| found.remove(group)).collect()
}

/// What there is to capture; tensors that differ in their layer alone are one line.
pub fn list_text(tensors: &[ListedTensor]) -> String {
    let mut lines: Vec<(Vec<String>, Vec<u32>)> = Vec::new();
    for tensor in tensors.iter().filter(|tensor| !tensor.is_plain_view) {
        let parts = NameParts::of(&tensor.name);
        let number = if parts.number > 1 { format!("#{}", parts.number) } else { String::new() };
        let layer = if parts.layer.is_some() { "-N" } else { "" };
        let key = vec![
            format!("{}{layer}{number}", parts.base),
            format!("({})", shape_text(&tensor.shape)),
            tensor.type_name.clone(),
            tensor.op.clone(),
            tensor.group.map_or(OTHER, Group::name).to_owned(),
        ];
        match lines.iter_mut().find(|(known, _)| *known == key) {
            Some((_, layers)) => layers.extend(parts.layer),
            None => lines.push((key, parts.layer.into_iter().collect())),
        }
    }
    let heads = ["tensor", "layers", "shape", "type", "op", "group"].map(str::to_owned).to_vec();
    let rows = lines.into_iter().map(|(mut cells, layers)| {
        let layers =
            if layers.is_empty() { "–".to_owned() } else { layers.into_iter().collect::<Layers>().to_string() };
        cells.insert(1, layers);
        cells
    });
    let mut text = table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>());
    let views = tensors.iter().filter(|tensor| tensor.is_plain_view).count();
    text.push_str(&format!("and {} without names of their own; N is the layer\n", counted(views as u64, "view")));
    text
}
