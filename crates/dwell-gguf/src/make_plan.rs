//! Everything that a made file will contain, before a byte of it is written.

use std::io::{self, Write};

use crate::make_spec::{MakeArchitecture, MakeSpec};
use crate::quantize::append_row;
use crate::random::SplitMix64;
use crate::reader::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT_BYTES};
use crate::spec_error::SpecError;
use crate::tokenizer;
use crate::writer::HeaderWriter;
use crate::{GgmlType, MetadataValue, WeightType};

/// Deviation of the random embeddings, as in freshly initialised models.
const EMBEDDING_DEVIATION: f32 = 0.02;
/// Of each group of so many layers the last one attends to everything; 2 gives both kinds in the smallest models.
const WINDOW_GROUP_LAYERS: u32 = 2;

/// A tensor of a made file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlan {
    /// Name.
    pub name: String,
    /// Dimensions, the row first.
    pub dimensions: Vec<u64>,
    /// Type of its blocks.
    pub ggml_type: GgmlType,
    /// First byte, counted from the section with the weights.
    pub data_offset: u64,
    /// Bytes that it takes, without the padding after it.
    pub size_bytes: u64,
    fill: Fill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// Norms.
    Ones,
    /// Small values, so that what the layers add decides about the next token and not the token before it.
    Embedding(WeightType),
    /// Values that keep the size of what goes through, however long the rows are.
    Matrix(WeightType),
}

/// A checked shape with its metadata and tensors.
#[derive(Clone, Debug)]
pub struct MakePlan {
    spec: MakeSpec,
    values: Vec<(String, MetadataValue)>,
    tensors: Vec<TensorPlan>,
    file_bytes: u64,
}

impl MakePlan {
    /// Check the shape and lay out the file.
    pub fn new(spec: MakeSpec) -> Result<MakePlan, SpecError> {
        spec.check()?;
        let (tensors, data_bytes) = lay_out(&spec)?;
        let values = values(&spec);
        let mut plan = MakePlan { spec, values, tensors, file_bytes: 0 };
        let header_bytes = plan.write_header(io::sink()).expect("writing to nowhere does not fail");
        plan.file_bytes = header_bytes
            .checked_add(data_bytes)
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .ok_or(SpecError::TooLarge)?;
        Ok(plan)
    }

    /// The shape.
    pub fn spec(&self) -> &MakeSpec {
        &self.spec
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[TensorPlan] {
        &self.tensors
    }

    /// Bytes that the file will have.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Write the whole file, row by row; `on_progress` gets the bytes written so far, often.
    pub(crate) fn write(&self, mut out: impl Write, on_progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        let mut written_bytes = self.write_header(&mut out)?;
        on_progress(written_bytes);
        let mut row = Vec::new();
        let mut encoded = Vec::new();
        for (index, tensor) in self.tensors.iter().enumerate() {
            let mut random = SplitMix64::for_stream(self.spec.seed, index as u64);
            let (row_values, rows) = row_values_and_rows(&tensor.dimensions);
            for _ in 0..rows {
                encoded.clear();
                tensor.fill.fill_row(row_values, &mut random, &mut row, &mut encoded);
                out.write_all(&encoded)?;
                written_bytes += encoded.len() as u64;
                on_progress(written_bytes);
            }
            let padding = written_bytes.next_multiple_of(DEFAULT_ALIGNMENT_BYTES) - written_bytes;
            out.write_all(&[0; DEFAULT_ALIGNMENT_BYTES as usize][..padding as usize])?;
            written_bytes += padding;
        }
        out.flush()?;
        on_progress(written_bytes);
        Ok(())
    }

    /// Write everything before the weights, and say how many bytes that was.
    fn write_header(&self, out: impl Write) -> io::Result<u64> {
        let key_value_count = self.values.len() as u64 + tokenizer::ARRAYS;
        let mut header = HeaderWriter::begin(out, self.tensors.len() as u64, key_value_count)?;
        self.values.iter().try_for_each(|(key, value)| header.key_value(key, value))?;
        tokenizer::write_arrays(&mut header, self.spec.vocabulary)?;
        for tensor in &self.tensors {
            header.tensor(&tensor.name, &tensor.dimensions, tensor.ggml_type.id, tensor.data_offset)?;
        }
        header.pad_to(DEFAULT_ALIGNMENT_BYTES)?;
        Ok(header.written_bytes())
    }
}

fn row_values_and_rows(dimensions: &[u64]) -> (u64, u64) {
    let (row_values, rest) = dimensions.split_first().expect("planned tensors have dimensions");
    (*row_values, rest.iter().product())
}

impl Fill {
    fn weight_type(self) -> WeightType {
        match self {
            Fill::Ones => WeightType::F32,
            Fill::Embedding(weight_type) | Fill::Matrix(weight_type) => weight_type,
        }
    }

    fn fill_row(self, row_values: u64, random: &mut SplitMix64, row: &mut Vec<f32>, encoded: &mut Vec<u8>) {
        let deviation = match self {
            Fill::Ones => None,
            Fill::Embedding(_) => Some(EMBEDDING_DEVIATION),
            Fill::Matrix(_) => Some(1.0 / (row_values as f32).sqrt()),
        };
        row.clear();
        row.extend((0..row_values).map(|_| deviation.map_or(1.0, |deviation| random.next_normal() * deviation)));
        append_row(self.weight_type(), row, encoded);
    }
}

/// The tensors one after the other, each at a multiple of the alignment, and the bytes of all of them.
fn lay_out(spec: &MakeSpec) -> Result<(Vec<TensorPlan>, u64), SpecError> {
    let mut data_offset: u64 = 0;
    let mut tensors = Vec::new();
    for (name, dimensions, fill) in tensor_list(spec) {
        let ggml_type = fill.weight_type().ggml_type();
        let size_bytes = ggml_type.tensor_bytes(&dimensions).ok_or(SpecError::TooLarge)?;
        tensors.push(TensorPlan { name, dimensions, ggml_type, data_offset, size_bytes, fill });
        data_offset = data_offset
            .checked_add(size_bytes)
            .and_then(|end| end.checked_next_multiple_of(DEFAULT_ALIGNMENT_BYTES))
            .ok_or(SpecError::TooLarge)?;
    }
    Ok((tensors, data_offset))
}

type ListedTensor = (String, Vec<u64>, Fill);

fn tensor_list(spec: &MakeSpec) -> Vec<ListedTensor> {
    let (embedding, vocabulary) = (u64::from(spec.embedding), u64::from(spec.vocabulary));
    let matrix = Fill::Embedding(spec.weight_type);
    let mut tensors = vec![("token_embd.weight".to_owned(), vec![embedding, vocabulary], matrix)];
    for layer in 0..spec.layers {
        let parts = attention_tensors(spec).into_iter().chain(feed_forward_tensors(spec));
        tensors.extend(parts.map(|(part, dimensions, fill)| (format!("blk.{layer}.{part}.weight"), dimensions, fill)));
    }
    tensors.push(("output_norm.weight".to_owned(), vec![embedding], Fill::Ones));
    if !spec.tied_output {
        tensors.push(("output.weight".to_owned(), vec![embedding, vocabulary], matrix));
    }
    tensors
}

type LayerTensor = (&'static str, Vec<u64>, Fill);

fn attention_tensors(spec: &MakeSpec) -> Vec<LayerTensor> {
    let embedding = u64::from(spec.embedding);
    let head_dim = u64::from(spec.head_dim());
    let (query, kept) = (spec.attention_values(), u64::from(spec.kv_heads) * head_dim);
    let matrix = Fill::Matrix(spec.weight_type);
    let mut tensors = vec![
        ("attn_norm", vec![embedding], Fill::Ones),
        ("attn_q", vec![embedding, query], matrix),
        ("attn_k", vec![embedding, kept], matrix),
        ("attn_v", vec![embedding, kept], matrix),
        ("attn_output", vec![query, embedding], matrix),
    ];
    if spec.architecture == MakeArchitecture::Gemma3 {
        tensors.push(("attn_q_norm", vec![head_dim], Fill::Ones));
        tensors.push(("attn_k_norm", vec![head_dim], Fill::Ones));
        tensors.push(("post_attention_norm", vec![embedding], Fill::Ones));
    }
    tensors
}

fn feed_forward_tensors(spec: &MakeSpec) -> Vec<LayerTensor> {
    let (embedding, middle) = (u64::from(spec.embedding), u64::from(spec.feed_forward));
    let matrix = Fill::Matrix(spec.weight_type);
    let mut tensors = vec![("ffn_norm", vec![embedding], Fill::Ones)];
    if spec.experts == 0 {
        tensors.push(("ffn_gate", vec![embedding, middle], matrix));
        tensors.push(("ffn_up", vec![embedding, middle], matrix));
        tensors.push(("ffn_down", vec![middle, embedding], matrix));
    } else {
        let experts = u64::from(spec.experts);
        tensors.push(("ffn_gate_inp", vec![embedding, experts], Fill::Matrix(WeightType::F32)));
        tensors.push(("ffn_gate_exps", vec![embedding, middle, experts], matrix));
        tensors.push(("ffn_up_exps", vec![embedding, middle, experts], matrix));
        tensors.push(("ffn_down_exps", vec![middle, embedding, experts], matrix));
    }
    if spec.architecture == MakeArchitecture::Gemma3 {
        tensors.push(("post_ffw_norm", vec![embedding], Fill::Ones));
    }
    tensors
}

fn values(spec: &MakeSpec) -> Vec<(String, MetadataValue)> {
    let number = MetadataValue::U32;
    let text = |text: &str| MetadataValue::Text(text.to_owned());
    let mut values: Vec<(String, MetadataValue)> = [
        ("general.architecture", text(spec.architecture.name())),
        ("general.type", text("model")),
        ("general.name", MetadataValue::Text(name(spec))),
        ("general.file_type", number(spec.weight_type.file_type())),
        ("general.quantization_version", number(2)),
        (ALIGNMENT_KEY, number(DEFAULT_ALIGNMENT_BYTES as u32)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    let shape = architecture_values(spec);
    values.extend(shape.into_iter().map(|(key, value)| (format!("{}.{key}", spec.architecture.name()), value)));
    values.extend(tokenizer::values());
    values
}

fn architecture_values(spec: &MakeSpec) -> Vec<(&'static str, MetadataValue)> {
    let number = MetadataValue::U32;
    let head_dim = spec.head_dim();
    let mut values = vec![
        ("context_length", number(spec.context)),
        ("embedding_length", number(spec.embedding)),
        ("block_count", number(spec.layers)),
        ("feed_forward_length", number(spec.feed_forward)),
        ("attention.head_count", number(spec.heads)),
        ("attention.head_count_kv", number(spec.kv_heads)),
        ("attention.key_length", number(head_dim)),
        ("attention.value_length", number(head_dim)),
        ("attention.layer_norm_rms_epsilon", MetadataValue::F32(1e-5)),
        ("rope.dimension_count", number(head_dim)),
        ("rope.freq_base", MetadataValue::F32(10_000.0)),
        ("vocab_size", number(spec.vocabulary)),
    ];
    if spec.experts > 0 {
        values.push(("expert_count", number(spec.experts)));
        values.push(("expert_used_count", number(spec.experts_used)));
    }
    if let Some(window) = spec.window {
        values.push(("attention.sliding_window", number(window)));
        values.push(("attention.sliding_window_pattern", number(WINDOW_GROUP_LAYERS)));
    }
    values
}

/// Says what is in the file, so that a trace of it explains itself.
fn name(spec: &MakeSpec) -> String {
    let MakeSpec { layers, embedding, heads, kv_heads, seed, .. } = spec;
    let weight_type = spec.weight_type.name();
    format!("made {} {layers}x{embedding} {heads}/{kv_heads} heads {weight_type} seed {seed}", spec.architecture.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_more_bytes_than_can_be_counted_is_refused() {
        let (embedding, feed_forward) = (1 << 31, 1 << 31);
        let dense = MakeSpec { embedding, feed_forward, ..MakeSpec::default() };
        assert_eq!(MakePlan::new(dense.clone()).unwrap_err(), SpecError::TooLarge);
        let experts = MakeSpec { experts: 1024, experts_used: 1, ..dense };
        assert_eq!(MakePlan::new(experts).unwrap_err(), SpecError::TooLarge);
    }

    #[test]
    fn the_windowed_architecture_has_its_extra_norms() {
        let spec = MakeSpec { architecture: MakeArchitecture::Gemma3, layers: 1, ..MakeSpec::default() };
        let plan = MakePlan::new(spec).unwrap();
        for (part, values) in
            [("attn_q_norm", 16), ("attn_k_norm", 16), ("post_attention_norm", 64), ("post_ffw_norm", 64)]
        {
            let name = format!("blk.0.{part}.weight");
            let tensor = plan.tensors().iter().find(|tensor| tensor.name == name).unwrap();
            assert_eq!((&tensor.dimensions[..], tensor.ggml_type), (&[values][..], GgmlType::F32), "{name}");
        }
    }

    #[test]
    fn experts_have_a_dimension_of_their_own_and_a_router_of_floats() {
        let spec = MakeSpec { experts: 8, experts_used: 2, layers: 1, ..MakeSpec::default() };
        let plan = MakePlan::new(spec).unwrap();
        let expected: [(&str, &[u64], GgmlType); 4] = [
            ("ffn_gate_inp", &[64, 8], GgmlType::F32),
            ("ffn_gate_exps", &[64, 128, 8], GgmlType::F16),
            ("ffn_up_exps", &[64, 128, 8], GgmlType::F16),
            ("ffn_down_exps", &[128, 64, 8], GgmlType::F16),
        ];
        for (part, dimensions, ggml_type) in expected {
            let name = format!("blk.0.{part}.weight");
            let tensor = plan.tensors().iter().find(|tensor| tensor.name == name).unwrap();
            assert_eq!((&tensor.dimensions[..], tensor.ggml_type), (dimensions, ggml_type), "{name}");
        }
    }
}
